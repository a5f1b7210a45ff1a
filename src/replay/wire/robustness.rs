//! Readers and writers under bodies and answers that no provider ever sent.

use proptest::prelude::*;
use serde_json::{Map, Value};

use super::{Anthropic, OpenAiChat, OpenAiResponses, Surface, fixture, openai};
use crate::genai::message::Part;

const SURFACES: &[&dyn Surface] = &[&OpenAiChat, &OpenAiResponses, &Anthropic];

/// Members and values that some reader looks for.
const WORDS: &[&str] = &[
    "model",
    "messages",
    "input",
    "instructions",
    "system",
    "role",
    "user",
    "assistant",
    "tool",
    "content",
    "type",
    "text",
    "parts",
    "tool_calls",
    "function",
    "name",
    "arguments",
    "id",
    "call_id",
    "function_call",
    "output",
    "function_call_output",
    "reasoning",
    "summary",
    "refusal",
    "tools",
    "custom",
    "parameters",
    "input_schema",
    "response_format",
    "json_schema",
    "schema",
    "stream",
    "stream_options",
    "max_tokens",
    "seed",
    "thread",
    "tool_use",
    "tool_result",
    "thinking",
    "signature",
    "image_url",
    "source",
    "data",
    "url",
    "web_search_call",
    "message",
    "choices",
    "lc",
    "kwargs",
    "functionCall",
    "output_config",
    "format",
    "dimensions",
    "{\"role\":",
    "[",
];

fn word() -> impl Strategy<Value = String> {
    prop_oneof![4 => prop::sample::select(WORDS).prop_map(str::to_owned), 1 => ".{0,12}"]
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        word().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(5, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            prop::collection::vec((word(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Any body, or one that has what each surface wants and is odd below that.
fn body() -> impl Strategy<Value = Value> {
    let members = prop::collection::vec(json(), 0..6);
    let likely = (members, json()).prop_map(|(list, more)| {
        let list = Value::Array(list);
        serde_json::json!({"model": "m", "messages": list, "input": list, "tools": list, "system": more, "instructions": more})
    });
    prop_oneof![json(), likely]
}

fn part() -> impl Strategy<Value = Part> {
    json().prop_map(|value| {
        let tagged = serde_json::from_value(value.clone()).ok();
        tagged.unwrap_or_else(|| Part::Other(value.as_object().cloned().unwrap_or_else(Map::new)))
    })
}

proptest! {
    #[test]
    fn a_body_brings_a_reader_down(body in body()) {
        for surface in SURFACES {
            let Ok(call) = surface.read(&body, None, false) else { continue };
            prop_assert!(!surface.frames(&call, &fixture::answer()).is_empty());
        }
        let _ = (openai::read_embedding(&body, None), openai::wants_base64(&body), Anthropic.refuses(&body));
    }

    #[test]
    fn an_answer_brings_a_writer_down(parts in prop::collection::vec(part(), 0..6), finish in word()) {
        let answer = fixture::of(parts, &finish);
        for surface in SURFACES {
            prop_assert!(surface.whole(&fixture::call(), &answer).is_object());
            prop_assert!(!surface.frames(&fixture::call(), &answer).is_empty());
        }
    }
}
