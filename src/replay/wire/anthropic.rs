//! Anthropic's messages (`POST /v1/messages`), its count of tokens and its list of models.

mod stream;

use axum::http::StatusCode;
use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    ErrorResponse, Surface,
    answer::{self, Said, said, set},
    error, request,
};
use crate::replay::sim::call::{Failed, ModelAnswer, ModelCall, Refused, Tokens};

/// Messages.
#[derive(Clone, Copy, Debug)]
pub struct Anthropic;

impl Surface for Anthropic {
    /// Reads a request for a count of tokens too: it has the same members.
    fn read(&self, body: &Value, path_model: Option<&str>, _path_streams: bool) -> Result<ModelCall, String> {
        let members = request::members(body)?;
        let messages = members.get("messages").filter(|messages| messages.is_array());
        let messages = messages.ok_or("`messages` is missing: it must be a list")?;
        let format = members.get("output_config").and_then(|config| config.get("format"));
        Ok(ModelCall {
            model: request::model(members, path_model)?,
            system: request::parts(members.get("system")),
            messages: request::messages(messages),
            tools: request::tools(members, &["tools"]),
            sampling: request::sampling(members, &["max_tokens"]),
            response_format: request::format(format.or_else(|| members.get("output_format"))),
            stream: request::is_set(members, "stream"),
            stream_usage: false,
            previous_id: None,
        })
    }

    fn whole(&self, call: &ModelCall, answer: &ModelAnswer) -> Value {
        let said = said(answer);
        let content: Vec<Value> = said.iter().filter_map(block).collect();
        json!({
            "id": format!("msg_{}", answer.id),
            "type": "message",
            "role": "assistant",
            "model": answer::model(call, answer),
            "content": content,
            "stop_reason": stop_reason(answer, &said),
            "stop_sequence": null,
            "usage": usage(&answer.usage),
        })
    }

    fn frames(&self, call: &ModelCall, answer: &ModelAnswer) -> Vec<Bytes> {
        stream::frames(&self.whole(call, answer))
    }

    /// A request that leaves its history with the provider. The tool runners then send the whole history at once and
    /// from there on, which is what is compared with the record.
    fn refuses(&self, body: &Value) -> Option<ErrorResponse> {
        const MESSAGE: &str = "message threads are not served: send the whole history, without `thread`";
        let _ = body.get("thread").filter(|thread| !thread.is_null())?;
        Some(error(
            StatusCode::BAD_REQUEST,
            "invalid_request_error",
            MESSAGE,
            Some("thread_unsupported_request"),
        ))
    }

    fn failed(&self, failed: &Failed) -> ErrorResponse {
        let status = error::recorded_status(failed);
        let kind = match (failed.kind.as_str(), status.as_u16()) {
            ("", 401) => "authentication_error",
            ("", 402) => "billing_error",
            ("", 403) => "permission_error",
            ("", 404) => "not_found_error",
            ("", 413) => "request_too_large",
            ("", 429) => "rate_limit_error",
            ("", 504) => "timeout_error",
            ("", 529) => "overloaded_error",
            ("", 500..) => "api_error",
            ("", _) => "invalid_request_error",
            (kind, _) => kind,
        };
        error(status, kind, &error::message(&failed.message, status), None)
    }

    fn refused(&self, refused: &Refused) -> ErrorResponse {
        let code = Some(refused.code.name());
        error(StatusCode::UNPROCESSABLE_ENTITY, "invalid_request_error", &refused.message, code)
    }
}

/// The number of tokens of a request (`POST /v1/messages/count_tokens`).
pub fn count_tokens(tokens: u64) -> Value {
    json!({ "input_tokens": tokens })
}

/// The list of models (`GET /v1/models`), in one page.
pub fn models(names: &[String]) -> Value {
    let data: Vec<Value> = names.iter().map(|name| model(name)).collect();
    json!({"data": data, "has_more": false, "first_id": names.first(), "last_id": names.last()})
}

/// One model (`GET /v1/models/{name}`). The epoch stands for a day that is not known.
pub fn model(name: &str) -> Value {
    json!({"type": "model", "id": name, "display_name": name, "created_at": "1970-01-01T00:00:00Z", "lifecycle": "active"})
}

fn error(status: StatusCode, kind: &str, message: &str, code: Option<&str>) -> ErrorResponse {
    let mut error = json!({"type": kind, "message": message});
    if let Some(code) = code {
        set(&mut error, "details", json!({ "error_code": code }));
    }
    // The same error has the same id.
    let hash = blake3::hash(message.as_bytes()).to_hex();
    let id = format!("req_{}", hash.as_str().get(..24).unwrap_or_default());
    let mut response = error::once(status, json!({"type": "error", "error": error, "request_id": id}));
    response.headers.push(("request-id", id));
    response
}

/// The block for a part; `None` for a part that this API has no word for.
fn block(said: &Said) -> Option<Value> {
    Some(match said {
        Said::Text(text) | Said::Refusal(text) => json!({"type": "text", "text": text}),
        Said::Reasoning { text, extra } => {
            let signature = extra.get("signature").and_then(Value::as_str).unwrap_or_default();
            if text.is_empty() && signature.is_empty() {
                return None;
            }
            json!({"type": "thinking", "thinking": text, "signature": signature})
        }
        Said::Call { id, name, arguments } => {
            let input = if arguments.is_null() { json!({}) } else { (*arguments).clone() };
            json!({"type": "tool_use", "id": id, "name": name, "input": input})
        }
        // What the provider did itself is a block as it was recorded.
        Said::Other { kind, block } if is_own(kind) => Value::Object((*block).clone()),
        Said::Other { .. } => return None,
    })
}

fn is_own(kind: &str) -> bool {
    matches!(kind, "redacted_thinking" | "server_tool_use" | "container_upload")
        || kind.ends_with("_tool_result")
}

fn stop_reason(answer: &ModelAnswer, said: &[Said]) -> &'static str {
    match answer::finish(answer, said) {
        "length" => "max_tokens",
        "content_filter" | "refusal" => "refusal",
        "pause_turn" => "pause_turn",
        "model_context_window_exceeded" => "model_context_window_exceeded",
        // An answer that asks for a tool ends so, whatever word a recorder had for it: programs go on by it.
        _ if answer::has_call(said) => "tool_use",
        "tool_call" => "tool_use",
        _ => "end_turn",
    }
}

/// Tokens that came from or went to the cache are not among `input_tokens`.
fn usage(tokens: &Tokens) -> Value {
    let cached = tokens.cache_read.saturating_add(tokens.cache_write);
    let mut usage = json!({
        "input_tokens": tokens.input.saturating_sub(cached),
        "cache_creation_input_tokens": tokens.cache_write,
        "cache_read_input_tokens": tokens.cache_read,
        "output_tokens": tokens.output,
        "service_tier": "standard",
    });
    if tokens.reasoning > 0 {
        set(&mut usage, "output_tokens_details", json!({ "thinking_tokens": tokens.reasoning }));
    }
    usage
}

#[cfg(test)]
mod tests;
