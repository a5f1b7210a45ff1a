//! Versions of one record: which of them speaks (design section 4, "Versions of one record").

use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    sync::Arc,
};

use crate::otlp::record::{Body, Key, Record, RecordHash};

/// All distinct versions of one record.
#[derive(Clone, Debug)]
pub(super) struct Versions {
    /// The version that speaks for all.
    pub(super) elected: Arc<Record>,
    /// The others, by hash.
    pub(super) others: Vec<Arc<Record>>,
}

impl Versions {
    /// Hash and least receive time of every version.
    pub(super) fn receipts(&self) -> impl Iterator<Item = Receipt> {
        std::iter::once(&self.elected).chain(&self.others).map(|r| Receipt::of(r))
    }
}

/// What the digest and the receive times of a run need to know of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Receipt {
    /// The record's hash.
    pub(super) hash: RecordHash,
    /// When it was first received, nanoseconds since the Unix epoch.
    pub(super) received_at: u64,
}

impl Receipt {
    /// The receipt of one record.
    pub(super) fn of(record: &Record) -> Self {
        Self { hash: record.hash, received_at: record.received_at }
    }
}

/// The records of a set, each once, in the order of their keys.
#[derive(Debug, Default)]
pub(super) struct Elected {
    /// Spans, by trace id and span id.
    pub(super) spans: Vec<Versions>,
    /// Log records; every distinct one is its own.
    pub(super) logs: Vec<Arc<Record>>,
    /// Posted checkpoints, by run id and checkpoint id.
    pub(super) checkpoints: Vec<Versions>,
}

/// Elects one version of every record. Equal hashes are one version, and its least receive time counts.
pub(super) fn elect(records: &[Arc<Record>]) -> Elected {
    let mut by_key: BTreeMap<Key, Vec<Arc<Record>>> = BTreeMap::new();
    for record in distinct(records) {
        by_key.entry(record.key()).or_default().push(record);
    }
    let mut elected = Elected::default();
    for (key, mut versions) in by_key {
        versions.sort_by_cached_key(|record| rank(record));
        let Some(last) = versions.pop() else { continue };
        versions.sort_by_key(|record| record.hash);
        match key {
            Key::Span(..) => elected.spans.push(Versions { elected: last, others: versions }),
            Key::Log(..) => elected.logs.push(last),
            Key::Checkpoint(..) => elected.checkpoints.push(Versions { elected: last, others: versions }),
        }
    }
    elected
}

/// One record a hash: the one that was received first.
fn distinct(records: &[Arc<Record>]) -> impl Iterator<Item = Arc<Record>> {
    let mut by_hash: HashMap<RecordHash, &Arc<Record>> = HashMap::with_capacity(records.len());
    for record in records {
        match by_hash.entry(record.hash) {
            Entry::Vacant(entry) => {
                let _ = entry.insert(record);
            }
            Entry::Occupied(mut entry) => {
                if (record.received_at, record.seq) < (entry.get().received_at, entry.get().seq) {
                    let _ = entry.insert(record);
                }
            }
        }
    }
    by_hash.into_values().cloned()
}

/// The greatest wins: has an end, end time, number of attributes, hash.
fn rank(record: &Record) -> (bool, u64, usize, RecordHash) {
    match &record.body {
        Body::Span(span) => {
            (span.end_time_unix_nano != 0, span.end_time_unix_nano, span.attributes.len(), record.hash)
        }
        Body::Log(log) => (true, log.time_unix_nano, log.attributes.len(), record.hash),
        // A checkpoint has no clock of its own: the one with more to say wins, then the hash.
        Body::Checkpoint(checkpoint) => {
            let told = [
                checkpoint.state.is_some(),
                checkpoint.step_index.is_some(),
                checkpoint.parent_checkpoint_id.is_some(),
            ];
            (true, 0, told.iter().filter(|told| **told).count(), record.hash)
        }
    }
}
