//! Records -> OTLP/JSON again, as they were received.

use std::sync::Arc;

use opentelemetry_proto::tonic::{
    collector::{logs::v1::ExportLogsServiceRequest, trace::v1::ExportTraceServiceRequest},
    logs::v1::{ResourceLogs, ScopeLogs},
    resource::v1::Resource,
    trace::v1::{ResourceSpans, ScopeSpans},
};
use serde_json::{Map, Value};

use crate::otlp::{
    json,
    record::{Body, Record},
};

/// Records on one line of an export, so that a reader need not hold a large export whole.
const RECORDS_PER_LINE: usize = 1000;

/// One OTLP/JSON object: `resourceSpans`, and `resourceLogs` when there are logs.
pub fn object(records: &[Arc<Record>]) -> Value {
    let (traces, logs) = requests(records);
    let mut object = Map::new();
    for value in
        [Some(json::encode_traces(&traces)), logs.as_ref().map(json::encode_logs)].into_iter().flatten()
    {
        if let Value::Object(members) = value {
            object.extend(members);
        }
    }
    Value::Object(object)
}

/// One OTLP/JSON request a line, spans and logs apart; empty when there is neither.
pub fn lines(records: &[Arc<Record>]) -> String {
    let mut text = String::new();
    for chunk in records.chunks(RECORDS_PER_LINE) {
        let (traces, logs) = requests(chunk);
        let traces = (!traces.resource_spans.is_empty()).then(|| json::encode_traces(&traces));
        for request in [traces, logs.as_ref().map(json::encode_logs)].into_iter().flatten() {
            text.push_str(&request.to_string());
            text.push('\n');
        }
    }
    text
}

/// Export requests that hold these records in their order; neighbours of one origin share its entry. Checkpoints are
/// not OTLP and left out.
fn requests(records: &[Arc<Record>]) -> (ExportTraceServiceRequest, Option<ExportLogsServiceRequest>) {
    let mut traces = ExportTraceServiceRequest::default();
    let mut logs = ExportLogsServiceRequest::default();
    let (mut span_origin, mut log_origin) = (None, None);
    for record in records {
        let origin = &record.origin;
        match &record.body {
            Body::Span(span) => {
                if span_origin != Some(origin) {
                    span_origin = Some(origin);
                    traces.resource_spans.push(ResourceSpans {
                        resource: Some(Resource::clone(&origin.resource)),
                        schema_url: origin.resource_schema_url.clone(),
                        scope_spans: vec![ScopeSpans {
                            scope: origin.scope.clone(),
                            schema_url: origin.scope_schema_url.clone(),
                            spans: Vec::new(),
                        }],
                    });
                }
                let scope = traces.resource_spans.last_mut().and_then(|r| r.scope_spans.last_mut());
                if let Some(scope) = scope {
                    scope.spans.push(span.clone());
                }
            }
            Body::Log(log) => {
                if log_origin != Some(origin) {
                    log_origin = Some(origin);
                    logs.resource_logs.push(ResourceLogs {
                        resource: Some(Resource::clone(&origin.resource)),
                        schema_url: origin.resource_schema_url.clone(),
                        scope_logs: vec![ScopeLogs {
                            scope: origin.scope.clone(),
                            schema_url: origin.scope_schema_url.clone(),
                            log_records: Vec::new(),
                        }],
                    });
                }
                let scope = logs.resource_logs.last_mut().and_then(|r| r.scope_logs.last_mut());
                if let Some(scope) = scope {
                    scope.log_records.push(log.clone());
                }
            }
            Body::Checkpoint(_) => {}
        }
    }
    let logs = (!logs.resource_logs.is_empty()).then_some(logs);
    (traces, logs)
}
