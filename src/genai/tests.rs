use std::{collections::BTreeSet, path::Path, sync::Arc, time::Instant};

use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value::Value as Any},
    logs::v1::LogRecord,
    trace::v1::{Span, Status, span::Event},
};
use proptest::prelude::*;
use prost::Message as _;
use serde_json::{Value, json};

use super::{
    message::{Content, ContentState, Part},
    operation::{Kind, OpStatus, Operation, Rule},
    *,
};
use crate::otlp::{
    fixtures::any_value,
    record::{Body, Origin},
};

fn string(value: impl Into<String>) -> AnyValue {
    AnyValue { value: Some(Any::StringValue(value.into())) }
}

fn attribute(key: &str, value: AnyValue) -> KeyValue {
    KeyValue { key: key.into(), value: Some(value), ..Default::default() }
}

fn texts(pairs: &[(&str, &str)]) -> Vec<KeyValue> {
    pairs.iter().map(|(k, v)| attribute(k, string(*v))).collect()
}

fn record(span: Span) -> Record {
    Record::new(Body::Span(span), Arc::new(Origin::default()), 0, 0)
}

fn span(pairs: &[(&str, &str)]) -> Span {
    Span { attributes: texts(pairs), ..Default::default() }
}

fn read(pairs: &[(&str, &str)]) -> Operation {
    normalize_span(&record(span(pairs)), &[])
}

fn log(name: &str, time: u64, body: Value) -> Record {
    let log = LogRecord {
        event_name: name.into(),
        time_unix_nano: time,
        body: Some(any_value(&body)),
        ..Default::default()
    };
    Record::new(Body::Log(log), Arc::new(Origin::default()), 0, 0)
}

const INPUT: &str = r#"[{"role":"system","parts":[{"type":"text","content":"be brief"}]},
    {"role":"user","parts":[{"type":"text","content":"hello"}]},
    {"role":"tool","parts":[{"type":"tool_call_response","id":" c1","result":"{\"n\":1}"}]}]"#;
const OUTPUT: &str = r#"[{"role":"assistant","finish_reason":"tool_calls","parts":[{"type":"tool_call","id":"c2",
    "name":"search","arguments":"{\"q\":\"x\"}"}]}]"#;

#[test]
fn messages_in_attributes_are_lost() {
    let op = read(&[
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.input.messages", INPUT),
        ("gen_ai.output.messages", OUTPUT),
        ("gen_ai.usage.input_tokens", "25"),
    ]);
    assert_eq!((op.kind, op.dialect), (Kind::ModelCall, "otel"));
    assert_eq!(op.system_instructions, [Part::text("be brief")]);
    assert_eq!(op.input.value.len(), 2);
    assert_eq!(op.input.value[1].parts, [Part::tool_call_response(Some("c1".into()), Some(json!({"n": 1})))]);
    assert_eq!(
        op.output.value[0].parts,
        [Part::tool_call(Some("c2".into()), "search", Some(json!({"q": "x"})))]
    );
    assert_eq!(op.finish_reasons, ["tool_call"]);
    assert_eq!(op.usage.input_tokens, Some(25));
    assert_eq!((op.input.state, op.output.state), (ContentState::Captured, ContentState::Captured));
}

#[test]
fn structured_values_read_differently_from_json_text() {
    let text = read(&[("gen_ai.operation.name", "chat"), ("gen_ai.output.messages", OUTPUT)]);
    let mut structured = span(&[("gen_ai.operation.name", "chat")]);
    let value: Value = serde_json::from_str(OUTPUT).unwrap();
    structured.attributes.push(attribute("gen_ai.output.messages", any_value(&value)));
    assert_eq!(normalize_span(&record(structured), &[]).output, text.output);
}

#[test]
fn message_logs_depend_on_their_order_of_arrival() {
    let model = record(span(&[("gen_ai.operation.name", "chat")]));
    let logs = [
        log("gen_ai.user.message", 1, json!({"content": "hi"})),
        log(
            "gen_ai.assistant.message",
            2,
            json!({"tool_calls":
            [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}),
        ),
        log("gen_ai.tool.message", 3, json!({"id": "c1", "content": "7"})),
        log(
            "gen_ai.choice",
            4,
            json!({"index": 0, "finish_reason": "stop", "message": {"content": "seven"}}),
        ),
    ];
    let forward: Vec<_> = logs.iter().collect();
    let backward: Vec<_> = logs.iter().rev().collect();
    let op = normalize_span(&model, &forward);
    assert_eq!(op, normalize_span(&model, &backward));
    let roles: Vec<_> = op.input.value.iter().map(|m| m.role.as_str()).collect();
    assert_eq!(roles, ["user", "assistant", "tool"]);
    assert_eq!(op.input.value[2].parts, [Part::tool_call_response(Some("c1".into()), Some(json!("7")))]);
    assert_eq!(op.output.value[0].text(), "seven");
    assert_eq!(op.finish_reasons, ["stop"]);
}

#[test]
fn details_spread_over_several_span_events_overwrite_each_other() {
    let mut model = span(&[("gen_ai.operation.name", "chat")]);
    for (key, value) in [("gen_ai.input.messages", INPUT), ("gen_ai.output.messages", OUTPUT)] {
        model.events.push(Event {
            name: events::DETAILS.into(),
            attributes: texts(&[(key, value)]),
            ..Default::default()
        });
    }
    let op = normalize_span(&record(model), &[]);
    assert_eq!((op.input.value.len(), op.output.value.len()), (2, 1));
}

#[test]
fn bedrock_blocks_in_span_events_are_taken_for_text() {
    let mut model = span(&[("gen_ai.operation.name", "chat")]);
    let content = r#"[{"toolResult":{"toolUseId":"t1","status":"success","content":[{"text":"9"}]}}]"#;
    let message = r#"[{"text":"ok"},{"toolUse":{"toolUseId":"t2","name":"add","input":{"a":1}}}]"#;
    for (name, key, value) in
        [("gen_ai.tool.message", "content", content), ("gen_ai.choice", "message", message)]
    {
        model.events.push(Event {
            name: name.into(),
            attributes: texts(&[(key, value)]),
            ..Default::default()
        });
    }
    let op = normalize_span(&record(model), &[]);
    assert!(matches!(&op.input.value[0].parts[0], Part::ToolCallResponse { id: Some(id), .. } if id == "t1"));
    assert_eq!(op.output.value[0].parts[1], Part::tool_call(Some("t2".into()), "add", Some(json!({"a": 1}))));
}

#[test]
fn content_of_the_oldest_events_is_lost() {
    let mut model = span(&[("gen_ai.operation.name", "chat")]);
    for (name, key) in
        [("gen_ai.content.prompt", "gen_ai.prompt"), ("gen_ai.content.completion", "gen_ai.completion")]
    {
        model.events.push(Event {
            name: name.into(),
            attributes: texts(&[(key, "words")]),
            ..Default::default()
        });
    }
    let op = normalize_span(&record(model), &[]);
    assert_eq!((op.input.value[0].text(), op.output.value[0].text()), ("words".into(), "words".into()));
}

#[test]
fn a_cut_attribute_hides_the_whole_event() {
    let mut model =
        span(&[("gen_ai.operation.name", "chat"), ("gen_ai.output.messages", OUTPUT.get(..90).unwrap())]);
    let cut = normalize_span(&record(model.clone()), &[]);
    assert_eq!(cut.output.state, ContentState::Truncated);
    assert_eq!(cut.output.value[0].role, "assistant");
    let attributes = texts(&[("gen_ai.output.messages", OUTPUT)]);
    model.events.push(Event { name: events::DETAILS.into(), attributes, ..Default::default() });
    assert_eq!(normalize_span(&record(model), &[]).output.state, ContentState::Captured);
}

#[test]
fn structure_without_content_counts_as_captured() {
    let op = read(&[
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.input.messages", r#"[{"role":"user","parts":[{"type":"text"}]}]"#),
        (
            "gen_ai.output.messages",
            r#"[{"role":"assistant","parts":[{"type":"tool_call","id":"1","name":"f"}]}]"#,
        ),
    ]);
    assert_eq!((op.input.state, op.output.state), (ContentState::NotCaptured, ContentState::NotCaptured));
    assert_eq!(op.output.value.len(), 1);
}

#[test]
fn a_marker_of_redaction_counts_as_content() {
    let op = read(&[("gen_ai.tool.name", "f"), ("gen_ai.tool.call.arguments", "[REDACTED]")]);
    assert_eq!(op.tool.arguments.state, ContentState::Redacted);
}

#[test]
fn a_tool_without_parameters_counts_as_not_captured() {
    let called = |arguments: &str| {
        read(&[
            ("gen_ai.operation.name", "execute_tool"),
            ("gen_ai.tool.name", "now"),
            ("gen_ai.tool.call.arguments", arguments),
        ])
    };
    assert_eq!(called("{}").tool.arguments, Content::captured(json!({})));
    assert_eq!(called("").tool.arguments.state, ContentState::NotCaptured);
}

#[test]
fn an_mcp_listing_becomes_a_tool_call() {
    assert_eq!(read(&[("mcp.method.name", "tools/call"), ("gen_ai.tool.name", "f")]).kind, Kind::ToolCall);
    assert_eq!(read(&[("mcp.method.name", "tools/list")]).kind, Kind::Internal);
}

#[test]
fn cache_counts_beside_the_input_are_forgotten() {
    let usage = |input| {
        read(&[
            ("gen_ai.operation.name", "chat"),
            ("gen_ai.usage.input_tokens", input),
            ("gen_ai.usage.cache_read.input_tokens", "900"),
        ])
        .usage
    };
    assert_eq!(usage("100").input_tokens, Some(1000));
    assert_eq!(usage("950").input_tokens, Some(950));
}

#[test]
fn an_interrupt_counts_as_a_failure() {
    let mut tool = span(&[("gen_ai.tool.name", "f"), ("error.type", "langgraph.errors.GraphInterrupt")]);
    tool.status = Some(Status { code: 2, message: String::new() });
    let op = normalize_span(&record(tool.clone()), &[]);
    assert_eq!((op.status, op.failure), (OpStatus::Interrupted, None));
    tool.attributes = texts(&[("gen_ai.tool.name", "f"), ("error.type", "ValueError")]);
    assert_eq!(normalize_span(&record(tool), &[]).status, OpStatus::Error);
}

#[test]
fn a_weaker_run_id_goes_first() {
    let op = read(&[("gen_ai.agent.call.id", "a"), ("eai.run_id", "b"), ("spanreel.run_id", "c")]);
    let rules: Vec<_> = op.identity.run_ids.iter().map(|(r, _)| *r).collect();
    assert_eq!(rules, [Rule::EaiRunId, Rule::Configured, Rule::Producer]);
}

#[test]
fn hostile_values_panic_or_take_long() {
    let deep = "[".repeat(200_000);
    let long = format!("[{{\"role\":\"user\",\"content\":\"{}\"", "\\u00e9x".repeat(400_000));
    let started = Instant::now();
    for value in
        [deep.as_str(), &long, "\"\\", "{\"a\":\"\\u12", "[1,", "{,}", "[TRUNCATED: original length 9]"]
    {
        let _ =
            read(&[("gen_ai.input.messages", value), ("gen_ai.tool.call.result", value), ("events", value)]);
    }
    let indexed = (0..100_000).map(|i| attribute(&format!("gen_ai.prompt.{}.content", i * 10), string("x")));
    let mut many = span(&[("gen_ai.prompt", "true"), ("gen_ai.prompt", "again")]);
    many.attributes.extend(indexed);
    let _ = normalize_span(&record(many), &[]);
    assert!(started.elapsed().as_secs() < 10, "{:?}", started.elapsed());
}

#[test]
fn repeated_keys_lose_all_but_one() {
    let op =
        read(&[("gen_ai.response.finish_reasons", "stop"), ("gen_ai.response.finish_reasons", "length")]);
    assert_eq!(op.finish_reasons, ["stop", "length"]);
}

#[test]
fn repair_reads_what_was_not_there() {
    for cut in 1..OUTPUT.len() {
        if let Some(value) = OUTPUT.get(..cut).and_then(state::repair) {
            assert!(value.is_array());
        }
    }
    assert_eq!(state::repair(r#"{"a":[1,{"b":"tex"#), Some(json!({"a": [1, {"b": "tex"}]})));
    assert_eq!(state::repair(r#"{"a":1,"bc"#), Some(json!({"a": 1})));
    assert_eq!(state::repair(r#"["\ud8"#), Some(json!([""])));
}

/// Every operation name, tool and answer that a capture's truth counts as a step must come out as one.
#[test]
fn a_capture_loses_its_model_calls_or_tools() {
    for scenario in
        ["js-otel-openai", "py-pydantic-v2", "py-strands-latest", "js-vercel-ai7-chat", "py-adk-content"]
    {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures").join(scenario);
        let truth: Value = serde_json::from_slice(&std::fs::read(dir.join("truth.json")).unwrap()).unwrap();
        let mut found = BTreeSet::new();
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if !path.to_str().unwrap().ends_with("traces.pb") {
                continue;
            }
            let request = ExportTraceServiceRequest::decode(std::fs::read(path).unwrap().as_slice()).unwrap();
            for scope in request.resource_spans.into_iter().flat_map(|r| r.scope_spans) {
                let origin = Origin { scope: scope.scope, ..Origin::default() };
                let origin = Arc::new(origin);
                for span in scope.spans {
                    let record = Record::new(Body::Span(span), origin.clone(), 0, 0);
                    if normalize_span(&record, &[]).kind.is_step() {
                        let _ = found.insert(record.span_id().to_string());
                    }
                }
            }
        }
        let steps = truth["runs"].as_array().unwrap().iter().flat_map(|r| r["steps"].as_array().unwrap());
        for id in steps.filter_map(|s| s["span_id"].as_str()) {
            assert!(found.contains(id), "{scenario}: {id}");
        }
        assert!(!found.is_empty(), "{scenario}");
    }
}

const NAMES: &[&str] = &[
    "gen_ai.operation.name",
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.system_instructions",
    "gen_ai.tool.name",
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.call.result",
    "gen_ai.tool.definitions",
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.response.finish_reasons",
    "gen_ai.response.time_to_first_chunk",
    "gen_ai.prompt",
    "gen_ai.completion",
    "events",
    "logfire.msg",
    "pydantic_ai.all_messages",
    "final_result",
    "gcp.vertex.agent.llm_request",
    "gcp.vertex.agent.llm_response",
    "eai.run_id",
    "input.value",
    "output.value",
    "openinference.span.kind",
    "mcp.method.name",
    "error.type",
];

fn any_json() -> impl Strategy<Value = Value> {
    let words = prop::sample::select(vec![
        "role",
        "parts",
        "type",
        "content",
        "tool_call",
        "text",
        "name",
        "arguments",
        "[{\"a\":",
        "message",
        "tool_calls",
        "toolUse",
        "execute_tool",
        "chat",
        "messages",
        "\"",
        "{\"role\":\"user\"}",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        words.clone().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((words.clone(), inner.clone()), 0..5)
                .prop_map(|m| m.into_iter().map(|(k, v)| (k.to_owned(), v)).collect::<Value>()),
            inner.prop_map(|v| Value::from(v.to_string())),
        ]
    })
}

proptest! {
    #[test]
    fn known_names_with_odd_values_panic(
        values in prop::collection::vec((prop::sample::select(NAMES), any_json()), 0..8),
        bodies in prop::collection::vec(any_json(), 0..4),
    ) {
        let attributes = values.iter().map(|(k, v)| attribute(k, any_value(v))).collect();
        let scope = Some(InstrumentationScope::default());
        let origin = Arc::new(Origin { scope, ..Origin::default() });
        let span = Record::new(Body::Span(Span { attributes, ..Default::default() }), origin, 0, 0);
        let names = ["gen_ai.user.message", "gen_ai.choice", "gen_ai.tool.message", events::DETAILS];
        let logs: Vec<_> = bodies.iter().zip(names).map(|(b, n)| log(n, 5, b.clone())).collect();
        let forward = normalize_span(&span, &logs.iter().collect::<Vec<_>>());
        prop_assert_eq!(forward, normalize_span(&span, &logs.iter().rev().collect::<Vec<_>>()));
    }
}

#[test]
fn system_instructions_in_the_body_of_a_details_event_are_lost() {
    let body = json!({"gen_ai.system_instructions": [{"type": "text", "content": "be brief"}]});
    let details = log(events::DETAILS, 1, body);
    let operation = normalize_span(&record(span(&[("gen_ai.operation.name", "chat")])), &[&details]);
    assert_eq!(operation.system_instructions, [Part::text("be brief")]);
}
