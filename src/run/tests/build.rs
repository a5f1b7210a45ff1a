//! Spans with `gen_ai.*` attributes, and a reader of just those.

use std::sync::Arc;

use opentelemetry_proto::tonic::{
    common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value::Value as Any},
    logs::v1::LogRecord,
    trace::v1::{Span, span::Link},
};
use serde_json::Value;

use super::super::{Meaning, Run, Settled, assemble_with, join_keys_with};
use crate::{
    genai::{
        message::{Content, Message},
        operation::{CheckpointRef, Kind, OpStatus, Operation, Rule, Sequence, Tool, Usage},
    },
    otlp::record::{Body, Checkpoint, Origin, Record, TraceId},
};

pub(super) fn meaning() -> Meaning {
    Meaning { span: |span, logs, _| read(span, logs), log: read_log, seen: Default::default() }
}

pub(super) fn assemble(records: &[Arc<Record>]) -> Vec<Run> {
    assemble_with(records, Settled::All, &meaning())
}

pub(super) fn keys(records: &[Arc<Record>]) -> std::collections::BTreeSet<String> {
    join_keys_with(records, &meaning())
}

pub(super) fn trace(n: u8) -> TraceId {
    let mut id = [0; 16];
    id[15] = n;
    TraceId(id)
}

/// A span of trace 1 from `start` to `end`, milliseconds after the first second; an `end` of 0 is none. Id and parent are small numbers, 0 for none.
#[derive(Clone, Debug)]
pub(super) struct Build {
    pub(super) span: Span,
    scope: String,
    received_at: u64,
}

pub(super) fn span(id: u64, parent: u64, start: u64, end: u64) -> Build {
    let parent = if parent == 0 { Vec::new() } else { parent.to_be_bytes().to_vec() };
    Build {
        span: Span {
            trace_id: trace(1).0.to_vec(),
            span_id: id.to_be_bytes().to_vec(),
            parent_span_id: parent,
            name: format!("span {id}"),
            start_time_unix_nano: (start + 1_000) * 1_000_000,
            end_time_unix_nano: if end == 0 { 0 } else { (end + 1_000) * 1_000_000 },
            ..Span::default()
        },
        scope: "test".into(),
        received_at: 1,
    }
}

impl Build {
    pub(super) fn set(mut self, key: &str, value: impl ToString) -> Self {
        let value = Some(AnyValue { value: Some(Any::StringValue(value.to_string())) });
        self.span.attributes.push(KeyValue { key: key.into(), value, ..KeyValue::default() });
        self
    }

    pub(super) fn trace(mut self, n: u8) -> Self {
        self.span.trace_id = trace(n).0.to_vec();
        self
    }

    pub(super) fn scope(mut self, name: &str) -> Self {
        self.scope = name.into();
        self
    }

    pub(super) fn flags(mut self, flags: u32) -> Self {
        self.span.flags = flags;
        self
    }

    pub(super) fn received(mut self, at: u64) -> Self {
        self.received_at = at;
        self
    }

    pub(super) fn link(mut self, to: u8) -> Self {
        self.span.links.push(Link { trace_id: trace(to).0.to_vec(), ..Link::default() });
        self.set("links_join", true)
    }

    pub(super) fn agent(self, name: &str) -> Self {
        self.set("gen_ai.operation.name", "invoke_agent").set("gen_ai.agent.name", name)
    }

    /// A model call that was given `input` and said `output`.
    pub(super) fn chat(self, input: Value, output: Value) -> Self {
        self.set("gen_ai.operation.name", "chat")
            .set("gen_ai.request.model", "m")
            .set("gen_ai.input.messages", input)
            .set("gen_ai.output.messages", output)
    }

    pub(super) fn tool(self, name: &str, id: &str) -> Self {
        let this = self.set("gen_ai.operation.name", "execute_tool").set("gen_ai.tool.name", name);
        if id.is_empty() { this } else { this.set("gen_ai.tool.call.id", id) }
    }

    pub(super) fn tool_io(self, arguments: Value, result: Value) -> Self {
        self.set("gen_ai.tool.call.arguments", arguments).set("gen_ai.tool.call.result", result)
    }

    pub(super) fn done(self) -> Arc<Record> {
        let scope = Some(InstrumentationScope { name: self.scope, ..InstrumentationScope::default() });
        let origin = Arc::new(Origin { scope, ..Origin::default() });
        Arc::new(Record::new(Body::Span(self.span), origin, self.received_at, 0))
    }
}

/// A checkpoint posted to a run.
pub(super) fn checkpoint(run: &str, id: &str) -> Arc<Record> {
    let body = Checkpoint { run_id: run.into(), checkpoint_id: id.into(), ..Checkpoint::default() };
    Arc::new(Record::new(Body::Checkpoint(body), Arc::new(Origin::default()), 5, 0))
}

/// `assistant` asks for tools: (id, name).
pub(super) fn asks(calls: &[(&str, &str)]) -> Value {
    let parts: Vec<Value> = calls
        .iter()
        .map(|(id, name)| serde_json::json!({"type": "tool_call", "id": id, "name": name, "arguments": {"of": id}}))
        .collect();
    serde_json::json!([{"role": "assistant", "parts": parts}])
}

/// `tool` messages that answer: (id, answer).
pub(super) fn answers(results: &[(&str, &str)]) -> Value {
    let parts: Vec<Value> = results
        .iter()
        .map(|(id, answer)| serde_json::json!({"type": "tool_call_response", "id": id, "response": answer}))
        .collect();
    serde_json::json!([{"role": "tool", "parts": parts}])
}

pub(super) fn says(text: &str) -> Value {
    serde_json::json!([{"role": "assistant", "parts": [{"type": "text", "content": text}]}])
}

/// A log record that says what the span says.
pub(super) fn log_of(build: Build) -> Arc<Record> {
    let span = build.span;
    let log = LogRecord {
        time_unix_nano: span.start_time_unix_nano,
        attributes: span.attributes,
        trace_id: span.trace_id,
        span_id: span.parent_span_id,
        ..LogRecord::default()
    };
    Arc::new(Record::new(Body::Log(log), Arc::default(), build.received_at, 0))
}

fn read_log(log: &Record) -> Option<Operation> {
    let op = read_attributes(&log.as_log()?.attributes);
    (op.kind == Kind::ModelCall || op.kind == Kind::ToolCall).then_some(op)
}

fn read(record: &Record, logs: &[&Record]) -> Operation {
    let mut op = record.as_span().map(|span| read_attributes(&span.attributes)).unwrap_or_default();
    for log in logs.iter().filter_map(|log| log.as_log()) {
        op.identity.run_ids.extend(read_attributes(&log.attributes).identity.run_ids);
    }
    op.identity.run_ids.sort();
    op
}

fn read_attributes(attributes: &[KeyValue]) -> Operation {
    let get = |key: &str| {
        let value = attributes.iter().filter(|a| a.key == key).max_by_key(|a| format!("{a:?}"));
        match value?.value.as_ref()?.value.as_ref()? {
            Any::StringValue(text) => Some(text.clone()),
            _ => None,
        }
    };
    let json = |key: &str| get(key).map(|text| serde_json::from_str(&text).unwrap_or(Value::String(text)));
    let messages = |key: &str| {
        json(key)
            .map(|value| {
                Content::captured(serde_json::from_value::<Vec<Arc<Message>>>(value).unwrap_or_default())
            })
            .unwrap_or_default()
    };
    let value = |key: &str| json(key).map(Content::captured).unwrap_or_default();
    let number = |key: &str| get(key).and_then(|text| text.parse().ok());
    let mut op = Operation {
        kind: match get("gen_ai.operation.name").as_deref() {
            Some("chat") => Kind::ModelCall,
            Some("execute_tool") => Kind::ToolCall,
            Some("invoke_agent") => Kind::Agent,
            Some("task") => Kind::Task,
            _ => Kind::Foreign,
        },
        declared: true,
        dialect: "test",
        agent_name: get("gen_ai.agent.name"),
        request_model: get("gen_ai.request.model"),
        response_id: get("gen_ai.response.id"),
        input: messages("gen_ai.input.messages"),
        output: messages("gen_ai.output.messages"),
        tool: Tool {
            name: get("gen_ai.tool.name"),
            call_id: get("gen_ai.tool.call.id"),
            arguments: value("gen_ai.tool.call.arguments"),
            result: value("gen_ai.tool.call.result"),
            is_output: false,
            asked_by: None,
        },
        usage: Usage {
            input_tokens: number("gen_ai.usage.input_tokens"),
            output_tokens: number("gen_ai.usage.output_tokens"),
            ..Usage::default()
        },
        ..Operation::default()
    };
    op.status = match get("status").as_deref() {
        Some("error") => OpStatus::Error,
        Some("interrupted") => OpStatus::Interrupted,
        _ => OpStatus::Ok,
    };
    for (rule, key) in [(Rule::EaiRunId, "eai.run_id"), (Rule::Producer, "gen_ai.agent.call.id")] {
        op.identity.run_ids.extend(get(key).map(|id| (rule, id)));
    }
    op.identity.conversation = get("gen_ai.conversation.id");
    op.identity.links_join = get("links_join").is_some();
    op.sequence =
        get("sequence").map(|at| Sequence { series: "s".into(), position: at.parse().unwrap_or(0) });
    op.checkpoints
        .extend(get("checkpoint").map(|id| CheckpointRef { checkpoint_id: id, ..CheckpointRef::default() }));
    op
}
