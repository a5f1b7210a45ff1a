//! Message JSON of all shapes -> messages: the convention's parts, OpenAI messages, Anthropic and Bedrock blocks,
//! Gemini contents.

use serde_json::{Map, Value};

use super::{
    message::{Content, ContentState, Message, Part},
    operation::Issue,
    state::{self, open},
};

/// How often JSON text inside JSON text is opened on the way to a message.
const OPEN_MAX: usize = 3;
const SENTINELS: &[&str] = &["", "unknown", "<not specified>", "None", "null", "undefined"];

/// The messages in `value`, with their state. Text that is no JSON is one message of `role`.
pub fn messages(value: &Value, role: &str, issues: &mut Vec<Issue>) -> Content<Vec<Message>> {
    let mut reader = Reader { state: ContentState::Captured, issues };
    let mut messages = Vec::new();
    reader.collect(value, role, OPEN_MAX, &mut messages);
    messages.retain(|m| !m.parts.is_empty() || m.finish_reason.is_some());
    if messages.is_empty() {
        return Content::default();
    }
    let state = state::worse(reader.state, state_of(&messages));
    Content { value: messages, state }
}

/// The parts in `value` (system instructions): parts, text, or an array of text.
pub fn parts(value: &Value, issues: &mut Vec<Issue>) -> Vec<Part> {
    messages(value, "system", issues).value.into_iter().flat_map(|m| m.parts).collect()
}

/// A call id that means something.
pub fn call_id(id: Option<&Value>) -> Option<String> {
    let id = match id? {
        Value::String(s) => s.trim().to_owned(),
        Value::Number(n) => n.to_string(),
        _ => return None,
    };
    (!SENTINELS.contains(&id.as_str())).then_some(id)
}

/// What the messages themselves say: parts without content are structure, not content.
fn state_of(messages: &[Message]) -> ContentState {
    let mut full = 0;
    for part in messages.iter().flat_map(|m| &m.parts) {
        match part {
            Part::Text { content: None, .. } | Part::ToolCallResponse { response: None, .. } => {
                return ContentState::NotCaptured;
            }
            Part::ToolCall { arguments: None, .. } | Part::Reasoning { content: None, .. } => {}
            _ => full += 1,
        }
    }
    if full == 0 { ContentState::NotCaptured } else { ContentState::Captured }
}

struct Reader<'a> {
    state: ContentState,
    issues: &'a mut Vec<Issue>,
}

impl Reader<'_> {
    fn open(&mut self, value: &Value) -> Value {
        let opened = open(value);
        self.state = state::worse(self.state, opened.state);
        if opened.unparsable {
            self.issues.push(Issue {
                code: "unparsable_content",
                detail: "cut JSON that repair could not read".into(),
            });
        }
        opened.value
    }

    fn collect(&mut self, value: &Value, role: &str, opens: usize, out: &mut Vec<Message>) {
        match value {
            Value::String(text) => match self.open(value) {
                Value::String(text) => out.push(message(role, vec![Part::text(text)])),
                inner if opens > 0 => self.collect(&inner, role, opens - 1, out),
                _ => out.push(message(role, vec![Part::text(text.as_str())])),
            },
            Value::Array(items) if items.iter().any(is_message) => {
                for item in items {
                    self.collect(item, role, opens.saturating_sub(1), out);
                }
            }
            Value::Array(items) if opens > 0 && items.iter().all(is_json_text) => {
                for item in items {
                    self.collect(item, role, opens - 1, out);
                }
            }
            Value::Array(_) => {
                let parts = self.content(value);
                out.push(message(role, parts));
            }
            Value::Object(members) => match members.get("messages").or_else(|| members.get("contents")) {
                Some(inner @ Value::Array(_)) if opens > 0 => self.collect(inner, role, opens - 1, out),
                _ if is_message(value) => out.push(self.message(members, role)),
                _ => {
                    let parts = self.part(value).into_iter().collect();
                    out.push(message(role, parts));
                }
            },
            Value::Null => {}
            scalar => out.push(message(role, vec![Part::text(scalar.to_string())])),
        }
    }

    fn message(&mut self, object: &Map<String, Value>, default_role: &str) -> Message {
        let text = |key: &str| object.get(key).and_then(Value::as_str).map(str::to_owned);
        let inner = object.get("message").and_then(Value::as_object);
        let mut made = match inner {
            Some(inner) => self.message(inner, default_role),
            None => message(&role(text("role").as_deref().unwrap_or(default_role)), Vec::new()),
        };
        if let Some(Value::String(content)) = object.get("message") {
            made.parts = self.content(&Value::from(content.as_str()));
        }
        made.name = made.name.or_else(|| text("name"));
        made.finish_reason =
            made.finish_reason.or_else(|| text("finish_reason").map(|r| super::finish::normalize(&r)));
        for key in ["reasoning_content", "reasoning", "thinking"] {
            if let Some(reasoning) = text(key).filter(|t| !t.is_empty()) {
                made.parts.push(Part::Reasoning { content: Some(reasoning), extra: Map::new() });
                break;
            }
        }
        let content = object.get("parts").or_else(|| object.get("content"));
        let call = call_id(object.get("tool_call_id").or_else(|| object.get("id")));
        if made.role == "tool"
            && !object.contains_key("parts")
            && (call.is_some() || object.contains_key("content"))
        {
            let blocks = content.map(|c| self.content(c)).unwrap_or_default();
            // Blocks that say themselves what they answer stand; everything else is the answer.
            if blocks.iter().any(|p| matches!(p, Part::ToolCallResponse { .. })) {
                made.parts.extend(blocks);
            } else {
                let response = content.filter(|c| !c.is_null()).map(|c| self.open(c));
                made.parts.push(Part::tool_call_response(call, response));
            }
        } else if let Some(content) = content {
            made.parts.extend(self.content(content));
        }
        if let Some(Value::Array(calls)) = object.get("tool_calls") {
            made.parts.extend(calls.iter().filter_map(|c| self.tool_call(c.as_object()?)));
        }
        made
    }

    /// The parts of a message's `parts` or `content`.
    fn content(&mut self, value: &Value) -> Vec<Part> {
        let opened = match value {
            // Text content stays text, unless it is an array of blocks that some producers write as JSON text.
            Value::String(text) => match open(value).value {
                Value::Array(items) if !items.is_empty() && items.iter().all(is_block) => Value::Array(items),
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

    fn part(&mut self, value: &Value) -> Option<Part> {
        let object = match value {
            Value::String(text) => {
                self.state = state::worse(self.state, state::of_text(text));
                return Some(Part::text(text.as_str()));
            }
            Value::Object(object) => object,
            Value::Null => return None,
            other => return Some(Part::text(other.to_string())),
        };
        let Some(kind) = object.get("type").and_then(Value::as_str) else {
            return Some(self.untyped(object));
        };
        let nested = |key: &str| object.get(key).and_then(Value::as_object);
        Some(match kind {
            "text" | "input_text" | "output_text" => {
                let content = self.text(object, &["content", "text"]);
                Part::Text { content, extra: rest(object, &["content", "text"]) }
            }
            "reasoning" | "thinking" => {
                let content = self.text(object, &["content", "thinking", "text", "reasoning"]);
                Part::Reasoning {
                    content,
                    extra: rest(object, &["content", "thinking", "text", "reasoning"]),
                }
            }
            "tool_call" | "function" | "tool_use" | "tool-call" | "function_call" | "toolUse" => {
                return self
                    .tool_call(nested("toolUse").unwrap_or(object))
                    .or(Some(Part::Other(object.clone())));
            }
            "tool_call_response" | "tool_result" | "tool-result" | "function_call_output" | "toolResult" => {
                self.tool_result(nested("toolResult").unwrap_or(object))
            }
            _ => {
                self.state = state::worse(self.state, state::of_value(value));
                Part::Other(object.clone())
            }
        })
    }

    /// Bedrock blocks and Gemini parts, which name their type by the member they have.
    fn untyped(&mut self, object: &Map<String, Value>) -> Part {
        let nested = |keys: &[&str]| keys.iter().find_map(|k| object.get(*k)?.as_object());
        if let Some(call) = nested(&["toolUse", "function_call", "functionCall", "function"])
            && let Some(part) = self.tool_call(call)
        {
            return match (part, call_id(object.get("id"))) {
                (Part::ToolCall { id: None, name, arguments, extra }, id) => {
                    Part::ToolCall { id, name, arguments, extra }
                }
                (part, _) => part,
            };
        }
        if let Some(result) = nested(&["toolResult", "function_response", "functionResponse"]) {
            return self.tool_result(result);
        }
        if let Some(reasoning) = nested(&["reasoningContent"]) {
            let inner = reasoning.get("reasoningText").and_then(Value::as_object).unwrap_or(reasoning);
            return Part::Reasoning { content: self.text(inner, &["text"]), extra: Map::new() };
        }
        match self.text(object, &["text"]) {
            Some(text) if object.get("thought").and_then(Value::as_bool) == Some(true) => {
                Part::Reasoning { content: Some(text), extra: rest(object, &["text"]) }
            }
            Some(text) => Part::Text { content: Some(text), extra: rest(object, &["text"]) },
            None => {
                let mut other = object.clone();
                let kind = object.keys().next().cloned().unwrap_or_default();
                let _ = other.insert("type".into(), Value::String(kind));
                Part::Other(other)
            }
        }
    }

    fn tool_call(&mut self, call: &Map<String, Value>) -> Option<Part> {
        let function = call.get("function").and_then(Value::as_object).unwrap_or(call);
        let name = ["name", "toolName"].iter().find_map(|k| function.get(*k)?.as_str())?.trim();
        let arguments =
            ["arguments", "input", "args"].iter().find_map(|k| function.get(*k)).filter(|a| !a.is_null());
        let arguments = arguments.map(|a| self.open(a));
        let id = ID_KEYS.iter().find_map(|k| call_id(call.get(*k)));
        Some(Part::ToolCall { id, name: name.to_owned(), arguments, extra: rest(call, CALL_KEYS) })
    }

    fn tool_result(&mut self, result: &Map<String, Value>) -> Part {
        let response = RESULT_KEYS.iter().find_map(|k| result.get(*k)).map(|r| self.open(r)).map(unblock);
        let id = ID_KEYS.iter().find_map(|k| call_id(result.get(*k)));
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

const ID_KEYS: &[&str] = &["call_id", "tool_use_id", "toolUseId", "toolCallId", "tool_call_id", "id"];
const RESULT_KEYS: &[&str] = &["response", "result", "content", "output"];
const CALL_KEYS: &[&str] = &[
    "id",
    "call_id",
    "toolUseId",
    "toolCallId",
    "name",
    "toolName",
    "arguments",
    "input",
    "args",
    "function",
];

/// An answer of one text or JSON block is that text or that JSON, opened.
fn unblock(value: Value) -> Value {
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

fn message(role: &str, parts: Vec<Part>) -> Message {
    Message { role: role.to_owned(), parts, ..Message::default() }
}

fn role(role: &str) -> String {
    match role.trim().to_ascii_lowercase().as_str() {
        "model" | "ai" => "assistant".into(),
        "human" => "user".into(),
        "developer" => "system".into(),
        "function" => "tool".into(),
        other => other.to_owned(),
    }
}

fn rest(object: &Map<String, Value>, known: &[&str]) -> Map<String, Value> {
    let kept = object.iter().filter(|(k, _)| k.as_str() != "type" && !known.contains(&k.as_str()));
    kept.map(|(k, v)| (k.clone(), v.clone())).collect()
}

fn is_message(value: &Value) -> bool {
    let Value::Object(object) = value else { return false };
    object.contains_key("role") && !object.contains_key("type")
        || ["parts", "message", "tool_calls"].iter().any(|k| object.contains_key(*k))
        || object.contains_key("role") && object.contains_key("content")
}

fn is_json_text(value: &Value) -> bool {
    value.as_str().is_some_and(|s| s.trim_start().starts_with('{'))
}

fn is_block(value: &Value) -> bool {
    const BLOCKS: &[&str] =
        &["text", "toolUse", "toolResult", "reasoningContent", "functionCall", "function_call"];
    let Value::Object(object) = value else { return false };
    object.get("type").is_some_and(Value::is_string)
        || object.len() <= 2 && BLOCKS.iter().any(|k| object.contains_key(*k))
}
