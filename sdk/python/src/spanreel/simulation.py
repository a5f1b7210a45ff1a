"""Sessions that answer an agent's calls from a record."""

from __future__ import annotations

import json
import os
import threading
from abc import ABC, abstractmethod
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Union
from urllib.parse import urlsplit

from ._http import Transport, segment
from .documents import Reason
from .errors import Divergence, NotSpanreel, SpanreelError, ToolFailed
from .report import Report

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType

S = TypeVar("S", bound="Simulation")

#: A policy, or a path to one.
Policy = Union["Mapping[str, Any]", "str | os.PathLike[str]"]

#: Variables that send a client's requests through a proxy.
PROXY_VARIABLES = ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")
#: Variables that go before those of the simulation, and would lead a client elsewhere.
OVERRIDING_VARIABLES = ("AWS_BEARER_TOKEN_BEDROCK",)
#: Seconds that a session may take for an answer, unless it holds answers back for a person.
ANSWER_TIMEOUT = 300.0


class Simulation(ABC):
    """A session that answers an agent's calls from the record of a run.

    It closes when its `with` ends.
    """

    def __init__(self, document: Any, *, holds: bool = False) -> None:
        self._final: Report | None = None
        try:
            self.document: dict[str, Any] = {**document}
            self.run_id = str(document["run_id"])
            self.simulation_id = str(document["simulation_id"])
            self.mode = str(document["mode"])
            self.base_url = str(document["base_url"])
            self.env = {str(name): str(value) for name, value in document["env"].items()}
        except (KeyError, AttributeError, TypeError):
            raise NotSpanreel("what should describe a simulation lacks members") from None
        self._calls = Transport(self.base_url, timeout=None if holds else ANSWER_TIMEOUT)

    @property
    def openai_base_url(self) -> str:
        """The base URL for OpenAI's clients."""
        return self.env["OPENAI_BASE_URL"]

    @property
    def replayability(self) -> str:
        """How complete the record is: `complete`, `partial`, `none`."""
        return str(self.document.get("replayability", ""))

    @property
    def partial_reasons(self) -> list[Reason]:
        """Why the record is partial."""
        return [Reason.read(reason) for reason in self.document.get("partial_reasons") or []]

    @property
    def closed(self) -> bool:
        """True when the session is over."""
        return self._final is not None

    def tool(self, name: str, arguments: Mapping[str, Any] | None = None) -> Any:
        """The recorded result of a tool call.

        Raises `Divergence` when the record has none, `ToolFailed` when the recorded call failed.
        """
        result = call_tool(self._calls, name, arguments or {})
        if result is LIVE:
            raise SpanreelError(f"the policy lets {name} run live", remedy="call the tool itself")
        return result

    def report(self) -> Report:
        """What was asked so far; after `close` the final report."""
        return self._final if self._final is not None else self._current_report()

    def close(self) -> Report:
        """Ends the session and gives the final report; again, when it is over."""
        if self._final is None:
            self._final = self._end()
        return self._final

    def merged_env(self, environ: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment of a child process: `environ` (this process's) with the simulation's."""
        return merged(os.environ if environ is None else environ, self.env, self.base_url)

    @contextmanager
    def environment(self) -> Iterator[dict[str, str]]:
        """Sets the variables of the simulation in this process, and puts back what was there.

        A client that was built before has read its environment already.
        """
        with _environment(self.merged_env()):
            yield self.env

    def __enter__(self: S) -> S:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except SpanreelError:
            # What went wrong first says more than a session that cannot be closed.
            if error is None:
                raise

    def __repr__(self) -> str:
        state = "closed" if self.closed else "open"
        return f"<{type(self).__name__} of {self.run_id!r}, {self.mode}, {state}>"

    @abstractmethod
    def _current_report(self) -> Report:
        """The report of an open session."""

    @abstractmethod
    def _end(self) -> Report:
        """Ends the session."""


class ServerSimulation(Simulation):
    """A session on a server."""

    def __init__(self, transport: Transport, document: Any, *, holds: bool = False) -> None:
        super().__init__(_reached(document, transport.url), holds=holds)
        self._transport = transport
        self._path = f"/v1/simulations/{segment(self.simulation_id)}"

    def state(self) -> dict[str, Any]:
        """Whether the session waits at a step, and how much it answered."""
        return dict(self._transport.json("GET", self._path))

    def resume(self) -> dict[str, Any]:
        """Lets the answer go that a step or a breakpoint holds back."""
        return dict(self._transport.json("POST", f"{self._path}/continue"))

    def _current_report(self) -> Report:
        return Report.read(self._transport.json("GET", f"{self._path}/report"))

    def _end(self) -> Report:
        return Report.read(self._transport.json("DELETE", self._path))


def _reached(document: Any, url: str) -> Any:
    """The document with the URL under which this client reached the server.

    Behind a proxy the server knows neither its own scheme nor a prefix of the path.
    """
    base, _, _ = str(document.get("base_url")).partition("/sim/") if document else ("", "", "")
    if not base or base == url or not isinstance(document.get("env"), dict):
        return document
    known = {name: str(value) for name, value in document["env"].items()}
    env = {name: value.replace(base, url, 1) for name, value in known.items()}
    return {**document, "base_url": document["base_url"].replace(base, url, 1), "env": env}


#: What a tool gets that the policy leaves to run itself.
LIVE = object()


def call_tool(session: Transport, name: str, arguments: Mapping[str, Any]) -> Any:
    """The recorded result of a tool call in the session, or `LIVE`."""
    answer = session.json("POST", f"/tools/{segment(name)}", arguments)
    if isinstance(answer, dict) and answer.get("live") is True:
        return LIVE
    if not isinstance(answer, dict) or "result" not in answer:
        raise NotSpanreel("the answer of a tool has no result")
    if answer.get("is_error"):
        raise ToolFailed(name, answer["result"], answer.get("step_index"))
    return answer["result"]


def options(
    *,
    mode: str,
    with_runs: Sequence[str],
    allow_partial: bool,
    speed: float | None,
    step: bool,
    breakpoints: Sequence[int | str],
    policy: Policy | None,
    patch: Mapping[int | str, Any] | None,
) -> dict[str, Any]:
    """The body that asks for a simulation; what is not given is left to the server."""
    asked: dict[str, Any] = {"mode": mode}
    if with_runs:
        asked["with"] = list(with_runs)
    if allow_partial:
        asked["allow_partial"] = True
    if speed is not None:
        asked["speed"] = speed
    if step:
        asked["step"] = True
    if breakpoints:
        asked["breakpoints"] = list(breakpoints)
    if policy is not None:
        asked["policy"] = _policy(policy)
    if patch:
        asked["patch"] = {str(index): _patch(answer) for index, answer in patch.items()}
    return asked


def _policy(policy: Policy) -> Any:
    if not isinstance(policy, (str, os.PathLike)):
        return policy
    text = Path(policy).read_text(encoding="utf-8")
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        import yaml  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        raise SpanreelError(
            f"the policy {os.fspath(policy)} is no JSON",
            remedy="install PyYAML to read YAML, or give the policy as a dict",
        ) from None
    return yaml.safe_load(text)


def _patch(answer: Any) -> Any:
    if isinstance(answer, os.PathLike):
        return json.loads(Path(answer).read_text(encoding="utf-8"))
    return answer


def merged(
    environ: Mapping[str, str], simulated: Mapping[str, str], base_url: str
) -> dict[str, str]:
    """`environ` with the variables of a simulation."""
    whole = {name: value for name, value in environ.items() if name not in OVERRIDING_VARIABLES}
    whole.update(simulated)
    attributes = "OTEL_RESOURCE_ATTRIBUTES"
    if environ.get(attributes) and simulated.get(attributes):
        whole[attributes] = f"{environ[attributes]},{simulated[attributes]}"
    # A proxy does not reach the loopback of this machine.
    host = urlsplit(base_url).hostname
    if host and any(environ.get(name) for name in PROXY_VARIABLES):
        for name in ("NO_PROXY", "no_proxy"):
            known = [part for part in whole.get(name, "").split(",") if part]
            if host not in known:
                whole[name] = ",".join([*known, host])
    return whole


_lock = threading.Lock()
#: Threads whose simulations are in the environment of this process, innermost last.
_holders: list[int] = []


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    thread = threading.get_ident()
    with _lock:
        if _holders and _holders[-1] != thread:
            raise SpanreelError(
                "another thread has a simulation in the environment, which all threads share",
                remedy="use processes, or hand `.env` and `.base_url` to the clients",
            )
        _holders.append(thread)
    before = dict(os.environ)
    try:
        _set_environment(before, variables)
        yield
    finally:
        # What the code under simulation changed itself stays.
        for name in set(before) | set(variables):
            old, new = before.get(name), variables.get(name)
            if old != new and os.environ.get(name) == new:
                _put(name, old)
        with _lock:
            _holders.remove(thread)


def _set_environment(before: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    for name in set(before) | set(wanted):
        if before.get(name) != wanted.get(name):
            _put(name, wanted.get(name))


def _put(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


__all__ = ["Divergence", "Policy", "ServerSimulation", "Simulation"]
