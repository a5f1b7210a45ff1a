"""The decorator of tools."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import inspect
import json
from collections.abc import AsyncIterator, Iterator
from datetime import date
from typing import Any

import pytest
from conftest import Answer, Script, problem

import spanreel


class Unit(str, enum.Enum):
    """A unit."""

    CELSIUS = "celsius"


@dataclasses.dataclass
class Place:
    """A place."""

    city: str
    days: tuple[date, ...] = ()


class Model:
    """What libraries of models offer."""

    def model_dump(self, mode: str) -> dict[str, str]:
        """The model as JSON."""
        return {"mode": mode}


@pytest.fixture
def session(script: Script, monkeypatch: pytest.MonkeyPatch) -> Script:
    """A simulation that answers 1."""
    monkeypatch.setenv("SPANREEL_SIMULATION_URL", f"{script.url}/sim/ab")
    script.will(Answer(200, {"result": 1, "is_error": False, "step_index": 3}))
    return script


def sent(session: Script) -> Any:
    """The arguments that came last."""
    return json.loads(session.asked[-1].body)


def test_a_tool_without_a_simulation_is_asked_for() -> None:
    @spanreel.tool
    def double(number: int) -> int:
        """Doubles."""
        return number * 2

    assert double(4) == 8
    assert double.__name__ == "double"
    assert double.__doc__ == "Doubles."
    assert list(inspect.signature(double).parameters) == ["number"]


def test_an_argument_loses_its_name(session: Script) -> None:
    @spanreel.tool
    def find(place: Any, unit: Unit = Unit.CELSIUS, *more: int, limit: int = 3, **rest: Any) -> int:
        raise AssertionError

    assert find("Paris") == 1
    assert session.asked[-1].path == "/sim/ab/tools/find"
    # The model did not give the defaults.
    assert sent(session) == {"place": "Paris"}
    find(Place("Paris", (date(2026, 11, 30),)), Unit.CELSIUS, 1, 2, limit=4, other={"a", "b"})
    assert sent(session) == {
        "place": {"city": "Paris", "days": ["2026-11-30"]},
        "unit": "celsius",
        "more": [1, 2],
        "limit": 4,
        "other": ["a", "b"],
    }
    find(Model())
    assert sent(session) == {"place": {"mode": "json"}}


def test_a_context_is_sent(session: Script) -> None:
    class Tools:
        @spanreel.tool(name="look up", ignore=["ctx"], decode=str)
        def look(self, ctx: object, q: str) -> str:
            raise AssertionError

    assert Tools().look(object(), q="x") == "1"
    assert sent(session) == {"q": "x"}
    assert session.asked[-1].path == "/sim/ab/tools/look%20up"

    @spanreel.tool
    def bare(ctx: object) -> None: ...

    with pytest.raises(TypeError, match="`ignore`"):
        bare(object())
    with pytest.raises(TypeError):
        bare()  # type: ignore[call-arg]


def test_an_async_tool_blocks_the_loop(session: Script) -> None:
    @spanreel.tool
    async def slow(n: int) -> int:
        raise AssertionError

    async def both() -> list[int]:
        return list(await asyncio.gather(slow(1), slow(2)))

    assert inspect.iscoroutinefunction(slow)
    assert asyncio.run(both()) == [1, 1]
    assert len(session.asked) == 2
    session.answers[:] = [Answer(200, {"live": True})]
    with pytest.raises(AssertionError):
        asyncio.run(both())


def test_a_recorded_failure_is_a_result(session: Script) -> None:
    @spanreel.tool
    def fail() -> int:
        return 0

    session.answers[:] = [Answer(200, {"result": "no such city", "is_error": True})]
    with pytest.raises(spanreel.ToolFailed, match="fail failed: no such city"):
        fail()
    session.answers[:] = [problem("spanreel_hole", 422)]
    with pytest.raises(spanreel.Divergence) as error:
        fail()
    assert error.value.code == "spanreel_hole"
    session.answers[:] = [Answer(200, {"live": True})]
    assert fail() == 0
    session.answers[:] = [Answer(200, {"no": "result"})]
    with pytest.raises(spanreel.NotSpanreel):
        fail()


def test_a_generator_is_wrapped() -> None:
    def many() -> Iterator[int]:
        yield 1

    async def many_async() -> AsyncIterator[int]:
        yield 1

    for function in (many, many_async):
        with pytest.raises(TypeError, match="generator"):
            spanreel.tool(function)
    with pytest.raises(TypeError, match="no parameter nope"):
        spanreel.tool(ignore=["nope"])(lambda: None)
