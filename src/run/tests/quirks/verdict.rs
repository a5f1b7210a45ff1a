//! One hand-made case for each reason code and each note: the run says that, and no other reason.

use std::collections::BTreeSet;

use serde_json::json;

use super::*;
use crate::{otlp::splice, run::model::ReasonCode};

const ASKS: &str =
    r#"[{"role":"assistant","parts":[{"type":"tool_call","id":"c1","name":"look","arguments":{"q":1}}]}]"#;
const SHOWS: &str = r#"[{"role":"user","parts":[{"type":"text","content":"q"}]},
    {"role":"assistant","parts":[{"type":"tool_call","id":"c1","name":"look","arguments":{"q":1}}]},
    {"role":"tool","parts":[{"type":"tool_call_response","id":"c1","response":"found"}]}]"#;

fn says(text: &str) -> String {
    json!([{"role": "user", "parts": [{"type": "text", "content": text}]}]).to_string()
}

fn chat_with(id: u64, attributes: Value) -> Sent {
    let mut all = json!({"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"});
    if let (Some(all), Value::Object(more)) = (all.as_object_mut(), attributes) {
        all.extend(more);
    }
    span(id, 0, "chat m", all)
}

fn chat(id: u64, input: &str, output: &str) -> Sent {
    chat_with(id, json!({"gen_ai.input.messages": input, "gen_ai.output.messages": output}))
}

fn whole(id: u64) -> Sent {
    chat(id, &says("q"), &says("a"))
}

fn tool(id: u64, attributes: Value) -> Sent {
    let mut all = json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"});
    if let (Some(all), Value::Object(more)) = (all.as_object_mut(), attributes) {
        all.extend(more);
    }
    span(id, 0, "execute_tool look", all)
}

fn answered_tool(id: u64) -> Sent {
    let attributes = json!({
        "gen_ai.tool.call.id": "c1", "gen_ai.tool.call.arguments": r#"{"q":1}"#, "gen_ai.tool.call.result": "found",
    });
    tool(id, attributes)
}

fn under(mut sent: Sent, parent: u64) -> Sent {
    sent = sent.with(|span| span.parent_span_id = parent.to_be_bytes().to_vec());
    sent
}

fn done(sent: impl IntoIterator<Item = Sent>) -> Vec<Arc<Record>> {
    sent.into_iter().map(Sent::done).collect()
}

/// Records of one run by the only reason that they give.
fn by_reason() -> Vec<(&'static str, Vec<Arc<Record>>)> {
    let output = |text: &str| json!({"gen_ai.input.messages": says("q"), "gen_ai.output.messages": text});
    vec![
        ("missing_input", done([chat_with(1, json!({"gen_ai.output.messages": says("a")}))])),
        ("missing_output", done([chat_with(1, json!({"gen_ai.input.messages": says("q")}))])),
        ("missing_tool_result", done([chat(1, &says("q"), ASKS)])),
        ("missing_tool_call", done([whole(1), answered_tool(2)])),
        ("truncated_content", done([chat(1, &says("q"), &says("the answer is...[truncated]"))])),
        ("redacted_content", done([chat(1, &says("q"), &says("__REDACTED__"))])),
        ("external_content", done([chat(1, &says("q"), &says("@@@langfuseMedia:type=image/png|id=1@@@"))])),
        ("unparsable_content", done([chat_with(1, output("<not serializable>"))])),
        ("missing_checkpoint", vec![
            whole(1).with(|s| s.attributes.extend(attributes_of(&json!({"resume.checkpoint_id": "chk_1"})))).done(),
        ]),
        ("dropped_attributes", done([whole(1).with(|s| s.dropped_attributes_count = 2)])),
        ("dropped_events", done([whole(1).with(|s| s.dropped_events_count = 2)])),
        ("dropped_links", done([whole(1).with(|s| s.dropped_links_count = 2)])),
        ("missing_root", done([under(whole(1), 9)])),
        ("missing_parent", done([whole(1), under(whole(2), 9)])),
        ("unfinished", done([whole(1), span(2, 0, "invoke_agent a", json!({
            "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a", "logfire.span_type": "pending_span",
        })).scope("pydantic-ai")])),
        ("invalid_time", done([whole(1).with(|s| s.start_time_unix_nano = 0)])),
        ("duplicate_conflict", done([whole(1), chat(1, &says("q"), &says("another"))])),
        ("cycle", done([under(whole(1), 2), under(whole(2), 1)])),
    ]
}

#[test]
fn a_fault_of_the_record_gives_another_reason_or_none() {
    let mut told = BTreeSet::new();
    for (code, records) in by_reason() {
        let run = only(runs_of(&records));
        let distinct: BTreeSet<_> = reasons(&run).into_iter().collect();
        assert_eq!(distinct, BTreeSet::from([code.to_owned()]), "{code}: {:?}", run.partial_reasons);
        told.extend(distinct);
    }
    assert_eq!(told.len(), ReasonCode::Cycle as usize + 1, "a code without a case");
}

/// Records of one run by the only note that they give; none of them gives a reason.
fn by_note() -> Vec<(&'static str, Vec<Arc<Record>>)> {
    let deep = splice::opaque(b"deep");
    let ended = |answer: &str| whole(1).with(|s| s.name = answer.into());
    let interrupt = tool(2, json!({"gen_ai.tool.call.id": "c1", "gen_ai.tool.call.arguments": r#"{"q":1}"#}))
        .event(
            "exception",
            json!({"exception.type": "langgraph.errors.GraphInterrupt", "exception.message": "approve?"}),
        );
    let mut loose = LogRecord {
        event_name: "gen_ai.user.message".into(),
        body: Some(AnyValue { value: Some(Any::StringValue("hi".into())) }),
        trace_id: 1_u128.to_be_bytes().to_vec(),
        span_id: 77_u64.to_be_bytes().to_vec(),
        ..LogRecord::default()
    };
    loose.time_unix_nano = 1;
    let loose = Arc::new(Record::new(Body::Log(loose), Arc::default(), 1, 0));
    vec![
        ("clock_skew", done([whole(1), under(whole(2).lasts(5, 9), 1)])),
        ("duplicate_elected", done([ended("chat m"), ended("chat n")])),
        ("value_inferred", done([chat(1, &says("q"), ASKS), chat(2, SHOWS, &says("a"))])),
        (
            "status_conflict",
            done([whole(1)
                .with(|s| s.status = Some(Status { code: 1, ..Default::default() }))
                .event("exception", json!({"exception.type": "E", "exception.message": "m"}))]),
        ),
        ("order_conflict", done([chat(1, SHOWS, ASKS), answered_tool(2)])),
        ("awaiting_input", done([chat(1, &says("q"), ASKS), interrupt])),
        ("parent_outside", done([under(whole(1), 9).with(|s| s.flags = 0x300)])),
        (
            "deep_value",
            done([whole(1).with(|s| {
                s.attributes.push(KeyValue { key: "deep".into(), value: Some(deep), ..Default::default() })
            })]),
        ),
        (
            "deep_tree",
            done((1..=90).map(|id| {
                if id == 1 {
                    whole(1)
                } else {
                    under(
                        span(
                            id,
                            0,
                            "invoke_agent a",
                            json!({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}),
                        )
                        .lasts(10, 10_000),
                        id - 1,
                    )
                }
            })),
        ),
        ("uncorrelated_content", vec![whole(1).done(), loose]),
    ]
}

#[test]
fn a_thing_worth_knowing_gives_another_note_or_a_reason() {
    for (code, records) in by_note() {
        let run = only(runs_of(&records));
        let distinct: BTreeSet<_> = run.notes.iter().map(|note| note.code.as_str()).collect();
        assert_eq!(distinct, BTreeSet::from([code]), "{code}: {:?}", run.notes);
        assert_eq!(reasons(&run), Vec::<String>::new(), "{code}");
    }
}
