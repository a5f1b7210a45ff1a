use std::sync::Arc;

use super::*;
use crate::{
    genai::{
        message::{ContentState, Part},
        operation::{CheckpointRef, OpStatus, Rule},
    },
    otlp::record::{RecordHash, SpanId, TraceId},
    run::model::{Reason, ReasonCode, RunMessage, RunStatus},
};

const START: u64 = 1_796_004_000_000_000_001;

fn user(text: &str) -> Message {
    Message { role: "user".into(), parts: vec![Part::text(text)], ..Message::default() }
}

fn model_call(index: u32) -> Step {
    Step {
        index,
        kind: StepKind::ModelCall,
        name: "gpt-4.1".into(),
        span_id: Some(SpanId([1; 8])),
        trace_id: Some(TraceId([2; 16])),
        depth: 1,
        agent_path: vec!["support".into()],
        start_ns: START,
        end_ns: START + 912_400_000,
        status: OpStatus::Ok,
        model: Some("gpt-4.1".into()),
        provider: Some("openai".into()),
        finish_reasons: vec!["tool_call".into()],
        ttft_ns: Some(1_500_000),
        input_messages: vec![0, 0],
        input_state: ContentState::Captured,
        output_state: ContentState::NotCaptured,
        usage: Usage { input_tokens: Some(400), ..Usage::default() },
        dialect: "otel".into(),
        ..Step::default()
    }
}

fn run() -> Run {
    let checkpoint = |id: &str, recorded| RunCheckpoint {
        reference: CheckpointRef { checkpoint_id: id.into(), recorded, ..CheckpointRef::default() },
        step_index: None,
        state: None,
    };
    let tool = Step {
        kind: StepKind::ToolCall,
        name: "orders.search".into(),
        tool_call_id: Some("call_1".into()),
        tool_arguments: Some(json!({"q": "x"})),
        tool_result: Some(json!({"hits": 2})),
        end_ns: 0,
        ..model_call(1)
    };
    Run {
        run_id: "run_7Q".into(),
        rule: Rule::EaiRunId,
        aliases: vec![],
        status: RunStatus::Completed,
        settled: true,
        start_ns: START,
        end_ns: START + 2_000_000,
        steps: vec![model_call(0), tool],
        messages: vec![RunMessage { hash: [0; 32], message: Arc::new(user("hello")), first_step_index: 0 }],
        checkpoints: vec![checkpoint("chk_0040", true), checkpoint("chk_0041", false)],
        tree: vec![],
        steps_by_kind: [(StepKind::ModelCall, 1), (StepKind::ToolCall, 1)].into(),
        usage: Usage { input_tokens: Some(400), ..Usage::default() },
        cost_source: None,
        models: vec!["gpt-4.1".into()],
        tools: vec!["orders.search".into()],
        agents: vec!["support".into()],
        conversation: Some("thread-77".into()),
        user: None,
        thread: None,
        trace_ids: vec![TraceId([2; 16])],
        root_span_id: None,
        span_count: 3,
        service_names: vec![],
        replayability: Replayability::Partial,
        partial_reasons: vec![Reason {
            code: ReasonCode::MissingCheckpoint,
            class: ReasonCode::MissingCheckpoint.class(),
            detail: "chk_0041 is referred to and was never recorded".into(),
            step_index: Some(0),
            span_id: None,
            trace_id: None,
        }],
        notes: vec![],
        error: None,
        parent_run_id: None,
        record_digest: RecordHash([3; 32]),
        join_keys: vec![],
        source: "spans",
        first_received_at: 0,
        last_received_at: 0,
    }
}

#[test]
fn the_replay_document_drifts_from_its_golden_form() {
    let document = replay(&"acme".parse().unwrap(), &run());
    insta::assert_json_snapshot!("replay", document);
}

#[test]
fn a_checkpoint_that_was_never_recorded_is_listed_as_recorded() {
    let document = replay(&"acme".parse().unwrap(), &run());
    assert_eq!(document["checkpoints"], json!(["chk_0040"]));
    assert_eq!(checkpoints("r", &run().checkpoints)["checkpoints"][1]["recorded"], json!(false));
}

#[test]
fn an_unknown_time_reads_as_1970() {
    let step = step(&run(), &run().steps[1]);
    assert_eq!(step["ended_at"], Value::Null);
    assert_eq!(step["duration_ms"], Value::Null);
    assert_eq!(time(u64::MAX), None);
    assert_eq!(time(1).as_deref(), Some("1970-01-01T00:00:00.000000001Z"));
}

#[test]
fn a_page_of_steps_skips_or_repeats_a_step() {
    let run = run();
    let first = steps(&run, 0, 1);
    assert_eq!(first["steps"][0]["index"], json!(0));
    assert_eq!(first["next_cursor"], json!("1"));
    let last = steps(&run, 1, 1);
    assert_eq!(last["steps"][0]["index"], json!(1));
    assert_eq!(last["next_cursor"], Value::Null);
    assert_eq!(steps(&run, usize::MAX, usize::MAX)["steps"], json!([]));
}

#[test]
fn a_message_that_the_history_repeats_is_given_once() {
    let document = step(&run(), &run().steps[0]);
    assert_eq!(document["input"]["messages"].as_array().map(Vec::len), Some(2));
}
