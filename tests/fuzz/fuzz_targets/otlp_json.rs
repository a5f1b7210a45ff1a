//! OTLP/JSON of any kind: refused with an error, or taken as protobuf that decodes and that the scan admits.

#![no_main]

use libfuzzer_sys::fuzz_target;
use spanreel::{
    config::otlp::Settings,
    otlp::{Error, Signal, decode, json, scan},
    tenant::TenantId,
};

fuzz_target!(|text: &[u8]| {
    let limits = scan::Limits::from(&Settings::default());
    for signal in [Signal::Traces, Signal::Logs] {
        if let Ok((bytes, _)) = json::to_protobuf(signal, text, &limits) {
            match scan::admit(signal, bytes, &limits, &TenantId::embedded()) {
                Ok((kept, _)) => {
                    let _ = decode::records(signal, &kept, 1, 0).expect("what is admitted decodes");
                }
                // What JSON counted and took, the scan counts in the same way.
                Err(error) => assert!(matches!(error, Error::TooLarge { limit, .. } if limit == "otlp.request_bytes_max"), "{error}"),
            }
        }
    }
});
