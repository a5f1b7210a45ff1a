//! Calls and answers that the tests of the wire formats share.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::Surface;
use crate::{
    genai::message::Part,
    replay::sim::call::{ModelAnswer, ModelCall, Tokens},
};

/// Text, reasoning and two calls at once, with all counts.
pub(super) fn answer() -> ModelAnswer {
    let signature = json!({"signature": "c2ln", "encrypted_content": "ZW5j"});
    let reasoning = Part::Reasoning {
        content: Some("Two cities, so two calls.".into()),
        extra: signature.as_object().cloned().unwrap_or_default(),
    };
    ModelAnswer {
        step: 4,
        id: "0123456789abcdef01234567".into(),
        model: "m-2026".into(),
        parts: vec![
            reasoning,
            Part::text("Let me look at both cities."),
            Part::tool_call(Some("call_a".into()), "weather", Some(json!({"city": "Paris"}))),
            Part::tool_call(Some("call_b".into()), "weather", Some(json!({"city": "Rome", "days": [1, 2]}))),
        ],
        finish: "tool_call".into(),
        usage: Tokens { input: 21, output: 7, cache_read: 8, cache_write: 2, reasoning: 3 },
        created_s: 1_796_000_000,
    }
}

/// An answer of `parts` that ended with `finish`.
pub(super) fn of(parts: Vec<Part>, finish: &str) -> ModelAnswer {
    ModelAnswer { parts, finish: finish.into(), ..answer() }
}

/// A part in words that the schema does not have.
pub(super) fn other(value: Value) -> Part {
    Part::Other(value.as_object().cloned().unwrap_or_else(Map::new))
}

/// A call that says nothing but the model.
pub(super) fn call() -> ModelCall {
    ModelCall { model: "m".into(), stream: true, stream_usage: true, ..ModelCall::default() }
}

/// The frames of a stream: the name and the data of each event.
pub(super) fn events(frames: &[Bytes]) -> Vec<(Option<String>, Value)> {
    let event = |frame: &Bytes| {
        let text = std::str::from_utf8(frame).unwrap().strip_suffix("\n\n").unwrap();
        let (name, data) = match text.strip_prefix("event: ") {
            Some(rest) => rest.split_once('\n').map(|(name, data)| (Some(name.to_owned()), data)).unwrap(),
            None => (None, text),
        };
        let data = data.strip_prefix("data: ").unwrap();
        (name, serde_json::from_str(data).unwrap_or_else(|_| Value::from(data)))
    };
    frames.iter().map(event).collect()
}

/// The messages that a request is read as, in short: role and parts as JSON.
pub(super) fn messages(surface: &dyn Surface, body: &Value) -> Value {
    let call = surface.read(body, None, false).unwrap();
    let messages = call.messages.iter().map(|m| json!([m.role, m.parts]));
    messages.collect()
}
