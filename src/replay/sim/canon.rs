//! The canonical form of a conversation: a list of items, the same for a recorded step and for a live request.
//!
//! Producers and clients group parts into messages in different ways, so groups are dissolved: what counts is who said
//! what in which order. Ids are left out: a result follows its call. Reasoning is left out: not every client sends it
//! back. System messages stand apart, wherever they were.

use serde_json::{Map, Number, Value};
use unicode_normalization::{UnicodeNormalization, is_nfc};

use super::volatile;
use crate::genai::{
    message::{Message, Part},
    state,
};

/// Members of a part that are not what it says.
const UNSAID: &[&str] = &["id", "status", "cache_control", "annotations", "logprobs", "index"];

/// One thing that was said.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Item {
    /// Instructions.
    System(String),
    /// Text, by `user`, `assistant`, or whom the producer names.
    Text { role: String, text: String },
    /// The model asks for a tool.
    Call { name: String, arguments: Value },
    /// What a tool gave.
    Result(Value),
    /// Everything else (images, files), by what is known of it.
    Other { role: String, value: Value },
}

/// A hash of a canonical form.
pub(super) type Print = [u8; 32];

/// Hashes of one item, or of a list of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Prints {
    /// Of what it says.
    pub exact: Print,
    /// Of what it says, without what is volatile.
    pub loose: Print,
    /// Of who speaks, and the names of tools and arguments: no free text.
    pub shape: Print,
}

/// Instructions and what was said, in canonical form.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Said {
    /// Instructions, wherever they stood.
    pub system: Vec<Item>,
    /// The rest, oldest first.
    pub items: Vec<Item>,
}

impl Said {
    /// About how many bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        let of = |item: &Item| match item {
            Item::System(text) | Item::Text { text, .. } => text.len(),
            other => other.document().to_string().len(),
        };
        self.system.iter().chain(&self.items).map(of).sum()
    }

    /// Adds the parts of instructions.
    pub(super) fn instruct(&mut self, parts: &[Part]) {
        let message = Message { role: "system".into(), parts: parts.to_vec(), ..Message::default() };
        self.extend(&message);
    }

    /// Adds what a message says.
    pub(super) fn extend(&mut self, message: &Message) {
        let mut calls: Vec<&str> = Vec::new();
        for part in &message.parts {
            // Some producers write a call twice: as a block of the content, and in the list of calls.
            if let Part::ToolCall { id: Some(id), .. } = part {
                if calls.contains(&id.as_str()) {
                    continue;
                }
                calls.push(id);
            }
            match item(&message.role, part) {
                Some(item @ Item::System(_)) => self.system.push(item),
                Some(item) => self.items.push(item),
                None => {}
            }
        }
    }
}

fn item(role: &str, part: &Part) -> Option<Item> {
    let role = match role {
        "developer" => "system",
        "model" | "ai" => "assistant",
        "human" => "user",
        role => role,
    };
    Some(match part {
        Part::Text { content, .. } => {
            let text = nfc(content.as_deref().filter(|text| !text.is_empty())?);
            match role {
                "system" => Item::System(text),
                "tool" | "function" => Item::Result(opened(&Value::from(text))),
                role => Item::Text { role: role.to_owned(), text },
            }
        }
        Part::ToolCall { name, arguments, .. } => {
            let arguments = arguments.as_ref().map(opened).unwrap_or_default();
            // No arguments are written as nothing, as null and as an empty object.
            let arguments = if arguments.is_null() { Value::Object(Map::new()) } else { arguments };
            Item::Call { name: name.clone(), arguments }
        }
        Part::ToolCallResponse { response, extra, .. } => {
            let result = opened(response.as_ref().unwrap_or(&Value::Null));
            let failed = extra.get("is_error").and_then(Value::as_bool) == Some(true);
            // Few producers record that a tool failed beside what it said.
            Item::Result(if failed {
                Value::Object(Map::from_iter([("error".into(), result)]))
            } else {
                result
            })
        }
        Part::Reasoning { .. } => return None,
        Part::Other(members) => {
            let kind = members.get("type").and_then(Value::as_str).unwrap_or_default();
            // Marks for a cache say nothing, and some write them as a block.
            let is_mark = members.contains_key("cachePoint") || kind == "cachePoint";
            if is_mark || matches!(kind, "reasoning" | "thinking" | "redacted_thinking" | "compaction") {
                return None;
            }
            let said = members.iter().filter(|(name, _)| !UNSAID.contains(&name.as_str()));
            let said: Map<String, Value> = said.map(|(name, value)| (name.clone(), value.clone())).collect();
            Item::Other { role: role.to_owned(), value: canonical(&Value::Object(said)) }
        }
    })
}

/// A result without the envelope that clients put around it: a text where only objects are taken, a failure.
fn unwrapped(value: &Value) -> Value {
    let inner =
        value.as_object().filter(|members| members.len() == 1).and_then(|members| members.iter().next());
    match inner {
        Some((name, inner)) if matches!(name.as_str(), "error" | "result" | "output" | "content") => {
            opened(inner)
        }
        _ => value.clone(),
    }
}

/// JSON text opened, and the value in canonical form.
pub(super) fn opened(value: &Value) -> Value {
    let opened = match value {
        Value::String(text) if state::is_json_like(text) => serde_json::from_str(text).ok(),
        _ => None,
    };
    canonical(opened.as_ref().unwrap_or(value))
}

/// `value` with keys in order, whole numbers without a fraction, and texts in NFC. Depth is bounded by the readers.
pub(super) fn canonical(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut sorted: Vec<_> = members.iter().map(|(k, v)| (nfc(k), canonical(v))).collect();
            sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
            Value::Object(sorted.into_iter().collect())
        }
        Value::Array(items) => items.iter().map(canonical).collect(),
        Value::String(text) => Value::String(nfc(text)),
        Value::Number(number) => Value::Number(whole(number)),
        other => other.clone(),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "checked to be whole and small")]
fn whole(number: &Number) -> Number {
    /// Up to here every whole number is exact.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    match number.as_f64() {
        Some(value) if number.is_f64() && value.fract() == 0.0 && value.abs() <= EXACT_MAX => {
            Number::from(value as i64)
        }
        _ => number.clone(),
    }
}

fn nfc(text: &str) -> String {
    if is_nfc(text) { text.to_owned() } else { text.nfc().collect() }
}

impl Item {
    /// The hashes of the item.
    pub(super) fn prints(&self) -> Prints {
        match self {
            Self::System(text) => prints("system", "", &text.as_str().into(), true),
            Self::Text { role, text } => prints("text", role, &text.as_str().into(), false),
            Self::Call { name, arguments } => {
                let keys = arguments.as_object().map(|members| members.keys().cloned().collect::<Vec<_>>());
                let prints = prints("call", name, arguments, false);
                let shape = print(&["call", name, &keys.unwrap_or_default().join(",")]);
                Prints { shape, ..prints }
            }
            Self::Result(value) => {
                let prints_of = |value: &Value| prints("result", "", value, false);
                Prints { loose: prints_of(&unwrapped(value)).loose, ..prints_of(value) }
            }
            Self::Other { role, value } => prints("other", role, value, false),
        }
    }

    /// The item as the reports show it.
    pub(super) fn document(&self) -> Value {
        let member = |role: &str, name: &str, value: Value| {
            Value::Object(Map::from_iter([("role".into(), role.into()), (name.to_owned(), value)]))
        };
        match self {
            Self::System(text) => text.as_str().into(),
            Self::Text { role, text } => member(role, "text", text.as_str().into()),
            Self::Call { name, arguments } => {
                let mut call = member("assistant", "call", name.as_str().into());
                if let Some(members) = call.as_object_mut() {
                    let _ = members.insert("arguments".into(), arguments.clone());
                }
                call
            }
            Self::Result(value) => member("tool", "result", value.clone()),
            Self::Other { role, value } => member(role, "part", value.clone()),
        }
    }
}

fn prints(kind: &str, who: &str, value: &Value, instructions: bool) -> Prints {
    let exact = text_of(value, &|text| text.to_owned());
    let loose = text_of(value, &|text| volatile::without(text, instructions).into_owned());
    Prints {
        exact: print(&[kind, who, &exact]),
        loose: if exact == loose { print(&[kind, who, &exact]) } else { print(&[kind, who, &loose]) },
        shape: print(&[kind, who]),
    }
}

/// JSON text of a canonical value, its strings mapped; a bare text stays as it is.
fn text_of(value: &Value, map: &dyn Fn(&str) -> String) -> String {
    fn mapped(value: &Value, map: &dyn Fn(&str) -> String) -> Value {
        match value {
            Value::String(text) => Value::String(map(text)),
            Value::Array(items) => items.iter().map(|item| mapped(item, map)).collect(),
            Value::Object(members) => {
                members.iter().map(|(key, value)| (key.clone(), mapped(value, map))).collect()
            }
            other => other.clone(),
        }
    }
    match value {
        Value::String(text) => format!("\"{}", map(text)),
        other => mapped(other, map).to_string(),
    }
}

fn print(parts: &[&str]) -> Print {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        let _ = hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
    }
    *hasher.finalize().as_bytes()
}

/// The hashes of an empty list.
pub(super) fn empty() -> Prints {
    Prints { exact: [0; 32], loose: [0; 32], shape: [0; 32] }
}

/// The hashes of a list that goes on with `items` behind what has the hashes `before`.
pub(super) fn chain<'a>(before: Prints, items: impl IntoIterator<Item = &'a Prints>) -> Prints {
    items.into_iter().fold(before, |before, item| Prints {
        exact: join(&before.exact, &item.exact),
        loose: join(&before.loose, &item.loose),
        shape: join(&before.shape, &item.shape),
    })
}

/// The hashes of a list.
pub(super) fn list<'a>(items: impl IntoIterator<Item = &'a Prints>) -> Prints {
    chain(empty(), items)
}

/// A hash of a list in whatever order, without what is volatile.
pub(super) fn bag(items: &[Prints]) -> Print {
    let mut loose: Vec<&Print> = items.iter().map(|item| &item.loose).collect();
    loose.sort_unstable();
    let mut hasher = blake3::Hasher::new();
    for print in loose {
        let _ = hasher.update(print);
    }
    *hasher.finalize().as_bytes()
}

fn join(head: &Print, tail: &Print) -> Print {
    let mut hasher = blake3::Hasher::new();
    let _ = hasher.update(head).update(tail);
    *hasher.finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn said(messages: Value) -> Said {
        let read = crate::genai::parse::messages(&messages, "user", &mut Vec::new());
        let mut said = Said::default();
        for message in &read.value {
            said.extend(message);
        }
        said
    }

    #[test]
    fn the_same_conversation_differs_by_provider() {
        let chat = said(json!([
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "Umbrella?"},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "w", "arguments": "{\"n\": 1.0, \"c\":\"P\"}"}}]},
            {"role": "tool", "tool_call_id": "call_1", "content": "{\"t\":18}"},
        ]));
        let blocks = said(json!([
            {"role": "user", "content": [{"type": "text", "text": "Umbrella?"}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_9", "name": "w", "input": {"c": "P", "n": 1}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_9", "content": "{\"t\": 18}"}]},
        ]));
        assert_eq!(chat.items, blocks.items);
        assert_eq!(chat.system, [Item::System("Be kind.".into())]);
        let recorded = said(json!([
            {"role": "user", "parts": [{"type": "text", "content": "Umbrella?"}]},
            {"role": "assistant", "parts": [{"type": "tool_call", "id": "x", "name": "w", "arguments": {"c": "P", "n": 1}},
                {"type": "tool_call", "id": "x", "name": "w", "arguments": {"c": "P", "n": 1}}]},
            {"role": "tool", "parts": [{"type": "tool_call_response", "id": "x", "response": {"t": 18}}]},
        ]));
        assert_eq!(recorded.items, chat.items);
    }

    #[test]
    fn what_is_volatile_or_free_text_changes_a_hash_that_leaves_it_out() {
        let text = |text: &str| Item::Text { role: "user".into(), text: text.into() }.prints();
        let (a, b) = (text("at 2026-11-30T02:00:00Z"), text("at 2026-12-01T03:00:01Z"));
        assert!(a.exact != b.exact && a.loose == b.loose && a.shape == b.shape);
        assert!(text("one").loose != text("two").loose && text("one").shape == text("two").shape);
        let call = |arguments: Value| Item::Call { name: "w".into(), arguments }.prints();
        assert_eq!(call(json!({"c": "P"})).shape, call(json!({"c": "L"})).shape);
        assert_ne!(call(json!({"c": "P"})).shape, call(json!({"d": "P"})).shape);
        assert_ne!(call(json!("1")).exact, call(json!(1)).exact);
        let result = |value: Value| Item::Result(opened(&value)).prints();
        let (bare, wrapped) = (result(json!("Error: no")), result(json!({"error": "Error: no"})));
        assert!(bare.exact != wrapped.exact && bare.loose == wrapped.loose);
        assert_ne!(result(json!({"error": "a"})).loose, result(json!({"error": "b"})).loose);
    }

    proptest! {
        /// Keys in any order and numbers written otherwise give equal hashes, and a list's hash sees its order.
        #[test]
        fn a_way_of_writing_changes_a_hash(keys in prop::collection::btree_map("[a-z]{1,3}", -9_i64..9, 1..5)) {
            let forward: Map<String, Value> = keys.iter().map(|(k, v)| (k.clone(), json!(v))).collect();
            #[expect(clippy::cast_precision_loss, reason = "small")]
            let backward: Map<String, Value> = keys.iter().rev().map(|(k, v)| (k.clone(), json!(*v as f64))).collect();
            let call = |arguments: Map<String, Value>| {
                let part = Part::tool_call(None, "w", Some(Value::Object(arguments)));
                item("assistant", &part).unwrap().prints()
            };
            let (a, b) = (call(forward), call(backward));
            prop_assert_eq!(a, b);
            let text = Item::Text { role: "user".into(), text: "x".into() }.prints();
            prop_assert_ne!(list(&[text, a, b]), list(&[a, text, b]));
            prop_assert_eq!(list(&[text, a, b]), chain(list(&[text, a]), &[b]));
            prop_assert_eq!(bag(&[text, a, b]), bag(&[b, text, a]));
            prop_assert_ne!(bag(&[text, a, b]), bag(&[text, a]));
        }
    }
}
