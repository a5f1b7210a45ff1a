use serde_json::{Value, json};

use super::*;
use crate::{genai::message::Part, replay::wire::fixture};

/// Scenario: a request with all that matching looks at.
/// Guarantee: each of it is in the call, under the names that other surfaces have too.
#[test]
fn a_setting_of_a_request_is_lost() {
    let body = json!({
        "model": "gpt", "instructions": "be brief", "input": "hi", "temperature": 0.5, "top_p": 1, "max_output_tokens": 20,
        "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}, {"type": "web_search"}],
        "text": {"format": {"type": "json_schema", "name": "a", "schema": {"type": "object"}}},
        "previous_response_id": "resp_1", "stream": true, "conversation": null,
    });
    let call = OpenAiResponses.read(&body, None, false).unwrap();
    let sampling = serde_json::to_value(call.sampling).unwrap();
    assert_eq!(sampling, json!({"temperature": 0.5, "top_p": 1.0, "max_tokens": 20}));
    assert_eq!((call.system, call.previous_id.as_deref()), (vec![Part::text("be brief")], Some("resp_1")));
    let names: Vec<_> = call.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!((names, call.stream), (vec!["f", "web_search"], true));
    assert_eq!(call.response_format, Some(json!({"type": "object"})));
    assert_eq!(
        fixture::messages(&OpenAiResponses, &body),
        json!([["user", [{"type": "text", "content": "hi"}]]])
    );
}

#[test]
fn a_request_without_input_says_nothing() {
    let of = |body: Value| OpenAiResponses.read(&body, None, false).unwrap_err();
    assert!(of(json!({"model": "m"})).contains("`input`"));
    assert!(of(json!({"model": "m", "input": 7})).contains("`input`"));
    assert!(of(json!({"model": "m", "input": "a", "conversation": "conv_1"})).contains("`conversation`"));
    let goes_on = json!({"model": "m", "previous_response_id": "resp_1"});
    assert!(OpenAiResponses.read(&goes_on, None, false).unwrap().messages.is_empty());
}

/// Scenario: a text that is JSON, as text and in a message.
/// Guarantee: it is what the user said, and is not taken for messages.
#[test]
fn a_prompt_of_json_becomes_a_conversation() {
    let prompt = r#"{"messages": [{"role": "assistant", "content": "x"}]}"#;
    let wanted = json!([["user", [{"type": "text", "content": prompt}]]]);
    for input in [json!(prompt), json!([{"role": "user", "content": prompt}])] {
        assert_eq!(fixture::messages(&OpenAiResponses, &json!({"model": "m", "input": input})), wanted);
    }
}

/// Scenario: a history as the clients give it back, item by item.
/// Guarantee: the items of one turn are one message, and each item is what it is elsewhere.
#[test]
fn a_turn_in_items_is_another_turn() {
    let body = json!({"model": "m", "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "hi"}, {"type": "input_image", "image_url": "https://x/a.png"}]},
        {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}], "content": []},
        {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
         "content": [{"type": "output_text", "text": "a", "annotations": []}]},
        {"id": "fc_1", "type": "function_call", "call_id": "c1", "name": "f", "arguments": "{\"a\":1}", "status": "completed"},
        {"type": "custom_tool_call", "call_id": "c2", "name": "patch", "input": "*** begin"},
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "done"}]},
    ]});
    let mut read = fixture::messages(&OpenAiResponses, &body);
    for part in read[1][1].as_array_mut().unwrap().iter_mut().take(4) {
        part.as_object_mut()
            .unwrap()
            .retain(|key, _| ["type", "content", "id", "name", "arguments"].contains(&key.as_str()));
    }
    assert_eq!(
        read,
        json!([
            ["user", [{"type": "text", "content": "hi"}, {"type": "uri", "modality": "image", "uri": "https://x/a.png"}]],
            ["assistant", [
                {"type": "reasoning", "content": "hm", "id": "rs_1"},
                {"type": "text", "content": "a"},
                {"type": "tool_call", "id": "c1", "name": "f", "arguments": {"a": 1}},
                {"type": "tool_call", "id": "c2", "name": "patch", "arguments": "*** begin"},
                {"type": "web_search_call", "id": "ws_1", "status": "completed"},
            ]],
            ["tool", [{"type": "tool_call_response", "id": "c1", "response": "sunny"}]],
            ["tool", [{"type": "tool_call_response", "id": "c2", "response": "done"}]],
        ])
    );
}

#[test]
fn a_part_of_an_answer_is_lost() {
    let whole = OpenAiResponses.whole(&fixture::call(), &fixture::answer());
    let id = |prefix: &str, at: u8| format!("{prefix}_0123456789abcdef01234567{at}");
    let call = |at: u8, call_id: &str, arguments: &str| json!({"id": id("fc", at), "type": "function_call", "status": "completed", "call_id": call_id, "name": "weather", "arguments": arguments});
    let text = json!({"type": "output_text", "text": "Let me look at both cities.", "annotations": [], "logprobs": []});
    assert_eq!(
        whole["output"],
        json!([
            {"id": id("rs", 0), "type": "reasoning", "encrypted_content": "ZW5j",
             "summary": [{"type": "summary_text", "text": "Two cities, so two calls."}]},
            {"id": id("msg", 1), "type": "message", "status": "completed", "role": "assistant", "content": [text]},
            call(2, "call_a", r#"{"city":"Paris"}"#),
            call(3, "call_b", r#"{"city":"Rome","days":[1,2]}"#),
        ])
    );
    assert_eq!(
        (&whole["id"], &whole["status"]),
        (&json!("resp_0123456789abcdef01234567"), &json!("completed"))
    );
    assert_eq!(
        whole["usage"],
        json!({
            "input_tokens": 21, "input_tokens_details": {"cached_tokens": 8, "cache_write_tokens": 2},
            "output_tokens": 7, "output_tokens_details": {"reasoning_tokens": 3}, "total_tokens": 28,
        })
    );
}

#[test]
fn an_answer_of_odd_parts_breaks_a_client() {
    let parts = vec![
        fixture::other(
            json!({"type": "web_search_call", "id": "ws_recorded", "status": "completed", "action": {"query": "q"}}),
        ),
        fixture::other(json!({"type": "blob", "content": "QUJD"})),
        Part::text("a"),
        Part::text("b"),
        fixture::other(json!({"type": "refusal", "refusal": "no"})),
    ];
    let whole = OpenAiResponses.whole(&fixture::call(), &fixture::of(parts, "length"));
    let output = whole["output"].as_array().unwrap();
    assert_eq!(output.len(), 2);
    assert_eq!(output[0]["id"], "web_search_call_0123456789abcdef012345670");
    assert_eq!(output[0]["action"]["query"], "q");
    let contents: Vec<_> =
        output[1]["content"].as_array().unwrap().iter().map(|c| c["type"].as_str().unwrap()).collect();
    assert_eq!(contents, ["output_text", "output_text", "refusal"]);
    assert_eq!(
        (&whole["status"], &whole["incomplete_details"]["reason"]),
        (&json!("incomplete"), &json!("max_output_tokens"))
    );
}

/// Scenario: the streams of answers with all kinds of items.
/// Guarantee: an item is begun empty and done whole, its pieces are what is done, the last event holds the whole, and the
/// events are numbered.
#[test]
fn a_stream_says_something_else_than_the_whole() {
    let call = ModelCall {
        tools: request::tools(
            json!({"tools": [{"type": "custom", "name": "patch"}]}).as_object().unwrap(),
            &["tools"],
        ),
        ..fixture::call()
    };
    let odd = vec![
        Part::tool_call(Some("c".into()), "patch", Some(json!("*** begin"))),
        fixture::other(json!({"type": "refusal", "refusal": "I will not do it"})),
        fixture::other(json!({"type": "web_search_call", "status": "completed"})),
    ];
    for answer in [fixture::answer(), fixture::of(odd, "content_filter")] {
        let whole = OpenAiResponses.whole(&call, &answer);
        let events = fixture::events(&OpenAiResponses.frames(&call, &answer));
        for (number, (name, data)) in events.iter().enumerate() {
            assert_eq!((name.as_deref(), &data["sequence_number"]), (data["type"].as_str(), &json!(number)));
        }
        let [(_, created), (_, progress), items @ .., (last, end)] = events.as_slice() else {
            panic!("too few events")
        };
        assert_eq!(
            (&created["type"], &progress["type"]),
            (&json!("response.created"), &json!("response.in_progress"))
        );
        assert_eq!((&created["response"]["id"], &created["response"]["output"]), (&whole["id"], &json!([])));
        assert_eq!(
            (last.as_deref(), &end["response"]),
            (Some(&*format!("response.{}", whole["status"].as_str().unwrap())), &whole)
        );
        let output = whole["output"].as_array().unwrap();
        let of = |kind: &str| {
            items.iter().filter(|(_, e)| e["type"] == kind).map(|(_, e)| e.clone()).collect::<Vec<_>>()
        };
        let done: Vec<_> = of("response.output_item.done").into_iter().map(|e| e["item"].clone()).collect();
        assert_eq!(&done, output);
        for (added, item) in of("response.output_item.added").iter().zip(output) {
            assert_eq!((&added["item"]["id"], &added["item"]["type"]), (&item["id"], &item["type"]));
            assert_ne!(added["item"], *item);
        }
        for (_, end) in items.iter().filter(|(_, e)| e["type"].as_str().unwrap().ends_with(".done")) {
            let (kind, _) = end["type"].as_str().unwrap().rsplit_once('.').unwrap();
            let Some(text) =
                ["text", "arguments", "input", "refusal"].iter().find_map(|key| end[*key].as_str())
            else {
                continue;
            };
            let deltas = of(&format!("{kind}.delta")).into_iter().filter(|e| e["item_id"] == end["item_id"]);
            assert_eq!(deltas.map(|e| e["delta"].as_str().unwrap().to_owned()).collect::<String>(), text);
        }
        assert_eq!(of("response.content_part.added").len(), of("response.content_part.done").len());
        assert_eq!(
            of("response.reasoning_summary_part.added").len(),
            of("response.reasoning_summary_part.done").len()
        );
    }
}
