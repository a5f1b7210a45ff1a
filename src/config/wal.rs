//! Settings of `wal`.

use serde::{Deserialize, Serialize};

/// The write-ahead log: how much it may hold, and when it starts a new segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// A segment is closed when it has grown past this, or past a quarter of `disk_bytes_max`.
    pub segment_bytes: u64,
    /// Bytes that may wait for the disk, and behind it for the hot set; beyond it requests are refused with retry advice.
    pub queue_bytes_max: usize,
    /// Bytes of segments on disk; beyond it requests are refused with retry advice.
    pub disk_bytes_max: u64,
    /// Bytes that the log leaves free on its disk, for flushing and marks; below it requests are refused with retry
    /// advice.
    pub free_bytes_min: u64,
    /// One frame may not be larger than this; never more than 4 GiB.
    pub frame_bytes_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            segment_bytes: 128 << 20,
            queue_bytes_max: 256 << 20,
            disk_bytes_max: 16 << 30,
            free_bytes_min: 64 << 20,
            frame_bytes_max: 256 << 20,
        }
    }
}
