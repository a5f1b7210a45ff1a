//! Settings of `sql`.

use serde::{Deserialize, Serialize};

/// Queries over the tables. They run on threads of their own, beside those that take telemetry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Memory of all queries that run at once, in bytes; a query that needs more fails.
    pub memory_bytes_max: usize,
    /// How long a query may run.
    pub query_timeout_s: u64,
    /// Rows of an answer in JSON; more are left out, and the answer says so.
    pub rows_max: usize,
    /// Bytes of an answer in memory; rows beyond are left out, and the answer says so.
    pub answer_bytes_max: usize,
    /// Threads that queries run on.
    pub threads: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            memory_bytes_max: 512 << 20,
            query_timeout_s: 30,
            rows_max: 10_000,
            answer_bytes_max: 64 << 20,
            threads: 2,
        }
    }
}
