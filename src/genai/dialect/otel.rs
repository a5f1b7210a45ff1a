//! The OTel GenAI conventions, current and deprecated names (`dialects.md` section 1).

use serde_json::Value;

use super::{Dialect, Facts, fill, fill_system, fill_value, nanos, unwrap_callback};
use crate::genai::{
    attrs::Attrs,
    events::{self, prefer},
    finish,
    message::{Content, ContentState, Messages, Part},
    operation::{Issue, Kind, Operation, Request},
    parse, state,
};

/// The row of this dialect.
pub(super) const DIALECT: Dialect = Dialect { name: "otel", detect, kind, read };

/// The convention's operations.
const OPERATIONS: &[(&str, Kind)] = &[
    ("chat", Kind::ModelCall),
    ("generate_content", Kind::ModelCall),
    ("text_completion", Kind::ModelCall),
    ("embeddings", Kind::Embedding),
    ("retrieval", Kind::Retrieval),
    ("execute_tool", Kind::ToolCall),
    ("create_agent", Kind::Internal),
    ("invoke_agent", Kind::Agent),
    ("invoke_workflow", Kind::Workflow),
    ("plan", Kind::Task),
    ("search_memory", Kind::Retrieval),
    ("create_memory", Kind::Memory),
    ("update_memory", Kind::Memory),
    ("upsert_memory", Kind::Memory),
    ("delete_memory", Kind::Memory),
    ("create_memory_store", Kind::Memory),
    ("delete_memory_store", Kind::Memory),
    // Polls a stored response: never counted as a call.
    ("fetch_response", Kind::Internal),
    ("apply_guardrail", Kind::Guardrail),
    ("run_guardrail", Kind::Guardrail),
];
const TTFT_S: &[&str] =
    &["gen_ai.response.time_to_first_chunk", "gen_ai.client.operation.time_to_first_chunk"];

fn detect(facts: &Facts<'_>) -> bool {
    facts.attrs.any_with_prefix("gen_ai.")
        || facts.attrs.has("mcp.method.name")
        || facts.events.iter().any(|e| e.name.starts_with("gen_ai."))
}

fn read(facts: &Facts<'_>, operation: &mut Operation) {
    let attrs = facts.attrs;
    fill(&mut operation.operation, || attrs.text(&["gen_ai.operation.name"]));
    let kind = operation.kind;
    names(facts, operation);
    operation.request = request(attrs);
    if operation.finish_reasons.is_empty() {
        let reasons = attrs.words(&["gen_ai.response.finish_reasons", "gen_ai.response.finish_reason"]);
        operation.finish_reasons = reasons.iter().map(|r| finish::normalize(r)).collect();
    }
    fill(&mut operation.ttft_ns, || attrs.float(TTFT_S).and_then(|s| nanos(s * 1e9)));
    // Strands writes milliseconds here, all others seconds; the convention has no such span attribute.
    fill(&mut operation.ttft_ns, || {
        let strands = facts.scope.starts_with("strands")
            || attrs.text(&["gen_ai.system", "gen_ai.provider.name"]).as_deref() == Some("strands-agents");
        let scale = if strands { 1e6 } else { 1e9 };
        attrs.float(&["gen_ai.server.time_to_first_token"]).and_then(|time| nanos(time * scale))
    });
    if kind == Kind::ToolCall {
        tool(facts, operation);
    } else {
        messages(facts, operation);
    }
    fill(&mut operation.tool_definitions, || {
        attrs.get("gen_ai.tool.definitions").map(|v| state::open(v).value)
    });
    fill(&mut operation.retrieval_query, || {
        attrs.text(&["gen_ai.retrieval.query.text", "gen_ai.retrieval.query", "gen_ai.memory.query.text"])
    });
    fill(&mut operation.retrieval_documents, || {
        attrs.first(&["gen_ai.retrieval.documents", "gen_ai.memory.records"]).map(|v| state::open(v).value)
    });
    if kind == Kind::Memory {
        fill_value(&mut operation.tool.arguments, attrs.get("gen_ai.memory.records"), &mut operation.issues);
    }
    fill(&mut operation.decision, || match kind {
        Kind::HumanInput => human_answer(attrs),
        Kind::Handoff => attrs.text(&["gen_ai.handoff.to_agent"]),
        _ => None,
    });
    operation.declared |= matches!(kind, Kind::Agent | Kind::Workflow | Kind::Task);
}

/// The kind that the operation's name or MCP's method says.
fn kind(facts: &Facts<'_>) -> Option<Kind> {
    if let Some(log) = facts.log {
        match log.name.as_str() {
            "gen_ai.evaluation.result" => return Some(Kind::Evaluation),
            "gen_ai.guardrail.result" => return Some(Kind::Guardrail),
            _ => {}
        }
    }
    let word = facts.attrs.text(&["gen_ai.operation.name"]);
    let known = word.as_ref().and_then(|word| OPERATIONS.iter().find(|(name, _)| name == word));
    known.map(|(_, kind)| *kind).or_else(|| {
        let method = facts.attrs.text(&["mcp.method.name"]).filter(|_| word.is_none())?;
        Some(match method.as_str() {
            "tools/call" => Kind::ToolCall,
            "elicitation/create" => Kind::HumanInput,
            _ => Kind::Internal,
        })
    })
}

/// What a person answered to a question of an MCP server.
fn human_answer(attrs: &Attrs) -> Option<String> {
    let answer = state::open(attrs.first(&["mcp.response.value", "gen_ai.tool.call.result"])?).value;
    answer.get("action").and_then(Value::as_str).or_else(|| answer.as_str()).map(str::to_owned)
}

fn names(facts: &Facts<'_>, operation: &mut Operation) {
    let attrs = facts.attrs;
    fill(&mut operation.agent_name, || attrs.text(&["gen_ai.agent.name"]));
    fill(&mut operation.agent_name, || facts.span.name.strip_prefix("invoke_agent ").map(str::to_owned));
    fill(&mut operation.agent_id, || attrs.text(&["gen_ai.agent.id"]));
    fill(&mut operation.workflow_name, || attrs.text(&["gen_ai.workflow.name"]));
    fill(&mut operation.request_model, || attrs.text(&["gen_ai.request.model"]));
    fill(&mut operation.response_model, || attrs.text(&["gen_ai.response.model"]));
    fill(&mut operation.response_id, || attrs.text(&["gen_ai.response.id"]));
}

fn request(attrs: &Attrs) -> Request {
    Request {
        temperature: attrs.float(&["gen_ai.request.temperature"]),
        top_p: attrs.float(&["gen_ai.request.top_p"]),
        max_tokens: attrs.int(&["gen_ai.request.max_tokens"]),
        seed: attrs.int(&["gen_ai.request.seed", "gen_ai.openai.request.seed"]),
        streamed: attrs.flag(&["gen_ai.request.stream", "gen_ai.request.is_stream", "gen_ai.is_streaming"]),
    }
}

fn tool(facts: &Facts<'_>, operation: &mut Operation) {
    let attrs = facts.attrs;
    let tool = &mut operation.tool;
    fill(&mut tool.name, || attrs.text(&["gen_ai.tool.name"]));
    fill(&mut tool.name, || {
        ["execute_tool ", "tools/call "]
            .iter()
            .find_map(|p| facts.span.name.strip_prefix(p))
            .map(str::to_owned)
    });
    fill(&mut tool.call_id, || parse::call_id(attrs.first(&["gen_ai.tool.call.id", "gen_ai.tool.call_id"])));
    let arguments = ["gen_ai.tool.call.arguments", "gen_ai.tool.args", "gen_ai.tool.input"];
    fill_value(&mut tool.arguments, attrs.arguments(&arguments), &mut operation.issues);
    let results = ["gen_ai.tool.call.result", "gen_ai.tool.output"];
    // An empty result is a result.
    let result = results.iter().find_map(|k| attrs.raw(k)).filter(|v| !v.is_null());
    fill_value(&mut tool.result, result, &mut operation.issues);
    let told = events::read(facts.events, &mut operation.issues);
    let asked = told.input.value.iter().flat_map(|m| &m.parts).find_map(|p| match p {
        Part::ToolCall { id, arguments, .. } => Some((id.clone(), arguments.clone())),
        Part::ToolCallResponse { id, response, .. } => Some((id.clone(), response.clone())),
        Part::Text { content, .. } => Some((None, content.clone().map(Value::from))),
        _ => None,
    });
    let answered = told.output.value.iter().flat_map(|m| &m.parts).find_map(|p| match p {
        Part::ToolCallResponse { id, response, .. } => Some((id.clone(), response.clone())),
        Part::Text { content, .. } => Some((None, content.clone().map(Value::from))),
        Part::Other(block) => Some((None, Some(Value::Object(block.clone())))),
        _ => None,
    });
    for (found, slot) in [(asked, &mut tool.arguments), (answered, &mut tool.result)] {
        if let Some((id, value)) = found {
            fill(&mut tool.call_id, || id);
            fill_value(slot, value.as_ref(), &mut operation.issues);
        }
    }
    unwrap_callback(tool);
    tool.is_output |=
        tool.name.as_deref().is_some_and(|n| n == "final_result" || n.starts_with("final_result_"));
}

/// Attributes first; what they lack, or hold cut or redacted, comes from events.
fn messages(facts: &Facts<'_>, operation: &mut Operation) {
    let attrs = facts.attrs;
    fill_system(operation, attrs.get("gen_ai.system_instructions"));
    let issues = &mut operation.issues;
    let side = |keys: &[&str], role: &str, issues: &mut Vec<Issue>| -> Content<Messages> {
        let seen = &mut facts.seen.borrow_mut();
        attrs.first(keys).map(|v| parse::messages_seen(v, role, issues, seen)).unwrap_or_default()
    };
    prefer(&mut operation.input, side(&["gen_ai.input.messages"], "user", issues));
    prefer(&mut operation.output, side(&["gen_ai.output.messages"], "assistant", issues));
    let told = events::read(facts.events, issues);
    let reasons = told.output.value.iter().filter_map(|message| message.finish_reason.clone());
    let reasons: Vec<_> = reasons.collect();
    prefer(&mut operation.input, told.input);
    prefer(&mut operation.output, told.output);
    // The event of an answer may tell why it ended where the attributes do not.
    let unknown = operation.output.value.iter().all(|message| message.finish_reason.is_none());
    if operation.finish_reasons.is_empty() && unknown {
        operation.finish_reasons = reasons;
    }
    if operation.system_instructions.is_empty() {
        operation.system_instructions = told.system.value;
        operation.system_state = told.system.state;
    }
    for (key, content) in [
        ("gen_ai.input.messages_ref", &mut operation.input),
        ("gen_ai.output.messages_ref", &mut operation.output),
    ] {
        if content.value.is_empty() && attrs.has(key) {
            content.state = ContentState::External;
        }
    }
}
