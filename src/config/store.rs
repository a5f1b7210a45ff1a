//! Settings of `store`.

use serde::{Deserialize, Serialize};

/// The tables: when they are written, and how much memory stands before them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// A tenant's records are written to the tables when they take this much memory.
    pub flush_bytes: usize,
    /// A tenant's records are written to the tables when the oldest has waited this long.
    pub flush_age_max_s: u64,
    /// Memory that records of all tenants may take before the log is held back.
    pub hot_bytes_max: usize,
    /// A trace whose root has ended is settled when nothing arrived for this long.
    pub settle_after_s: u64,
    /// A trace without an ended root is settled when nothing arrived for this long.
    pub idle_after_s: u64,
    /// Replaced data files stay this long for readers that still use them.
    pub file_keep_s: u64,
    /// A data file of fewer bytes is small.
    pub small_file_bytes: u64,
    /// So many small files of a table are joined into one.
    pub small_files_max: usize,
    /// Content of the files that are joined at once, uncompressed; a join holds a small multiple of it in memory.
    pub join_bytes_max: u64,
    /// How long a stop may go on to derive runs after all records are in the tables; the next start derives the rest.
    pub stop_timeout_s: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            flush_bytes: 32 << 20,
            flush_age_max_s: 60,
            hot_bytes_max: 512 << 20,
            settle_after_s: 5,
            idle_after_s: 300,
            file_keep_s: 3600,
            small_file_bytes: 1 << 20,
            small_files_max: 16,
            join_bytes_max: 64 << 20,
            stop_timeout_s: 10,
        }
    }
}
