//! What went wrong in the field, as public reports tell it: the input that was misread, and what it says.
//!
//! Each test is named after the fault; the numbers are those of `dialects.md` section E.

mod blocks;
mod checks;
mod coding;
mod content;
mod frameworks;
mod identity;
mod mapping;
mod people;
mod producers;
mod search;
mod tree;
mod usage;
mod values;
mod verdict;

use std::sync::Arc;

use opentelemetry_proto::tonic::{
    common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value::Value as Any},
    logs::v1::LogRecord,
    resource::v1::Resource,
    trace::v1::{Span, Status, span::Event},
};
use serde_json::Value;

use super::super::{Run, Settled, assemble, model::Step};
use crate::otlp::{
    fixtures::{any_value, attributes_of},
    record::{Body, Origin, Record},
};

/// A span of trace 1 under construction. Its id orders it: it lasts from 10 times the id for 9 milliseconds.
struct Sent {
    span: Span,
    scope: &'static str,
    resource: Value,
}

fn span(id: u64, parent: u64, name: &str, attributes: Value) -> Sent {
    let at = |ms: u64| 1_790_000_000_000_000_000 + ms * 1_000_000;
    let span = Span {
        trace_id: 1_u128.to_be_bytes().to_vec(),
        span_id: id.to_be_bytes().to_vec(),
        parent_span_id: if parent == 0 { Vec::new() } else { parent.to_be_bytes().to_vec() },
        name: name.into(),
        start_time_unix_nano: at(id * 10),
        end_time_unix_nano: at(id * 10 + 9),
        attributes: attributes_of(&attributes),
        ..Span::default()
    };
    Sent { span, scope: "test", resource: Value::Null }
}

impl Sent {
    /// From and to, in milliseconds.
    fn lasts(mut self, from: u64, to: u64) -> Self {
        self.span.start_time_unix_nano = 1_790_000_000_000_000_000 + from * 1_000_000;
        self.span.end_time_unix_nano = 1_790_000_000_000_000_000 + to * 1_000_000;
        self
    }

    fn trace(mut self, id: u128) -> Self {
        self.span.trace_id = id.to_be_bytes().to_vec();
        self
    }

    fn scope(mut self, name: &'static str) -> Self {
        self.scope = name;
        self
    }

    fn resource(mut self, attributes: Value) -> Self {
        self.resource = attributes;
        self
    }

    fn failed(mut self, message: &str) -> Self {
        self.span.status = Some(Status { code: 2, message: message.into() });
        self
    }

    fn event(mut self, name: &str, attributes: Value) -> Self {
        let time_unix_nano = self.span.start_time_unix_nano + self.span.events.len() as u64;
        let attributes = attributes_of(&attributes);
        self.span.events.push(Event { name: name.into(), attributes, time_unix_nano, ..Event::default() });
        self
    }

    fn with(mut self, change: impl FnOnce(&mut Span)) -> Self {
        change(&mut self.span);
        self
    }

    fn done(self) -> Arc<Record> {
        let scope = Some(InstrumentationScope { name: self.scope.into(), ..InstrumentationScope::default() });
        let resource = Resource { attributes: attributes_of(&self.resource), ..Resource::default() };
        let origin = Origin { scope, resource: resource.into(), ..Origin::default() };
        Arc::new(Record::new(Body::Span(self.span), Arc::new(origin), 1, 0))
    }
}

/// A log record of trace 1, at so many milliseconds; outside any trace when `span` is 0.
fn log(span: u64, ms: u64, event: &str, attributes: Value) -> Arc<Record> {
    let log = LogRecord {
        time_unix_nano: 1_790_000_000_000_000_000 + ms * 1_000_000,
        event_name: event.into(),
        attributes: attributes_of(&attributes),
        trace_id: if span == 0 { Vec::new() } else { 1_u128.to_be_bytes().to_vec() },
        span_id: if span == 0 { Vec::new() } else { span.to_be_bytes().to_vec() },
        ..LogRecord::default()
    };
    Arc::new(Record::new(Body::Log(log), Arc::default(), 1, 0))
}

fn runs(sent: impl IntoIterator<Item = Sent>) -> Vec<Run> {
    runs_of(&sent.into_iter().map(Sent::done).collect::<Vec<_>>())
}

fn runs_of(records: &[Arc<Record>]) -> Vec<Run> {
    assemble(records, Settled::All)
}

/// The only run of these spans.
fn run(sent: impl IntoIterator<Item = Sent>) -> Run {
    only(runs(sent))
}

fn only<T>(mut all: Vec<T>) -> T {
    assert_eq!(all.len(), 1);
    all.remove(0)
}

/// The only step of the only run of one span.
fn step(sent: Sent) -> Step {
    only(run([sent]).steps)
}

fn kinds(run: &Run) -> Vec<String> {
    run.steps.iter().map(|s| serde_json::to_value(s.kind).unwrap().as_str().unwrap().to_owned()).collect()
}

fn text_in(run: &Run, step: &Step) -> String {
    step.input_messages.iter().map(|n| run.messages[*n as usize].message.text()).collect()
}

fn text_out(step: &Step) -> String {
    step.output_messages.iter().map(|message| message.text()).collect()
}

fn reasons(run: &Run) -> Vec<String> {
    run.partial_reasons
        .iter()
        .map(|r| serde_json::to_value(r.code).unwrap().as_str().unwrap().to_owned())
        .collect()
}
