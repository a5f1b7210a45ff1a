"""What a simulation saw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ._document import Document, counted, listed, many, one, renamed


@dataclass(frozen=True)
class Words(Document):
    """A run of words that stayed, went or came."""

    #: `equal`, `delete`, `insert`
    op: str
    text: str = ""


@dataclass(frozen=True)
class Difference(Document):
    """A place where the live call differs from the recorded one."""

    path: str = ""
    recorded: Any = None
    live: Any = None
    words: list[Words] = many(Words)


@dataclass(frozen=True)
class Match(Document):
    """A step that answered a call."""

    step_index: int
    kind: str = ""
    name: str = ""
    #: `exact`, `volatile`, `history`, `position`, `nearest`, `static`, `patched`
    rung: str = ""
    drift: list[Difference] = many(Difference)
    sends: int = 1


@dataclass(frozen=True)
class Unused(Document):
    """A recorded step that nothing asked for."""

    step_index: int
    kind: str = ""
    name: str = ""


@dataclass(frozen=True)
class Nearest(Document):
    """A recorded step that resembles a call."""

    step_index: int
    #: From 0 to 1.
    likeness: float | None = None


@dataclass(frozen=True)
class Extra(Document):
    """A call that the record does not answer."""

    kind: str = ""
    name: str = ""
    #: `spanreel_divergence`, `spanreel_hole`, `spanreel_denied`, ...
    code: str = ""
    #: `prompt`, `tool_arguments`, `tool_set`, `model`, `parameters`, `order`, `extra`, `hole`
    class_: str = renamed("class")
    step_index: int | None = None
    message: str = ""
    diffs: list[Difference] = many(Difference)
    nearest: list[Nearest] = many(Nearest)
    sends: int = 1


@dataclass(frozen=True)
class Saved(Document):
    """What the calls that the record answered had cost when they were recorded."""

    model_calls: int = 0
    tool_calls: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    duration_ms: float | None = None


@dataclass(frozen=True)
class Report(Document):
    """The report of a simulation."""

    run_id: str
    #: `same`, `diverged`, `blocked`, `budget`
    verdict: str
    #: Number of steps that the record has.
    steps: int = 0
    simulation: dict[str, Any] = counted()
    matches: list[Match] = many(Match)
    unused: list[Unused] = many(Unused)
    extra: list[Extra] = many(Extra)
    first_divergence: Extra | None = one(Extra)
    saved: Saved | None = one(Saved)
    synthesized: list[str] = listed()
    record_digest: str = ""

    def text(self) -> str:
        """The report for a person."""
        from ._text import of_report

        return of_report(self)
