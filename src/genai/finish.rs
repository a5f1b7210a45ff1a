//! Why a model stopped, in one vocabulary.

/// `stop`, `length`, `tool_call` or `content_filter` for the words that providers use; every other word as it is.
pub fn normalize(reason: &str) -> String {
    match reason.trim().to_ascii_lowercase().as_str() {
        "stop" | "end_turn" | "stop_sequence" | "completed" => "stop",
        "length" | "max_tokens" | "max_output_tokens" => "length",
        "tool_call" | "tool_calls" | "tool_use" | "function_call" | "tool-calls" => "tool_call",
        "content_filter" | "content-filter" | "safety" | "content_filtered" => "content_filter",
        _ => reason.trim(),
    }
    .to_owned()
}
