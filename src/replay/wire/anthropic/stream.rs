//! A message as events. Clients tell events by their names, and every event but `ping` is needed by one of them.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::replay::wire::{event, pieces};

/// The events of `whole`.
pub(super) fn frames(whole: &Value) -> Vec<Bytes> {
    let mut begun = whole.clone();
    begun["content"] = json!([]);
    begun["stop_reason"] = Value::Null;
    // The tokens of the output are told at the end.
    begun["usage"]["output_tokens"] = json!(0);
    let _ = begun["usage"].as_object_mut().and_then(|usage| usage.remove("output_tokens_details"));
    let mut frames =
        vec![named(&json!({"type": "message_start", "message": begun})), named(&json!({"type": "ping"}))];
    for (index, block) in whole["content"].as_array().into_iter().flatten().enumerate() {
        let (start, deltas) = parts(block);
        frames.push(named(&json!({"type": "content_block_start", "index": index, "content_block": start})));
        let delta = |delta| named(&json!({"type": "content_block_delta", "index": index, "delta": delta}));
        frames.extend(deltas.into_iter().map(delta));
        frames.push(named(&json!({"type": "content_block_stop", "index": index})));
    }
    let delta = json!({"stop_reason": whole["stop_reason"], "stop_sequence": null});
    // No input here: some clients would count it twice.
    let mut usage = json!({"output_tokens": whole["usage"]["output_tokens"]});
    if let Some(details) = whole["usage"].get("output_tokens_details") {
        usage["output_tokens_details"] = details.clone();
    }
    frames.push(named(&json!({"type": "message_delta", "delta": delta, "usage": usage})));
    frames.push(named(&json!({"type": "message_stop"})));
    frames
}

fn named(data: &Value) -> Bytes {
    event(data["type"].as_str(), data)
}

/// A block without what it is filled with, and the deltas that fill it.
fn parts(block: &Value) -> (Value, Vec<Value>) {
    let mut start = block.clone();
    let deltas = match block["type"].as_str() {
        Some("text") => {
            start["text"] = "".into();
            of_text("text_delta", "text", block["text"].as_str().unwrap_or_default())
        }
        Some("thinking") => {
            start["thinking"] = "".into();
            start["signature"] = "".into();
            let mut deltas =
                of_text("thinking_delta", "thinking", block["thinking"].as_str().unwrap_or_default());
            deltas.push(json!({"type": "signature_delta", "signature": block["signature"]}));
            deltas
        }
        Some("tool_use" | "server_tool_use") => {
            let input = std::mem::replace(&mut start["input"], json!({}));
            let input = if input.is_null() { "{}".to_owned() } else { input.to_string() };
            let mut deltas = vec![json!({"type": "input_json_delta", "partial_json": ""})];
            deltas.extend(of_text("input_json_delta", "partial_json", &input));
            deltas
        }
        _ => Vec::new(),
    };
    (start, deltas)
}

fn of_text(kind: &str, member: &str, text: &str) -> Vec<Value> {
    pieces(text).into_iter().map(|piece| json!({"type": kind, member: piece})).collect()
}
