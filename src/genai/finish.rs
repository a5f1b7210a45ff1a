//! Why a model stopped, in one vocabulary.

/// `stop`, `length`, `tool_call` or `content_filter` for the words that providers use; every other word as it is.
pub fn normalize(reason: &str) -> String {
    let word: String = reason.chars().filter(char::is_ascii_alphanumeric).collect();
    match word.to_ascii_lowercase().as_str() {
        "stop" | "endturn" | "stopsequence" | "completed" => "stop",
        "length" | "maxtokens" | "maxoutputtokens" => "length",
        "toolcall" | "toolcalls" | "tooluse" | "functioncall" => "tool_call",
        "contentfilter" | "safety" | "contentfiltered" => "content_filter",
        _ => reason.trim(),
    }
    .to_owned()
}
