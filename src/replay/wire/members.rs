//! Members of requests, by the names that clients give them.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::genai::{
    message::{Message, Part},
    parse,
};

/// The first of `names` that says something.
pub(super) fn member<'a>(value: &'a Value, names: &[&str]) -> Option<&'a Value> {
    names.iter().find_map(|name| value.get(*name).filter(|found| !found.is_null()))
}

/// As [`member`], for text.
pub(super) fn text<'a>(value: &'a Value, names: &[&str]) -> Option<&'a str> {
    member(value, names).and_then(Value::as_str)
}

/// As [`member`], for lists; empty when there is none.
pub(super) fn list<'a>(value: &'a Value, names: &[&str]) -> &'a [Value] {
    member(value, names).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The messages of a request, read as those of telemetry are.
pub(super) fn messages(value: &Value) -> Vec<Message> {
    let read = parse::messages(value, "user", &mut Vec::new());
    read.value.into_iter().map(Arc::unwrap_or_clone).collect()
}

/// The system instructions of a request: a message without a role, or the content of one.
pub(super) fn system(value: Option<&Value>) -> Vec<Part> {
    let Some(value) = value else { return Vec::new() };
    let key = if value.get("parts").is_some() { "parts" } else { "content" };
    let content = value.get("parts").unwrap_or(value);
    messages(&json!([{"role": "system", key: content}])).into_iter().flat_map(|m| m.parts).collect()
}
