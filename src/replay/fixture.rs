//! A run as a folder that goes into a repository: small files that a diff can be read of, and enough to simulate it.
//!
//! | file | what |
//! |---|---|
//! | `manifest.json` | format, run, verdict, the rule set that masked it, a checksum of each other file |
//! | `run.json` | the replay document without its steps |
//! | `messages.jsonl` | each message once, in order of first use |
//! | `steps.jsonl` | the steps; their input refers to the messages |

mod read;

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    redact,
    sim::{call::ToolDefinition, tools},
};
use crate::genai::message::Part;

pub use read::{Error, Line, read, run_of};

/// The version of the layout.
pub const FORMAT: u32 = 1;
/// The file that makes a folder a fixture.
pub const MANIFEST: &str = "manifest.json";
const RUN: &str = "run.json";
const MESSAGES: &str = "messages.jsonl";
const STEPS: &str = "steps.jsonl";

/// What a fixture says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Manifest {
    pub format: u32,
    pub run_id: String,
    pub record_digest: String,
    pub replayability: String,
    /// The rule set that masked content; `null` for a fixture that was not redacted.
    pub redaction: Option<String>,
    /// File name -> `blake3:` and the hash of its bytes.
    pub files: std::collections::BTreeMap<String, String>,
}

/// The files of a fixture of the run whose replay document is given. `is_redacted` masks its content.
pub fn files(document: &Value, is_redacted: bool) -> Vec<(&'static str, String)> {
    let mut document = document.clone();
    if is_redacted {
        mask(&mut document);
    }
    let steps = document.get_mut("steps").map(Value::take).unwrap_or_default();
    let mut messages = Messages::default();
    let mut lines = String::new();
    for mut step in steps.as_array().cloned().unwrap_or_default() {
        if let Some(input) = step.get_mut("input").and_then(Value::as_object_mut) {
            let said = input.remove("messages").unwrap_or_default();
            let indexes: Vec<usize> =
                said.as_array().into_iter().flatten().map(|m| messages.intern(m)).collect();
            let _ = input.insert("message_indexes".into(), json!(indexes));
        }
        lines.push_str(&format!("{step}\n"));
    }
    if let Some(members) = document.as_object_mut() {
        let _ = members.remove("steps");
    }
    let text = |name: &str| document.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let content = [(RUN, format!("{document:#}\n")), (MESSAGES, messages.lines), (STEPS, lines)];
    let manifest = Manifest {
        format: FORMAT,
        run_id: text("run_id"),
        record_digest: text("record_digest"),
        replayability: text("replayability"),
        redaction: is_redacted.then(|| redact::RULE_SET.to_owned()),
        files: content.iter().map(|(name, text)| ((*name).to_owned(), checksum(text.as_bytes()))).collect(),
    };
    let manifest = serde_json::to_string_pretty(&manifest).unwrap_or_default();
    std::iter::once((MANIFEST, manifest + "\n")).chain(content).collect()
}

/// Masks content: what was said, arguments, results, errors, and who it was for. Names and numbers stay: live calls go by
/// the names of models and tools.
fn mask(document: &mut Value) {
    for name in ["error", "conversation", "user", "thread"] {
        document.get_mut(name).into_iter().for_each(redact::value);
    }
    for told in ["partial_reasons", "notes"] {
        for entry in document.get_mut(told).and_then(Value::as_array_mut).into_iter().flatten() {
            entry.get_mut("detail").into_iter().for_each(redact::value);
        }
    }
    for step in document.get_mut("steps").and_then(Value::as_array_mut).into_iter().flatten() {
        for name in ["error", "decision", "retrieval"] {
            step.get_mut(name).into_iter().for_each(redact::value);
        }
        for at in ["/tool/arguments", "/tool/result"] {
            step.pointer_mut(at).into_iter().for_each(redact::value);
        }
        for at in ["/input/messages", "/output/messages"] {
            for message in step.pointer_mut(at).and_then(Value::as_array_mut).into_iter().flatten() {
                message.get_mut("parts").into_iter().for_each(mask_parts);
            }
        }
        step.pointer_mut("/input/system_instructions").into_iter().for_each(mask_parts);
        if let Some(members) = step.as_object_mut() {
            // A producer may write anything there, and nothing needs it.
            let _ = members.remove("response_id");
            if let Some(tools) = members.get_mut("tool_definitions").filter(|tools| !tools.is_null()) {
                *tools =
                    json!(tools::read(tools).into_iter().map(ToolDefinition::redacted).collect::<Vec<_>>());
            }
        }
    }
}

fn mask_parts(parts: &mut Value) {
    for part in parts.as_array_mut().into_iter().flatten() {
        if let Ok(mut read) = serde_json::from_value::<Part>(part.clone()) {
            redact::part(&mut read);
            *part = json!(read);
        } else {
            redact::value(part);
        }
    }
}

fn checksum(bytes: &[u8]) -> String {
    format!("blake3:{}", blake3::hash(bytes).to_hex())
}

/// Messages by their text.
#[derive(Default)]
struct Messages {
    lines: String,
    by_text: HashMap<String, usize>,
}

impl Messages {
    fn intern(&mut self, message: &Value) -> usize {
        let text = message.to_string();
        let next = self.by_text.len();
        *self.by_text.entry(text).or_insert_with_key(|text| {
            self.lines.push_str(text);
            self.lines.push('\n');
            next
        })
    }
}

#[cfg(test)]
mod tests;
