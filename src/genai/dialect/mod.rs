//! Dialects: what each producer's attributes mean. One file each, one row each in `DIALECTS`.
//!
//! Every dialect that is on a span is read, strongest first, and fills what the ones before it left open. So a span
//! that carries three dialects loses nothing, and no dialect ends the reading for the others.

mod adk;
mod agent_framework;
mod autogen;
mod checks;
mod claude_code;
mod codex;
mod gemini_cli;
mod generic;
mod langfuse;
mod langsmith;
mod mlflow;
mod openinference;
mod otel;
mod own;
mod pydantic;
mod traceloop;
mod vendors;
mod vercel;

use std::cell::RefCell;

use serde_json::Value;

use super::{
    attrs::Attrs,
    events::{Event, prefer},
    message::{Content, ContentState},
    operation::{Issue, Kind, Operation, Tool},
    parse::{self, Seen, envelope},
    state,
};
use opentelemetry_proto::tonic::trace::v1::Span;

/// One span as the dialects see it.
#[derive(Debug)]
pub struct Facts<'a> {
    /// The span itself.
    pub span: &'a Span,
    /// Its attributes.
    pub attrs: &'a Attrs,
    /// Its events and joined logs, in order.
    pub events: &'a [Event],
    /// The event, where a log record is an operation by itself; the span is empty then.
    pub log: Option<&'a Event>,
    /// Name of the instrumentation scope: a hint only.
    pub scope: &'a str,
    /// Messages that other spans of the run told before.
    pub seen: &'a RefCell<Seen>,
}

/// A row of the table of dialects.
#[derive(Clone, Copy, Debug)]
pub struct Dialect {
    /// Its name in `Operation::dialect`.
    pub name: &'static str,
    /// True when the span carries it.
    pub detect: fn(&Facts<'_>) -> bool,
    /// The kind that it sees, if it says any.
    pub kind: fn(&Facts<'_>) -> Option<Kind>,
    /// Fills what is still open. `Operation::kind` is decided by then.
    pub read: fn(&Facts<'_>, &mut Operation),
}

/// All dialects, strongest first (`dialects.md` B1).
pub(super) const DIALECTS: &[Dialect] = &[
    own::DIALECT,
    langfuse::DIALECT,
    langsmith::DIALECT,
    gemini_cli::DIALECT,
    otel::DIALECT,
    openinference::DIALECT,
    traceloop::DIALECT,
    vercel::DIALECT,
    pydantic::DIALECT,
    mlflow::DIALECT,
    adk::DIALECT,
    agent_framework::DIALECT,
    autogen::DIALECT,
    claude_code::DIALECT,
    codex::DIALECT,
    vendors::DIALECT,
    generic::DIALECT,
];

/// Reads every dialect of the span into `operation`; the first that knows a kind decides it.
pub fn read(facts: &Facts<'_>, operation: &mut Operation) {
    let present: Vec<_> = DIALECTS.iter().filter(|d| (d.detect)(facts)).collect();
    if let Some((dialect, kind)) = present.iter().find_map(|d| Some((d, (d.kind)(facts)?))) {
        operation.kind = kind;
        operation.dialect = dialect.name;
    }
    for dialect in present {
        (dialect.read)(facts, operation);
    }
}

/// Sets `slot` when nothing stronger did.
pub fn fill<T>(slot: &mut Option<T>, value: impl FnOnce() -> Option<T>) {
    if slot.is_none() {
        *slot = value();
    }
}

/// Sets the arguments of a call when nothing stronger did: JSON text is opened, the shell of a decorator taken off.
pub fn fill_arguments(operation: &mut Operation, value: Option<&Value>) {
    fill_arguments_under(operation, value, |value| value);
}

/// As [`fill_arguments`], with what a producer wraps them in.
pub fn fill_arguments_under(operation: &mut Operation, value: Option<&Value>, inner: fn(&Value) -> &Value) {
    if operation.tool.arguments.state == ContentState::NotCaptured {
        fill_value(&mut operation.tool.arguments, value, &mut operation.issues);
        reopen(&mut operation.tool.arguments, inner);
        reopen(&mut operation.tool.arguments, envelope::call_arguments);
    }
}

/// Sets the result of a call when nothing stronger did: JSON text is opened, the message that wraps an answer taken off.
pub fn fill_result(operation: &mut Operation, value: Option<&Value>) {
    fill_result_under(operation, value, |value| value);
}

/// As [`fill_result`], with what a producer wraps it in.
pub fn fill_result_under(operation: &mut Operation, value: Option<&Value>, inner: fn(&Value) -> &Value) {
    if operation.tool.result.state == ContentState::NotCaptured {
        fill_value(&mut operation.tool.result, value, &mut operation.issues);
        reopen(&mut operation.tool.result, inner);
        reopen(&mut operation.tool.result, envelope::tool_answer);
    }
}

/// Takes off what LangChain's callback wrote around a tool's arguments and result, its call id from there.
pub fn unwrap_callback(tool: &mut Tool) {
    let arguments = &tool.arguments.value;
    if arguments.get("input_str").is_some() && arguments.get("inputs").is_some() {
        fill(&mut tool.call_id, || parse::call_id(arguments.pointer("/kwargs/tool_call_id")));
        reopen(&mut tool.arguments, traceloop::called_with);
    }
    let result = &tool.result.value;
    if result.get("output").is_some() && result.get("kwargs").is_some() {
        reopen(&mut tool.result, traceloop::answered_with);
        reopen(&mut tool.result, envelope::tool_answer);
    }
}

/// Goes on to what is inside; JSON text inside is opened too, and its state counts.
fn reopen(slot: &mut Content<Value>, inner: fn(&Value) -> &Value) {
    let found = inner(&slot.value);
    if !std::ptr::eq(found, &raw const slot.value) || found.is_string() {
        let opened = state::open(found);
        slot.state = state::worse(slot.state, opened.state);
        slot.value = parse::part::unblock(opened.value);
    }
}

/// Sets an argument or result when nothing stronger did; JSON text is opened once.
pub fn fill_value(slot: &mut Content<Value>, value: Option<&Value>, issues: &mut Vec<Issue>) {
    if slot.state != ContentState::NotCaptured {
        return;
    }
    if let Some(value) = value {
        let opened = state::open(value);
        if opened.unparsable {
            issues.push(Issue {
                code: "unparsable_content",
                detail: "cut JSON that repair could not read".into(),
            });
        }
        *slot = Content { value: opened.value, state: opened.state };
    }
}

/// Sets a result that is plain text whatever it looks like (what a command printed), when nothing stronger did.
pub fn fill_text(slot: &mut Content<Value>, value: &Value) {
    if slot.state == ContentState::NotCaptured && !value.is_null() {
        *slot = Content { value: value.clone(), state: state::of_value(value) };
    }
}

/// Sets the messages of both sides when nothing stronger did, or when what it left is damaged.
pub fn fill_messages(operation: &mut Operation, input: Option<&Value>, output: Option<&Value>) {
    if let Some(input) = input {
        prefer(&mut operation.input, parse::messages(input, "user", &mut operation.issues));
    }
    if let Some(output) = output {
        prefer(&mut operation.output, parse::messages(output, "assistant", &mut operation.issues));
    }
}

/// Sets the system instructions when nothing stronger did.
pub fn fill_system(operation: &mut Operation, value: Option<&Value>) {
    if let Some(value) = value.filter(|_| operation.system_instructions.is_empty()) {
        let told = parse::parts(value, &mut operation.issues);
        operation.system_instructions = told.value;
        operation.system_state = told.state;
    }
}

/// Sets what the parameters of a request tell, as the providers' APIs name them.
pub fn fill_request(operation: &mut Operation, parameters: &Value) {
    let number = |keys: &[&str]| keys.iter().find_map(|key| parameters.get(*key)?.as_f64());
    let whole = |keys: &[&str]| keys.iter().find_map(|key| parameters.get(*key)?.as_i64());
    let request = &mut operation.request;
    fill(&mut request.temperature, || number(&["temperature"]));
    fill(&mut request.top_p, || number(&["top_p", "topP"]));
    fill(&mut request.max_tokens, || {
        whole(&[
            "max_tokens",
            "max_completion_tokens",
            "max_output_tokens",
            "maxOutputTokens",
            "max_new_tokens",
        ])
    });
    fill(&mut request.seed, || whole(&["seed"]));
    fill(&mut request.streamed, || parameters.get("stream")?.as_bool());
    fill(&mut operation.request_model, || {
        ["model", "model_name", "model_id"]
            .iter()
            .find_map(|k| parameters.get(*k)?.as_str())
            .map(str::to_owned)
    });
    fill(&mut operation.tool_definitions, || {
        let offered = ["tools", "functions"].iter().filter_map(|key| parameters.get(*key));
        offered.into_iter().find(|t| t.as_array().is_some_and(|t| !t.is_empty())).cloned()
    });
}

/// What was searched for, in the input of a retrieval: text, or a member of an object that is named so.
pub fn query(input: &Value) -> Option<String> {
    let opened = state::open(input).value;
    let found = [
        "/query",
        "/query_str",
        "/query_bundle/query_str",
        "/question",
        "/input",
        "/q",
        "/query/content/0/text",
    ]
    .iter()
    .find_map(|path| opened.pointer(path)?.as_str());
    found.or_else(|| opened.as_str()).map(str::to_owned)
}

/// A duration in nanoseconds; `None` for what no clock can have measured.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub fn nanos(value: f64) -> Option<u64> {
    (value.is_finite() && (0.0..1e18).contains(&value)).then_some(value as u64)
}
