//! What OTLP asks of a receiver, over every wire, against the real binary.
//!
//! The encodings themselves have their tests beside the code (`otlp::json`, `otlp::scan`, `otlp::error`).

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{AnyValue, ArrayValue, KeyValue, any_value::Value},
    trace::v1::{ResourceSpans, ScopeSpans, Span},
};
use prost::Message;

use crate::{
    client::{Answer, Client, Wire, gzip},
    harness::{Server, output},
};

const WIRES: [Wire; 3] = [Wire::Protobuf, Wire::Json, Wire::Grpc];
const LIMIT: usize = 1 << 20;

fn server(data: &tempfile::TempDir) -> Server {
    Server::start_set(data.path(), &[("otlp.request_bytes_max", LIMIT as u64)])
}

fn span(id: u64) -> Span {
    Span {
        trace_id: u128::from(id).to_be_bytes().into(),
        span_id: id.to_be_bytes().into(),
        ..Span::default()
    }
}

fn request(spans: Vec<Span>) -> ExportTraceServiceRequest {
    let scope_spans = vec![ScopeSpans { spans, ..ScopeSpans::default() }];
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans { scope_spans, ..ResourceSpans::default() }],
    }
}

/// As the wire carries it.
fn encoded(wire: Wire, request: &ExportTraceServiceRequest) -> Vec<u8> {
    match wire {
        Wire::Json => spanreel::otlp::json::encode_traces(request).to_string().into_bytes(),
        Wire::Protobuf | Wire::Grpc => request.encode_to_vec(),
    }
}

fn send(client: &mut Client, wire: Wire, encoding: &str, body: &[u8]) -> Answer {
    let answer = client.send(wire, encoding, body).unwrap_or_else(|e| panic!("{wire:?} {encoding}: {e}"));
    let media = match wire {
        Wire::Json => "application/json",
        Wire::Protobuf => "application/x-protobuf",
        Wire::Grpc => "application/grpc",
    };
    assert_eq!(answer.content_type, media, "{answer:?}");
    assert!(answer.is_success() || !answer.message.is_empty(), "a refusal says why: {answer:?}");
    answer
}

/// Scenario: one request plain, gzip and zstd, over each wire (A-1.1, A-1.5, A-3.2, A-3.3, A-3.12).
/// Guarantee: full success without a partial success; the same spans are there.
#[test]
fn a_wire_or_an_encoding_changes_what_is_stored() {
    let data = tempfile::tempdir().unwrap();
    let server = server(&data);
    let mut client = Client::new(&server);
    let mut id = 0;
    for wire in WIRES {
        for encoding in ["", "gzip", "zstd"] {
            id += 1;
            let plain = encoded(wire, &request(vec![Span { name: "same".into(), ..span(id) }]));
            let body = match encoding {
                "gzip" => gzip(&plain),
                "zstd" => zstd::encode_all(&plain[..], 1).unwrap(),
                _ => plain,
            };
            let answer = send(&mut client, wire, encoding, &body);
            assert!(answer.is_success() && answer.message.is_empty(), "{wire:?} {encoding}: {answer:?}");
        }
    }
    let mut names = server.get_lines("/v1/otlp").into_iter().flat_map(|line| {
        let spans = line["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone();
        spans.into_iter().map(|span| span["name"].clone())
    });
    assert_eq!(names.by_ref().filter(|name| name == "same").count(), 9);
}

/// Scenario: requests of exactly the limit and one byte more, plain and inflated (A-1.2, A-2.2, A-3.6).
/// Guarantee: the first is taken; the second is refused with 413 or RESOURCE_EXHAUSTED, never to come again, and the
/// client sees it though it was still sending.
#[test]
fn the_limit_of_a_request_is_off_by_one_or_not_told() {
    let data = tempfile::tempdir().unwrap();
    let server = server(&data);
    let mut client = Client::new(&server);
    for (id, wire) in (1..).zip(WIRES) {
        for (over, encoding) in [(0, ""), (0, "gzip"), (1, ""), (1, "gzip"), (LIMIT * 10, "")] {
            let body = of_length(wire, id, LIMIT + over);
            let sent = if encoding.is_empty() { body } else { gzip(&body) };
            let answer = send(&mut client, wire, encoding, &sent);
            if over == 0 {
                assert!(answer.is_success(), "{wire:?} {encoding}: {answer:?}");
            } else {
                assert_eq!(
                    answer.code,
                    if wire == Wire::Grpc { 8 } else { 413 },
                    "{wire:?} {encoding}: {answer:?}"
                );
                assert!(!answer.is_retryable() && answer.advice.is_none(), "{wire:?} {encoding}: {answer:?}");
            }
        }
    }
    // Without a length in advance.
    let mut stream = TcpStream::connect(("127.0.0.1", server.ports()[1])).unwrap();
    let head = "POST /v1/traces HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-protobuf\r\n";
    stream.write_all(format!("{head}transfer-encoding: chunked\r\n\r\n").as_bytes()).unwrap();
    for _ in 0..20 {
        stream.write_all(b"10000\r\n").unwrap();
        stream.write_all(&[0x0a; 0x10000]).unwrap();
        stream.write_all(b"\r\n").unwrap();
    }
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
}

/// A request of exactly so many bytes.
fn of_length(wire: Wire, id: u64, length: usize) -> Vec<u8> {
    let mut name = length;
    loop {
        let body = encoded(wire, &request(vec![Span { name: "x".repeat(name), ..span(id) }]));
        if body.len() == length {
            return body;
        }
        name -= body.len() - length;
    }
}

/// Scenario: nothing at all, empty envelopes, spans some or all of which can never be stored, and values that are kept
/// in another form (A-1.3 to A-1.7, A-1.10).
/// Guarantee: success; the exact number of rejected spans, with words; a warning rejects none; no answer is large.
#[test]
fn a_partial_success_is_wrong() {
    let data = tempfile::tempdir().unwrap();
    let server = server(&data);
    let mut client = Client::new(&server);
    let mut deep = AnyValue { value: Some(Value::StringValue("core".into())) };
    for _ in 0..33 {
        deep = AnyValue { value: Some(Value::ArrayValue(ArrayValue { values: vec![deep] })) };
    }
    let warned = KeyValue { key: "deep".into(), value: Some(deep), ..KeyValue::default() };
    let bad = |id: u64, trace: usize, span_id: usize| Span {
        trace_id: vec![1; trace],
        span_id: vec![2; span_id],
        ..span(id)
    };
    let mixed = || {
        let broken = [bad(0, 0, 8), bad(0, 16, 7), Span { trace_id: vec![0; 16], ..span(3) }];
        (10..17).map(span).chain(broken).collect::<Vec<_>>()
    };
    for wire in WIRES {
        let cases: [(&str, ExportTraceServiceRequest, i64, bool); 6] = [
            ("nothing", ExportTraceServiceRequest::default(), 0, false),
            ("an empty envelope", request(vec![]), 0, false),
            ("good ones", request(vec![span(1), span(2)]), 0, false),
            ("seven of ten", request(mixed()), 3, true),
            ("none of many", request(vec![bad(0, 3, 3); 20_000]), 20_000, true),
            ("a deep value", request(vec![Span { attributes: vec![warned.clone()], ..span(5) }]), 0, true),
        ];
        for (name, request, rejected, told) in cases {
            let answer = send(&mut client, wire, "", &encoded(wire, &request));
            assert!(answer.is_success(), "{name} over {wire:?}: {answer:?}");
            assert_eq!(answer.rejected_spans, rejected, "{name} over {wire:?}: {answer:?}");
            assert_eq!(!answer.message.is_empty(), told, "{name} over {wire:?}: {answer:?}");
            assert!(answer.message.len() < 1000, "{name} over {wire:?}");
        }
    }
    for (wire, body) in [(Wire::Protobuf, &b""[..]), (Wire::Json, b"{}"), (Wire::Grpc, b"")] {
        assert!(send(&mut client, wire, "", body).is_success(), "{wire:?}");
    }
}

/// Scenario: bytes that are no request: cut, not UTF-8, another wire type, not gzip (A-2.5, A-3.5).
/// Guarantee: 400 or INVALID_ARGUMENT, never to come again.
#[test]
fn a_bad_request_is_sent_again() {
    let data = tempfile::tempdir().unwrap();
    let server = server(&data);
    let mut client = Client::new(&server);
    let good = request(vec![Span { name: "n".into(), ..span(1) }]).encode_to_vec();
    let cut = &good[..good.len() - 1];
    let not_utf8: Vec<u8> = good.iter().map(|b| if *b == b'n' { 0xff } else { *b }).collect();
    let cut_gzip = &gzip(&good)[..20];
    for (wire, encoding, body) in [
        (Wire::Protobuf, "", cut),
        (Wire::Grpc, "", cut),
        (Wire::Protobuf, "", &not_utf8),
        (Wire::Grpc, "", &not_utf8),
        (Wire::Protobuf, "", b"\x08\x01"),
        (Wire::Grpc, "", b"\x08\x01"),
        (Wire::Protobuf, "gzip", cut_gzip),
        (Wire::Grpc, "gzip", cut_gzip),
        (Wire::Json, "gzip", cut_gzip),
        (Wire::Protobuf, "gzip", &good),
        (Wire::Grpc, "gzip", &good),
        (Wire::Json, "", b"{"),
        (Wire::Json, "", b"{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[{\"name\":\"\xff\"}]}]}]}"),
        (
            Wire::Json,
            "",
            br#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"W47/95gDgQPSabYzgT/GDA=="}]}]}]}"#,
        ),
    ] {
        let answer = send(&mut client, wire, encoding, body);
        let code = if wire == Wire::Grpc { 3 } else { 400 };
        assert_eq!((answer.code, answer.advice), (code, None), "{wire:?} {encoding} {body:?}: {answer:?}");
    }
    for (wire, code) in [(Wire::Protobuf, 415), (Wire::Json, 415), (Wire::Grpc, 12)] {
        let answer = send(&mut client, wire, "br", &good);
        assert_eq!((answer.code, answer.advice), (code, None), "{wire:?}: {answer:?}");
    }
}

/// Scenario: other methods and paths, a preflight of a browser, and `Expect` (A-3.9, A-3.11, A-3.13).
/// Guarantee: the codes that OTLP names; nothing for other origins; a body that was refused is not asked for.
#[test]
fn another_method_or_path_is_taken() {
    let data = tempfile::tempdir().unwrap();
    let server = server(&data);
    let ask = |request: &str| {
        let mut stream = TcpStream::connect(("127.0.0.1", server.ports()[1])).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(request.replace('\n', "\r\n").as_bytes()).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).to_lowercase()
    };
    let get = ask("GET /v1/traces HTTP/1.1\nhost: x\nconnection: close\n\n");
    assert!(get.starts_with("http/1.1 405") && get.contains("\r\nallow: post\r\n"), "{get}");
    let preflight = ask(
        "OPTIONS /v1/traces HTTP/1.1\nhost: x\norigin: http://elsewhere\naccess-control-request-method: POST\nconnection: close\n\n",
    );
    assert!(
        preflight.starts_with("http/1.1 405") && !preflight.contains("access-control-allow"),
        "{preflight}"
    );
    let elsewhere = ask("POST /v1/profiles HTTP/1.1\nhost: x\nconnection: close\ncontent-length: 0\n\n");
    assert!(elsewhere.starts_with("http/1.1 404"), "{elsewhere}");
    let waits = ask(
        "POST /v1/traces HTTP/1.1\nhost: x\ncontent-type: application/json\nexpect: 100-continue\ncontent-length: 99999999\nconnection: close\n\n",
    );
    assert!(waits.starts_with("http/1.1 413"), "{waits}");
}

/// Scenario: senders without a key, with a wrong one, with one that may not write, and with a good one (A-2.7).
/// Guarantee: UNAUTHENTICATED or 401, PERMISSION_DENIED or 403, never to come again; the good one is taken.
#[test]
fn a_key_is_not_asked_for_on_one_wire() {
    let data = tempfile::tempdir().unwrap();
    let (mut entries, mut keys) = (Vec::new(), Vec::new());
    for role in ["writer", "auditor"] {
        let made = output(&["keys", "new", "--name", role, "--tenant", "acme", "--role", role]).stdout;
        let made = String::from_utf8(made).unwrap();
        let (key, config) = made.split_once("\n").unwrap();
        keys.push(key.trim_start_matches("key: ").to_owned());
        let config: serde_json::Value = serde_json::from_str(&config[config.find('{').unwrap()..]).unwrap();
        entries.push(config["access"]["keys"][0].clone());
    }
    let settings = data.path().join("settings.yaml");
    std::fs::write(&settings, serde_json::json!({"access": {"keys": entries}}).to_string()).unwrap();
    let server = Server::start_with(&data.path().join("data"), &["--config", settings.to_str().unwrap()]);
    for (key, http, grpc) in
        [(None, 401, 16), (Some("sr_wrong"), 401, 16), (Some(&*keys[1]), 403, 7), (Some(&*keys[0]), 200, 0)]
    {
        let mut client = Client::new(&server);
        client.key = key.map(str::to_owned);
        for wire in WIRES {
            let answer = send(&mut client, wire, "", &encoded(wire, &request(vec![span(1)])));
            let code = if wire == Wire::Grpc { grpc } else { http };
            assert_eq!((answer.code, answer.advice), (code, None), "{key:?} over {wire:?}: {answer:?}");
        }
    }
}
