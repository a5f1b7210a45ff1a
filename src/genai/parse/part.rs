//! Parts of a message: the convention's, OpenAI's and Anthropic's blocks, Bedrock's and Gemini's.

use serde_json::{Map, Value};

use super::{Reader, call_id, item, media};
use crate::genai::{
    message::Part,
    state::{self, Opened, open},
};

const ID_KEYS: &[&str] = &["call_id", "tool_use_id", "toolUseId", "toolCallId", "tool_call_id", "id", "ref"];
const TOOL_CALLS: &[&str] = &["tool_call", "function", "tool_use", "tool-call", "toolUse"];
const TOOL_RESULTS: &[&str] = &["tool_call_response", "tool_result", "tool-result", "toolResult"];
const RESULT_KEYS: &[&str] = &["response", "result", "content", "output"];
const CALL_KEYS: &[&str] = &[
    "id",
    "call_id",
    "toolUseId",
    "toolCallId",
    "name",
    "toolName",
    "tool_name",
    "arguments",
    "input",
    "args",
    "function",
];

impl Reader<'_> {
    /// The parts of a message's `parts` or `content`.
    pub(super) fn content(&mut self, value: &Value) -> Vec<Part> {
        let opened = match value {
            // Text content stays text, unless it is an array of blocks that some producers write as JSON text.
            Value::String(text) => match open(value) {
                Opened { value: Value::Array(items), state, .. }
                    if !items.is_empty() && items.iter().all(is_block) =>
                {
                    self.state = state::worse(self.state, state);
                    Value::Array(items)
                }
                _ => {
                    self.state = state::worse(self.state, state::of_text(text));
                    return if text.is_empty() { Vec::new() } else { vec![Part::text(text.as_str())] };
                }
            },
            other => other.clone(),
        };
        match opened {
            Value::Array(items) => items.iter().filter_map(|i| self.part(i)).collect(),
            Value::Null => Vec::new(),
            other => self.part(&other).into_iter().collect(),
        }
    }

    pub(super) fn part(&mut self, value: &Value) -> Option<Part> {
        let object = match value {
            Value::String(text) => {
                self.state = state::worse(self.state, state::of_text(text));
                return Some(Part::text(text.as_str()));
            }
            Value::Object(object) => object,
            Value::Null => return None,
            other => return Some(Part::text(other.to_string())),
        };
        // Pydantic AI's first versions say `kind` of media.
        let kind = object.get("type").or_else(|| object.get("kind").filter(|_| object.contains_key("url")));
        let Some(kind) = kind.and_then(Value::as_str) else {
            return Some(self.untyped(object));
        };
        let nested = |key: &str| object.get(key).and_then(Value::as_object);
        Some(match kind {
            "text" | "input_text" | "output_text" => {
                let content = self.text(object, &["content", "text"]);
                Part::Text { content, extra: rest(object, &["content", "text"]) }
            }
            "reasoning" | "thinking" => {
                let content = match object.get("content") {
                    Some(Value::Array(_)) => None,
                    _ => self.text(object, &["content", "thinking", "text", "reasoning"]),
                };
                let content = content.or_else(|| item::reasoning(object));
                Part::Reasoning {
                    content,
                    extra: rest(object, &["content", "thinking", "text", "reasoning"]),
                }
            }
            kind if TOOL_CALLS.contains(&kind) || item::CALLS.contains(&kind) => {
                return self
                    .tool_call(nested("toolUse").unwrap_or(object))
                    .or(Some(Part::Other(object.clone())));
            }
            kind if TOOL_RESULTS.contains(&kind) || item::RESULTS.contains(&kind) => {
                self.tool_result(nested("toolResult").unwrap_or(object))
            }
            _ => {
                self.state = state::worse(self.state, state::of_value(value));
                Part::Other(media::part(kind, object).unwrap_or_else(|| object.clone()))
            }
        })
    }

    /// Bedrock blocks and Gemini parts, which name their type by the member they have.
    fn untyped(&mut self, object: &Map<String, Value>) -> Part {
        let nested = |keys: &[&str]| keys.iter().find_map(|k| object.get(*k)?.as_object());
        const CALLS: &[&str] =
            &["toolUse", "function_call", "functionCall", "toolRequest", "function", "tool_call"];
        const RESULTS: &[&str] =
            &["toolResult", "function_response", "functionResponse", "toolResponse", "tool_call_result"];
        if let Some(call) = nested(CALLS)
            && let Some(part) = self.tool_call(call)
        {
            return beside(part, object);
        }
        if let Some(result) = nested(RESULTS) {
            return self.tool_result(result);
        }
        if let Some(reasoning) = nested(&["reasoningContent"]) {
            let inner = reasoning.get("reasoningText").and_then(Value::as_object).unwrap_or(reasoning);
            return Part::Reasoning { content: self.text(inner, &["text"]), extra: rest(inner, &["text"]) };
        }
        match self.text(object, &["text"]) {
            Some(text) if object.get("thought").and_then(Value::as_bool) == Some(true) => {
                Part::Reasoning { content: Some(text), extra: rest(object, &["text"]) }
            }
            Some(text) => Part::Text { content: Some(text), extra: rest(object, &["text"]) },
            None if document(object).is_some() => {
                Part::Text { content: document(object), extra: rest(object, &["content"]) }
            }
            None if media::untyped(object).is_some() => {
                Part::Other(media::untyped(object).unwrap_or_default())
            }
            None => {
                let mut other = object.clone();
                let kind = object.keys().next().cloned().unwrap_or_default();
                let _ = other.insert("type".into(), Value::String(kind));
                Part::Other(other)
            }
        }
    }

    pub(super) fn tool_call(&mut self, call: &Map<String, Value>) -> Option<Part> {
        let function = call.get("function").and_then(Value::as_object).unwrap_or(call);
        let name = ["name", "toolName", "tool_name"].iter().find_map(|k| function.get(*k)?.as_str())?.trim();
        let arguments =
            ["arguments", "input", "args"].iter().find_map(|k| function.get(*k)).filter(|a| !a.is_null());
        let arguments = arguments.map(|a| self.open(a));
        // The end of a JSON text that lost its beginning.
        if arguments.as_ref().and_then(Value::as_str).is_some_and(|text| text.starts_with('"')) {
            self.unparsable();
        }
        let id = ID_KEYS.iter().find_map(|k| call_id(call.get(*k)));
        Some(Part::ToolCall { id, name: name.to_owned(), arguments, extra: rest(call, CALL_KEYS) })
    }

    fn tool_result(&mut self, result: &Map<String, Value>) -> Part {
        let response = RESULT_KEYS.iter().find_map(|k| result.get(*k)).map(|r| self.open(r)).map(unblock);
        // Haystack's answers say where they come from by the call itself.
        let origin = result.get("origin").and_then(Value::as_object);
        let of = |object: &Map<String, Value>| ID_KEYS.iter().find_map(|k| call_id(object.get(*k)));
        let id = of(result).or_else(|| origin.and_then(of));
        let mut extra = rest(result, ID_KEYS);
        extra.retain(|k, _| !RESULT_KEYS.contains(&k.as_str()));
        Part::ToolCallResponse { id, response, extra }
    }

    fn text(&mut self, object: &Map<String, Value>, keys: &[&str]) -> Option<String> {
        let value = keys.iter().find_map(|k| object.get(*k)).filter(|v| !v.is_null())?;
        self.state = state::worse(self.state, state::of_value(value));
        Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    }
}

/// What Gemini and Genkit say of a call in the part that holds it: its id, and the signature that goes back with it.
fn beside(part: Part, object: &Map<String, Value>) -> Part {
    let Part::ToolCall { id, name, arguments, mut extra } = part else { return part };
    for key in ["thoughtSignature", "thought_signature"] {
        if let Some(signature) = object.get(key) {
            let _ = extra.insert(key.to_owned(), signature.clone());
        }
    }
    Part::ToolCall { id: id.or_else(|| call_id(object.get("id"))), name, arguments, extra }
}

/// An answer of one text or JSON block is that text or that JSON, opened.
pub(in crate::genai) fn unblock(value: Value) -> Value {
    let Value::Array(items) = &value else { return value };
    match items.as_slice() {
        [Value::Object(block)] if block.len() <= 2 => match (block.get("text"), block.get("json")) {
            (Some(text), _) => open(text).value,
            (_, Some(json)) => json.clone(),
            _ => value,
        },
        _ => value,
    }
}

/// The text of a document of Genkit: `{content: [{text}], metadata}`.
fn document(object: &Map<String, Value>) -> Option<String> {
    let known = object.keys().all(|key| key == "content" || key == "metadata");
    let blocks = object.get("content").and_then(Value::as_array).filter(|_| known)?;
    let texts: Option<Vec<&str>> = blocks.iter().map(|block| block.get("text")?.as_str()).collect();
    Some(texts?.concat()).filter(|text| !text.is_empty())
}

fn rest(object: &Map<String, Value>, known: &[&str]) -> Map<String, Value> {
    let kept = object.iter().filter(|(k, _)| k.as_str() != "type" && !known.contains(&k.as_str()));
    kept.map(|(k, v)| (k.clone(), v.clone())).collect()
}

pub(super) fn is_block(value: &Value) -> bool {
    const BLOCKS: &[&str] = &[
        "text",
        "toolUse",
        "toolResult",
        "reasoningContent",
        "functionCall",
        "function_call",
        "functionResponse",
        "function_response",
        "toolRequest",
        "toolResponse",
        "tool_call",
        "tool_call_result",
    ];
    let Value::Object(object) = value else { return false };
    object.get("type").is_some_and(Value::is_string)
        || object.len() <= 2 && BLOCKS.iter().any(|k| object.contains_key(*k))
        || object.len() == 1 && media::untyped(object).is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::genai::parse::messages;

    fn parts(content: Value) -> Vec<Part> {
        let told = messages(&json!([{"role": "user", "parts": content}]), "user", &mut Vec::new());
        told.value.iter().flat_map(|message| message.parts.clone()).collect()
    }

    /// Scenario: providers sign what the model thought, and want the signature back.
    /// Guarantee: it is kept with the part, wherever its provider puts it.
    #[test]
    fn a_signature_is_lost() {
        let of = |content: Value| match parts(json!([content])).pop() {
            Some(Part::ToolCall { extra, .. } | Part::Text { extra, .. } | Part::Reasoning { extra, .. }) => {
                extra
            }
            other => panic!("{other:?}"),
        };
        let call = json!({"name": "f", "args": {}});
        let gemini = of(json!({"functionCall": call, "thoughtSignature": "c2ln"}));
        assert_eq!(Value::Object(gemini), json!({"thoughtSignature": "c2ln"}));
        let snake = of(json!({"function_call": call, "thought_signature": "c2ln"}));
        assert_eq!(Value::Object(snake), json!({"thought_signature": "c2ln"}));
        let text = of(json!({"text": "hi", "thoughtSignature": "c2ln"}));
        assert_eq!(Value::Object(text), json!({"thoughtSignature": "c2ln"}));
        let bedrock = of(json!({"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2ln"}}}));
        assert_eq!(Value::Object(bedrock), json!({"signature": "c2ln"}));
        let redacted = of(json!({"reasoningContent": {"redactedContent": "QUJD"}}));
        assert_eq!(Value::Object(redacted), json!({"redactedContent": "QUJD"}));
    }

    #[test]
    fn answers_in_json_text_are_taken_for_text() {
        for key in ["functionResponse", "function_response"] {
            let content = json!([{key: {"name": "f", "response": {"a": 1}}}]).to_string();
            let [Part::ToolCallResponse { response, .. }] = &parts(content.into())[..] else { panic!() };
            assert_eq!(response, &Some(json!({"a": 1})));
        }
    }
}
