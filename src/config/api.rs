//! Settings of `api`.

use serde::{Deserialize, Serialize};

/// Requests to the API that carry a body: checkpoints and queries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Largest body, in bytes; a larger one is answered 413.
    pub body_bytes_max: usize,
    /// How long a body may take to arrive; a slower one is answered 408 and its connection closed.
    pub body_timeout_s: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { body_bytes_max: 16 << 20, body_timeout_s: 30 }
    }
}
