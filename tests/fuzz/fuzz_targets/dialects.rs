//! Attributes that some dialect reads, with any values, under any scope: read twice alike, assembled, never a panic.

#![no_main]

use std::sync::Arc;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use opentelemetry_proto::tonic::{
    common::v1::{AnyValue, ArrayValue, InstrumentationScope, KeyValue, any_value::Value as Any},
    logs::v1::LogRecord,
    trace::v1::Span,
};
use spanreel::{
    otlp::record::{Body, Origin, Record},
    run::{self, Settled},
};

/// What the dialects look for, one a line: names of attributes, and values that mean something.
const WORDS: &str = include_str!("../words.txt");
const SCOPES: &[&str] = &[
    "", "ai", "langsmith", "langfuse-sdk", "pydantic-ai", "gcp.vertex.agent", "strands.telemetry.tracer", "agent_framework",
    "livekit-agents", "gemini-cli", "com.anthropic.claude_code.events", "genkit-tracer", "@voltagent/core",
    "openinference.instrumentation.llama_index", "opentelemetry.instrumentation.langchain",
];
const SPANS: &[&str] = &["chat m", "execute_tool t", "call_llm", "agent run", "claude_code.tool", "handoff to b", "x.task", "agent_run [a]"];

#[derive(Arbitrary, Debug)]
enum Given {
    Word(u16),
    Text(String),
    Number(i64),
    Float(f64),
    Flag(bool),
    List(Vec<String>),
    Nothing,
}

#[derive(Arbitrary, Debug)]
struct Sent {
    attributes: Vec<(u16, u8, Given)>,
    scope: u8,
    name: u8,
    is_log: bool,
    parent: bool,
}

fuzz_target!(|sent: Vec<Sent>| {
    let words: Vec<&str> = WORDS.lines().collect();
    let records: Vec<Arc<Record>> = sent.iter().take(8).zip(1_u64..).map(|(sent, id)| record(sent, id, &words)).collect();
    let reversed: Vec<_> = records.iter().rev().cloned().collect();
    let runs = run::assemble(&records, Settled::All);
    assert!(runs == run::assemble(&reversed, Settled::All));
    let keys = run::join_keys(&records);
    assert!(runs.iter().flat_map(|run| &run.join_keys).all(|key| keys.contains(key)));
});

fn record(sent: &Sent, id: u64, words: &[&str]) -> Arc<Record> {
    let pick = |all: &[&'static str], n: u8| all[usize::from(n) % all.len()].to_owned();
    let attributes = sent.attributes.iter().take(24).map(|(name, index, given)| KeyValue {
        key: word(words, *name).replace('#', &index.to_string()),
        value: Some(AnyValue { value: value(given, words) }),
        ..KeyValue::default()
    });
    let attributes: Vec<KeyValue> = attributes.collect();
    let span_id = id.to_be_bytes().to_vec();
    let body = if sent.is_log {
        let (trace_id, span_id) = if sent.parent { (vec![1; 16], span_id) } else { (Vec::new(), Vec::new()) };
        Body::Log(LogRecord { trace_id, span_id, time_unix_nano: id, attributes, ..LogRecord::default() })
    } else {
        Body::Span(Span {
            trace_id: vec![1; 16],
            span_id,
            parent_span_id: if sent.parent { (id / 2).to_be_bytes().to_vec() } else { Vec::new() },
            name: pick(SPANS, sent.name),
            start_time_unix_nano: id * 10,
            end_time_unix_nano: id * 10 + 9,
            attributes,
            ..Span::default()
        })
    };
    let scope = Some(InstrumentationScope { name: pick(SCOPES, sent.scope), ..InstrumentationScope::default() });
    Arc::new(Record::new(body, Arc::new(Origin { scope, ..Origin::default() }), 1, 0))
}

fn word<'a>(words: &[&'a str], n: u16) -> &'a str {
    words[usize::from(n) % words.len()]
}

fn value(given: &Given, words: &[&str]) -> Option<Any> {
    let text = |text: &String| AnyValue { value: Some(Any::StringValue(text.clone())) };
    Some(match given {
        Given::Word(n) => Any::StringValue(word(words, *n).to_owned()),
        Given::Text(text) => Any::StringValue(text.clone()),
        Given::Number(number) => Any::IntValue(*number),
        Given::Float(number) => Any::DoubleValue(*number),
        Given::Flag(flag) => Any::BoolValue(*flag),
        Given::List(items) => Any::ArrayValue(ArrayValue { values: items.iter().map(text).collect() }),
        Given::Nothing => return None,
    })
}
