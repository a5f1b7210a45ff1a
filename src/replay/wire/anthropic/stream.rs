//! A message as events. Clients tell events by their names, and every event but `ping` is needed by one of them.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::replay::wire::{
    answer::{numbered, set, text},
    event, pieces,
};

/// The events of `whole`.
pub(super) fn frames(whole: &Value) -> Vec<Bytes> {
    let mut begun = whole.clone();
    set(&mut begun, "content", json!([]));
    set(&mut begun, "stop_reason", Value::Null);
    // The tokens of the output are told at the end.
    let mut end_usage = Map::new();
    if let Some(usage) = begun.get_mut("usage").and_then(Value::as_object_mut) {
        for key in ["output_tokens", "output_tokens_details"] {
            end_usage.extend(usage.remove_entry(key));
        }
        let _ = usage.insert("output_tokens".into(), 0.into());
    }
    let mut frames =
        vec![named(&json!({"type": "message_start", "message": begun})), named(&json!({"type": "ping"}))];
    for (index, block) in numbered(whole, "content") {
        let (start, deltas) = parts(block);
        frames.push(named(&json!({"type": "content_block_start", "index": index, "content_block": start})));
        let delta = |delta| named(&json!({"type": "content_block_delta", "index": index, "delta": delta}));
        frames.extend(deltas.into_iter().map(delta));
        frames.push(named(&json!({"type": "content_block_stop", "index": index})));
    }
    let delta = json!({"stop_reason": whole.get("stop_reason"), "stop_sequence": null});
    // No input here: some clients would count it twice.
    frames.push(named(&json!({"type": "message_delta", "delta": delta, "usage": end_usage})));
    frames.push(named(&json!({"type": "message_stop"})));
    frames
}

fn named(data: &Value) -> Bytes {
    event(Some(text(data, "type")), data)
}

/// A block without what it is filled with, and the deltas that fill it.
fn parts(block: &Value) -> (Value, Vec<Value>) {
    let mut start = block.clone();
    let deltas = match text(block, "type") {
        "text" => {
            set(&mut start, "text", "");
            of_text("text_delta", "text", text(block, "text"))
        }
        "thinking" => {
            set(&mut start, "thinking", "");
            set(&mut start, "signature", "");
            let mut deltas = of_text("thinking_delta", "thinking", text(block, "thinking"));
            deltas.push(json!({"type": "signature_delta", "signature": text(block, "signature")}));
            deltas
        }
        "tool_use" | "server_tool_use" => {
            set(&mut start, "input", json!({}));
            let input = block.get("input").filter(|input| !input.is_null());
            let input = input.map_or_else(|| "{}".to_owned(), Value::to_string);
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
