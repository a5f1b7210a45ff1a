//! Message JSON of all shapes -> messages: the convention's parts, OpenAI messages, Anthropic and Bedrock blocks,
//! Gemini contents.

pub(super) mod envelope;
mod fast;
mod item;
mod media;
pub(super) mod part;
pub(super) mod python;

pub use fast::Seen;
pub use item::OF_PROVIDER;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::{
    message::{Content, ContentState, Message, Messages, Part},
    operation::Issue,
    state::{self, open},
};
use item::is_item;
use part::is_block;

/// How often JSON text inside JSON text is opened on the way to a message.
const OPEN_MAX: usize = 3;
const SENTINELS: &[&str] = &["", "unknown", "<not specified>", "None", "null", "undefined"];

/// The messages in `value`, with their state. Text that is no JSON is one message of `role`.
pub fn messages(value: &Value, role: &str, issues: &mut Vec<Issue>) -> Content<Messages> {
    let mut reader = Reader { state: ContentState::Captured, issues };
    let mut messages = Vec::new();
    reader.collect(value, role, OPEN_MAX, &mut messages);
    // A marker in the place of all content is the state, not a message that somebody wrote.
    let withheld = matches!(reader.state, ContentState::Redacted | ContentState::Unserializable);
    if withheld && value.is_string() {
        messages.retain(|m| !m.parts.iter().all(is_marker));
        if messages.is_empty() {
            return Content { value: Vec::new(), state: reader.state };
        }
    }
    let state = reader.state;
    told(messages.into_iter().map(Arc::new).collect(), state)
}

/// As [`messages`]; those in the convention's shape are read in one pass, and not at all when they were seen before.
pub fn messages_seen(
    value: &Value,
    role: &str,
    issues: &mut Vec<Issue>,
    seen: &mut Seen,
) -> Content<Messages> {
    let fast = value.as_str().and_then(|text| fast::messages(text, seen));
    match fast {
        Some(messages) => told(messages, ContentState::Captured),
        None => self::messages(value, role, issues),
    }
}

fn told(mut messages: Vec<Arc<Message>>, state: ContentState) -> Content<Messages> {
    messages.retain(|m| !m.parts.is_empty() || m.finish_reason.is_some());
    let state = match state {
        // What a cut left: parts that lack their content lost it there.
        ContentState::Truncated => ContentState::Truncated,
        _ if messages.is_empty() => ContentState::NotCaptured,
        state => state::worse(state, state_of(&messages)),
    };
    Content { value: messages, state }
}

/// The parts in `value` (system instructions): parts, text, or an array of text.
pub fn parts(value: &Value, issues: &mut Vec<Issue>) -> Content<Vec<Part>> {
    let told = messages(value, "system", issues);
    Content {
        value: told.value.into_iter().flat_map(|m| Arc::unwrap_or_clone(m).parts).collect(),
        state: told.state,
    }
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

fn is_marker(part: &Part) -> bool {
    matches!(part, Part::Text { content: Some(text), .. } if state::is_marker(text))
}

/// What the messages themselves say: parts without content are structure, not content.
fn state_of(messages: &[Arc<Message>]) -> ContentState {
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
            self.unparsable();
        }
        opened.value
    }

    fn unparsable(&mut self) {
        self.issues
            .push(Issue { code: "unparsable_content", detail: "cut JSON that repair could not read".into() });
    }

    fn collect(&mut self, value: &Value, role: &str, opens: usize, out: &mut Vec<Message>) {
        match value {
            Value::String(text) => match self.open(value) {
                // JSON text of a text: what it holds may be JSON again.
                inner @ Value::String(_) if inner != *value && opens > 0 => {
                    self.collect(&inner, role, opens - 1, out)
                }
                Value::String(text) => out.push(message(role, vec![Part::text(text)])),
                inner if opens > 0 => self.collect(&inner, role, opens - 1, out),
                _ => out.push(message(role, vec![Part::text(text.as_str())])),
            },
            Value::Array(items) if items.iter().any(|i| is_message(i) || is_item(i)) => {
                let first = out.len();
                for item in items {
                    self.collect(item, role, opens.saturating_sub(1), out);
                }
                if items.iter().any(is_item) {
                    item::join(out, first);
                }
            }
            Value::Array(items)
                if opens > 0 && items.iter().all(|i| is_json_text(i) || i.is_array() || is_envelope(i)) =>
            {
                for item in items {
                    self.collect(item, role, opens - 1, out);
                }
            }
            Value::Array(_) => {
                let parts = self.content(value);
                out.push(message(role, parts));
            }
            Value::Object(members) => self.object(value, members, role, opens, out),
            Value::Null => {}
            scalar => out.push(message(role, vec![Part::text(scalar.to_string())])),
        }
    }

    fn object(
        &mut self,
        value: &Value,
        members: &Map<String, Value>,
        role: &str,
        opens: usize,
        out: &mut Vec<Message>,
    ) {
        if let Some((role, members)) = envelope::langchain(members) {
            return out.push(self.langchain(members, role));
        }
        if let Some(inner) = envelope::inner(members).filter(|_| opens > 0) {
            for (value, own) in inner {
                self.collect(value, own.unwrap_or(role), opens - 1, out);
            }
            return;
        }
        if is_message(value) {
            return out.push(self.message(members, role));
        }
        // What is neither a message nor a block of one is data: it stays readable as the JSON that it is.
        if !is_block(value) && !is_item(value) && !members.contains_key("type") {
            self.state = state::worse(self.state, state::of_value(value));
            return out.push(message(role, vec![Part::text(value.to_string())]));
        }
        let Some(part) = self.part(value) else { return };
        let role = match &part {
            Part::ToolCall { .. } | Part::Reasoning { .. } => "assistant",
            Part::ToolCallResponse { .. } => "tool",
            Part::Other(block) if item::is_of_model(block) => "assistant",
            _ => role,
        };
        out.push(message(role, vec![part]));
    }

    /// A message in LangChain's members: `content`, `tool_calls`, and what the provider sent in `additional_kwargs`.
    fn langchain(&mut self, members: &Map<String, Value>, role: &str) -> Message {
        let mut made = Map::new();
        for key in ["content", "name", "tool_calls", "tool_call_id"] {
            if let Some(value) =
                members.get(key).filter(|v| super::attrs::is_meaningful(v) || key == "content")
            {
                let _ = made.insert(key.to_owned(), value.clone());
            }
        }
        let extra = members.get("additional_kwargs");
        let extra =
            |key: &str| extra.and_then(|e| e.get(key)).filter(|v| super::attrs::is_meaningful(v)).cloned();
        for key in ["tool_calls", "reasoning_content"] {
            if let Some(value) = extra(key).filter(|_| !made.contains_key(key)) {
                let _ = made.insert(key.to_owned(), value);
            }
        }
        // Anthropic's blocks repeat the calls that stand in `tool_calls`.
        if made.contains_key("tool_calls")
            && let Some(Value::Array(blocks)) = made.get_mut("content")
        {
            blocks.retain(|b| {
                !matches!(b.get("type").and_then(Value::as_str), Some("tool_use" | "function_call"))
            });
        }
        let reason = members
            .get("response_metadata")
            .and_then(|m| ["finish_reason", "stop_reason"].iter().find_map(|key| m.get(*key)?.as_str()));
        if let Some(reason) = reason {
            let _ = made.insert("finish_reason".into(), reason.into());
        }
        let _ = made.insert("role".into(), role.into());
        self.message(&made, role)
    }

    fn message(&mut self, object: &Map<String, Value>, default_role: &str) -> Message {
        let text = |key: &str| object.get(key).and_then(Value::as_str).map(str::to_owned);
        let inner = object.get("message").or_else(|| object.get("delta")).and_then(Value::as_object);
        let mut made = match inner {
            Some(inner) => self.message(inner, default_role),
            None => message(&role(text("role").as_deref().unwrap_or(default_role)), Vec::new()),
        };
        for key in ["message", "text"] {
            if let Some(Value::String(content)) = object.get(key)
                && !object.contains_key("content")
            {
                made.parts = self.content(&Value::from(content.as_str()));
            }
        }
        made.name = made.name.or_else(|| text("name"));
        made.finish_reason = made.finish_reason.or_else(|| {
            let meta = || Some(object.get("meta")?.get("finish_reason")?.as_str()?.to_owned());
            let reason = text("finish_reason").or_else(|| text("finishReason"));
            let reason = reason.or_else(|| text("stop_reason")).or_else(meta);
            reason.map(|r| super::finish::normalize(&r))
        });
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
                let response = content.filter(|c| !c.is_null()).map(|c| part::unblock(self.open(c)));
                made.parts.push(Part::tool_call_response(call, response));
            }
        } else if let Some(content) = content {
            made.parts.extend(self.content(content));
        }
        if let Some(refusal) = text("refusal").filter(|t| !t.is_empty()) {
            made.parts.push(item::refusal(refusal));
        }
        if let Some(calls) = object.get("tool_calls").map(|calls| open(calls).value)
            && let Value::Array(calls) = calls
        {
            made.parts.extend(calls.iter().filter_map(|c| self.tool_call(c.as_object()?)));
        }
        if let Some(call) = object.get("function_call").and_then(Value::as_object) {
            made.parts.extend(self.tool_call(call));
        }
        made
    }
}

fn message(role: &str, parts: Vec<Part>) -> Message {
    Message { role: role.to_owned(), parts, ..Message::default() }
}

/// The role in the convention's words.
pub(super) fn role(role: &str) -> String {
    let role = role.trim().to_ascii_lowercase();
    match role.as_str() {
        "model" | "ai" => "assistant".into(),
        "human" => "user".into(),
        "developer" => "system".into(),
        "function" => "tool".into(),
        _ => role,
    }
}

fn is_message(value: &Value) -> bool {
    let Value::Object(object) = value else { return false };
    envelope::langchain(object).is_some()
        || object.contains_key("role") && !object.contains_key("type")
        || ["parts", "message", "tool_calls"].iter().any(|k| object.contains_key(*k))
        || object.contains_key("role") && object.contains_key("content")
}

fn is_envelope(value: &Value) -> bool {
    value.as_object().is_some_and(|object| envelope::inner(object).is_some())
}

fn is_json_text(value: &Value) -> bool {
    value.as_str().is_some_and(|s| s.trim_start().starts_with('{'))
}
