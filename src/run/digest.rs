//! What a run was made from: record digest and receive times.

use std::collections::BTreeMap;

use super::elect::Receipt;
use crate::otlp::record::RecordHash;

/// Every record of a run once, with its least receive time.
#[derive(Debug, Default)]
pub(super) struct Receipts(BTreeMap<RecordHash, u64>);

impl Extend<Receipt> for Receipts {
    fn extend<I: IntoIterator<Item = Receipt>>(&mut self, receipts: I) {
        for Receipt { hash, received_at } in receipts {
            let least = self.0.entry(hash).or_insert(received_at);
            *least = received_at.min(*least);
        }
    }
}

impl Receipts {
    /// BLAKE3 over the sorted record hashes: equal digests are equal records.
    pub(super) fn digest(&self) -> RecordHash {
        let mut hasher = blake3::Hasher::new();
        for hash in self.0.keys() {
            let _ = hasher.update(&hash.0);
        }
        RecordHash(*hasher.finalize().as_bytes())
    }

    /// Least and greatest receive time, nanoseconds since the Unix epoch.
    pub(super) fn span(&self) -> (u64, u64) {
        let times = || self.0.values().copied();
        (times().min().unwrap_or(0), times().max().unwrap_or(0))
    }
}
