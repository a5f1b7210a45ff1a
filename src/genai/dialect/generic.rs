//! What can be told of a span that no dialect knows: fallbacks over words that many producers share.

use super::{Dialect, Facts, fill, fill_value};
use crate::genai::{
    events::prefer,
    operation::{Kind, Operation},
    parse,
};

/// The row of this dialect; the last, and on every span.
pub(super) const DIALECT: Dialect = Dialect { name: "generic", detect: |_| true, read };

const TOOL_NAMES: &[&str] = &["tool.name", "tool_name", "ai.toolCall.name"];
/// Kinds by a word that producers write under one of [`KIND_KEYS`].
const KINDS: &[(&str, Kind)] = &[
    ("llm", Kind::ModelCall),
    ("chat", Kind::ModelCall),
    ("completion", Kind::ModelCall),
    ("tool", Kind::ToolCall),
    ("retriever", Kind::Retrieval),
    ("embedding", Kind::Embedding),
    ("reranker", Kind::Rerank),
    ("guardrail", Kind::Guardrail),
    ("evaluator", Kind::Evaluation),
    ("agent", Kind::Agent),
    ("workflow", Kind::Workflow),
    ("task", Kind::Internal),
    ("chain", Kind::Internal),
    ("prompt", Kind::Internal),
    ("parser", Kind::Internal),
];
const KIND_KEYS: &[&str] =
    &["openinference.span.kind", "langsmith.span.kind", "traceloop.span.kind", "llm.request.type"];
const SUFFIXES: &[(&str, Kind)] = &[
    (".tool", Kind::ToolCall),
    (".agent", Kind::Agent),
    (".workflow", Kind::Workflow),
    (".task", Kind::Internal),
];

fn read(facts: &Facts<'_>, operation: &mut Operation) -> Option<Kind> {
    let attrs = facts.attrs;
    let kind = kind(facts);
    let decided = if operation.kind == Kind::Foreign { kind? } else { operation.kind };
    fill(&mut operation.request_model, || {
        attrs.text(&["llm.model_name", "llm.request.model_name", "ai.model.id"])
    });
    let input = attrs.first(&["input.value", "traceloop.entity.input"]);
    let output = attrs.first(&["output.value", "traceloop.entity.output"]);
    if decided == Kind::ToolCall {
        fill(&mut operation.tool.name, || {
            attrs.text(TOOL_NAMES).or_else(|| attrs.text(&["traceloop.entity.name"]))
        });
        fill(&mut operation.tool.name, || Some(facts.span.name.clone()).filter(|n| !n.is_empty()));
        fill(&mut operation.tool.call_id, || {
            parse::call_id(attrs.first(&["tool.id", "tool_call.id", "call_id"]))
        });
        let issues = &mut operation.issues;
        fill_value(&mut operation.tool.arguments, input.or_else(|| attrs.get("tool_arguments")), issues);
        fill_value(&mut operation.tool.result, output.or_else(|| attrs.get("tool_response")), issues);
    } else {
        if let Some(input) = input {
            prefer(&mut operation.input, parse::messages(input, "user", &mut operation.issues));
        }
        if let Some(output) = output {
            prefer(&mut operation.output, parse::messages(output, "assistant", &mut operation.issues));
        }
    }
    kind
}

fn kind(facts: &Facts<'_>) -> Option<Kind> {
    let attrs = facts.attrs;
    if let Some(word) = attrs.text(KIND_KEYS) {
        let word = word.to_ascii_lowercase();
        return Some(KINDS.iter().find(|(w, _)| *w == word).map_or(Kind::Internal, |(_, kind)| *kind));
    }
    if attrs.first(TOOL_NAMES).is_some() {
        return Some(Kind::ToolCall);
    }
    if attrs.first(&["llm.model_name", "llm.request.model_name"]).is_some() {
        return Some(Kind::ModelCall);
    }
    let has_io = attrs.has("input.value") || attrs.has("traceloop.entity.input");
    let by_name = SUFFIXES.iter().find(|(s, _)| facts.span.name.ends_with(s)).map(|(_, kind)| *kind);
    by_name.filter(|_| has_io).or_else(|| has_io.then_some(Kind::Internal))
}
