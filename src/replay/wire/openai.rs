//! What OpenAI's surfaces share: errors, the list of models, embeddings.

use axum::http::StatusCode;
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{ErrorResponse, error, request};
use crate::replay::sim::call::{EmbeddingAnswer, EmbeddingCall, Failed, Refused};

/// A recorded failure.
pub(super) fn failed(failed: &Failed) -> ErrorResponse {
    let status = error::recorded_status(failed);
    let message = error::message(&failed.message, status);
    let (kind, code) = match (failed.kind.as_str(), status.as_u16()) {
        ("", 401) => ("invalid_request_error", Some("invalid_api_key")),
        ("", 404) => ("invalid_request_error", Some("model_not_found")),
        ("", 429) => ("rate_limit_error", Some("rate_limit_exceeded")),
        ("", 500..) => ("server_error", None),
        ("", _) => ("invalid_request_error", None),
        (kind, _) => (kind, Some(kind)),
    };
    error(status, &message, kind, code)
}

/// A refusal. Clients have a class of its own for 422, send it once, and do not take it for a model that is not there.
pub(super) fn refused(refused: &Refused) -> ErrorResponse {
    let code = Some(refused.code.name());
    error(StatusCode::UNPROCESSABLE_ENTITY, &refused.message, "invalid_request_error", code)
}

fn error(status: StatusCode, message: &str, kind: &str, code: Option<&str>) -> ErrorResponse {
    let error = json!({"message": message, "type": kind, "param": null, "code": code});
    error::once(status, json!({ "error": error }))
}

/// The list of models (`GET /models`).
pub fn models(names: &[String]) -> Value {
    let models: Vec<Value> = names.iter().map(|name| model(name)).collect();
    json!({"object": "list", "data": models})
}

/// One model (`GET /models/{name}`).
pub fn model(name: &str) -> Value {
    json!({"id": name, "object": "model", "created": 0, "owned_by": "system"})
}

/// The texts that a request (`POST /embeddings`) wants embedded.
///
/// # Errors
/// The request is none; the text says what is missing, for people.
pub fn read_embedding(body: &Value, path_model: Option<&str>) -> Result<EmbeddingCall, String> {
    let members = request::members(body)?;
    let input = members.get("input").ok_or("`input` is missing: give a text or a list of texts")?;
    let inputs = match input {
        Value::String(text) => vec![text.clone()],
        // One text as the numbers of its tokens.
        Value::Array(items) if items.iter().any(Value::is_number) => vec![input.to_string()],
        Value::Array(items) => items.iter().map(text_or_tokens).collect::<Result<_, _>>()?,
        _ => return Err("`input` must be a text, a list of texts or lists of token numbers".into()),
    };
    let dimensions = members.get("dimensions").and_then(Value::as_u64);
    Ok(EmbeddingCall {
        model: request::model(members, path_model)?,
        inputs,
        dimensions: dimensions.and_then(|n| usize::try_from(n).ok()),
    })
}

fn text_or_tokens(item: &Value) -> Result<String, String> {
    match item {
        Value::String(text) => Ok(text.clone()),
        Value::Array(_) => Ok(item.to_string()),
        _ => Err("an item of `input` is neither a text nor a list of token numbers".into()),
    }
}

/// True when a request wants its vectors as base64: the Python client does unless told otherwise.
pub fn wants_base64(body: &Value) -> bool {
    body.get("encoding_format").and_then(Value::as_str) == Some("base64")
}

/// The response with a vector for each text.
pub fn embedding_response(call: &EmbeddingCall, base64: bool, answer: &EmbeddingAnswer) -> Value {
    let embedding = |(index, vector): (usize, &Vec<f32>)| {
        let vector = if base64 { base64_of(vector) } else { numbers(vector) };
        json!({"object": "embedding", "index": index, "embedding": vector})
    };
    let data: Vec<Value> = answer.vectors.iter().enumerate().map(embedding).collect();
    let model = if answer.model.is_empty() { &call.model } else { &answer.model };
    let tokens = answer.usage.input;
    json!({"object": "list", "data": data, "model": model, "usage": {"prompt_tokens": tokens, "total_tokens": tokens}})
}

fn base64_of(vector: &[f32]) -> Value {
    let bytes: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
    Value::from(STANDARD.encode(bytes))
}

/// The numbers as short as they were: 0.1 as `f64` would be 0.10000000149011612.
fn numbers(vector: &[f32]) -> Value {
    vector.iter().map(|number| number.to_string().parse::<f64>().map_or(Value::Null, Value::from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::sim::call::{RefusedCode, Tokens};

    fn inputs(input: Value) -> Result<Vec<String>, String> {
        read_embedding(&json!({"model": "e", "input": input}), None).map(|call| call.inputs)
    }

    #[test]
    fn texts_to_embed_are_lost_in_one_of_their_forms() {
        assert_eq!(inputs(json!("a")).unwrap(), ["a"]);
        assert_eq!(inputs(json!(["a", "b"])).unwrap(), ["a", "b"]);
        assert_eq!(inputs(json!([1, 2])).unwrap(), ["[1,2]"]);
        assert_eq!(inputs(json!([[1, 2], [3]])).unwrap(), ["[1,2]", "[3]"]);
        assert!(inputs(json!(7)).unwrap_err().contains("`input` must be"));
        assert!(inputs(json!([{}])).unwrap_err().contains("neither"));
        assert!(read_embedding(&json!({"model": "e"}), None).unwrap_err().contains("missing"));
        assert!(read_embedding(&json!({"input": "a"}), None).unwrap_err().contains("`model`"));
        let call = read_embedding(&json!({"input": "a", "dimensions": 256}), Some("of-the-path")).unwrap();
        assert_eq!((call.model.as_str(), call.dimensions), ("of-the-path", Some(256)));
    }

    /// Scenario: a vector is asked for as numbers and as base64.
    /// Guarantee: the numbers are those of the record, shortest, and the bytes are little-endian `f32`.
    #[test]
    fn a_vector_changes_on_its_way_out() {
        let usage = Tokens { input: 5, ..Tokens::default() };
        let answer =
            EmbeddingAnswer { vectors: vec![vec![0.1, -2.0], vec![1.0]], usage, ..Default::default() };
        let call = EmbeddingCall { model: "e".into(), ..EmbeddingCall::default() };
        let plain = embedding_response(&call, false, &answer);
        assert_eq!(plain["data"][0]["embedding"], json!([0.1, -2.0]));
        assert_eq!(plain["data"][1], json!({"object": "embedding", "index": 1, "embedding": [1.0]}));
        assert_eq!((&plain["model"], &plain["usage"]["total_tokens"]), (&json!("e"), &json!(5)));
        let packed = embedding_response(&call, true, &answer);
        assert_eq!(packed["data"][0]["embedding"], "zczMPQAAAMA=");
        assert!(wants_base64(&json!({"encoding_format": "base64"})));
        assert!(!wants_base64(&json!({"encoding_format": "float"})) && !wants_base64(&json!({})));
    }

    #[test]
    fn a_refusal_is_sent_again_or_hides_its_message() {
        let refused = super::refused(&Refused {
            code: RefusedCode::Divergence,
            step: Some(3),
            message: "step 3 differs".into(),
        });
        assert_eq!(refused.status.as_u16(), 422);
        assert_eq!(refused.headers, [("x-should-retry", "false".to_owned())]);
        let error = json!({"message": "step 3 differs", "type": "invalid_request_error", "param": null, "code": "spanreel_divergence"});
        assert_eq!(refused.body, json!({ "error": error }));
    }

    #[test]
    fn a_recorded_failure_comes_back_as_another() {
        let failed = |status, kind: &str, message: &str| {
            super::failed(&Failed { status, kind: kind.into(), message: message.into(), step: 0 })
        };
        let limited = failed(429, "", "slow down");
        assert_eq!(
            (limited.status.as_u16(), limited.body["error"]["type"].as_str()),
            (429, Some("rate_limit_error"))
        );
        assert_eq!(limited.body["error"]["message"], "slow down");
        assert_eq!(limited.headers, [("x-should-retry", "false".to_owned())]);
        let named = failed(429, "insufficient_quota", "").body;
        assert_eq!(
            (&named["error"]["type"], &named["error"]["code"]),
            (&json!("insufficient_quota"), &json!("insufficient_quota"))
        );
        assert!(named["error"]["message"].as_str().unwrap().contains("429"));
        assert_eq!(failed(200, "", "x").status.as_u16(), 500);
        assert_eq!(failed(7, "", "x").status.as_u16(), 500);
        assert_eq!(failed(503, "", "x").body["error"]["type"], "server_error");
        assert_eq!(failed(401, "", "x").body["error"]["code"], "invalid_api_key");
    }

    #[test]
    fn the_models_of_a_run_cannot_be_listed() {
        let list = models(&["a".into(), "b".into()]);
        assert_eq!(
            list["data"][1],
            json!({"id": "b", "object": "model", "created": 0, "owned_by": "system"})
        );
    }
}
