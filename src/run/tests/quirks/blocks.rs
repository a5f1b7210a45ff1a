//! Parts of messages in the shapes of their producers.

use serde_json::json;

use super::*;
use crate::genai::message::{ContentState, Part};

fn parts_in(input: Value) -> Vec<Part> {
    let read = run([span(
        1,
        0,
        "chat",
        json!({"gen_ai.operation.name": "chat", "gen_ai.input.messages": input.to_string()}),
    )]);
    read.messages.into_iter().flat_map(|m| m.message.parts.clone()).collect()
}

fn part_in(content: Value) -> Value {
    let parts = parts_in(json!([{"role": "user", "content": [{"text": "look"}, content]}]));
    assert_eq!(parts.len(), 2);
    serde_json::to_value(&parts[1]).unwrap()
}

/// Media of Pydantic AI's first version, of ADK and of Bedrock.
#[test]
fn media_of_an_old_version_stays_raw() {
    let image = json!({"type": "uri", "modality": "image", "uri": "https://x/a.png"});
    assert_eq!(part_in(json!({"kind": "image-url", "url": "https://x/a.png"})), image);
    let file = json!({"file_data": {"file_uri": "gs://x/a.png", "mime_type": "image/png"}});
    assert_eq!(
        part_in(file),
        json!({"type": "uri", "modality": "image", "uri": "gs://x/a.png", "mime_type": "image/png"})
    );
    // As one text of blocks, which is how Strands writes an event.
    let blocks = json!([{"text": "look"}, {"image": {"format": "png", "source": {"bytes": "QUJD"}}}]);
    let strands = run([span(1, 0, "chat", json!({"gen_ai.operation.name": "chat"}))
        .event("gen_ai.user.message", json!({"content": blocks.to_string()}))]);
    let parts = &strands.messages[0].message.parts;
    assert_eq!(
        serde_json::to_value(&parts[1]).unwrap(),
        json!({"type": "blob", "modality": "image", "mime_type": "image/png", "content": "QUJD"})
    );
}

/// Haystack nests its calls and their results; Genkit its documents.
#[test]
fn a_call_below_its_own_name_is_no_call() {
    let parts = parts_in(json!([
        {"role": "assistant", "content": [{"tool_call": {"tool_name": "f", "arguments": {"x": 1}, "id": "c1"}}]},
        {"role": "tool", "content": [{"tool_call_result": {"result": "5", "origin": {"tool_name": "f", "arguments": {"x": 1}, "id": "c1"}, "error": false}}]},
        {"role": "user", "content": [{"content": [{"text": "a "}, {"text": "doc"}], "metadata": {}}]},
    ]));
    assert_eq!(parts[0], Part::tool_call(Some("c1".into()), "f", Some(json!({"x": 1}))));
    assert!(
        matches!(&parts[1], Part::ToolCallResponse { id: Some(id), response: Some(r), .. } if id == "c1" && r == "5")
    );
    assert!(matches!(&parts[2], Part::Text { content: Some(text), .. } if text == "a doc"));
}

/// OpenLLMetry of 2026 sends what LangChain's callback was given as the arguments of the convention.
#[test]
fn a_callbacks_own_arguments_are_those_of_the_tool() {
    let given = json!({"input_str": "{'query': 'q', 'top_k': 2}", "tags": ["seq:step:1"], "metadata": {"thread_id": "t"},
        "inputs": {"query": "q", "top_k": 2}, "kwargs": {"tool_call_id": "call_9", "color": "green"}});
    let got = json!({"output": {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "ToolMessage"],
        "kwargs": {"content": "[{\"id\": \"D\"}]", "tool_call_id": "call_9", "type": "tool"}}, "kwargs": {"tags": []}});
    let read = run([span(
        1,
        0,
        "execute_tool search_docs",
        json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search_docs", "traceloop.span.kind": "tool",
            "gen_ai.tool.call.arguments": given.to_string(), "gen_ai.tool.call.result": got.to_string()}),
    )]);
    let step = &read.steps[0];
    assert_eq!(step.tool_arguments, Some(json!({"query": "q", "top_k": 2})));
    assert_eq!(
        (step.tool_call_id.as_deref(), &step.tool_result),
        (Some("call_9"), &Some(json!([{"id": "D"}])))
    );
}

/// OpenInference in JavaScript writes the role of a message whose content is a list of blocks, and nothing else of it.
#[test]
fn a_message_without_content_is_lost_though_the_input_has_it() {
    let input = json!({"messages": [[
        {"lc": 1, "type": "constructor", "id": ["langchain_core", "messages", "SystemMessage"],
            "kwargs": {"content": [{"type": "text", "text": "Be kind."}]}},
        {"lc": 1, "type": "constructor", "id": ["langchain_core", "messages", "HumanMessage"], "kwargs": {"content": "hi"}},
    ]]});
    let read = run([span(
        1,
        0,
        "ChatOpenAI",
        json!({
            "openinference.span.kind": "LLM",
            "llm.input_messages.0.message.role": "system",
            "llm.input_messages.1.message.role": "user",
            "llm.input_messages.1.message.content": "hi",
            "input.value": input.to_string(),
        }),
    )]);
    let said: Vec<_> = read.messages.iter().map(|m| (m.message.role.as_str(), m.message.text())).collect();
    assert_eq!(said, [("system", "Be kind.".to_owned()), ("user", "hi".to_owned())]);
}

/// openllmetry-js#464 (60): the end of the arguments is all that was kept, and no repair can read it.
#[test]
fn a_rest_of_arguments_is_taken_for_whole_ones() {
    let output = json!([{"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "\"}"}}]}]);
    let read = run([span(
        1,
        0,
        "chat",
        json!({"gen_ai.operation.name": "chat", "gen_ai.output.messages": output.to_string()}),
    )]);
    assert!(reasons(&read).contains(&"unparsable_content".to_owned()), "{:?}", read.partial_reasons);
    assert!(
        matches!(&read.steps[0].output_messages[0].parts[0], Part::ToolCall { arguments: Some(a), .. } if a == "\"}")
    );
    // Text that is an argument by itself is whole.
    let text = json!([{"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "plain"}}]}]);
    let read = run([span(
        1,
        0,
        "chat",
        json!({"gen_ai.operation.name": "chat", "gen_ai.output.messages": text.to_string()}),
    )]);
    assert_eq!(read.steps[0].output_state, ContentState::Captured);
    assert!(!reasons(&read).contains(&"unparsable_content".to_owned()));
}

/// An image inside a `data:` URL is content, not a reference to it.
#[test]
fn an_image_in_a_url_is_elsewhere() {
    let of = |url: &str| {
        let read = run([span(
            1,
            0,
            "llm",
            json!({"openinference.span.kind": "LLM", "llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.contents.0.message_content.type": "image", "llm.input_messages.0.message.contents.0.message_content.image.image.url": url}),
        )]);
        serde_json::to_value(&read.messages[0].message.parts[0]).unwrap()
    };
    assert_eq!(
        of("data:image/png;base64,QUJD"),
        json!({"type": "blob", "modality": "image", "mime_type": "image/png", "content": "QUJD"})
    );
    assert_eq!(of("https://x/a.png"), json!({"type": "uri", "modality": "image", "uri": "https://x/a.png"}));
}

/// OpenRouter and Logfire's streams wrap a text in an object of their own, beside what nobody asked for.
#[test]
fn the_answer_of_a_gateway_is_json() {
    let streamed = json!({"gen_ai.request.model": "m", "response_data": "{\"combined_chunk_content\":\"yes\",\"chunk_count\":2}"});
    assert_eq!(text_out(&step(span(1, 0, "streaming response from 'm'", streamed))), "yes");
    let read = step(span(
        1,
        0,
        "chat",
        json!({"gen_ai.operation.name": "chat", "gen_ai.completion": "{\"completion\":\"yes\",\"reasoning\":null,\"rawRequest\":{}}"}),
    ));
    assert_eq!(text_out(&read), "yes");
}
