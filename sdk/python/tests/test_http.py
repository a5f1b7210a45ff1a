"""Errors, retries, redirects, streams, and keys, against a scripted server."""

from __future__ import annotations

import email.utils
import json
import pickle
import socket
import threading
import time
import traceback
import tracemalloc
from collections.abc import Iterator

import pytest
from conftest import Answer, Asked, Script, problem

import spanreel
from spanreel import _http, errors

KEY = "sr_0123456789abcdef"
RUN = {"run_id": "r", "status": "completed", "replayability": "complete"}
REPLAY = {**RUN, "partial": False}


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Pauses between tries, which are not waited for."""
    waited: list[float] = []
    monkeypatch.setattr("spanreel._http.time.sleep", waited.append)
    return waited


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("invalid_parameter", 400, spanreel.InvalidRequest),
        ("unauthenticated", 401, spanreel.Unauthenticated),
        ("forbidden", 403, spanreel.Forbidden),
        ("host_not_allowed", 403, spanreel.HostNotAllowed),
        ("run_not_found", 404, spanreel.RunNotFound),
        ("step_not_found", 404, spanreel.StepNotFound),
        ("simulation_not_found", 404, spanreel.SimulationNotFound),
        ("not_found", 404, spanreel.NotFound),
        ("partial_run", 409, spanreel.PartialRun),
        ("internal", 500, spanreel.ServerFailed),
        ("too_many_simulations", 429, spanreel.RateLimited),
        ("spanreel_simulation_gone", 410, spanreel.SimulationNotFound),
        ("spanreel_body", 413, spanreel.InvalidRequest),
        ("spanreel_divergence", 422, spanreel.Divergence),
        ("spanreel_hole", 422, spanreel.Divergence),
        ("of_a_newer_server", 404, spanreel.NotFound),
        ("of_a_newer_server", 418, spanreel.Problem),
    ],
)
def test_a_problem_is_another_error(
    script: Script, code: str, status: int, kind: type[spanreel.Problem]
) -> None:
    script.will(problem(code, status, reason="the reason"))
    with pytest.raises(kind, match="the reason") as error:
        spanreel.Client(script.url, retries=0).runs.get("r")
    assert type(error.value) is kind
    assert (error.value.code, error.value.status) == (code, status)
    assert str(error.value).startswith("GET /v1/runs/r: Message of ")
    assert len(script.asked) == 1


def test_every_code_has_a_remedy() -> None:
    assert all(kind.remedy for kind in errors.BY_CODE.values())


def test_a_partial_run_has_no_reasons(script: Script) -> None:
    reasons = [{"code": "missing_output", "class": "content", "detail": "d", "step_index": 1}]
    script.will(problem("partial_run", 409, partial_reasons=reasons))
    with pytest.raises(spanreel.PartialRun, match=r"missing_output.*allow_partial") as error:
        spanreel.Client(script.url).simulate("r")
    assert error.value.partial_reasons == reasons


@pytest.mark.parametrize(
    "answer",
    [
        Answer(200, b"<html>"),
        Answer(404, b"<html>"),
        Answer(204, b""),
        Answer(200, []),
        Answer(200, {"status": "completed"}),
        Answer(200, b"[" * 100_000),
        Answer(301, b"", {"location": "https://example.invalid/"}),
    ],
)
def test_another_server_is_taken_for_ours(script: Script, answer: Answer) -> None:
    script.will(answer)
    with pytest.raises(spanreel.NotSpanreel, match="4319"):
        spanreel.Client(script.url).runs.get("r")


def test_a_busy_server_is_asked_once(script: Script, pauses: list[float]) -> None:
    busy = problem("unavailable", 503)
    script.will(busy, Answer(429, b"slow down", {"retry-after": "7"}), Answer(200, RUN))
    assert spanreel.Client(script.url).runs.get("r").run_id == "r"
    assert len(script.asked) == 3
    assert 0.1 <= pauses[0] <= 0.2
    assert pauses[1] == 7


def test_a_busy_server_is_asked_for_ever(script: Script, pauses: list[float]) -> None:
    script.will(problem("unavailable", 503))
    with pytest.raises(spanreel.Unavailable, match="later"):
        spanreel.Client(script.url).runs.get("r")
    assert len(script.asked) == 4
    with pytest.raises(spanreel.Unavailable):
        spanreel.Client(script.url, retries=0).runs.get("r")
    assert len(script.asked) == 5
    assert len(pauses) == 3


def test_a_long_pause_is_slept(script: Script, pauses: list[float]) -> None:
    in_an_hour = email.utils.formatdate(time.time() + 3600, usegmt=True)
    for value in ("3600", in_an_hour):
        script.answers.clear()
        script.will(Answer(429, b"", {"retry-after": value}))
        with pytest.raises(spanreel.RateLimited) as error:
            spanreel.Client(script.url).runs.get("r")
        assert 3500 < (error.value.retry_after or 0) <= 3600
    assert pauses == []


@pytest.mark.parametrize("value", ["nan", "soon", "-5", ""])
def test_nonsense_in_retry_after_stops_it(script: Script, pauses: list[float], value: str) -> None:
    script.will(Answer(503, b"", {"retry-after": value}), Answer(200, RUN))
    spanreel.Client(script.url).runs.get("r")
    assert len(pauses) == 1


def test_a_post_is_sent_again(script: Script, pauses: list[float]) -> None:
    script.will(problem("unavailable", 503))
    with pytest.raises(spanreel.Unavailable):
        spanreel.Client(script.url).simulate("r")
    assert len(script.asked) == 1
    assert pauses == []


def test_a_cut_answer_is_taken_for_whole(script: Script, pauses: list[float]) -> None:
    script.will(Answer(200, RUN, cut=True), Answer(200, RUN))
    assert spanreel.Client(script.url).runs.get("r").run_id == "r"
    assert len(pauses) == 1
    script.answers[:] = [Answer(200, RUN, cut=True)]
    with pytest.raises(spanreel.ConnectionFailed, match="ended early"):
        spanreel.Client(script.url).runs.get("r")


def test_a_server_that_is_away_is_an_oserror(pauses: list[float]) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with pytest.raises(spanreel.ConnectionFailed, match=f"{url}.*SPANREEL_URL"):
        spanreel.Client(url).runs.get("r")
    assert len(pauses) == 3


def test_a_silent_server_is_waited_for() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(spanreel.TimedOut, match=r"0\.1 s.*timeout"):
            spanreel.Client(url, timeout=0.1).runs.get("r")


def test_an_alias_behind_a_prefix_is_lost(script: Script) -> None:
    script.will(Answer(308, b"", {"location": "/v1/runs/b%2Fc/replay"}), Answer(200, REPLAY))
    client = spanreel.Client(script.url + "/spanreel/", KEY)
    assert client.replay("a/c").run_id == "r"
    paths = [asked.path for asked in script.asked]
    assert paths == ["/spanreel/v1/runs/a%2Fc/replay", "/spanreel/v1/runs/b%2Fc/replay"]
    assert [a.headers["authorization"] for a in script.asked] == [f"Bearer {KEY}"] * 2


def test_the_key_goes_to_another_host(script: Script) -> None:
    for location in ("http://localhost:1/v1/runs/r", "//example.invalid/v1/runs/r", ""):
        script.answers.clear()
        script.will(Answer(308, b"", {"location": location}))
        with pytest.raises(spanreel.NotSpanreel, match="redirect away"):
            spanreel.Client(script.url, KEY).runs.get("r")


def test_redirects_go_round(script: Script) -> None:
    script.will(Answer(308, b"", {"location": "/v1/runs/r"}))
    with pytest.raises(spanreel.NotSpanreel, match="redirects"):
        spanreel.Client(script.url).runs.get("r")
    assert len(script.asked) == _http.REDIRECTS_MAX + 1


def test_a_key_shows(script: Script, pauses: list[float]) -> None:
    client = spanreel.Client(script.url, KEY)
    assert "0123456789abcdef" not in repr(client) + repr(vars(client)) + repr(client.runs)
    for answer in (problem("internal", 500), Answer(200, b"<"), Answer(200, RUN, cut=True)):
        script.answers[:] = [answer]
        with pytest.raises(spanreel.SpanreelError) as error:
            client.runs.get("r")
        # This very frame holds the key.
        error.value.__traceback__ = error.tb.tb_next
        told = traceback.TracebackException.from_exception(error.value, capture_locals=True)
        assert KEY not in "".join(told.format())
    assert script.asked[0].headers["authorization"] == f"Bearer {KEY}"
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(client)
    for bad in ("sr_bad\nkey", "sr_bäd"):
        with pytest.raises(ValueError, match="SPANREEL_KEY") as wrong:
            spanreel.Client(script.url, bad)
        assert "sr_b" not in str(wrong.value)
    with pytest.raises(ValueError, match="credential") as wrong:
        spanreel.Client("http://u:secret@127.0.0.1")
    assert "secret" not in str(wrong.value)


def test_the_environment_is_not_read(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    assert spanreel.Client().url == "http://127.0.0.1:4319"
    monkeypatch.setenv("SPANREEL_URL", script.url)
    monkeypatch.setenv("SPANREEL_KEY", KEY)
    script.will(Answer(200, RUN))
    spanreel.Client().runs.get("r")
    assert script.asked[0].headers["authorization"] == f"Bearer {KEY}"
    spanreel.Client(key="").runs.get("r")
    assert "authorization" not in script.asked[1].headers


def test_loopback_is_asked_through_a_proxy(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    script.will(Answer(200, RUN))
    assert spanreel.Client(script.url).runs.get("r").run_id == "r"


@pytest.mark.parametrize("url", ["127.0.0.1:4319", "ftp://x", "http://", "file:///etc/passwd"])
def test_a_url_that_is_none_is_taken(url: str) -> None:
    with pytest.raises(ValueError, match="http://"):
        spanreel.Client(url)


def test_a_stream_is_held_in_memory(script: Script) -> None:
    """Scenario: 200 replays of 1 MB are streamed.

    Guarantee: memory stays at a few of them.
    """
    text = "x" * 1_000_000

    def lines() -> Iterator[bytes]:
        for number in range(200):
            line = {**REPLAY, "run_id": str(number), "pad": text}
            yield json.dumps(line).encode() + b"\n"

    script.will(Answer(200, chunks=lines()))
    tracemalloc.start()
    seen = 0
    for replay in spanreel.Client(script.url).replays(status="completed"):
        assert replay.run_id == str(seen)
        assert replay.unknown == {"pad": text}
        seen += 1
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert seen == 200
    assert peak < 20_000_000, peak
    assert script.asked[0].path == "/v1/replays?status=completed"


def test_a_cut_stream_is_taken_for_whole(script: Script) -> None:
    line = json.dumps(REPLAY).encode() + b"\n"
    script.will(Answer(200, chunks=iter([line, line]), cut=True))
    replays = spanreel.Client(script.url).replays()
    assert next(replays).run_id == next(replays).run_id == "r"
    with pytest.raises(spanreel.ConnectionFailed):
        next(replays)


def test_an_error_within_a_stream_is_a_replay(script: Script) -> None:
    late = json.dumps({"error": {"code": "internal", "message": "The store failed."}}).encode()
    script.will(Answer(200, chunks=iter([json.dumps(REPLAY).encode() + b"\n\n", late])))
    replays = spanreel.Client(script.url).replays()
    assert next(replays).run_id == "r"
    with pytest.raises(spanreel.ServerFailed, match="store failed"):
        next(replays)


def test_a_stream_that_is_left_stays_open(script: Script) -> None:
    gone = threading.Event()

    def lines() -> Iterator[bytes]:
        try:
            for _ in range(1000):
                yield json.dumps({**REPLAY, "pad": "x" * 100_000}).encode() + b"\n"
        finally:
            gone.set()

    def answer(_: Asked) -> Answer:
        return Answer(200, chunks=lines())

    script.will(answer)
    for _ in spanreel.Client(script.url).replays():
        break
    assert gone.wait(10)
