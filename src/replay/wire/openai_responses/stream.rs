//! A response as events. Every kind of event but a few is needed by some client, so that the whole grammar is sent.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::replay::wire::{
    answer::{numbered, set, text},
    event, pieces,
};

/// The events of `whole`, which began as `begun`.
pub(super) fn frames(begun: &Value, whole: &Value) -> Vec<Bytes> {
    let mut events = Events::default();
    events.push("response.created", json!({ "response": begun }));
    events.push("response.in_progress", json!({ "response": begun }));
    for (index, item) in numbered(whole, "output") {
        events.item(index, item);
    }
    let end = if text(whole, "status") == "completed" { "response.completed" } else { "response.incomplete" };
    events.push(end, json!({ "response": whole }));
    events.frames
}

#[derive(Default)]
struct Events {
    frames: Vec<Bytes>,
}

impl Events {
    /// An event; `members` is an object.
    fn push(&mut self, kind: &str, members: Value) {
        let mut data = Map::new();
        let _ = data.insert("type".into(), kind.into());
        let _ = data.insert("sequence_number".into(), self.frames.len().into());
        if let Value::Object(members) = members {
            data.extend(members);
        }
        self.frames.push(event(Some(kind), &Value::Object(data)));
    }

    fn item(&mut self, index: usize, item: &Value) {
        let at = json!({"item_id": item.get("id"), "output_index": index});
        let mut begun = item.clone();
        // Reasoning has no status.
        if begun.get("status").is_some() {
            set(&mut begun, "status", "in_progress");
        }
        match text(item, "type") {
            "message" => set(&mut begun, "content", json!([])),
            "reasoning" => set(&mut begun, "summary", json!([])),
            "function_call" => set(&mut begun, "arguments", ""),
            "custom_tool_call" => set(&mut begun, "input", ""),
            _ => {}
        }
        self.push("response.output_item.added", json!({"output_index": index, "item": begun}));
        match text(item, "type") {
            "message" => {
                for (content, part) in numbered(item, "content") {
                    self.content(&with(&at, &[("content_index", content.into())]), part);
                }
            }
            "reasoning" => {
                for (summary, part) in numbered(item, "summary") {
                    self.summary(&with(&at, &[("summary_index", summary.into())]), part);
                }
            }
            "function_call" => self.text("response.function_call_arguments", &at, "arguments", item, &[]),
            "custom_tool_call" => self.text("response.custom_tool_call_input", &at, "input", item, &[]),
            _ => {}
        }
        self.push("response.output_item.done", json!({"output_index": index, "item": item}));
    }

    fn content(&mut self, at: &Value, part: &Value) {
        let (kind, member, beside) = match text(part, "type") {
            "refusal" => ("response.refusal", "refusal", &[][..]),
            _ => ("response.output_text", "text", &[("logprobs", json!([]))][..]),
        };
        let mut begun = part.clone();
        set(&mut begun, member, "");
        self.push("response.content_part.added", with(at, &[("part", begun)]));
        self.text(kind, at, member, part, beside);
        self.push("response.content_part.done", with(at, &[("part", part.clone())]));
    }

    fn summary(&mut self, at: &Value, part: &Value) {
        let begun = json!({"type": "summary_text", "text": ""});
        self.push("response.reasoning_summary_part.added", with(at, &[("part", begun)]));
        self.text("response.reasoning_summary_text", at, "text", part, &[]);
        self.push("response.reasoning_summary_part.done", with(at, &[("part", part.clone())]));
    }

    /// The text under `member`: each piece of it, and the whole of it once more.
    fn text(&mut self, kind: &str, at: &Value, member: &str, holder: &Value, beside: &[(&str, Value)]) {
        let text = text(holder, member);
        for piece in pieces(text) {
            let members = with(&with(at, &[("delta", piece.into())]), beside);
            self.push(&format!("{kind}.delta"), members);
        }
        self.push(&format!("{kind}.done"), with(&with(at, &[(member, text.into())]), beside));
    }
}

fn with(members: &Value, more: &[(&str, Value)]) -> Value {
    let mut members = members.clone();
    for (key, value) in more {
        set(&mut members, key, value.clone());
    }
    members
}
