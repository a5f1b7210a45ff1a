"""Reports as text.

What a record holds is shown as data: no control character reaches the terminal.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .report import Change, Extra, Nearest, Report, StepRef, Words

#: The longest value or message that is shown, in characters.
VALUE_CHARS_MAX = 400
#: Calls, steps or differences that are listed.
ENTRIES_MAX = 10
#: Characters of equal text that are shown beside a difference.
AROUND_CHARS_MAX = 40


def of_report(report: Report) -> str:
    """The report for a person."""
    return "\n".join(_lines(report))


def _lines(report: Report) -> Iterator[str]:
    mode = clean(report.simulation.get("mode", ""))
    yield f"run {clean(report.run_id)} ({mode}): {clean(report.verdict)}"
    first = report.first_divergence
    if first is not None:
        yield from _first(first)
        rest = [extra for extra in report.extra if extra.raw != first.raw]
        if rest:
            yield f"{_count(len(rest), 'more call')} without an answer:"
            yield from _some(rest, lambda extra: f"  {_call(extra)}: {clean(extra.class_)}")
    loose = [match for match in report.matches if match.is_loose]
    if loose:
        yield f"{_count(len(loose), 'call')} answered though not as recorded:"
        yield from _some(loose, lambda match: f"  {_step(match)}: {clean(match.rung)}")
        if first is None:
            for change in loose[0].drift[:ENTRIES_MAX]:
                yield from _change(change)
    for steps, what in (
        (report.unused, "recorded model call"),
        (report.unseen, "recorded tool call"),
    ):
        if steps:
            yield f"{_count(len(steps), what)} not made:"
            yield from _some(steps, lambda step: f"  {_step(step)}")
    saved = report.saved
    if saved is not None and (saved.model_calls or saved.tool_calls):
        calls = (_count(saved.model_calls, "model call"), _count(saved.tool_calls, "tool call"))
        yield f"answered from the record: {', '.join(calls)}"


def _step(step: StepRef) -> str:
    return f"step {step.step_index} {clean(step.kind)} {clean(step.name)}"


def _first(extra: Extra) -> Iterator[str]:
    where = "" if extra.step_index is None else f" at step {extra.step_index}"
    yield f"first divergence{where}: {_call(extra)}, {clean(extra.class_)} ({clean(extra.code)})"
    if extra.message:
        yield f"  {_cut(clean(extra.message))}"
    for change in extra.diffs[:ENTRIES_MAX]:
        yield from _change(change)
    if len(extra.diffs) > ENTRIES_MAX:
        yield f"  and {len(extra.diffs) - ENTRIES_MAX} more differences"
    if extra.nearest:
        yield f"  nearest: {', '.join(map(_near, extra.nearest[:3]))}"


def _near(near: Nearest) -> str:
    alike = "" if near.likeness is None else f" ({near.likeness:.0%} alike)"
    return f"step {near.step_index}{alike}"


def _change(change: Change) -> Iterator[str]:
    yield f"  at {clean(change.path) or '/'}"
    if change.words:
        yield f"    {_words(change.words)}"
        return
    for label, member in (("recorded", "before"), ("live", "after")):
        said = _value(change.raw[member]) if member in change.raw else "(nothing)"
        yield f"    {label + ':':9} {said}"


def _words(words: list[Words]) -> str:
    """What stayed, `[-what went-]` and `{+what came+}`."""
    pieces: list[str] = []
    last = len(words) - 1
    for number, piece in enumerate(words):
        text = clean(piece.text)
        if piece.op == "delete":
            pieces.append(f"[-{_cut(text)}-]")
        elif piece.op == "insert":
            pieces.append(f"{{+{_cut(text)}+}}")
        else:
            pieces.append(_middle(text, head=number > 0, tail=number < last))
    shown = pieces[: ENTRIES_MAX * 4]
    return "".join(shown) + (" ..." if len(shown) < len(pieces) else "")


def _middle(text: str, *, head: bool, tail: bool) -> str:
    """Equal text beside a difference, without the part that is far from any."""
    if len(text) <= AROUND_CHARS_MAX * 2:
        return text
    return (
        (text[:AROUND_CHARS_MAX] if head else "")
        + "..."
        + (text[-AROUND_CHARS_MAX:] if tail else "")
    )


def _call(extra: Extra) -> str:
    times = f" (sent {extra.sends} times)" if extra.sends > 1 else ""
    return f"{clean(extra.kind)} {clean(extra.name)}{times}"


def _some(items: list[Any], show: Any) -> Iterator[str]:
    yield from map(show, items[:ENTRIES_MAX])
    if len(items) > ENTRIES_MAX:
        yield f"  and {len(items) - ENTRIES_MAX} more"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _value(value: Any) -> str:
    return _cut(clean(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)))


def _cut(text: str) -> str:
    return text if len(text) <= VALUE_CHARS_MAX else text[:VALUE_CHARS_MAX] + "..."


def clean(text: Any) -> str:
    """`text` with every character that could move the cursor or hide text written as its escape."""
    return "".join(_shown(str(text)))


def _shown(text: str) -> Iterable[str]:
    for char in text:
        if char == " " or char.isprintable():
            yield char
        elif char == "\n":
            yield "\\n"
        else:
            yield char.encode("unicode_escape").decode("ascii")
