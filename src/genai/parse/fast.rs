//! Messages in the convention's own shape, as JSON text: read in one pass, and those of a history that was read before
//! recognised by the hash of their bytes.
//!
//! Whatever is not exactly of that shape is left to the tolerant reader.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use memchr::memchr2;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use twox_hash::XxHash3_128;

use super::call_id;
use crate::genai::{
    finish,
    message::{ContentState, Message, Part},
    state,
};

/// Messages that were read before, by the hash of their bytes. Every call repeats the history of a conversation.
#[derive(Debug)]
pub struct Seen {
    /// Drawn anew for every set, so that nobody can prepare two texts with one hash.
    seed: u64,
    messages: HashMap<u128, Arc<Message>, ahash::RandomState>,
}

impl Default for Seen {
    fn default() -> Self {
        Self { seed: RandomState::new().hash_one(0), messages: HashMap::default() }
    }
}

/// A message of the shape; a member that it does not name makes it another.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Plain {
    role: String,
    parts: Vec<PlainPart>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlainPart {
    r#type: Kind,
    #[serde(default, deserialize_with = "some")]
    content: Option<Option<String>>,
    #[serde(default, deserialize_with = "some")]
    id: Option<Value>,
    #[serde(default, deserialize_with = "some")]
    name: Option<Option<String>>,
    #[serde(default, deserialize_with = "some")]
    arguments: Option<Value>,
    #[serde(default, alias = "result", deserialize_with = "some")]
    response: Option<Value>,
}

/// A member that is null is there.
fn some<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Text,
    Reasoning,
    ToolCall,
    ToolCallResponse,
}

/// The messages in `text`, all of it captured; `None` when it is of another shape or a marker tells otherwise.
pub(super) fn messages(text: &str, seen: &mut Seen) -> Option<Vec<Arc<Message>>> {
    let elements = elements(text)?;
    let key = |element: &&str| XxHash3_128::oneshot_with_seed(seen.seed, element.as_bytes());
    let keys: Vec<u128> = elements.iter().map(key).collect();
    // A text that is all new is read at once, which is cheaper than message by message.
    if !keys.iter().any(|key| seen.messages.contains_key(key)) {
        let plain: Vec<Plain> = serde_json::from_str(text).ok()?;
        let read = plain.into_iter().map(|plain| read(plain).map(Arc::new));
        let read: Vec<_> = read.collect::<Option<_>>()?;
        seen.messages.extend(keys.into_iter().zip(read.iter().cloned()));
        return Some(read);
    }
    let mut found = Vec::with_capacity(keys.len());
    for (key, element) in keys.into_iter().zip(elements) {
        let message = match seen.messages.get(&key) {
            Some(known) => Arc::clone(known),
            None => {
                let read = Arc::new(read(serde_json::from_str(element).ok()?)?);
                let _ = seen.messages.insert(key, Arc::clone(&read));
                read
            }
        };
        found.push(message);
    }
    Some(found)
}

fn read(plain: Plain) -> Option<Message> {
    let named = [Some(&plain.role), plain.name.as_ref(), plain.finish_reason.as_ref()];
    if !named.into_iter().flatten().all(|text| is_captured(text)) {
        return None;
    }
    Some(Message {
        role: super::role(&plain.role),
        parts: plain.parts.into_iter().map(read_part).collect::<Option<_>>()?,
        finish_reason: plain.finish_reason.map(|reason| finish::normalize(&reason)),
        name: plain.name,
    })
}

fn read_part(part: PlainPart) -> Option<Part> {
    let PlainPart { r#type, content, id, name, arguments, response } = part;
    let texts = [content.as_ref(), name.as_ref()];
    let is_plain = texts.into_iter().flatten().flatten().all(|text| is_captured(text))
        && id.as_ref().is_none_or(|id| state::of_value(id) == ContentState::Captured);
    if !is_plain {
        return None;
    }
    match (r#type, content, id, name, arguments, response) {
        // Some write blocks as text; the tolerant reader opens them.
        (Kind::Text, Some(Some(text)), ..) if text.starts_with('[') => None,
        (Kind::Text, content, None, None, None, None) => {
            Some(Part::Text { content: content.flatten(), extra: Map::new() })
        }
        (Kind::Reasoning, content, None, None, None, None) => {
            Some(Part::Reasoning { content: content.flatten(), extra: Map::new() })
        }
        (Kind::ToolCall, None, id, Some(Some(name)), arguments, None) => {
            let arguments = open(arguments)?.filter(|a| !a.is_null());
            Some(Part::tool_call(call_id(id.as_ref()), name.trim(), arguments))
        }
        (Kind::ToolCallResponse, None, id, name, None, response) => {
            let response = open(response)?.map(super::part::unblock);
            let extra = name.map(|name| ("name".to_owned(), Value::from(name))).into_iter().collect();
            Some(Part::ToolCallResponse { id: call_id(id.as_ref()), response, extra })
        }
        _ => None,
    }
}

fn is_captured(text: &str) -> bool {
    state::of_text(text) == ContentState::Captured
}

/// JSON text inside is opened once. What is marked or needs repair is for the tolerant reader, which tells of it.
fn open(value: Option<Value>) -> Option<Option<Value>> {
    let Some(value) = value else { return Some(None) };
    if value.as_str().is_none_or(|text| !state::is_json_like(text)) {
        return (state::of_value(&value) == ContentState::Captured).then_some(Some(value));
    }
    let opened = state::open(&value);
    (!opened.unparsable && opened.state == ContentState::Captured).then_some(Some(opened.value))
}

/// The texts of the elements of a JSON array; `None` when `text` is no array. What stands between is not checked: each
/// element is read by itself.
fn elements(text: &str) -> Option<Vec<&str>> {
    let inner = text.trim().strip_prefix('[')?.strip_suffix(']')?;
    let bytes = inner.as_bytes();
    let (mut depth, mut begin, mut at) = (0_usize, 0, 0);
    let mut found = Vec::new();
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => at = string_end(bytes, at + 1)?,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.checked_sub(1)?,
            b',' if depth == 0 => {
                found.push(inner.get(begin..at)?.trim());
                begin = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    let last = inner.get(begin..)?.trim();
    if depth > 0 || last.is_empty() && !found.is_empty() {
        return None;
    }
    found.extend((!last.is_empty()).then_some(last));
    Some(found)
}

/// Where the string that began before `at` ends.
fn string_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes.get(at) == Some(&b'"') {
            return Some(at);
        }
        at += 2;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::genai::parse;

    fn text() -> impl Strategy<Value = String> {
        let words: &[&str] = &[
            "",
            "hi",
            "[x",
            "\"q\"",
            "{\"a\":1}",
            "a\\\"b]}{[,",
            "__REDACTED__",
            "é\n",
            "...[truncated]",
            "null",
        ];
        prop_oneof![proptest::sample::select(words).prop_map(str::to_owned), ".{0,20}"]
    }

    fn member() -> impl Strategy<Value = (String, Value)> {
        let names: &[&str] = &["content", "id", "name", "arguments", "response", "result", "extra", "type"];
        let types: &[&str] = &["text", "reasoning", "thinking", "tool_call", "tool_call_response", "blob"];
        let value = prop_oneof![
            text().prop_map(Value::from),
            text().prop_map(|t| json!({"k": t})),
            Just(Value::Null),
            Just(json!([{"type": "text", "text": "x"}])),
            any::<i32>().prop_map(Value::from),
        ];
        (proptest::sample::select(names), value, proptest::sample::select(types)).prop_map(
            |(name, value, kind)| (name.to_owned(), if name == "type" { kind.into() } else { value }),
        )
    }

    fn message() -> impl Strategy<Value = Value> {
        let part = prop::collection::vec(member(), 1..5)
            .prop_map(|members| Value::Object(members.into_iter().collect()));
        let roles = proptest::sample::select(&["user", "assistant", "model", "tool", "system", "Human"][..]);
        (roles, prop::collection::vec(part, 0..3), prop::option::of(text())).prop_map(
            |(role, parts, reason)| {
                let mut message = json!({"role": role, "parts": parts});
                if let Some(reason) = reason {
                    message["finish_reason"] = reason.into();
                }
                message
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        /// Read fast, read again, read by the tolerant reader: the same messages, and the same state.
        #[test]
        fn the_fast_reader_reads_something_else(all in prop::collection::vec(message(), 0..4), pretty: bool) {
            let all = Value::from(all);
            let text = if pretty { format!("{all:#}") } else { all.to_string() };
            let value = Value::String(text);
            let mut seen = Seen::default();
            let slow = parse::messages(&value, "user", &mut Vec::new());
            for _ in 0..2 {
                let fast = parse::messages_seen(&value, "user", &mut Vec::new(), &mut seen);
                prop_assert_eq!(&fast, &slow);
            }
        }

        /// Any text: never a panic, and an array's elements are its elements.
        #[test]
        fn the_splitter_panics_or_cuts_elsewhere(text in "[\\[\\]{},:\"\\\\a 1é]{0,40}") {
            if let Ok(Value::Array(items)) = serde_json::from_str(&text) {
                let found: Vec<Value> = elements(&text).unwrap().iter().map(|e| serde_json::from_str(e).unwrap()).collect();
                prop_assert_eq!(found, items);
            } else {
                let _ = elements(&text);
            }
        }
    }
}
