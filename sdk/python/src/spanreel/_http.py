"""Requests to one server: the key, retries, redirects, errors.

No connection is kept, so threads may share a transport.
"""

from __future__ import annotations

import http.client
import json
import random
import re
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlencode, urljoin, urlsplit

from ._version import __version__
from .errors import (
    AnswerTooLarge,
    ConnectionFailed,
    NotSpanreel,
    RateLimited,
    TimedOut,
    Unavailable,
    of_problem,
)

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator, Mapping

T = TypeVar("T")

#: The longest answer, and the longest line of a stream, that is read into memory, in bytes.
ANSWER_BYTES_MAX = 1 << 30
#: The longest error that is read, in bytes.
ERROR_BYTES_MAX = 1 << 20
#: What is read of a stream at once, in bytes.
PIECE_BYTES = 1 << 16
#: Redirects that are followed; a run's alias needs one.
REDIRECTS_MAX = 3
#: The first pause between two tries, in seconds; each further one is twice as long.
PAUSE_FIRST = 0.2
#: The longest pause between two tries; a server that asks for a longer one is not asked again.
PAUSE_MAX = 60.0
#: What may be sent again after 429 and 503.
SAFE_METHODS = ("GET",)


class Secret:
    """A key that no `repr`, log or traceback shows."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The key itself."""
        return self._value

    def __repr__(self) -> str:
        return "***"

    def __reduce__(self) -> Any:
        raise TypeError("a key is not pickled; make the client anew from the environment")


def segment(text: str) -> str:
    """`text` as one segment of a path, whatever it holds."""
    if not text:
        raise ValueError("an id is empty")
    # A dot stays as it is in `quote`, and `..` would leave the segment.
    return quote(text, safe="", errors="strict").replace(".", "%2E")


def query(parameters: Mapping[str, Any]) -> str:
    """The query string of the parameters that are set."""
    known = {name: str(value) for name, value in parameters.items() if value is not None}
    return "?" + urlencode(known, quote_via=quote) if known else ""


class Transport:
    """Sends requests to the server at `url`."""

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        timeout: float | None = 60.0,
        retries: int = 3,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.username is not None or parts.password is not None:
            raise ValueError("the URL holds a credential; give the key with key= or SPANREEL_KEY")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is no http:// or https:// URL")
        self.url = url.rstrip("/")
        self._origin = (parts.scheme, parts.netloc)
        self._key = _checked(key)
        self._timeout = timeout
        self._retries = retries
        # A proxy for the internet does not know this machine's loopback.
        local = parts.hostname in ("localhost", "127.0.0.1", "::1")
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({} if local else None),
            urllib.request.HTTPSHandler(context=ssl_context),
            _AsIs(),
        )
        self._opener.addheaders = []

    @property
    def has_key(self) -> bool:
        """True when requests carry a key."""
        return self._key is not None

    def json(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON that the server answers."""
        asked = _masked(f"{method} {path}")

        def ask() -> bytes:
            with self._open(method, path, body) as answer:
                try:
                    data = answer.read(ANSWER_BYTES_MAX + 1)
                except (OSError, http.client.HTTPException) as error:
                    raise self._broken(asked, error) from None
                if len(data) > ANSWER_BYTES_MAX:
                    raise AnswerTooLarge(f"{asked}: over {ANSWER_BYTES_MAX} bytes")
                if answer.length:
                    raise self._broken(asked, "the answer ended early")
                return data

        return parse(self._with_retries(method, ask), asked)

    @contextmanager
    def lines(self, path: str) -> Iterator[Iterator[Any]]:
        """The JSON values of an NDJSON answer, each read when it is asked for."""
        answer = self._with_retries("GET", lambda: self._open("GET", path, None))
        with answer:
            yield self._values(answer, _masked(f"GET {path}"))

    def _values(self, answer: http.client.HTTPResponse, asked: str) -> Iterator[Any]:
        for line in self._lines(answer, asked):
            if line.isspace():
                continue
            value = parse(line, asked)
            # The status was sent before the server could know.
            if isinstance(value, dict) and set(value) == {"error"}:
                raise of_problem(answer.status, _envelope(value), None, asked)
            yield value

    def _lines(self, answer: http.client.HTTPResponse, asked: str) -> Iterator[bytes]:
        """The lines of an answer, and an error when it is cut.

        `answer.readline` takes an answer in chunks that breaks off for one that ends.
        """
        missing = answer.length
        pieces: list[bytes] = []
        size = 0
        while True:
            try:
                data = answer.read1(PIECE_BYTES)
            except (OSError, http.client.HTTPException) as error:
                raise self._broken(asked, error) from None
            if not data:
                break
            if missing is not None:
                missing -= len(data)
            *ends, rest = data.split(b"\n")
            for end in ends:
                yield b"".join([*pieces, end, b"\n"])
                pieces.clear()
                size = 0
            if rest:
                pieces.append(rest)
                size += len(rest)
            if size > ANSWER_BYTES_MAX:
                raise AnswerTooLarge(f"{asked}: a line over {ANSWER_BYTES_MAX} bytes")
        if missing:
            raise self._broken(asked, "the answer ended early")
        if pieces:
            yield b"".join(pieces)

    def _with_retries(self, method: str, ask: Callable[[], T]) -> T:
        tries = 1 + (self._retries if method in SAFE_METHODS else 0)
        for number in range(tries):
            pause = PAUSE_FIRST * 2**number * (0.5 + random.random() / 2)  # noqa: S311
            try:
                return ask()
            except TimedOut:
                raise
            except ConnectionFailed:
                if number + 1 == tries:
                    raise
            except (Unavailable, RateLimited) as error:
                pause = pause if error.retry_after is None else error.retry_after
                if error.status not in (429, 503) or number + 1 == tries or pause > PAUSE_MAX:
                    raise
            time.sleep(min(pause, PAUSE_MAX))
        raise AssertionError("unreachable")

    def _open(self, method: str, path: str, body: Any) -> http.client.HTTPResponse:
        """A successful answer, its body unread; redirects within the server are followed."""
        asked = _masked(f"{method} {path}")
        url = self.url + path
        for _ in range(REDIRECTS_MAX + 1):
            answer = self._send(method, url, body, asked)
            if answer.status == 308:
                location = answer.headers.get("location", "")
                answer.close()
                url = self._redirected(url, location, asked)
                continue
            if 200 <= answer.status < 300:
                return answer
            with answer:
                raise self._problem(answer, asked)
        raise NotSpanreel(f"{asked}: more than {REDIRECTS_MAX} redirects")

    def _send(self, method: str, url: str, body: Any, asked: str) -> http.client.HTTPResponse:
        data = None if body is None else json.dumps(body, allow_nan=False).encode()
        request = urllib.request.Request(url, data=data, method=method)  # noqa: S310
        request.add_header("Accept", "application/json, application/x-ndjson")
        request.add_header("User-Agent", f"spanreel-python/{__version__}")
        if data is not None:
            request.add_header("Content-Type", "application/json")
        if self._key is not None:
            request.add_unredirected_header("Authorization", f"Bearer {self._key.reveal()}")
        # `from None`: a traceback with local variables would show the header.
        try:
            answer: http.client.HTTPResponse = self._opener.open(request, timeout=self._timeout)
        except TimeoutError:
            raise self._silent(asked) from None
        except urllib.error.URLError as error:
            raise self._broken(asked, error.reason) from None
        except (OSError, http.client.HTTPException) as error:
            raise self._broken(asked, error) from None
        return answer

    def _redirected(self, url: str, location: str, asked: str) -> str:
        # Behind a proxy that serves the API under a prefix, the server does not know the prefix.
        target = self.url + location if location.startswith("/v1/") else urljoin(url, location)
        parts = urlsplit(target)
        if not location or (parts.scheme, parts.netloc) != self._origin:
            raise NotSpanreel(f"{asked}: a redirect away from {self}")
        return target

    def _problem(self, answer: http.client.HTTPResponse, asked: str) -> Exception:
        status = answer.status
        try:
            data = answer.read(ERROR_BYTES_MAX)
        except (OSError, http.client.HTTPException):
            data = b""
        try:
            error = _envelope(json.loads(data))
        except (ValueError, RecursionError):
            error = {}
        if not error.get("code") and status not in (401, 403, 429) and status < 500:
            return NotSpanreel(f"{asked}: status {status} from {self}")
        return of_problem(status, error, _retry_after(answer), asked)

    def _broken(self, asked: str, reason: object) -> ConnectionFailed:
        if isinstance(reason, TimeoutError):
            return self._silent(asked)
        said = str(reason) or type(reason).__name__
        return ConnectionFailed(f"{asked}: cannot talk to {self}: {said}")

    def _silent(self, asked: str) -> TimedOut:
        return TimedOut(f"{asked}: {self} said nothing for {self._timeout} s")

    def __str__(self) -> str:
        return _masked(self.url)


class _AsIs(urllib.request.HTTPErrorProcessor):
    """Gives back every answer, whatever its status."""

    def http_response(self, request: urllib.request.Request, response: Any) -> Any:  # noqa: ARG002
        return response

    https_response = http_response


def _masked(text: str) -> str:
    """`text` without the ids of simulations, which let in whoever has them."""
    return re.sub(r"(/sim(?:ulations)?/[0-9a-f]{6})[0-9a-f]+", r"\1...", text)


def parse(data: bytes, asked: str) -> Any:
    """The JSON in `data`."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise NotSpanreel(f"{asked}: the answer is no JSON") from None


def _envelope(value: Any) -> dict[str, Any]:
    error = value.get("error") if isinstance(value, dict) else None
    return error if isinstance(error, dict) else {}


def _retry_after(answer: http.client.HTTPResponse) -> float | None:
    value = answer.headers.get("retry-after")
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except ValueError:
            return None
    return max(seconds, 0.0) if seconds == seconds else None


def _checked(key: str | None) -> Secret | None:
    key = key.strip() if key else key
    if not key:
        return None
    # The library would name a bad header's value in its error.
    if not (key.isascii() and key.isprintable()):
        raise ValueError("the key holds characters that no key has; check SPANREEL_KEY")
    return Secret(key)
