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

use super::redact;

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

/// Masks content: what was said, arguments, results, errors. Ids, names and numbers stay.
fn mask(document: &mut Value) {
    let ids = ["run_id", "aliases", "record_digest", "trace_id", "trace_ids", "trace", "steps", "tenant_id"];
    for (name, member) in document.as_object_mut().into_iter().flatten() {
        if !ids.contains(&name.as_str()) {
            redact::value(member);
        }
    }
    let own = ["span_id", "trace_id", "started_at", "ended_at", "response_id", "superseded_spans"];
    for step in document.get_mut("steps").and_then(Value::as_array_mut).into_iter().flatten() {
        for (name, member) in step.as_object_mut().into_iter().flatten() {
            if !own.contains(&name.as_str()) {
                redact::value(member);
            }
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
