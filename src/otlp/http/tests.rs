use std::{io::Write, sync::Arc};

use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    trace::v1::{ResourceSpans, ScopeSpans, Span},
};
use parking_lot::Mutex;
use tower::ServiceExt;

use super::*;
use crate::{
    config::otlp::Settings,
    otlp::{Authenticate, Sink, SinkError},
    telemetry::Metrics,
    tenant::TenantId,
};

type Taken = Arc<Mutex<Vec<(Signal, Bytes)>>>;

struct Memory {
    taken: Taken,
    refuse: Option<SinkError>,
}

impl Sink for Memory {
    fn append(
        &self,
        _tenant: &TenantId,
        signal: Signal,
        bytes: Bytes,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<(), SinkError>> + Send>> {
        let answer = self.refuse.clone().map_or(Ok(()), Err);
        if answer.is_ok() {
            self.taken.lock().push((signal, bytes));
        }
        Box::pin(std::future::ready(answer))
    }
}

struct Keys;

impl Authenticate for Keys {
    fn writer(&self, headers: &HeaderMap) -> Result<TenantId, Error> {
        match headers.get("authorization").map(HeaderValue::as_bytes) {
            None | Some(b"Bearer good") => Ok(TenantId::embedded()),
            Some(b"Bearer reader") => Err(Error::Forbidden("may not write".into())),
            Some(_) => Err(Error::Unauthenticated("unknown key".into())),
        }
    }
}

pub(in crate::otlp) fn receiver(settings: Settings, refuse: Option<SinkError>) -> (Receiver, Taken) {
    let taken = Taken::default();
    let sink = Arc::new(Memory { taken: taken.clone(), refuse });
    (Receiver::new(settings, sink, Arc::new(Keys), Arc::new(Metrics::default())), taken)
}

pub(in crate::otlp) fn request(spans: usize) -> ExportTraceServiceRequest {
    let span = |i: usize| Span {
        trace_id: vec![1; 16],
        span_id: (i as u64 + 1).to_be_bytes().into(),
        ..Span::default()
    };
    let scope_spans = vec![ScopeSpans { spans: (0..spans).map(span).collect(), ..ScopeSpans::default() }];
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans { scope_spans, ..ResourceSpans::default() }],
    }
}

fn post(path: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> Request {
    let mut request = Request::builder().method("POST").uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(body.into()).unwrap()
}

async fn send(receiver: &Receiver, request: Request) -> (StatusCode, HeaderMap, Bytes) {
    let answer = router(receiver.clone()).oneshot(request).await.unwrap();
    let (parts, body) = answer.into_parts();
    (parts.status, parts.headers, body.collect().await.unwrap().to_bytes())
}

const PB: (&str, &str) = ("content-type", "application/x-protobuf");
const JS: (&str, &str) = ("content-type", "application/json; charset=utf-8");

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn an_encoding_changes_what_is_stored() {
    let (receiver, taken) = receiver(Settings::default(), None);
    let plain = request(3).encode_to_vec();
    let json = crate::otlp::json::encode_traces(&request(3)).to_string();
    let zstd = zstd::encode_all(&plain[..], 1).unwrap();
    let bodies = [
        (vec![PB], plain.clone()),
        (vec![PB, ("content-encoding", "gzip")], gzip(&plain)),
        (vec![PB, ("content-encoding", "zstd")], zstd),
        (vec![JS], json.clone().into_bytes()),
        (vec![("Content-Type", "APPLICATION/JSON"), ("content-encoding", "GZIP")], gzip(json.as_bytes())),
    ];
    let count = bodies.len();
    for (headers, body) in bodies {
        let (status, answered, body) = send(&receiver, post("/v1/traces", &headers, body)).await;
        assert_eq!(status, StatusCode::OK);
        let json = answered["content-type"] == "application/json";
        assert_eq!(body, if json { "{}" } else { "" }, "full success leaves partial_success unset");
    }
    let taken = taken.lock();
    assert_eq!(taken.len(), count);
    assert!(taken.iter().all(|(_, bytes)| *bytes == plain));
}

#[tokio::test]
async fn a_rejected_span_is_not_counted_or_fails_the_request() {
    let (receiver, taken) = receiver(Settings::default(), None);
    let mut mixed = request(10);
    for span in &mut mixed.resource_spans[0].scope_spans[0].spans[..3] {
        span.trace_id.clear();
    }
    let (status, _, body) = send(&receiver, post("/v1/traces", &[PB], mixed.encode_to_vec())).await;
    assert_eq!(status, StatusCode::OK);
    let partial = ExportTraceServiceResponse::decode(body).unwrap().partial_success.unwrap();
    assert_eq!(partial.rejected_spans, 3);
    assert!(partial.error_message.contains("3 spans rejected"));
    assert_eq!(
        ExportTraceServiceRequest::decode(taken.lock()[0].1.clone()).unwrap().resource_spans[0].scope_spans
            [0]
        .spans
        .len(),
        7
    );
    let json = crate::otlp::json::encode_traces(&mixed).to_string();
    let (_, _, body) = send(&receiver, post("/v1/traces", &[JS], json)).await;
    let answer: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(answer["partialSuccess"]["rejectedSpans"], "3");
}

#[tokio::test]
async fn a_refusal_has_another_code_or_no_status_body() {
    let small = Settings { request_bytes_max: 1000, spans_max: 5, ..Settings::default() };
    let (receiver, taken) = receiver(small, None);
    let big = request(100).encode_to_vec();
    let cases = [
        (400, post("/v1/traces", &[PB], &b"\x0a\xff"[..])),
        (400, post("/v1/traces", &[JS], "nonsense")),
        (400, post("/v1/traces", &[PB, ("content-encoding", "gzip")], gzip(b"x")[..10].to_vec())),
        (413, post("/v1/traces", &[PB], big.clone())),
        // Said in advance: nothing of the body is waited for.
        (413, post("/v1/traces", &[PB, ("content-length", "1073741824")], Vec::new())),
        (413, post("/v1/traces", &[PB, ("content-encoding", "gzip")], gzip(&big))),
        (413, post("/v1/traces", &[PB], request(6).encode_to_vec())),
        (415, post("/v1/traces", &[("content-type", "text/plain")], "")),
        (415, post("/v1/traces", &[], "")),
        (415, post("/v1/traces", &[PB, ("content-encoding", "br")], "")),
        (404, post("/v2/traces", &[PB], "")),
        (401, post("/v1/traces", &[JS, ("authorization", "Bearer bad")], "{}")),
        (403, post("/v1/traces", &[PB, ("authorization", "Bearer reader")], "")),
        (405, Request::builder().uri("/v1/traces").body(Body::empty()).unwrap()),
    ];
    for (code, request) in cases {
        let json = request.headers().get("content-type").is_some_and(|v| v == JS.1);
        let (status, headers, body) = send(&receiver, request).await;
        assert_eq!(status.as_u16(), code, "{body:?}");
        assert!(headers.get("retry-after").is_none());
        let message = if json {
            serde_json::from_slice::<serde_json::Value>(&body).unwrap()["message"]
                .as_str()
                .unwrap()
                .to_owned()
        } else {
            assert_eq!(headers["content-type"], PROTOBUF);
            RpcStatus::decode(body).unwrap().message
        };
        assert!(!message.is_empty());
    }
    assert!(taken.lock().is_empty());
}

#[tokio::test]
async fn pressure_becomes_a_partial_success_or_a_permanent_refusal() {
    let full = SinkError { message: "full".into(), retry_after: Some(Duration::from_secs(3)) };
    let (receiver, _) = receiver(Settings::default(), Some(full));
    let (status, headers, _) = send(&receiver, post("/v1/traces", &[PB], request(1).encode_to_vec())).await;
    assert_eq!((status.as_u16(), headers["retry-after"].to_str().unwrap()), (503, "3"));
}

#[tokio::test]
async fn an_empty_request_or_metrics_reach_the_sink() {
    let (receiver, taken) = receiver(Settings::default(), None);
    for request in [
        post("/v1/traces", &[PB], ""),
        post("/v1/traces", &[JS], "{}"),
        post("/v1/logs", &[JS], r#"{"resourceLogs":[{"scopeLogs":[{}]}]}"#),
        post("/v1/metrics", &[PB], ""),
        post("/v1/metrics", &[JS], r#"{"resourceMetrics":[]}"#),
    ] {
        assert_eq!(send(&receiver, request).await.0, StatusCode::OK);
    }
    assert!(taken.lock().is_empty());
}

/// Scenario: 64 MiB of empty spans, gzipped to 64 KiB.
/// Guarantee: refused without being decoded.
#[tokio::test]
async fn a_bomb_is_decoded() {
    let (receiver, _) = receiver(Settings::default(), None);
    // An inner length that the scan accepts: the spans stand in one scope.
    let spans = [0x12, 0].repeat((64 << 19) - 32);
    let mut scope = vec![0x12];
    prost::encoding::encode_varint(spans.len() as u64, &mut scope);
    scope.extend(spans);
    let mut bomb = vec![0x0a];
    prost::encoding::encode_varint(scope.len() as u64, &mut bomb);
    bomb.extend(scope);
    let bomb = gzip(&bomb);
    assert!(bomb.len() < 80_000);
    let begun = std::time::Instant::now();
    let (status, _, _) = send(&receiver, post("/v1/traces", &[PB, ("content-encoding", "gzip")], bomb)).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    // A debug build on a busy machine; to decode it takes minutes there.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}
