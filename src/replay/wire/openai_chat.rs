//! OpenAI's chat completions (`POST /chat/completions`).

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::{
    ErrorResponse, Surface,
    answer::{self, Said, arguments_text, said, set},
    event, openai, pieces, request,
};
use crate::replay::sim::call::{Failed, ModelAnswer, ModelCall, Refused, Tokens};

/// Chat completions.
#[derive(Clone, Copy, Debug)]
pub struct OpenAiChat;

impl Surface for OpenAiChat {
    fn read(&self, body: &Value, path_model: Option<&str>, _path_streams: bool) -> Result<ModelCall, String> {
        let members = request::members(body)?;
        let messages = members.get("messages").filter(|messages| messages.is_array());
        let messages = messages.ok_or("`messages` is missing: it must be a list")?;
        let options = members.get("stream_options").and_then(Value::as_object);
        Ok(ModelCall {
            model: request::model(members, path_model)?,
            system: Vec::new(),
            messages: request::messages(messages),
            tools: request::tools(members, &["tools", "functions"]),
            sampling: request::sampling(members, &["max_completion_tokens", "max_tokens"]),
            response_format: request::format(members.get("response_format")),
            stream: request::is_set(members, "stream"),
            stream_usage: options.is_some_and(|options| request::is_set(options, "include_usage")),
            previous_id: None,
        })
    }

    fn whole(&self, call: &ModelCall, answer: &ModelAnswer) -> Value {
        let said = said(answer);
        let choice = json!({
            "index": 0,
            "message": message(call, &said),
            "logprobs": null,
            "finish_reason": finish(answer, &said),
        });
        let mut whole = head(call, answer, "chat.completion");
        let _ = whole.insert("choices".into(), json!([choice]));
        let _ = whole.insert("usage".into(), usage(&answer.usage));
        Value::Object(whole)
    }

    fn frames(&self, call: &ModelCall, answer: &ModelAnswer) -> Vec<Bytes> {
        let said = said(answer);
        let head = head(call, answer, "chat.completion.chunk");
        let chunk = |choices: Value, usage: Value| {
            let mut chunk = head.clone();
            let _ = chunk.insert("choices".into(), choices);
            // Where counts were asked for, every chunk has the member.
            if call.stream_usage {
                let _ = chunk.insert("usage".into(), usage);
            }
            event(None, &Value::Object(chunk))
        };
        let choice = |delta: Value, finish: Value| {
            let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish});
            chunk(json!([choice]), Value::Null)
        };
        let mut frames =
            vec![choice(json!({"role": "assistant", "content": "", "refusal": null}), Value::Null)];
        frames.extend(deltas(call, &said).into_iter().map(|delta| choice(delta, Value::Null)));
        frames.push(choice(json!({}), finish(answer, &said).into()));
        if call.stream_usage {
            frames.push(chunk(json!([]), usage(&answer.usage)));
        }
        frames.push(Bytes::from_static(b"data: [DONE]\n\n"));
        frames
    }

    fn failed(&self, failed: &Failed) -> ErrorResponse {
        openai::failed(failed)
    }

    fn refused(&self, refused: &Refused) -> ErrorResponse {
        openai::refused(refused)
    }
}

/// The members that the response and every chunk of it begin with.
fn head(call: &ModelCall, answer: &ModelAnswer, object: &str) -> Map<String, Value> {
    let members = [
        ("id", Value::from(format!("chatcmpl-{}", answer.id))),
        ("object", object.into()),
        ("created", answer.created_s.into()),
        ("model", answer::model(call, answer).into()),
        ("service_tier", "default".into()),
        ("system_fingerprint", Value::Null),
    ];
    members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn message(call: &ModelCall, said: &[Said]) -> Value {
    let (mut text, mut refusal, mut reasoning) = (String::new(), String::new(), String::new());
    let mut calls = Vec::new();
    for said in said {
        match said {
            Said::Text(more) => text.push_str(more),
            Said::Refusal(more) => refusal.push_str(more),
            Said::Reasoning { text: more, .. } => reasoning.push_str(more),
            Said::Call { id, name, arguments } => {
                let Written { kind, member, text } = Written::of(call, name, arguments);
                calls.push(json!({"id": id, "type": kind, kind: {"name": name, member: text}}));
            }
            Said::Other { .. } => {}
        }
    }
    // A message has a member to hold on to: text, or what stands in its place.
    let replaced = !calls.is_empty() || !refusal.is_empty();
    let content = if text.is_empty() && replaced { Value::Null } else { text.into() };
    let refusal = if refusal.is_empty() { Value::Null } else { refusal.into() };
    let mut message = json!({"role": "assistant", "content": content, "refusal": refusal, "annotations": []});
    // Not OpenAI's, but that of the many who serve its API; a client that does not know it passes over it.
    if !reasoning.is_empty() {
        set(&mut message, "reasoning_content", reasoning);
    }
    if !calls.is_empty() {
        set(&mut message, "tool_calls", calls);
    }
    message
}

/// What is streamed between the first chunk and the last: each piece of each part.
fn deltas(call: &ModelCall, said: &[Said]) -> Vec<Value> {
    let mut deltas = Vec::new();
    let mut calls = 0;
    for said in said {
        let (key, text) = match said {
            Said::Text(text) => ("content", text),
            Said::Refusal(text) => ("refusal", text),
            Said::Reasoning { text, .. } => ("reasoning_content", text),
            Said::Call { id, name, arguments } => {
                deltas.extend(call_deltas(calls, id, name, &Written::of(call, name, arguments)));
                calls += 1;
                continue;
            }
            Said::Other { .. } => continue,
        };
        deltas.extend(pieces(text).into_iter().map(|piece| json!({ key: piece })));
    }
    deltas
}

fn call_deltas(index: usize, id: &str, name: &str, written: &Written) -> Vec<Value> {
    let Written { kind, member, text } = written;
    let first = json!({"index": index, "id": id, "type": kind, *kind: {"name": name, *member: ""}});
    let piece = |piece: &str| json!({"index": index, *kind: {*member: piece}});
    let calls = std::iter::once(first).chain(pieces(text).into_iter().map(piece));
    calls.map(|call| json!({"tool_calls": [call]})).collect()
}

/// What a tool is called with, under the names of its kind.
struct Written {
    kind: &'static str,
    member: &'static str,
    text: String,
}

impl Written {
    fn of(call: &ModelCall, name: &str, arguments: &Value) -> Self {
        let text = arguments_text(arguments);
        let is_custom = answer::is_custom(call, name, arguments);
        let (kind, member) = if is_custom { ("custom", "input") } else { ("function", "arguments") };
        Self { kind, member, text }
    }
}

fn finish(answer: &ModelAnswer, said: &[Said]) -> &'static str {
    match answer::finish(answer, said) {
        "stop" => "stop",
        "length" => "length",
        "tool_call" => "tool_calls",
        "content_filter" => "content_filter",
        // Some clients take no other word.
        _ if answer::has_call(said) => "tool_calls",
        _ => "stop",
    }
}

fn usage(tokens: &Tokens) -> Value {
    json!({
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.input.saturating_add(tokens.output),
        "prompt_tokens_details": {
            "cached_tokens": tokens.cache_read,
            "cache_write_tokens": tokens.cache_write,
            "audio_tokens": 0,
        },
        "completion_tokens_details": {
            "reasoning_tokens": tokens.reasoning,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    })
}

#[cfg(test)]
mod tests;
