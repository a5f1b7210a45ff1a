"""Reports as text.

What a record holds is shown as data: no control character reaches the terminal.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .report import Difference, Extra, Report, Words

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
    mode = report.simulation.get("mode", "")
    first = report.first_divergence
    yield f"run {clean(report.run_id)} ({clean(mode)}): {_verdict(report)}"
    if first is not None:
        yield from _first(first)
        others = len(report.extra) - 1
        if others > 0:
            yield f"{_count(others, 'more call')} without an answer:"
            rest = [extra for extra in report.extra if extra.raw != first.raw]
            yield from _some(rest, lambda extra: f"  {_call(extra)}: {clean(extra.class_)}")
    drifted = [
        match for match in report.matches if match.rung not in ("exact", "static", "patched")
    ]
    if drifted:
        yield "answered though not equal:"
        yield from _some(
            drifted, lambda m: f"  step {m.step_index} {m.kind} {clean(m.name)}: {m.rung}"
        )
    if report.unused:
        yield f"{_count(len(report.unused), 'recorded step')} never asked for:"
        yield from _some(report.unused, lambda u: f"  step {u.step_index} {u.kind} {clean(u.name)}")
    saved = report.saved
    if saved is not None and (saved.model_calls or saved.tool_calls):
        yield (
            f"answered from the record: {_count(saved.model_calls, 'model call')}, "
            f"{_count(saved.tool_calls, 'tool call')}"
        )


def _verdict(report: Report) -> str:
    first = report.first_divergence
    if first is None:
        return clean(report.verdict)
    where = "" if first.step_index is None else f" at step {first.step_index}"
    return f"{clean(report.verdict)}{where}"


def _first(extra: Extra) -> Iterator[str]:
    yield f"first divergence: {_call(extra)}, {clean(extra.class_)} ({clean(extra.code)})"
    if extra.message:
        yield f"  {_cut(clean(extra.message))}"
    for difference in extra.diffs[:ENTRIES_MAX]:
        yield from _difference(difference)
    if len(extra.diffs) > ENTRIES_MAX:
        yield f"  and {len(extra.diffs) - ENTRIES_MAX} more differences"
    near = [
        f"step {n.step_index}" + ("" if n.likeness is None else f" ({n.likeness:.0%} alike)")
        for n in extra.nearest[:3]
    ]
    if near:
        yield f"  nearest: {', '.join(near)}"


def _difference(difference: Difference) -> Iterator[str]:
    yield f"  at {clean(difference.path) or '/'}"
    if difference.words:
        yield f"    {_words(difference.words)}"
        return
    yield f"    recorded: {_value(difference.recorded)}"
    yield f"    live:     {_value(difference.live)}"


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
