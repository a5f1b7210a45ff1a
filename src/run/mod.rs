//! Meaning -> ordered steps. Pure: no I/O, no clock, no panic (invariant 2).

pub mod model;

use std::{collections::BTreeSet, sync::Arc};

use crate::otlp::record::{Record, TraceId};
pub use model::Run;

/// Which traces have settled; a run has settled when all its traces have.
#[derive(Clone, Copy, Debug)]
pub enum Settled<'a> {
    /// Nothing more can arrive (an unheld folder, an import that ended).
    All,
    /// Exactly these.
    Traces(&'a BTreeSet<TraceId>),
}

/// What ties the traces of `records` to other traces: two traces that share a key are assembled together.
/// The records may be those of one trace or of many. Checkpoints and logs outside a trace have keys too.
pub fn join_keys(records: &[Arc<Record>]) -> BTreeSet<String> {
    let _ = records;
    BTreeSet::new()
}

/// Runs of a set of records, in order of (start time, run id).
///
/// `records` must be closed over [`join_keys`]. Any order, split or duplication of the same records gives equal runs.
pub fn assemble(records: &[Arc<Record>], settled: Settled<'_>) -> Vec<Run> {
    let _ = (records, settled);
    Vec::new()
}
