//! Items that a program refers to by their id in place of sending them: the AI SDK does so with what it was answered.

use serde_json::Value;

use super::{output, said};
use crate::{
    genai::message::Part,
    replay::{
        sim::call::{ModelAnswer, ModelCall},
        wire::{answer::text, request},
    },
};

/// Hex digits of [`ModelAnswer::id`].
const ANSWER_ID_CHARS: usize = 24;

/// Puts into `call` the items that it refers to. `answered` knows the answers of the session by their id. What it does
/// not know stays a reference.
pub(super) fn resolve(call: &mut ModelCall, answered: &dyn Fn(&str) -> Option<ModelAnswer>) {
    let mut messages = std::mem::take(&mut call.messages);
    for message in &mut messages {
        if message.parts.iter().any(|part| reference(part).is_some()) {
            let parts = std::mem::take(&mut message.parts);
            message.parts = parts.into_iter().flat_map(|part| resolved(call, part, answered)).collect();
        }
    }
    call.messages = messages;
}

fn resolved(call: &ModelCall, part: Part, answered: &dyn Fn(&str) -> Option<ModelAnswer>) -> Vec<Part> {
    let item = reference(&part).and_then(|id| {
        let answer = answered(answer_id(id)?)?;
        output(call, &answer, &said(&answer)).into_iter().find(|item| text(item, "id") == id)
    });
    // Read as a program would have given it back.
    item.map_or_else(
        || vec![part],
        |item| request::messages(&Value::Array(vec![item])).into_iter().flat_map(|m| m.parts).collect(),
    )
}

fn reference(part: &Part) -> Option<&str> {
    let Part::Other(block) = part else { return None };
    let _ = block.get("type").filter(|kind| *kind == "item_reference")?;
    block.get("id")?.as_str()
}

/// The id of the answer that an item is of.
fn answer_id(item: &str) -> Option<&str> {
    item.rsplit_once('_')?.1.get(..ANSWER_ID_CHARS)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::replay::wire::{OpenAiResponses, Surface, fixture};

    /// Scenario: a program gives back a turn, once as items and once as references to them.
    /// Guarantee: both are the same turn, and a reference to what nobody was answered stays.
    #[test]
    fn a_turn_that_is_referred_to_is_not_there() {
        let answer = fixture::answer();
        let items = OpenAiResponses.whole(&fixture::call(), &answer)["output"].clone();
        let references =
            items.as_array().unwrap().iter().map(|i| json!({"type": "item_reference", "id": i["id"]}));
        let read = |input: Value| {
            let mut call = OpenAiResponses.read(&json!({"model": "m", "input": input}), None, false).unwrap();
            resolve(&mut call, &|id| (id == answer.id).then(|| answer.clone()));
            call.messages
        };
        assert_eq!(read(references.collect()), read(items));
        let unknown =
            json!([{"type": "item_reference", "id": "msg_0"}, {"type": "item_reference", "id": "ü"}]);
        assert_eq!(read(unknown)[0].parts.len(), 2);
    }
}
