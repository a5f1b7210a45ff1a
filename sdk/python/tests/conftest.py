"""A real server with real captures, and a scripted one for what that does not do on demand."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import weather

import spanreel
from spanreel import fixture

pytest_plugins = ["pytester"]

CAPTURES = Path(__file__).parents[3] / "tests" / "captures"
IMPORTED = ("py-oinf-openai-agents", "py-langsmith-otel-3", "js-claude-code", "py-genai-openai")
#: Seconds that a server may take to start, or a run to settle.
PATIENCE = 60.0


@dataclass
class Server:
    """A spanreel server on this machine."""

    url: str
    otlp: str
    data: Path
    key: str | None = None


def start(data: Path, *flags: str, **settings: str) -> tuple[subprocess.Popen[str], Server]:
    """Starts the program on free ports."""
    ports = [f"--listen-{name}=127.0.0.1:0" for name in ("otlp-grpc", "otlp-http", "api")]
    environ = {**os.environ, "SPANREEL_STORE_SETTLE_AFTER_S": "1", **settings}
    process = subprocess.Popen(
        [fixture.binary(), "serve", "--data", str(data), *ports, *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environ,
    )
    assert process.stdout is not None
    said: dict[str, str] = {}
    while "data" not in said:
        line = process.stdout.readline()
        assert line, f"the server did not start: {process.wait()}"
        name, _, value = line.partition(" ")
        said[name] = value.strip()
    return process, Server(said["API"], said["OTLP/HTTP"], data)


def stop(process: subprocess.Popen[str]) -> None:
    """Ends the program."""
    process.terminate()
    process.wait(PATIENCE)
    assert process.stdout is not None
    process.stdout.close()


def take(server: Server, *paths: Path) -> None:
    """Imports captures."""
    command = [fixture.binary(), "import", *map(str, paths), "--url", server.url]
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that holds the captures, all settled."""
    process, server = start(tmp_path_factory.mktemp("server") / "data")
    made = tmp_path_factory.mktemp("made") / "weather.json"
    weather.write(made)
    take(server, made, *(CAPTURES / name for name in IMPORTED))
    client = spanreel.Client(server.url, key="")
    end = time.monotonic() + PATIENCE
    while not all(run.settled for run in client.runs.list()):
        assert time.monotonic() < end, "runs did not settle"
        time.sleep(0.2)
    yield server
    stop(process)


@pytest.fixture
def client(server: Server) -> spanreel.Client:
    """A client of the real server."""
    return spanreel.Client(server.url, key="")


@pytest.fixture(scope="session")
def folder(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fixture of the weather agent's run."""
    folder = tmp_path_factory.mktemp("fixtures") / "weather"
    command = [fixture.binary(), "export", weather.TRACE, "--format", "fixture"]
    command += ["-o", str(folder), "--url", server.url]
    subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees settings of the machine that it runs on."""
    for name in ("SPANREEL_URL", "SPANREEL_KEY", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)


@dataclass
class Asked:
    """A request that the scripted server saw."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Answer:
    """What the scripted server says next."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    #: Written as it is, in chunks, instead of `body`.
    chunks: Iterator[bytes] | None = None
    #: Closes the connection before the answer is whole.
    cut: bool = False


@dataclass
class Script:
    """A server that answers what a test told it."""

    url: str
    answers: list[Answer | Callable[[Asked], Answer]] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)

    def will(self, *answers: Answer | Callable[[Asked], Answer]) -> None:
        """Adds answers; the last one is given again and again."""
        self.answers.extend(answers)

    def next(self, asked: Asked) -> Answer:
        """The answer to a request."""
        self.asked.append(asked)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return answer if isinstance(answer, Answer) else answer(asked)


@pytest.fixture(name="script")
def script_() -> Iterator[Script]:
    """A scripted server."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = Asked(self.command, self.path, headers, self.rfile.read(length))
            answer = told.next(asked)
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if answer.chunks is not None:
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                for chunk in answer.chunks:
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
                if not answer.cut:
                    self.wfile.write(b"0\r\n\r\n")
            else:
                body = answer.body
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_header("content-length", str(len(data) + answer.cut))
                self.end_headers()
                self.wfile.write(data)
            self.close_connection = True

        do_GET = do_POST = do_DELETE = do  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    told = Script(f"http://127.0.0.1:{httpd.server_port}")
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield told
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def problem(code: str, status: int, **details: Any) -> Answer:
    """An error of the API."""
    error = {"code": code, "message": f"Message of {code}.", "details": details, "trace_id": None}
    return Answer(status, {"error": error})
