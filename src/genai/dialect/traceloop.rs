//! OpenLLMetry / Traceloop: indexed prompts, entity inputs and outputs (`dialects.md` section 2).

use serde_json::{Map, Value};

use super::{Dialect, Facts, fill, fill_arguments_under, fill_messages, fill_request, fill_result_under};
use crate::genai::{
    finish, indexed,
    operation::{Kind, Operation, Tool},
    state,
};

/// The row of this dialect.
pub(super) const DIALECT: Dialect = Dialect { name: "openllmetry", detect, kind, read };

const KINDS: &[(&str, Kind)] = &[
    ("workflow", Kind::Workflow),
    ("task", Kind::Task),
    ("agent", Kind::Agent),
    ("tool", Kind::ToolCall),
    ("handoff", Kind::Handoff),
    ("guardrail", Kind::Guardrail),
];
const REQUESTS: &[(&str, Kind)] = &[
    ("chat", Kind::ModelCall),
    ("completion", Kind::ModelCall),
    ("acompletion", Kind::ModelCall),
    ("responses", Kind::ModelCall),
    ("embedding", Kind::Embedding),
    ("rerank", Kind::Rerank),
];
/// The event of a document that a vector store found.
const FOUND: &str = "db.query.result";
/// Where a node of a graph sent the run.
const GOTO: &[&str] = &["langgraph.command.goto_node", "langgraph.command.goto_nodes"];
/// A proxy that lost a Python name wrote it out as the key.
const PROMPTS: &[&str] = &["gen_ai.prompt", "SpanAttributes.LLM_PROMPTS"];
const COMPLETIONS: &[&str] = &["gen_ai.completion", "SpanAttributes.LLM_COMPLETIONS"];

fn detect(facts: &Facts<'_>) -> bool {
    let attrs = facts.attrs;
    attrs.any_with_prefix("traceloop.")
        || attrs.has("llm.request.type")
        || attrs.has("db.vector.query.top_k")
        || facts.events.iter().any(|e| e.name == FOUND)
        || ["gen_ai.prompt.", "gen_ai.completion.", "SpanAttributes."]
            .iter()
            .any(|p| attrs.any_with_prefix(p))
}

fn kind(facts: &Facts<'_>) -> Option<Kind> {
    let attrs = facts.attrs;
    let of = |key: &str, table: &[(&str, Kind)]| {
        let word = attrs.text(&[key])?.to_ascii_lowercase();
        table.iter().find(|(w, _)| *w == word).map(|(_, kind)| *kind)
    };
    if attrs.first(GOTO).is_some() {
        return Some(Kind::Handoff);
    }
    let kind = of("traceloop.span.kind", KINDS).or_else(|| of("llm.request.type", REQUESTS));
    // A search in a vector store names no kind of its own.
    let searches = attrs.has("db.vector.query.top_k") || facts.events.iter().any(|e| e.name == FOUND);
    kind.or_else(|| searches.then_some(Kind::Retrieval))
}

fn read(facts: &Facts<'_>, operation: &mut Operation) {
    let attrs = facts.attrs;
    let entity = || attrs.text(&["traceloop.entity.name"]);
    match operation.kind {
        Kind::Agent => fill(&mut operation.agent_name, entity),
        Kind::Workflow => {
            fill(&mut operation.workflow_name, || attrs.text(&["traceloop.workflow.name"]).or_else(entity))
        }
        Kind::Task => fill(&mut operation.workflow_name, entity),
        Kind::Handoff => fill(&mut operation.decision, || {
            attrs.text(&["gen_ai.handoff.to_agent"]).or_else(|| Some(attrs.words(GOTO).join(", ")))
        }),
        _ => {}
    }
    // Decorators and agents are declared; what LangChain's callbacks call a task or a workflow may be its own part.
    let by_callbacks = facts.scope.contains("langchain") || facts.scope.contains("llamaindex");
    operation.declared |=
        matches!(operation.kind, Kind::Workflow | Kind::Task | Kind::Agent) && !by_callbacks;
    let request = &mut operation.request;
    fill(&mut request.streamed, || attrs.flag(&["llm.is_streaming"]));
    if operation.finish_reasons.is_empty() {
        let reasons = attrs.words(&["llm.response.finish_reason", "llm.response.stop_reason"]);
        operation.finish_reasons = reasons.iter().map(|r| finish::normalize(r)).collect();
    }
    let functions = indexed::items(attrs, "llm.request.functions");
    if !functions.is_empty() {
        let tools: Value = functions.into_iter().map(definition).collect();
        fill_request(operation, &serde_json::json!({ "tools": tools }));
    }
    let (input, output) = (attrs.get("traceloop.entity.input"), attrs.get("traceloop.entity.output"));
    match operation.kind {
        Kind::ToolCall => {
            fill(&mut operation.tool.name, entity);
            fill_arguments_under(
                operation,
                attrs.arguments(&["traceloop.entity.input", "mcp.request.argument"]),
                called_with,
            );
            fill_result_under(operation, output.or_else(|| attrs.get("mcp.response.value")), answered_with);
            if facts.scope.contains(".mcp") {
                without_mcp(&mut operation.tool);
            }
        }
        Kind::Retrieval => documents(facts, operation),
        Kind::ModelCall | Kind::Embedding | Kind::Rerank => {
            prompts(facts, operation);
            fill_messages(operation, input, output);
            if operation.kind == Kind::Rerank {
                reranked(operation);
            }
        }
        _ => fill_messages(operation, input, output),
    }
}

fn definition(mut function: Value) -> Value {
    for key in ["parameters", "input_schema"] {
        if let Some(schema) = function.get_mut(key) {
            *schema = state::open(schema).value;
        }
    }
    function
}

/// What LangChain's callback wrote around the input of a tool: `{"inputs":..,"input_str":..,"tags":..}`.
pub(super) fn called_with(input: &Value) -> &Value {
    let inner = ["inputs", "input_str"].iter().find_map(|key| input.get(*key));
    inner.filter(|_| input.get("tags").is_some()).unwrap_or(input)
}

/// What LangChain's callback wrote around the output of a tool: `{"output":..,"kwargs":..}`.
pub(super) fn answered_with(output: &Value) -> &Value {
    let wrapped = output.get("kwargs").is_some() && output.get("lc").is_none();
    output.get("output").filter(|_| wrapped).unwrap_or(output)
}

/// What the instrumentation of MCP writes around a call and its answer: `{"tool_name":..,"arguments":..}`,
/// `{"result":..,"is_error":..}`.
fn without_mcp(tool: &mut Tool) {
    if let Some(inner) =
        tool.arguments.value.get("arguments").filter(|_| tool.arguments.value.get("tool_name").is_some())
    {
        tool.arguments.value = state::open(inner).value;
    }
    let is_shell =
        |members: &Map<String, Value>| members.keys().all(|key| key == "result" || key == "is_error");
    if let Some(inner) = tool.result.value.as_object().filter(|m| is_shell(m)).and_then(|m| m.get("result")) {
        tool.result.value = state::open(inner).value;
    }
}

fn prompts(facts: &Facts<'_>, operation: &mut Operation) {
    let flat = |prefixes: &[&str], role: &str| {
        let items =
            prefixes.iter().map(|p| indexed::items(facts.attrs, p)).find(|items| !items.is_empty())?;
        Some(items.into_iter().map(|item| message(item, role)).collect::<Value>())
    };
    let (input, output) = (flat(PROMPTS, "user"), flat(COMPLETIONS, "assistant"));
    fill_messages(operation, input.as_ref(), output.as_ref());
}

/// `gen_ai.prompt.0.user` is text under its role; `tool_calls` is indexed once more.
fn message(item: Value, role: &str) -> Value {
    let Value::Object(mut members) = item else { return serde_json::json!({"role": role, "content": item}) };
    if !members.contains_key("role") {
        let told = ["system", "user", "assistant"].into_iter().find_map(|r| Some((r, members.remove(r)?)));
        let (role, content) = told.map_or((role, None), |(role, content)| (role, Some(content)));
        let _ = members.insert("role".into(), role.into());
        members.extend(content.map(|content| ("content".to_owned(), content)));
    }
    Value::Object(members)
}

/// The prompt of a reranking: documents under the role of the system, then the query.
fn reranked(operation: &mut Operation) {
    let asked = operation.input.value.iter().find(|message| message.role == "user");
    let query = asked.map(|message| message.text()).filter(|text| !text.is_empty());
    fill(&mut operation.retrieval_query, || query);
    for message in &mut operation.input.value {
        if message.role == "system" {
            std::sync::Arc::make_mut(message).role = "user".to_owned();
        }
    }
}

fn documents(facts: &Facts<'_>, operation: &mut Operation) {
    let of = |event: &crate::genai::events::Event| {
        let key =
            |name: &str| event.attrs.raw(&format!("db.query.result.{name}")).cloned().unwrap_or_default();
        let document = [
            ("id", key("id")),
            ("score", key("score")),
            ("distance", key("distance")),
            ("content", key("document")),
        ];
        let members = document.into_iter().filter(|(_, value)| !value.is_null());
        Value::Object(members.map(|(name, value)| (name.to_owned(), value)).collect())
    };
    let found: Vec<_> = facts.events.iter().filter(|e| e.name == FOUND).map(of).collect();
    fill(&mut operation.retrieval_documents, || (!found.is_empty()).then_some(Value::Array(found)));
    let input = facts.attrs.get("traceloop.entity.input");
    fill_messages(operation, input, facts.attrs.get("traceloop.entity.output"));
}
