//! Bedrock: `converse` and `converse-stream`.

use axum::http::StatusCode;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::{
    ErrorResponse, Surface, event_stream,
    members::{member, system, text},
    pieces,
    request::messages,
};
use crate::{
    genai::message::Part,
    replay::sim::{
        call::{Failed, ModelAnswer, ModelCall, Refused, Sampling, Tokens},
        tools,
    },
};

/// `/model/{id}/converse` and `/converse-stream`.
pub struct Bedrock;

/// Clients name their exception by it, whatever the status.
const ERROR_TYPE: &str = "x-amzn-errortype";

impl Surface for Bedrock {
    fn read(&self, body: &Value, path_model: Option<&str>, path_streams: bool) -> Result<ModelCall, String> {
        let conversation =
            member(body, &["messages"]).ok_or("`messages` is missing: give the messages there")?;
        let model = path_model.or_else(|| text(body, &["modelId"])).filter(|model| !model.is_empty());
        let config = member(body, &["inferenceConfig"]).unwrap_or(&Value::Null);
        let offered = member(body, &["toolConfig"]).and_then(|config| member(config, &["tools"]));
        Ok(ModelCall {
            model: model.ok_or("the path names no model")?.to_owned(),
            system: system(member(body, &["system"])),
            messages: messages(conversation),
            tools: offered.map(tools::read).unwrap_or_default(),
            sampling: Sampling {
                temperature: member(config, &["temperature"]).and_then(Value::as_f64),
                top_p: member(config, &["topP"]).and_then(Value::as_f64),
                max_tokens: member(config, &["maxTokens"]).and_then(Value::as_u64),
                seed: None,
            },
            response_format: response_format(body),
            stream: path_streams,
            ..ModelCall::default()
        })
    }

    fn whole(&self, _: &ModelCall, answer: &ModelAnswer) -> Value {
        let content: Vec<Value> = blocks(answer).iter().map(Block::whole).collect();
        json!({
            "output": {"message": {"role": "assistant", "content": content}},
            "stopReason": stop_reason(answer),
            "usage": usage(&answer.usage),
            "metrics": metrics(),
        })
    }

    fn frames(&self, _: &ModelCall, answer: &ModelAnswer) -> Vec<Bytes> {
        let mut frames = vec![event_stream::event("messageStart", &json!({"role": "assistant"}))];
        for (index, block) in blocks(answer).iter().enumerate() {
            let send = |name: &str, mut payload: Map<String, Value>| {
                let _ = payload.insert("contentBlockIndex".into(), index.into());
                event_stream::event(name, &payload.into())
            };
            let member = |name: &str, value| Map::from_iter([(name.to_owned(), value)]);
            // Only calls begin with a frame of their own.
            frames.extend(block.start().map(|start| send("contentBlockStart", member("start", start))));
            frames.extend(
                block.deltas().into_iter().map(|delta| send("contentBlockDelta", member("delta", delta))),
            );
            frames.push(send("contentBlockStop", Map::new()));
        }
        frames.push(event_stream::event("messageStop", &json!({"stopReason": stop_reason(answer)})));
        let metadata = json!({"usage": usage(&answer.usage), "metrics": metrics()});
        frames.push(event_stream::event("metadata", &metadata));
        frames
    }

    fn stream_media(&self) -> &'static str {
        event_stream::MEDIA
    }

    fn failed(&self, failed: &Failed) -> ErrorResponse {
        let status = StatusCode::from_u16(failed.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        error(status, error_type(&failed.kind, status), &failed.message)
    }

    fn refused(&self, refused: &Refused) -> ErrorResponse {
        error(StatusCode::BAD_REQUEST, "ValidationException", &refused.message)
    }
}

fn error(status: StatusCode, kind: &str, message: &str) -> ErrorResponse {
    ErrorResponse { status, headers: vec![(ERROR_TYPE, kind.to_owned())], body: json!({"message": message}) }
}

/// The exception's name as recorded, without the module it stands in; else the one that goes with the status.
fn error_type(kind: &str, status: StatusCode) -> &str {
    let name = kind.rsplit(['.', '#', ':']).next().unwrap_or(kind);
    if name.ends_with("Exception") && name.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return name;
    }
    match status.as_u16() {
        401 | 403 => "AccessDeniedException",
        404 => "ResourceNotFoundException",
        408 | 504 => "ModelTimeoutException",
        424 => "ModelErrorException",
        429 => "ThrottlingException",
        503 | 529 => "ServiceUnavailableException",
        400..500 => "ValidationException",
        _ => "InternalServerException",
    }
}

/// The schema stands there as JSON text.
fn response_format(body: &Value) -> Option<Value> {
    let schema = body.pointer("/outputConfig/textFormat/structure/jsonSchema/schema")?;
    let opened = schema.as_str().and_then(|text| serde_json::from_str(text).ok());
    Some(opened.unwrap_or_else(|| schema.clone()))
}

/// A block of an answer.
enum Block<'a> {
    Text(&'a str),
    Reasoning { text: &'a str, signature: Option<&'a str> },
    Redacted(&'a str),
    ToolUse { id: &'a str, name: &'a str, input: Value },
}

/// The parts that Bedrock has blocks for.
fn blocks(answer: &ModelAnswer) -> Vec<Block<'_>> {
    answer.parts.iter().filter_map(block).collect()
}

fn block(part: &Part) -> Option<Block<'_>> {
    let said = |extra: &'_ Map<String, Value>, key: &str| extra.get(key).is_some_and(Value::is_string);
    match part {
        Part::Text { content: Some(text), .. } if !text.is_empty() => Some(Block::Text(text)),
        Part::Reasoning { content: Some(text), extra } if !text.is_empty() || said(extra, "signature") => {
            Some(Block::Reasoning { text, signature: extra.get("signature").and_then(Value::as_str) })
        }
        // Clients decode it, and fail on what is no base64.
        Part::Reasoning { extra, .. } => {
            let redacted = extra.get("redactedContent")?.as_str()?;
            BASE64_STANDARD.decode(redacted).is_ok().then_some(Block::Redacted(redacted))
        }
        Part::ToolCall { id, name, arguments, .. } => Some(Block::ToolUse {
            id: id.as_deref().unwrap_or_default(),
            name,
            input: arguments.clone().unwrap_or_else(|| json!({})),
        }),
        _ => None,
    }
}

impl Block<'_> {
    fn whole(&self) -> Value {
        match self {
            Self::Text(text) => json!({"text": text}),
            Self::Reasoning { text, signature: None } => {
                json!({"reasoningContent": {"reasoningText": {"text": text}}})
            }
            Self::Reasoning { text, signature } => {
                json!({"reasoningContent": {"reasoningText": {"text": text, "signature": signature}}})
            }
            Self::Redacted(content) => json!({"reasoningContent": {"redactedContent": content}}),
            Self::ToolUse { id, name, input } => {
                json!({"toolUse": {"toolUseId": id, "name": name, "input": input}})
            }
        }
    }

    fn start(&self) -> Option<Value> {
        let Self::ToolUse { id, name, .. } = self else { return None };
        Some(json!({"toolUse": {"toolUseId": id, "name": name}}))
    }

    fn deltas(&self) -> Vec<Value> {
        let each = |text: &str, of: &dyn Fn(&str) -> Value| pieces(text).into_iter().map(of).collect();
        match self {
            Self::Text(text) => each(text, &|piece| json!({"text": piece})),
            Self::Reasoning { text, signature } => {
                let mut made: Vec<Value> = each(text, &|piece| json!({"reasoningContent": {"text": piece}}));
                made.extend(signature.map(|s| json!({"reasoningContent": {"signature": s}})));
                made
            }
            Self::Redacted(content) => vec![json!({"reasoningContent": {"redactedContent": content}})],
            Self::ToolUse { input, .. } => {
                each(&input.to_string(), &|piece| json!({"toolUse": {"input": piece}}))
            }
        }
    }
}

/// Bedrock says `tool_use` of every answer that calls a tool; other providers' records may say `stop` of it.
fn stop_reason(answer: &ModelAnswer) -> &str {
    let calls = answer.parts.iter().any(|part| matches!(part, Part::ToolCall { .. }));
    match answer.finish.as_str() {
        "" | "stop" if calls => "tool_use",
        "" | "stop" => "end_turn",
        "tool_call" => "tool_use",
        "length" => "max_tokens",
        "content_filter" => "content_filtered",
        other => other,
    }
}

/// The input excludes what the cache gave and took; the total does not.
fn usage(tokens: &Tokens) -> Value {
    let cached = tokens.cache_read.saturating_add(tokens.cache_write);
    let mut made = json!({
        "inputTokens": tokens.input.saturating_sub(cached),
        "outputTokens": tokens.output,
        "totalTokens": tokens.input.saturating_add(tokens.output),
    });
    if let Value::Object(made) = &mut made {
        for (name, count) in
            [("cacheReadInputTokens", tokens.cache_read), ("cacheWriteInputTokens", tokens.cache_write)]
        {
            if count > 0 {
                let _ = made.insert(name.into(), count.into());
            }
        }
    }
    made
}

/// Typed clients want the member. No model worked, so that there is no latency to tell.
fn metrics() -> Value {
    json!({"latencyMs": 0})
}

#[cfg(test)]
mod tests;
