//! Vercel AI SDK 3 to 6, and 7 with its old exporter: `ai.*` (`dialects.md` 4.1). Version 7 speaks the convention.

use serde_json::{Map, Value, json};

use super::{Dialect, Facts, fill, fill_arguments, fill_messages, fill_request, fill_result, nanos};
use crate::genai::{
    attrs::Attrs,
    finish,
    operation::{Kind, Operation},
    parse, state, usage,
};

/// The row of this dialect.
pub(super) const DIALECT: Dialect = Dialect { name: "vercel-ai", detect, kind, read };

/// Prefixes that some wrappers of the SDK put where `ai.` stood.
const PREFIXES: &[&str] =
    &["aisdk.", "stream.", "generateText.", "streamText.", "generateObject.", "streamObject."];

fn detect(facts: &Facts<'_>) -> bool {
    facts.attrs.has("ai.operationId")
        || operation_id(facts).starts_with("ai.")
        || facts.attrs.any_with_prefix("aisdk.model.")
}

fn operation_id(facts: &Facts<'_>) -> String {
    let named = facts.attrs.text(&["ai.operationId"]);
    let named = named.or_else(|| Some(facts.attrs.text(&["operation.name"])?.split(' ').next()?.to_owned()));
    named.unwrap_or_default()
}

/// The outer span of an operation is a wrapper; the provider is called in the inner one.
fn kind(facts: &Facts<'_>) -> Option<Kind> {
    let id = operation_id(facts);
    let inner = id.rsplit('.').next().unwrap_or_default();
    Some(match inner {
        "toolCall" => Kind::ToolCall,
        "doGenerate" | "doStream" => Kind::ModelCall,
        "doEmbed" => Kind::Embedding,
        "doRerank" => Kind::Rerank,
        "generateText" | "streamText" | "generateObject" | "streamObject" => Kind::Agent,
        _ if facts.attrs.any_with_prefix("aisdk.model.") => Kind::ModelCall,
        _ => Kind::Internal,
    })
}

fn read(facts: &Facts<'_>, operation: &mut Operation) {
    let renamed = facts.attrs.any_with_prefix("aisdk.").then(|| facts.attrs.renamed(PREFIXES, "ai."));
    let attrs = renamed.as_ref().unwrap_or(facts.attrs);
    if renamed.is_some() {
        usage::fill(&mut operation.usage, usage::read(attrs).0);
    }
    fill(&mut operation.agent_name, || attrs.text(&["ai.telemetry.functionId"]));
    fill(&mut operation.request_model, || attrs.text(&["ai.model.id"]));
    fill(&mut operation.response_model, || attrs.text(&["ai.response.model"]));
    fill(&mut operation.response_id, || attrs.text(&["ai.response.id"]));
    fill(&mut operation.ttft_ns, || {
        let ms = attrs.float(&["ai.response.msToFirstChunk", "ai.stream.msToFirstChunk"])?;
        nanos(ms * 1e6)
    });
    let streams = operation_id(facts).to_ascii_lowercase().contains("stream");
    if operation.kind == Kind::ModelCall {
        fill(&mut operation.request.streamed, || Some(streams));
    }
    if operation.finish_reasons.is_empty() {
        let reasons = attrs.words(&["ai.response.finishReason", "ai.finishReason", "gen_ai.finishReason"]);
        operation.finish_reasons = reasons.iter().map(|r| finish::normalize(r)).collect();
    }
    settings(attrs, operation);
    match operation.kind {
        Kind::ToolCall => {
            fill(&mut operation.tool.name, || attrs.text(&["ai.toolCall.name"]));
            fill(&mut operation.tool.call_id, || parse::call_id(attrs.get("ai.toolCall.id")));
            fill_arguments(operation, attrs.arguments(&["ai.toolCall.args", "ai.toolCall.input"]));
            fill_result(operation, attrs.first(&["ai.toolCall.result", "ai.toolCall.output"]));
        }
        Kind::Embedding => embedding(attrs, operation),
        Kind::Rerank => ranking(attrs, operation),
        _ => messages(attrs, operation),
    }
    // A wrapper whose inner call never came is all there is of it.
    operation.declared |= operation.kind == Kind::Agent;
    details(attrs, operation);
}

fn settings(attrs: &Attrs, operation: &mut Operation) {
    let mut given: Map<String, Value> = attrs
        .with_prefix("ai.settings.")
        .map(|(k, v)| (k.trim_start_matches("ai.settings.").to_owned(), v.clone()))
        .collect();
    if let Some(max) = given.remove("maxTokens").or_else(|| given.remove("maxOutputTokens")) {
        let _ = given.insert("max_tokens".into(), max);
    }
    if let Some(tools) = attrs.get("ai.prompt.tools").map(|t| state::open(t).value) {
        let opened = tools.as_array().map(|tools| tools.iter().map(|t| state::open(t).value).collect());
        let _ = given.insert("tools".into(), opened.unwrap_or(tools));
    }
    fill_request(operation, &Value::Object(given));
}

fn messages(attrs: &Attrs, operation: &mut Operation) {
    fill_messages(operation, attrs.get("ai.prompt.messages"), None);
    // The outer span: `{system?, prompt?, messages?}`.
    if let Some(prompt) = attrs.get("ai.prompt") {
        let opened = state::open(prompt).value;
        let asked = opened.get("prompt").map(
            |text| json!({"messages": [{"role": "user", "content": text}], "system": opened.get("system")}),
        );
        fill_messages(operation, asked.as_ref().or(Some(prompt)), None);
    }
    let mut parts = Vec::new();
    let reasoning = attrs.text(&["ai.response.reasoning", "ai.result.reasoning"]);
    parts.extend(reasoning.map(|text| json!({"type": "reasoning", "content": text})));
    let text = attrs.text(&["ai.response.text", "ai.result.text"]);
    parts.extend(text.map(|text| json!({"type": "text", "content": text})));
    let calls = attrs.first(&["ai.response.toolCalls", "ai.result.toolCalls"]).map(|c| state::open(c).value);
    for call in calls.iter().filter_map(Value::as_array).flatten().filter_map(Value::as_object) {
        let mut call = call.clone();
        let _ = call.insert("type".into(), "tool-call".into());
        parts.push(Value::Object(call));
    }
    let files = attrs.get("ai.response.files").map(|files| state::open(files).value);
    parts.extend(files.iter().filter_map(Value::as_array).flatten().map(file));
    // An object is the text of the answer, already read.
    let object = attrs.first(&["ai.response.object", "ai.result.object"]);
    if let Some(object) = object.filter(|_| parts.is_empty()) {
        let text = object.as_str().map_or_else(|| object.to_string(), str::to_owned);
        parts.push(json!({"type": "text", "content": text}));
        // The SDK may have got the object through a tool that it made up and answers itself.
        operation
            .finish_reasons
            .iter_mut()
            .filter(|r| *r == "tool_call")
            .for_each(|r| *r = "stop".to_owned());
    }
    if !parts.is_empty() {
        fill_messages(operation, None, Some(&json!([{"role": "assistant", "parts": parts}])));
    }
}

/// A file that the model made: named a file, where it does not say so itself.
fn file(file: &Value) -> Value {
    let mut file = state::open(file).value;
    if let Some(members) = file.as_object_mut() {
        let _ = members.entry("type").or_insert_with(|| "file".into());
    }
    file
}

/// A list whose items are JSON text each.
fn items(attrs: &Attrs, keys: &[&str]) -> Option<Value> {
    let value = state::open(attrs.first(keys)?).value;
    Some(match value {
        Value::Array(items) if items.iter().all(Value::is_string) => {
            items.iter().map(|i| state::open(i).value).collect()
        }
        other => other,
    })
}

/// The documents that were given, in the order that they were put in, with their scores.
fn ranking(attrs: &Attrs, operation: &mut Operation) {
    let given = items(attrs, &["ai.documents"]);
    fill_messages(operation, given.as_ref(), None);
    fill(&mut operation.retrieval_query, || attrs.text(&["ai.query"]));
    let ranked = items(attrs, &["ai.ranking"]);
    fill(&mut operation.retrieval_documents, || {
        let mut ranked = ranked?;
        for place in ranked.as_array_mut()?.iter_mut().filter_map(Value::as_object_mut) {
            let index = place.get("index").or_else(|| place.get("originalIndex"));
            let index = index.and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
            let document = index.and_then(|n| given.as_ref()?.get(n).cloned());
            place.extend(document.map(|document| ("document".to_owned(), document)));
        }
        Some(ranked)
    });
}

fn embedding(attrs: &Attrs, operation: &mut Operation) {
    let opened = |keys: &[&str]| items(attrs, keys);
    let input = opened(&["ai.values", "ai.value"]);
    let vectors = opened(&["ai.embeddings", "ai.embedding"]).map(|vectors| {
        let vectors = if vectors.get(0).is_some_and(Value::is_array) { vectors } else { json!([vectors]) };
        let parts: Vec<_> = vectors
            .as_array()
            .into_iter()
            .flatten()
            .map(|v| json!({"type": "embedding", "vector": v}))
            .collect();
        json!([{"role": "assistant", "parts": parts}])
    });
    fill_messages(operation, input.as_ref(), vectors.as_ref());
}

/// Counts that stand only in what the provider's own package reports.
fn details(attrs: &Attrs, operation: &mut Operation) {
    let Some(metadata) = attrs.get("ai.response.providerMetadata").map(|m| state::open(m).value) else {
        return;
    };
    let at = |path: &str| metadata.pointer(path).and_then(Value::as_u64);
    let mut found = usage::of_object(metadata.pointer("/anthropic/usage").unwrap_or(&Value::Null));
    found.input_tokens = None;
    found.output_tokens = None;
    found.cache_read_tokens = found.cache_read_tokens.or_else(|| at("/openai/cachedPromptTokens"));
    found.reasoning_tokens = found.reasoning_tokens.or_else(|| at("/openai/reasoningTokens"));
    found.cache_write_tokens = found.cache_write_tokens.or_else(|| at("/anthropic/cacheCreationInputTokens"));
    usage::fill(&mut operation.usage, found);
}
