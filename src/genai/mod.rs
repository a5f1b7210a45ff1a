//! Span -> meaning. Pure functions, no I/O (design section 3).

pub mod message;
pub mod operation;

use crate::otlp::record::Record;
use operation::Operation;

/// What a span means, with the log records that carry its trace and span id.
///
/// The logs may come in any order; the result does not depend on it. Never panics; what is odd is in `issues`.
pub fn normalize_span(span: &Record, logs: &[&Record]) -> Operation {
    let _ = (span, logs);
    Operation::default()
}

/// The operation that a log record is by itself (coding agents that send only logs), or `None`.
pub fn normalize_log(log: &Record) -> Option<Operation> {
    let _ = log;
    None
}

/// True when the log record carries GenAI content and must be stored: a message event, operation details, an agent's event.
pub fn claims_log(log: &Record) -> bool {
    let _ = log;
    false
}
