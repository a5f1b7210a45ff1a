//! Real telemetry, received in another order, split and repeated.

use std::{fs, path::Path, sync::Arc};

use super::super::{Settled, assemble, join_keys};
use crate::otlp::{fixtures::capture, record::Record};

/// A shuffle that is the same every time.
fn shuffled(records: &[Arc<Record>], seed: u64) -> Vec<Arc<Record>> {
    let mut keyed: Vec<_> = records
        .iter()
        .enumerate()
        .map(|(n, record)| {
            let mut hasher = blake3::Hasher::new();
            let _ = hasher.update(&seed.to_le_bytes()).update(&n.to_le_bytes());
            (*hasher.finalize().as_bytes(), record)
        })
        .collect();
    keyed.sort_by_key(|(key, _)| *key);
    keyed.into_iter().map(|(_, record)| Arc::clone(record)).collect()
}

#[test]
fn captures_do_not_depend_on_the_order_they_come_in() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures");
    for entry in fs::read_dir(root).unwrap() {
        let folder = entry.unwrap().path();
        let records = if folder.is_dir() { capture(&folder) } else { continue };
        let runs = assemble(&records, Settled::All);
        for seed in 0..2 {
            let mut mixed = shuffled(&records, seed);
            let repeated: Vec<_> = mixed.iter().step_by(3).cloned().collect();
            mixed.extend(repeated);
            assert!(runs == assemble(&mixed, Settled::All), "{} depends on order", folder.display());
        }
        let keys = join_keys(&records);
        for run in &runs {
            assert!(run.join_keys.iter().all(|key| keys.contains(key)), "{} lacks a key", folder.display());
            assert!(run.steps.iter().zip(0..).all(|(step, index)| step.index == index));
        }
    }
}
