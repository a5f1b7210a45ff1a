"""The plugin for pytest: each test here runs a test run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import weather
from conftest import Answer, Asked, Script, Server, problem

Where = str


@pytest.fixture(params=["server", "fixture"])
def where(
    request: pytest.FixtureRequest, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> Where:
    """What the mark says: a run on the server, or a fixture."""
    shutil.copy(weather.__file__, pytester.path / "weather.py")
    pytester.syspathinsert()
    if request.param == "server":
        server: Server = request.getfixturevalue("server")
        monkeypatch.setenv("SPANREEL_URL", server.url)
        return f"run={weather.TRACE!r}"
    folder: Path = request.getfixturevalue("folder")
    shutil.copytree(folder, pytester.path / "fixtures" / "weather")
    return "fixture='fixtures/weather'"


def run(
    pytester: pytest.Pytester, where: Where, body: str, *options: str, mark: str = ""
) -> pytest.RunResult:
    """Runs a module of tests; `MARK` in it is the mark."""
    mark = f"@pytest.mark.spanreel({where}{mark and ', '}{mark})"
    head = "import os, pytest, urllib.error, weather\n"
    pytester.makepyfile(test_agent=head + body.replace("MARK", mark))
    loops = "asyncio_default_fixture_loop_scope=function"
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", "-o", loops, *options)


DIVERGES = """
MARK
def test_other():
    try:
        weather.agent("What is the weather in Lyon?")
    except urllib.error.HTTPError as error:
        error.close()  # the agent swallows it
"""


def test_a_run_is_not_simulated(pytester: pytest.Pytester, where: Where) -> None:
    body = """
MARK
def test_same(spanreel):
    assert os.environ["OPENAI_BASE_URL"] == spanreel.openai_base_url
    assert spanreel.openai_base_url == spanreel.env["OPENAI_BASE_URL"]
    assert weather.agent(weather=lambda city: spanreel.tool("get_weather", {"city": city}))
    assert spanreel.report().verdict == "same"

def test_after():
    assert "OPENAI_BASE_URL" not in os.environ
"""
    run(pytester, where, body).assert_outcomes(passed=2)


def test_a_swallowed_divergence_passes(pytester: pytest.Pytester, where: Where) -> None:
    result = run(pytester, where, DIVERGES)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*the verdict is 'diverged', not 'same'*",
            "first divergence at step 0: model_call gpt-4o-mini, prompt (spanreel_divergence)",
            "*[[]-Paris*{+Lyon*",
        ]
    )
    assert "Traceback" not in result.stdout.str()


def test_a_divergence_hides_behind_its_exception(pytester: pytest.Pytester, where: Where) -> None:
    body = """
MARK
def test_other():
    weather.agent("What is the weather in Lyon?")
"""
    result = run(pytester, where, body, "-W", "ignore")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*HTTPError*", "*Captured spanreel call*", "*{+Lyon*"])


def test_the_divergence_of_a_teardown_passes(pytester: pytest.Pytester, where: Where) -> None:
    body = """
@pytest.fixture
def late():
    yield
    with pytest.raises(urllib.error.HTTPError) as error:
        weather.agent("What is the weather in Lyon?")
    error.value.close()

MARK
def test_same(late):
    weather.agent()
"""
    result = run(pytester, where, body)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(
        ["*ERROR at teardown of test_same*", "*an extra call of gpt-4o-mini*"]
    )


def test_a_fixture_reads_the_environment_of_before(pytester: pytest.Pytester, where: Where) -> None:
    """Scenario: an autouse fixture of session scope builds the client.

    Guarantee: it reads the environment of the simulation.
    """
    body = """
@pytest.fixture(scope="session", autouse=True)
def base_url():
    return os.environ["OPENAI_BASE_URL"]

MARK
class TestAgent:
    @pytest.fixture(autouse=True)
    def _own(self, monkeypatch):
        assert "SPANREEL_SIMULATION_URL" in os.environ

    def test_same(self, base_url):
        assert weather.agent(base_url=base_url) == weather.ANSWER
"""
    run(pytester, where, body).assert_outcomes(passed=1)


def test_a_client_that_asks_elsewhere_passes(pytester: pytest.Pytester, where: Where) -> None:
    body = """
MARK
def test_elsewhere():
    pass

MARK
def test_skipped_within():
    pytest.skip("for now")

@pytest.mark.skip
MARK
def test_skipped():
    pass
"""
    result = run(pytester, where, body)
    result.assert_outcomes(failed=1, skipped=2)
    result.stdout.fnmatch_lines(["*nothing was asked of the simulation*"])


@pytest.mark.parametrize(
    ("mark", "passes"),
    [("", False), ("unused='ignore'", True), ("unused='fail'", False), ("verdict=None", True)],
)
def test_unused_steps_are_told_otherwise(
    pytester: pytest.Pytester, where: Where, mark: str, passes: bool
) -> None:
    body = """
MARK
def test_first_call():
    weather.chat(os.environ["OPENAI_BASE_URL"], [{"role": "user", "content": weather.QUESTION}])
"""
    result = run(pytester, where, body, mark=mark)
    result.assert_outcomes(passed=int(passes), failed=int(not passes))
    if not passes:
        result.stdout.fnmatch_lines(["1 recorded model call not made:", "*step 2 model_call*"])


def test_an_expected_divergence_fails(pytester: pytest.Pytester, where: Where) -> None:
    run(pytester, where, DIVERGES, mark="verdict='diverged'").assert_outcomes(passed=1)
    expected = DIVERGES.replace("MARK", "@pytest.mark.xfail(strict=True)\nMARK")
    run(pytester, where, expected).assert_outcomes(xfailed=1)


def test_async_tests_are_not_judged(pytester: pytest.Pytester, where: Where) -> None:
    body = """
import asyncio
pytestmark = pytest.mark.asyncio

MARK
async def test_same():
    assert await asyncio.to_thread(weather.agent) == weather.ANSWER

MARK
async def test_nothing():
    pass
"""
    run(pytester, where, body).assert_outcomes(passed=1, failed=1)


def test_tests_share_a_session(pytester: pytest.Pytester, where: Where) -> None:
    """Scenario: 8 tests run in two processes at once.

    Guarantee: each has a session and a report of its own.
    """
    body = """
MARK
@pytest.mark.parametrize("n", range(8))
def test_same(n, spanreel):
    assert weather.agent() == weather.ANSWER
    assert len(spanreel.report().matches) == 3

MARK
@pytest.mark.parametrize("n", ["a/b", "a b"])
def test_other(n):
    with pytest.raises(urllib.error.HTTPError) as error:
        weather.agent("What is the weather in Lyon?")
    error.value.close()
"""
    result = run(
        pytester, where, body, "-n", "2", "--spanreel-report", str(pytester.path / "reports")
    )
    result.assert_outcomes(passed=8, failed=2)
    files = sorted((pytester.path / "reports").iterdir())
    reports = [json.loads(file.read_text()) for file in files]
    assert len(reports) == 10
    verdicts = {report["test"]: report["report"]["verdict"] for report in reports}
    assert list(verdicts.values()).count("same") == 8
    assert verdicts["test_agent.py::test_other[a/b]"] == "diverged"
    assert files[0].name.startswith("test_agent.py-test_other-a-b-")


def test_a_mode_is_ignored(pytester: pytest.Pytester, where: Where) -> None:
    body = """
MARK
def test_mode(spanreel):
    assert spanreel.mode == os.environ["MODE"]
    weather.agent()
"""
    for options, mark, mode in [
        ((), "", "strict"),
        ((), "mode='lenient'", "lenient"),
        (("--spanreel-mode=lenient",), "mode='strict'", "lenient"),
    ]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MODE", mode)
            run(pytester, where, body, *options, mark=mark).assert_outcomes(passed=1)


SAME = """
MARK
def test_same():
    weather.agent()
"""


def fails_at_setup(pytester: pytest.Pytester, mark: str, *lines: str, options: str = "") -> None:
    """The test of a mark is an error, which says what to do."""
    shutil.copy(weather.__file__, pytester.path / "weather.py")
    pytester.syspathinsert()
    result = run(pytester, mark, SAME, *options.split())
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"*{line}*" for line in lines])
    assert "Traceback" not in result.stdout.str()


def test_a_missing_server_is_a_skip(pytester: pytest.Pytester) -> None:
    fails_at_setup(
        pytester,
        "run='r'",
        "spanreel: POST*check that the server runs*",
        options="--spanreel-url=http://127.0.0.1:9",
    )


def test_a_missing_binary_is_a_skip(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pytester.path / "fixtures" / "weather").mkdir(parents=True)
    monkeypatch.setenv("SPANREEL_BIN", str(pytester.path / "nope"))
    fails_at_setup(pytester, "fixture='fixtures/weather'", "SPANREEL_BIN is *nope*install it*")
    monkeypatch.delenv("SPANREEL_BIN")
    monkeypatch.setenv("PATH", "")
    fails_at_setup(pytester, "fixture='fixtures/weather'", "not on PATH*install it*")


@pytest.mark.parametrize(
    ("mark", "line"),
    [
        ("", "needs either run= or fixture="),
        ("run='r', fixture='f'", "needs either run= or fixture="),
        ("run='r', modus='lenient'", "does not know modus; it takes run, fixture, mode*"),
        ("'r'", "does not know an argument without a name"),
        ("run='r', unused='maybe'", "unused is 'models', 'ignore' or 'fail'"),
        ("fixture='nope'", "there is no fixture 'nope'; looked for *--format fixture*"),
    ],
)
def test_a_mark_that_says_nothing_is_taken(pytester: pytest.Pytester, mark: str, line: str) -> None:
    fails_at_setup(pytester, mark, line)


def test_a_partial_run_is_simulated(pytester: pytest.Pytester, script: Script) -> None:
    reasons = [{"code": "missing_output", "class": "content", "detail": "d"}]
    script.will(problem("partial_run", 409, partial_reasons=reasons))
    fails_at_setup(
        pytester,
        "run='r'",
        "missing_output*allow_partial=True in the mark",
        options=f"--spanreel-url={script.url}",
    )


def test_an_unmarked_test_has_a_simulation(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_plain(spanreel): pass")
    loops = "asyncio_default_fixture_loop_scope=function"
    result = pytester.runpytest_inprocess("-o", loops)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*the fixture `spanreel` needs the mark*"])


def test_a_lost_report_passes(pytester: pytest.Pytester, script: Script) -> None:
    """Scenario: the server ends while the test runs.

    Guarantee: the test fails, since nobody knows what was asked.
    """

    def answer(asked: Asked) -> Answer:
        if asked.method != "POST":
            return problem("simulation_not_found", 404)
        base = f"{script.url}/sim/0123456789abcdef"
        document = {"run_id": "r", "simulation_id": "0123456789abcdef", "mode": "strict"}
        env = {"OPENAI_BASE_URL": f"{base}/openai/v1"}
        return Answer(201, {**document, "base_url": base, "env": env})

    script.will(answer)
    shutil.copy(weather.__file__, pytester.path / "weather.py")
    pytester.syspathinsert()
    body = "\nMARK\ndef test_it(): pass\n"
    result = run(pytester, "run='r'", body, f"--spanreel-url={script.url}")
    result.assert_outcomes(failed=1, errors=1)
    result.stdout.fnmatch_lines(["*the simulation gave no report: GET*start a new one*"])
    assert "0123456789abcdef" not in result.stdout.str()
