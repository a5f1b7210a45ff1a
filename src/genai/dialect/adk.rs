//! Google ADK: JSON of Gemini requests and responses in `gcp.vertex.agent.*`.

use serde_json::Value;

use super::{Dialect, Facts, fill, fill_value};
use crate::genai::{
    events::prefer,
    finish,
    operation::{Kind, Operation},
    parse,
    state::open,
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
    (name == "invocation" || name.starts_with("agent_run")).then_some(Kind::Internal)
}

fn read(facts: &Facts<'_>, operation: &mut Operation) {
    let attrs = facts.attrs;
    let issues = &mut operation.issues;
    let not_available = |v: &&Value| v.as_str() != Some("N/A");
    fill_value(
        &mut operation.tool.arguments,
        attrs.get("gcp.vertex.agent.tool_call_args").filter(not_available),
        issues,
    );
    fill_value(&mut operation.tool.result, attrs.get("gcp.vertex.agent.tool_response"), issues);
    if let Some(request) = attrs.get("gcp.vertex.agent.llm_request").map(|v| open(v).value) {
        fill(&mut operation.request_model, || Some(request.get("model")?.as_str()?.to_owned()));
        if let Some(contents) = request.get("contents") {
            prefer(&mut operation.input, parse::messages(contents, "user", issues));
        }
        let config = |key: &str| request.get("config").and_then(|c| c.get(key));
        if let Some(system) =
            config("system_instruction").filter(|_| operation.system_instructions.is_empty())
        {
            operation.system_instructions = parse::parts(system, issues);
        }
        fill(&mut operation.tool_definitions, || config("tools").filter(|t| !t.is_null()).cloned());
    }
    if let Some(response) = attrs.get("gcp.vertex.agent.llm_response").map(|v| open(v).value) {
        if let Some(content) = response.get("content").filter(|c| c.is_object()) {
            prefer(&mut operation.output, parse::messages(content, "assistant", issues));
        }
        if let Some(reason) = response.get("finish_reason").and_then(Value::as_str)
            && operation.finish_reasons.is_empty()
        {
            operation.finish_reasons.push(finish::normalize(reason));
        }
    }
    // Reports parallel calls again that have spans of their own.
    if operation.tool.name.as_deref() == Some("(merged tools)") {
        operation.kind = Kind::Internal;
    }
}
