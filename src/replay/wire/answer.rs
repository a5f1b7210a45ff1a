//! What an answer says, part by part, as every wire format needs it.

use serde_json::{Map, Value};

use crate::{
    genai::message::Part,
    replay::sim::call::{ModelAnswer, ModelCall},
};

/// A part of an answer that can be sent.
#[derive(Debug, PartialEq)]
pub(super) enum Said<'a> {
    /// Text; never empty.
    Text(&'a str),
    /// Reasoning. Its text is empty where the provider kept it: then `extra` may hold a signature.
    Reasoning { text: &'a str, extra: &'a Map<String, Value> },
    /// A tool is asked for.
    Call { id: String, name: &'a str, arguments: &'a Value },
    /// The model declines to answer.
    Refusal(&'a str),
    /// A part that a provider has in its own words, by its type.
    Other { kind: &'a str, block: &'a Map<String, Value> },
}

/// The parts of `answer` that say something, in order.
pub(super) fn said(answer: &ModelAnswer) -> Vec<Said<'_>> {
    answer.parts.iter().enumerate().filter_map(|(at, part)| said_by(answer, at, part)).collect()
}

fn said_by<'a>(answer: &ModelAnswer, at: usize, part: &'a Part) -> Option<Said<'a>> {
    Some(match part {
        Part::Text { content, .. } => Said::Text(content.as_deref().filter(|text| !text.is_empty())?),
        Part::Reasoning { content, extra } => {
            Said::Reasoning { text: content.as_deref().unwrap_or_default(), extra }
        }
        Part::ToolCall { id, name, arguments, .. } => Said::Call {
            id: id.clone().unwrap_or_else(|| format!("call_{}{at}", answer.id)),
            name,
            arguments: arguments.as_ref().unwrap_or(&Value::Null),
        },
        // An answer gives no results of tools that the program runs.
        Part::ToolCallResponse { .. } => return None,
        Part::Other(block) => match block.get("type")?.as_str()? {
            "refusal" => {
                let text = ["refusal", "content"].iter().find_map(|key| block.get(*key)?.as_str());
                Said::Refusal(text.filter(|text| !text.is_empty())?)
            }
            kind => Said::Other { kind, block },
        },
    })
}

/// Why the model stopped: as recorded, else as its parts tell.
pub(super) fn finish<'a>(answer: &'a ModelAnswer, said: &[Said]) -> &'a str {
    match answer.finish.as_str() {
        "" if has_call(said) => "tool_call",
        "" => "stop",
        finish => finish,
    }
}

/// True when a tool is asked for.
pub(super) fn has_call(said: &[Said]) -> bool {
    said.iter().any(|said| matches!(said, Said::Call { .. }))
}

/// The model that answers: as recorded, else the one that was asked.
pub(super) fn model<'a>(call: &'a ModelCall, answer: &'a ModelAnswer) -> &'a str {
    if answer.model.is_empty() { &call.model } else { &answer.model }
}

/// Arguments as JSON text. Text that is no JSON is what the model wrote, and stays.
pub(super) fn arguments_text(arguments: &Value) -> String {
    match arguments {
        Value::Null => "{}".to_owned(),
        Value::String(text) if text.is_empty() => "{}".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// True when `name` is a tool that takes text in place of JSON: offered without a schema, called with what is no JSON.
pub(super) fn is_custom(call: &ModelCall, name: &str, arguments: &Value) -> bool {
    let offered = call.tools.iter().find(|tool| tool.name == name);
    arguments.is_string() && offered.is_some_and(|tool| tool.parameters.is_null())
}

/// Sets a member of `object`.
pub(super) fn set(object: &mut Value, key: &str, value: impl Into<Value>) {
    if let Value::Object(members) = object {
        let _ = members.insert(key.to_owned(), value.into());
    }
}

/// The text under `key`; empty where there is none.
pub(super) fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The list under `key`, numbered.
pub(super) fn numbered<'a>(object: &'a Value, key: &str) -> impl Iterator<Item = (usize, &'a Value)> {
    object.get(key).and_then(Value::as_array).into_iter().flatten().enumerate()
}
