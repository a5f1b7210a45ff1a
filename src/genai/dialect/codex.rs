//! Codex CLI: log records alone (`dialects.md` 9.4). Counts come as text; the model's messages are never sent.

use super::{Dialect, Facts, fill, fill_arguments, fill_messages, fill_text, nanos};
use crate::genai::{
    operation::{Failure, Kind, OpStatus, Operation, Usage},
    parse, usage,
};

/// The row of this dialect.
pub(super) const DIALECT: Dialect = Dialect { name: "codex", detect, kind, read };

fn named<'a>(facts: &Facts<'a>) -> Option<&'a str> {
    facts.log?.name.strip_prefix("codex.")
}

fn detect(facts: &Facts<'_>) -> bool {
    named(facts).is_some()
}

fn kind(facts: &Facts<'_>) -> Option<Kind> {
    let attrs = facts.attrs;
    let failed =
        || attrs.has("error.message") || attrs.int(&["http.response.status_code"]).is_some_and(|s| s >= 400);
    let by_person = || attrs.text(&["source"]).is_some_and(|s| s.eq_ignore_ascii_case("user"));
    Some(match named(facts)? {
        // Every stream says `completed` twice; only one of them counts tokens.
        "sse_event" | "websocket_event" if attrs.has("input_token_count") => Kind::ModelCall,
        "api_request" if failed() => Kind::ModelCall,
        "tool_result" => Kind::ToolCall,
        "tool_decision" if by_person() => Kind::HumanInput,
        _ => Kind::Internal,
    })
}

fn read(facts: &Facts<'_>, operation: &mut Operation) {
    let attrs = facts.attrs;
    match operation.kind {
        Kind::ModelCall => {
            fill(&mut operation.request_model, || attrs.text(&["model", "slug"]));
            fill(&mut operation.ttft_ns, || attrs.float(&["ttft_ms"]).and_then(|ms| nanos(ms * 1e6)));
            let count = |key: &str| attrs.count(&[key]);
            let counts = Usage {
                input_tokens: count("input_token_count"),
                output_tokens: count("output_token_count"),
                cache_read_tokens: count("cached_token_count"),
                cache_write_tokens: count("cache_write_token_count"),
                reasoning_tokens: count("reasoning_token_count"),
                cost_usd: None,
            };
            usage::fill(&mut operation.usage, counts);
            if named(facts) == Some("api_request") {
                operation.status = OpStatus::Error;
                let kind = attrs.text(&["http.response.status_code"]);
                operation.failure =
                    Some(Failure { kind, message: attrs.text(&["error.message"]), ..Failure::default() });
            }
        }
        Kind::ToolCall => {
            fill(&mut operation.tool.name, || attrs.text(&["tool_name"]));
            fill(&mut operation.tool.call_id, || parse::call_id(attrs.get("call_id")));
            fill_arguments(operation, attrs.arguments(&["arguments"]));
            if let Some(output) = attrs.raw("output") {
                fill_text(&mut operation.tool.result, output);
            }
            // The harness's own word: a command that exits with 1 can be a success.
            if attrs.flag(&["success"]) == Some(false) {
                operation.status = OpStatus::Error;
                operation.failure =
                    Some(Failure { kind: None, message: attrs.text(&["output"]), ..Failure::default() });
            }
        }
        Kind::HumanInput => fill(&mut operation.decision, || attrs.text(&["decision"])),
        _ => fill_messages(operation, attrs.get("prompt"), None),
    }
}
