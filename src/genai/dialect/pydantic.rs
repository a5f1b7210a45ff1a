//! Pydantic AI and Logfire, as far as they go beyond the convention.

use serde_json::Value;

use super::{Dialect, Facts, fill, fill_value};
use crate::genai::{
    attrs,
    events::prefer,
    message::{Content, Messages},
    operation::{Issue, Kind, OpStatus, Operation},
    parse,
    state::open,
};

/// The row of this dialect.
pub(super) const DIALECT: Dialect = Dialect { name: "pydantic-ai", detect, kind, read };

fn detect(facts: &Facts<'_>) -> bool {
    facts.scope == "pydantic-ai"
        || facts.attrs.has("model_request_parameters")
        || facts.attrs.any_with_prefix("logfire.")
        || facts.attrs.any_with_prefix("pydantic_ai.")
}

/// The first versions name no operation on the span of an agent.
fn kind(facts: &Facts<'_>) -> Option<Kind> {
    let attrs = facts.attrs;
    let told =
        ["all_messages_events", "pydantic_ai.all_messages", "final_result"].iter().any(|k| attrs.has(k));
    (attrs.has("agent_name") && (told || facts.span.name == "agent run")).then_some(Kind::Agent)
}

fn read(facts: &Facts<'_>, operation: &mut Operation) {
    let attrs = facts.attrs;
    if attrs.text(&["logfire.span_type"]).as_deref() == Some("pending_span") {
        operation.begins = Some(attrs.text(&["logfire.pending_parent_id"]).unwrap_or_default());
        operation
            .issues
            .push(Issue { code: "unfinished", detail: "only the start of the span was sent".into() });
    }
    fill(&mut operation.agent_name, || attrs.text(&["agent_name"]));
    fill(&mut operation.request_model, || attrs.text(&["model_name"]));
    fill_value(&mut operation.tool.arguments, attrs.arguments(&["tool_arguments"]), &mut operation.issues);
    fill_value(&mut operation.tool.result, attrs.get("tool_response"), &mut operation.issues);
    if let Some(events) = attrs.first(&["events", "all_messages_events"]) {
        let (input, output) = from_events(events, &mut operation.issues);
        prefer(&mut operation.input, input);
        prefer(&mut operation.output, output);
    }
    if let Some(all) = attrs.get("pydantic_ai.all_messages") {
        let mut all = parse::messages(all, "user", &mut operation.issues);
        // The last message is the answer where the model gave it.
        if all.value.last().is_some_and(|m| m.role == "assistant")
            && let Some(answer) = all.value.pop()
        {
            prefer(&mut operation.output, Content { value: vec![answer], state: all.state });
        }
        // What stands before was said in earlier runs.
        let new = attrs.count(&["pydantic_ai.new_message_index"]).and_then(|n| usize::try_from(n).ok());
        if let Some(new) = new.filter(|new| *new < all.value.len()) {
            let _ = all.value.drain(..new);
        }
        prefer(&mut operation.input, all);
    }
    fill(&mut operation.tool_definitions, || {
        let parameters = open(attrs.get("model_request_parameters")?).value;
        parameters.get("function_tools").filter(|tools| attrs::is_meaningful(tools)).cloned()
    });
    if let Some(result) = attrs.get("final_result") {
        prefer(&mut operation.output, parse::messages(result, "assistant", &mut operation.issues));
    }
    if attrs.has("pydantic_ai.tool.deferral.name") {
        operation.status = OpStatus::Interrupted;
        operation.failure = None;
    }
}

/// Logfire's first form: all message events as one JSON array in an attribute.
fn from_events(events: &Value, issues: &mut Vec<Issue>) -> (Content<Messages>, Content<Messages>) {
    let Value::Array(events) = open(events).value else { return Default::default() };
    let choice = |e: &Value| e.get("event.name").and_then(Value::as_str) == Some("gen_ai.choice");
    let (output, input): (Vec<_>, Vec<_>) = events.into_iter().partition(choice);
    (
        parse::messages(&Value::Array(input), "user", issues),
        parse::messages(&Value::Array(output), "assistant", issues),
    )
}
