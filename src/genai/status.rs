//! How an operation ended (`dialects.md` table A, row `error`).

use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use serde_json::Value;

use super::{
    dialect::Facts,
    operation::{Failure, Issue, Kind, OpStatus, Operation},
};

/// Exceptions that pause a run for a human or a resume.
const INTERRUPTS: &[&str] = &[
    "GraphInterrupt",
    "NodeInterrupt",
    "GraphBubbleUp",
    "CallDeferred",
    "ApprovalRequired",
    "InterruptException",
];
const CANCELS: &[&str] = &["CancelledError", "AbortError", "GeneratorExit", "KeyboardInterrupt", "cancelled"];

/// Sets status and failure from the span's status, its exception events and the producer's own word.
pub(super) fn read(facts: &Facts<'_>, operation: &mut Operation) {
    if operation.status == OpStatus::Interrupted {
        return;
    }
    let exception = facts
        .events
        .iter()
        .rev()
        .find(|e| matches!(e.name.as_str(), "exception" | "gen_ai.client.operation.exception"));
    let of_event = |key: &str| exception.and_then(|e| e.attrs.text(&[key]));
    let status = facts.span.status.as_ref();
    let says_error = status.is_some_and(|s| s.code == StatusCode::Error as i32);
    let error_type = facts.attrs.text(&["error.type"]);
    let tool_failed = facts.attrs.text(&["gen_ai.tool.status"]).is_some_and(|s| s == "error")
        || operation.kind == Kind::ToolCall && is_mcp_error(&operation.tool.result.value);
    if !says_error && exception.is_none() && error_type.is_none() && !tool_failed {
        return;
    }
    // The convention's own attribute is the more exact: it may be the status code of the provider.
    let kind = error_type.or_else(|| of_event("exception.type"));
    let exception_type = of_event("exception.type");
    let said = status.map(|s| s.message.clone());
    let messages = [
        said,
        of_event("exception.message"),
        facts.attrs.text(&["error.message"]),
        told_in_result(operation),
    ];
    let message =
        messages.into_iter().flatten().find(|m| says_more(m, kind.as_deref(), exception_type.as_deref()));
    let named = |names: &[&str]| {
        let ends = |text: &str| names.iter().any(|n| text.rsplit(['.', ':']).next() == Some(n));
        let starts = |text: &str| names.iter().any(|n| text.starts_with(n));
        kind.as_deref().is_some_and(ends)
            || exception_type.as_deref().is_some_and(ends)
            || message.as_deref().is_some_and(starts)
    };
    operation.status = if named(INTERRUPTS) {
        OpStatus::Interrupted
    } else if named(CANCELS) {
        OpStatus::Cancelled
    } else {
        OpStatus::Error
    };
    if status.is_some_and(|s| s.code == StatusCode::Ok as i32) {
        operation
            .issues
            .push(Issue { code: "status_conflict", detail: "status ok with a recorded exception".into() });
    }
    if operation.status == OpStatus::Error {
        operation.failure = Some(Failure { kind, message, status_code: None });
    }
}

/// The status code that the provider answered with: on the span, or the error's type (semconv `error.type`), or what the
/// clients of OpenAI and Anthropic write into the message (`Error code: 429 - ...`).
pub(super) fn read_code(facts: &Facts<'_>, failure: &mut Failure) {
    let valid = |code: &u16| (400..600).contains(code);
    let code = |text: &str| text.get(..3)?.parse::<u16>().ok().filter(valid);
    let of_span = ["http.response.status_code", "http.status_code", "status_code"]
        .iter()
        .find_map(|key| u16::try_from(facts.attrs.int(&[key])?).ok().filter(valid));
    let by_type = || failure.kind.as_deref().filter(|k| k.len() == 3).and_then(code);
    let by_message = || code(failure.message.as_deref()?.split_once("Error code: ")?.1);
    failure.status_code = of_span.or_else(by_type).or_else(by_message);
}

/// False for a message that only repeats the exception's type.
fn says_more(message: &str, kind: Option<&str>, exception_type: Option<&str>) -> bool {
    let message = message.trim().trim_end_matches(':');
    let repeats = |name: &str| name == message || name.rsplit('.').next() == Some(message);
    !message.is_empty() && !kind.is_some_and(repeats) && !exception_type.is_some_and(repeats)
}

/// A result of the Model Context Protocol that says that it is an error.
fn is_mcp_error(result: &Value) -> bool {
    result.get("isError").and_then(Value::as_bool) == Some(true) && result.get("content").is_some()
}

/// What a failed tool answered: its `error`, or its text.
fn told_in_result(operation: &Operation) -> Option<String> {
    let result = &operation.tool.result.value;
    let named = ["error", "message"].iter().find_map(|k| result.get(*k)?.as_str());
    let text = named.or_else(|| result.as_str()).or_else(|| result.pointer("/content/0/text")?.as_str())?;
    Some(text.to_owned())
}
