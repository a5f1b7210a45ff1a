"""The client of the API."""

from __future__ import annotations

import os
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from . import documents
from ._http import Transport, query, segment
from .documents import Checkpoint, Diff, Replay, Run, Step, Tree
from .simulation import ServerSimulation, options

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator, Mapping, Sequence

    from .simulation import Policy

#: Where a server listens unless told otherwise.
DEFAULT_URL = "http://127.0.0.1:4319"
#: The most that the server puts on a page.
PAGE_MAX = 500


class Client:
    """Asks a spanreel server.

    `url` and `key` default to SPANREEL_URL and SPANREEL_KEY. `timeout` is how many seconds the
    server may stay silent. What is only read is asked for `retries` more times when the connection
    fails or the server says that it is busy. Threads may share a client.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        timeout: float | None = 60.0,
        retries: int = 3,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        url = url or os.environ.get("SPANREEL_URL") or DEFAULT_URL
        if key is None:
            key = os.environ.get("SPANREEL_KEY")
        self._transport = Transport(
            url, key, timeout=timeout, retries=retries, ssl_context=ssl_context
        )
        self.runs = Runs(self._transport)

    @property
    def url(self) -> str:
        """Where the server is."""
        return self._transport.url

    def __repr__(self) -> str:
        key = "set" if self._transport.has_key else None
        return f"Client(url={self.url!r}, key={key})"

    def replay(self, run: str) -> Replay:
        """The run with all its steps and content."""
        return self.runs.replay(run)

    def replays(
        self,
        *,
        status: str | None = None,
        agent: str | None = None,
        model: str | None = None,
        tool: str | None = None,
        conversation: str | None = None,
        since: datetime | date | str | None = None,
        until: datetime | date | str | None = None,
        replayability: str | None = None,
        q: str | None = None,
    ) -> Iterator[Replay]:
        """Replays of all runs that match, one at a time as they arrive.

        The parameters are those of `runs.list`.
        """
        asked = _filters(status, agent, model, tool, conversation, since, until, replayability, q)
        with self._transport.lines("/v1/replays" + query(asked)) as lines:
            for line in lines:
                yield Replay.read(line)

    def simulate(
        self,
        run: str,
        mode: str = "strict",
        *,
        with_runs: Sequence[str] = (),
        allow_partial: bool = False,
        speed: float | None = None,
        step: bool = False,
        breakpoints: Sequence[int | str] = (),
        policy: Policy | None = None,
        patch: Mapping[int | str, Any] | None = None,
    ) -> ServerSimulation:
        """Opens a session that answers an agent's model and tool calls from the record of `run`.

        Use it as a context manager. `mode` is `strict`, `lenient` or `fork@N`. `with_runs` are more
        runs that the same program made, in order. `policy` is the policy, or a path to one; `patch`
        gives other answers to some steps, by index: `{3: {"result": ...}}`, `{0: {"output": ...}}`.
        """
        asked = options(
            mode=mode,
            with_runs=with_runs,
            allow_partial=allow_partial,
            speed=speed,
            step=step,
            breakpoints=breakpoints,
            policy=policy,
            patch=patch,
        )
        path = f"/v1/runs/{segment(run)}/simulations"
        document = self._transport.json("POST", path, asked)
        return ServerSimulation(self._transport, document, holds=step or bool(breakpoints))


class Runs:
    """`client.runs`: what is recorded of runs."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(
        self,
        *,
        status: str | None = None,
        agent: str | None = None,
        model: str | None = None,
        tool: str | None = None,
        conversation: str | None = None,
        since: datetime | date | str | None = None,
        until: datetime | date | str | None = None,
        replayability: str | None = None,
        q: str | None = None,
        page_size: int = PAGE_MAX,
    ) -> Iterator[Run]:
        """Runs that match, newest first, over all pages.

        `since` and `until` bound the start; a time without a zone is UTC. `q` is a part of the id,
        of an agent's, a tool's or a model's name, or of the conversation.
        """
        asked = _filters(status, agent, model, tool, conversation, since, until, replayability, q)
        return map(Run.read, self._pages("/v1/runs", "items", asked, page_size))

    def get(self, run: str) -> Run:
        """One run, without its content."""
        return Run.read(self._of(run))

    def steps(self, run: str, *, page_size: int = PAGE_MAX) -> Iterator[Step]:
        """The steps of a run in order, over all pages."""
        path = f"/v1/runs/{segment(run)}/steps"
        return map(Step.read, self._pages(path, "steps", {}, page_size))

    def step(self, run: str, index: int) -> Step:
        """One step; they count from 0."""
        return Step.read(self._of(run, f"/steps/{segment(str(index))}"))

    def replay(self, run: str) -> Replay:
        """The run with all its steps and content."""
        return Replay.read(self._of(run, "/replay"))

    def tree(self, run: str) -> Tree:
        """Every span of the run, frames included."""
        return Tree.read(self._of(run, "/tree"))

    def diff(self, run: str, other: str) -> Diff:
        """How `other` differs from `run`."""
        return Diff.read(self._of(run, f"/diff/{segment(other)}"))

    def checkpoints(self, run: str) -> list_[Checkpoint]:
        """The checkpoints of the run, those that are only referred to included."""
        items, _ = documents.of_page(self._of(run, "/checkpoints"), "checkpoints")
        return [Checkpoint.read(item) for item in items]

    def _of(self, run: str, what: str = "") -> Any:
        return self._transport.json("GET", f"/v1/runs/{segment(run)}{what}")

    def _pages(
        self, path: str, member: str, asked: Mapping[str, Any], page_size: int
    ) -> Iterator[Any]:
        cursor: str | None = None
        while True:
            parameters = {**asked, "limit": page_size, "cursor": cursor}
            page = self._transport.json("GET", path + query(parameters))
            items, cursor = documents.of_page(page, member)
            yield from items
            if cursor is None:
                return


#: `Runs.list` hides the builtin within its class.
list_ = list


def _filters(
    status: str | None,
    agent: str | None,
    model: str | None,
    tool: str | None,
    conversation: str | None,
    since: datetime | date | str | None,
    until: datetime | date | str | None,
    replayability: str | None,
    q: str | None,
) -> dict[str, str | None]:
    return {
        "status": status,
        "agent": agent,
        "model": model,
        "tool": tool,
        "conversation": conversation,
        "from": _moment(since),
        "to": _moment(until),
        "replayability": replayability,
        "q": q,
    }


def _moment(value: datetime | date | str | None) -> str | None:
    return value.isoformat() if isinstance(value, date) else value
