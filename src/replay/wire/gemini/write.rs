//! Answers in Gemini's words.

use base64::{Engine as _, alphabet, engine};
use serde_json::{Map, Value, json};

use super::super::{members::text, pieces};
use crate::{
    genai::message::Part,
    replay::sim::call::{ModelAnswer, Tokens},
};

const SIGNATURE: &[&str] = &["thoughtSignature", "thought_signature"];

/// A part in Gemini's words; `None` for what has none.
pub(super) fn written(part: &Part) -> Option<Value> {
    let (mut made, extra) = match part {
        Part::Text { content, extra } => (json!({"text": content.as_deref()?}), extra),
        Part::Reasoning { content, extra } => {
            let text = content.as_deref().or_else(|| signature(extra).map(|_| ""))?;
            (json!({"text": text, "thought": true}), extra)
        }
        Part::ToolCall { id, name, arguments, extra } => {
            let mut call = json!({"name": name, "args": args(arguments.as_ref())});
            if let (Some(id), Value::Object(call)) = (id, &mut call) {
                let _ = call.insert("id".into(), id.as_str().into());
            }
            (json!({"functionCall": call}), extra)
        }
        Part::ToolCallResponse { .. } => return None,
        Part::Other(other) => return media(other),
    };
    if let (Some(signature), Value::Object(made)) = (signature(extra), &mut made) {
        let _ = made.insert("thoughtSignature".into(), signature.into());
    }
    Some(made)
}

/// Arguments are an object to Gemini's clients: text that was cut before it was recorded is shown under a name.
fn args(arguments: Option<&Value>) -> Value {
    match arguments {
        Some(object @ Value::Object(_)) => object.clone(),
        None | Some(Value::Null) => json!({}),
        Some(other) => json!({"arguments": other}),
    }
}

/// Clients decode it, and fail on what is no base64.
fn signature(extra: &Map<String, Value>) -> Option<&str> {
    let lenient = engine::GeneralPurposeConfig::new()
        .with_decode_padding_mode(engine::DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    let text = SIGNATURE.iter().find_map(|key| extra.get(*key)?.as_str())?;
    let decodes =
        |alphabet| engine::GeneralPurpose::new(alphabet, lenient).decode(text).is_ok_and(|b| !b.is_empty());
    (decodes(&alphabet::STANDARD) || decodes(&alphabet::URL_SAFE)).then_some(text)
}

fn media(other: &Map<String, Value>) -> Option<Value> {
    let text = |key: &str| other.get(key).and_then(Value::as_str);
    match text("type")? {
        "blob" => Some(json!({"inlineData": {"mimeType": text("mime_type")?, "data": text("content")?}})),
        "uri" => Some(json!({"fileData": {"mimeType": text("mime_type")?, "fileUri": text("uri")?}})),
        _ => None,
    }
}

/// A text comes in pieces, everything else whole. What stands beside a text comes with its last piece.
pub(super) fn in_pieces(part: Value) -> Vec<Value> {
    let Some(text) = text(&part, &["text"]) else { return vec![part] };
    let mut pieces = pieces(text);
    let last = pieces.pop().unwrap_or_default();
    let with = |piece: &str| {
        let mut made = part.clone();
        if let Some(text) = made.get_mut("text") {
            *text = piece.into();
        }
        made
    };
    let without_signature = |mut made: Value| {
        let _ = made.as_object_mut().and_then(|made| made.shift_remove("thoughtSignature"));
        made
    };
    let before = pieces.iter().map(|piece| without_signature(with(piece)));
    before.chain([with(last)]).collect()
}

/// A response, or a chunk of one; the last one says why it ended and what it took.
pub(super) fn response(answer: &ModelAnswer, parts: Vec<Value>, is_last: bool) -> Value {
    let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
    let mut made = Map::new();
    if is_last {
        if let Value::Object(candidate) = &mut candidate {
            let _ = candidate.insert("finishReason".into(), finish(&answer.finish).into());
        }
        let _ = made.insert("usageMetadata".into(), usage(&answer.usage));
    }
    let _ = made.insert("candidates".into(), json!([candidate]));
    let _ = made.insert("modelVersion".into(), answer.model.as_str().into());
    let _ = made.insert("responseId".into(), answer.id.as_str().into());
    made.into()
}

/// A call of a tool ends with `STOP` too.
fn finish(finish: &str) -> String {
    match finish {
        "" | "stop" | "tool_call" => "STOP".into(),
        "length" => "MAX_TOKENS".into(),
        "content_filter" => "SAFETY".into(),
        other => other.to_ascii_uppercase(),
    }
}

/// The prompt includes what came from the cache; the candidates exclude the thoughts.
fn usage(tokens: &Tokens) -> Value {
    let mut made = json!({
        "promptTokenCount": tokens.input,
        "candidatesTokenCount": tokens.output.saturating_sub(tokens.reasoning),
        "totalTokenCount": tokens.input.saturating_add(tokens.output),
    });
    if let Value::Object(made) = &mut made {
        for (name, count) in
            [("thoughtsTokenCount", tokens.reasoning), ("cachedContentTokenCount", tokens.cache_read)]
        {
            if count > 0 {
                let _ = made.insert(name.into(), count.into());
            }
        }
    }
    made
}
