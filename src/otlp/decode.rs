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
