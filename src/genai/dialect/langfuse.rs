//! Langfuse's SDK: `langfuse.observation.*` (`dialects.md` section 7).

use serde_json::Value;

use super::{Dialect, Facts, fill, fill_arguments, fill_messages, fill_request, fill_result, query};
use crate::genai::{
    attrs,
    operation::{Failure, Kind, OpStatus, Operation, Usage},
    state, usage,
};

/// The row of this dialect.
pub(super) const DIALECT: Dialect = Dialect { name: "langfuse", detect, kind, read };

const KINDS: &[(&str, Kind)] = &[
    ("generation", Kind::ModelCall),
    ("embedding", Kind::Embedding),
    ("agent", Kind::Agent),
    ("tool", Kind::ToolCall),
    ("retriever", Kind::Retrieval),
    ("guardrail", Kind::Guardrail),
    ("evaluator", Kind::Evaluation),
];

fn detect(facts: &Facts<'_>) -> bool {
    facts.scope.starts_with("langfuse-sdk")
        || ["langfuse.observation.", "langfuse.trace."].iter().any(|p| facts.attrs.any_with_prefix(p))
}

fn kind(facts: &Facts<'_>) -> Option<Kind> {
    let attrs = facts.attrs;
    let word = attrs.text(&["langfuse.observation.type"])?.to_ascii_lowercase();
    if let Some((_, kind)) = KINDS.iter().find(|(w, _)| *w == word) {
        return Some(*kind);
    }
    // An early SDK wrote `span` on generations. Every other span is what its other attributes say.
    let generation = ["langfuse.observation.model.name", "langfuse.observation.usage_details"];
    (word == "span" && attrs.first(&generation).is_some()).then_some(Kind::ModelCall)
}

fn read(facts: &Facts<'_>, operation: &mut Operation) {
    let attrs = facts.attrs;
    let input = attrs.get("langfuse.observation.input");
    let output = attrs.raw("langfuse.observation.output").filter(|v| !v.is_null());
    match operation.kind {
        Kind::ToolCall => {
            fill(&mut operation.tool.name, || attrs.text(&["gen_ai.tool.name"]));
            fill(&mut operation.tool.name, || Some(facts.span.name.clone()).filter(|n| !n.is_empty()));
            fill_arguments(operation, attrs.arguments(&["langfuse.observation.input"]));
            fill_result(operation, output);
        }
        Kind::Retrieval => {
            fill_arguments(operation, input);
            fill_result(operation, output);
            fill(&mut operation.retrieval_query, || query(&operation.tool.arguments.value));
            let found = &operation.tool.result.value;
            fill(&mut operation.retrieval_documents, || found.is_array().then(|| found.clone()));
        }
        _ => fill_messages(operation, input, output),
    }
    if operation.kind == Kind::Agent {
        operation.declared = true;
        fill(&mut operation.agent_name, || Some(facts.span.name.clone()).filter(|n| !n.is_empty()));
    }
    if matches!(operation.kind, Kind::ModelCall | Kind::Embedding) {
        fill(&mut operation.response_model, || attrs.text(&["langfuse.observation.model.name"]));
        if let Some(request) = input.map(|v| state::open(v).value) {
            fill_request(operation, &request);
        }
    }
    if let Some(parameters) = attrs.get("langfuse.observation.model.parameters") {
        fill_request(operation, &state::open(parameters).value);
    }
    if let Some(details) = attrs.get("langfuse.observation.usage_details") {
        usage::fill(&mut operation.usage, buckets(&state::open(details).value));
    }
    if let Some(cost) = attrs.get("langfuse.observation.cost_details").map(|c| state::open(c).value)
        && let Some(total) = cost.get("total").and_then(Value::as_f64)
    {
        fill(&mut operation.usage.cost_usd, || Some(total));
        fill(&mut operation.cost_source, || Some("langfuse.observation.cost_details".to_owned()));
    }
    fill(&mut operation.ttft_ns, || {
        let text = attrs.text(&["langfuse.observation.completion_start_time"])?;
        let at = chrono::DateTime::parse_from_rfc3339(text.trim_matches('"')).ok()?;
        u64::try_from(at.timestamp_nanos_opt()?).ok()?.checked_sub(facts.span.start_time_unix_nano)
    });
    if attrs.text(&["langfuse.observation.level"]).as_deref() == Some("ERROR") {
        operation.status = OpStatus::Error;
        operation.failure = Some(Failure {
            kind: None,
            message: attrs.text(&["langfuse.observation.status_message"]),
            ..Failure::default()
        });
    }
}

/// Counts of a provider as they are, or Langfuse's buckets, none of which holds another.
fn buckets(details: &Value) -> Usage {
    let counts = usage::of_object(details);
    if !counts.is_empty() && counts.input_tokens.is_some() {
        return counts;
    }
    let sum = |start: &str| {
        let members = details.as_object().into_iter().flatten().filter(|(key, _)| key.starts_with(start));
        members.filter_map(|(_, value)| attrs::count(value)).reduce(u64::saturating_add)
    };
    let of = |keys: &[&str]| keys.iter().find_map(|key| attrs::count(details.get(*key)?));
    Usage {
        input_tokens: sum("input"),
        output_tokens: sum("output"),
        cache_read_tokens: of(&["input_cached_tokens", "input_cache_read", "cache_read_input_tokens"]),
        cache_write_tokens: of(&["input_cache_creation", "cache_creation_input_tokens"]),
        reasoning_tokens: of(&["output_reasoning_tokens", "output_reasoning"]),
        cost_usd: None,
    }
}
