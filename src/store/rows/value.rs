//! OTLP values as natural JSON text, and back without loss.
//!
//! What JSON cannot say is an object with one member that starts with `$`: `$bytes` (base64), `$double` (`NaN`, `inf`,
//! `-inf`), `$kv` (an object with repeated, odd or `$` keys, as pairs), `$unset` (a key without a value), `$strindex`.

use base64::{Engine, engine::general_purpose::STANDARD};
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, KeyValue, KeyValueList, any_value::Value as Any,
};
use serde_json::{Map, Value, json};

/// The JSON of a value.
pub fn to_json(value: Option<&AnyValue>) -> Value {
    let Some(value) = value else { return json!({"$unset": true}) };
    match &value.value {
        None => Value::Null,
        Some(Any::StringValue(text)) => Value::String(text.clone()),
        Some(Any::BoolValue(flag)) => Value::Bool(*flag),
        Some(Any::IntValue(number)) => json!(number),
        Some(Any::DoubleValue(number)) => match serde_json::Number::from_f64(*number) {
            Some(number) => Value::Number(number),
            // The bits, since there is more than one NaN.
            None => json!({"$double": number.to_string(), "$bits": format!("{:016x}", number.to_bits())}),
        },
        Some(Any::ArrayValue(array)) => array.values.iter().map(|v| to_json(Some(v))).collect(),
        Some(Any::KvlistValue(list)) => object(&list.values),
        Some(Any::BytesValue(bytes)) => json!({"$bytes": STANDARD.encode(bytes)}),
        Some(Any::StringValueStrindex(index)) => json!({"$strindex": index}),
    }
}

/// The value of `json`, or `None` for a key that had none.
pub fn from_json(json: &Value) -> Option<AnyValue> {
    let value = match json {
        Value::Null => None,
        Value::Bool(flag) => Some(Any::BoolValue(*flag)),
        Value::Number(number) => Some(match number.as_i64() {
            Some(number) => Any::IntValue(number),
            None => Any::DoubleValue(number.as_f64().unwrap_or_default()),
        }),
        Value::String(text) => Some(Any::StringValue(text.clone())),
        Value::Array(values) => Some(Any::ArrayValue(ArrayValue {
            values: values.iter().map(|v| from_json(v).unwrap_or_default()).collect(),
        })),
        Value::Object(members) => Some(if members.contains_key("$unset") {
            return None;
        } else if let Some(bytes) = members.get("$bytes").and_then(Value::as_str) {
            Any::BytesValue(STANDARD.decode(bytes).unwrap_or_default())
        } else if let Some(bits) = members.get("$bits").and_then(Value::as_str) {
            Any::DoubleValue(f64::from_bits(u64::from_str_radix(bits, 16).unwrap_or_default()))
        } else if let Some(index) = members.get("$strindex").and_then(Value::as_i64) {
            Any::StringValueStrindex(i32::try_from(index).unwrap_or_default())
        } else {
            Any::KvlistValue(KeyValueList { values: attributes(json) })
        }),
    };
    Some(AnyValue { value })
}

/// A list of attributes as an object, or as `$kv` pairs when an object could not hold it.
pub fn object(list: &[KeyValue]) -> Value {
    let mut members = Map::new();
    for entry in list {
        if entry.key.starts_with('$') || entry.key_strindex != 0 || members.contains_key(&entry.key) {
            return json!({"$kv": pairs(list)});
        }
        let _ = members.insert(entry.key.clone(), to_json(entry.value.as_ref()));
    }
    Value::Object(members)
}

/// The attributes that [`object`] or [`pairs`] wrote.
pub fn attributes(json: &Value) -> Vec<KeyValue> {
    let pair = |entry: &Value| KeyValue {
        key: entry.get(0).and_then(Value::as_str).unwrap_or_default().to_owned(),
        value: entry.get(1).and_then(from_json),
        key_strindex: entry
            .get(2)
            .and_then(Value::as_i64)
            .and_then(|n| i32::try_from(n).ok())
            .unwrap_or_default(),
    };
    match json {
        Value::Array(entries) => entries.iter().map(pair).collect(),
        Value::Object(members) => match members.get("$kv") {
            Some(list) => attributes(list),
            None => members
                .iter()
                .map(|(key, value)| KeyValue { key: key.clone(), value: from_json(value), key_strindex: 0 })
                .collect(),
        },
        _ => Vec::new(),
    }
}

/// Attributes as `[key, value]` or `[key, value, key_strindex]`.
pub fn pairs(list: &[KeyValue]) -> Value {
    list.iter()
        .map(|entry| match entry.key_strindex {
            0 => json!([entry.key, to_json(entry.value.as_ref())]),
            index => json!([entry.key, to_json(entry.value.as_ref()), index]),
        })
        .collect()
}
