//! Span -> meaning. Pure functions, no I/O (design section 3).

pub mod attrs;
pub mod dialect;
pub mod events;
pub mod finish;
pub mod identity;
pub mod indexed;
pub mod message;
mod metadata;
pub mod operation;
pub mod parse;
mod provider;
pub mod state;
mod status;
#[cfg(test)]
mod tests;
pub mod usage;

use std::{cell::RefCell, sync::Arc};

use crate::otlp::record::Record;
use attrs::Attrs;
use operation::{Kind, Operation};

/// What a span means, with the log records that carry its trace and span id.
///
/// The logs may come in any order; the result does not depend on it. Never panics; what is odd is in `issues`.
pub fn normalize_span(span: &Record, logs: &[&Record]) -> Operation {
    normalize_span_seen(span, logs, &RefCell::default())
}

/// As [`normalize_span`], with the messages that were read in other spans of the same set: reading them again is spared.
pub fn normalize_span_seen(span: &Record, logs: &[&Record], seen: &RefCell<parse::Seen>) -> Operation {
    let mut operation = Operation::default();
    let Some(body) = span.as_span() else { return operation };
    let attrs = Attrs::new(&body.attributes);
    let events = events::collect(span, logs);
    let facts = dialect::Facts {
        span: body,
        attrs: &attrs,
        events: &events,
        log: None,
        scope: span.origin.scope_name(),
        seen,
    };
    let metadata = metadata::Metadata::read(&attrs);
    operation.identity = identity(span, &attrs, &metadata);
    operation.checkpoints = identity::checkpoints(&attrs, &metadata);
    operation.sequence = metadata.step().map(|(series, position)| operation::Sequence { series, position });
    read(&facts, &mut operation);
    operation.unordered = events::unordered(&events).filter(|_| operation.input.value.len() > 1);
    operation.identity.ties.extend(response_tie(&operation, &[Kind::ModelCall]));
    operation.identity.links_resume = matches!(operation.kind, Kind::Agent | Kind::Workflow)
        && body.parent_span_id.is_empty()
        && !body.links.is_empty();
    // A node of a graph is a function that a user wrote.
    if operation.kind == Kind::Internal && metadata.node().is_some_and(|node| node == body.name) {
        operation.kind = Kind::Task;
        operation.declared = true;
        operation.workflow_name = Some(body.name.clone());
    }
    identity::tell_apart(&mut operation.identity);
    operation
}

/// The operation that a log record is by itself, or `None`: an event of a coding agent, or an `operation.details` event
/// that belongs to no span.
pub fn normalize_log(log: &Record) -> Option<Operation> {
    let event = events::of_log(log)?;
    let name = event.name.as_str();
    if name.starts_with("gen_ai.") && name != events::DETAILS && !events::CHECKS.contains(&name) {
        return None;
    }
    let span = opentelemetry_proto::tonic::trace::v1::Span::default();
    let metadata = metadata::Metadata::read(&event.attrs);
    let mut operation =
        Operation { identity: identity(log, &event.attrs, &metadata), ..Operation::default() };
    let facts = dialect::Facts {
        span: &span,
        attrs: &event.attrs,
        events: std::slice::from_ref(&event),
        log: Some(&event),
        seen: &RefCell::default(),
        scope: log.origin.scope_name(),
    };
    read(&facts, &mut operation);
    operation.is_of_span = event.name == events::DETAILS && log.span_id().is_valid();
    // The response names the call wherever it was logged, or judged.
    if !log.trace_id().is_valid() {
        operation.identity.ties.extend(response_tie(&operation, &[Kind::ModelCall, Kind::Evaluation]));
    }
    identity::tell_apart(&mut operation.identity);
    operation.kind.is_genai().then_some(operation)
}

/// True for a record that is stored. Log records that no dialect claims and that point to no span are discarded after
/// their acknowledgement.
pub fn is_kept(record: &Record) -> bool {
    let points = record.trace_id().is_valid() && record.span_id().is_valid();
    record.as_log().is_none() || points || events::of_log(record).is_some()
}

fn response_tie(operation: &Operation, kinds: &[Kind]) -> Option<String> {
    let id = operation.response_id.as_ref().filter(|_| kinds.contains(&operation.kind))?;
    Some(format!("response {id}"))
}

fn read(facts: &dialect::Facts<'_>, operation: &mut Operation) {
    (operation.usage, operation.cost_source) = usage::read(facts.attrs);
    dialect::read(facts, operation);
    operation.provider = operation.provider.take().or_else(|| provider::read(facts.attrs));
    status::read(facts, operation);
    if let Some(length) = facts.attrs.cut_length() {
        mark_cut(operation, length);
    }
    if let Some(failure) = &mut operation.failure {
        status::read_code(facts, failure);
    }
    settle(operation);
}

fn identity(record: &Record, attrs: &Attrs, metadata: &metadata::Metadata) -> operation::Identity {
    let scope = record.origin.scope.as_ref().map(|s| Attrs::new(&s.attributes)).unwrap_or_default();
    identity::read(attrs, metadata, &scope, &Attrs::new(&record.origin.resource.attributes))
}

/// Text that is exactly as long as the sender's limit was cut there.
fn mark_cut(operation: &mut Operation, length: usize) {
    use message::{ContentState, Part};
    let cut = |text: &str| text.len() >= length && text.chars().count() == length;
    let texts = |messages: &[Arc<message::Message>]| {
        let parts = messages.iter().flat_map(|m| &m.parts);
        parts.into_iter().any(|p| match p {
            Part::Text { content: Some(text), .. } | Part::Reasoning { content: Some(text), .. } => cut(text),
            Part::ToolCallResponse { response: Some(serde_json::Value::String(text)), .. } => cut(text),
            _ => false,
        })
    };
    let mark = |state: &mut ContentState| {
        if *state == ContentState::Captured {
            *state = ContentState::Truncated;
        }
    };
    if texts(&operation.input.value) {
        mark(&mut operation.input.state);
    }
    if texts(&operation.output.value) {
        mark(&mut operation.output.state);
    }
    for side in [&mut operation.tool.arguments, &mut operation.tool.result] {
        if side.value.as_str().is_some_and(cut) {
            mark(&mut side.state);
        }
    }
}

/// The rules that hold whatever the dialect: system messages are told once, containers' usage is a sum.
fn settle(operation: &mut Operation) {
    let mut system = Vec::new();
    operation.input.value.retain(|m| {
        let is_system = m.role == "system";
        if is_system {
            system.extend(m.parts.iter().cloned());
        }
        !is_system
    });
    for part in system {
        if !operation.system_instructions.contains(&part) {
            operation.system_instructions.push(part);
        }
    }
    if !operation.system_instructions.is_empty() && operation.input.state == message::ContentState::Captured {
        operation.input.state = match operation.system_state {
            message::ContentState::NotCaptured => message::ContentState::Captured,
            state => state,
        };
    }
    if operation.finish_reasons.is_empty() {
        operation.finish_reasons =
            operation.output.value.iter().filter_map(|m| m.finish_reason.clone()).collect();
    }
    // A call that broke off has no answer, though some producers write an empty one.
    let silent = operation.output.value.iter().flat_map(|m| &m.parts).all(|p| *p == message::Part::text(""));
    if silent && operation.finish_reasons.iter().any(|r| r == "error") {
        operation.output.state = message::ContentState::NotCaptured;
    }
    if operation.provider.is_none() && operation.kind == Kind::ModelCall {
        let models = [&operation.request_model, &operation.response_model];
        operation.provider = models.into_iter().flatten().find_map(|model| provider::of_model(model));
    }
    hand_off(operation);
    let container = matches!(
        operation.kind,
        Kind::Agent | Kind::Workflow | Kind::Task | Kind::Internal | Kind::ToolCall | Kind::Handoff
    );
    operation.usage_is_aggregate = container && !operation.usage.is_empty();
    operation.issues.sort();
    operation.issues.dedup();
}

/// A tool named `transfer_to_X` hands over to X; `transfer_to_agent` says the target in its arguments.
fn hand_off(operation: &mut Operation) {
    if operation.kind != Kind::ToolCall {
        return;
    }
    let Some(suffix) = operation.tool.name.as_deref().and_then(|n| n.strip_prefix("transfer_to_")) else {
        return;
    };
    let asked = ["agent_name", "agent", "target"]
        .iter()
        .find_map(|k| operation.tool.arguments.value.get(*k)?.as_str());
    let target = if suffix == "agent" { asked.unwrap_or(suffix) } else { suffix };
    let target = target.to_owned();
    operation.kind = Kind::Handoff;
    let _ = operation.decision.get_or_insert(target);
}
