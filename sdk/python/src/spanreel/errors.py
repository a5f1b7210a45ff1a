"""What goes wrong, as exceptions: a class for each code of the API that a caller may want to catch.

Every message says what to do. None holds a key.
"""

from __future__ import annotations

from typing import Any


class SpanreelError(Exception):
    """The base of everything that this package raises."""

    #: What to do about it; the end of the message.
    remedy: str = ""

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        self.message = message
        self.remedy = type(self).remedy if remedy is None else remedy
        super().__init__(f"{message}; {self.remedy}" if self.remedy else message)


class ConnectionFailed(SpanreelError):
    """The server was not reached, or the connection broke."""

    remedy = "check that the server runs, and SPANREEL_URL"


class TimedOut(ConnectionFailed):
    """The server said nothing for as long as the timeout allows."""

    remedy = "give the client a longer timeout, or look at the load of the server"


class NotSpanreel(SpanreelError):
    """What answered is not the API of spanreel, or one that this package does not understand."""

    remedy = (
        "check SPANREEL_URL (the API is on port 4319 by default) and the versions of both sides"
    )


class AnswerTooLarge(SpanreelError):
    """An answer is larger than what is read into memory."""

    remedy = "read the run step by step (runs.steps), or with the spanreel command"


class Problem(SpanreelError):
    """The server refused: its code, message and details.

    The base of the errors below; raised itself for a code that this version does not know.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str,
        status: int,
        details: dict[str, Any] | None = None,
        retry_after: float | None = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.code = code
        self.status = status
        self.details: dict[str, Any] = details or {}
        #: Seconds after which the server asks to come again, where it said so.
        self.retry_after = retry_after


class InvalidRequest(Problem):
    """A parameter or the body of the request is not valid."""

    remedy = "the reason names what is wrong"


class Unauthenticated(Problem):
    """The server has keys, and the one given is not among them."""

    remedy = "give a key with Client(key=...) or SPANREEL_KEY"


class Forbidden(Problem):
    """The role of the key does not allow this."""

    remedy = "use a key of another role (developer reads content, auditor does not)"


class HostNotAllowed(Forbidden):
    """A server on loopback was asked under another name."""

    remedy = "use 127.0.0.1 or localhost in SPANREEL_URL"


class NotFound(Problem):
    """There is no such thing here."""

    remedy = "check the id, and the tenant of the key"


class RunNotFound(NotFound):
    """There is no such run."""


class StepNotFound(NotFound):
    """The run has no such step."""

    remedy = "steps count from 0"


class SimulationNotFound(NotFound):
    """The simulation was closed, or has expired."""

    remedy = "start a new one"


class PartialRun(Problem):
    """The record of the run lacks content, so a simulation could answer wrongly."""

    remedy = "record the run with content, or accept the holes with allow_partial=True"

    @property
    def partial_reasons(self) -> list[dict[str, Any]]:
        """Why the record is partial."""
        reasons = self.details.get("partial_reasons")
        return list(reasons) if isinstance(reasons, list) else []


class Unavailable(Problem):
    """The server cannot take this now."""

    remedy = "try again later"


class RateLimited(Unavailable):
    """Too many requests, or too many simulations."""

    remedy = "try again later, and close simulations that are done"


class ServerFailed(Problem):
    """The server failed."""

    remedy = "its log says why"


class Divergence(Problem):
    """A simulation has no answer for a call: the agent did something else than what is recorded."""

    remedy = "the report of the simulation says what differs"


class ToolFailed(SpanreelError):
    """The recorded tool call failed; this is the failure that the agent saw."""

    def __init__(self, name: str, result: Any, step_index: int | None) -> None:
        super().__init__(f"the recorded call of {name} failed: {_short(result)}")
        self.name = name
        #: What the tool answered.
        self.result = result
        self.step_index = step_index


class BinaryNotFound(SpanreelError):
    """The program `spanreel` is not there."""

    remedy = "install it on PATH, or name it in SPANREEL_BIN"


class BinaryFailed(SpanreelError):
    """The program `spanreel` ended with an error."""

    remedy = "run the same command in a terminal"

    def __init__(self, message: str, *, exit_code: int | None = None) -> None:
        super().__init__(message)
        self.exit_code = exit_code


#: Steps that the message of a partial run names, for each reason.
STEPS_MAX = 5

#: Classes by code of the API.
BY_CODE: dict[str, type[Problem]] = {
    "invalid_parameter": InvalidRequest,
    "invalid_body": InvalidRequest,
    "unauthenticated": Unauthenticated,
    "forbidden": Forbidden,
    "host_not_allowed": HostNotAllowed,
    "not_found": NotFound,
    "run_not_found": RunNotFound,
    "step_not_found": StepNotFound,
    "simulation_not_found": SimulationNotFound,
    "trace_not_found": NotFound,
    "partial_run": PartialRun,
    "too_many_simulations": RateLimited,
    # Of a simulation itself.
    "spanreel_simulation_gone": SimulationNotFound,
    "spanreel_not_served": NotFound,
    "spanreel_body": InvalidRequest,
    "spanreel_divergence": Divergence,
    "spanreel_hole": Divergence,
    "spanreel_denied": Divergence,
    "spanreel_live_blocked": Divergence,
    "spanreel_budget": Divergence,
    "unavailable": Unavailable,
    "internal": ServerFailed,
}

#: Classes by status, for codes that are not known: those of a newer server, or of a proxy.
BY_STATUS: dict[int, type[Problem]] = {
    400: InvalidRequest,
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    429: RateLimited,
    500: ServerFailed,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def of_problem(
    status: int, error: dict[str, Any], retry_after: float | None, asked: str
) -> Problem:
    """The exception for an error of the API; `asked` names the request."""
    code = str(error.get("code", ""))
    details = error.get("details")
    details = details if isinstance(details, dict) else {}
    kind = BY_CODE.get(code) or BY_STATUS.get(status, Problem)
    said = str(error.get("message") or f"status {status}").rstrip(".")
    reason = _codes_of(details.get("partial_reasons")) or details.get("reason")
    text = f"{asked}: {said}" + (f" ({reason})" if reason else "")
    return kind(text, code=code, status=status, details=details, retry_after=retry_after)


def _codes_of(reasons: Any) -> str:
    """What a record lacks, and at which steps."""
    steps: dict[str, list[str]] = {}
    for reason in reasons if isinstance(reasons, list) else []:
        if isinstance(reason, dict):
            at = steps.setdefault(str(reason.get("code")), [])
            if isinstance(reason.get("step_index"), int):
                at.append(str(reason["step_index"]))
    return "; ".join(
        code
        + (f" at step {', '.join(at[:STEPS_MAX])}" if at else "")
        + (", ..." if len(at) > STEPS_MAX else "")
        for code, at in sorted(steps.items())
    )


def _short(value: Any, longest: int = 300) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= longest else text[:longest] + "..."
