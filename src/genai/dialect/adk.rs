//! Google ADK: JSON of Gemini requests and responses in `gcp.vertex.agent.*`.

use serde_json::Value;

use super::{Dialect, Facts, fill, fill_value};
use crate::genai::{
    events::prefer,
    finish,
    message::ContentState,
    operation::{Kind, Operation},
    parse,
    state::{open, worse},
    usage,
};

/// The row of this dialect.
pub(super) const DIALECT: Dialect = Dialect { name: "google-adk", detect, kind, read };

fn detect(facts: &Facts<'_>) -> bool {
    facts.scope == "gcp.vertex.agent" || facts.attrs.any_with_prefix("gcp.vertex.agent.")
}

fn kind(facts: &Facts<'_>) -> Option<Kind> {
    let name = facts.span.name.as_str();
    if name == "call_llm" || facts.attrs.get("gcp.vertex.agent.llm_request").is_some() {
        return Some(Kind::ModelCall);
    }
    if name.starts_with("agent_run") {
        return Some(Kind::Agent);
    }
    (name == "invocation").then_some(Kind::Internal)
}

fn read(facts: &Facts<'_>, operation: &mut Operation) {
    let attrs = facts.attrs;
    let issues = &mut operation.issues;
    let not_available = |v: &&Value| v.as_str() != Some("N/A");
    fill_value(
        &mut operation.tool.arguments,
        attrs.arguments(&["gcp.vertex.agent.tool_call_args"]).filter(not_available),
        issues,
    );
    fill_value(&mut operation.tool.result, attrs.get("gcp.vertex.agent.tool_response"), issues);
    // `agent_run [name]` of the first versions.
    if let Some(named) = facts.span.name.strip_prefix("agent_run [") {
        fill(&mut operation.agent_name, || Some(named.trim_end_matches(']').to_owned()));
        operation.declared = true;
    }
    let mut states = (ContentState::Captured, ContentState::Captured);
    if let Some(opened) = attrs.get("gcp.vertex.agent.llm_request").map(open) {
        let request = opened.value;
        states.0 = opened.state;
        fill(&mut operation.request_model, || Some(request.get("model")?.as_str()?.to_owned()));
        if let Some(contents) = request.get("contents") {
            prefer(&mut operation.input, parse::messages(contents, "user", &mut operation.issues));
        }
        let config = |key: &str| request.get("config").and_then(|c| c.get(key));
        super::fill_system(operation, config("system_instruction"));
        fill(&mut operation.tool_definitions, || config("tools").filter(|t| !t.is_null()).cloned());
        super::fill_request(operation, request.get("config").unwrap_or(&Value::Null));
    }
    let issues = &mut operation.issues;
    if let Some(opened) = attrs.get("gcp.vertex.agent.llm_response").map(open) {
        let response = opened.value;
        states.1 = opened.state;
        usage::fill(
            &mut operation.usage,
            response.get("usage_metadata").map(usage::of_object).unwrap_or_default(),
        );
        if let Some(content) = response.get("content").filter(|c| c.is_object()) {
            prefer(&mut operation.output, parse::messages(content, "assistant", issues));
        }
        if let Some(reason) = response.get("finish_reason").and_then(Value::as_str)
            && operation.finish_reasons.is_empty()
        {
            operation.finish_reasons.push(finish::normalize(reason));
        }
    }
    for (side, state) in [(&mut operation.input, states.0), (&mut operation.output, states.1)] {
        // What a cut took away was there.
        let cut = state == ContentState::Truncated && side.state == ContentState::NotCaptured;
        side.state = if cut { state } else { worse(side.state, state) };
    }
    // Reports parallel calls again that have spans of their own.
    if operation.tool.name.as_deref() == Some("(merged tools)") {
        operation.kind = Kind::Internal;
    }
}
