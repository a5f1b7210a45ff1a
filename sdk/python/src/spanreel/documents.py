"""The documents of the API as dataclasses.

Each keeps the JSON object it was read from in `raw`; `unknown` is the part of it that this version
does not know.
Times are the server's text (RFC 3339, nanoseconds); `parse_time` makes a `datetime` of one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ._document import Document, counted, each, filled, listed, many, one, renamed
from .errors import NotSpanreel


@dataclass(frozen=True)
class Usage(Document):
    """Tokens and cost; `None` where no producer gave it."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_usd: float | None = None


@dataclass(frozen=True)
class Failure(Document):
    """What an operation failed with."""

    type: str | None = None
    message: str | None = None
    status_code: int | None = None


@dataclass(frozen=True)
class Reason(Document):
    """Why a run is not complete."""

    code: str
    #: `content` or `structure`; a simulation refuses for content only.
    class_: str = renamed("class")
    detail: str = ""
    step_index: int | None = None
    span_id: str | None = None
    trace_id: str | None = None


@dataclass(frozen=True)
class Note(Document):
    """Something worth knowing that does not stop a replay."""

    code: str
    detail: str = ""
    step_index: int | None = None
    span_id: str | None = None
    trace_id: str | None = None


@dataclass(frozen=True)
class Part(Document):
    """A piece of a message, with the part types of the OpenTelemetry GenAI schema."""

    #: `text`, `reasoning`, `tool_call`, `tool_call_response`, `blob`, `uri`, `file`, ...
    type: str = ""
    content: Any = None
    id: str | None = None
    name: str | None = None
    arguments: Any = None
    response: Any = None


@dataclass(frozen=True)
class Message(Document):
    """One message of a model call."""

    role: str
    parts: list[Part] = many(Part)
    name: str | None = None
    finish_reason: str | None = None

    @property
    def text(self) -> str:
        """Its text parts, joined."""
        texts = (part.content for part in self.parts if part.type == "text")
        return "".join(text for text in texts if isinstance(text, str))

    @property
    def tool_calls(self) -> list[Part]:
        """The tools that it asks for."""
        return [part for part in self.parts if part.type == "tool_call"]


@dataclass(frozen=True)
class Content(Document):
    """One side of a step."""

    #: `captured`, `not_captured`, `truncated`, `redacted`, `external`, `inferred`, `unserializable`
    state: str = "not_captured"
    messages: list[Message] = many(Message)
    system_instructions: list[Part] = many(Part)


@dataclass(frozen=True)
class Tool(Document):
    """What a tool was called with, and what it answered."""

    call_id: str | None = None
    arguments: Any = None
    result: Any = None


@dataclass(frozen=True)
class Retrieval(Document):
    """What was searched for, and found."""

    query: str | None = None
    documents: Any = None


@dataclass(frozen=True)
class Request(Document):
    """Parameters of a model call."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    streamed: bool | None = None


@dataclass(frozen=True)
class Step(Document):
    """One operation of a run."""

    index: int
    #: `model_call`, `tool_call`, `retrieval`, `embedding`, `handoff`, `human_input`, ...
    kind: str
    name: str = ""
    #: `ok`, `error`, `interrupted`, `cancelled`
    status: str = ""
    span_id: str | None = None
    trace_id: str | None = None
    parent_index: int | None = None
    depth: int = 0
    agent_path: list[str] = listed()
    parallel_group: int | None = None
    started_at: str | None = None
    ended_at: str | None = None
    duration_ms: float | None = None
    error: Failure | None = one(Failure)
    decision: str | None = None
    model: str | None = None
    response_model: str | None = None
    provider: str | None = None
    response_id: str | None = None
    finish_reasons: list[str] = listed()
    usage: Usage = filled(Usage)
    input: Content = filled(Content)
    output: Content = filled(Content)
    tool: Tool | None = one(Tool)
    retrieval: Retrieval | None = one(Retrieval)
    request: Request | None = one(Request)
    tool_definitions: Any = None
    ttft_ms: float | None = None
    cost_source: str | None = None
    inferred: bool = False
    superseded_spans: list[str] = listed()
    service_name: str | None = None
    dialect: str | None = None


@dataclass(frozen=True)
class Trace(Document):
    """The traces of a run."""

    trace_id: str | None = None
    trace_ids: list[str] = listed()
    root_span_id: str | None = None
    span_count: int = 0


@dataclass(frozen=True)
class Replay(Document):
    """A run with all its steps and content."""

    run_id: str
    #: `running`, `completed`, `failed`, `interrupted`, `abandoned`
    status: str
    #: `complete`, `partial`, `none`
    replayability: str
    #: True unless the record is complete.
    partial: bool
    steps: list[Step] = many(Step)
    tenant_id: str | None = None
    aliases: list[str] = listed()
    rule: str | None = None
    trace: Trace = filled(Trace)
    trace_id: str | None = None
    trace_ids: list[str] = listed()
    parent_run_id: str | None = None
    settled: bool = False
    started_at: str | None = None
    ended_at: str | None = None
    duration_ms: float | None = None
    error: Failure | None = one(Failure)
    record_digest: str = ""
    partial_reasons: list[Reason] = many(Reason)
    notes: list[Note] = many(Note)
    checkpoints: list[str] = listed()
    conversation: str | None = None
    user: str | None = None
    thread: str | None = None
    agents: list[str] = listed()
    models: list[str] = listed()
    tools: list[str] = listed()
    service_names: list[str] = listed()
    source: str | None = None
    usage: Usage = filled(Usage)
    cost_source: str | None = None

    def steps_of(self, kind: str) -> list[Step]:
        """The steps of one kind, in order."""
        return [step for step in self.steps if step.kind == kind]


@dataclass(frozen=True)
class Run(Document):
    """A run as lists show it, without its content."""

    run_id: str
    status: str
    replayability: str
    aliases: list[str] = listed()
    rule: str | None = None
    settled: bool = False
    started_at: str | None = None
    ended_at: str | None = None
    #: Number of steps by kind.
    steps: dict[str, int] = counted()
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_usd: float | None = None
    models: list[str] = listed()
    tools: list[str] = listed()
    agents: list[str] = listed()
    conversation: str | None = None
    user: str | None = None
    thread: str | None = None
    trace_ids: list[str] = listed()
    root_span_id: str | None = None
    span_count: int = 0
    service_names: list[str] = listed()
    partial_reasons: list[Reason] = many(Reason)
    notes: list[Note] = many(Note)
    checkpoints: list[str] = listed()
    error: Failure | None = one(Failure)
    parent_run_id: str | None = None
    record_digest: str = ""
    join_keys: list[str] = listed()
    source: str | None = None
    last_received_unix_nano: int = 0


@dataclass(frozen=True)
class Checkpoint(Document):
    """A checkpoint of a run."""

    checkpoint_id: str
    #: False when a step refers to it and nobody recorded it.
    recorded: bool = False
    step_index: int | None = None
    namespace: str | None = None
    thread_id: str | None = None
    parent_checkpoint_id: str | None = None
    source: str | None = None
    state: Any = None


@dataclass(frozen=True)
class Span(Document):
    """A span in the tree of a run; frames and superseded spans are there too."""

    span_id: str
    trace_id: str
    name: str = ""
    #: The kind of the step, or `agent`, `workflow`, `task`, `internal`, `foreign` for a frame.
    kind: str = ""
    parent_span_id: str | None = None
    step_index: int | None = None
    superseded_by: str | None = None
    other_versions: list[str] = listed()
    children: list[Span] = field(
        default_factory=list, metadata={"reader": lambda items: each(Span, items)}
    )


@dataclass(frozen=True)
class Tree(Document):
    """The spans of a run as a forest."""

    run_id: str
    spans: list[Span] = many(Span)

    def walk(self) -> Iterator[tuple[int, Span]]:
        """Every span with its depth, parents first."""
        waiting = [(0, span) for span in reversed(self.spans)]
        while waiting:
            depth, span = waiting.pop()
            yield depth, span
            waiting.extend((depth + 1, child) for child in reversed(span.children))


@dataclass(frozen=True)
class Diff(Document):
    """How two runs differ; `raw` is the document."""


def parse_time(text: str | None) -> datetime | None:
    """A time of the API, to the microsecond that Python holds."""
    if text is None:
        return None
    # Python 3.10 reads neither a Z nor nine digits.
    text = re.sub(r"(\.\d{6})\d+", r"\1", text.replace("Z", "+00:00"))
    text = re.sub(r"\.(\d{1,5})(?=[+-])", lambda found: "." + found[1].ljust(6, "0"), text)
    return datetime.fromisoformat(text)


def of_page(page: Any, member: str) -> tuple[list[Any], str | None]:
    """The items of a page, and where the next one begins."""
    items = page.get(member) if isinstance(page, Mapping) else None
    if not isinstance(items, list):
        raise NotSpanreel(f"a page without {member!r}")
    cursor = page.get("next_cursor")
    return items, None if cursor is None else str(cursor)
