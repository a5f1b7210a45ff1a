use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::{codec::CompressionEncoding, transport::Channel};

use super::*;
use crate::{
    config::otlp::Settings,
    otlp::{
        SinkError,
        http::tests::{receiver, request},
        listen,
    },
};

async fn client(receiver: Receiver) -> (TraceServiceClient<Channel>, CancellationToken) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let settings = (*receiver.settings).clone();
    drop(tokio::spawn(listen::serve(listener, router(receiver), settings, stop.clone())));
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{address}")).unwrap();
    (TraceServiceClient::new(channel.connect().await.unwrap()), stop)
}

#[tokio::test]
async fn a_grpc_client_is_not_understood() {
    let (receiver, taken) = receiver(Settings::default(), None);
    let (client, _stop) = client(receiver).await;
    for mut client in [client.clone(), client.send_compressed(CompressionEncoding::Gzip)] {
        let answer = client.export(request(3)).await.unwrap().into_inner();
        assert!(answer.partial_success.is_none());
        let mut bad = request(2);
        bad.resource_spans[0].scope_spans[0].spans[0].span_id.clear();
        let partial = client.export(bad).await.unwrap().into_inner().partial_success.unwrap();
        assert_eq!(partial.rejected_spans, 1);
    }
    assert_eq!(taken.lock().len(), 4);
}

/// Scenario: a message over the limit, plain and compressed.
/// Guarantee: `RESOURCE_EXHAUSTED` without retry advice; tonic's own codec says the retryable `OUT_OF_RANGE`.
#[tokio::test]
async fn a_message_over_the_limit_is_sent_again() {
    let (receiver, _) = receiver(Settings { request_bytes_max: 500, ..Settings::default() }, None);
    let (client, _stop) = client(receiver).await;
    for mut client in [client.clone(), client.send_compressed(CompressionEncoding::Gzip)] {
        let status = client.export(request(200)).await.unwrap_err();
        assert_eq!((status.code(), status.details()), (Code::ResourceExhausted, &[][..]), "{status:?}");
    }
}

#[tokio::test]
async fn overload_carries_no_advice() {
    let full = SinkError { message: "full".into(), retry_after: Some(Duration::from_secs(3)) };
    let (receiver, _) = receiver(Settings::default(), Some(full));
    let (mut client, _stop) = client(receiver).await;
    let status = client.export(request(1)).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    let details = String::from_utf8_lossy(status.details()).into_owned();
    assert!(details.contains("google.rpc.RetryInfo"), "{details}");
}

#[tokio::test]
async fn a_hundred_streams_are_mixed_up() {
    let (receiver, taken) = receiver(Settings::default(), None);
    let (client, _stop) = client(receiver).await;
    let calls = (0..100).map(|i| {
        let mut client = client.clone();
        async move { client.export(request(i)).await.unwrap() }
    });
    let _ = futures::future::join_all(calls).await;
    assert_eq!(taken.lock().len(), 99, "the empty one has nothing to store");
}

#[tokio::test]
async fn bad_frames_are_taken() {
    for body in [&b""[..], b"\0\0\0", b"\0\0\0\0\x09abc", b"\x02\0\0\0\0", b"\0\0\0\0\0trailing"] {
        assert!(matches!(unframe(Bytes::from_static(body)), Err(Error::Invalid(_))), "{body:?}");
    }
}

/// Scenario: a service that OTLP has and this receiver has not, a method that nobody has, and a peer that speaks no gRPC.
/// Guarantee: UNIMPLEMENTED, which is never sent again; the last hears of the other port.
#[tokio::test]
async fn an_unknown_service_is_sent_again_and_again() {
    let (receiver, _) = receiver(Settings::default(), None);
    let ask = async |path: &str, media: &str| {
        let request = Request::post(path).header("content-type", media).body(Body::empty()).unwrap();
        tower::ServiceExt::oneshot(router(receiver.clone()), request).await.unwrap()
    };
    for path in [
        "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export",
        "/opentelemetry.proto.collector.trace.v1.TraceService/Import",
    ] {
        let answer = ask(path, "application/grpc+proto").await;
        assert_eq!(answer.headers()["grpc-status"], "12", "{path}");
        assert!(!answer.headers().contains_key("grpc-status-details-bin"), "{path}");
    }
    assert_eq!(
        ask("/v1/traces", "application/x-protobuf").await.status(),
        StatusCode::UNSUPPORTED_MEDIA_TYPE
    );
}
