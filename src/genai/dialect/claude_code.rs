//! Claude Code and its Agent SDK: spans `claude_code.*`, and log records of the same names (`dialects.md` 9.4).
//!
//! Spans time the calls; much of their content stands only in the logs, which name the call and the request.

use serde_json::{Value, json};

use super::{Dialect, Facts, fill, fill_arguments, fill_messages, fill_request, fill_result, nanos};
use crate::genai::{
    attrs::Attrs,
    finish,
    message::ContentState,
    operation::{Failure, Kind, OpStatus, Operation, Usage},
    parse, state, usage,
};

/// The row of this dialect.
pub(super) const DIALECT: Dialect = Dialect { name: "claude-code", detect, kind, read };

/// Tools whose recorded `content` is what they were given, not what they answered.
const WRITERS: &[&str] = &["Write", "Edit", "MultiEdit", "NotebookEdit"];

fn detect(facts: &Facts<'_>) -> bool {
    named(facts).is_some()
}

/// The event's or the span's name without the prefix.
fn named<'a>(facts: &Facts<'a>) -> Option<&'a str> {
    let name = facts.log.map_or(facts.span.name.as_str(), |log| log.name.as_str());
    name.strip_prefix("claude_code.")
}

fn kind(facts: &Facts<'_>) -> Option<Kind> {
    let asked_someone = || facts.attrs.text(&["source"]).is_some_and(|s| s.starts_with("user"));
    Some(match named(facts)? {
        "interaction" => Kind::Agent,
        "llm_request" | "api_request" | "api_error" | "assistant_response" | "api_request_body"
        | "api_response_body" => Kind::ModelCall,
        "tool" | "tool_result" => Kind::ToolCall,
        "tool.blocked_on_user" | "tool_decision" if asked_someone() => Kind::HumanInput,
        _ => Kind::Internal,
    })
}

fn read(facts: &Facts<'_>, operation: &mut Operation) {
    let attrs = facts.attrs;
    let name = named(facts).unwrap_or_default();
    if facts.log.is_some() {
        operation.duration_ns = attrs.float(&["duration_ms"]).and_then(|ms| nanos(ms * 1e6));
    }
    fill(&mut operation.agent_id, || attrs.text(&["agent_id"]));
    // Some set-ups send logs without the trace that their spans have.
    if let Some(session) = attrs.text(&["session.id"]) {
        let ids = ["tool_use_id", "request_id"].iter().filter_map(|key| attrs.text(&[key]));
        operation.identity.ties.extend(ids.map(|id| format!("claude-code {session} {id}")));
    }
    match operation.kind {
        Kind::Agent => {
            operation.declared = true;
            fill(&mut operation.agent_name, || Some("claude-code".to_owned()));
            fill_messages(operation, attrs.get("user_prompt"), None);
        }
        Kind::ModelCall => {
            bodies(name, attrs, operation);
            model_call(attrs, operation);
        }
        Kind::ToolCall => tool_call(facts, operation),
        Kind::HumanInput => fill(&mut operation.decision, || attrs.text(&["decision"])),
        _ if name == "user_prompt" => fill_messages(operation, attrs.get("prompt"), None),
        _ => {}
    }
    if matches!(name, "tool.execution" | "tool.blocked_on_user") {
        operation.completes_parent = true;
        fill(&mut operation.decision, || {
            attrs.text(&["decision"]).filter(|_| name == "tool.blocked_on_user")
        });
    }
    let refused = attrs.text(&["decision"]).is_some_and(|d| d == "reject") && name == "tool.blocked_on_user";
    if attrs.flag(&["success"]) == Some(false) || name == "api_error" || refused {
        operation.status = OpStatus::Error;
        let kind = attrs.text(&["error.type", "error_type", "error_class", "status_code"]);
        let message = attrs.text(&["error", "error.message"]).filter(|m| Some(m) != kind.as_ref());
        operation.failure = Some(Failure { kind, message, ..Failure::default() });
    }
}

/// The request and the response as they went over the wire, each in a record of its own; or where they were written to.
fn bodies(name: &str, attrs: &Attrs, operation: &mut Operation) {
    let (is_request, is_response) = (name == "api_request_body", name == "api_response_body");
    if !is_request && !is_response {
        return;
    }
    operation.opens = is_request;
    let body = attrs.get("body");
    fill_messages(operation, body.filter(|_| is_request), body.filter(|_| is_response));
    if let Some(request) = body.filter(|_| is_request) {
        fill_request(operation, &state::open(request).value);
    }
    let side = if is_request { &mut operation.input } else { &mut operation.output };
    if body.is_none() && attrs.has("body_ref") {
        side.state = ContentState::External;
    }
}

fn model_call(attrs: &Attrs, operation: &mut Operation) {
    fill(&mut operation.request_model, || attrs.text(&["model"]));
    fill(&mut operation.response_id, || attrs.text(&["request_id"]));
    fill(&mut operation.provider, || Some("anthropic".to_owned()));
    fill(&mut operation.ttft_ns, || attrs.float(&["ttft_ms"]).and_then(|ms| nanos(ms * 1e6)));
    fill(&mut operation.tool_definitions, || {
        attrs.get("tools").map(|tools| state::open(tools).value).filter(Value::is_array)
    });
    if operation.finish_reasons.is_empty() {
        operation.finish_reasons =
            attrs.words(&["stop_reason"]).iter().map(|r| finish::normalize(r)).collect();
    }
    // The plain counts leave the cache out; the convention's own, where they are, hold it.
    if attrs.count(&["gen_ai.usage.input_tokens"]).is_none() && attrs.has("input_tokens") {
        let count = |key: &str| attrs.count(&[key]);
        let (fresh, read, written) =
            (count("input_tokens"), count("cache_read_tokens"), count("cache_creation_tokens"));
        let all = [fresh, read, written].into_iter().flatten().fold(0, u64::saturating_add);
        let counts = Usage {
            input_tokens: fresh.map(|_| all),
            output_tokens: count("output_tokens"),
            cache_read_tokens: read,
            cache_write_tokens: written,
            ..Usage::default()
        };
        usage::fill(&mut operation.usage, counts);
    }
    let input = attrs.text(&["new_context"]).map(|context| messages_of(&context));
    let output = attrs.first(&["response.model_output", "response"]);
    // Text of a model is text, whatever it looks like.
    let plain = |text: &Value| match text.as_str() {
        Some(marker) if state::is_marker(marker) => text.clone(),
        _ => json!([{"role": "assistant", "content": text}]),
    };
    fill_messages(operation, input.as_ref(), output.map(plain).as_ref());
    if operation.system_instructions.is_empty()
        && let Some(preview) = attrs.get("system_prompt_preview")
    {
        operation.system_instructions = parse::parts(
            &json!([{"type": "text", "content": preview, "preview": true}]),
            &mut operation.issues,
        )
        .value;
    }
}

/// Sections under `[USER]`, `[ASSISTANT]`, `[TOOL RESULT: id]`: the messages that came new with this request.
fn messages_of(context: &str) -> Value {
    let mut messages: Vec<(String, String)> = Vec::new();
    for line in context.split_inclusive('\n') {
        let heading = line.trim().strip_prefix('[').and_then(|l| l.strip_suffix(']'));
        let known =
            |h: &&str| ["USER", "ASSISTANT", "SYSTEM", "TOOL RESULT"].iter().any(|k| h.starts_with(k));
        match (heading.filter(known), messages.last_mut()) {
            (Some(heading), _) => messages.push((heading.to_owned(), String::new())),
            (None, Some((_, text))) => text.push_str(line),
            (None, None) => messages.push(("USER".to_owned(), line.to_owned())),
        }
    }
    let message = |(heading, text): (String, String)| {
        let text = text.trim_end().to_owned();
        match heading.split_once(':') {
            Some((_, id)) => json!({"role": "tool", "tool_call_id": id.trim(), "content": text}),
            None if heading.starts_with("ASSISTANT") => json!({"role": "assistant", "content": text}),
            None => json!({"role": "user", "content": text}),
        }
    };
    messages.into_iter().map(message).collect()
}

fn tool_call(facts: &Facts<'_>, operation: &mut Operation) {
    let attrs = facts.attrs;
    // Logs name the tools of MCP servers by one word, and the tool itself in its parameters.
    fill(&mut operation.tool.name, || {
        let parameters = state::open(attrs.get("tool_parameters")?).value;
        let named = parameters
            .get("mcp_tool_name")
            .filter(|_| attrs.text(&["tool_name"]).as_deref() == Some("mcp_tool"));
        Some(named?.as_str()?.to_owned())
    });
    fill(&mut operation.tool.name, || attrs.text(&["tool_name"]));
    fill(&mut operation.tool.call_id, || parse::call_id(attrs.get("tool_use_id")));
    fill(&mut operation.tool.asked_by, || attrs.text(&["request_id"]));
    let under_heading = |key: &str| {
        let text = attrs.text(&[key])?;
        let (heading, rest) = text.split_once('\n')?;
        heading.starts_with('[').then(|| Value::from(rest))
    };
    let arguments = under_heading("tool_input").or_else(|| attrs.arguments(&["tool_input"]).cloned());
    fill_arguments(operation, arguments.as_ref());
    let output = facts.events.iter().find(|e| e.name == "tool.output");
    let writes = operation.tool.name.as_deref().is_some_and(|name| WRITERS.contains(&name));
    let shown =
        output.and_then(|e| e.attrs.get("output").or_else(|| e.attrs.get("content").filter(|_| !writes)));
    // What a tool printed is its answer as text.
    if let Some(shown) = shown {
        super::fill_text(&mut operation.tool.result, shown);
    }
    fill_result(operation, under_heading("new_context").as_ref());
}
