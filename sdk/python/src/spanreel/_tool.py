"""The decorator that lets a simulation answer for a tool."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import functools
import inspect
import os
from collections.abc import Awaitable, Callable, Collection, Mapping
from datetime import date, time
from typing import Any, TypeVar, cast, overload
from urllib.parse import urlsplit

from ._http import Transport
from .simulation import ANSWER_TIMEOUT, LIVE, call_tool

F = TypeVar("F", bound=Callable[..., Any])

#: The variable that a simulation sets.
URL_VARIABLE = "SPANREEL_SIMULATION_URL"


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(
    *,
    name: str | None = None,
    ignore: Collection[str] = (),
    decode: Callable[[Any], Any] | None = None,
) -> Callable[[F], F]: ...
def tool(
    function: F | None = None,
    /,
    *,
    name: str | None = None,
    ignore: Collection[str] = (),
    decode: Callable[[Any], Any] | None = None,
) -> F | Callable[[F], F]:
    """Lets a simulation answer for a function; without one the function runs as ever.

    A simulation is on while SPANREEL_SIMULATION_URL is set. Then the arguments, by name and as
    given, are looked up in the record, and the function does not run. `ignore` names parameters
    that the model does not give (a context); `self` and `cls` of a method are left out anyway.
    `decode` makes the function's type of the recorded JSON. Where the policy says `live`, the
    function runs. Raises `Divergence` when the record has no answer, `ToolFailed` when the recorded
    call failed.
    """

    def wrap(function: F) -> F:
        return _wrapped(function, name or function.__name__, frozenset(ignore), decode)

    return wrap if function is None else wrap(function)


def _wrapped(
    function: F, name: str, ignore: frozenset[str], decode: Callable[[Any], Any] | None
) -> F:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{name} is a generator; a tool answers with one value")
    signature = inspect.signature(function)
    unknown = ignore - set(signature.parameters)
    if unknown:
        raise TypeError(f"{name} has no parameter {', '.join(sorted(unknown))}")

    def answer(url: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = _arguments(signature, ignore, args, kwargs)
        result = call_tool(_session(url), name, _json(given, name))
        return decode(result) if decode and result is not LIVE else result

    if inspect.iscoroutinefunction(function):
        run = cast("Callable[..., Awaitable[Any]]", function)

        @functools.wraps(function)
        async def wait(*args: Any, **kwargs: Any) -> Any:
            url = os.environ.get(URL_VARIABLE)
            result = await asyncio.to_thread(answer, url, args, kwargs) if url else LIVE
            return await run(*args, **kwargs) if result is LIVE else result

        return cast("F", wait)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        url = os.environ.get(URL_VARIABLE)
        result = answer(url, args, kwargs) if url else LIVE
        return function(*args, **kwargs) if result is LIVE else result

    return cast("F", call)


@functools.lru_cache(maxsize=8)
def _session(url: str) -> Transport:
    if not urlsplit(url).hostname:
        raise ValueError(f"{URL_VARIABLE} is {url!r}, and that is no URL")
    return Transport(url, timeout=ANSWER_TIMEOUT)


def _arguments(
    signature: inspect.Signature,
    ignore: frozenset[str],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> dict[str, Any]:
    """The arguments by name. Defaults are left out: the model did not give them."""
    given: dict[str, Any] = {}
    for number, (name, value) in enumerate(signature.bind(*args, **kwargs).arguments.items()):
        if name in ignore or (number == 0 and name in ("self", "cls")):
            continue
        if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            given.update(value)
        else:
            given[name] = value
    return given


def _json(value: Any, tool_name: str) -> Any:
    """`value` as JSON, the way tool frameworks write arguments."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value.value if isinstance(value, enum.Enum) else value
    if isinstance(value, Mapping):
        return {str(name): _json(item, tool_name) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json(item, tool_name) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted((_json(item, tool_name) for item in value), key=repr)
    if isinstance(value, enum.Enum):
        return _json(value.value, tool_name)
    if isinstance(value, (date, time)):
        return value.isoformat()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        members = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return _json(members, tool_name)
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    raise TypeError(
        f"an argument of {tool_name} is a {type(value).__name__}, which no model can give; "
        "name its parameter in `ignore`"
    )
