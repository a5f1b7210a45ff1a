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
class Change(Document):
    """A place where the live call differs from the recorded one."""

    #: A JSON pointer into the call.
    path: str = ""
    #: Where it stands in the recorded call, when that is another place.
    path_before: str | None = None
    #: What was recorded; absent from `raw` when there was nothing.
    before: Any = None
    #: What came; absent from `raw` when there was nothing.
    after: Any = None
    #: Of two texts, what leads from the one to the other.
    words: list[Words] = many(Words)


@dataclass(frozen=True)
class StepRef(Document):
    """A recorded step."""

    step_index: int
    kind: str = ""
    name: str = ""
    #: Its run, where more than one is simulated.
    run_id: str | None = None


@dataclass(frozen=True)
class Match(StepRef):
    """A step that answered a call."""

    #: `exact`, `volatile`, `position`, `settings`, `instructions`, `history`, `shape`, `nearest`
    rung: str = ""
    #: A patch stood in for the recorded answer.
    patched: bool = False
    drift: list[Change] = many(Change)
    sends: int = 1

    @property
    def is_loose(self) -> bool:
        """True when the call was not the recorded one, and was answered all the same."""
        return self.rung not in ("exact", "volatile", "static", "live")


@dataclass(frozen=True)
class Nearest(StepRef):
    """A recorded step that resembles a call."""

    #: From 0 to 1.
    likeness: float | None = None


@dataclass(frozen=True)
class Extra(Document):
    """A call that the record does not answer."""

    kind: str = ""
    name: str = ""
    #: `spanreel_divergence`, `spanreel_hole`, `spanreel_denied`, `spanreel_live_blocked`, ...
    code: str = ""
    #: `prompt`, `tool_arguments`, `tool_set`, `model`, `parameters`, `extra`, `hole`, `policy`, ...
    class_: str = renamed("class")
    step_index: int | None = None
    run_id: str | None = None
    message: str = ""
    diffs: list[Change] = many(Change)
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
    #: `same`, `diverged`, `hole`, `blocked`, `budget`
    verdict: str
    with_runs: list[str] = listed()
    record_digest: str = ""
    simulation: dict[str, Any] = counted()
    first_divergence: Extra | None = one(Extra)
    #: Number of steps that the record has.
    steps: int = 0
    matches: list[Match] = many(Match)
    #: Recorded model calls that were not made.
    unused: list[StepRef] = many(StepRef)
    #: Recorded tool calls that neither came to the simulation nor show in what a model was told.
    unseen: list[StepRef] = many(StepRef)
    #: Calls that the record does not answer.
    extra: list[Extra] = many(Extra)
    #: Number of calls that were made live.
    live: int = 0
    saved: Saved | None = one(Saved)
    synthesized: list[str] = listed()

    @property
    def is_idle(self) -> bool:
        """True when nothing was asked at all."""
        return not (self.matches or self.extra or self.live)

    @property
    def is_unfinished(self) -> bool:
        """True when nothing differs, but recorded model calls were not made."""
        return bool(self.unused) and not self.extra and not any(m.is_loose for m in self.matches)

    def text(self) -> str:
        """The report for a person."""
        from ._text import of_report

        return of_report(self)
