//! Messages by content, so that a history that every model call repeats is stored once.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use serde_json::Value;

use super::model::RunMessage;
use crate::genai::message::Message;

/// The messages of a run, in order of first use.
#[derive(Debug, Default)]
pub(super) struct Messages {
    list: Vec<RunMessage>,
    by_hash: HashMap<[u8; 32], u32>,
    /// By where a message lies, which is held as long: a history that was read once is hashed once.
    by_address: HashMap<usize, (Arc<Message>, u32)>,
}

impl Messages {
    /// The index of `message`, which step `step_index` uses.
    pub(super) fn intern(&mut self, message: Arc<Message>, step_index: u32) -> u32 {
        let address = Arc::as_ptr(&message).addr();
        if let Some((_, index)) = self.by_address.get(&address) {
            return *index;
        }
        let hash = hash(&message);
        let next = u32::try_from(self.list.len()).unwrap_or(u32::MAX);
        let index = match self.by_hash.entry(hash) {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(entry) => {
                let mut message = Arc::clone(&message);
                if message.finish_reason.is_some() {
                    Arc::make_mut(&mut message).finish_reason = None;
                }
                self.list.push(RunMessage { hash, message, first_step_index: step_index });
                *entry.insert(next)
            }
        };
        let _ = self.by_address.insert(address, (message, index));
        index
    }

    /// The messages themselves.
    pub(super) fn into_list(self) -> Vec<RunMessage> {
        self.list
    }
}

/// JSON with the keys of every object in order: equal values give equal text.
pub(super) fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write(value, &mut text);
    text
}

/// BLAKE3 over role, name and parts in canonical JSON.
fn hash(message: &Message) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    let mut part = |text: &str| {
        let _ = hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
    };
    part(&message.role);
    // An absent name and an empty one are told apart by the number of parts.
    if let Some(name) = &message.name {
        part(name);
    }
    part(&canonical(&serde_json::to_value(&message.parts).unwrap_or_default()));
    *hasher.finalize().as_bytes()
}

/// Recursion is bounded: the receiver keeps values nested deeper than its limit as opaque bytes.
fn write(value: &Value, text: &mut String) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<_> = map.iter().collect();
            keys.sort_by_key(|(key, _)| *key);
            text.push('{');
            for (n, (key, value)) in keys.into_iter().enumerate() {
                if n > 0 {
                    text.push(',');
                }
                text.push_str(&Value::from(key.as_str()).to_string());
                text.push(':');
                write(value, text);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (n, value) in items.iter().enumerate() {
                if n > 0 {
                    text.push(',');
                }
                write(value, text);
            }
            text.push(']');
        }
        scalar => text.push_str(&scalar.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::genai::message::Part;

    #[test]
    fn a_finish_reason_or_the_order_of_keys_changes_the_name_of_a_message() {
        let with = Message { role: "assistant".into(), parts: vec![Part::text("a")], ..Default::default() };
        let without = Message { finish_reason: Some("stop".into()), ..with.clone() };
        let call = |text: &str| Message {
            parts: vec![Part::tool_call(None, "f", serde_json::from_str(text).unwrap())],
            ..with.clone()
        };
        let all =
            [&with, &without, &call(r#"{"a":1,"b":2}"#), &call(r#"{"b":2,"a":1}"#), &call(r#"{"a":2}"#)];
        let mut messages = Messages::default();
        let indexes = all.map(|message| messages.intern(Arc::new(message.clone()), 7));
        assert_eq!(indexes, [0, 0, 1, 1, 2]);
        assert_eq!(messages.into_list().first().unwrap().message.finish_reason, None);
    }
}
