//! What tests are made of: values and attributes from JSON, and the records of a capture.

use std::{fs, path::Path, sync::Arc};

use opentelemetry_proto::tonic::{
    collector::{logs::v1::ExportLogsServiceRequest, trace::v1::ExportTraceServiceRequest},
    common::v1::{
        AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList, any_value::Value as Any,
    },
    resource::v1::Resource,
};
use prost::Message;
use serde_json::Value;

use super::record::{Body, Origin, Record};

/// Attributes from the members of an object; none from anything else.
pub(crate) fn attributes_of(members: &Value) -> Vec<KeyValue> {
    let of = |(key, value): (&String, &Value)| KeyValue {
        key: key.clone(),
        value: Some(any_value(value)),
        ..KeyValue::default()
    };
    members.as_object().into_iter().flatten().map(of).collect()
}

/// A value of the same shape; null is a value that is not set.
pub(crate) fn any_value(value: &Value) -> AnyValue {
    let value = match value {
        Value::Null => None,
        Value::Bool(b) => Some(Any::BoolValue(*b)),
        Value::Number(n) => n.as_i64().map(Any::IntValue).or_else(|| n.as_f64().map(Any::DoubleValue)),
        Value::String(s) => Some(Any::StringValue(s.clone())),
        Value::Array(items) => {
            Some(Any::ArrayValue(ArrayValue { values: items.iter().map(any_value).collect() }))
        }
        Value::Object(_) => Some(Any::KvlistValue(KeyValueList { values: attributes_of(value) })),
    };
    AnyValue { value }
}

fn origin(resource: Option<Resource>, scope: Option<InstrumentationScope>) -> Arc<Origin> {
    Arc::new(Origin { resource: resource.unwrap_or_default().into(), scope, ..Origin::default() })
}

/// The records of the protobuf files of a scenario.
pub(crate) fn capture(folder: &Path) -> Vec<Arc<Record>> {
    let mut records = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let mut take =
            |body, origin: &Arc<Origin>| records.push(Arc::new(Record::new(body, Arc::clone(origin), 1, 0)));
        if name.ends_with(".traces.pb") {
            let request = ExportTraceServiceRequest::decode(&*fs::read(&path).unwrap()).unwrap();
            for under in request.resource_spans {
                for scope in under.scope_spans {
                    let origin = origin(under.resource.clone(), scope.scope);
                    scope.spans.into_iter().for_each(|span| take(Body::Span(span), &origin));
                }
            }
        } else if name.ends_with(".logs.pb") {
            let request = ExportLogsServiceRequest::decode(&*fs::read(&path).unwrap()).unwrap();
            for under in request.resource_logs {
                for scope in under.scope_logs {
                    let origin = origin(under.resource.clone(), scope.scope);
                    scope.log_records.into_iter().for_each(|log| take(Body::Log(log), &origin));
                }
            }
        }
    }
    records
}
