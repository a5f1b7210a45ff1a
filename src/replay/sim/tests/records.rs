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

/// Scenario: an agent that names its run itself is executed again, and its telemetry comes with the attributes of the
/// simulation.
/// Guarantee: the run is stored as a child of the recorded one, and the recorded one stays as it was.
#[test]
fn an_execution_from_the_record_is_mixed_with_the_record() {
    use crate::otlp::{
        fixtures::attributes_of,
        record::{Body, Origin, Record},
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures/py-strands");
    let named = |record: &Record, apart: u8, resource: Value| {
        let Body::Span(mut span) = record.body.clone() else { panic!("a log") };
        span.trace_id[0] ^= apart;
        span.attributes.extend(attributes_of(&json!({"eai.run_id": "run_7Q"})));
        let mut origin = Origin::clone(&record.origin);
        Arc::make_mut(&mut origin.resource).attributes.extend(attributes_of(&resource));
        Arc::new(Record::new(Body::Span(span), Arc::new(origin), 1, 0))
    };
    let records = capture(&folder);
    let recorded: Vec<_> = records.iter().map(|r| named(r, 0, json!({}))).collect();
    let simulated = json!({"spanreel.simulation_id": "0123456789abcdef0123456789abcdef", "spanreel.parent_run_id": "run_7Q"});
    let mut all = recorded.clone();
    all.extend(records.iter().map(|r| named(r, 1, simulated.clone())));
    let runs = assemble(&all, Settled::All);
    let ids: Vec<_> = runs.iter().map(|run| (run.run_id.as_str(), run.parent_run_id.as_deref())).collect();
    assert_eq!(ids, [("run_7Q", None), ("run_7Q~0123456789ab", Some("run_7Q"))]);
    assert_eq!(runs[..1], assemble(&recorded, Settled::All));
}
