//! OTLP over HTTP: protobuf and JSON on one port. Every refusal carries a `google.rpc.Status` in the request's encoding.

use std::time::Duration;

use ::http::{
    HeaderMap, HeaderValue, StatusCode, Version,
    header::{ALLOW, CONTENT_ENCODING, CONTENT_TYPE, EXPECT, RETRY_AFTER},
    request::Parts,
};
use axum::{
    Router,
    body::{Body, HttpBody},
    extract::{Request, State},
    response::Response,
    routing::any,
};
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use opentelemetry_proto::tonic::collector::{
    logs::v1::{ExportLogsPartialSuccess, ExportLogsServiceResponse},
    trace::v1::{ExportTracePartialSuccess, ExportTraceServiceResponse},
};
use prost::Message;
use serde_json::json;

use super::{Error, Format, Outcome, Receiver, Signal, admit::Permit, inflate::Encoding};
use crate::config::otlp::Settings;

const PROTOBUF: &str = "application/x-protobuf";
const JSON: &str = "application/json";

/// So many times the size of a request is read on after a refusal; what comes costs nothing but the reading.
const DISCARD_TIMES: usize = 16;

/// Routes of the OTLP/HTTP port.
pub fn router(receiver: Receiver) -> Router {
    Router::new()
        .route("/v1/traces", any(|state, request| export(state, Signal::Traces, request)))
        .route("/v1/logs", any(|state, request| export(state, Signal::Logs, request)))
        .route("/v1/metrics", any(|state, request| export(state, Signal::Metrics, request)))
        .fallback(|request: Request| async move {
            let format = format_of(request.headers()).unwrap_or(Format::Protobuf);
            refusal(&Error::NotFound(request.uri().path().to_owned()), format)
        })
        .with_state(receiver)
}

async fn export(State(receiver): State<Receiver>, signal: Signal, request: Request) -> Response {
    let (head, mut body) = request.into_parts();
    let format = format_of(&head.headers);
    match take(&receiver, signal, &head, &mut body).await {
        Ok(outcome) => success(signal, &outcome, format.unwrap_or(Format::Protobuf)),
        Err(error) => {
            if error != Error::Slow {
                discard(&head, body, &receiver.settings);
            }
            refusal(&error, format.unwrap_or(Format::Protobuf))
        }
    }
}

async fn take(receiver: &Receiver, signal: Signal, head: &Parts, body: &mut Body) -> Result<Outcome, Error> {
    if head.method != ::http::Method::POST {
        return Err(Error::Method);
    }
    let headers = &head.headers;
    let format = format_of(headers)?;
    let encoding = Encoding::parse(text(headers, &CONTENT_ENCODING))?;
    let tenant = receiver.tenant(headers)?;
    let mut permit = receiver.admit(headers)?;
    let settings = &receiver.settings;
    let wait = Duration::from_secs(settings.body_timeout_s);
    let body = collect(body, &mut permit, settings.request_bytes_max, wait).await?;
    receiver.receive(permit, tenant, signal, format, encoding, body).await
}

/// The whole body, within a size and a time; charged for as it comes.
pub(super) async fn collect(
    body: &mut Body,
    permit: &mut Permit,
    bytes_max: usize,
    wait: Duration,
) -> Result<Bytes, Error> {
    let gather = async {
        let mut bytes = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| Error::Invalid("the body broke off".into()))?;
            let Ok(chunk) = frame.into_data() else { continue };
            let length = bytes.len().saturating_add(chunk.len());
            if length > bytes_max {
                return Err(Error::TooLarge { limit: "otlp.request_bytes_max", value: bytes_max });
            }
            permit.grow_to(length)?;
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes.into())
    };
    tokio::time::timeout(wait, gather).await.unwrap_or(Err(Error::Slow))
}

/// Reads on after a refusal: over HTTP/1 a peer that is still sending when its connection is closed often does not see
/// the answer, and sends the same again. What costs it nothing to hold back (`Expect`) is not asked for.
fn discard(head: &Parts, body: Body, settings: &Settings) {
    if head.version >= Version::HTTP_2 || head.headers.contains_key(EXPECT) || body.is_end_stream() {
        return;
    }
    let mut body = Limited::new(body, settings.request_bytes_max.saturating_mul(DISCARD_TIMES));
    let wait = Duration::from_secs(settings.body_timeout_s);
    drop(tokio::spawn(tokio::time::timeout(
        wait,
        async move { while let Some(Ok(_)) = body.frame().await {} },
    )));
}

/// The format by `Content-Type`; parameters and case do not matter.
fn format_of(headers: &HeaderMap) -> Result<Format, Error> {
    let given = text(headers, &CONTENT_TYPE).unwrap_or_default();
    let media = given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match media.as_str() {
        PROTOBUF | "application/protobuf" => Ok(Format::Protobuf),
        JSON => Ok(Format::Json),
        _ => Err(Error::ContentType(media)),
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &::http::HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|v| v.to_str().ok())
}

/// Full success leaves `partial_success` unset.
fn success(signal: Signal, outcome: &Outcome, format: Format) -> Response {
    let partial = !outcome.message.is_empty() || outcome.rejected > 0;
    let body = match format {
        Format::Protobuf => response(signal, outcome),
        Format::Json if partial => {
            let rejected = if signal == Signal::Traces { "rejectedSpans" } else { "rejectedLogRecords" };
            let partial = json!({rejected: outcome.rejected.to_string(), "errorMessage": outcome.message});
            json!({"partialSuccess": partial}).to_string().into_bytes()
        }
        Format::Json => b"{}".to_vec(),
    };
    answer(StatusCode::OK, format, body)
}

/// The protobuf response message of an export.
pub(super) fn response(signal: Signal, outcome: &Outcome) -> Vec<u8> {
    let partial = (!outcome.message.is_empty() || outcome.rejected > 0).then_some(outcome);
    match signal {
        Signal::Traces => ExportTraceServiceResponse {
            partial_success: partial.map(|o| ExportTracePartialSuccess {
                rejected_spans: o.rejected,
                error_message: o.message.clone(),
            }),
        }
        .encode_to_vec(),
        Signal::Logs => ExportLogsServiceResponse {
            partial_success: partial.map(|o| ExportLogsPartialSuccess {
                rejected_log_records: o.rejected,
                error_message: o.message.clone(),
            }),
        }
        .encode_to_vec(),
        Signal::Metrics => Vec::new(),
    }
}

fn refusal(error: &Error, format: Format) -> Response {
    let verdict = error.verdict();
    let message = error.to_string();
    let body = match format {
        Format::Protobuf => RpcStatus { code: verdict.grpc as i32, message }.encode_to_vec(),
        Format::Json => json!({"code": verdict.grpc as i32, "message": message}).to_string().into_bytes(),
    };
    let mut response = answer(verdict.http, format, body);
    if let Some(after) = verdict.retry_after {
        let _ = response.headers_mut().insert(RETRY_AFTER, after.as_secs().max(1).into());
    }
    if *error == Error::Method {
        let _ = response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    }
    response
}

fn answer(status: StatusCode, format: Format, body: Vec<u8>) -> Response {
    let media = if format == Format::Json { JSON } else { PROTOBUF };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let _ = response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media));
    response
}

/// `google.rpc.Status` without details.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct RpcStatus {
    #[prost(int32, tag = "1")]
    pub(super) code: i32,
    #[prost(string, tag = "2")]
    pub(super) message: String,
}

#[cfg(test)]
pub(super) mod tests;
