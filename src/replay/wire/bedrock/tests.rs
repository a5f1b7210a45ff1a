use serde_json::json;

use super::{event_stream::tests::read as read_frame, *};
use crate::replay::sim::call::RefusedCode;

fn parts() -> Vec<Part> {
    let signed = Map::from_iter([("signature".to_owned(), json!("c2ln"))]);
    vec![
        Part::Reasoning { content: Some("Two towns, two calls.".into()), extra: signed },
        Part::text("I look both up, one after the other."),
        Part::tool_call(Some("tooluse_1".into()), "weather", Some(json!({"city": "Paris"}))),
        Part::tool_call(Some("tooluse_2".into()), "now", None),
    ]
}

fn answer(parts: Vec<Part>, finish: &str) -> ModelAnswer {
    ModelAnswer {
        parts,
        finish: finish.into(),
        usage: Tokens { input: 40, output: 12, cache_read: 8, cache_write: 2, reasoning: 5 },
        ..ModelAnswer::default()
    }
}

fn events(answer: &ModelAnswer) -> Vec<(String, Value)> {
    let read = |frame: &Bytes| {
        let (name, payload, rest) = read_frame(frame);
        assert!(rest.is_empty(), "more than one frame");
        (name, payload)
    };
    Bedrock.frames(&ModelCall::default(), answer).iter().map(read).collect()
}

#[test]
fn a_request_loses_something() {
    let body = json!({
        "system": [{"text": "Be brief."}],
        "messages": [
            {"role": "user", "content": [{"text": "Weather?"},
                {"image": {"format": "png", "source": {"bytes": "QUJD"}}}]},
            {"role": "assistant", "content": [
                {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2ln"}}},
                {"toolUse": {"toolUseId": "t1", "name": "weather", "input": {"city": "Paris"}}}]},
            {"role": "user", "content": [{"toolResult": {"toolUseId": "t1", "status": "success",
                "content": [{"json": {"sky": "blue"}}]}}]},
        ],
        "toolConfig": {"tools": [
            {"toolSpec": {"name": "weather", "description": "Weather", "inputSchema": {"json": {"type": "object"}}}},
            {"cachePoint": {"type": "default"}}]},
        "inferenceConfig": {"temperature": 0.5, "topP": 0.9, "maxTokens": 64},
        "outputConfig": {"textFormat": {"type": "json_schema",
            "structure": {"jsonSchema": {"name": "s", "schema": "{\"type\":\"object\"}"}}}},
    });
    let call = Bedrock.read(&body, Some("eu.anthropic.claude:0"), true).unwrap();
    assert_eq!(call.model, "eu.anthropic.claude:0");
    assert_eq!(call.system, [Part::text("Be brief.")]);
    let roles: Vec<_> = call.messages.iter().map(|m| m.role.as_str()).collect();
    assert_eq!(roles, ["user", "assistant", "user"]);
    let Part::Other(image) = &call.messages[0].parts[1] else { panic!() };
    assert_eq!((&image["type"], &image["content"]), (&json!("blob"), &json!("QUJD")));
    let Part::Reasoning { content, extra } = &call.messages[1].parts[0] else { panic!() };
    assert_eq!((content.as_deref(), &extra["signature"]), (Some("hm"), &json!("c2ln")));
    assert_eq!(
        call.messages[1].parts[1],
        Part::tool_call(Some("t1".into()), "weather", Some(json!({"city": "Paris"})))
    );
    let Part::ToolCallResponse { id, response, .. } = &call.messages[2].parts[0] else { panic!() };
    assert_eq!((id.as_deref(), response), (Some("t1"), &Some(json!({"sky": "blue"}))));
    assert_eq!(call.tools.len(), 1);
    assert_eq!(call.tools[0].parameters, json!({"type": "object"}));
    assert_eq!(call.sampling.max_tokens, Some(64));
    assert_eq!(call.response_format, Some(json!({"type": "object"})));
    assert!(Bedrock.read(&json!({"messages": []}), None, false).unwrap_err().contains("model"));
    assert!(Bedrock.read(&json!({}), Some("m"), false).unwrap_err().contains("messages"));
}

#[test]
fn an_answer_that_comes_back_is_another() {
    let whole = Bedrock.whole(&ModelCall::default(), &answer(parts(), "tool_call"));
    let messages = json!([{"role": "user", "content": [{"text": "hi"}]}, whole["output"]["message"]]);
    let call = Bedrock.read(&json!({"messages": messages}), Some("m"), false).unwrap();
    let mut expected = parts();
    expected[3] = Part::tool_call(Some("tooluse_2".into()), "now", Some(json!({})));
    assert_eq!(call.messages[1].parts, expected);
    assert_eq!(whole["stopReason"], "tool_use");
    assert_eq!(
        whole["usage"],
        json!({"inputTokens": 30, "outputTokens": 12, "totalTokens": 52,
            "cacheReadInputTokens": 8, "cacheWriteInputTokens": 2})
    );
}

/// Guarantee: the whole grammar, in order, and what its pieces make is what the whole says.
#[test]
fn a_stream_says_something_else_than_the_whole() {
    let events = events(&answer(parts(), "tool_call"));
    let mut names: Vec<&str> = events.iter().map(|(name, _)| name.as_str()).collect();
    names.dedup();
    let block = ["contentBlockDelta", "contentBlockStop"];
    let call = ["contentBlockStart", "contentBlockDelta", "contentBlockStop"];
    let expected =
        [&["messageStart"][..], &block, &block, &call, &call, &["messageStop", "metadata"]].concat();
    assert_eq!(names, expected);
    let joined = |index: u64, at: &str| -> String {
        let of = events.iter().filter(|(_, p)| p["contentBlockIndex"] == index);
        of.filter_map(|(_, payload)| payload.pointer(at)?.as_str()).collect()
    };
    assert_eq!(joined(0, "/delta/reasoningContent/text"), "Two towns, two calls.");
    assert_eq!(joined(0, "/delta/reasoningContent/signature"), "c2ln");
    assert_eq!(joined(1, "/delta/text"), "I look both up, one after the other.");
    assert_eq!(joined(2, "/start/toolUse/toolUseId"), "tooluse_1");
    assert_eq!(joined(2, "/delta/toolUse/input"), "{\"city\":\"Paris\"}");
    assert_eq!(
        (joined(3, "/start/toolUse/name"), joined(3, "/delta/toolUse/input")),
        ("now".into(), "{}".into())
    );
    let last = &events.last().unwrap().1;
    assert_eq!(last["usage"]["inputTokens"], 30);
}

#[test]
fn a_part_without_words_breaks_the_answer() {
    let redacted = |content: &str| Map::from_iter([("redactedContent".to_owned(), json!(content))]);
    let given = vec![
        Part::Reasoning { content: None, extra: redacted("QUJD") },
        Part::Reasoning { content: None, extra: redacted("b'?'") },
        Part::Reasoning { content: None, extra: Map::new() },
        Part::text(""),
        Part::Other(Map::new()),
        Part::text("hi"),
    ];
    let whole = Bedrock.whole(&ModelCall::default(), &answer(given.clone(), "guardrail_intervened"));
    assert_eq!(
        whole["output"]["message"]["content"],
        json!([{"reasoningContent": {"redactedContent": "QUJD"}}, {"text": "hi"}])
    );
    assert_eq!(whole["stopReason"], "guardrail_intervened");
    assert_eq!(events(&answer(given, "stop")).len(), 7);
    let empty = events(&answer(Vec::new(), ""));
    assert_eq!(empty[1], ("messageStop".into(), json!({"stopReason": "end_turn"})));
}

/// Scenario: the record of a provider that says `stop` of an answer with calls, asked for by Bedrock's words.
#[test]
fn an_agent_stops_before_it_runs_its_tools() {
    let call = Part::tool_call(Some("t".into()), "f", Some(json!({})));
    assert_eq!(stop_reason(&answer(vec![call], "stop")), "tool_use");
    assert_eq!(stop_reason(&answer(vec![Part::text("x")], "stop")), "end_turn");
}

#[test]
fn a_failure_gets_another_name() {
    let failed = |status, kind: &str| {
        let failed = Failed { step: 1, status, kind: kind.into(), message: "slow down".into() };
        let made = Bedrock.failed(&failed);
        assert_eq!(made.body, json!({"message": "slow down"}));
        (made.status.as_u16(), made.headers[0].1.clone())
    };
    assert_eq!(failed(429, "ThrottlingException"), (429, "ThrottlingException".into()));
    assert_eq!(failed(400, "botocore.errorfactory.ConflictException"), (400, "ConflictException".into()));
    assert_eq!(failed(429, "ClientError"), (429, "ThrottlingException".into()));
    assert_eq!(failed(500, "bad\r\nheader: xException"), (500, "InternalServerException".into()));
    let refused = Refused { code: RefusedCode::Divergence, step: Some(3), message: "differs".into() };
    let made = Bedrock.refused(&refused);
    assert_eq!((made.status.as_u16(), made.body), (400, json!({"message": "differs"})));
    assert_eq!(made.headers, [("x-amzn-errortype", "ValidationException".to_owned())]);
}
