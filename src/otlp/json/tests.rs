use opentelemetry_proto::tonic::common::v1::{AnyValue, any_value::Value as Any};
use proptest::prelude::*;

use super::*;
use crate::config::otlp::Settings;

fn limits() -> Limits {
    Limits::from(&Settings::default())
}

fn read(json: &str) -> Result<ExportTraceServiceRequest, Error> {
    decode_traces(json.as_bytes(), &limits())
}

/// A request with one span that has these members.
fn span(members: &str) -> String {
    format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{{{members}}}]}}]}}]}}"#)
}

fn one(members: &str) -> opentelemetry_proto::tonic::trace::v1::Span {
    read(&span(members)).unwrap().resource_spans.remove(0).scope_spans.remove(0).spans.remove(0)
}

fn value(json: &str) -> Option<Any> {
    let members = format!(r#""attributes":[{{"key":"k","value":{json}}}]"#);
    one(&members).attributes.remove(0).value.and_then(|v| v.value)
}

#[test]
fn a_number_form_of_proto3_json_is_refused_or_bent() {
    for (json, want) in [
        ("\"18446744073709551615\"", u64::MAX),
        ("18446744073709551615", u64::MAX),
        ("9007199254740993", 9_007_199_254_740_993),
        ("\"1e3\"", 1000),
        ("1e3", 1000),
        ("42.0", 42),
        ("-0", 0),
    ] {
        assert_eq!(one(&format!(r#""startTimeUnixNano":{json}"#)).start_time_unix_nano, want, "{json}");
    }
    for bad in
        ["18446744073709551616", "\"18446744073709551616\"", "1.5", "-1", "\"x\"", "\"\"", "true", "{}"]
    {
        assert!(read(&span(&format!(r#""startTimeUnixNano":{bad}"#))).is_err(), "{bad}");
    }
    assert_eq!(value(r#"{"intValue":"25"}"#), Some(Any::IntValue(25)));
    assert_eq!(value(r#"{"intValue":-9223372036854775808}"#), Some(Any::IntValue(i64::MIN)));
    assert_eq!(value(r#"{"doubleValue":"1.5"}"#), Some(Any::DoubleValue(1.5)));
    assert_eq!(value(r#"{"doubleValue":3}"#), Some(Any::DoubleValue(3.0)));
    assert_eq!(value(r#"{"doubleValue":"-Infinity"}"#), Some(Any::DoubleValue(f64::NEG_INFINITY)));
    assert!(matches!(value(r#"{"doubleValue":"NaN"}"#), Some(Any::DoubleValue(d)) if d.is_nan()));
    assert_eq!(one(r#""droppedEventsCount":"7""#).dropped_events_count, 7);
}

#[test]
fn an_empty_or_unknown_value_fails_the_request() {
    for empty in ["{}", "null", r#"{"futureValue":[1,{"a":2}]}"#, r#"{"stringValue":null}"#] {
        assert_eq!(value(empty), None, "{empty}");
    }
    assert_eq!(value(r#"{"arrayValue":{}}"#), Some(Any::ArrayValue(Default::default())));
    assert_eq!(value(r#"{"kvlistValue":{}}"#), Some(Any::KvlistValue(Default::default())));
    let nulls = r#""parentSpanId":null,"endTimeUnixNano":null,"kind":null,"attributes":null,"status":null,"name":"n""#;
    assert_eq!(one(nulls).name, "n");
    for empty in ["", "{}", r#"{"resourceSpans":null}"#, r#"{"resourceSpans":[{}]}"#, "\u{feff}{}"] {
        assert!(read(empty).is_ok(), "{empty:?}");
    }
}

#[test]
fn an_id_is_taken_for_base64() {
    let upper = one(r#""traceId":"5B8EFFF798038103D269B633813FC60C","spanId":"eee19b7ec3c1b174""#);
    assert_eq!(hex::encode(upper.trace_id), "5b8efff798038103d269b633813fc60c");
    assert!(read(&span(r#""traceId":"W47/95gDgQPSabYzgT/GDA==""#)).is_err());
    assert_eq!(one(r#""traceId":"5b8e""#).trace_id.len(), 2, "the scan rejects this span alone");
}

#[test]
fn bytes_in_another_base64_are_refused() {
    for text in ["+/8=", "-_8=", "+/8", "-_8"] {
        assert_eq!(
            value(&format!(r#"{{"bytesValue":"{text}"}}"#)),
            Some(Any::BytesValue(vec![0xfb, 0xff])),
            "{text}"
        );
    }
}

#[test]
fn a_snake_case_key_or_an_unknown_one_loses_a_span() {
    let json = r#"{"resource_spans":[{"scope_spans":[{"spans":[{"trace_id":"00ff","start_time_unix_nano":"5","new":[[]]}]}]}]}"#;
    let request = read(json).unwrap();
    let span = &request.resource_spans[0].scope_spans[0].spans[0];
    assert_eq!((span.trace_id.as_slice(), span.start_time_unix_nano), (&[0, 0xff][..], 5));
}

#[test]
fn a_wrong_request_is_taken() {
    for bad in [
        "[]",
        "nonsense",
        "{",
        "{} trailing",
        r#"{"resourceSpans":{}}"#,
        r#"{"resourceSpans":[1]}"#,
        &span(r#""kind":"SPAN_KIND_CLIENT""#),
        &span(r#""name":"\ud800""#),
        &span(r#""name":5"#),
    ] {
        assert!(matches!(read(bad), Err(Error::Invalid(_))), "{bad}");
    }
    assert_eq!(one(r#""name":"a","name":"b""#).name, "b", "the last of repeated keys wins");
}

#[test]
fn a_deep_value_fails_its_request() {
    for (open, close) in [
        (r#"{"arrayValue":{"values":["#, "]}}"),
        (r#"{"kvlistValue":{"values":[{"key":"k","value":"#, "}]}}"),
    ] {
        for depth in [1, 31, 32, 40, 100, 5000] {
            let json = format!("{}{}{}", open.repeat(depth), r#"{"intValue":1}"#, close.repeat(depth));
            let mut value = value(&json).map(|v| AnyValue { value: Some(v) });
            let mut levels = 0;
            while let Some(inner) = value.take() {
                levels += 1;
                value = match inner.value {
                    Some(Any::ArrayValue(mut a)) => a.values.pop(),
                    Some(Any::KvlistValue(mut l)) => l.values.pop().and_then(|p| p.value),
                    Some(Any::IntValue(1)) => None,
                    Some(Any::BytesValue(raw)) => {
                        assert!(raw.starts_with(b"{"));
                        None
                    }
                    other => panic!("{other:?}"),
                };
            }
            assert_eq!(levels, if depth < 32 { depth + 1 } else { 34 }, "{depth}");
        }
    }
}

#[test]
fn a_flood_is_built_before_it_is_counted() {
    let flood =
        format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{}{{}}]}}]}}]}}"#, "{},".repeat(70_000));
    assert_eq!(read(&flood), Err(Error::TooLarge { limit: "otlp.spans_max", value: 65_536 }));
    assert!(read("{}").is_ok(), "the next request starts with a full budget");
}

/// Scenario: 3 MiB of the shortest attributes, which gzip makes 3 KiB of.
/// Guarantee: they are charged for what they take as structs, and a usual request for little.
#[test]
fn a_flood_in_json_is_charged_as_text() {
    let structs = limits().attributes_max * size_of::<opentelemetry_proto::tonic::common::v1::KeyValue>();
    assert!(memory_bytes(3 << 20, &limits()) > structs);
    assert!(memory_bytes(64 << 20, &limits()) < 384 << 20);
    assert!(memory_bytes(20 << 10, &limits()) < 4 << 20);
}

#[test]
fn metric_points_are_not_counted() {
    let json = r#"{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"m","sum":{"dataPoints":[{},{}]}},{"gauge":{"dataPoints":[{}]}}]}]}]}"#;
    assert_eq!(to_protobuf(Signal::Metrics, json.as_bytes(), &limits()).unwrap().1, 3);
    for empty in ["", "{}", r#"{"resourceMetrics":null}"#, "\u{feff}{}"] {
        assert_eq!(to_protobuf(Signal::Metrics, empty.as_bytes(), &limits()).unwrap().1, 0, "{empty:?}");
    }
    assert!(to_protobuf(Signal::Metrics, b"nonsense", &limits()).is_err());
}

/// Scenario: every capture that came as protobuf is written as JSON and read again.
/// Guarantee: the same request, to the bit.
#[test]
fn a_capture_changes_on_its_way_through_json() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures");
    let mut seen = 0;
    for scenario in std::fs::read_dir(folder).unwrap() {
        for file in std::fs::read_dir(scenario.unwrap().path()).into_iter().flatten() {
            let path = file.unwrap().path();
            let name = path.to_string_lossy().into_owned();
            let bytes = std::fs::read(&path).unwrap();
            if name.ends_with(".traces.pb") {
                let request = ExportTraceServiceRequest::decode(&bytes[..]).unwrap();
                assert_eq!(
                    decode_traces(encode_traces(&request).to_string().as_bytes(), &limits()).unwrap(),
                    request
                );
                seen += 1;
            } else if name.ends_with(".logs.pb") {
                let request = ExportLogsServiceRequest::decode(&bytes[..]).unwrap();
                assert_eq!(
                    decode_logs(encode_logs(&request).to_string().as_bytes(), &limits()).unwrap(),
                    request
                );
                seen += 1;
            }
        }
    }
    assert!(seen > 100);
}

proptest! {
    #[test]
    fn hostile_json_panics(text in "[\\[\\]{}\",:a-z0-9\\\\ ]{0,80}") {
        let _ = read(&text);
        let _ = read(&span(&text));
        let _ = read(&span(&format!(r#""attributes":[{{"key":"k","value":{text}}}]"#)));
    }
}
