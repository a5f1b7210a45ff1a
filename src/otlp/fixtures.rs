//! What tests write by hand: values and attributes from JSON.

use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, KeyValue, KeyValueList, any_value::Value as Any,
};
use serde_json::Value;

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
