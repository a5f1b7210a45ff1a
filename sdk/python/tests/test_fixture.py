"""The program behind a fixture, when it does not do what it should."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest

import spanreel
from spanreel import fixture

DOCUMENT = {
    "run_id": "r",
    "simulation_id": "s",
    "mode": "strict",
    "base_url": "http://127.0.0.1:1/sim/s",
    "env": {"OPENAI_BASE_URL": "http://127.0.0.1:1/sim/s/openai/v1"},
}
REPORT = {"run_id": "r", "verdict": "same"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder, which these programs do not look into."""
    (tmp_path / "fixture").mkdir()
    return tmp_path / "fixture"


def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """Makes a script the program."""
    path = tmp_path / "spanreel"
    head = "import json, os, sys, time\nsay = lambda x: print(json.dumps(x), flush=True)\n"
    head += f"document, report = {DOCUMENT!r}, {REPORT!r}\n"
    path.write_text(f"#!{sys.executable}\n{head}{body}\n")
    path.chmod(0o700)
    monkeypatch.setenv("SPANREEL_BIN", str(path))


def test_the_program_is_told_otherwise(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = """
given = sys.argv[1:]
for at, word in enumerate(given):
    if given[at - 1] in ("--policy", "--patch"):
        given[at] = json.load(open(word.split("=")[-1]))
say({**document, "given": given})
sys.stdin.read()
say({**report, "answered": len(given)})
"""
    program(tmp_path, monkeypatch, body)
    monkeypatch.chdir(tmp_path)
    with spanreel.simulate_fixture("fixture") as sim:
        plain = ["simulate", str(folder), "--json", "--mode", "strict"]
        assert sim.document["given"] == plain
    assert sim.report().unknown == {"answered": 5}
    assert sim.exit_code == 0
    policy = {"tools": [{"name": "*", "do": "deny"}]}
    (tmp_path / "patch.json").write_text('{"result": 2}')
    with spanreel.simulate_fixture(
        folder,
        "lenient",
        allow_partial=True,
        speed=2,
        policy=policy,
        patch={1: {"result": 1}, "2": Path("patch.json")},
    ) as sim:
        given = sim.document["given"]
    assert given[3:] == [
        *("--mode", "lenient", "--allow-partial", "--speed", "2", "--policy", policy),
        *("--patch", {"result": 1}, "--patch", {"result": 2}),
    ]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (2, spanreel.InvalidRequest),
        (3, spanreel.PartialRun),
        (66, spanreel.RunNotFound),
        (70, spanreel.BinaryFailed),
    ],
)
def test_an_exit_code_is_another_error(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    kind: type[spanreel.SpanreelError],
) -> None:
    program(
        tmp_path, monkeypatch, f"sys.exit(print('the\\x1b[31m reason', file=sys.stderr) or {code})"
    )
    with pytest.raises(kind, match=r"the\\x1b\[31m reason"):
        spanreel.simulate_fixture(folder)


@pytest.mark.parametrize("said", ["'hello'", "{'run_id': 'r'}", "[]"])
def test_another_program_is_taken_for_ours(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    program(tmp_path, monkeypatch, f"say({said}); time.sleep(60)")
    with pytest.raises(spanreel.NotSpanreel):
        spanreel.simulate_fixture(folder)


def test_a_silent_program_is_waited_for(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fixture, "START_TIMEOUT", 0.3)
    pid = tmp_path / "pid"
    program(
        tmp_path, monkeypatch, f"open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    )
    with pytest.raises(spanreel.BinaryFailed, match="nothing in time"):
        spanreel.simulate_fixture(folder)
    time.sleep(0.1)
    if pid.exists():
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid.read_text()), 0)


def test_a_program_that_ends_early_has_a_report(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(
        tmp_path, monkeypatch, "say(document); print('out of disk', file=sys.stderr); sys.exit(70)"
    )
    sim = spanreel.simulate_fixture(folder)
    with pytest.raises(spanreel.BinaryFailed, match="exit code 70: out of disk") as error:
        sim.close()
    assert error.value.exit_code == 70


def test_a_talkative_program_blocks(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scenario: the program writes more to stderr than a pipe holds, and a large report."""
    body = """
say(document)
sys.stderr.write("x" * 1_000_000)
sys.stdin.read()
say({**report, "pad": "y" * 1_000_000})
"""
    program(tmp_path, monkeypatch, body)
    with spanreel.simulate_fixture(folder) as sim:
        pass
    assert len(json.dumps(sim.report().unknown)) > 1_000_000
