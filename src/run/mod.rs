//! Meaning -> ordered steps. Pure: no I/O, no clock, no panic (invariant 2).
//!
//! `elect` picks one version of every record, `forest` links spans into trees, `identity` cuts the forest into runs.
//! Then, run by run: `duplicates`, `steps`, `calls`, `approvals`, `order`, `messages`, `usage`, `checkpoints`, `verdict`, `status`, `tree`.

pub mod model;

mod approvals;
mod calls;
mod checkpoints;
mod digest;
mod duplicates;
mod elect;
mod forest;
mod identity;
mod messages;
mod one;
mod order;
mod status;
mod steps;
mod table;
mod tree;
mod usage;
mod verdict;

#[cfg(test)]
mod tests;

use std::{cell::RefCell, collections::BTreeSet, sync::Arc};

use opentelemetry_proto::tonic::trace::v1::Span;

use crate::{
    genai::{self, operation::Operation, parse::Seen},
    otlp::record::{Body, Record, TraceId},
};
pub(crate) use checkpoints::posted;
use forest::Forest;
pub use model::Run;

/// Which traces have settled; a run has settled when all its traces have.
#[derive(Clone, Copy, Debug)]
pub enum Settled<'a> {
    /// Nothing more can arrive (an unheld folder, an import that ended).
    All,
    /// Exactly these. The all-zero id stands for the records outside any trace.
    Traces(&'a BTreeSet<TraceId>),
}

impl Settled<'_> {
    fn holds(self, traces: &BTreeSet<TraceId>) -> bool {
        match self {
            Self::All => true,
            Self::Traces(settled) => traces.is_subset(settled),
        }
    }
}

/// What ties the traces of `records` to other traces: two traces that share a key are assembled together.
/// The records may be those of one trace or of many. Checkpoints and logs outside a trace have keys too.
pub fn join_keys(records: &[Arc<Record>]) -> BTreeSet<String> {
    join_keys_with(records, &Meaning::genai())
}

/// Runs of a set of records, in order of (start time, run id).
///
/// `records` must be closed over [`join_keys`]. Any order, split or duplication of the same records gives equal runs.
pub fn assemble(records: &[Arc<Record>], settled: Settled<'_>) -> Vec<Run> {
    assemble_with(records, settled, &Meaning::genai())
}

/// How meaning is read from records; tests bring their own.
struct Meaning {
    /// See [`genai::normalize_span_seen`].
    span: fn(&Record, &[&Record], &RefCell<Seen>) -> Operation,
    /// See [`genai::normalize_log`].
    log: fn(&Record) -> Option<Operation>,
    /// Messages that were read already. It only spares work: what is read does not depend on it.
    seen: RefCell<Seen>,
}

impl Meaning {
    fn genai() -> Self {
        Self { span: genai::normalize_span_seen, log: genai::normalize_log, seen: RefCell::default() }
    }

    fn of_span(&self, span: &Record, logs: &[&Record]) -> Operation {
        (self.span)(span, logs, &self.seen)
    }
}

fn assemble_with(records: &[Arc<Record>], settled: Settled<'_>, meaning: &Meaning) -> Vec<Run> {
    let elected = elect::elect(records);
    let forest = Forest::plant(&elected, meaning);
    let groups = identity::groups(&forest);
    let shares = one::Shares::new(&forest, &groups, &elected);
    let mut runs: Vec<Run> = groups
        .iter()
        .filter_map(|(name, group)| one::assemble(&forest, name, group, &shares, settled))
        .collect();
    runs.sort_by(|a, b| (a.start_ns, &a.run_id, a.rule).cmp(&(b.start_ns, &b.run_id, b.rule)));
    runs
}

fn join_keys_with(records: &[Arc<Record>], meaning: &Meaning) -> BTreeSet<String> {
    let elected = elect::elect(records);
    let forest = Forest::plant(&elected, meaning);
    let mut keys = BTreeSet::new();
    for node in forest.nodes.iter() {
        identity::keys_of(node, &mut keys);
    }
    // The keys of a set are never fewer than those of its parts: versions that were not elected count too.
    for other in elected.spans.iter().flat_map(|versions| &versions.others) {
        identity::keys_of_version(other, &meaning.of_span(other, &[]), &mut keys);
    }
    for log in forest.loose_logs.iter().filter(|log| log.trace_id().is_valid()) {
        keys.extend(identity::run_keys(&meaning.of_span(&stand_in(log), &[log])));
    }
    for record in records {
        match &record.body {
            Body::Checkpoint(checkpoint) => {
                let _ = keys.insert(identity::run_key(&checkpoint.run_id));
                // A run without a name goes by its trace id.
                if let Ok(trace) = checkpoint.run_id.parse::<TraceId>() {
                    let _ = keys.insert(identity::trace_key(trace));
                }
            }
            _ if record.trace_id().is_valid() => {
                let _ = keys.insert(identity::trace_key(record.trace_id()));
            }
            _ => {}
        }
    }
    keys
}

/// An empty span where a log record points to.
fn stand_in(log: &Record) -> Record {
    let span =
        Span { trace_id: log.trace_id().0.to_vec(), span_id: log.span_id().0.to_vec(), ..Span::default() };
    Record::new(Body::Span(span), Arc::clone(&log.origin), log.received_at, log.seq)
}
