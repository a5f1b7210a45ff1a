use serde_json::{Value, json};

use super::*;
use crate::{
    genai::message::Part,
    replay::{sim::call::RefusedCode, wire::fixture},
};

/// Scenario: a request with all that matching looks at.
/// Guarantee: each of it is in the call, under the names that other surfaces have too.
#[test]
fn a_setting_of_a_request_is_lost() {
    let schema = json!({"type": "json_schema", "schema": {"type": "object"}});
    let mut body = json!({
        "model": "claude", "messages": [], "system": "be brief", "temperature": 0.5, "top_p": 1, "max_tokens": 20, "stream": true,
        "tools": [{"name": "f", "description": "d", "input_schema": {"type": "object"}}], "output_config": {"format": schema},
    });
    let call = Anthropic.read(&body, None, false).unwrap();
    let sampling = serde_json::to_value(call.sampling).unwrap();
    assert_eq!(sampling, json!({"temperature": 0.5, "top_p": 1.0, "max_tokens": 20}));
    assert_eq!((call.system, call.stream), (vec![Part::text("be brief")], true));
    assert_eq!((call.tools[0].name.as_str(), &call.tools[0].parameters), ("f", &json!({"type": "object"})));
    assert_eq!(call.response_format, Some(json!({"type": "object"})));
    body["system"] = json!([{"type": "text", "text": "be brief"}]);
    assert_eq!(Anthropic.read(&body, None, false).unwrap().system, [Part::text("be brief")]);
    assert!(Anthropic.read(&json!({"model": "m"}), None, false).unwrap_err().contains("`messages`"));
}

/// Scenario: one conversation as clients write it, with text as text and as blocks.
/// Guarantee: it is the same conversation.
#[test]
fn content_as_blocks_is_another_conversation() {
    let conversation = |block: &dyn Fn(&str) -> Value| {
        let image = json!({"type": "base64", "media_type": "image/png", "data": "QUJD"});
        let body = json!({"model": "m", "messages": [
            {"role": "user", "content": block("hi")},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": block("sunny")},
                {"type": "image", "source": image},
            ]},
        ]});
        fixture::messages(&Anthropic, &body)
    };
    let plain = conversation(&|text| json!(text));
    assert_eq!(plain, conversation(&|text| json!([{"type": "text", "text": text}])));
    assert_eq!(
        plain,
        json!([
            ["user", [{"type": "text", "content": "hi"}]],
            ["assistant", [
                {"type": "reasoning", "content": "hm", "signature": "c2ln"},
                {"type": "tool_call", "id": "t1", "name": "f", "arguments": {"a": 1}},
            ]],
            ["user", [
                {"type": "tool_call_response", "id": "t1", "response": "sunny"},
                {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "QUJD"},
            ]],
        ])
    );
}

#[test]
fn a_part_of_an_answer_is_lost() {
    assert_eq!(
        Anthropic.whole(&fixture::call(), &fixture::answer()),
        json!({
            "id": "msg_0123456789abcdef01234567", "type": "message", "role": "assistant", "model": "m-2026",
            "content": [
                {"type": "thinking", "thinking": "Two cities, so two calls.", "signature": "c2ln"},
                {"type": "text", "text": "Let me look at both cities."},
                {"type": "tool_use", "id": "call_a", "name": "weather", "input": {"city": "Paris"}},
                {"type": "tool_use", "id": "call_b", "name": "weather", "input": {"city": "Rome", "days": [1, 2]}},
            ],
            "stop_reason": "tool_use", "stop_sequence": null,
            "usage": {
                "input_tokens": 11, "cache_creation_input_tokens": 2, "cache_read_input_tokens": 8, "output_tokens": 7,
                "service_tier": "standard", "output_tokens_details": {"thinking_tokens": 3},
            },
        })
    );
}

#[test]
fn an_answer_ends_for_another_reason() {
    let of =
        |parts, finish| Anthropic.whole(&fixture::call(), &fixture::of(parts, finish))["stop_reason"].clone();
    let text = || vec![Part::text("a")];
    let tool = || vec![Part::tool_call(None, "f", None)];
    assert_eq!(of(text(), "stop"), "end_turn");
    assert_eq!(of(text(), "length"), "max_tokens");
    assert_eq!(of(text(), "content_filter"), "refusal");
    assert_eq!(of(text(), "pause_turn"), "pause_turn");
    assert_eq!(of(text(), "whatever"), "end_turn");
    assert_eq!(of(tool(), ""), "tool_use");
    assert_eq!(of(tool(), "stop"), "tool_use");
    assert_eq!(of(tool(), "length"), "max_tokens");
}

#[test]
fn an_answer_of_odd_parts_breaks_a_client() {
    let own = json!({"type": "web_search_tool_result", "tool_use_id": "s1", "content": []});
    let parts = vec![
        Part::Reasoning { content: None, extra: serde_json::Map::new() },
        fixture::other(json!({"type": "redacted_thinking", "data": "QUJD"})),
        fixture::other(own.clone()),
        fixture::other(json!({"type": "blob", "content": "QUJD"})),
        fixture::other(json!({"type": "refusal", "refusal": "no"})),
        Part::tool_call(Some("t".into()), "f", None),
    ];
    let whole = Anthropic.whole(&fixture::call(), &fixture::of(parts, "tool_call"));
    assert_eq!(
        whole["content"],
        json!([
            {"type": "redacted_thinking", "data": "QUJD"},
            own,
            {"type": "text", "text": "no"},
            {"type": "tool_use", "id": "t", "name": "f", "input": {}},
        ])
    );
}

/// Scenario: the stream of an answer with reasoning, text and two calls at once.
/// Guarantee: its events are named, its blocks are begun, filled and ended in order, and together they are the whole.
#[test]
fn a_stream_says_something_else_than_the_whole() {
    let (call, answer) = (fixture::call(), fixture::answer());
    let whole = Anthropic.whole(&call, &answer);
    let events = fixture::events(&Anthropic.frames(&call, &answer));
    assert!(events.iter().all(|(name, data)| name.as_deref() == data["type"].as_str()));
    let [(_, start), blocks @ .., (_, delta), (_, stop)] = events.as_slice() else {
        panic!("too few events")
    };
    assert_eq!(
        (&start["type"], &delta["type"], &stop["type"]),
        (&json!("message_start"), &json!("message_delta"), &json!("message_stop"))
    );
    let begun = &start["message"];
    assert_eq!(
        (&begun["content"], &begun["stop_reason"], &begun["id"]),
        (&json!([]), &Value::Null, &whole["id"])
    );
    assert_eq!((&begun["usage"]["input_tokens"], &begun["usage"]["output_tokens"]), (&json!(11), &json!(0)));
    assert_eq!(delta["delta"]["stop_reason"], "tool_use");
    assert_eq!(delta["usage"], json!({"output_tokens": 7, "output_tokens_details": {"thinking_tokens": 3}}));
    for (index, block) in whole["content"].as_array().unwrap().iter().enumerate() {
        let own: Vec<&Value> =
            blocks.iter().map(|(_, data)| data).filter(|data| data["index"] == index).collect();
        let [start, deltas @ .., stop] = own.as_slice() else { panic!("too few events of a block") };
        assert_eq!(
            (&start["type"], &stop["type"]),
            (&json!("content_block_start"), &json!("content_block_stop"))
        );
        let text = |member: &str| {
            deltas.iter().filter_map(|data| data["delta"][member].as_str()).collect::<String>()
        };
        let mut made = start["content_block"].clone();
        match block["type"].as_str().unwrap() {
            "thinking" => {
                (made["thinking"], made["signature"]) = (text("thinking").into(), text("signature").into())
            }
            "text" => made["text"] = text("text").into(),
            _ => {
                assert_eq!(made["input"], json!({}));
                made["input"] = serde_json::from_str(&text("partial_json")).unwrap();
            }
        }
        assert_eq!(made, *block);
    }
}

#[test]
fn a_refusal_is_sent_again_or_hides_its_message() {
    let refused = Refused { code: RefusedCode::Divergence, step: Some(3), message: "step 3 differs".into() };
    let response = Anthropic.refused(&refused);
    assert_eq!(response.status.as_u16(), 422);
    assert_eq!(response.headers[0], ("x-should-retry", "false".to_owned()));
    let id = response.headers[1].1.as_str();
    let error = json!({"type": "invalid_request_error", "message": "step 3 differs", "details": {"error_code": "spanreel_divergence"}});
    assert_eq!(response.body, json!({"type": "error", "error": error, "request_id": id}));
    assert_eq!((id.len(), &response), (28, &Anthropic.refused(&refused)));
}

#[test]
fn a_recorded_failure_comes_back_as_another() {
    let failed = |status, kind: &str| {
        Anthropic.failed(&Failed { status, kind: kind.into(), message: "m".into(), step: 0 })
    };
    assert_eq!(
        (failed(529, "").status.as_u16(), &failed(529, "").body["error"]["type"]),
        (529, &json!("overloaded_error"))
    );
    assert_eq!(
        failed(400, "not_found_error").body["error"],
        json!({"type": "not_found_error", "message": "m"})
    );
    assert_eq!(failed(0, "").status.as_u16(), 500);
}

#[test]
fn a_history_that_stays_with_the_provider_is_compared() {
    let refused = Anthropic.refuses(&json!({"messages": [], "thread": {"type": "create"}})).unwrap();
    let error = &refused.body["error"];
    assert_eq!(
        (refused.status.as_u16(), &error["details"]["error_code"]),
        (400, &json!("thread_unsupported_request"))
    );
    assert_eq!(Anthropic.refuses(&json!({"messages": [], "thread": null})), None);
    assert_eq!(Anthropic.refuses(&json!([])), None);
}

#[test]
fn tokens_and_models_have_another_shape() {
    assert_eq!(count_tokens(12), json!({"input_tokens": 12}));
    let list = models(&["a".into(), "b".into()]);
    assert_eq!(
        (&list["first_id"], &list["last_id"], &list["data"][0]["id"]),
        (&json!("a"), &json!("b"), &json!("a"))
    );
    assert_eq!(models(&[])["first_id"], Value::Null);
}
