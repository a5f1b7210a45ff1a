"""Simulations on a real server and from a fixture: both give the same answers."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import subprocess
import sys
import threading
import urllib.error
from collections.abc import Callable, Iterator
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest
import weather
from conftest import Server

import spanreel
from spanreel import Simulation
from spanreel.simulation import ServerSimulation

Open = Callable[..., Simulation]


@pytest.fixture(params=["server", "fixture"])
def opened(request: pytest.FixtureRequest) -> Open:
    """Opens a simulation of the weather agent's run."""
    if request.param == "server":
        server: Server = request.getfixturevalue("server")

        def on_server(mode: str = "strict", **rest: object) -> Simulation:
            client = spanreel.Client(server.url)
            return client.simulate(weather.TRACE, mode, **rest)  # type: ignore[arg-type]

        return on_server
    folder: Path = request.getfixturevalue("folder")

    def from_fixture(mode: str = "strict", **rest: object) -> Simulation:
        return spanreel.simulate_fixture(folder, mode, **rest)  # type: ignore[arg-type]

    return from_fixture


def test_the_same_agent_diverges(opened: Open) -> None:
    with opened() as sim, sim.environment() as env:
        assert os.environ["OPENAI_BASE_URL"] == sim.openai_base_url == env["OPENAI_BASE_URL"]
        assert weather.agent() == weather.ANSWER
        assert not sim.closed
        assert sim.report().verdict == "same"
    assert sim.closed
    report = sim.report()
    assert report.verdict == "same", report.text()
    assert [match.step_index for match in report.matches] == [0, 1, 2]
    assert {match.rung for match in report.matches} <= {"exact", "volatile"}
    assert (report.extra, report.unused, report.unseen) == ([], [], [])
    assert report.run_id == weather.TRACE
    assert report.unknown == {}
    assert report.saved is not None
    assert (report.saved.model_calls, report.saved.tool_calls) == (2, 1)
    assert sim.close() is report
    assert sim.replayability == "complete"
    assert sim.partial_reasons == []


def test_another_question_is_answered(opened: Open) -> None:
    with opened() as sim, sim.environment():
        with pytest.raises(urllib.error.HTTPError) as error:
            weather.agent("What is the weather in Lyon?")
        error.value.close()
    report = sim.report()
    assert report.verdict == "diverged"
    first = report.first_divergence
    assert first is not None
    assert (first.step_index, first.kind, first.class_) == (0, "model_call", "prompt")
    assert first.unknown == {}
    words = [word for change in first.diffs for word in change.words]
    assert "Paris" in "".join(word.text for word in words if word.op == "delete")
    assert "Lyon" in "".join(word.text for word in words if word.op == "insert")
    text = report.text()
    assert "first divergence at step 0: model_call gpt-4o-mini, prompt" in text
    assert "[-Paris" in text
    assert "{+Lyon" in text


def test_a_tool_answers_what_was_not_recorded(opened: Open) -> None:
    with opened() as sim:
        assert sim.tool("get_weather", {"city": "Paris"}) == {"celsius": 21}
        with pytest.raises(spanreel.Divergence) as error:
            sim.tool("get_weather", {"city": "Lyon"})
        assert error.value.code == "spanreel_divergence"
        assert error.value.status == 422
        with pytest.raises(spanreel.Divergence):
            sim.tool("launch/rocket", {})
        assert {extra.name for extra in sim.report().extra} == {"get_weather", "launch/rocket"}


def test_the_decorator_runs_the_tool(opened: Open) -> None:
    @spanreel.tool(name="get_weather")
    async def slow(city: str) -> dict[str, int]:
        raise AssertionError(city)

    with opened() as sim, sim.environment():
        assert asyncio.run(slow("Paris")) == {"celsius": 21}
        with pytest.raises(spanreel.Divergence):
            weather.get_weather("Lyon")
    with pytest.raises(AssertionError, match="tool itself ran"):
        weather.get_weather("Paris")


def test_a_policy_or_a_patch_is_ignored(opened: Open, tmp_path: Path) -> None:
    policy = {"tools": [{"name": "get_*", "do": "deny"}]}
    file = tmp_path / "policy.json"
    file.write_text('{"tools": [{"name": "get_*", "do": "error", "value": "no wires"}]}')
    with opened(policy=policy) as sim:
        with pytest.raises(spanreel.Divergence) as error:
            sim.tool("get_weather", {"city": "Paris"})
        assert error.value.code == "spanreel_denied"
    assert sim.report().verdict == "blocked"
    with opened(policy=file) as sim, pytest.raises(spanreel.ToolFailed, match="no wires") as failed:
        sim.tool("get_weather", {"city": "Paris"})
    assert failed.value.result == "no wires"
    with opened(patch={1: {"result": {"celsius": -3}}}) as sim:
        assert sim.tool("get_weather", {"city": "Paris"}) == {"celsius": -3}


def test_a_partial_run_is_simulated(server: Server) -> None:
    client = spanreel.Client(server.url)
    with pytest.raises(spanreel.PartialRun, match="missing_output") as error:
        client.simulate(weather.PARTIAL_TRACE)
    assert error.value.partial_reasons[0]["step_index"] == 0
    with client.simulate(weather.PARTIAL_TRACE, allow_partial=True) as sim:
        assert sim.replayability == "partial"
        assert [reason.code for reason in sim.partial_reasons] == ["missing_output"]
        with sim.environment(), pytest.raises(urllib.error.HTTPError) as hole:
            weather.agent()
        hole.value.close()
    assert sim.report().verdict == "hole"


def test_what_cannot_be_simulated_is_opened(server: Server, folder: Path, tmp_path: Path) -> None:
    client = spanreel.Client(server.url)
    with pytest.raises(spanreel.RunNotFound):
        client.simulate("nope")
    with pytest.raises(spanreel.InvalidRequest):
        client.simulate(weather.TRACE, "bold")
    with pytest.raises(spanreel.InvalidRequest):
        spanreel.simulate_fixture(folder, "bold")
    with pytest.raises(spanreel.RunNotFound, match="--format fixture"):
        spanreel.simulate_fixture(tmp_path / "nope")
    with pytest.raises(spanreel.RunNotFound):
        spanreel.simulate_fixture(tmp_path)


def test_a_closed_session_answers(opened: Open) -> None:
    sim = opened()
    sim.close()
    with pytest.raises(spanreel.SpanreelError):
        sim.tool("get_weather", {"city": "Paris"})
    assert sim.report().is_idle


def test_sessions_share_what_was_asked(opened: Open) -> None:
    """Scenario: two sessions of one run are asked at once.

    Guarantee: each answers all, and reports its own.
    """
    answers: list[str] = []

    def ask(sim: Simulation) -> None:
        answers.append(
            weather.agent(
                base_url=sim.openai_base_url,
                weather=lambda city: sim.tool("get_weather", {"city": city}),
            )
        )

    with opened() as one, opened() as other, opened() as third:
        with one.environment():
            weather.agent()
        assert other.report().is_idle
        threads = [threading.Thread(target=ask, args=(sim,)) for sim in (other, third)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == [weather.ANSWER] * 2
    assert one.report().verdict == other.report().verdict == "same"
    assert one.simulation_id != other.simulation_id


def test_a_child_process_asks_elsewhere(opened: Open) -> None:
    with opened() as sim:
        code = "import weather; print(weather.agent())"
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=sim.merged_env(),
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    assert done.stdout.strip() == weather.ANSWER
    assert sim.report().verdict == "same"


def test_an_error_within_hides_behind_another(opened: Open) -> None:
    with pytest.raises(KeyError, match="mine"), opened() as sim, sim.environment():
        raise KeyError("mine")
    assert "OPENAI_BASE_URL" not in os.environ
    assert sim.closed


def _sleep(started: Event) -> None:
    started.set()
    threading.Event().wait(60)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_keeps_the_session_open(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child that was forked holds the pipe whose end is the end of the session."""
    monkeypatch.setattr("spanreel.fixture.END_TIMEOUT", 2.0)
    context = multiprocessing.get_context("fork")
    sim = spanreel.simulate_fixture(folder)
    started = context.Event()
    child = context.Process(target=_sleep, args=(started,))
    child.start()
    try:
        assert started.wait(10)
        assert sim.close().run_id == weather.TRACE
    finally:
        child.kill()
        child.join()


def test_breakpoints_are_run_over(server: Server) -> None:
    with spanreel.Client(server.url).simulate(weather.TRACE, breakpoints=["get_weather"]) as sim:
        answers: list[object] = []
        asking = threading.Thread(
            target=lambda: answers.append(sim.tool("get_weather", {"city": "Paris"}))
        )
        asking.start()
        for state in _states(sim):
            if state["state"] == "waiting":
                break
        assert answers == []
        sim.resume()
        asking.join(30)
        assert answers == [{"celsius": 21}]


def _states(sim: ServerSimulation) -> Iterator[dict[str, object]]:
    for _ in range(500):
        yield sim.state()
        threading.Event().wait(0.02)
    raise AssertionError("it never waited")
