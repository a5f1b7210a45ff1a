//! Protobuf of any kind: refused, or admitted, and then it decodes and is assembled twice alike.

#![no_main]

use std::sync::Arc;

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use spanreel::{
    config::otlp::Settings,
    otlp::{Signal, decode, scan},
    run::{self, Settled},
    tenant::TenantId,
};

fuzz_target!(|bytes: &[u8]| {
    let limits = scan::Limits::from(&Settings::default());
    for signal in [Signal::Traces, Signal::Logs] {
        let admitted = scan::admit(signal, Bytes::copy_from_slice(bytes), &limits, &TenantId::embedded());
        let Ok((kept, counts)) = admitted else { continue };
        let records = decode::records(signal, &kept, 1, 0).expect("what is admitted decodes");
        assert_eq!(records.len() as u64, counts.kept());
        let records: Vec<_> = records.into_iter().map(Arc::new).collect();
        let reversed: Vec<_> = records.iter().rev().cloned().collect();
        assert!(run::assemble(&records, Settled::All) == run::assemble(&reversed, Settled::All));
    }
});
