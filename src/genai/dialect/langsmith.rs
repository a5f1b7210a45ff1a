//! LangSmith's exporter: whole inputs and outputs of a run as JSON (`dialects.md` section 6).

use super::{
    Dialect, Facts, fill, fill_arguments_under, fill_messages, fill_request, fill_result_under, query,
};
use crate::genai::{
    operation::{Kind, Operation},
    state, usage,
};
use serde_json::Value;

/// The row of this dialect. It stands before the convention: the exporter writes `chat` for prompts too.
pub(super) const DIALECT: Dialect = Dialect { name: "langsmith", detect, kind, read };

const KINDS: &[(&str, Kind)] = &[
    ("llm", Kind::ModelCall),
    ("tool", Kind::ToolCall),
    ("retriever", Kind::Retrieval),
    ("embedding", Kind::Embedding),
    ("chain", Kind::Internal),
    ("prompt", Kind::Internal),
    ("parser", Kind::Internal),
];

fn detect(facts: &Facts<'_>) -> bool {
    facts.scope == "langsmith" || facts.attrs.has("langsmith.span.kind")
}

fn kind(facts: &Facts<'_>) -> Option<Kind> {
    let word = facts.attrs.text(&["langsmith.span.kind"])?.to_ascii_lowercase();
    Some(KINDS.iter().find(|(w, _)| *w == word).map_or(Kind::Internal, |(_, kind)| *kind))
}

fn read(facts: &Facts<'_>, operation: &mut Operation) {
    let attrs = facts.attrs;
    let (input, output) = (attrs.get("gen_ai.prompt"), attrs.get("gen_ai.completion"));
    match operation.kind {
        Kind::ToolCall => {
            fill(&mut operation.tool.name, || attrs.text(&["gen_ai.tool.name", "langsmith.trace.name"]));
            fill_arguments_under(operation, attrs.arguments(&["gen_ai.prompt"]), called_with);
            fill_result_under(operation, output, answered_with);
        }
        Kind::Retrieval => {
            fill_messages(operation, input, output);
            fill(&mut operation.retrieval_query, || query(input?));
            fill(&mut operation.retrieval_documents, || state::open(output?).value.get("documents").cloned());
        }
        _ => {
            if let Some(request) = input.map(|v| state::open(v).value) {
                fill_request(operation, &request);
            }
            fill_messages(operation, input, output);
            if let Some(response) = output.filter(|_| operation.kind == Kind::ModelCall) {
                usage::fill(&mut operation.usage, usage::of_response(response));
            }
        }
    }
    let sampled = |key: &str| attrs.float(&[key]);
    fill(&mut operation.request.temperature, || sampled("langsmith.metadata.ls_temperature"));
    fill(&mut operation.request.max_tokens, || attrs.int(&["langsmith.metadata.ls_max_tokens"]));
    fill(&mut operation.request.streamed, || attrs.flag(&["langsmith.request.streaming"]));
    for key in ["langsmith.usage_metadata", "langsmith.metadata.usage_metadata"] {
        if let Some(counts) = attrs.get(key) {
            usage::fill(&mut operation.usage, usage::of_object(&state::open(counts).value));
        }
    }
    // Written as a Python dict by the older SDK.
    let details = |key: &str| attrs.get(key).map(|v| state::open(v).value).unwrap_or_default();
    let counts = serde_json::json!({
        "input_token_details": details("gen_ai.usage.input_token_details"),
        "output_token_details": details("gen_ai.usage.output_token_details"),
    });
    usage::fill(&mut operation.usage, usage::of_object(&counts));
}

/// A tool's input is its arguments, or text under `input` that holds them.
fn called_with(input: &Value) -> &Value {
    let inner = input.get("input").filter(|_| is_single(input));
    let holds = |inner: &&Value| {
        inner.is_object() || inner.as_str().is_some_and(|text| text.trim_start().starts_with('{'))
    };
    inner.filter(holds).unwrap_or(input)
}

fn answered_with(output: &Value) -> &Value {
    let inner = ["output", "outputs"].iter().find_map(|key| output.get(*key));
    inner.filter(|_| is_single(output)).unwrap_or(output)
}

fn is_single(value: &Value) -> bool {
    value.as_object().is_some_and(|members| members.len() == 1)
}
