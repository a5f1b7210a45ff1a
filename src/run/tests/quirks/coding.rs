//! Coding agents: what their log records tell, with and without the spans of the same calls.

use serde_json::json;

use super::*;
use crate::{genai::message::ContentState, run::model::StepKind};

/// A log record outside any trace, whose content stands in its attributes.
fn event(ms: u64, name: &str, attributes: Value) -> Arc<Record> {
    log(0, ms, name, attributes)
}

fn claude(ms: u64, name: &str, mut attributes: Value) -> Arc<Record> {
    attributes["session.id"] = json!("s");
    attributes["prompt.id"] = json!("p");
    event(ms, &format!("claude_code.{name}"), attributes)
}

fn request(ms: u64, id: &str) -> Arc<Record> {
    claude(
        ms,
        "api_request",
        json!({"model": "claude-x", "request_id": id, "duration_ms": 40, "input_tokens": 10, "output_tokens": 5, "cost_usd": 0.01}),
    )
}

fn request_body(ms: u64, question: &str) -> Arc<Record> {
    let body = json!({"model": "claude-x", "max_tokens": 100, "system": [{"type": "text", "text": "be brief"}], "messages": [{"role": "user", "content": question}], "tools": [{"name": "Bash", "input_schema": {}}]});
    claude(ms, "api_request_body", json!({"model": "claude-x", "body": body.to_string()}))
}

fn response_body(ms: u64, id: &str, content: Value) -> Arc<Record> {
    let body = json!({"id": "msg", "type": "message", "role": "assistant", "content": content, "stop_reason": "tool_use", "usage": {"input_tokens": 10, "output_tokens": 5}});
    claude(ms, "api_response_body", json!({"model": "claude-x", "request_id": id, "body": body.to_string()}))
}

/// Claude Code can log the bodies of its requests: they are the only place where the whole conversation stands.
#[test]
fn the_bodies_of_requests_are_no_content() {
    let call = json!([{"type": "tool_use", "id": "tu1", "name": "Bash", "input": {"command": "ls"}}]);
    let read = only(runs_of(&[
        // Written before the request is sent: its call is the one that ends next.
        request_body(9, "first"),
        request(50, "r1"),
        response_body(51, "r1", call),
        claude(
            80,
            "tool_result",
            json!({"tool_name": "Bash", "tool_use_id": "tu1", "success": "true", "duration_ms": 20}),
        ),
        request_body(90, "second"),
        request(140, "r2"),
        response_body(141, "r2", json!([{"type": "text", "text": "done"}])),
    ]));
    assert_eq!(kinds(&read), ["model_call", "tool_call", "model_call"]);
    let (first, last) = (&read.steps[0], &read.steps[2]);
    assert_eq!(
        (text_in(&read, first), text_in(&read, last), text_out(last)),
        ("first".into(), "second".into(), "done".into())
    );
    assert_eq!((first.request.max_tokens, first.system_instructions.len()), (Some(100), 1));
    assert!(first.tool_definitions.is_some());
    assert_eq!(
        (first.finish_reasons.as_slice(), first.usage.cost_usd),
        (&["tool_call".to_owned()][..], Some(0.01))
    );
    assert_eq!(read.steps[1].tool_arguments, Some(json!({"command": "ls"})));
    assert_eq!((read.usage.input_tokens, read.usage.cost_usd), (Some(20), Some(0.02)));
}

/// A body that was written to a file is elsewhere; one that was cut is cut.
#[test]
fn a_body_that_is_elsewhere_is_nowhere() {
    let whole = request_body(9, "q");
    let Body::Log(mut cut) = whole.body.clone() else { panic!() };
    for attribute in &mut cut.attributes {
        if let (true, Some(Any::StringValue(text))) =
            (attribute.key == "body", attribute.value.as_mut().and_then(|v| v.value.as_mut()))
        {
            text.truncate(text.len() - 40);
        }
    }
    let cut = Arc::new(Record::new(Body::Log(cut), Arc::default(), 1, 0));
    let elsewhere = claude(
        51,
        "api_response_body",
        json!({"model": "claude-x", "request_id": "r1", "body_ref": "/tmp/x.json"}),
    );
    let read = only(runs_of(&[cut, request(50, "r1"), elsewhere]));
    assert_eq!(
        (read.steps[0].input_state, read.steps[0].output_state),
        (ContentState::Truncated, ContentState::External)
    );
}

/// The cost stands in the log, the rest of the usage on the span.
#[test]
fn a_cost_that_only_a_log_tells_is_lost() {
    let llm = span(
        1,
        0,
        "claude_code.llm_request",
        json!({"session.id": "s", "model": "claude-x", "request_id": "r1", "input_tokens": 10, "cache_read_tokens": 5, "output_tokens": 5}),
    );
    let read = only(runs_of(&[llm.done(), request(50, "r1")]));
    let usage = only(read.steps).usage;
    assert_eq!((usage.input_tokens, usage.cost_usd), (Some(15), Some(0.01)));
    assert_eq!((read.usage.input_tokens, read.usage.cost_usd), (Some(15), Some(0.01)));
}

fn gemini(ms: u64, name: &str, mut attributes: Value) -> Arc<Record> {
    attributes["session.id"] = json!("s");
    attributes["prompt_id"] = json!("s########0");
    attributes["model"] = json!("gemini-x");
    event(ms, &format!("gemini_cli.{name}"), attributes)
}

/// Gemini CLI without its newest record: the request is logged when it is made, the answer with other ids than the history.
#[test]
fn the_requests_of_gemini_cli_are_not_read() {
    let call = |id: &str| json!({"functionCall": {"name": "ls", "args": {"d": "."}, "id": id}});
    let history = json!([{"role": "user", "parts": [{"text": "list"}]}, {"role": "model", "parts": [call("ls_1")]}, {"role": "user", "parts": [{"functionResponse": {"name": "ls", "id": "ls_1", "response": {"output": "a b"}}}]}]);
    let answer =
        |part: Value| json!([{"candidates": [{"content": {"role": "model", "parts": [part]}}]}]).to_string();
    let records = [
        gemini(
            1,
            "api_request",
            json!({"request_text": "[{\"role\":\"user\",\"parts\":[{\"text\":\"list\"}]}]"}),
        ),
        gemini(
            50,
            "api_response",
            json!({"duration_ms": 48, "input_token_count": 9, "response_text": answer(call("ls__ls_1"))}),
        ),
        gemini(
            70,
            "tool_call",
            json!({"function_name": "ls", "function_args": "{\"d\":\".\"}", "duration_ms": 10, "success": true}),
        ),
        gemini(71, "api_request", json!({"request_text": history.to_string()})),
        gemini(
            90,
            "api_response",
            json!({"duration_ms": 18, "input_token_count": 12, "response_text": answer(json!({"text": "two"}))}),
        ),
    ];
    let read = only(runs_of(&records));
    assert_eq!(kinds(&read), ["model_call", "tool_call", "model_call"]);
    assert_eq!(text_in(&read, &read.steps[0]), "list");
    assert_eq!(read.steps[1].tool_result, Some(json!({"output": "a b"})));
    assert!(reasons(&read).is_empty(), "{:?}", read.partial_reasons);
    // A call that failed was asked for as well; one that was never answered is there.
    let failed = gemini(
        120,
        "api_error",
        json!({"duration_ms": 5, "error": "quota", "error_type": "ApiError", "status_code": 429}),
    );
    let asked = |ms| gemini(ms, "api_request", json!({"request_text": history.to_string()}));
    let read = only(runs_of(&[asked(115), failed, asked(130)]));
    assert_eq!(
        read.steps.iter().map(|s| (s.kind, s.input_state)).collect::<Vec<_>>(),
        [(StepKind::ModelCall, ContentState::Captured); 2]
    );
    assert_eq!(text_in(&read, &read.steps[1]), "list");
}
