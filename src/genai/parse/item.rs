//! Items of OpenAI's Responses API, which stand beside messages and not in them.

use serde_json::{Map, Value};

use crate::genai::message::{Message, Part};

/// Items that call a tool which the program runs, and those that answer.
pub(super) const CALLS: &[&str] = &["function_call", "custom_tool_call"];
pub(super) const RESULTS: &[&str] = &[
    "function_call_output",
    "custom_tool_call_output",
    "computer_call_output",
    "local_shell_call_output",
    "shell_call_output",
    "apply_patch_call_output",
];
/// What the provider runs for the model.
pub const OF_PROVIDER: &[&str] = &[
    "web_search_call",
    "file_search_call",
    "computer_call",
    "code_interpreter_call",
    "image_generation_call",
    "local_shell_call",
    "shell_call",
    "apply_patch_call",
    "mcp_call",
    "mcp_list_tools",
    "mcp_approval_request",
];
/// What else the model puts into a conversation.
const OF_MODEL: &[&str] = &["reasoning", "item_reference"];

pub(super) fn is_item(value: &Value) -> bool {
    let kind = value.get("type").and_then(Value::as_str);
    value.get("role").is_none()
        && kind.is_some_and(|kind| {
            [CALLS, RESULTS, OF_MODEL, OF_PROVIDER].iter().any(|kinds| kinds.contains(&kind))
        })
}

/// True for a part in no words of the schema that the model said.
pub(super) fn is_of_model(part: &Map<String, Value>) -> bool {
    part.get("type")
        .and_then(Value::as_str)
        .is_some_and(|kind| OF_MODEL.contains(&kind) || OF_PROVIDER.contains(&kind))
}

/// Items of one turn of the model are one message.
pub(super) fn join(messages: &mut Vec<Message>, first: usize) {
    let items = messages.split_off(first.min(messages.len()));
    for item in items {
        match messages.get_mut(first..).and_then(<[Message]>::last_mut) {
            Some(last) if last.role == "assistant" && item.role == "assistant" => {
                last.parts.extend(item.parts);
                last.finish_reason = item.finish_reason.or(last.finish_reason.take());
            }
            _ => messages.push(item),
        }
    }
}

/// The text of a reasoning item: its own, else its summary. Most of it stays with the provider.
pub(super) fn reasoning(item: &Map<String, Value>) -> Option<String> {
    let texts = |key: &str| {
        let texts = item.get(key)?.as_array()?.iter().filter_map(|s| s.get("text")?.as_str());
        Some(texts.collect::<Vec<_>>().join("\n")).filter(|text| !text.is_empty())
    };
    texts("content").or_else(|| texts("summary"))
}

/// The part for a refusal: chat completions have a member of the message where this API has a part.
pub(super) fn refusal(text: String) -> Part {
    let members = [("type", Value::from("refusal")), ("refusal", text.into())];
    Part::Other(members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::messages;
    use super::*;

    fn read(value: Value) -> Value {
        let read = messages(&value, "user", &mut Vec::new()).value;
        read.iter().map(|message| json!([message.role, message.parts])).collect()
    }

    #[test]
    fn an_item_of_the_model_is_said_by_the_user() {
        let search = json!({"type": "web_search_call", "id": "ws_1", "status": "completed"});
        let text = json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]});
        assert_eq!(
            read(json!([{"role": "user", "content": "q"}, search, text])),
            json!([["user", [{"type": "text", "content": "q"}]], ["assistant", [search, {"type": "text", "content": "a"}]]])
        );
    }

    #[test]
    fn a_tool_that_takes_text_is_no_tool() {
        assert_eq!(
            read(json!([
                {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c", "name": "patch", "input": "*** begin"},
                {"type": "custom_tool_call_output", "call_id": "c", "output": "done"},
            ])),
            json!([
                ["assistant", [{"type": "tool_call", "id": "c", "name": "patch", "arguments": "*** begin"}]],
                ["tool", [{"type": "tool_call_response", "id": "c", "response": "done"}]],
            ])
        );
    }

    /// Scenario: reasoning as models with open weights give it, and with an empty list in the place of text.
    #[test]
    fn reasoning_is_the_json_of_its_parts() {
        let own = json!([{"type": "reasoning_text", "text": "hm"}, {"type": "reasoning_text", "text": "so"}]);
        assert_eq!(
            read(json!([
                {"type": "reasoning", "content": own, "summary": []},
                {"type": "reasoning", "content": [], "summary": [{"type": "summary_text", "text": "s"}]},
            ])),
            json!([["assistant", [
                {"type": "reasoning", "content": "hm\nso", "summary": []},
                {"type": "reasoning", "content": "s", "summary": [{"type": "summary_text", "text": "s"}]},
            ]]])
        );
    }

    #[test]
    fn a_refusal_is_not_in_the_message() {
        let refusal = json!({"type": "refusal", "refusal": "no"});
        for message in [
            json!({"role": "assistant", "content": null, "refusal": "no"}),
            json!({"role": "assistant", "content": [refusal]}),
        ] {
            assert_eq!(read(json!([message])), json!([["assistant", [refusal]]]));
        }
    }

    #[test]
    fn a_tools_answer_in_a_block_is_another_answer() {
        let answered =
            |content: Value| read(json!([{"role": "tool", "tool_call_id": "c", "content": content}]));
        assert_eq!(answered(json!([{"type": "text", "text": "sunny"}])), answered(json!("sunny")));
        assert_eq!(answered(json!([{"type": "text", "text": "{\"a\": 1}"}])), answered(json!("{\"a\":1}")));
    }
}
