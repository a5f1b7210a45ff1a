"""The environment of a simulation, and what becomes of it."""

from __future__ import annotations

import os
import threading

import pytest

import spanreel
from spanreel.simulation import ServerSimulation, merged

SID = "0123456789abcdef0123456789abcdef"
BASE = f"http://127.0.0.1:1/sim/{SID}"


def simulation(**env: str) -> ServerSimulation:
    transport = spanreel.Client("http://127.0.0.1:1")._transport
    document = {
        "run_id": "r",
        "simulation_id": SID,
        "mode": "strict",
        "base_url": BASE,
        "env": {"OPENAI_BASE_URL": f"{BASE}/openai/v1", **env},
    }
    return ServerSimulation(transport, document)


def test_a_variable_is_not_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "https://example.invalid/v1")
    monkeypatch.delenv("NEW", raising=False)
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "token")
    before = dict(os.environ)
    with simulation(NEW="1").environment():
        assert os.environ["OPENAI_BASE_URL"] == f"{BASE}/openai/v1"
        assert os.environ["NEW"] == "1"
        # It would go before the endpoint of the simulation.
        assert "AWS_BEARER_TOKEN_BEDROCK" not in os.environ
        with simulation(NEW="2").environment():
            assert os.environ["NEW"] == "2"
        assert os.environ["NEW"] == "1"
    assert dict(os.environ) == before


def test_what_the_agent_set_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MINE", raising=False)
    monkeypatch.setenv("OPENAI_BASE_URL", "https://example.invalid/v1")
    with simulation().environment():
        monkeypatch.setenv("MINE", "kept")
        monkeypatch.setenv("OPENAI_BASE_URL", "https://mine.invalid/v1")
    assert os.environ["MINE"] == "kept"
    assert os.environ["OPENAI_BASE_URL"] == "https://mine.invalid/v1"


def test_attributes_of_the_resource_are_lost() -> None:
    simulated = {"OTEL_RESOURCE_ATTRIBUTES": "spanreel.simulation_id=1"}
    whole = merged({"OTEL_RESOURCE_ATTRIBUTES": "service.name=a"}, simulated, BASE)
    assert whole["OTEL_RESOURCE_ATTRIBUTES"] == "service.name=a,spanreel.simulation_id=1"
    assert merged({}, simulated, BASE) == simulated


def test_a_proxy_takes_the_calls() -> None:
    whole = merged({"http_proxy": "http://p:1", "NO_PROXY": "a.example"}, {}, BASE)
    assert whole["NO_PROXY"] == "a.example,127.0.0.1"
    assert whole["no_proxy"] == "127.0.0.1"
    assert merged({"PATH": "x"}, {}, BASE) == {"PATH": "x"}


def test_two_threads_share_an_environment() -> None:
    errors: list[Exception] = []

    def other() -> None:
        try:
            with simulation().environment():
                pass
        except spanreel.SpanreelError as error:
            errors.append(error)

    with simulation().environment():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert "another thread" in str(errors[0])
    with simulation().environment():
        pass


def test_the_session_shows() -> None:
    """Who has the id of a session may ask it."""
    sim = simulation()
    assert SID not in repr(sim)
    for ask in (lambda: sim.tool("t", {}), sim.report, sim.close):
        with pytest.raises(spanreel.ConnectionFailed) as error:
            ask()
        assert SID not in str(error.value)


def test_a_document_without_members_is_taken() -> None:
    with pytest.raises(spanreel.NotSpanreel):
        ServerSimulation(simulation()._transport, {"run_id": "r"})
