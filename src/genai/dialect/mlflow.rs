//! MLflow: every value is JSON text, so that strings arrive in quotes (`dialects.md` section 8).

use serde_json::Value;

use super::{Dialect, Facts, fill, fill_arguments, fill_messages, fill_request, fill_result, query};
use crate::genai::{
    operation::{Kind, Operation},
    state, usage,
};

/// The row of this dialect.
pub(super) const DIALECT: Dialect = Dialect { name: "mlflow", detect, kind, read };

const KINDS: &[(&str, Kind)] = &[
    ("LLM", Kind::ModelCall),
    ("CHAT_MODEL", Kind::ModelCall),
    ("AGENT", Kind::Agent),
    ("TOOL", Kind::ToolCall),
    ("RETRIEVER", Kind::Retrieval),
    ("EMBEDDING", Kind::Embedding),
    ("RERANKER", Kind::Rerank),
    ("MEMORY", Kind::Memory),
    ("WORKFLOW", Kind::Workflow),
    ("TASK", Kind::Task),
    ("GUARDRAIL", Kind::Guardrail),
    ("EVALUATOR", Kind::Evaluation),
];

fn detect(facts: &Facts<'_>) -> bool {
    facts.attrs.any_with_prefix("mlflow.span")
}

fn opened(facts: &Facts<'_>, key: &str) -> Option<Value> {
    Some(state::open(facts.attrs.get(key)?).value)
}

fn text(facts: &Facts<'_>, key: &str) -> Option<String> {
    opened(facts, key)?.as_str().map(str::to_owned)
}

fn kind(facts: &Facts<'_>) -> Option<Kind> {
    let word = text(facts, "mlflow.spanType")?;
    Some(KINDS.iter().find(|(w, _)| *w == word).map_or(Kind::Internal, |(_, kind)| *kind))
}

fn read(facts: &Facts<'_>, operation: &mut Operation) {
    let attrs = facts.attrs;
    // Strings are kept in their quotes: what is inside is content, not one more layer.
    let (input, output) = (attrs.get("mlflow.spanInputs"), attrs.get("mlflow.spanOutputs"));
    let name = || Some(facts.span.name.clone()).filter(|n| !n.is_empty());
    match operation.kind {
        Kind::ToolCall => {
            fill(&mut operation.tool.name, name);
            fill_arguments(operation, attrs.arguments(&["mlflow.spanInputs"]));
            fill_result(operation, output);
        }
        Kind::Retrieval => {
            fill_messages(operation, input, output);
            fill(&mut operation.retrieval_query, || query(input?));
            fill(&mut operation.retrieval_documents, || {
                opened(facts, "mlflow.spanOutputs").filter(Value::is_array)
            });
        }
        _ => fill_messages(operation, input, output),
    }
    match operation.kind {
        Kind::Agent => fill(&mut operation.agent_name, name),
        Kind::Workflow | Kind::Task => fill(&mut operation.workflow_name, name),
        _ => {}
    }
    operation.declared |= matches!(operation.kind, Kind::Agent | Kind::Workflow | Kind::Task);
    if matches!(operation.kind, Kind::ModelCall | Kind::Embedding) {
        fill(&mut operation.response_model, || text(facts, "mlflow.llm.model"));
        if let Some(request) = opened(facts, "mlflow.spanInputs") {
            fill_request(operation, &request);
        }
    }
    fill(&mut operation.tool_definitions, || opened(facts, "mlflow.chat.tools"));
    // `usage` is the bare key under which the integration of OpenAI Agents leaves it.
    for key in ["mlflow.chat.tokenUsage", "usage"] {
        if let Some(counts) = opened(facts, key) {
            usage::fill(&mut operation.usage, usage::of_object(&counts));
        }
    }
    if let Some(response) = output.filter(|_| operation.kind == Kind::ModelCall) {
        usage::fill(&mut operation.usage, usage::of_response(response));
    }
    if let Some(total) = opened(facts, "mlflow.llm.cost").and_then(|c| c.get("total_cost")?.as_f64()) {
        fill(&mut operation.usage.cost_usd, || Some(total));
        fill(&mut operation.cost_source, || Some("mlflow.llm.cost".to_owned()));
    }
}
