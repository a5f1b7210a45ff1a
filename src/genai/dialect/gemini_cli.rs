//! Gemini CLI: a trace for every operation, Gemini's JSON in the convention's attributes, and logs that repeat it all
//! (`dialects.md` 9.4).

use std::sync::Arc;

use serde_json::Value;

use super::{Dialect, Facts, fill, fill_arguments, fill_messages, fill_result, fill_text, nanos};
use crate::genai::{
    events::DETAILS,
    message::{Message, Part},
    operation::{Failure, Kind, OpStatus, Operation, Rule, Usage},
    parse, state, usage,
};

/// The row of this dialect. It stands before the convention, whose attributes it fills in its own way.
pub(super) const DIALECT: Dialect = Dialect { name: "gemini-cli", detect, kind, read };

fn logged<'a>(facts: &Facts<'a>) -> Option<&'a str> {
    facts.log?.name.strip_prefix("gemini_cli.")
}

fn detect(facts: &Facts<'_>) -> bool {
    logged(facts).is_some()
        || facts.scope == "gemini-cli"
        || facts.attrs.text(&["gen_ai.agent.name"]).as_deref() == Some("gemini-cli")
}

fn kind(facts: &Facts<'_>) -> Option<Kind> {
    // The request is logged once more, before there is anything to tell of the call.
    if facts.log.is_some_and(|log| log.name == DETAILS) && !facts.attrs.has("gen_ai.response.id") {
        return Some(Kind::Internal);
    }
    if let Some(event) = logged(facts) {
        return Some(match event {
            "api_request" | "api_response" | "api_error" => Kind::ModelCall,
            "tool_call" => Kind::ToolCall,
            _ => Kind::Internal,
        });
    }
    Some(match facts.attrs.text(&["gen_ai.operation.name"])?.as_str() {
        "llm_call" | "generate_content" => Kind::ModelCall,
        "tool_call" => Kind::ToolCall,
        "agent_call" => Kind::Agent,
        _ => Kind::Internal,
    })
}

fn read(facts: &Facts<'_>, operation: &mut Operation) {
    let attrs = facts.attrs;
    let opened = |key: &str| attrs.get(key).map(|v| state::open(v).value);
    let (input, output) = (opened("gen_ai.input.messages"), opened("gen_ai.output.messages"));
    join_prompt(facts, input.as_ref(), operation);
    if facts.log.is_some() {
        operation.duration_ns = attrs.float(&["duration_ms"]).and_then(|ms| nanos(ms * 1e6));
    }
    match operation.kind {
        Kind::ToolCall => tool_call(facts, operation, input.as_ref(), output.as_ref()),
        Kind::ModelCall => {
            // One message a chunk of the stream, the last of them cut where the text is long.
            fill_messages(operation, attrs.get("gen_ai.input.messages"), attrs.get("gen_ai.output.messages"));
            one_answer(&mut operation.output.value);
            model_log(facts, operation);
        }
        _ => fill_messages(operation, attrs.get("prompt"), None),
    }
}

/// Traces of one prompt are one run; without a prompt's id, those of one session.
fn join_prompt(facts: &Facts<'_>, input: Option<&Value>, operation: &mut Operation) {
    let first = input.map(|i| i.get(0).unwrap_or(i));
    let of_call = first.and_then(|call| Some(call.get("prompt_id")?.as_str()?.to_owned()));
    let id = facts
        .attrs
        .text(&["prompt_id", "gen_ai.prompt.name"])
        .or(of_call)
        .or_else(|| operation.identity.conversation.clone());
    operation.identity.run_ids.extend(id.map(|id| (Rule::ConversationPrompt, id)));
}

fn tool_call(facts: &Facts<'_>, operation: &mut Operation, input: Option<&Value>, output: Option<&Value>) {
    let attrs = facts.attrs;
    fill(&mut operation.tool.name, || attrs.text(&["gen_ai.tool.name", "function_name"]));
    let name = operation.tool.name.clone().unwrap_or_default();
    fill(&mut operation.tool.call_id, || {
        parse::call_id(attrs.get("gen_ai.tool.call_id")).map(|id| bare_id(&name, id))
    });
    fill_arguments(
        operation,
        input.and_then(|i| i.get("args")).or_else(|| attrs.arguments(&["function_args"])),
    );
    if let Some(output) = output {
        let response = output.pointer("/response/responseParts/0/functionResponse/response");
        let inner = response
            .map(|r| r.get("output").filter(|_| r.as_object().is_some_and(|o| o.len() == 1)).unwrap_or(r));
        match inner {
            Some(text @ Value::String(_)) => fill_text(&mut operation.tool.result, text),
            other => fill_result(operation, other.or_else(|| output.pointer("/response/resultDisplay"))),
        }
        let status = output.get("status").and_then(Value::as_str);
        if matches!(status, Some("error" | "cancelled")) {
            let message = output
                .pointer("/response/error/message")
                .or_else(|| output.pointer("/response/resultDisplay"));
            operation.status = if status == Some("error") { OpStatus::Error } else { OpStatus::Cancelled };
            operation.failure = Some(Failure {
                kind: None,
                message: message.and_then(Value::as_str).map(str::to_owned),
                ..Failure::default()
            });
        }
    }
    if attrs.flag(&["success"]) == Some(false) {
        operation.status = OpStatus::Error;
        operation.failure = Some(Failure {
            kind: attrs.text(&["error_type"]),
            message: attrs.text(&["error"]),
            ..Failure::default()
        });
    }
}

fn model_log(facts: &Facts<'_>, operation: &mut Operation) {
    let attrs = facts.attrs;
    let Some(event) = logged(facts) else { return };
    operation.opens = event == "api_request";
    fill(&mut operation.request_model, || attrs.text(&["model", "model_name"]));
    fill_messages(operation, attrs.get("request_text"), attrs.get("response_text"));
    one_answer(&mut operation.output.value);
    fill(&mut operation.response_id, || {
        let chunks = state::open(attrs.get("response_text")?).value;
        chunks.pointer("/0/responseId").or_else(|| chunks.get("responseId"))?.as_str().map(str::to_owned)
    });
    let count = |key: &str| attrs.count(&[key]);
    // Thoughts are counted beside the answer.
    let thoughts = count("thoughts_token_count");
    let counts = Usage {
        input_tokens: count("input_token_count"),
        output_tokens: count("output_token_count").map(|o| o.saturating_add(thoughts.unwrap_or(0))),
        cache_read_tokens: count("cached_content_token_count"),
        reasoning_tokens: thoughts,
        ..Usage::default()
    };
    usage::fill(&mut operation.usage, counts);
    if event == "api_error" {
        operation.status = OpStatus::Error;
        operation.failure = Some(Failure {
            kind: attrs.text(&["error_type", "status_code"]),
            message: attrs.text(&["error", "error.message"]),
            ..Failure::default()
        });
    }
}

/// The id of a call as the history has it: where the CLI tells an answer, it puts the tool's name before the id.
fn bare_id(name: &str, id: String) -> String {
    let bare = id.strip_prefix(name).and_then(|rest| rest.strip_prefix("__")).filter(|bare| !bare.is_empty());
    bare.map(str::to_owned).unwrap_or(id)
}

/// Joins the chunks of a stream: parts in order, neighbouring texts as one.
fn one_answer(messages: &mut Vec<Arc<Message>>) {
    let chunks = std::mem::take(messages);
    let mut answer = Message { role: "assistant".into(), ..Message::default() };
    let several = chunks.len() > 1;
    for chunk in chunks.into_iter().map(Arc::unwrap_or_clone) {
        answer.finish_reason = chunk.finish_reason.or(answer.finish_reason.take());
        for part in chunk.parts {
            match (answer.parts.last_mut(), part) {
                (Some(Part::Text { content: Some(text), .. }), Part::Text { content: Some(more), .. })
                    if several =>
                {
                    text.push_str(&more);
                }
                (_, Part::ToolCall { id: Some(id), name, arguments, extra }) => {
                    let id = Some(bare_id(&name, id));
                    answer.parts.push(Part::ToolCall { id, name, arguments, extra });
                }
                (_, part) => answer.parts.push(part),
            }
        }
    }
    if !answer.parts.is_empty() {
        messages.push(Arc::new(answer));
    }
}
