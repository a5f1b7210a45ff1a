//! Settings of `simulation`.

use serde::{Deserialize, Serialize};

/// Simulated replay: sessions that answer an agent's calls from the record of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// How long a session answers after it was made.
    pub session_ttl_s: u64,
    /// Sessions that are open at once; one more is refused with 429.
    pub sessions_max: usize,
    /// Largest call of an agent, in bytes; a larger one is answered 413.
    pub body_bytes_max: usize,
    /// How long a call may take to arrive.
    pub body_timeout_s: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { session_ttl_s: 3600, sessions_max: 1000, body_bytes_max: 64 << 20, body_timeout_s: 60 }
    }
}
