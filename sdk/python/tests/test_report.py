"""Reports as text."""

from __future__ import annotations

from typing import Any

from spanreel import Report


def report(**members: Any) -> Report:
    """A report that diverged."""
    base = {"run_id": "r\x1b[2J", "verdict": "diverged", "simulation": {"mode": "strict"}}
    return Report.read({**base, **members})


def miss(**members: Any) -> dict[str, Any]:
    """A call without an answer."""
    base = {"kind": "tool_call", "name": "pay", "code": "spanreel_divergence"}
    return {**base, "class": "tool_arguments", **members}


def test_a_report_moves_the_cursor() -> None:
    """What a record holds may be anything."""
    evil = "\x1b]0;title\x07\r\u202e\u2066\x9b1m\n"
    change = {"path": f"/{evil}", "before": evil, "after": {evil: 1}}
    step = {"step_index": 0, "kind": evil, "name": evil}
    extra = miss(name=evil, message=evil, diffs=[change], nearest=[step], code=evil)
    loose = {**step, "rung": evil, "drift": [change]}
    text = report(
        first_divergence=extra, extra=[extra, miss()], matches=[loose], unused=[step], unseen=[step]
    ).text()
    assert all(char == "\n" or char.isprintable() for char in text)
    assert "\\x1b]0;title" in text


def test_a_report_fills_the_screen() -> None:
    words = [{"op": op, "text": "w " * 10_000} for op in ("equal", "delete", "insert", "equal")]
    change = {"path": "/p", "before": "x" * 10_000, "after": ["y" * 10_000]}
    extra = miss(diffs=[change] * 500 + [{"path": "/w", "words": words}], message="m" * 10_000)
    steps = [{"step_index": n, "kind": "model_call", "name": "m"} for n in range(500)]
    text = report(first_divergence=extra, extra=[extra] * 1, unused=steps).text()
    assert len(text) < 20_000
    assert len(text.splitlines()) < 60
    assert "and 491 more differences" in text
    assert "500 recorded model calls not made:" in text
    assert "and 490 more" in text


def test_words_that_differ_are_hidden() -> None:
    words = [
        {"op": "equal", "text": "a" * 200 + " the "},
        {"op": "delete", "text": "old"},
        {"op": "insert", "text": "new"},
        {"op": "equal", "text": " end" + "b" * 200},
    ]
    extra = miss(diffs=[{"path": "/w", "words": words}], step_index=3, sends=2)
    lines = report(first_divergence=extra, extra=[extra]).text().splitlines()
    first = "first divergence at step 3: tool_call pay (sent 2 times), tool_arguments"
    assert lines[1] == f"{first} (spanreel_divergence)"
    (shown,) = (line for line in lines if "[-old-]{+new+}" in line)
    assert shown.strip().startswith("...aaa")
    assert " the [-old-]{+new+} end" in shown
    assert shown.endswith("bbb...")


def test_nothing_and_null_look_alike() -> None:
    changes = [{"path": "/a", "after": None}, {"path": "/b", "before": None, "after": 1}]
    extra = miss(diffs=changes)
    text = report(first_divergence=extra, extra=[extra]).text()
    assert "recorded: (nothing)\n    live:     null" in text
    assert "recorded: null\n    live:     1" in text


def test_a_verdict_without_a_miss_says_nothing() -> None:
    loose = {"step_index": 2, "kind": "model_call", "name": "m", "rung": "nearest"}
    loose["drift"] = [{"path": "/p", "before": 1, "after": 2}]
    text = report(matches=[loose]).text()
    assert "1 call answered though not as recorded:\n  step 2 model_call m: nearest" in text
    assert "recorded: 1" in text
    assert not report(matches=[loose]).is_unfinished
