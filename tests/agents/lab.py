"""Processes and requests that the tests of the agents are made of."""

import http.server
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request

from homes import HERE, command

PROGRAM_SECONDS = 240
READY_SECONDS = 60
SETTLED_SECONDS = 60
# Loopback is never reached through a proxy.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


# Of interrupts and traces, minted in each execution.
MINTED = re.compile(r"\b[0-9a-f]{32}\b|\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")


def scrub(text):
    return MINTED.sub("ID", text)


def as_json(text):
    try:
        return json.loads(text)
    except ValueError:
        return text


class Fault(Exception):
    """What a scenario failed at."""


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def get(url):
    with OPENER.open(url, timeout=60) as answer:
        return json.load(answer)


def get_text(url):
    with OPENER.open(url, timeout=60) as answer:
        return answer.read().decode()


def bare(**more):
    """An environment with nothing of ours, and no way out through a proxy."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "HOME") if name in os.environ}
    return {**kept, "PYTHONDONTWRITEBYTECODE": "1", **more}


class Process:
    """A process in a group of its own, which ends with the block."""

    def __init__(self, name, arguments, env, log, ready):
        self.log = open(log, "ab")
        self.child = subprocess.Popen(arguments, env=env, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                      start_new_session=True)
        begun = time.monotonic()
        while True:
            try:
                OPENER.open(ready, timeout=5).close()
                return
            except OSError:
                if self.child.poll() is not None or time.monotonic() - begun > READY_SECONDS:
                    self.stop()
                    raise Fault(f"{name} did not start: {pathlib.Path(log).read_text()[-2000:]}")
                time.sleep(0.05)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
            try:
                self.child.wait(30)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()
        self.log.close()


class Models(Process):
    """A model server whose answers depend on the request alone."""

    def __init__(self, kind, folder):
        self.port = free_port()
        env = bare(FAKE_PORT=str(self.port), TRUTH_DIR=str(folder / "models-truth"))
        program = HERE / kind / "fake_llm.py"
        super().__init__("the model server", [sys.executable, str(program)], env, folder / "models.log",
                         f"http://127.0.0.1:{self.port}/v1/models")

    def env(self):
        at = f"http://127.0.0.1:{self.port}"
        return {"OPENAI_BASE_URL": f"{at}/v1", "ANTHROPIC_BASE_URL": at, "GOOGLE_GEMINI_BASE_URL": at}


class Server(Process):
    """spanreel on free ports, which settles runs sooner than it would."""

    def __init__(self, spanreel, folder):
        grpc, http, api = free_port(), free_port(), free_port()
        self.data = folder / "data"
        self.otlp, self.api = f"http://127.0.0.1:{http}", f"http://127.0.0.1:{api}"
        listen = [f"--listen-otlp-grpc=127.0.0.1:{grpc}", f"--listen-otlp-http=127.0.0.1:{http}"]
        env = bare(SPANREEL_STORE_SETTLE_AFTER_S="1", SPANREEL_STORE_IDLE_AFTER_S="2")
        super().__init__("spanreel", [spanreel, "serve", "--data", str(self.data), *listen,
                                      f"--listen-api=127.0.0.1:{api}"], env, folder / "spanreel.log",
                         f"{self.api}/readyz")

    def runs(self):
        """All runs in the order in which they began, once all have settled."""
        begun, before = time.monotonic(), None
        while time.monotonic() - begun < SETTLED_SECONDS:
            rows = get(f"{self.api}/v1/runs?limit=500")["items"]
            now = sorted((row["run_id"], row["span_count"]) for row in rows)
            if rows and now == before and all(row["settled"] for row in rows):
                return sorted(rows, key=lambda row: row["started_at"] or "")
            before = now
            time.sleep(0.5)
        raise Fault(f"no settled run after {SETTLED_SECONDS} s: {before}")


class Sink:
    """Takes telemetry and forgets it: SDKs for JavaScript fail when they end and nobody takes theirs."""

    def __init__(self):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers.get("content-length") or 0))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def env(self):
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self.server.server_port}"}


class Execution:
    """A run of a program: where it writes, and what it wrote."""

    def __init__(self, scenario, folder, name, simulated=None):
        self.scenario, self.folder, self.simulated = scenario, folder / name, simulated or {}
        self.folder.mkdir()

    def env(self):
        """Keys have a mark that must be found nowhere."""
        name = self.scenario["name"]
        planted = f"{PLANTED}-{name}"
        return {"SCN": name, "CAP_NAME": name, "TRUTH_DIR": str(self.folder / "truth"), "HOME": str(self.folder),
                "OPENAI_API_KEY": planted, "ANTHROPIC_API_KEY": planted, "GEMINI_API_KEY": planted,
                **self.scenario["env"]}

    def command(self):
        """The program with its outputs in files, its own keys, and not what it inherits as keys."""
        own = [f"{name}={value}" for name, value in self.env().items()]
        led = "".join(f'export {name}="{value}"; ' for name, value in self.simulated.items())
        shell = f'{led}exec "$@" >"{self.folder}/stdout" 2>"{self.folder}/stderr"'
        return ["env", *own, "sh", "-c", shell, "sh", *command(self.scenario)]

    def stdout(self):
        return scrub(self._text("stdout"))

    def stderr(self):
        return self._text("stderr")

    def truth(self, without=()):
        """What the program wrote of what it did; parallel tools end in any order."""
        text = scrub(self._text(f"truth/{self.scenario['name']}.jsonl"))
        lines = [line for line in map(json.loads, text.splitlines()) if line["kind"] not in without]
        for line in lines:
            # A record does not tell the white space of JSON.
            if line["kind"] == "mcp_call":
                line["result"] = [as_json(text) for text in line["result"]]
        return sorted(lines, key=lambda line: json.dumps(line, sort_keys=True))

    def finals(self):
        return [line for line in self.truth() if line["kind"] == "final"]

    def _text(self, name):
        path = self.folder / name
        return path.read_text(errors="replace") if path.exists() else ""


PLANTED = "sk-planted-7f3b9c"


def run(arguments, env, what):
    """Runs to the end; the exit code and standard output."""
    try:
        done = subprocess.run(arguments, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=PROGRAM_SECONDS)
    except subprocess.TimeoutExpired:
        raise Fault(f"{what} was not done after {PROGRAM_SECONDS} s")
    return done.returncode, done.stdout, done.stderr
