//! Compressed bodies of any kind: never more than the limit.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use spanreel::otlp::inflate::{Encoding, inflate};

const BYTES_MAX: usize = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    for encoding in [Encoding::Gzip, Encoding::Zstd] {
        if let Ok(plain) = inflate(encoding, Bytes::copy_from_slice(bytes), BYTES_MAX, |_| Ok(())) {
            assert!(plain.len() <= BYTES_MAX);
        }
    }
});
