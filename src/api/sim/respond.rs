//! Answers -> HTTP responses: whole, streamed at once or as slowly as was recorded, or in the provider's own error.

use std::time::Duration;

use axum::{
    body::{Body, Bytes},
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use futures::StreamExt;
use serde_json::{Value, json};

use crate::replay::{
    sim::{
        call::{Answer, ModelCall},
        session::{Reply, Timing},
    },
    wire::{ErrorResponse, Surface},
};

/// The step that answered, and on which rung it was found.
const STEP: HeaderName = HeaderName::from_static("x-spanreel-step");
const MATCH: HeaderName = HeaderName::from_static("x-spanreel-match");
/// Why a call was refused.
const DIVERGENCE: HeaderName = HeaderName::from_static("x-spanreel-divergence");
/// The longest that an answer is held back, however long it took then.
const WAIT_MAX: Duration = Duration::from_secs(600);

/// The response to a call of a model.
pub(super) fn answered(
    surface: &'static dyn Surface,
    call: &ModelCall,
    reply: &Reply,
    speed: f64,
) -> Response {
    let Answer::Model(answer) = &reply.answer else {
        return with_step(otherwise(surface, &reply.answer), reply);
    };
    let response = if call.stream {
        let frames = surface.frames(call, answer);
        let body = if speed > 0.0 { paced(frames, reply.timing, speed) } else { Body::from(frames.concat()) };
        ([(header::CONTENT_TYPE, HeaderValue::from_static(surface.stream_media()))], body).into_response()
    } else {
        let whole = surface.whole(call, answer).to_string();
        let media = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        let wait = pause(reply.timing.whole_ns, speed);
        if wait.is_zero() {
            (media, whole).into_response()
        } else {
            let late = futures::stream::once(async move {
                tokio::time::sleep(wait).await;
                Ok::<_, std::convert::Infallible>(Bytes::from(whole))
            });
            (media, Body::from_stream(late)).into_response()
        }
    };
    with_step(response, reply)
}

/// The response that holds a failure or a refusal.
pub(super) fn otherwise(surface: &dyn Surface, answer: &Answer) -> Response {
    match answer {
        Answer::Failed(failed) => error(surface.failed(failed)),
        Answer::Refused(refused) => {
            let mut response = error(surface.refused(refused));
            let _ = response.headers_mut().insert(DIVERGENCE, HeaderValue::from_static(refused.code.name()));
            response
        }
        _ => problem(
            StatusCode::INTERNAL_SERVER_ERROR,
            "spanreel_internal",
            "spanreel: an answer of another kind",
        ),
    }
}

/// An error in a provider's own shape.
pub(super) fn error(error: ErrorResponse) -> Response {
    let mut response = (error.status, error.body.to_string()).into_response();
    let headers = response.headers_mut();
    let _ = headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for (name, value) in error.headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            let _ = headers.insert(HeaderName::from_static(name), value);
        }
    }
    response
}

/// An error that is no provider's; most clients show its message.
pub(super) fn problem(status: StatusCode, code: &str, message: &str) -> Response {
    let body = json!({
        "type": "error",
        "message": message,
        "error": {"code": code, "type": "invalid_request_error", "message": message, "param": null},
    });
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

pub(super) fn json(body: Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

/// Says which step answered.
pub(super) fn with_step(mut response: Response, reply: &Reply) -> Response {
    let headers = response.headers_mut();
    if let Some((_, step)) = &reply.step {
        let _ = headers.insert(STEP, HeaderValue::from(*step));
    }
    let rung = reply.rung.and_then(|rung| serde_json::to_value(rung).ok());
    if let Some(value) =
        rung.as_ref().and_then(Value::as_str).and_then(|text| HeaderValue::from_str(text).ok())
    {
        let _ = headers.insert(MATCH, value);
    }
    response
}

/// The first frame when the first token came, the others spread evenly over the rest.
fn paced(frames: Vec<Bytes>, timing: Timing, speed: f64) -> Body {
    let first = pause(timing.first_ns.min(timing.whole_ns), speed);
    let rest = pause(timing.whole_ns, speed).saturating_sub(first);
    let count = u32::try_from(frames.len()).unwrap_or(u32::MAX).saturating_sub(1).max(1);
    let each = rest / count;
    let frames = futures::stream::iter(frames.into_iter().enumerate());
    Body::from_stream(frames.then(move |(number, frame)| async move {
        tokio::time::sleep(if number == 0 { first } else { each }).await;
        Ok::<_, std::convert::Infallible>(frame)
    }))
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds that people wait for")]
fn pause(nanoseconds: u64, speed: f64) -> Duration {
    if speed <= 0.0 {
        return Duration::ZERO;
    }
    Duration::try_from_secs_f64(nanoseconds as f64 / 1e9 / speed).unwrap_or(WAIT_MAX).min(WAIT_MAX)
}
