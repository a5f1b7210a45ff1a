"""Lines of a stream, however they are cut."""

from __future__ import annotations

import json
import random

import pytest
from conftest import Answer, Script

import spanreel


@pytest.mark.parametrize("seed", range(5))
def test_a_line_is_cut_where_a_chunk_ends(script: Script, seed: int) -> None:
    choose = random.Random(seed)
    wanted = []
    for number in range(100):
        text = "".join(choose.choices('ab"\\\n\r 日🚂', k=choose.randrange(200)))
        replay = {"run_id": f"{number} {text}", "status": "", "replayability": "", "partial": True}
        wanted.append({**replay, "pad": "x" * choose.choice([0, 10, 100_000])})
    data = b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in wanted)
    data = data[: len(data) - choose.randrange(2)]
    places = sorted(choose.sample(range(1, len(data)), 500))
    chunks = [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]
    script.will(Answer(200, chunks=iter(chunks)))
    replays = list(spanreel.Client(script.url).replays())
    assert [replay.raw for replay in replays] == wanted


def test_a_stream_of_known_length_is_cut(script: Script) -> None:
    line = b'{"run_id":"r","status":"","replayability":"","partial":true}\n'
    script.will(Answer(200, line * 2))
    assert len(list(spanreel.Client(script.url).replays())) == 2
    script.answers[:] = [Answer(200, line * 2, cut=True)]
    replays = spanreel.Client(script.url).replays()
    assert next(replays).run_id == next(replays).run_id == "r"
    with pytest.raises(spanreel.ConnectionFailed, match="ended early"):
        next(replays)


def test_an_empty_stream_is_an_error(script: Script) -> None:
    script.will(Answer(200, b""))
    assert list(spanreel.Client(script.url).replays()) == []
