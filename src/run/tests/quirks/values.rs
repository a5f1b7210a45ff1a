//! Hostile values: never a panic, never a lost span, and bounded work.

use std::time::Instant;

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// weave PR#5511 (44): a key that is a value and a prefix.
#[test]
fn a_key_that_is_also_a_prefix_loses_the_span() {
    let read = run([span(
        1,
        0,
        "chat",
        json!({"gen_ai.operation.name": "chat", "gen_ai.prompt": true, "gen_ai.prompt.content": "Hello", "gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "hi", "gen_ai.prompt.0": "x", "gen_ai.prompt.0.content.deeper": {}}),
    )]);
    assert_eq!(read.steps.len(), 1);
    let plain = run([span(
        1,
        0,
        "chat",
        json!({"gen_ai.operation.name": "chat", "gen_ai.prompt": true, "gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "hi"}),
    )]);
    assert_eq!(text_in(&plain, &plain.steps[0]), "hi");
}

/// phoenix otel.py (65): a value that is unset, of bytes, nested.
#[test]
fn an_odd_value_loses_the_span() {
    let odd = span(1, 0, "chat", json!({"gen_ai.operation.name": "chat", "gen_ai.input.messages": [[1, {"a": [null]}], null], "gen_ai.request.model": {"x": 1}, "gen_ai.usage.input_tokens": [1]})).with(|s| {
        s.attributes.push(KeyValue { key: "gen_ai.output.messages".into(), value: None, ..KeyValue::default() });
        let bytes = Some(AnyValue { value: Some(Any::BytesValue(vec![0xff, 0])) });
        s.attributes.push(KeyValue { key: "gen_ai.system_instructions".into(), value: bytes, ..KeyValue::default() });
    });
    assert_eq!(run([odd]).steps.len(), 1);
}

/// Extra: numeric order of indexes, gaps, and an index of a million.
#[test]
fn indexes_are_ordered_as_text_or_allocated() {
    let mut attributes = json!({"llm.request.type": "chat", "gen_ai.prompt.1000000.role": "user", "gen_ai.prompt.1000000.content": "z"});
    for n in [10, 2, 7] {
        attributes[format!("gen_ai.prompt.{n}.role")] = json!("user");
        attributes[format!("gen_ai.prompt.{n}.content")] = json!(format!("{n} "));
    }
    let read = run([span(1, 0, "openai.chat", attributes)]);
    assert_eq!(text_in(&read, &read.steps[0]), "2 7 10 z");
}

/// Extra: finish reasons as a list, as JSON text, as words with commas.
#[test]
fn finish_reasons_in_text_are_one_reason() {
    for reasons in
        [json!(["stop", "tool_calls"]), json!("[\"stop\",\"tool_calls\"]"), json!("stop,tool_calls")]
    {
        let read = step(span(
            1,
            0,
            "chat",
            json!({"gen_ai.operation.name": "chat", "gen_ai.response.finish_reasons": reasons}),
        ));
        assert_eq!(read.finish_reasons, ["stop", "tool_call"]);
    }
}

/// mlflow PR#22402 (39), langwatch#5898 (40), langwatch PR#861 (41).
#[test]
fn json_without_a_kind_or_with_ids_in_base64_is_taken_or_lost_silently() {
    let limits = crate::otlp::scan::Limits::from(&crate::config::otlp::Settings::default());
    let of = |id: &str| {
        format!(
            r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{{"traceId":"{id}","spanId":"0000000000000001","name":"x"}}]}}]}}]}}"#
        )
    };
    let whole =
        crate::otlp::json::decode_traces(of("00000000000000000000000000000001").as_bytes(), &limits).unwrap();
    assert_eq!(whole.resource_spans[0].scope_spans[0].spans[0].kind, 0);
    let refused = crate::otlp::json::decode_traces(of("AAAAAAAAAAAAAAAAAAAAAQ==").as_bytes(), &limits);
    assert!(refused.unwrap_err().to_string().contains("hex"));
}

/// A span with a hundred thousand indexed keys, and megabytes of text under one.
#[test]
fn many_keys_or_much_text_take_for_ever() {
    let begun = Instant::now();
    let mut attributes = json!({"openinference.span.kind": "LLM", "input.value": "[".repeat(1 << 20), "output.value": format!("{{\"a\":\"{}", "x".repeat(1 << 20))});
    for n in 0..100_000 {
        attributes[format!("llm.input_messages.{n}.message.content")] = json!("x");
    }
    let read = run([span(1, 0, "llm", attributes)]);
    assert_eq!(read.steps.len(), 1);
    assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
}

/// Keys that some dialect reads, so that random values meet every reader.
const KEYS: &[&str] = &[
    "gen_ai.operation.name",
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.tool.call.arguments",
    "gen_ai.prompt",
    "gen_ai.prompt.0.content",
    "gen_ai.prompt.0.tool_calls.3.arguments",
    "gen_ai.completion.9.role",
    "gen_ai.usage.input_tokens",
    "gen_ai.response.finish_reasons",
    "openinference.span.kind",
    "input.value",
    "output.value",
    "llm.input_messages.0.message.contents.1.message_content.type",
    "llm.output_messages.0.message.tool_calls.0.tool_call.id",
    "llm.invocation_parameters",
    "llm.tools.0.tool.json_schema",
    "retrieval.documents.0.document.metadata",
    "metadata",
    "traceloop.span.kind",
    "traceloop.entity.input",
    "traceloop.entity.output",
    "ai.operationId",
    "ai.prompt.messages",
    "ai.prompt",
    "ai.response.toolCalls",
    "ai.toolCall.args",
    "ai.usage.inputTokens",
    "langsmith.span.kind",
    "langfuse.observation.type",
    "langfuse.observation.input",
    "langfuse.observation.usage_details",
    "langfuse.observation.completion_start_time",
    "mlflow.spanType",
    "mlflow.spanInputs",
    "mlflow.chat.tokenUsage",
    "gcp.vertex.agent.llm_request",
    "gcp.vertex.agent.llm_response",
    "span.type",
    "new_context",
    "tool_input",
    "agent_name",
    "events",
    "pydantic_ai.all_messages",
    "genkit:metadata:subtype",
    "genkit:input",
    "genkit:output",
    "haystack.component.type",
    "lk.chat_ctx",
    "mcp.method.name",
    "logfire.span_type",
    "logfire.pending_parent_id",
    "eai.run_id",
    "gen_ai.agent.call.id",
    "aisdk.model.id",
    "stream.prompt",
];
const WORDS: &[&str] = &[
    "chat",
    "execute_tool",
    "\"LLM\"",
    "LLM",
    "TOOL",
    "agent",
    "generation",
    "tool",
    "ai.toolCall",
    "ai.generateText.doGenerate",
    "[{\"role\":\"user\",\"parts\":[{\"type\":\"tool_call\",\"name\":\"t\",\"arguments\":\"{\\\"a\\\":\"}]}]",
    "{'a': None",
    "{\"args\":[],\"kwargs\":{\"x\":1}}",
    "[TOOL INPUT: x]\n{",
    "{\"generations\":[[{\"message\":{\"kwargs\":{}}}]]}",
    "{\"messages\":[[[]]]}",
    "pending_span",
    "",
    "\u{fe0f}é",
    "-1",
    "1e400",
];

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        proptest::sample::select(WORDS).prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::vec(
                (
                    proptest::sample::select(
                        &["role", "content", "parts", "type", "messages", "tool_calls", "name", "id"][..]
                    ),
                    inner
                ),
                0..3
            )
            .prop_map(|members| members
                .into_iter()
                .map(|(k, v)| (k.to_owned(), v))
                .collect::<serde_json::Map<_, _>>()
                .into()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Every reader over random values, whole and as JSON text: each span is in some run's tree or in none, without a panic,
    /// and reading twice gives the same.
    #[test]
    fn no_value_panics(members in prop::collection::vec((proptest::sample::select(KEYS), value(), any::<bool>()), 1..8), scope in 0..6_usize) {
        let mut attributes = json!({});
        for (key, value, as_text) in members {
            attributes[key] = if as_text { Value::String(value.to_string()) } else { value };
        }
        let scope = ["test", "ai", "langsmith", "pydantic-ai", "gcp.vertex.agent", "livekit-agents"][scope];
        let sent = || span(1, 0, "x.task", attributes.clone()).scope(scope);
        prop_assert_eq!(runs([sent()]), runs([sent()]));
    }
}

/// Thousands of versions of one span: each is read once, whatever their number.
#[test]
fn many_versions_of_a_span_end_the_process_or_take_for_ever() {
    let begun = Instant::now();
    let version = |n: u64| {
        span(1, 0, "chat", json!({"gen_ai.operation.name": "chat", "eai.run_id": "r", "n": n})).done()
    };
    let records: Vec<_> = (0..5000).map(version).collect();
    assert!(crate::run::join_keys(&records).contains("run:r"));
    assert_eq!(only(runs_of(&records)).steps.len(), 1);
    assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
}
