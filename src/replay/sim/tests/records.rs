//! Every captured run answers the calls that it recorded.

use super::*;

/// Scenario: each call that a captured run recorded is made again, in order, in the strict mode.
/// Guarantee: its own step answers; nothing is left over, nothing diverges.
#[test]
fn a_record_does_not_answer_its_own_calls() {
    let (mut calls, mut runs_seen) = (0, 0);
    for (name, runs) in captured() {
        for run in runs {
            let settings = Settings { allow_partial: true, ..Settings::default() };
            let Ok(session) = Session::new(vec![Arc::clone(&run)], settings, "seed".into()) else { continue };
            runs_seen += 1;
            for step in &run.steps {
                let Some(call) = call_of(&run, step) else { continue };
                calls += 1;
                let reply = session.answer(&call, false);
                if let Answer::Refused(refused) = &reply.answer {
                    assert_eq!(refused.code, RefusedCode::Hole, "{name} {} {}", run.run_id, refused.message);
                } else {
                    assert!(reply.rung <= Some(Rung::Position), "{name} {} {step:?} {reply:?}", run.run_id);
                }
            }
            let report = session.report();
            assert!(matches!(report.verdict, Verdict::Same | Verdict::Hole), "{name}: {report:#?}");
            assert!(report.unused.is_empty() || report.verdict == Verdict::Hole, "{name}: {report:#?}");
        }
    }
    assert!(calls > 500 && runs_seen > 100, "{calls} calls of {runs_seen} runs");
}

/// Scenario: the same calls in another order, twenty times, as parallel branches would make them.
/// Guarantee: the report is the same, byte by byte.
#[test]
fn the_order_of_parallel_calls_changes_a_report() {
    let run = captured_run();
    let report = |seed: usize| {
        let session = session(&run, Mode::Strict);
        let mut calls: Vec<Call> = run.steps.iter().filter_map(|step| call_of(&run, step)).collect();
        calls.push(ask(json!([{"role": "user", "content": "quite another thing"}])));
        calls.push(ask(json!([{"role": "user", "content": "and one more"}])));
        let length = calls.len();
        calls.rotate_left(seed % length);
        calls.swap(0, (seed * 7) % length);
        calls.iter().for_each(|call| drop(session.answer(call, false)));
        serde_json::to_string(&session.report()).unwrap()
    };
    let first = report(0);
    assert!((1..20).all(|seed| report(seed) == first));
}

/// Scenario: a report is written and read.
/// Guarantee: it is the same report.
#[test]
fn a_report_is_read_as_another() {
    let run = captured_run();
    let session = session(&run, Mode::Strict);
    let _ = session
        .answer(&ask(json!([{"role": "user", "content": "Do I need an umbrella in Rome today?"}])), false);
    let report = session.report();
    let text = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
}
