//! `/sim/{secret}/...`: where an agent's clients are led to. The secret in the path is the credential; every other one
//! that a client sends is dropped unread.

pub mod environment;
pub mod sessions;
mod mcp;
mod respond;
mod route;

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Path, Request, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::any,
};
use http_body_util::{BodyExt, Limited};
use serde_json::{Value, json};

use crate::replay::{
    sim::call::{Answer, Call, ToolCall},
    wire::{Surface, anthropic, gemini, openai},
};
use respond::{answered, problem, with_step};
use route::Ask;
use sessions::{Sessions, Simulation};

/// Bodies above this are not read on the threads that serve sockets.
const LARGE_BYTES: usize = 256 << 10;

/// The routes under which agents call.
pub fn router<S>(sessions: Arc<Sessions>) -> Router<S> {
    Router::new().route("/sim/{secret}/{*path}", any(serve)).with_state(sessions)
}

async fn serve(
    State(sessions): State<Arc<Sessions>>,
    Path((secret, _)): Path<(String, String)>,
    request: Request,
) -> Response {
    let Some(simulation) = sessions.by_secret(&secret) else {
        let message =
            "spanreel: no such simulation; it has ended, or its time (simulation.session_ttl_s) is over";
        return problem(StatusCode::GONE, "spanreel_simulation_gone", message);
    };
    let path = request.uri().path().splitn(4, '/').nth(3).unwrap_or_default().to_owned();
    let method = request.method().clone();
    let Some(ask) = route::of(&method, &path) else {
        let message = format!("spanreel: a simulation does not serve {method} {path}");
        return problem(StatusCode::NOT_FOUND, "spanreel_not_served", &message);
    };
    let (parts, body) = request.into_parts();
    let body = match whole(&sessions, body).await {
        Ok(body) => body,
        Err(response) => return response,
    };
    answer(&simulation, ask, &parts.headers, &body).await
}

/// The whole body, within the limits of the settings.
async fn whole(sessions: &Sessions, body: Body) -> Result<Bytes, Response> {
    let settings = sessions.settings();
    let whole = Limited::new(body, settings.body_bytes_max).collect();
    match tokio::time::timeout(Duration::from_secs(settings.body_timeout_s), whole).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(_)) => {
            let message = "spanreel: the body broke off, or is larger than simulation.body_bytes_max";
            Err(problem(StatusCode::PAYLOAD_TOO_LARGE, "spanreel_body", message))
        }
        Err(_) => {
            let message = "spanreel: the body did not arrive within simulation.body_timeout_s";
            Err(problem(StatusCode::REQUEST_TIMEOUT, "spanreel_body", message))
        }
    }
}

async fn answer(simulation: &Arc<Simulation>, ask: Ask, headers: &HeaderMap, body: &Bytes) -> Response {
    let json = match parse(body).await {
        Ok(json) => json,
        Err(_) if body.is_empty() => Value::Null,
        Err(error) => {
            let message = format!("spanreel: the body is no JSON: {error}");
            return problem(StatusCode::BAD_REQUEST, "spanreel_body", &message);
        }
    };
    match ask {
        Ask::Model { surface, model, streams } => {
            model_call(simulation, surface, model.as_deref(), streams, headers, &json).await
        }
        Ask::OpenAiEmbedding => {
            let base64 = openai::wants_base64(&json);
            embed(simulation, headers, openai::read_embedding(&json, None), |call, answer| {
                openai::embedding_response(call, base64, answer)
            })
            .await
        }
        Ask::GeminiEmbedding { model, is_batch } => {
            let call = gemini::read_embedding(&json, Some(&model));
            embed(simulation, headers, call, |_, answer| gemini::embedding_response(answer, is_batch)).await
        }
        Ask::AnthropicCount => respond::json(anthropic::count_tokens(tokens_of(body))),
        Ask::GeminiCount => respond::json(gemini::count_response(tokens_of(body))),
        Ask::OpenAiModels(None) => respond::json(openai::models(&models(simulation))),
        Ask::OpenAiModels(Some(name)) => respond::json(openai::model(&name)),
        Ask::AnthropicModels(None) => respond::json(anthropic::models(&models(simulation))),
        Ask::AnthropicModels(Some(name)) => respond::json(anthropic::model(&name)),
        Ask::Tool(name) => tool_call(simulation, name, headers, json).await,
        Ask::Mcp => mcp::answer(simulation, headers, &json).await,
        Ask::McpNoStream => StatusCode::METHOD_NOT_ALLOWED.into_response(),
        Ask::McpEnd => StatusCode::OK.into_response(),
    }
}

/// The JSON of a body. A large one would keep a thread from other sockets.
async fn parse(body: &Bytes) -> Result<Value, String> {
    let read = |body: &[u8]| serde_json::from_slice::<Value>(body).map_err(|error| error.to_string());
    if body.len() <= LARGE_BYTES {
        return read(body);
    }
    let body = body.clone();
    let read = tokio::task::spawn_blocking(move || read(&body)).await;
    read.unwrap_or_else(|error| Err(error.to_string()))
}

async fn model_call(
    simulation: &Arc<Simulation>,
    surface: &'static dyn Surface,
    model: Option<&str>,
    streams: bool,
    headers: &HeaderMap,
    body: &Value,
) -> Response {
    if let Some(refused) = surface.refuses(body) {
        return respond::error(refused);
    }
    let mut call = match surface.read(body, model, streams) {
        Ok(call) => call,
        Err(reason) => {
            let message = format!("spanreel: this is no request of that kind: {reason}");
            return problem(StatusCode::BAD_REQUEST, "spanreel_body", &message);
        }
    };
    surface.resolve(&mut call, &|id| simulation.given(id));
    let asked = Arc::new(Call::Model(call));
    let mut reply = simulation.answer(Arc::clone(&asked), is_resent(headers)).await;
    if reply.answer == Answer::Live {
        reply = simulation.block(&asked, "no upstream is configured for live calls");
    }
    let Call::Model(call) = &*asked else { return StatusCode::INTERNAL_SERVER_ERROR.into_response() };
    answered(surface, call, &reply, simulation.speed())
}

async fn embed(
    simulation: &Arc<Simulation>,
    headers: &HeaderMap,
    call: Result<crate::replay::sim::call::EmbeddingCall, String>,
    write: impl Fn(&crate::replay::sim::call::EmbeddingCall, &crate::replay::sim::call::EmbeddingAnswer) -> Value,
) -> Response {
    let call = match call {
        Ok(call) => call,
        Err(reason) => {
            return problem(StatusCode::BAD_REQUEST, "spanreel_body", &format!("spanreel: {reason}"));
        }
    };
    let asked = Arc::new(Call::Embedding(call));
    let mut reply = simulation.answer(Arc::clone(&asked), is_resent(headers)).await;
    if reply.answer == Answer::Live {
        reply = simulation.block(&asked, "no upstream is configured for live calls");
    }
    let Call::Embedding(call) = &*asked else { return StatusCode::INTERNAL_SERVER_ERROR.into_response() };
    let response = match &reply.answer {
        Answer::Embedding(answer) => respond::json(write(call, answer)),
        other => respond::otherwise(&crate::replay::wire::OpenAiChat, other),
    };
    with_step(response, &reply)
}

/// `POST tools/{name}`: the body is the arguments.
async fn tool_call(
    simulation: &Arc<Simulation>,
    name: String,
    headers: &HeaderMap,
    arguments: Value,
) -> Response {
    let asked = Arc::new(Call::Tool(ToolCall { name, arguments }));
    let reply = simulation.answer(asked, is_resent(headers)).await;
    let response = match &reply.answer {
        Answer::Tool(tool) => respond::json(json!({
            "result": tool.result, "is_error": tool.is_error, "step_index": tool.step,
        })),
        // The caller has the tool and runs it.
        Answer::Live => respond::json(json!({"live": true})),
        other => respond::otherwise(&crate::replay::wire::OpenAiChat, other),
    };
    with_step(response, &reply)
}

/// The client says that it sends a request again.
fn is_resent(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let attempt = text("amz-sdk-request").split(';').find_map(|part| part.trim().strip_prefix("attempt="));
    !matches!(text("x-stainless-retry-count"), "" | "0") || attempt.is_some_and(|attempt| attempt != "1")
}

/// About four bytes make a token; the record does not tell.
fn tokens_of(body: &[u8]) -> u64 {
    (body.len() as u64 / 4).max(1)
}

/// The models of the record.
fn models(simulation: &Simulation) -> Vec<String> {
    let mut all: Vec<String> = simulation.runs().iter().flat_map(|run| run.models.clone()).collect();
    all.sort();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_attempt_looks_like_a_first() {
        let headers = |name: &'static str, value: &str| {
            HeaderMap::from_iter([(axum::http::HeaderName::from_static(name), value.parse().unwrap())])
        };
        assert!(is_resent(&headers("x-stainless-retry-count", "1")));
        assert!(is_resent(&headers("amz-sdk-request", "attempt=2; max=3")));
        assert!(!is_resent(&headers("x-stainless-retry-count", "0")));
        assert!(!is_resent(&headers("amz-sdk-request", "attempt=1")));
        assert!(!is_resent(&HeaderMap::new()));
    }
}
