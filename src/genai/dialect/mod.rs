//! Dialects: what each producer's attributes mean. One file each, one row each in [`DIALECTS`].
//!
//! Every dialect that is on a span is read, strongest first, and fills what the ones before it left open. So a span
//! that carries three dialects loses nothing, and no dialect ends the reading for the others.

mod adk;
mod agent_framework;
mod autogen;
mod generic;
mod otel;
mod own;
mod pydantic;

use serde_json::Value;

use super::{
    attrs::Attrs,
    events::Event,
    message::{Content, ContentState},
    operation::{Issue, Kind, Operation},
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
    /// Name of the instrumentation scope: a hint only.
    pub scope: &'a str,
}

/// A row of the table of dialects.
#[derive(Clone, Copy, Debug)]
pub struct Dialect {
    /// Its name in `Operation::dialect`.
    pub name: &'static str,
    /// True when the span carries it.
    pub detect: fn(&Facts<'_>) -> bool,
    /// Fills what is still open; returns the kind that it sees.
    pub read: fn(&Facts<'_>, &mut Operation) -> Option<Kind>,
}

/// All dialects, strongest first (`dialects.md` B1).
pub(super) const DIALECTS: &[Dialect] = &[
    own::DIALECT,
    otel::DIALECT,
    pydantic::DIALECT,
    adk::DIALECT,
    agent_framework::DIALECT,
    autogen::DIALECT,
    generic::DIALECT,
];

/// Reads every dialect of the span into `operation`; the first that knows a kind decides it.
pub fn read(facts: &Facts<'_>, operation: &mut Operation) {
    for dialect in DIALECTS.iter().filter(|d| (d.detect)(facts)) {
        let kind = (dialect.read)(facts, operation);
        if let Some(kind) = kind
            && operation.kind == Kind::Foreign
        {
            operation.kind = kind;
            operation.dialect = dialect.name;
        }
    }
}

/// Sets `slot` when nothing stronger did.
pub fn fill<T>(slot: &mut Option<T>, value: impl FnOnce() -> Option<T>) {
    if slot.is_none() {
        *slot = value();
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
