"""Simulations without a server: the program `spanreel` answers from a fixture.

A fixture is a folder that holds one run.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections import deque
from contextlib import suppress
from pathlib import Path
from queue import Empty, Queue
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakSet

from ._http import ANSWER_BYTES_MAX, parse
from ._text import clean
from .errors import BinaryFailed, BinaryNotFound, InvalidRequest, PartialRun, Problem, RunNotFound
from .report import Report
from .simulation import Simulation

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import BinaryIO

    from .simulation import Policy

#: Seconds within which the program must have opened the session.
START_TIMEOUT = 60.0
#: Seconds that the program may take for its report.
END_TIMEOUT = 30.0
#: Lines of what the program says on stderr that are kept for an error.
STDERR_LINES_MAX = 50
#: The longest line of stderr that is kept, in bytes.
STDERR_LINE_BYTES_MAX = 4096

#: Exit codes of the program that have an error of their own.
_EXITS: dict[int, tuple[type[Problem], str]] = {
    2: (InvalidRequest, "invalid_parameter"),
    3: (PartialRun, "partial_run"),
    66: (RunNotFound, "run_not_found"),
}


def binary() -> str:
    """The program: SPANREEL_BIN, else `spanreel` on PATH."""
    named = os.environ.get("SPANREEL_BIN")
    if named:
        if os.access(named, os.X_OK) and not os.path.isdir(named):
            return os.path.abspath(named)
        raise BinaryNotFound(f"SPANREEL_BIN is {named!r}, and that is no program")
    found = shutil.which("spanreel")
    if found is None:
        raise BinaryNotFound("the program spanreel is not on PATH, and SPANREEL_BIN is not set")
    return found


def open(  # noqa: A001
    folder: str | os.PathLike[str],
    mode: str = "strict",
    *,
    allow_partial: bool = False,
    speed: float | None = None,
    policy: Policy | None = None,
    patch: Mapping[int | str, Any] | None = None,
) -> FixtureSimulation:
    """Opens a session that answers from a fixture. Use it as a context manager.

    The parameters are those of `Client.simulate`. The program ends with the session, also when this
    process is killed.
    """
    if not os.path.isdir(folder):
        raise RunNotFound(
            f"there is no fixture at {os.fspath(folder)!r}",
            code="run_not_found",
            status=404,
            remedy="make one with `spanreel export RUN --format fixture -o FOLDER`",
        )
    with tempfile.TemporaryDirectory(prefix="spanreel-") as scratch:
        command = [binary(), "simulate", os.path.abspath(folder), "--json", "--mode", mode]
        if allow_partial:
            command.append("--allow-partial")
        if speed is not None:
            command += ["--speed", f"{speed:g}"]
        if policy is not None:
            command += ["--policy", _file(policy, Path(scratch) / "policy.json")]
        for index, answer in (patch or {}).items():
            at = Path(scratch) / f"patch-{len(command)}.json"
            command += ["--patch", f"{index}={_file(answer, at)}"]
        process = _Process(command)
        try:
            line = process.line(START_TIMEOUT)
            if line is None:
                raise process.failure()
            return FixtureSimulation(process, parse(line, "spanreel simulate"))
        except BaseException:
            process.kill()
            raise


def _file(value: Any, path: Path) -> str:
    """A file that holds `value`, which may be the path of one already."""
    if isinstance(value, (str, os.PathLike)):
        return os.path.abspath(value)
    path.write_text(json.dumps(value, allow_nan=False), encoding="utf-8")
    return str(path)


class FixtureSimulation(Simulation):
    """A session that a process of its own serves."""

    def __init__(self, process: _Process, document: Any) -> None:
        super().__init__(document)
        self._process = process
        #: How the program ended; `None` while it runs.
        self.exit_code: int | None = None

    def _current_report(self) -> Report:
        line = self._process.ask()
        if line is None:
            raise self._process.failure()
        return Report.read(parse(line, "spanreel simulate"))

    def _end(self) -> Report:
        line = self._process.end()
        self.exit_code = self._process.exit_code
        if line is None:
            raise self._process.failure()
        return Report.read(parse(line, "spanreel simulate"))


class _Process:
    """The program, with a pipe to stdin whose end is the end of the session."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self._lines: Queue[bytes | None] = Queue()
        self._said: deque[bytes] = deque(maxlen=STDERR_LINES_MAX)
        self._readers = [
            threading.Thread(target=self._read_stdout, daemon=True),
            threading.Thread(target=self._read_stderr, daemon=True),
        ]
        for reader in self._readers:
            reader.start()
        _running.add(self)

    def let_go(self) -> None:
        """Closes the pipe in a child that was forked: it would keep the session open."""
        with suppress(OSError):
            cast("BinaryIO", self._process.stdin).close()

    @property
    def exit_code(self) -> int | None:
        """How it ended."""
        return self._process.returncode

    def line(self, timeout: float) -> bytes | None:
        """Its next line; `None` when there is none."""
        try:
            line = self._lines.get(timeout=timeout)
        except Empty:
            return None
        if line is None:
            # Whoever asks next shall not wait for what never comes.
            self._lines.put(None)
        return line

    def ask(self) -> bytes | None:
        """Asks for the report so far, which a line of input does, and gives its line."""
        stdin = cast("BinaryIO", self._process.stdin)
        with suppress(BrokenPipeError):
            stdin.write(b"report\n")
            stdin.flush()
        return self.line(END_TIMEOUT)

    def end(self) -> bytes | None:
        """Ends it, and gives the line that it says last."""
        stdin = cast("BinaryIO", self._process.stdin)
        with suppress(BrokenPipeError):
            stdin.close()
        line = self.line(END_TIMEOUT)
        if line is None and self._process.poll() is None:
            # A child that was forked meanwhile holds the pipe open.
            self._process.terminate()
            line = self.line(END_TIMEOUT)
        self.kill(patience=END_TIMEOUT)
        _running.discard(self)
        return line

    def kill(self, patience: float = 0.0) -> None:
        """Makes sure that it is gone, and its pipes closed."""
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for reader in self._readers:
            reader.join(timeout=END_TIMEOUT)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            with suppress(BrokenPipeError):
                cast("BinaryIO", pipe).close()

    def failure(self) -> Exception:
        """Why there was no line."""
        running = self._process.poll() is None
        self.kill(patience=1.0)
        said = clean(b"\n".join(self._said).decode("utf-8", "replace")).replace("\\n", "\n").strip()
        code = self._process.returncode
        if running and code is not None and code < 0:
            return BinaryFailed(f"spanreel simulate said nothing in time: {said}", exit_code=code)
        if code in _EXITS:
            kind, name = _EXITS[code]
            return kind(said or f"spanreel simulate ended with {code}", code=name, status=0)
        text = f"spanreel simulate ended with exit code {code}: {said}"
        return BinaryFailed(text, exit_code=code)

    def _read_stdout(self) -> None:
        pipe = cast("BinaryIO", self._process.stdout)
        while line := pipe.readline(ANSWER_BYTES_MAX):
            self._lines.put(line)
        self._lines.put(None)

    def _read_stderr(self) -> None:
        pipe = cast("BinaryIO", self._process.stderr)
        while line := pipe.readline(STDERR_LINE_BYTES_MAX):
            self._said.append(line.rstrip())


_running: WeakSet[_Process] = WeakSet()


def _let_go() -> None:
    for process in _running:
        process.let_go()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
