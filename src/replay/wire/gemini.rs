//! Gemini: `generateContent`, `streamGenerateContent`, `countTokens`, `embedContent`, `batchEmbedContents`.
//!
//! Members are read in camel case and in snake case: clients mix them in one body.

mod write;

use axum::http::StatusCode;
use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::{
    ErrorResponse, Surface, event,
    members::{member, system, text},
    request::messages,
};
use crate::replay::sim::{
    call::{EmbeddingAnswer, EmbeddingCall, Failed, ModelAnswer, ModelCall, Refused, Sampling},
    tools,
};
use write::{in_pieces, response, written};

/// `models/{model}:generateContent` and `:streamGenerateContent`, under any version or none.
pub struct Gemini;

impl Surface for Gemini {
    fn read(&self, body: &Value, path_model: Option<&str>, path_streams: bool) -> Result<ModelCall, String> {
        // `countTokens` may hold the whole request that is to be counted.
        let body = member(body, &["generateContentRequest", "generate_content_request"]).unwrap_or(body);
        let contents = member(body, &["contents"]).ok_or("`contents` is missing: give the messages there")?;
        let config = member(body, &["generationConfig", "generation_config"]).unwrap_or(&Value::Null);
        Ok(ModelCall {
            model: model(body, path_model)?,
            system: system(member(body, &["systemInstruction", "system_instruction"])),
            messages: messages(contents),
            tools: member(body, &["tools"]).map(tools::read).unwrap_or_default(),
            sampling: Sampling {
                temperature: member(config, &["temperature"]).and_then(Value::as_f64),
                top_p: member(config, &["topP", "top_p"]).and_then(Value::as_f64),
                max_tokens: member(config, &["maxOutputTokens", "max_output_tokens"]).and_then(Value::as_u64),
                seed: member(config, &["seed"]).and_then(Value::as_i64),
            },
            response_format: response_format(config).cloned(),
            stream: path_streams,
            ..ModelCall::default()
        })
    }

    fn whole(&self, _: &ModelCall, answer: &ModelAnswer) -> Value {
        response(answer, answer.parts.iter().filter_map(written).collect(), true)
    }

    fn frames(&self, _: &ModelCall, answer: &ModelAnswer) -> Vec<Bytes> {
        let mut parts: Vec<Vec<Value>> =
            answer.parts.iter().filter_map(written).flat_map(in_pieces).map(|part| vec![part]).collect();
        // The end of the stream is the end of the body: the last chunk says why it ended and what it took.
        let last = parts.pop().unwrap_or_default();
        let before = parts.into_iter().map(|parts| response(answer, parts, false));
        before.chain([response(answer, last, true)]).map(|chunk| event(None, &chunk)).collect()
    }

    fn failed(&self, failed: &Failed) -> ErrorResponse {
        let status = StatusCode::from_u16(failed.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let word = STATUSES.iter().map(|(_, word)| *word).find(|word| *word == failed.kind);
        let word = word.unwrap_or_else(|| status_word(status));
        let body = json!({"error": {"code": status.as_u16(), "message": failed.message, "status": word}});
        ErrorResponse { status, headers: Vec::new(), body }
    }

    fn refused(&self, refused: &Refused) -> ErrorResponse {
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        let mut metadata = Map::new();
        if let Some(step) = refused.step {
            let _ = metadata.insert("step".into(), step.to_string().into());
        }
        let detail = json!({
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": refused.code.name(),
            "domain": "spanreel",
            "metadata": metadata,
        });
        let body = json!({"error": {
            "code": status.as_u16(),
            "message": refused.message,
            "status": "FAILED_PRECONDITION",
            "details": [detail],
        }});
        ErrorResponse { status, headers: vec![("x-should-retry", "false".to_owned())], body }
    }
}

/// What is embedded, of `embedContent` and `batchEmbedContents`.
///
/// # Errors
/// The request is neither; the text says what is missing.
pub fn read_embedding(body: &Value, path_model: Option<&str>) -> Result<EmbeddingCall, String> {
    let requests = match member(body, &["requests"]).and_then(Value::as_array) {
        Some(requests) => requests.as_slice(),
        None => std::slice::from_ref(body),
    };
    let content = |request| member(request, &["content"]).ok_or("`content` is missing: give the text there");
    let inputs = requests.iter().map(|r| Ok(messages(content(r)?).iter().map(|m| m.text()).collect()));
    let inputs: Vec<String> = inputs.collect::<Result<_, String>>()?;
    let first = requests.first().ok_or("`requests` is empty: give a text to embed")?;
    let dimensions = |of| member(of, &["outputDimensionality", "output_dimensionality"])?.as_u64();
    let config = member(first, &["embedContentConfig", "embed_content_config"]).unwrap_or(&Value::Null);
    let dimensions = dimensions(first).or_else(|| dimensions(config));
    Ok(EmbeddingCall {
        model: model(first, path_model)?,
        inputs,
        dimensions: dimensions.and_then(|n| usize::try_from(n).ok()),
    })
}

/// The vectors, as `batchEmbedContents` gives them, or as `embedContent` does.
pub fn embedding_response(answer: &EmbeddingAnswer, is_batch: bool) -> Value {
    let mut vectors = answer.vectors.iter().map(|values| json!({"values": values}));
    if is_batch {
        json!({"embeddings": vectors.collect::<Vec<_>>()})
    } else {
        json!({"embedding": vectors.next().unwrap_or_else(|| json!({"values": []}))})
    }
}

/// What `countTokens` answers.
pub fn count_response(tokens: u64) -> Value {
    json!({"totalTokens": tokens})
}

fn model(body: &Value, path_model: Option<&str>) -> Result<String, String> {
    let named = path_model.or_else(|| text(body, &["model"])).unwrap_or_default();
    let named = named.strip_prefix("publishers/google/").unwrap_or(named);
    let named = named.strip_prefix("models/").unwrap_or(named);
    if named.is_empty() { Err("the path names no model".into()) } else { Ok(named.to_owned()) }
}

fn response_format(config: &Value) -> Option<&Value> {
    const SCHEMA: &[&str] = &[
        "responseJsonSchema",
        "response_json_schema",
        "responseSchema",
        "response_schema",
        "_responseJsonSchema",
    ];
    let media = || member(config, &["responseMimeType", "response_mime_type"]);
    member(config, SCHEMA).or_else(|| media().filter(|media| media.as_str() != Some("text/plain")))
}

/// The words of Google's APIs for statuses, strongest first for each status.
const STATUSES: &[(u16, &str)] = &[
    (400, "INVALID_ARGUMENT"),
    (400, "FAILED_PRECONDITION"),
    (400, "OUT_OF_RANGE"),
    (401, "UNAUTHENTICATED"),
    (403, "PERMISSION_DENIED"),
    (404, "NOT_FOUND"),
    (409, "ABORTED"),
    (409, "ALREADY_EXISTS"),
    (429, "RESOURCE_EXHAUSTED"),
    (499, "CANCELLED"),
    (500, "INTERNAL"),
    (500, "DATA_LOSS"),
    (500, "UNKNOWN"),
    (501, "UNIMPLEMENTED"),
    (503, "UNAVAILABLE"),
    (504, "DEADLINE_EXCEEDED"),
];

fn status_word(status: StatusCode) -> &'static str {
    let word = STATUSES.iter().find(|(code, _)| *code == status.as_u16());
    word.map_or(if status.is_client_error() { "INVALID_ARGUMENT" } else { "UNKNOWN" }, |(_, word)| *word)
}

#[cfg(test)]
mod tests;
