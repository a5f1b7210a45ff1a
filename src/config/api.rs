//! Settings of `api`.

use serde::{Deserialize, Serialize};

/// The API: bodies of requests, and its connections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Largest body, in bytes; a larger one is answered 413.
    pub body_bytes_max: usize,
    /// How long a body may take to arrive; a slower one is answered 408 and its connection closed.
    pub body_timeout_s: u64,
    /// How long a connection to the API may be idle, or take for the head of a request. An agent under simulation may
    /// think for minutes between two calls.
    pub idle_timeout_s: u64,
}

impl Settings {
    /// The settings of a listener for the API, where those of the receiver are `receiver`.
    pub fn listener(&self, receiver: super::otlp::Settings) -> super::otlp::Settings {
        let idle = self.idle_timeout_s;
        super::otlp::Settings { header_timeout_s: idle, idle_timeout_s: idle, ..receiver }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self { body_bytes_max: 16 << 20, body_timeout_s: 30, idle_timeout_s: 600 }
    }
}
