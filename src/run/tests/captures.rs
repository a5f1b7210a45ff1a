//! Real telemetry, received in another order, split and repeated.

use std::{fs, path::Path, sync::Arc};

use opentelemetry_proto::tonic::{
    collector::{logs::v1::ExportLogsServiceRequest, trace::v1::ExportTraceServiceRequest},
    common::v1::InstrumentationScope,
    resource::v1::Resource,
};
use prost::Message;

use super::super::{Settled, assemble, join_keys};
use crate::otlp::record::{Body, Origin, Record};

fn origin(resource: Option<Resource>, scope: Option<InstrumentationScope>) -> Arc<Origin> {
    Arc::new(Origin { resource: resource.unwrap_or_default().into(), scope, ..Origin::default() })
}

/// The records of the protobuf files of a scenario.
fn records(folder: &Path) -> Vec<Arc<Record>> {
    let mut records = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let mut take =
            |body, origin: &Arc<Origin>| records.push(Arc::new(Record::new(body, Arc::clone(origin), 1, 0)));
        if name.ends_with(".traces.pb") {
            let request = ExportTraceServiceRequest::decode(&*fs::read(&path).unwrap()).unwrap();
            for under in request.resource_spans {
                for scope in under.scope_spans {
                    let origin = origin(under.resource.clone(), scope.scope);
                    scope.spans.into_iter().for_each(|span| take(Body::Span(span), &origin));
                }
            }
        } else if name.ends_with(".logs.pb") {
            let request = ExportLogsServiceRequest::decode(&*fs::read(&path).unwrap()).unwrap();
            for under in request.resource_logs {
                for scope in under.scope_logs {
                    let origin = origin(under.resource.clone(), scope.scope);
                    scope.log_records.into_iter().for_each(|log| take(Body::Log(log), &origin));
                }
            }
        }
    }
    records
}

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
        let records = if folder.is_dir() { records(&folder) } else { continue };
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
