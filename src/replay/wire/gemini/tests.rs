use given::{answer, parts};
use serde_json::json;

use super::*;
use crate::{genai::message::Part, replay::sim::call::RefusedCode};

/// What the tests of this file answer with.
mod given {
    use serde_json::{Map, json};

    use crate::{
        genai::message::Part,
        replay::sim::call::{ModelAnswer, Tokens},
    };

    pub(super) fn parts() -> Vec<Part> {
        let signed = |value: &str| Map::from_iter([("thoughtSignature".to_owned(), json!(value))]);
        vec![
            Part::Reasoning { content: Some("Two towns, two calls.".into()), extra: signed("c2ln") },
            Part::text("I look both up, one after the other."),
            Part::ToolCall {
                id: Some("call_1".into()),
                name: "weather".into(),
                arguments: Some(json!({"city": "Paris"})),
                extra: signed("c2ln"),
            },
            Part::tool_call(Some("call_2".into()), "weather", Some(json!({"city": "Rome"}))),
        ]
    }

    pub(super) fn answer(parts: Vec<Part>, finish: &str) -> ModelAnswer {
        ModelAnswer {
            step: 1,
            id: "0123456789abcdef01234567".into(),
            model: "gemini-2.5-pro-001".into(),
            parts,
            finish: finish.into(),
            usage: Tokens { input: 40, output: 12, cache_read: 8, cache_write: 0, reasoning: 5 },
            created_s: 1_796_000_000,
        }
    }
}

fn chunks(answer: &ModelAnswer) -> Vec<Value> {
    let frames = Gemini.frames(&ModelCall::default(), answer);
    let data = |frame: &Bytes| {
        let text = std::str::from_utf8(frame).unwrap();
        serde_json::from_str(text.strip_prefix("data: ").unwrap().strip_suffix("\n\n").unwrap()).unwrap()
    };
    frames.iter().map(data).collect()
}

/// Scenario: one conversation in camel case as Google's clients write it, and in snake case as others do.
/// Guarantee: both are one call.
#[test]
fn a_request_depends_on_the_case_of_its_members() {
    let camel = json!({
        "systemInstruction": {"parts": [{"text": "Be brief."}], "role": "user"},
        "contents": [
            {"role": "user", "parts": [
                {"text": "Weather?"}, {"inlineData": {"mimeType": "image/png", "data": "QUJD"}}]},
            {"role": "model", "parts": [
                {"functionCall": {"id": "c1", "name": "weather", "args": {"city": "Paris"}}}]},
            {"role": "user", "parts": [
                {"functionResponse": {"id": "c1", "name": "weather", "response": {"result": "sunny"}}}]},
        ],
        "tools": [{"functionDeclarations": [
            {"name": "weather", "description": "Weather of a town", "parametersJsonSchema": {"type": "object"}}]},
            {"googleSearch": {}}],
        "generationConfig": {"temperature": 0.5, "topP": 0.9, "maxOutputTokens": 64, "seed": 7,
            "responseMimeType": "application/json", "responseSchema": {"type": "OBJECT"}},
    });
    let snake = json!({
        "system_instruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [
                {"text": "Weather?"}, {"inline_data": {"mime_type": "image/png", "data": "QUJD"}}]},
            {"role": "model", "parts": [
                {"function_call": {"id": "c1", "name": "weather", "args": {"city": "Paris"}}}]},
            {"role": "user", "parts": [
                {"function_response": {"id": "c1", "name": "weather", "response": {"result": "sunny"}}}]},
        ],
        "tools": [{"function_declarations": [
            {"name": "weather", "description": "Weather of a town", "parameters": {"type": "object"}}]},
            {"google_search": {}}],
        "generation_config": {"temperature": 0.5, "top_p": 0.9, "max_output_tokens": 64, "seed": 7,
            "response_mime_type": "application/json", "response_schema": {"type": "OBJECT"}},
    });
    let call = Gemini.read(&camel, Some("gemini-2.5-pro"), true).unwrap();
    assert_eq!(call, Gemini.read(&snake, Some("models/gemini-2.5-pro"), true).unwrap());
    assert_eq!(call.model, "gemini-2.5-pro");
    assert_eq!(call.system, [Part::text("Be brief.")]);
    let roles: Vec<_> = call.messages.iter().map(|m| m.role.as_str()).collect();
    assert_eq!(roles, ["user", "assistant", "user"]);
    assert_eq!(
        call.messages[1].parts,
        [Part::tool_call(Some("c1".into()), "weather", Some(json!({"city": "Paris"})))]
    );
    let Part::ToolCallResponse { id, response, .. } = &call.messages[2].parts[0] else { panic!() };
    assert_eq!((id.as_deref(), response), (Some("c1"), &Some(json!({"result": "sunny"}))));
    assert_eq!(
        call.tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(),
        ["weather", "google_search"]
    );
    assert_eq!(call.tools[0].parameters, json!({"type": "object"}));
    assert_eq!((call.sampling.max_tokens, call.sampling.seed), (Some(64), Some(7)));
    assert_eq!(call.response_format, Some(json!({"type": "OBJECT"})));
    assert!(call.stream);
}

/// Scenario: an answer of the model comes back in the next request, with the signatures of its thoughts.
/// Guarantee: what is written is read as it was.
#[test]
fn an_answer_that_comes_back_is_another() {
    let whole = Gemini.whole(&ModelCall::default(), &answer(parts(), "tool_call"));
    let contents = json!([{"role": "user", "parts": [{"text": "hi"}]}, whole["candidates"][0]["content"]]);
    let call = Gemini.read(&json!({"contents": contents}), Some("m"), false).unwrap();
    let mut expected = parts();
    if let Part::Reasoning { extra, .. } = &mut expected[0] {
        let _ = extra.insert("thought".into(), true.into());
    }
    assert_eq!(call.messages[1].parts, expected);
}

#[test]
fn an_answer_loses_its_calls_its_counts_or_its_end() {
    let whole = Gemini.whole(&ModelCall::default(), &answer(parts(), "tool_call"));
    let candidate = &whole["candidates"][0];
    assert_eq!(candidate["finishReason"], "STOP");
    assert_eq!(candidate["content"]["parts"][0]["thought"], true);
    assert_eq!(candidate["content"]["parts"][0]["thoughtSignature"], "c2ln");
    assert_eq!(
        candidate["content"]["parts"][3]["functionCall"],
        json!({"id": "call_2", "name": "weather", "args": {"city": "Rome"}})
    );
    assert_eq!(
        whole["usageMetadata"],
        json!({"promptTokenCount": 40, "candidatesTokenCount": 7, "totalTokenCount": 52,
            "thoughtsTokenCount": 5, "cachedContentTokenCount": 8})
    );
    assert_eq!(whole["responseId"], "0123456789abcdef01234567");
    assert_eq!(whole["modelVersion"], "gemini-2.5-pro-001");
}

/// Guarantee: the texts of a stream are the text of the whole; calls come whole; the last chunk alone tells the end.
#[test]
fn a_stream_says_something_else_than_the_whole() {
    let chunks = chunks(&answer(parts(), "length"));
    let parts: Vec<&Value> =
        chunks.iter().flat_map(|c| c["candidates"][0]["content"]["parts"].as_array().unwrap()).collect();
    let text = |thought: bool| -> String {
        let of = |p: &&&Value| p.get("thought").is_some() == thought;
        parts.iter().filter(of).filter_map(|p| p.get("text")?.as_str()).collect()
    };
    assert_eq!(text(true), "Two towns, two calls.");
    assert_eq!(text(false), "I look both up, one after the other.");
    assert_eq!(parts.iter().filter(|p| p.get("functionCall").is_some()).count(), 2);
    assert_eq!(parts.iter().filter(|p| p.get("thoughtSignature").is_some()).count(), 2);
    let ends = chunks.iter().filter(|c| c["candidates"][0].get("finishReason").is_some());
    assert_eq!(ends.count(), 1);
    assert_eq!(chunks.last().unwrap()["candidates"][0]["finishReason"], "MAX_TOKENS");
    assert_eq!(chunks.last().unwrap()["usageMetadata"]["promptTokenCount"], 40);
}

/// Scenario: parts that Gemini has no words for, a signature that is no base64, arguments that were cut.
/// Guarantee: what can be said is said, and no client fails on the rest.
#[test]
fn a_part_without_words_breaks_the_answer() {
    let signed = Map::from_iter([("thoughtSignature".to_owned(), json!("b'\\x00'"))]);
    let other = json!({"type": "server_tool_call", "x": 1}).as_object().unwrap().clone();
    let blob = json!({"type": "blob", "mime_type": "image/png", "content": "QUJD"});
    let parts = vec![
        Part::Reasoning { content: None, extra: Map::new() },
        Part::Text { content: Some("hi".into()), extra: signed },
        Part::Other(other),
        Part::Other(blob.as_object().unwrap().clone()),
        Part::tool_call(None, "f", Some(json!("{\"a\": 1, \"b"))),
        Part::tool_call_response(None, None),
    ];
    let whole = Gemini.whole(&ModelCall::default(), &answer(parts, "MALFORMED_FUNCTION_CALL"));
    assert_eq!(
        whole["candidates"][0]["content"]["parts"],
        json!([{"text": "hi"}, {"inlineData": {"mimeType": "image/png", "data": "QUJD"}},
            {"functionCall": {"name": "f", "args": {"arguments": "{\"a\": 1, \"b"}}}])
    );
    assert_eq!(whole["candidates"][0]["finishReason"], "MALFORMED_FUNCTION_CALL");
    let empty = chunks(&answer(Vec::new(), "stop"));
    assert_eq!(empty.len(), 1);
    assert_eq!(empty[0]["candidates"][0]["finishReason"], "STOP");
}

#[test]
fn a_failure_loses_its_status_or_its_words() {
    let failed = |status, kind: &str| {
        let failed = Failed { step: 1, status, kind: kind.into(), message: "slow down".into() };
        let made = Gemini.failed(&failed);
        (made.status.as_u16(), made.body["error"]["status"].as_str().unwrap().to_owned())
    };
    assert_eq!(failed(429, ""), (429, "RESOURCE_EXHAUSTED".into()));
    assert_eq!(failed(400, "FAILED_PRECONDITION"), (400, "FAILED_PRECONDITION".into()));
    assert_eq!(failed(503, "ServerError"), (503, "UNAVAILABLE".into()));
    assert_eq!(failed(418, ""), (418, "INVALID_ARGUMENT".into()));
    let refused = Refused { code: RefusedCode::Hole, step: Some(3), message: "step 3 has no answer".into() };
    let made = Gemini.refused(&refused);
    assert_eq!(made.status, 422);
    assert_eq!(made.body["error"]["code"], 422);
    assert_eq!(made.body["error"]["message"], "step 3 has no answer");
    assert_eq!(made.body["error"]["details"][0]["reason"], "spanreel_hole");
    assert_eq!(made.headers, [("x-should-retry", "false".to_owned())]);
}

#[test]
fn texts_to_embed_are_lost() {
    let content = |text: &str| json!({"parts": [{"text": text}]});
    let batch = json!({"requests": [
        {"model": "models/e", "content": content("a"), "outputDimensionality": 3},
        {"model": "models/e", "content": content("b"), "outputDimensionality": 3},
    ]});
    let call = read_embedding(&batch, None).unwrap();
    assert_eq!((call.model.as_str(), call.dimensions), ("e", Some(3)));
    assert_eq!(call.inputs, ["a", "b"]);
    let one = json!({"content": content("a"), "embedContentConfig": {"outputDimensionality": 3}});
    let call = read_embedding(&one, Some("e")).unwrap();
    assert_eq!((call.inputs, call.dimensions), (vec!["a".to_owned()], Some(3)));
    assert!(read_embedding(&json!({"requests": []}), Some("e")).unwrap_err().contains("empty"));
    let vectors = EmbeddingAnswer { vectors: vec![vec![0.5], vec![1.0]], ..EmbeddingAnswer::default() };
    assert_eq!(
        embedding_response(&vectors, true),
        json!({"embeddings": [{"values": [0.5]}, {"values": [1.0]}]})
    );
    assert_eq!(embedding_response(&vectors, false), json!({"embedding": {"values": [0.5]}}));
}

#[test]
fn what_is_to_be_counted_is_not_found() {
    let body =
        json!({"generateContentRequest": {"model": "models/m", "contents": [{"parts": [{"text": "a"}]}]}});
    let call = Gemini.read(&body, None, false).unwrap();
    assert_eq!((call.model.as_str(), call.messages[0].text().as_str()), ("m", "a"));
    assert_eq!(count_response(3), json!({"totalTokens": 3}));
    assert!(Gemini.read(&json!({}), Some("m"), false).unwrap_err().contains("contents"));
}
