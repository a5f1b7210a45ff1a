//! Protobuf bytes -> records. Runs behind the log, on bytes that the scan has admitted.

use std::sync::Arc;

use opentelemetry_proto::tonic::collector::{
    logs::v1::ExportLogsServiceRequest, trace::v1::ExportTraceServiceRequest,
};
use prost::Message;

use super::{
    Signal,
    record::{Body, Origin, Record, Seed},
};

/// The records of an export request, in the order in which they stand; none for metrics.
///
/// # Errors
/// When the bytes are not an export request of `signal`. Bytes that [`super::scan::admit`] let through always are.
pub fn records(
    signal: Signal,
    bytes: &[u8],
    received_at: u64,
    seq: u64,
) -> Result<Vec<Record>, prost::DecodeError> {
    let mut records = Vec::new();
    match signal {
        Signal::Traces => {
            for resource in ExportTraceServiceRequest::decode(bytes)?.resource_spans {
                let attributes = Arc::new(resource.resource.unwrap_or_default());
                for scope in resource.scope_spans {
                    let origin = Arc::new(Origin {
                        resource: attributes.clone(),
                        resource_schema_url: resource.schema_url.clone(),
                        scope: scope.scope,
                        scope_schema_url: scope.schema_url,
                    });
                    let seed = Seed::of(&origin);
                    let share = share(&origin, scope.spans.len());
                    let record = |span| Record {
                        share,
                        ..Record::seeded(Body::Span(span), origin.clone(), &seed, received_at, seq)
                    };
                    records.extend(scope.spans.into_iter().map(record));
                }
            }
        }
        Signal::Logs => {
            for resource in ExportLogsServiceRequest::decode(bytes)?.resource_logs {
                let attributes = Arc::new(resource.resource.unwrap_or_default());
                for scope in resource.scope_logs {
                    let origin = Arc::new(Origin {
                        resource: attributes.clone(),
                        resource_schema_url: resource.schema_url.clone(),
                        scope: scope.scope,
                        scope_schema_url: scope.schema_url,
                    });
                    let seed = Seed::of(&origin);
                    let share = share(&origin, scope.log_records.len());
                    let record = |log| Record {
                        share,
                        ..Record::seeded(Body::Log(log), origin.clone(), &seed, received_at, seq)
                    };
                    records.extend(scope.log_records.into_iter().map(record));
                }
            }
        }
        Signal::Metrics => {}
    }
    Ok(records)
}

/// What each of so many records carries of their origin. Scopes of one resource share it in memory; each is charged
/// with it, since each of its rows will hold it.
fn share(origin: &Origin, records: usize) -> usize {
    let scope = origin.scope.as_ref().map_or(0, Message::encoded_len);
    (origin.resource.encoded_len() + scope).div_ceil(records.max(1))
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::{
        logs::v1::{LogRecord, ResourceLogs, ScopeLogs},
        resource::v1::Resource,
        trace::v1::{ResourceSpans, ScopeSpans, Span},
    };
    use serde_json::json;

    use super::*;
    use crate::otlp::fixtures::attributes_of;

    /// Scenario: a large resource with two spans, and with two log records.
    /// Guarantee: each record is charged with half of it.
    #[test]
    fn a_record_is_not_charged_for_its_resource() {
        let attributes = attributes_of(&json!({"text": "x".repeat(10_000)}));
        let resource = Some(Resource { attributes, ..Resource::default() });
        let spans = ScopeSpans { spans: vec![Span::default(); 2], ..ScopeSpans::default() };
        let spans = ResourceSpans {
            resource: resource.clone(),
            scope_spans: vec![spans],
            ..ResourceSpans::default()
        };
        let logs = ScopeLogs { log_records: vec![LogRecord::default(); 2], ..ScopeLogs::default() };
        let logs = ResourceLogs { resource, scope_logs: vec![logs], ..ResourceLogs::default() };
        let requests = [
            (Signal::Traces, ExportTraceServiceRequest { resource_spans: vec![spans] }.encode_to_vec()),
            (Signal::Logs, ExportLogsServiceRequest { resource_logs: vec![logs] }.encode_to_vec()),
        ];
        for (signal, bytes) in requests {
            let shares: Vec<_> = records(signal, &bytes, 0, 0).unwrap().iter().map(|r| r.share).collect();
            assert!(shares.len() == 2 && shares.iter().all(|s| (5_000..6_000).contains(s)), "{shares:?}");
        }
    }
}
