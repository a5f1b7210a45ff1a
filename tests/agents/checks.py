"""What holds for every simulation, shown by one program each, from captures alone: repeats are identical, an edit is found,
and nothing goes out."""

import json
import os
import shutil
import subprocess
import sys

import run as driver
from lab import Execution, Fault, READY_SECONDS, bare, run
from scenarios import SCENARIOS

REPEATS = int(os.environ.get("SPANREEL_REPLAYS", "20"))
# Telemetry has nowhere to go.
SILENT = {"OTEL_SDK_DISABLED": "true"}
# Guardrail and triage agent call models at the same time.
AGENTS = next(s for s in SCENARIOS if s["name"] == "agents-openinference")
# Brings loopback up in a network namespace of its own, where nothing else is; then executes the rest.
ALONE = """
import fcntl, os, socket, struct, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    fcntl.ioctl(s, 0x8914, struct.pack("16sh22x", b"lo", 1))
    try: s.connect(("192.0.2.1", 9))
    except OSError: os.execvp(sys.argv[1], sys.argv[1:])
sys.exit("there is a way out")
"""


def repeats(spanreel, folder):
    """Executes a program many times; all reports are the same byte for byte."""
    data, rows = driver.imported(spanreel, AGENTS, folder)
    ids = [row["run_id"] for row in rows]
    texts = []
    for number in range(REPEATS):
        execution = Execution(AGENTS, folder, f"simulated-{number}")
        arguments = [spanreel, "simulate", *ids, "--data", str(data), "--json", "--", *execution.command()]
        code, out, said = run(arguments, bare(**SILENT), "the simulation")
        if code != 0:
            return [f"execution {number} ended with {code}: {said[-1000:]} {execution.stderr()[-1000:]}"], {}
        texts.append(out)
    different = len(set(texts))
    return ([] if different == 1 else [f"{REPEATS} executions gave {different} reports"]), json.loads(texts[0])


def edit(spanreel, folder):
    """The user asks something else in the second turn; the report names the step and the words."""
    data, rows = driver.imported(spanreel, AGENTS, folder)
    edited = {**AGENTS, "env": {**AGENTS["env"], "FOLLOW_UP": "[again] And is the policy still valid today?"}}
    execution = Execution(edited, folder, "simulated")
    ids = [row["run_id"] for row in rows]
    code, report, _, _ = driver.simulate(spanreel, ids, ["--data", str(data)], execution, SILENT)
    first = report["first_divergence"] or {}
    words = [piece for diff in first.get("diffs", []) for piece in diff.get("words", []) if piece["op"] != "equal"]
    faults = []
    if code != 1 or report["verdict"] != "diverged" or first.get("class") != "prompt":
        faults.append(f"exit code {code}, verdict {report['verdict']}, class {first.get('class')}")
    if "today" not in "".join(piece["text"] for piece in words if piece["op"] == "insert"):
        faults.append(f"words {words} do not tell the edit")
    # The first turn and the guardrail before it are as recorded, the second turn is not.
    _, out, _ = run([spanreel, "replay", ids[0], "--json", "--data", str(data)], bare(), "replay")
    steps = json.loads(out)["steps"]
    asked = [step["index"] for step in steps if step["kind"] == "model_call" and "still valid?" in json.dumps(step["input"])]
    if first.get("step_index") != min(asked, default=None):
        faults.append(f"step {first.get('step_index')} is named, not the first of {asked}")
    return faults, report


def no_route(spanreel, folder):
    """The program, and spanreel with it, in a network namespace where only loopback is."""
    if subprocess.run(["unshare", "-rn", "true"], capture_output=True).returncode != 0:
        return None, "network namespaces are not permitted"
    data, rows = driver.imported(spanreel, AGENTS, folder)
    found = []
    for mode in ("strict", "lenient"):
        execution = Execution(AGENTS, folder, f"simulated-{mode}")
        arguments = [spanreel, "simulate", *(row["run_id"] for row in rows), "--mode", mode, "--data", str(data), "--json",
                     "--", *execution.command()]
        alone = ["unshare", "-rn", sys.executable, "-c", ALONE]
        code, out, said = run([*alone, *arguments], bare(**SILENT), "the simulation")
        if code != 0:
            found.append(f"{mode}: exit code {code}: {said[-1000:]} {execution.stderr()[-1000:]}")
    return found, json.loads(out) if not found else {}


def no_connection(spanreel, folder):
    """What spanreel connects to while it answers: nothing. What the program connects to: loopback."""
    if not shutil.which("strace"):
        return None, "strace is not there"
    data, rows = driver.imported(spanreel, AGENTS, folder)
    found = []
    for mode in ("strict", "lenient"):
        traces = {name: folder / f"{name}-{mode}.strace" for name in ("spanreel", "program")}
        traced = lambda name: ["strace", "-f", "-qq", "-e", "trace=connect,sendto,sendmsg", "-o", str(traces[name])]
        serve = [spanreel, "simulate", *(row["run_id"] for row in rows), "--mode", mode, "--data", str(data), "--json"]
        execution = Execution(AGENTS, folder, f"simulated-{mode}")
        session = subprocess.Popen([*traced("spanreel"), *serve], env=bare(), text=True, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE)
        try:
            env = json.loads(session.stdout.readline())["env"]
            code, _, _ = run([*traced("program"), *execution.command()], bare(**env, **SILENT), "the program")
            out, _ = session.communicate(timeout=READY_SECONDS)
        finally:
            session.kill()
        report = json.loads(out)
        if code != 0 or report["verdict"] != "same":
            found.append(f"{mode}: exit code {code}, verdict {report['verdict']}: {execution.stderr()[-1000:]}")
        out_of = lambda name: [line for line in traces[name].read_text().splitlines() if "connect(" in line]
        found += [f"{mode}: spanreel: {line}" for line in out_of("spanreel")]
        local = ("AF_UNIX", 'inet_addr("127.0.0.1")', '"::1"', "AF_NETLINK", "resumed>")
        found += [f"{mode}: {line}" for line in out_of("program") if not any(part in line for part in local)]
        if not any("127.0.0.1" in line for line in out_of("program")):
            found.append(f"{mode}: the program connected to nothing; the trace shows nothing")
    return found, report


CHECKS = [{"name": work.__name__.replace("_", "-"), "home": AGENTS["home"], "covers": [], "capture": AGENTS["capture"],
           "work": work} for work in (repeats, edit, no_route, no_connection)]


def check(spanreel, chosen, folder):
    faults, report = chosen["work"](spanreel, folder)
    if faults is None:
        print(f"not run: {chosen['name']}: {report}", file=sys.stderr)
        faults, report = [], {}
    return faults, {"verdict": "-", "steps": 0, "matches": [], **report}, 0.0
