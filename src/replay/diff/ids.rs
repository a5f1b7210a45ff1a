//! What a run says without the ids in it, which no two runs share.

use std::{borrow::Cow, collections::HashSet};

use serde_json::{Map, Value};

use super::digest::Digest;
use crate::{
    genai::message::{Message, Part},
    run::model::Run,
};

/// Stands where an id of the run stood.
const ID: &str = "(id)";
/// A shorter id could be a word that means something.
const ID_BYTES_MIN: usize = 12;
/// Members of a part, and of what vendors add to it, that tell one answer of a provider from the next.
const ID_MEMBERS: &[&str] = &[
    "id",
    "call_id",
    "callId",
    "itemId",
    "item_id",
    "signature",
    "thought_signature",
    "tool_call_id",
    "toolCallId",
];
/// Members of a part in which an `id` means something.
const CONTENT_MEMBERS: &[&str] = &["arguments", "content", "response"];

/// The ids of a run: its own, those of its traces, spans, responses and tool calls.
#[derive(Debug)]
pub(super) struct Ids<'a>(HashSet<Cow<'a, str>>);

impl<'a> Ids<'a> {
    pub(super) fn of(run: &'a Run) -> Self {
        let inputs = run.messages.iter().map(|m| &m.message);
        let outputs = run.steps.iter().flat_map(|step| &step.output_messages);
        let parts = inputs.chain(outputs).flat_map(|message| &message.parts);
        let calls = parts.filter_map(|part| match part {
            Part::ToolCall { id, .. } | Part::ToolCallResponse { id, .. } => id.as_ref(),
            _ => None,
        });
        let steps = run.steps.iter().flat_map(|step| [&step.response_id, &step.tool_call_id]).flatten();
        let named = run.aliases.iter().chain([&run.run_id]).chain(calls).chain(steps);
        let spans = run.steps.iter().filter_map(|step| step.span_id).map(|id| id.to_string());
        let all = named.map(|id| Cow::from(id.as_str()));
        let all = all.chain(run.trace_ids.iter().map(ToString::to_string).chain(spans).map(Cow::from));
        Self(all.filter(|id| id.len() >= ID_BYTES_MIN).collect())
    }

    /// A value of the run.
    pub(super) fn value(&self, of: &impl serde::Serialize) -> Value {
        let mut value = serde_json::to_value(of).unwrap_or_default();
        self.hide(&mut value);
        value
    }

    /// A message as the step document has it.
    pub(super) fn message(&self, message: &Message) -> Value {
        let mut value = self.value(message);
        if let Some(members) = value.as_object_mut() {
            // The finish reasons of the step tell it.
            let _ = members.shift_remove("finish_reason");
        }
        value.get_mut("parts").and_then(Value::as_array_mut).into_iter().flatten().for_each(without_id);
        value
    }

    /// Parts of a message.
    pub(super) fn parts(&self, parts: &[Part]) -> Value {
        let mut value = self.value(&parts);
        value.as_array_mut().into_iter().flatten().for_each(without_id);
        value
    }

    pub(super) fn name_of_message(&self, message: &Message) -> u128 {
        Digest::of(&self.message(message))
    }

    /// The name of a part of a message: that of a call and of a result is the one that their own step has.
    pub(super) fn name_of_part(&self, part: &Part) -> u128 {
        match part {
            Part::ToolCall { name, arguments, .. } => self.name_of_call(name, arguments.as_ref()),
            Part::ToolCallResponse { response, .. } => self.name_of_result(response.as_ref()),
            part => Digest::of(&self.parts(std::slice::from_ref(part))),
        }
    }

    pub(super) fn name_of_call(&self, name: &str, arguments: Option<&Value>) -> u128 {
        Digest::default().text("call").text(name).value(&self.opened(arguments)).finish()
    }

    pub(super) fn name_of_result(&self, result: Option<&Value>) -> u128 {
        Digest::default().text("result").value(&self.opened(result)).finish()
    }

    /// JSON text as what it stands for: a step may hold the one and a message the other.
    fn opened(&self, value: Option<&Value>) -> Value {
        match value {
            Some(Value::String(text)) => {
                self.value(&serde_json::from_str(text).unwrap_or(Value::from(text.as_str())))
            }
            value => self.value(&value),
        }
    }

    fn hide(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Some(without) = self.without(text) {
                    *text = without;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.hide(item)),
            Value::Object(members) => members.values_mut().for_each(|member| self.hide(member)),
            _ => {}
        }
    }

    /// The text without ids; `None` when it has none.
    fn without(&self, text: &str) -> Option<String> {
        if text.len() < ID_BYTES_MIN {
            return None;
        }
        let in_id = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
        let is_id = |word: &str| word.len() >= ID_BYTES_MIN && self.0.contains(word);
        let words = || text.split_inclusive(|c| !in_id(c)).map(|word| word.trim_end_matches(|c| !in_id(c)));
        if !words().any(is_id) {
            return None;
        }
        let mut without = String::with_capacity(text.len());
        for piece in text.split_inclusive(|c| !in_id(c)) {
            let word = piece.trim_end_matches(|c| !in_id(c));
            without.push_str(if is_id(word) { ID } else { word });
            without.push_str(piece.get(word.len()..).unwrap_or_default());
        }
        Some(without)
    }
}

/// Takes the ids off a part of a message, those in what vendors add too.
fn without_id(part: &mut Value) {
    let Some(members) = part.as_object_mut() else { return };
    members.retain(|name, _| !ID_MEMBERS.contains(&name.as_str()));
    let vendors = |name: &str| !CONTENT_MEMBERS.contains(&name);
    members.retain(|name, member| !vendors(name) || member.as_object_mut().is_none_or(keeps_more_than_ids));
}

/// False when a member that held only ids is empty without them. Recursion is bounded: the receiver keeps values nested
/// deeper than its limit as opaque bytes.
fn keeps_more_than_ids(members: &mut Map<String, Value>) -> bool {
    let before = members.len();
    members.retain(|name, member| {
        !ID_MEMBERS.contains(&name.as_str()) && member.as_object_mut().is_none_or(keeps_more_than_ids)
    });
    before == 0 || !members.is_empty()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_id_in_a_text_stays() {
        let ids = Ids(["call_0123456789".into(), "3a8aa0a4-01a9-487e-bc74-f0346b69b214".into()].into());
        let said = "answer (call_0123456789, 3a8aa0a4-01a9-487e-bc74-f0346b69b214) to call_01234567890é";
        assert_eq!(ids.without(said).as_deref(), Some("answer ((id), (id)) to call_01234567890é"));
        assert_eq!(ids.without("call_0123456789").as_deref(), Some("(id)"));
        assert_eq!(ids.without("call_01234567 89"), None);
    }

    #[test]
    fn an_id_that_a_vendor_adds_stays_or_content_goes() {
        let part = json!({"type": "tool_call", "id": "c", "name": "t", "arguments": {"id": 7},
            "providerOptions": {"openai": {"itemId": "fc_1"}}, "meta": {"cache": {"id": "x", "ttl": 5}}, "none": {}});
        let ids = Ids(HashSet::new());
        let shown = ids.parts(&[serde_json::from_value(part).unwrap()]);
        let left = json!([{"type": "tool_call", "name": "t", "arguments": {"id": 7},
            "meta": {"cache": {"ttl": 5}}, "none": {}}]);
        assert_eq!(shown, left);
    }
}
