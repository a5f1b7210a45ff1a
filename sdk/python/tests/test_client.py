"""The client against a real server."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from datetime import date, datetime, timezone
from pathlib import Path

import pytest
from conftest import CAPTURES, Server, start, stop, take

import spanreel
from spanreel import documents, fixture
from spanreel._http import segment

#: A run of py-oinf-openai-agents.
AGENTS_RUN = "80f34f762424a10cee3032c73526ea66"


def test_a_page_is_left_out(client: spanreel.Client) -> None:
    whole = [run.run_id for run in client.runs.list()]
    assert len(whole) >= 5
    assert [run.run_id for run in client.runs.list(page_size=1)] == whole
    assert [run.run_id for run in client.runs.list(page_size=2)] == whole
    steps = [step.raw for step in client.runs.steps(AGENTS_RUN)]
    assert [step.raw for step in client.runs.steps(AGENTS_RUN, page_size=2)] == steps
    assert [step["index"] for step in steps] == list(range(len(steps)))


def test_a_filter_lets_others_through(client: spanreel.Client) -> None:
    everything = list(client.runs.list())
    for name, wanted, members in [
        ("agent", "triage_agent", "agents"),
        ("model", "gpt-4o-mini", "models"),
        ("tool", "get_weather", "tools"),
    ]:
        found = [run.run_id for run in client.runs.list(**{name: wanted})]  # type: ignore[arg-type]
        assert found == [r.run_id for r in everything if wanted in getattr(r, members)]
        assert found
    assert not list(client.runs.list(status="failed", agent="nobody"))
    first = min(r.started_at for r in everything if r.started_at)
    start = documents.parse_time(first)
    assert start is not None
    # The server's clock of runs is in nanoseconds, Python's in microseconds.
    assert len(list(client.runs.list(since=start))) == len(everything)
    assert not list(client.runs.list(until=start))
    assert not list(client.runs.list(until=date(2000, 1, 1)))
    assert list(client.runs.list(since=datetime(2000, 1, 1, tzinfo=timezone.utc), q="triage"))


def test_a_member_of_a_document_is_lost(client: spanreel.Client) -> None:
    for run in client.runs.list():
        assert run.unknown == {}
        assert client.runs.get(run.run_id) == run
        replay = client.replay(run.run_id)
        assert replay.unknown == {}
        assert replay.run_id == run.run_id
        assert replay.record_digest == run.record_digest
        assert len(replay.steps) == sum(run.steps.values())
        for step in replay.steps:
            assert step.unknown == {}
            assert step.usage.unknown == step.input.unknown == step.output.unknown == {}
            assert client.runs.step(run.run_id, step.index).raw == step.raw
        assert [step.raw for step in client.runs.steps(run.run_id)] == replay.raw["steps"]


def test_a_bulk_replay_differs_from_a_single_one(client: spanreel.Client) -> None:
    runs = list(client.runs.list())
    replays = list(client.replays())
    # A run that a test takes in meanwhile may be in the later answer only.
    assert {run.run_id for run in runs} <= {replay.run_id for replay in replays}
    for replay in replays:
        assert client.replay(replay.run_id).raw == replay.raw
    wanted = [run.run_id for run in client.runs.list(agent="triage_agent", status="completed")]
    found = [r.run_id for r in client.replays(agent="triage_agent", status="completed")]
    assert sorted(found) == sorted(wanted)
    assert wanted
    with pytest.raises(spanreel.InvalidRequest):
        next(client.replays(since="yesterday"))


def test_a_replay_says_other_than_what_happened(client: spanreel.Client) -> None:
    replay = client.replay(AGENTS_RUN)
    assert (replay.status, replay.replayability, replay.partial) == ("completed", "complete", False)
    assert replay.usage.input_tokens == 5903
    assert replay.trace.trace_ids == [AGENTS_RUN]
    weather = next(step for step in replay.steps_of("tool_call") if step.name == "get_weather")
    assert weather.tool is not None
    assert weather.tool.arguments["city"]
    assert weather.tool.result
    asking = next(s for s in replay.steps_of("model_call") if s.output.messages[0].tool_calls)
    assert asking.input.state == "captured"
    assert asking.input.messages[0].role in ("system", "user")
    assert any(message.text for message in asking.input.messages)
    assert documents.parse_time(replay.started_at) < documents.parse_time(replay.ended_at)  # type: ignore[operator]


def test_a_reason_has_no_class(server: Server, client: spanreel.Client) -> None:
    take(server, CAPTURES / "py-openai-v2-nocontent")
    partial = list(client.runs.list(replayability="partial"))
    partial += list(client.runs.list(replayability="none"))
    reasons = [reason for run in partial for reason in run.partial_reasons]
    assert reasons
    assert {reason.class_ for reason in reasons} <= {"content", "structure"}
    assert all(reason.code and reason.detail and reason.unknown == {} for reason in reasons)


def test_a_span_of_the_tree_is_lost(client: spanreel.Client) -> None:
    run = client.runs.get(AGENTS_RUN)
    spans = list(client.runs.tree(AGENTS_RUN).walk())
    assert len(spans) == run.span_count
    assert all(span.unknown == {} for _, span in spans)
    assert {s.step_index for _, s in spans} >= {0, 1}
    assert spans[0][0] == 0
    assert max(depth for depth, _ in spans) > 1


@pytest.mark.parametrize(
    "run", ["run/1", "..", "a?b#c", "ünïcode 日本 🚂", "50%25", "+ &=", "." * 200, "a\\b;c,d"]
)
def test_a_run_id_leaves_its_segment(server: Server, client: spanreel.Client, run: str) -> None:
    checkpoint = json.dumps({"checkpoint_id": "chk", "state": {"n": [1, None]}, "step_index": 0})
    path = f"{server.url}/v1/runs/{segment(run)}/checkpoints"
    urllib.request.urlopen(
        urllib.request.Request(path, checkpoint.encode(), method="POST"), timeout=10
    ).close()
    (found,) = client.runs.checkpoints(run)
    assert (found.checkpoint_id, found.recorded, found.state) == ("chk", True, {"n": [1, None]})
    with pytest.raises(spanreel.RunNotFound, match="No such run"):
        client.runs.get(run)


def test_an_empty_id_lists_all_runs(client: spanreel.Client) -> None:
    with pytest.raises(ValueError, match="empty"):
        client.runs.get("")


def test_what_is_not_there_is_said_otherwise(client: spanreel.Client) -> None:
    for ask in (client.runs.get, client.replay, client.runs.tree, client.runs.checkpoints):
        with pytest.raises(spanreel.RunNotFound) as error:
            ask("nope")
        assert error.value.code == "run_not_found"
        assert error.value.status == 404
    with pytest.raises(spanreel.RunNotFound):
        next(client.runs.steps("nope"))
    with pytest.raises(spanreel.StepNotFound, match="count from 0"):
        client.runs.step(AGENTS_RUN, 10_000)
    with pytest.raises(spanreel.InvalidRequest, match="is no time"):
        next(client.runs.list(since="yesterday"))
    with pytest.raises(spanreel.InvalidRequest):
        next(client.runs.list(status="nonsense"))


def test_an_alias_is_not_followed(tmp_path: Path) -> None:
    """The trace id of a run that a producer named is one of its aliases."""
    process, server = start(tmp_path / "data")
    try:
        take(server, CAPTURES / "js-claude-code")
        client = spanreel.Client(server.url)
        named = next(run for run in client.runs.list() if run.aliases)
        for alias in named.aliases:
            assert client.replay(alias).run_id == named.run_id
            assert client.runs.get(alias).run_id == named.run_id
            assert client.runs.step(alias, 0).index == 0
            assert list(client.runs.steps(alias))
            assert client.runs.tree(alias).run_id == named.run_id
    finally:
        stop(process)


def test_a_key_is_not_needed(tmp_path: Path) -> None:
    keys, entries = {}, []
    for role in ("developer", "auditor"):
        made = subprocess.run(
            [fixture.binary(), "keys", "new", "--name", role, "--tenant", "acme", "--role", role],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        first, _, config = made.partition("\n")
        keys[role] = first.removeprefix("key: ")
        entries += json.loads(config[config.index("{") :])["access"]["keys"]
    config_file = tmp_path / "config.yaml"
    config_file.write_text(json.dumps({"access": {"keys": entries}}))
    process, server = start(tmp_path / "data", "--config", str(config_file))
    try:
        with pytest.raises(spanreel.Unauthenticated, match="SPANREEL_KEY"):
            next(spanreel.Client(server.url).runs.list())
        with pytest.raises(spanreel.Unauthenticated) as error:
            next(spanreel.Client(server.url, "sr_wrong_key").runs.list())
        assert "sr_wrong_key" not in str(error.value)
        assert list(spanreel.Client(server.url, keys["developer"]).runs.list()) == []
        auditor = spanreel.Client(server.url, keys["auditor"])
        assert list(auditor.runs.list()) == []
        with pytest.raises(spanreel.Forbidden, match="developer"):
            auditor.replay("any")
    finally:
        stop(process)
