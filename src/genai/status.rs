//! How an operation ended (`dialects.md` table A, row `error`).

use opentelemetry_proto::tonic::trace::v1::status::StatusCode;

use super::{
    dialect::Facts,
    operation::{Failure, Issue, OpStatus, Operation},
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
    let tool_failed = facts.attrs.text(&["gen_ai.tool.status"]).is_some_and(|s| s == "error");
    if !says_error && exception.is_none() && error_type.is_none() && !tool_failed {
        return;
    }
    // The convention's own attribute is the more exact: it may be the status code of the provider.
    let kind = error_type.or_else(|| of_event("exception.type"));
    let exception_type = of_event("exception.type");
    let said = status.map(|s| s.message.clone()).filter(|m| !m.is_empty());
    let message =
        said.or_else(|| of_event("exception.message")).or_else(|| facts.attrs.text(&["error.message"]));
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
        operation.failure = Some(Failure { kind, message });
    }
}
