//! OpenAI's responses (`POST /responses`).

mod reference;
mod stream;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::{
    ErrorResponse, Surface,
    answer::{self, Said, arguments_text, said, set, text},
    openai, request,
};
use crate::{
    genai::{message::Message, parse::OF_PROVIDER},
    replay::sim::call::{Failed, ModelAnswer, ModelCall, Refused, Tokens},
};

/// Responses.
#[derive(Clone, Copy, Debug)]
pub struct OpenAiResponses;

impl Surface for OpenAiResponses {
    fn resolve(&self, call: &mut ModelCall, given: &dyn Fn(&str) -> Option<ModelAnswer>) {
        reference::resolve(call, given);
    }

    fn read(&self, body: &Value, path_model: Option<&str>, _path_streams: bool) -> Result<ModelCall, String> {
        let members = request::members(body)?;
        if members.get("conversation").is_some_and(|conversation| !conversation.is_null()) {
            return Err(
                "`conversation` is not served: send the history in `input`, or `previous_response_id`".into(),
            );
        }
        Ok(ModelCall {
            model: request::model(members, path_model)?,
            system: request::parts(members.get("instructions")),
            messages: input(members)?,
            tools: request::tools(members, &["tools"]),
            sampling: request::sampling(members, &["max_output_tokens"]),
            response_format: request::format(members.get("text").and_then(|text| text.get("format"))),
            stream: request::is_set(members, "stream"),
            stream_usage: false,
            previous_id: request::text(members, "previous_response_id").map(str::to_owned),
        })
    }

    fn whole(&self, call: &ModelCall, answer: &ModelAnswer) -> Value {
        let said = said(answer);
        let end = End::of(answer::finish(answer, &said));
        response(
            call,
            answer,
            end.status(),
            end.incomplete(),
            output(call, answer, &said),
            usage(&answer.usage),
        )
    }

    fn frames(&self, call: &ModelCall, answer: &ModelAnswer) -> Vec<Bytes> {
        let begun = response(call, answer, "in_progress", Value::Null, Vec::new(), Value::Null);
        stream::frames(&begun, &self.whole(call, answer))
    }

    fn failed(&self, failed: &Failed) -> ErrorResponse {
        openai::failed(failed)
    }

    fn refused(&self, refused: &Refused) -> ErrorResponse {
        openai::refused(refused)
    }
}

fn input(members: &Map<String, Value>) -> Result<Vec<Message>, String> {
    match members.get("input") {
        Some(Value::String(_)) => {
            Ok(request::messages(&json!([{"role": "user", "content": members.get("input")}])))
        }
        Some(list @ Value::Array(_)) => Ok(request::messages(list)),
        // What goes on from an earlier answer may add nothing.
        None | Some(Value::Null) if members.contains_key("previous_response_id") => Ok(Vec::new()),
        _ => Err("`input` is missing: it must be a text or a list".into()),
    }
}

/// How an answer ended, in this API's words.
#[derive(Clone, Copy)]
enum End {
    Whole,
    Cut(&'static str),
}

impl End {
    fn of(finish: &str) -> Self {
        match finish {
            "length" => Self::Cut("max_output_tokens"),
            "content_filter" => Self::Cut("content_filter"),
            _ => Self::Whole,
        }
    }

    fn status(self) -> &'static str {
        if matches!(self, Self::Whole) { "completed" } else { "incomplete" }
    }

    fn incomplete(self) -> Value {
        if let Self::Cut(reason) = self { json!({ "reason": reason }) } else { Value::Null }
    }
}

fn response(
    call: &ModelCall,
    answer: &ModelAnswer,
    status: &str,
    incomplete: Value,
    output: Vec<Value>,
    usage: Value,
) -> Value {
    json!({
        "id": format!("resp_{}", answer.id),
        "object": "response",
        "created_at": answer.created_s,
        "status": status,
        "background": false,
        "error": null,
        "incomplete_details": incomplete,
        "instructions": null,
        "max_output_tokens": call.sampling.max_tokens,
        "metadata": {},
        "model": answer::model(call, answer),
        "output": output,
        "parallel_tool_calls": true,
        "previous_response_id": call.previous_id,
        "reasoning": {"effort": null, "summary": null},
        "service_tier": "default",
        "store": true,
        "temperature": call.sampling.temperature,
        "tool_choice": "auto",
        // The program knows what it offered, and three events of a stream would repeat it.
        "tools": [],
        "top_p": call.sampling.top_p,
        "truncation": "disabled",
        "usage": usage,
        "user": null,
    })
}

/// The items of an answer. Texts and refusals that follow each other are one message.
fn output(call: &ModelCall, answer: &ModelAnswer, said: &[Said]) -> Vec<Value> {
    let mut items: Vec<Value> = Vec::new();
    for said in said {
        // Unique in the session, since the answer's id is.
        let at = items.len();
        let id = |prefix: &str| format!("{prefix}_{}{at}", answer.id);
        let content = match said {
            Said::Text(text) => {
                json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
            }
            Said::Refusal(text) => json!({"type": "refusal", "refusal": text}),
            other => {
                items.extend(item(call, other, &id));
                continue;
            }
        };
        let open = items.last_mut().filter(|item| text(item, "type") == "message");
        match open.and_then(|item| item.get_mut("content")?.as_array_mut()) {
            Some(contents) => contents.push(content),
            None => {
                items.push(json!({
                    "id": id("msg"), "type": "message", "status": "completed", "role": "assistant", "content": [content],
                }));
            }
        }
    }
    items
}

fn item(call: &ModelCall, said: &Said, id: &dyn Fn(&str) -> String) -> Option<Value> {
    Some(match said {
        Said::Text(_) | Said::Refusal(_) => return None,
        Said::Reasoning { text, extra } => {
            let summary =
                if text.is_empty() { json!([]) } else { json!([{"type": "summary_text", "text": text}]) };
            let mut item = json!({"id": id("rs"), "type": "reasoning", "summary": summary});
            // The program gives it back with the history, and the record has it there.
            if let Some(encrypted) = extra.get("encrypted_content").filter(|e| e.is_string()) {
                set(&mut item, "encrypted_content", encrypted.clone());
            }
            item
        }
        Said::Call { id: call_id, name, arguments } => {
            let text = arguments_text(arguments);
            if answer::is_custom(call, name, arguments) {
                json!({
                    "id": id("ctc"), "type": "custom_tool_call", "status": "completed", "call_id": call_id,
                    "name": name, "input": text,
                })
            } else {
                json!({
                    "id": id("fc"), "type": "function_call", "status": "completed", "call_id": call_id,
                    "name": name, "arguments": text,
                })
            }
        }
        // What the provider did itself is an item as it was recorded.
        Said::Other { kind, block } if OF_PROVIDER.contains(kind) => {
            let mut item = Value::Object((*block).clone());
            set(&mut item, "id", id(kind));
            item
        }
        Said::Other { .. } => return None,
    })
}

fn usage(tokens: &Tokens) -> Value {
    json!({
        "input_tokens": tokens.input,
        "input_tokens_details": {"cached_tokens": tokens.cache_read, "cache_write_tokens": tokens.cache_write},
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
        "total_tokens": tokens.input.saturating_add(tokens.output),
    })
}

#[cfg(test)]
mod tests;
