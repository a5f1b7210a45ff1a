#!/usr/bin/env python3
"""Runs real agents against a model server with their telemetry going to spanreel, then again from the record alone.

    run.py --install                 packages of all scenarios
    run.py --missing                 names homes that are not installed; exit code 1 when there are any
    run.py --spanreel BIN [--only NAME] [--json] [--keep FOLDER]
    run.py --spanreel BIN --captures the same from tests/captures, without any server
    run.py --spanreel BIN --checks   what checks.py holds: repeats, edits, no way out

Of each scenario: the model server is stopped, and `spanreel simulate` must say `same`, answer every call of a model
exactly (or but for what varies), and the program must do and print what it did before.
"""

import argparse
import concurrent.futures
import json
import pathlib
import shutil
import sys
import tempfile
import time
import traceback

import homes
from lab import Execution, Fault, Models, PLANTED, Server, Sink, bare, get, get_text, run
from scenarios import SCENARIOS

CAPTURES = homes.HERE.parent / "captures"
CALLS = ("model_call", "embedding")


def simulate(spanreel, run_ids, where, execution, env, options=()):
    """Executes the program from the record; the exit code, the report, and what was said."""
    begun = time.monotonic()
    options = [*options, *(["--allow-partial"] if execution.scenario.get("partial") else [])]
    arguments = [spanreel, "simulate", *run_ids, *where, "--json", *options, "--", *execution.command()]
    code, out, said = run(arguments, bare(**env), "the simulation")
    try:
        report = json.loads(out)
    except ValueError:
        raise Fault(f"exit code {code} and no report: {said[-2000:]}")
    return code, report, said, time.monotonic() - begun


def again(spanreel, scenario, folder):
    led = {name: value.format(spanreel=spanreel) for name, value in scenario.get("simulated", {}).items()}
    return Execution(scenario, folder, "simulated", led)


def judge(code, report, rows, before, after):
    """What is not as it must be, as text."""
    faults = []
    kinds = ("tool_call",) if "mcp" in after.scenario["covers"] else CALLS
    if code != 0 or report["verdict"] != "same":
        faults.append(f"exit code {code}, verdict {report['verdict']}")
    for miss in report["extra"]:
        faults.append(f"refused: {miss['kind']} {miss['name']} {miss['class']}: {miss['message']} {json.dumps(miss['diffs'])[:1500]}")
    # A hand-off runs in the agent; the model knows it by another name.
    unseen = [step for step in report["unseen"] if step["kind"] == "tool_call"]
    if report["unused"] or unseen:
        faults.append(f"not asked for: {json.dumps(report['unused'] + unseen)}")
    for match in report["matches"]:
        # What is embedded is often not in the record; then the place in the order decides.
        rungs = ("exact", "volatile") + (("position",) if match["kind"] == "embedding" else ())
        if match["rung"] not in rungs:
            faults.append(f"step {match['step_index']} {match['name']} was answered by {match['rung']}: {json.dumps(match.get('drift'))[:1500]}")
    wanted = sum(row["steps"].get(kind, 0) for row in rows for kind in kinds)
    answered = sum(match["kind"] in kinds for match in report["matches"])
    if wanted != answered or not wanted:
        faults.append(f"{wanted} calls were recorded, {answered} answered")
    if before:
        if before.finals() != after.finals():
            faults.append(f"final answers {before.finals()} became {after.finals()}")
        # The tools of an MCP server that was not there did not run.
        unlike = ("tool",) if after.simulated else ()
        if before.truth(unlike) != after.truth(unlike):
            faults.append(f"did {before.truth(unlike)} then {after.truth(unlike)}")
        if before.stdout() != after.stdout():
            faults.append(f"printed {before.stdout()!r} then {after.stdout()!r}")
    return faults


def recorded(scenario, rows):
    """The runs to execute from; some have a shadow that holds nothing."""
    return [row for row in rows if row["replayability"] == "complete" or not scenario.get("whole")]


def children(server, known, sources):
    """How many runs the program sent when it was executed again, and which of them do not name the run they came from."""
    new = [row for row in server.runs() if row["run_id"] not in known]
    return len(new), [row["run_id"] for row in new if row["parent_run_id"] not in sources]


def planted(server, folder):
    """Where a key of the program is found that must be nowhere: files, logs, and what the server gives back."""
    marks = PLANTED.encode()
    # The model servers of Python name a file after the key that they were given.
    if list((folder / "models-truth").glob("*")) and not list((folder / "models-truth").glob(f"{PLANTED[3:]}*")):
        raise Fault("the model server got no planted key: nothing would be found")
    found = [str(path) for path in [*server.data.rglob("*"), folder / "spanreel.log"]
             if path.is_file() and marks in path.read_bytes()]
    if PLANTED in get_text(f"{server.api}/v1/otlp"):
        found.append("/v1/otlp")
    return found


def live(spanreel, scenario, folder):
    """Records, stops the model server, executes again."""
    with Server(spanreel, folder) as server:
        telemetry = {"OTEL_EXPORTER_OTLP_ENDPOINT": server.otlp, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}
        before = Execution(scenario, folder, "recorded")
        with Models(scenario["models"], folder) as models:
            code, _, said = run(before.command(), bare(**models.env(), **telemetry), "the program")
            if code != 0:
                raise Fault(f"the program failed with {code}: {said[-500:]} {before.stderr()[-2000:]}")
        known = server.runs()
        rows = recorded(scenario, known)
        after = again(spanreel, scenario, folder)
        ids = [row["run_id"] for row in rows]
        code, report, said, seconds = simulate(spanreel, ids, ["--url", server.api], after, telemetry)
        faults = judge(code, report, rows, before, after)
        count, orphans = children(server, {row["run_id"] for row in known}, ids)
        if not count:
            faults.append("the second execution is in no run")
        if orphans and not scenario.get("unlinked"):
            faults.append(f"do not say which run they execute again: {orphans}")
        found = planted(server, folder)
        if found:
            faults.append(f"an API key is in {found}")
        (folder / "report.json").write_text(json.dumps(report, indent=1))
        (folder / "said").write_text(said)
        return faults, report, seconds


def imported(spanreel, scenario, folder):
    """A fresh data folder with the capture of a scenario; the runs to execute from."""
    data = folder / "data"
    code, _, said = run([spanreel, "import", str(CAPTURES / scenario["capture"]), "--data", str(data)], bare(), "import")
    if code != 0:
        raise Fault(f"import failed: {said}")
    code, out, said = run([spanreel, "runs", "--json", "--data", str(data)], bare(), "runs")
    return data, recorded(scenario, sorted(json.loads(out), key=lambda row: row["started_at"] or ""))


def from_capture(spanreel, scenario, folder):
    """The same from what is under tests/captures, without any server."""
    data, rows = imported(spanreel, scenario, folder)
    after = again(spanreel, scenario, folder)
    ids = [row["run_id"] for row in rows]
    with Sink() as sink:
        code, report, said, seconds = simulate(spanreel, ids, ["--data", str(data)], after, sink.env())
    faults = judge(code, report, rows, None, after)
    truth = json.loads((CAPTURES / scenario["capture"] / "truth.json").read_text())
    texts = {step.get("text") for told in truth["runs"] for step in told["steps"]} - {None}
    printed = after.stdout()
    if "mcp" not in scenario["covers"] and not any(text in printed for text in texts):
        faults.append(f"printed {printed!r}; the answers were {texts}")
    for final in after.finals():
        if final.get("text", printed).strip() not in texts | {printed.strip()}:
            faults.append(f"the final answer is {final}, not one of {texts}")
    (folder / "report.json").write_text(json.dumps(report, indent=1))
    (folder / "said").write_text(said)
    return faults, report, seconds


def one(work, spanreel, scenario, keep):
    folder = pathlib.Path(keep or tempfile.mkdtemp()) / scenario["name"]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    told = {"name": scenario["name"], "covers": scenario["covers"]}
    try:
        faults, report, seconds = work(spanreel, scenario, folder)
        rungs = {}
        for match in report["matches"]:
            rungs[match["rung"]] = rungs.get(match["rung"], 0) + 1
        told.update(verdict=report["verdict"], steps=report["steps"], rungs=rungs, seconds=round(seconds, 1), faults=faults)
    except Fault as fault:
        told.update(faults=[str(fault)])
    except Exception:
        told.update(faults=[traceback.format_exc()])
    if not keep:
        shutil.rmtree(folder.parent, ignore_errors=True)
    return told


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--install", action="store_true")
    parser.add_argument("--missing", action="store_true")
    parser.add_argument("--spanreel")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--captures", action="store_true")
    parser.add_argument("--checks", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", metavar="FOLDER", help="leave data, logs and reports there")
    asked = parser.parse_args()
    if asked.checks:
        import checks

        table, work = checks.CHECKS, checks.check
    else:
        table, work = SCENARIOS, from_capture if asked.captures else live
    chosen = [s for s in table if not asked.only or s["name"] in asked.only]
    if unknown := set(asked.only) - {s["name"] for s in table}:
        parser.error(f"no scenario {', '.join(sorted(unknown))}")
    if asked.install:
        for home in sorted({s["home"] for s in chosen}):
            homes.install(home)
        return 0
    missing = sorted({s["home"] for s in chosen if not homes.is_there(s["home"])})
    if asked.missing:
        print(" ".join(missing))
        return 1 if missing else 0
    if missing:
        print(f"not installed: {' '.join(missing)}; run.py --install", file=sys.stderr)
        return 2
    if not asked.spanreel:
        parser.error("--spanreel BIN is needed")
    spanreel = str(pathlib.Path(asked.spanreel).resolve())
    chosen = [s for s in chosen if s["capture"] or not asked.captures]
    told = []
    with concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
        for outcome in pool.map(lambda s: one(work, spanreel, s, asked.keep), chosen):
            told.append(outcome)
            if not asked.json:
                show(outcome)
    if work is live and not asked.only and (faults := uncovered(told)):
        told.append({"name": "all", "covers": [], "faults": faults})
        if not asked.json:
            show(told[-1])
    if asked.json:
        print(json.dumps(told, indent=1))
    return 1 if any(outcome["faults"] for outcome in told) else 0


def uncovered(told):
    """What the scenarios that went well do not show."""
    well = [outcome["covers"] for outcome in told if not outcome["faults"]]
    wanted = {"parallel", "subagent", "handoff", "retry"} - {word for covers in well for word in covers}
    faults = [f"no scenario that went well has: {' '.join(sorted(wanted))}"] if wanted else []
    if len(well) < 10 or 2 * sum("streamed" in covers for covers in well) < len(well):
        faults.append("fewer than ten went well, or fewer than half of those are streamed")
    return faults


def show(told):
    rungs = " ".join(f"{count} {rung}" for rung, count in sorted(told.get("rungs", {}).items()))
    state = "FAILED" if told["faults"] else "ok"
    print(f"{state:6} {told['name']:24} {told.get('verdict', '-'):8} {told.get('steps', 0):3} steps, {rungs or 'nothing answered'}, "
          f"{told.get('seconds', 0)} s", flush=True)
    for fault in told["faults"]:
        print(f"       {fault}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
