"""The plugin for pytest: a test against the record of a run.

The session is opened, and the environment set, before any fixture of the test is set up. It is
judged when the test has run, so that a divergence fails the test itself, and again when its
fixtures are torn down, for what they asked. Nothing is shared between tests.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from . import fixture as fixtures
from .client import Client
from .errors import PartialRun, SpanreelError

if TYPE_CHECKING:
    from collections.abc import Generator

    from .report import Report
    from .simulation import Simulation

#: Arguments of the mark.
ARGUMENTS = (
    "run",
    "fixture",
    "mode",
    "allow_partial",
    "policy",
    "patch",
    "unused",
    "verdict",
)
#: The longest name of a report's file, before its hash, in characters.
FILE_NAME_CHARS_MAX = 100


@dataclass
class _Wanted:
    """What the mark of a test says."""

    run: str | None = None
    fixture: str | os.PathLike[str] | None = None
    mode: str = "strict"
    allow_partial: bool = False
    policy: Any = None
    patch: Any = None
    unused: str = "models"
    verdict: str | None = "same"


@dataclass
class _Session:
    """The simulation of one test."""

    wanted: _Wanted
    simulation: Simulation
    #: Undoes the environment.
    stack: ExitStack = field(default_factory=ExitStack)
    #: What the report said was wrong, so that it is said once.
    said: str | None = None
    #: Whether what was never asked for counts: the test ran to its end.
    ended: bool = False


_SESSION = pytest.StashKey[_Session]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options."""
    group = parser.getgroup("spanreel", "tests against recorded runs")
    group.addoption("--spanreel-url", metavar="URL", help="the spanreel server (else SPANREEL_URL)")
    group.addoption(
        "--spanreel-mode",
        metavar="MODE",
        help="strict, lenient or fork@N; goes before the mode of marks",
    )
    group.addoption(
        "--spanreel-report",
        metavar="DIR",
        help="write the report of each simulation there, as JSON",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Describes the mark."""
    config.addinivalue_line(
        "markers",
        "spanreel(run=None, fixture=None, mode='strict', allow_partial=False, policy=None, "
        "patch=None, unused='models', verdict='same'): run the test against the record of a run",
    )


@pytest.fixture
def spanreel(request: pytest.FixtureRequest) -> Simulation:
    """The simulation of this test."""
    session = request.node.stash.get(_SESSION, None)
    if session is None:
        pytest.fail("the fixture `spanreel` needs the mark: @pytest.mark.spanreel(run=...)", False)
    simulation: Simulation = session.simulation
    return simulation


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Opens the session: after the marks that skip a test, before any fixture is set up."""
    mark = item.get_closest_marker("spanreel")
    if mark is None:
        return
    wanted = _wanted(mark, item.config)
    try:
        simulation = _open(wanted, item)
    except SpanreelError as error:
        # A test that cannot be simulated is broken; to skip it would hide that.
        hint = " in the mark" if isinstance(error, PartialRun) else ""
        pytest.fail(f"spanreel: {error}{hint}", pytrace=False)
    session = _Session(wanted, simulation)
    item.stash[_SESSION] = session
    session.stack.enter_context(simulation.environment())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Fails the test whose agent diverged, whatever the agent made of it."""
    session = item.stash.get(_SESSION, None)
    if session is None:
        return (yield)
    try:
        outcome = yield
    except (Exception, pytest.fail.Exception):
        _add_section(item, session)
        raise
    session.ended = True
    _judge(session, _report(session.simulation))
    return outcome


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    """Ends the session when the fixtures are torn down, and judges what they asked."""
    session = item.stash.get(_SESSION, None)
    if session is None:
        return (yield)
    try:
        outcome = yield
    finally:
        del item.stash[_SESSION]
        session.stack.close()
        report = _final_report(item, session)
    _judge(session, report)
    return outcome


def _wanted(mark: pytest.Mark, config: pytest.Config) -> _Wanted:
    unknown = sorted(set(mark.kwargs) - set(ARGUMENTS))
    if mark.args or unknown:
        what = ", ".join(unknown) or "an argument without a name"
        pytest.fail(
            f"@pytest.mark.spanreel does not know {what}; it takes {', '.join(ARGUMENTS)}", False
        )
    wanted = _Wanted(**mark.kwargs)
    if (wanted.run is None) == (wanted.fixture is None):
        pytest.fail("@pytest.mark.spanreel needs either run= or fixture=", pytrace=False)
    if wanted.unused not in ("models", "ignore", "fail"):
        pytest.fail("@pytest.mark.spanreel: unused is 'models', 'ignore' or 'fail'", pytrace=False)
    wanted.mode = config.getoption("--spanreel-mode") or wanted.mode
    return wanted


def _open(wanted: _Wanted, item: pytest.Item) -> Simulation:
    if wanted.fixture is not None:
        return fixtures.open(
            _folder(wanted.fixture, item),
            wanted.mode,
            allow_partial=wanted.allow_partial,
            policy=wanted.policy,
            patch=wanted.patch,
        )
    assert wanted.run is not None  # noqa: S101
    return Client(item.config.getoption("--spanreel-url")).simulate(
        wanted.run,
        wanted.mode,
        allow_partial=wanted.allow_partial,
        policy=wanted.policy,
        patch=wanted.patch,
    )


def _folder(named: str | os.PathLike[str], item: pytest.Item) -> Path:
    """A fixture's folder, from the root of the project or beside the test."""
    places = [item.config.rootpath / named, item.path.parent / named]
    for place in places:
        if place.is_dir():
            return place
    pytest.fail(
        f"spanreel: there is no fixture {os.fspath(named)!r}; looked for "
        + " and ".join(str(place) for place in dict.fromkeys(places))
        + "; make one with `spanreel export RUN --format fixture -o FOLDER`",
        pytrace=False,
    )


def _report(simulation: Simulation) -> Report:
    try:
        return simulation.report()
    except SpanreelError as error:
        pytest.fail(f"spanreel: the simulation gave no report: {error}", pytrace=False)


def _add_section(item: pytest.Item, session: _Session) -> None:
    """The report beside the failure of the test, which it may explain."""
    try:
        report = session.simulation.report()
    except SpanreelError as error:
        item.add_report_section("call", "spanreel", str(error))
        return
    session.said = _wrong(session, report)
    if session.said:
        item.add_report_section("call", "spanreel", report.text())


def _judge(session: _Session, report: Report) -> None:
    wrong = _wrong(session, report)
    if wrong is None or wrong == session.said:
        return
    session.said = wrong
    pytest.fail(f"spanreel: {wrong}\n{report.text()}", pytrace=False)


def _wrong(session: _Session, report: Report) -> str | None:
    wanted = session.wanted
    if wanted.verdict is None:
        return None
    if not session.ended and report.is_unfinished:
        # A test that broke off says nothing of the calls that it did not come to.
        return None
    if session.ended and report.is_idle:
        return (
            "nothing was asked of the simulation; a client that was built before the test, or that "
            "does not read its base URL from the environment, asks elsewhere"
        )
    tolerated = wanted.verdict == "same" and wanted.unused == "ignore" and report.is_unfinished
    if report.verdict != wanted.verdict and not tolerated:
        return f"the verdict is {report.verdict!r}, not {wanted.verdict!r}"
    if session.ended and wanted.unused == "fail" and (report.unused or report.unseen):
        return "recorded calls were not made"
    return None


def _final_report(item: pytest.Item, session: _Session) -> Report:
    try:
        report = session.simulation.close()
    except SpanreelError as error:
        pytest.fail(f"spanreel: the simulation gave no report: {error}", pytrace=False)
    folder = item.config.getoption("--spanreel-report")
    if folder:
        _write(Path(folder), item.nodeid, report)
    return report


def _write(folder: Path, nodeid: str, report: Report) -> None:
    """One file a test, so that workers do not meet."""
    folder.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(nodeid.encode()).hexdigest()[:8]
    words = re.sub(r"[^A-Za-z0-9._-]+", "-", nodeid).strip("-.")[-FILE_NAME_CHARS_MAX:]
    path = folder / f"{words}-{digest}.json"
    unfinished = path.with_suffix(f".{os.getpid()}.tmp")
    document = {"test": nodeid, "report": report.raw}
    unfinished.write_text(json.dumps(document, indent=1, ensure_ascii=False), encoding="utf-8")
    unfinished.replace(path)
