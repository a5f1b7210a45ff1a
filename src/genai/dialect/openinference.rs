//! OpenInference: kinds by `openinference.span.kind`, messages in indexed keys (`dialects.md` section 3).

use serde_json::{Map, Value, json};

use super::{Dialect, Facts, fill, fill_arguments, fill_messages, fill_request, fill_result, query};
use crate::genai::{
    attrs::Attrs,
    events::prefer_richer,
    finish, indexed,
    operation::{Kind, Operation},
    parse, state, usage,
};

/// The row of this dialect.
pub(super) const DIALECT: Dialect = Dialect { name: "openinference", detect, kind, read };

const KINDS: &[(&str, Kind)] = &[
    ("llm", Kind::ModelCall),
    ("embedding", Kind::Embedding),
    ("chain", Kind::Internal),
    ("prompt", Kind::Internal),
    ("retriever", Kind::Retrieval),
    ("reranker", Kind::Rerank),
    ("tool", Kind::ToolCall),
    ("agent", Kind::Agent),
    ("guardrail", Kind::Guardrail),
    ("evaluator", Kind::Evaluation),
];
/// How the instrumentation of OpenAI Agents names the tool span of a hand-off.
const HANDOFF: &str = "handoff to ";

fn detect(facts: &Facts<'_>) -> bool {
    facts.attrs.has("openinference.span.kind")
        || ["llm.input_messages.", "llm.output_messages.", "llm.token_count."]
            .iter()
            .any(|prefix| facts.attrs.any_with_prefix(prefix))
}

fn kind(facts: &Facts<'_>) -> Option<Kind> {
    let word = facts.attrs.text(&["openinference.span.kind"])?.to_ascii_lowercase();
    let kind = KINDS.iter().find(|(w, _)| *w == word).map_or(Kind::Internal, |(_, kind)| *kind);
    // LlamaIndex gives its own helpers the kind of the class that they are methods of.
    let method = facts.span.name.rsplit('.').next().unwrap_or_default();
    if kind == Kind::ModelCall && facts.scope.ends_with("llama_index") && method.starts_with('_') {
        return Some(Kind::Internal);
    }
    let hands_over = kind == Kind::ToolCall && facts.span.name.starts_with(HANDOFF);
    Some(if hands_over { Kind::Handoff } else { kind })
}

fn read(facts: &Facts<'_>, operation: &mut Operation) {
    let attrs = facts.attrs;
    names(facts, operation);
    if let Some(parameters) = attrs.first(&["llm.invocation_parameters", "embedding.invocation_parameters"]) {
        fill_request(operation, &state::open(parameters).value);
    }
    if operation.finish_reasons.is_empty() {
        operation.finish_reasons =
            attrs.words(&["llm.finish_reason"]).iter().map(|r| finish::normalize(r)).collect();
    }
    let tools = indexed::items(attrs, "llm.tools");
    fill(&mut operation.tool_definitions, || {
        (!tools.is_empty()).then(|| tools.iter().map(definition).collect())
    });
    let (input, output) = (attrs.get("input.value"), attrs.raw("output.value").filter(|v| !v.is_null()));
    match operation.kind {
        Kind::ToolCall | Kind::Handoff => tool(facts, operation, output),
        Kind::Retrieval | Kind::Rerank => {
            documents(attrs, operation);
            fill(&mut operation.retrieval_query, || {
                attrs.text(&["reranker.query"]).or_else(|| query(input?))
            });
            fill_messages(operation, input, output);
        }
        Kind::Embedding => embeddings(attrs, operation, input),
        _ => messages(attrs, operation, input, output),
    }
    // The kind's word says that a person made this an agent, whatever its name.
    operation.declared |= operation.kind == Kind::Agent;
}

fn names(facts: &Facts<'_>, operation: &mut Operation) {
    let attrs = facts.attrs;
    if operation.kind == Kind::Agent {
        fill(&mut operation.agent_name, || attrs.text(&["agent.name", "graph.node.name", "graph.node.id"]));
    }
    let model = ["llm.model_name", "embedding.model_name", "reranker.model_name"];
    if matches!(operation.kind, Kind::ModelCall | Kind::Embedding | Kind::Rerank) {
        fill(&mut operation.request_model, || {
            attrs.text(&["llm.request.model_name"]).or_else(|| attrs.text(&model))
        });
        fill(&mut operation.response_model, || {
            attrs.text(&["llm.response.model_name"]).or_else(|| attrs.text(&model))
        });
    }
}

fn messages(attrs: &Attrs, operation: &mut Operation, input: Option<&Value>, output: Option<&Value>) {
    let sides = [
        ("llm.input_messages", "llm.prompts", "user", true),
        ("llm.output_messages", "llm.choices", "assistant", false),
    ];
    for (prefix, texts, role, is_input) in sides {
        let mut flat: Vec<Value> = indexed::items(attrs, prefix).into_iter().filter_map(message).collect();
        if flat.is_empty() {
            let text = |item: Value| {
                let inner = item.get("prompt").or_else(|| item.get("completion"))?;
                Some(json!({"role": role, "content": inner.get("text")?}))
            };
            flat = indexed::items(attrs, texts).into_iter().filter_map(text).collect();
        }
        // The first version: a list of texts under the bare name.
        if let (true, Some(Value::Array(plain))) = (flat.is_empty(), attrs.get(texts)) {
            flat = plain.iter().map(|text| json!({"role": role, "content": text})).collect();
        }
        if let Some(whole) = input.filter(|_| is_input) {
            fill_hollow(&mut flat, whole);
        }
        let told = parse::messages(&Value::Array(flat), role, &mut operation.issues);
        prefer_richer(if is_input { &mut operation.input } else { &mut operation.output }, told);
    }
    fill_messages(operation, input, output);
    if let Some(response) = output {
        usage::fill(&mut operation.usage, usage::of_response(response));
    }
}

/// Some instrumentations write the role of a message whose content they cannot flatten, and nothing else. The content is
/// in the whole input: the next text of that role that no other message has.
fn fill_hollow(flat: &mut [Value], whole: &Value) {
    let is_hollow = |message: &Value| {
        message.as_object().is_some_and(|members| members.keys().all(|key| key == "role" || key == "name"))
    };
    if !flat.iter().any(is_hollow) {
        return;
    }
    let texts = |value: &Value| -> Vec<(String, String)> {
        let read = parse::messages(value, "user", &mut Vec::new()).value;
        read.iter().map(|m| (m.role.clone(), m.text())).filter(|(_, text)| !text.is_empty()).collect()
    };
    let has: Vec<(String, String)> = texts(&Value::Array(flat.to_vec()));
    let mut spare = texts(whole);
    spare.retain(|said| !has.contains(said));
    for message in flat.iter_mut().filter(|message| is_hollow(message)) {
        let role = message.get("role").and_then(Value::as_str).map(parse::role).unwrap_or_default();
        let Some(at) = spare.iter().position(|(of, _)| *of == role) else { continue };
        let (_, text) = spare.remove(at);
        if let Some(members) = message.as_object_mut() {
            let _ = members.insert("content".into(), text.into());
        }
    }
}

/// A message of the indexed keys in the shape of OpenAI's API.
fn message(item: Value) -> Option<Value> {
    let Value::Object(mut item) = item else { return None };
    let Some(Value::Object(mut from)) = item.remove("message") else { return None };
    let mut made = Map::new();
    for key in ["role", "name", "tool_call_id"] {
        made.extend(from.remove(key).map(|value| (key.to_owned(), value)));
    }
    let mut calls: Vec<Value> =
        list(from.remove("tool_calls")).filter_map(|mut c| c.get_mut("tool_call").map(Value::take)).collect();
    let mut blocks = Vec::new();
    for mut content in list(from.remove("contents")) {
        let block = content.get_mut("message_content").map(Value::take).and_then(block);
        let call = content.get_mut("tool_call").map(Value::take);
        blocks.extend(block.filter(|_| call.is_none()));
        calls.extend(call);
    }
    if let Some(name) = from.get("function_call_name") {
        calls.push(json!({"name": name, "arguments": from.get("function_call_arguments_json")}));
    }
    let content = if blocks.is_empty() { from.remove("content") } else { Some(Value::Array(blocks)) };
    made.extend(content.map(|content| ("content".to_owned(), content)));
    if !calls.is_empty() {
        let _ = made.insert("tool_calls".to_owned(), Value::Array(calls));
    }
    Some(Value::Object(made))
}

fn block(content: Value) -> Option<Value> {
    let url = content.pointer("/image/image/url").or_else(|| content.pointer("/image/url"));
    if let Some(url) = url.or_else(|| content.pointer("/audio/audio/url")) {
        let modality = if content.get("audio").is_some() { "audio" } else { "image" };
        return Some(json!({"type": modality, "url": url}));
    }
    // What was called stands in the calls.
    (content.get("type").and_then(Value::as_str) != Some("tool_use")).then_some(content)
}

fn list(value: Option<Value>) -> impl Iterator<Item = Value> {
    match value {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
    .into_iter()
}

fn definition(item: &Value) -> Value {
    let tool = item.get("tool").unwrap_or(item);
    tool.get("json_schema").map_or_else(|| tool.clone(), |schema| state::open(schema).value)
}

fn tool(facts: &Facts<'_>, operation: &mut Operation, output: Option<&Value>) {
    let attrs = facts.attrs;
    if operation.kind == Kind::Handoff {
        let target = || output.and_then(Value::as_str).map(str::to_owned);
        let named = || facts.span.name.strip_prefix(HANDOFF).map(str::to_owned);
        fill(&mut operation.decision, || target().filter(|t| !t.is_empty()).or_else(named));
    }
    fill(&mut operation.tool.name, || attrs.text(&["tool.name"]));
    // `DSPy` and others name the span after the method that runs the tool.
    let bare = facts.span.name.strip_suffix(".__call__").unwrap_or(&facts.span.name);
    fill(&mut operation.tool.name, || Some(bare.to_owned()).filter(|n| !n.is_empty()));
    fill(&mut operation.tool.call_id, || {
        parse::call_id(attrs.first(&["tool.id", "tool_call.id", "tool.call_id"]))
    });
    let arguments = attrs.get("tool.parameters").filter(|p| !is_schema(&state::open(p).value));
    fill_arguments(operation, attrs.arguments(&["input.value"]).or(arguments));
    // An empty result is a result, but some instrumentations write the attribute before they know.
    let failed = facts.span.status.as_ref().is_some_and(|s| s.code == 2);
    fill_result(operation, output.filter(|o| !failed || o.as_str() != Some("")));
}

/// The convention has the parameters' schema in `tool.parameters`; many instrumentations write arguments.
fn is_schema(value: &Value) -> bool {
    let Value::Object(members) = value else { return false };
    members.contains_key("properties")
        || !members.is_empty()
            && members.values().all(|v| v.get("type").is_some() || v.get("description").is_some())
}

fn documents(attrs: &Attrs, operation: &mut Operation) {
    let found =
        ["retrieval.documents", "reranker.output_documents"].iter().map(|key| indexed::items(attrs, key));
    let mut found = found.into_iter().find(|d| !d.is_empty()).unwrap_or_default();
    for item in &mut found {
        if let Some(document) = item.get_mut("document").map(Value::take) {
            *item = document;
        }
        if let Some(metadata) = item.get_mut("metadata") {
            *metadata = state::open(metadata).value;
        }
    }
    fill(&mut operation.retrieval_documents, || (!found.is_empty()).then_some(Value::Array(found)));
}

fn embeddings(attrs: &Attrs, operation: &mut Operation, input: Option<&Value>) {
    let (mut texts, mut vectors) = (Vec::new(), Vec::new());
    for item in indexed::items(attrs, "embedding.embeddings") {
        let Some(embedding) = item.get("embedding") else { continue };
        texts.extend(embedding.get("text").cloned());
        vectors.extend(embedding.get("vector").map(|vector| json!({"type": "embedding", "vector": vector})));
    }
    let input_texts = Value::Array(texts);
    let told = attrs.get("embedding.text").or(Some(&input_texts)).filter(|t| **t != json!([])).or(input);
    fill_messages(operation, told, None);
    let vectors = json!([{"role": "assistant", "parts": vectors}]);
    fill_messages(operation, None, Some(&vectors));
}
