"""The environment of a simulation, and what becomes of it."""

from __future__ import annotations

import json
import os
import threading

import pytest
from conftest import Answer, Script

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


def test_a_proxy_before_the_server_is_passed_by(script: Script) -> None:
    """Scenario: a proxy serves the API under a prefix, and the server names itself.

    Guarantee: agents are led through the proxy.
    """
    base = f"http://inner:4319/sim/{SID}"
    env = {"OPENAI_BASE_URL": f"{base}/openai/v1", "OPENAI_API_KEY": "spanreel", "X": SID}
    document = {"run_id": "r", "simulation_id": SID, "mode": "strict", "base_url": base, "env": env}
    script.will(Answer(201, document))
    sim = spanreel.Client(script.url + "/prefix").simulate("r")
    assert sim.base_url == f"{script.url}/prefix/sim/{SID}"
    assert sim.openai_base_url == f"{sim.base_url}/openai/v1"
    assert (sim.env["OPENAI_API_KEY"], sim.env["X"]) == ("spanreel", SID)


def test_what_is_asked_for_is_left_out(script: Script) -> None:
    script.will(Answer(500, b""))
    client = spanreel.Client(script.url)
    for given, sent in [
        ({}, {"mode": "strict"}),
        (
            {
                "mode": "fork@3",
                "with_runs": ["b"],
                "allow_partial": True,
                "speed": 0,
                "step": True,
                "breakpoints": [3, "get_weather"],
                "policy": {"tools": []},
                "patch": {3: {"result": None}},
            },
            {
                "mode": "fork@3",
                "with": ["b"],
                "allow_partial": True,
                "speed": 0,
                "step": True,
                "breakpoints": [3, "get_weather"],
                "policy": {"tools": []},
                "patch": {"3": {"result": None}},
            },
        ),
    ]:
        with pytest.raises(spanreel.ServerFailed):
            client.simulate("r", **given)  # type: ignore[arg-type]
        assert json.loads(script.asked[-1].body) == sent
