"""What the receiver promises, on one page: runs the tests of each promise, and prints what they measured.

    python3 tests/scorecard.py            the counts that CI runs, in minutes
    python3 tests/scorecard.py --full     the counts of a release, in hours

Exit code 0 when every row holds. A row whose test did not run says so, and is a failure.
"""

import os
import re
import subprocess
import sys

FULL = {
    "SPANREEL_CRASH_ROUNDS": "10000",
    "SPANREEL_CRASH_PAIRS": "all",
    "SPANREEL_RESTARTS": "20",
    "SPANREEL_TENANTS": "1000",
    "SPANREEL_HOSTILE": "full",
    "PROPTEST_CASES": "100000",
}

# Number, promise, and the tests that break with it.
ROWS = [
    ("1", "kill -9", ["crash::a_kill_loses_doubles_or_invents_a_span"]),
    ("2", "power loss, any mix of operations", ["wal::tests::model::the_log_differs_from_its_model"]),
    ("3", "a log cut at any byte", ["wal::tests::damage::a_cut_at_any_byte_loses_a_whole_frame"]),
    ("4", "a flipped bit", ["wal::tests::damage::a_flipped_bit_is_given_out_or_takes_its_neighbours_along"]),
    ("5", "a sync that fails", ["wal::tests::faults::a_failed_sync_is_followed_by_an_ack",
                                "wal::tests::faults::a_sync_that_works_again_heals_the_log"]),
    ("6", "any operation that fails", ["wal::tests::faults::a_single_fault_loses_what_was_acknowledged"]),
    ("7", "a full disk", ["wal::tests::faults::a_full_disk_ends_the_log", "hostile::full_disk::"]),
    ("8", "a record that kills", ["wal::tests::a_frame_that_kills_the_process_is_tried_for_ever",
                                  "cli::what_was_set_aside_cannot_be_taken_again"]),
    ("9", "a caller that goes away", ["wal::tests::a_caller_that_goes_away_takes_its_frame_along", "hostile::cut::"]),
    ("14", "an answer of the disk that is lost", ["store::tests::crash::an_answer_that_is_lost_doubles_a_commit"]),
    ("15", "crash matrix of a flush and a derivation",
     ["store::tests::crash::a_crash_in_a_flush_loses_or_doubles_a_row",
      "store::tests::crash::a_crash_in_a_recovery_loses_or_doubles_a_row"]),
    ("16", "a disk that fails now and then",
     ["store::tests::crash::a_disk_that_fails_now_and_then_loses_or_doubles_a_row"]),
    ("17", "tables that cannot be written",
     ["store::tests::crash::tables_that_cannot_be_written_lose_what_was_acknowledged"]),
    ("21", "clocks that jump", ["store::tests::tenants::a_clock_that_jumps_loses_or_deletes_something"]),
    ("23", "order, split and repetition of records",
     ["run::tests::properties::order_and_repetition_of_records_do_not_show"]),
    ("24", "late and orphan spans", ["store::tests::tenants::a_span_that_comes_days_late_is_lost_or_splits_its_run",
                                     "store::tests::a_late_span_is_hidden_or_makes_a_second_run"]),
    ("25", "answers that a client loses", ["hostile::cut::"]),
    ("27", "the OTLP specification", ["otlp::http::tests::", "otlp::grpc::tests::", "otlp::json::tests::"]),
    ("28", "one status a refusal", ["otlp::error::tests::a_permanent_refusal_is_retried_or_a_transient_one_is_not"]),
    ("29", "real senders", ["senders::", "collector::"]),
    ("30", "more than it takes", ["hostile::pressure::"]),
    ("31", "bombs", ["hostile::bombs::"]),
    ("32", "depth", ["hostile::depth::"]),
    ("34", "slow peers", ["hostile::slow::"]),
    ("35", "HTTP/2 abuse", ["hostile::http2::"]),
    ("tenants", "many tenants that trickle", ["store::tests::tenants::a_tenant_that_trickles_gets_ever_more_files"]),
]


def main():
    environment = dict(os.environ)
    if "--full" in sys.argv[1:]:
        environment |= {name: value for name, value in FULL.items() if name not in environment}
    command = ["cargo", "test", "--no-default-features", "--no-fail-fast", "--", "--nocapture"]
    run = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    ended, measured, skipped = {}, {}, []
    for line in run.stdout:
        if ended_line := re.search(r"test (\S+) \.\.\. (ok|FAILED|ignored)", line):
            ended[ended_line[1]] = ended_line[2]
            print(f"\r{len(ended)} tests", end="", file=sys.stderr, flush=True)
        if figures := re.search(r"scorecard: (\S+) (.*)", line):
            measured.setdefault(figures[1].rstrip(":"), []).append(figures[2].strip())
    skipped = [line.strip() for line in run.stderr.read().splitlines() if line.startswith("skipped:")]
    run.wait()
    print(file=sys.stderr)
    holds = True
    for number, promise, tests in ROWS:
        found = {name: how for name, how in ended.items() if any(name.startswith(test) for test in tests)}
        absent = [test for test in tests if not any(name.startswith(test) for name in found)]
        good = not absent and all(how == "ok" for how in found.values())
        holds &= good
        print(f"{number:>8}  {'holds' if good else 'BROKEN':<7} {promise} ({len(found)} tests)")
        for text in measured.get(number, []):
            print(f"{'':19}{text}")
        for test in absent:
            print(f"{'':19}did not run: {test}")
    for line in skipped:
        print(line)
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
