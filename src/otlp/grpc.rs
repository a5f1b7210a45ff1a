//! OTLP over gRPC: the three export services, unary, on raw bytes.
//!
//! The frame is read here and not by a codec, for three reasons: bytes must be scanned before structs are built, one
//! capped decompressor serves both transports, and a message over the limit must be answered with
//! `RESOURCE_EXHAUSTED`, which clients do not retry.

use std::time::Duration;

use ::http::{HeaderMap, HeaderValue, StatusCode, header::CONTENT_TYPE};
use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    response::Response,
    routing::post,
};
use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::BodyExt;
use prost::Message;
use tonic::{Code, Status};

use super::{
    Error, Format, Receiver, Signal,
    http::{RpcStatus, collect, response},
    inflate::Encoding,
};

/// The five bytes before a message: compressed or not, and its length.
pub(super) const PREFIX_BYTES: usize = 5;

/// Routes of the OTLP/gRPC port.
pub fn router(receiver: Receiver) -> Router {
    let path =
        |signal: &str| format!("/opentelemetry.proto.collector.{signal}.v1.{}Service/Export", title(signal));
    Router::new()
        .route(&path("trace"), post(|state, request| export(state, Signal::Traces, request)))
        .route(&path("logs"), post(|state, request| export(state, Signal::Logs, request)))
        .route(&path("metrics"), post(|state, request| export(state, Signal::Metrics, request)))
        .method_not_allowed_fallback(|| async { wrong_port() })
        .fallback(|request: Request| async move {
            match is_grpc(request.headers()) {
                true => refusal(&Error::NotFound(request.uri().path().to_owned())),
                false => wrong_port(),
            }
        })
        .with_state(receiver)
}

fn title(signal: &str) -> &'static str {
    match signal {
        "trace" => "Trace",
        "logs" => "Logs",
        _ => "Metrics",
    }
}

/// An exporter that speaks HTTP here would take an answer of gRPC for a success.
fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
}

fn wrong_port() -> Response {
    let said = "this port speaks OTLP/gRPC; send OTLP/HTTP to the HTTP port (4318 by default)\n";
    let mut response = Response::new(Body::from(said));
    *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    response
}

async fn export(State(receiver): State<Receiver>, signal: Signal, request: Request) -> Response {
    if !is_grpc(request.headers()) {
        return wrong_port();
    }
    match take(&receiver, signal, request).await {
        Ok(message) => success(message),
        Err(error) => refusal(&error),
    }
}

async fn take(receiver: &Receiver, signal: Signal, request: Request) -> Result<Vec<u8>, Error> {
    let tenant = receiver.tenant(request.headers())?;
    let encoding = encoding_of(request.headers())?;
    let mut permit = receiver.admit(request.headers())?;
    let settings = &receiver.settings;
    let wait = Duration::from_secs(settings.body_timeout_s);
    let bytes_max = settings.request_bytes_max.saturating_add(PREFIX_BYTES);
    let body = collect(&mut request.into_body(), &mut permit, bytes_max, wait).await?;
    let (compressed, message) = unframe(body)?;
    let encoding = if compressed { encoding } else { Encoding::Identity };
    let outcome = receiver.receive(permit, tenant, signal, Format::Protobuf, encoding, message).await?;
    Ok(response(signal, &outcome))
}

fn encoding_of(headers: &HeaderMap) -> Result<Encoding, Error> {
    Encoding::parse(headers.get("grpc-encoding").and_then(|v| v.to_str().ok()))
}

/// The one message of a unary request.
fn unframe(body: Bytes) -> Result<(bool, Bytes), Error> {
    let invalid = |what: &str| Error::Invalid(what.to_owned());
    let [flag, a, b, c, d] = *body.first_chunk().ok_or_else(|| invalid("no gRPC message"))?;
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    let message = body.slice(PREFIX_BYTES..);
    if flag > 1 || message.len() != length {
        return Err(invalid("not one whole gRPC message"));
    }
    Ok((flag == 1, message))
}

fn success(message: Vec<u8>) -> Response {
    let mut frame = BytesMut::with_capacity(PREFIX_BYTES + message.len());
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    frame.put_slice(&message);
    let mut trailers = HeaderMap::new();
    let _ = trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let body = http_body_util::Full::new(frame.freeze()).with_trailers(async move { Some(Ok(trailers)) });
    let mut response = Response::new(Body::new(body));
    let _ = response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    let _ =
        response.headers_mut().insert("grpc-accept-encoding", HeaderValue::from_static("identity,gzip,zstd"));
    response
}

/// A trailers-only answer. Only a refusal that may be retried carries `RetryInfo`.
fn refusal(error: &Error) -> Response {
    let verdict = error.verdict();
    let message = error.to_string();
    let status = match verdict.retry_after {
        None => Status::new(verdict.grpc, message),
        Some(after) => {
            let details = retry_details(verdict.grpc, &message, after);
            Status::with_details(verdict.grpc, message, details.into())
        }
    };
    let mut response = status.into_http();
    let _ =
        response.headers_mut().insert("grpc-accept-encoding", HeaderValue::from_static("identity,gzip,zstd"));
    response.map(|_: tonic::body::Body| Body::empty())
}

/// A `google.rpc.Status` that holds a `google.rpc.RetryInfo`.
fn retry_details(code: Code, message: &str, after: Duration) -> Vec<u8> {
    #[derive(Clone, PartialEq, prost::Message)]
    struct RetryInfo {
        #[prost(message, optional, tag = "1")]
        retry_delay: Option<Delay>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    struct Delay {
        #[prost(int64, tag = "1")]
        seconds: i64,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    struct Packed {
        #[prost(string, tag = "1")]
        type_url: String,
        #[prost(bytes = "vec", tag = "2")]
        value: Vec<u8>,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    struct Details {
        #[prost(message, repeated, tag = "3")]
        details: Vec<Packed>,
    }
    let seconds = i64::try_from(after.as_secs()).unwrap_or(i64::MAX);
    let value = RetryInfo { retry_delay: Some(Delay { seconds }) }.encode_to_vec();
    let packed = Packed { type_url: "type.googleapis.com/google.rpc.RetryInfo".into(), value };
    // Fields of one message may be encoded apart: the status first, its details behind it.
    let mut bytes = RpcStatus { code: code as i32, message: message.to_owned() }.encode_to_vec();
    bytes.extend(Details { details: vec![packed] }.encode_to_vec());
    bytes
}

#[cfg(test)]
mod tests;
