use serde_json::{Value, json};

use super::*;
use crate::{genai::message::Part, replay::wire::fixture};

/// Scenario: a request with all that matching looks at.
/// Guarantee: each of it is in the call, under the names that other surfaces have too.
#[test]
fn a_setting_of_a_request_is_lost() {
    let call = OpenAiChat
        .read(
            &json!({
                "model": "gpt", "messages": [{"role": "user", "content": "hi"}], "temperature": 0.5, "top_p": 1,
                "max_tokens": 10, "max_completion_tokens": 20, "seed": -7, "stream": true,
                "stream_options": {"include_usage": true},
                "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
                "functions": [{"name": "g"}],
                "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}},
            }),
            None,
            false,
        )
        .unwrap();
    let sampling = serde_json::to_value(call.sampling).unwrap();
    assert_eq!(sampling, json!({"temperature": 0.5, "top_p": 1.0, "max_tokens": 20, "seed": -7}));
    assert!(call.stream && call.stream_usage);
    let names: Vec<_> = call.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["f", "g"]);
    assert_eq!((call.model.as_str(), call.response_format), ("gpt", Some(json!({"type": "object"}))));
}

#[test]
fn a_request_without_messages_says_nothing() {
    let of = |body: Value| OpenAiChat.read(&body, None, false).unwrap_err();
    assert!(of(json!([])).contains("JSON object"));
    assert!(of(json!({"model": "m"})).contains("`messages`"));
    assert!(of(json!({"model": "m", "messages": "hi"})).contains("`messages`"));
    assert!(of(json!({"messages": []})).contains("`model`"));
    assert!(OpenAiChat.read(&json!({"messages": []}), Some("deployment"), false).is_ok());
}

/// Scenario: one conversation as clients write it, with text as text and as blocks.
/// Guarantee: it is the same conversation.
#[test]
fn content_as_blocks_is_another_conversation() {
    let conversation = |block: &dyn Fn(&str) -> Value| {
        let call =
            json!({"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}});
        let body = json!({"model": "m", "messages": [
            {"role": "developer", "content": block("be brief")},
            {"role": "user", "content": block("hi")},
            {"role": "assistant", "content": null, "refusal": null, "annotations": [], "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": block("sunny")},
        ]});
        fixture::messages(&OpenAiChat, &body)
    };
    let plain = conversation(&|text| json!(text));
    assert_eq!(plain, conversation(&|text| json!([{"type": "text", "text": text}])));
    assert_eq!(
        plain,
        json!([
            ["system", [{"type": "text", "content": "be brief"}]],
            ["user", [{"type": "text", "content": "hi"}]],
            ["assistant", [{"type": "tool_call", "id": "c1", "name": "f", "arguments": {"a": 1}}]],
            ["tool", [{"type": "tool_call_response", "id": "c1", "response": "sunny"}]],
        ])
    );
}

#[test]
fn what_is_not_text_is_lost() {
    let body = json!({"model": "m", "messages": [
        {"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD", "detail": "low"}},
            {"type": "file", "file": {"file_id": "file-1"}},
        ]},
        {"role": "assistant", "content": null, "refusal": "I will not"},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "I will not"}]},
        {"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "1"},
    ]});
    let refusal = json!({"type": "refusal", "refusal": "I will not"});
    assert_eq!(
        fixture::messages(&OpenAiChat, &body),
        json!([
            ["user", [
                {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "QUJD"},
                {"type": "file", "modality": "document", "file_id": "file-1"},
            ]],
            ["assistant", [refusal]],
            ["assistant", [refusal]],
            ["assistant", [{"type": "tool_call", "name": "f", "arguments": {}}]],
            ["tool", [{"type": "tool_call_response", "response": "1"}]],
        ])
    );
}

#[test]
fn a_part_of_an_answer_is_lost() {
    let whole = OpenAiChat.whole(&fixture::call(), &fixture::answer());
    assert_eq!(
        whole,
        json!({
            "id": "chatcmpl-0123456789abcdef01234567", "object": "chat.completion", "created": 1_796_000_000, "model": "m-2026",
            "service_tier": "default", "system_fingerprint": null,
            "choices": [{"index": 0, "logprobs": null, "finish_reason": "tool_calls", "message": {
                "role": "assistant", "content": "Let me look at both cities.", "refusal": null, "annotations": [],
                "reasoning_content": "Two cities, so two calls.",
                "tool_calls": [
                    {"id": "call_a", "type": "function", "function": {"name": "weather", "arguments": "{\"city\":\"Paris\"}"}},
                    {"id": "call_b", "type": "function", "function": {"name": "weather", "arguments": "{\"city\":\"Rome\",\"days\":[1,2]}"}},
                ],
            }}],
            "usage": {
                "prompt_tokens": 21, "completion_tokens": 7, "total_tokens": 28,
                "prompt_tokens_details": {"cached_tokens": 8, "cache_write_tokens": 2, "audio_tokens": 0},
                "completion_tokens_details": {"reasoning_tokens": 3, "audio_tokens": 0, "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0},
            },
        })
    );
}

#[test]
fn an_answer_ends_for_another_reason() {
    let text = || vec![Part::text("a")];
    let tool = || vec![Part::tool_call(None, "f", None)];
    let of = |parts, finish| {
        OpenAiChat.whole(&fixture::call(), &fixture::of(parts, finish))["choices"][0]["finish_reason"].clone()
    };
    assert_eq!(of(text(), "stop"), "stop");
    assert_eq!(of(text(), "length"), "length");
    assert_eq!(of(text(), "content_filter"), "content_filter");
    assert_eq!(of(text(), "pause_turn"), "stop");
    assert_eq!(of(text(), ""), "stop");
    assert_eq!(of(tool(), ""), "tool_calls");
    assert_eq!(of(tool(), "tool_call"), "tool_calls");
    // A forced tool ends with `stop`.
    assert_eq!(of(tool(), "stop"), "stop");
}

#[test]
fn an_answer_of_odd_parts_breaks_a_client() {
    let message = |parts| {
        OpenAiChat.whole(&fixture::call(), &fixture::of(parts, "stop"))["choices"][0]["message"].clone()
    };
    let refused = message(vec![fixture::other(json!({"type": "refusal", "refusal": "no"}))]);
    assert_eq!((&refused["content"], &refused["refusal"]), (&Value::Null, &json!("no")));
    assert_eq!(message(vec![fixture::other(json!({"type": "blob", "content": "QUJD"}))])["content"], "");
    assert_eq!(message(vec![fixture::other(json!({"kind": 1}))])["content"], "");
    let call = &message(vec![Part::tool_call(None, "f", None)])["tool_calls"][0];
    assert_eq!(call["id"], "call_0123456789abcdef012345670");
    assert_eq!(call["function"], json!({"name": "f", "arguments": "{}"}));
}

/// Scenario: a tool that takes text, as an editor's patch.
/// Guarantee: it is called with that text, and a tool that takes JSON is not.
#[test]
fn a_tool_that_takes_text_is_called_with_json() {
    let tools = json!([
        {"type": "custom", "custom": {"name": "patch"}},
        {"type": "function", "function": {"name": "f", "parameters": {}}},
    ]);
    let body = json!({"model": "m", "messages": [], "tools": tools});
    let call = OpenAiChat.read(&body, None, false).unwrap();
    let tool = |name: &str| Part::tool_call(Some("c".into()), name, Some(json!("*** begin")));
    let answer = fixture::of(vec![tool("patch"), tool("f")], "tool_call");
    let calls = OpenAiChat.whole(&call, &answer)["choices"][0]["message"]["tool_calls"].clone();
    assert_eq!(
        calls[0],
        json!({"id": "c", "type": "custom", "custom": {"name": "patch", "input": "*** begin"}})
    );
    assert_eq!(calls[1]["function"], json!({"name": "f", "arguments": "*** begin"}));
}

/// Scenario: the stream of an answer with text and two calls at once.
/// Guarantee: its chunks put together are the whole answer, in the grammar that all clients read.
#[test]
fn a_stream_says_something_else_than_the_whole() {
    let (call, answer) = (fixture::call(), fixture::answer());
    let events = fixture::events(&OpenAiChat.frames(&call, &answer));
    let (done, chunks) = events.split_last().unwrap();
    assert_eq!(done, &(None, json!("[DONE]")));
    let whole = OpenAiChat.whole(&call, &answer);
    for (name, chunk) in chunks {
        assert!(name.is_none() && chunk["id"] == whole["id"] && chunk["object"] == "chat.completion.chunk");
        assert!(chunk.get("usage").is_some());
    }
    let deltas: Vec<&Value> = chunks.iter().map(|(_, chunk)| &chunk["choices"][0]["delta"]).collect();
    assert_eq!(deltas[0], &json!({"role": "assistant", "content": "", "refusal": null}));
    let text = |key: &str| deltas.iter().filter_map(|delta| delta[key].as_str()).collect::<String>();
    let message = &whole["choices"][0]["message"];
    assert_eq!(text("content"), message["content"].as_str().unwrap());
    assert_eq!(text("reasoning_content"), message["reasoning_content"].as_str().unwrap());
    for index in 0..2 {
        let of_call =
            deltas.iter().filter_map(|delta| delta["tool_calls"].get(0)).filter(|c| c["index"] == index);
        let pieces: Vec<_> = of_call.collect();
        assert_eq!(pieces[0]["id"], message["tool_calls"][index]["id"]);
        assert!(pieces.len() > 2 && pieces[1..].iter().all(|piece| piece.get("id").is_none()));
        let arguments: String =
            pieces.iter().filter_map(|piece| piece["function"]["arguments"].as_str()).collect();
        assert_eq!(arguments, message["tool_calls"][index]["function"]["arguments"].as_str().unwrap());
    }
    let [.., (_, last), (_, usage)] = chunks else { panic!("too few chunks") };
    assert_eq!((&last["choices"][0]["finish_reason"], &last["usage"]), (&json!("tool_calls"), &Value::Null));
    assert_eq!((&usage["choices"], &usage["usage"]), (&json!([]), &whole["usage"]));
}

#[test]
fn a_stream_brings_counts_that_nobody_asked_for() {
    let call = ModelCall { stream_usage: false, ..fixture::call() };
    let events = fixture::events(&OpenAiChat.frames(&call, &fixture::answer()));
    assert!(events.iter().all(|(_, chunk)| chunk.get("usage").is_none()));
}
