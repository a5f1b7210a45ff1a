//! The messages of OTLP -> JSON, as the specification writes it: hex ids, 64-bit integers as strings, enums as
//! integers. Absent and default fields are left out, but for a key without a value and an empty value.

use base64::{Engine, engine::general_purpose::STANDARD};
use opentelemetry_proto::tonic::{
    collector::{logs::v1::ExportLogsServiceRequest, trace::v1::ExportTraceServiceRequest},
    common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value::Value as Any},
    logs::v1::LogRecord,
    resource::v1::Resource,
    trace::v1::{Span, Status, span},
};
use serde_json::{Map, Value, json};

/// `{"resourceSpans": [...]}`.
pub fn encode_traces(request: &ExportTraceServiceRequest) -> Value {
    let resources = request.resource_spans.iter().map(|entry| {
        let scopes = entry.scope_spans.iter().map(|s| {
            let mut object = scope_entry(s.scope.as_ref(), &s.schema_url);
            list(&mut object, "spans", s.spans.iter().map(span));
            Value::Object(object)
        });
        resource_entry(entry.resource.as_ref(), &entry.schema_url, "scopeSpans", scopes)
    });
    json!({"resourceSpans": resources.collect::<Vec<_>>()})
}

/// `{"resourceLogs": [...]}`.
pub fn encode_logs(request: &ExportLogsServiceRequest) -> Value {
    let resources = request.resource_logs.iter().map(|entry| {
        let scopes = entry.scope_logs.iter().map(|s| {
            let mut object = scope_entry(s.scope.as_ref(), &s.schema_url);
            list(&mut object, "logRecords", s.log_records.iter().map(log));
            Value::Object(object)
        });
        resource_entry(entry.resource.as_ref(), &entry.schema_url, "scopeLogs", scopes)
    });
    json!({"resourceLogs": resources.collect::<Vec<_>>()})
}

fn resource_entry(
    resource: Option<&Resource>,
    schema_url: &str,
    key: &'static str,
    scopes: impl Iterator<Item = Value>,
) -> Value {
    let mut object = Map::new();
    if let Some(resource) = resource {
        let mut inner = Map::new();
        attributes(&mut inner, &resource.attributes, resource.dropped_attributes_count);
        let entities = resource.entity_refs.iter().map(|e| {
            json!({"schemaUrl": e.schema_url, "type": e.r#type, "idKeys": e.id_keys, "descriptionKeys": e.description_keys})
        });
        list(&mut inner, "entityRefs", entities);
        let _ = object.insert("resource".into(), Value::Object(inner));
    }
    list(&mut object, key, scopes);
    text(&mut object, "schemaUrl", schema_url);
    Value::Object(object)
}

fn scope_entry(scope: Option<&InstrumentationScope>, schema_url: &str) -> Map<String, Value> {
    let mut object = Map::new();
    if let Some(scope) = scope {
        let mut inner = Map::new();
        text(&mut inner, "name", &scope.name);
        text(&mut inner, "version", &scope.version);
        attributes(&mut inner, &scope.attributes, scope.dropped_attributes_count);
        let _ = object.insert("scope".into(), Value::Object(inner));
    }
    text(&mut object, "schemaUrl", schema_url);
    object
}

fn span(s: &Span) -> Value {
    let mut object = Map::new();
    id(&mut object, "traceId", &s.trace_id);
    id(&mut object, "spanId", &s.span_id);
    text(&mut object, "traceState", &s.trace_state);
    id(&mut object, "parentSpanId", &s.parent_span_id);
    number(&mut object, "flags", s.flags);
    text(&mut object, "name", &s.name);
    if s.kind != 0 {
        let _ = object.insert("kind".into(), s.kind.into());
    }
    nanos(&mut object, "startTimeUnixNano", s.start_time_unix_nano);
    nanos(&mut object, "endTimeUnixNano", s.end_time_unix_nano);
    attributes(&mut object, &s.attributes, s.dropped_attributes_count);
    list(&mut object, "events", s.events.iter().map(event));
    number(&mut object, "droppedEventsCount", s.dropped_events_count);
    list(&mut object, "links", s.links.iter().map(link));
    number(&mut object, "droppedLinksCount", s.dropped_links_count);
    if let Some(Status { message, code }) = &s.status {
        let mut inner = Map::new();
        text(&mut inner, "message", message);
        if *code != 0 {
            let _ = inner.insert("code".into(), (*code).into());
        }
        let _ = object.insert("status".into(), Value::Object(inner));
    }
    Value::Object(object)
}

fn event(e: &span::Event) -> Value {
    let mut object = Map::new();
    nanos(&mut object, "timeUnixNano", e.time_unix_nano);
    text(&mut object, "name", &e.name);
    attributes(&mut object, &e.attributes, e.dropped_attributes_count);
    Value::Object(object)
}

fn link(l: &span::Link) -> Value {
    let mut object = Map::new();
    id(&mut object, "traceId", &l.trace_id);
    id(&mut object, "spanId", &l.span_id);
    text(&mut object, "traceState", &l.trace_state);
    attributes(&mut object, &l.attributes, l.dropped_attributes_count);
    number(&mut object, "flags", l.flags);
    Value::Object(object)
}

fn log(l: &LogRecord) -> Value {
    let mut object = Map::new();
    nanos(&mut object, "timeUnixNano", l.time_unix_nano);
    nanos(&mut object, "observedTimeUnixNano", l.observed_time_unix_nano);
    if l.severity_number != 0 {
        let _ = object.insert("severityNumber".into(), l.severity_number.into());
    }
    text(&mut object, "severityText", &l.severity_text);
    if let Some(body) = &l.body {
        let _ = object.insert("body".into(), any(body));
    }
    attributes(&mut object, &l.attributes, l.dropped_attributes_count);
    number(&mut object, "flags", l.flags);
    id(&mut object, "traceId", &l.trace_id);
    id(&mut object, "spanId", &l.span_id);
    text(&mut object, "eventName", &l.event_name);
    Value::Object(object)
}

fn attributes(object: &mut Map<String, Value>, pairs: &[KeyValue], dropped: u32) {
    list(object, "attributes", pairs.iter().map(pair));
    number(object, "droppedAttributesCount", dropped);
}

fn pair(pair: &KeyValue) -> Value {
    match &pair.value {
        Some(value) => json!({"key": pair.key, "value": any(value)}),
        None => json!({"key": pair.key}),
    }
}

fn any(value: &AnyValue) -> Value {
    match &value.value {
        None | Some(Any::StringValueStrindex(_)) => json!({}),
        Some(Any::StringValue(text)) => json!({"stringValue": text}),
        Some(Any::BoolValue(flag)) => json!({"boolValue": flag}),
        Some(Any::IntValue(number)) => json!({"intValue": number.to_string()}),
        Some(Any::DoubleValue(number)) if number.is_finite() => json!({"doubleValue": number}),
        Some(Any::DoubleValue(number)) if number.is_nan() => json!({"doubleValue": "NaN"}),
        Some(Any::DoubleValue(number)) => {
            json!({"doubleValue": if *number > 0.0 { "Infinity" } else { "-Infinity" }})
        }
        Some(Any::BytesValue(bytes)) => json!({"bytesValue": STANDARD.encode(bytes)}),
        Some(Any::ArrayValue(array)) => {
            json!({"arrayValue": {"values": array.values.iter().map(any).collect::<Vec<_>>()}})
        }
        Some(Any::KvlistValue(list)) => {
            json!({"kvlistValue": {"values": list.values.iter().map(pair).collect::<Vec<_>>()}})
        }
    }
}

fn list(object: &mut Map<String, Value>, key: &str, items: impl Iterator<Item = Value>) {
    let items: Vec<Value> = items.collect();
    if !items.is_empty() {
        let _ = object.insert(key.into(), Value::Array(items));
    }
}

fn text(object: &mut Map<String, Value>, key: &str, value: &str) {
    if !value.is_empty() {
        let _ = object.insert(key.into(), value.into());
    }
}

fn id(object: &mut Map<String, Value>, key: &str, bytes: &[u8]) {
    text(object, key, &hex::encode(bytes));
}

fn number(object: &mut Map<String, Value>, key: &str, value: u32) {
    if value != 0 {
        let _ = object.insert(key.into(), value.into());
    }
}

fn nanos(object: &mut Map<String, Value>, key: &str, value: u64) {
    if value != 0 {
        text(object, key, &value.to_string());
    }
}
