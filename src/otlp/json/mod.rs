//! The OTLP/JSON mapping, both ways. JSON requests become protobuf before anything else sees them.
//!
//! Reading is tolerant where the specification is: ids are hex in either case, 64-bit integers are strings or numbers,
//! enums are integers, `null` is absent, unknown fields are ignored, `snake_case` keys are aliases, the last of
//! repeated keys wins. It refuses what would be stored wrongly: base64 ids, enum names, trailing text.

mod encode;
mod message;
mod scalar;

use bytes::Bytes;
use opentelemetry_proto::tonic::{
    collector::{logs::v1::ExportLogsServiceRequest, trace::v1::ExportTraceServiceRequest},
    common::v1::KeyValue,
    logs::v1::LogRecord,
    trace::v1::{
        Span,
        span::{Event, Link},
    },
};
use prost::Message;

use super::{Error, Signal, scan::Limits};
pub use encode::{encode_logs, encode_traces};

/// Reads a JSON request and writes it as protobuf; of metrics only the number of data points is kept.
///
/// # Errors
/// [`Error::Invalid`] with line and column; [`Error::TooLarge`] over a count, before more is built.
pub fn to_protobuf(signal: Signal, json: &[u8], limits: &Limits) -> Result<(Bytes, u64), Error> {
    let bytes = match signal {
        Signal::Traces => decode_traces(json, limits)?.encode_to_vec(),
        Signal::Logs => decode_logs(json, limits)?.encode_to_vec(),
        Signal::Metrics => return Ok((Bytes::new(), message::metric_points(json).map_err(invalid)?)),
    };
    Ok((bytes.into(), 0))
}

/// What reading so many bytes of JSON may take at once: the text, the structs made of it, their strings, and the
/// protobuf. The shortest message is `{},`, and far larger in memory; how many there may be, the counts limit.
pub fn memory_bytes(json_bytes: usize, limits: &Limits) -> usize {
    let most = |count: usize, bytes: usize| count.min(json_bytes / 3).saturating_mul(bytes);
    let structs = most(limits.attributes_max, size_of::<KeyValue>())
        .saturating_add(most(limits.spans_max, size_of::<Span>().max(size_of::<LogRecord>())))
        .saturating_add(most(limits.events_max, size_of::<Event>().max(size_of::<Link>())));
    json_bytes.saturating_mul(3).saturating_add(structs)
}

/// Reads an `ExportTraceServiceRequest`.
///
/// # Errors
/// As [`to_protobuf`].
pub fn decode_traces(json: &[u8], limits: &Limits) -> Result<ExportTraceServiceRequest, Error> {
    message::decode::<message::Traces>(json, limits).map(|m| m.0)
}

/// Reads an `ExportLogsServiceRequest`.
///
/// # Errors
/// As [`to_protobuf`].
pub fn decode_logs(json: &[u8], limits: &Limits) -> Result<ExportLogsServiceRequest, Error> {
    message::decode::<message::Logs>(json, limits).map(|m| m.0)
}

fn invalid(error: serde_json::Error) -> Error {
    Error::Invalid(error.to_string())
}

#[cfg(test)]
mod tests;
