//! Settings of `otlp`.

use serde::{Deserialize, Serialize};

/// The greatest `request_bytes_max`. A text grows up to tenfold as JSON, and a column of a table takes 2 GiB of one row.
pub const REQUEST_BYTES_CEILING: usize = 128 << 20;

/// The receiver: limits and timeouts. A request over a limit is refused whole, with the limit in the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Bytes of one request, after decompression too; at most 134217728.
    pub request_bytes_max: usize,
    /// Spans or log records in one request.
    pub spans_max: usize,
    /// Attributes in one request, those of resources, scopes, events and links included.
    pub attributes_max: usize,
    /// Events and links in one request.
    pub events_max: usize,
    /// Memory that requests under way may take; beyond it they are refused with retry advice.
    pub memory_bytes_max: usize,
    /// Requests that are worked on; beyond it they are refused with retry advice. Those that are still on the way do
    /// not count.
    pub requests_max: usize,
    /// Open connections a listener; beyond it the one that is longest without an answer makes room for a new one.
    pub connections_max: usize,
    /// A connection must send its request's headers, and answer a ping of HTTP/2, within this many seconds.
    pub header_timeout_s: u64,
    /// A connection without a request under way is closed after this many seconds.
    pub idle_timeout_s: u64,
    /// A request's body must arrive within this many seconds.
    pub body_timeout_s: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            request_bytes_max: 64 << 20,
            spans_max: 65_536,
            attributes_max: 1_048_576,
            events_max: 262_144,
            memory_bytes_max: 1 << 30,
            requests_max: 256,
            connections_max: 4096,
            header_timeout_s: 10,
            idle_timeout_s: 60,
            body_timeout_s: 30,
        }
    }
}
