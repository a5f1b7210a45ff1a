//! Members of requests, by the names that clients give them.

use serde_json::{Value, json};

use super::request::messages;
use crate::genai::message::Part;

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

/// The system instructions of a request: a message without a role, or the content of one.
pub(super) fn system(value: Option<&Value>) -> Vec<Part> {
    let Some(value) = value else { return Vec::new() };
    let key = if value.get("parts").is_some() { "parts" } else { "content" };
    let content = value.get("parts").unwrap_or(value);
    messages(&json!([{"role": "system", key: content}])).into_iter().flat_map(|m| m.parts).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::replay::{
        sim::call::ModelAnswer,
        wire::{Surface, bedrock::Bedrock, gemini, mcp},
    };

    use super::*;

    /// JSON that readers look into: their members, with anything in them.
    fn json_of_requests() -> impl Strategy<Value = Value> {
        let words: &[&str] = &[
            "contents",
            "role",
            "parts",
            "text",
            "thought",
            "thoughtSignature",
            "functionCall",
            "function_response",
            "name",
            "args",
            "id",
            "response",
            "systemInstruction",
            "generationConfig",
            "tools",
            "functionDeclarations",
            "requests",
            "content",
            "messages",
            "system",
            "toolUse",
            "toolResult",
            "reasoningContent",
            "redactedContent",
            "toolConfig",
            "toolSpec",
            "inputSchema",
            "json",
            "inlineData",
            "mimeType",
            "data",
            "jsonrpc",
            "method",
            "params",
            "_meta",
            "arguments",
            "tools/call",
            "initialize",
            "isError",
        ];
        let word = proptest::sample::select(words);
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            word.clone().prop_map(Value::from),
            "[\\[{\"a-z:]{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(6, 64, 5, move |inner| {
            let members = prop::collection::vec((word.clone(), inner.clone()), 0..5);
            prop_oneof![
                prop::collection::vec(inner, 0..4).prop_map(Value::from),
                members.prop_map(|of| of.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        /// Scenario: any body, alone and in the place of the messages; what is read of it is answered with again.
        #[test]
        fn a_body_panics_a_reader_or_a_writer(body in json_of_requests()) {
            let wrapped = json!({"contents": body, "messages": body, "system": body, "tools": body});
            for body in [&body, &wrapped] {
                for surface in [&gemini::Gemini as &dyn Surface, &Bedrock] {
                    let Ok(call) = surface.read(body, Some("m"), false) else { continue };
                    let parts = call.messages.iter().flat_map(|m| m.parts.clone()).collect();
                    let answer = ModelAnswer { parts, ..ModelAnswer::default() };
                    prop_assert!(surface.whole(&call, &answer).is_object());
                    prop_assert!(!surface.frames(&call, &answer).is_empty());
                }
                let _ = gemini::read_embedding(body, None);
                for message in &mcp::read(body, None).messages {
                    let _ = message.response(&[]);
                }
            }
        }
    }
}
