use opentelemetry_proto::tonic::{
    collector::{logs::v1::ExportLogsServiceRequest, trace::v1::ExportTraceServiceRequest},
    common::v1::{AnyValue, ArrayValue, KeyValue, KeyValueList, any_value::Value as Any},
    logs::v1::{LogRecord, ResourceLogs, ScopeLogs},
    resource::v1::Resource,
    trace::v1::{ResourceSpans, ScopeSpans, Span, Status, span},
};
use proptest::prelude::*;
use prost::Message as _;

use super::*;

fn limits() -> Limits {
    Limits::from(&Settings::default())
}

fn tenant() -> TenantId {
    TenantId::embedded()
}

fn text(value: &str) -> AnyValue {
    AnyValue { value: Some(Any::StringValue(value.into())) }
}

fn pair(key: &str, value: AnyValue) -> KeyValue {
    KeyValue { key: key.into(), value: Some(value), ..KeyValue::default() }
}

fn span(trace: &[u8], id: &[u8]) -> Span {
    Span { trace_id: trace.into(), span_id: id.into(), name: "s".into(), ..Span::default() }
}

fn request(spans: Vec<Span>) -> ExportTraceServiceRequest {
    let scope_spans = vec![ScopeSpans { spans, ..ScopeSpans::default() }];
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans { scope_spans, ..ResourceSpans::default() }],
    }
}

fn admit_traces(request: &ExportTraceServiceRequest) -> (ExportTraceServiceRequest, Counts) {
    let (bytes, counts) =
        admit(Signal::Traces, request.encode_to_vec().into(), &limits(), &tenant()).unwrap();
    (ExportTraceServiceRequest::decode(bytes).unwrap(), counts)
}

#[test]
fn a_span_with_bad_ids_takes_its_neighbours_along_or_stays() {
    let good = span(&[1; 16], &[2; 8]);
    let bad = [span(&[], &[2; 8]), span(&[1; 15], &[2; 8]), span(&[0; 16], &[2; 8]), span(&[1; 16], &[0; 8])];
    let mut spans = bad.to_vec();
    spans.insert(2, good.clone());
    let (kept, counts) = admit_traces(&request(spans));
    assert_eq!(kept, request(vec![good]));
    assert_eq!((counts.records, counts.rejected), (5, 4));
    assert!(counts.message(Signal::Traces).starts_with("4 spans rejected"));
}

/// Scenario: one resource comes in two fields, the second of them empty, over thousands of scopes.
/// Guarantee: what the decoder makes of it is counted before it is made.
#[test]
fn a_resource_in_two_parts_hides_how_much_it_grows() {
    let mut large = Resource::default();
    large.attributes.push(pair("a", text(&"x".repeat(1 << 20))));
    let field = |tag: u8, inner: &[u8]| {
        let mut bytes = vec![tag];
        prost::encoding::encode_varint(inner.len() as u64, &mut bytes);
        bytes.extend_from_slice(inner);
        bytes
    };
    let scope = ScopeSpans { spans: vec![span(&[1; 16], &[2; 8])], ..ScopeSpans::default() }.encode_to_vec();
    let mut entry = [field(0x0a, &large.encode_to_vec()), field(0x0a, &[])].concat();
    entry.extend(std::iter::repeat_n(field(0x12, &scope), 4096).flatten());
    let refused = admit(Signal::Traces, field(0x0a, &entry).into(), &limits(), &tenant());
    assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
}

#[test]
fn a_span_of_another_tenant_is_kept() {
    let mut foreign = span(&[1; 16], &[3; 8]);
    foreign.attributes.push(pair("eai.tenant_id", text("other")));
    let mut own = span(&[1; 16], &[2; 8]);
    own.attributes.push(pair("eai.tenant_id", text("default")));
    let (kept, counts) = admit_traces(&request(vec![foreign, own.clone()]));
    assert_eq!(kept, request(vec![own.clone()]));
    assert_eq!((counts.rejected, counts.foreign), (1, 1));

    // Anything but one plain string is as good as another tenant.
    let twice = AnyValue { value: Some(Any::StringValue("default".into())) };
    let mut bytes = twice.encode_to_vec();
    bytes.extend(AnyValue { value: Some(Any::StringValue("other".into())) }.encode_to_vec());
    for value in [Some(AnyValue { value: Some(Any::BytesValue(b"default".to_vec())) }), None] {
        let mut odd = own.clone();
        odd.attributes.retain(|a| a.key != "eai.tenant_id");
        odd.attributes.push(KeyValue { key: "eai.tenant_id".into(), value, ..KeyValue::default() });
        assert_eq!(admit_traces(&request(vec![odd])).1.foreign, 1);
    }
    assert_eq!(only(&bytes, 1), None);

    let mut whole = request(vec![own]);
    let attributes = vec![pair("eai.tenant_id", text("other"))];
    whole.resource_spans[0].resource = Some(Resource { attributes, ..Resource::default() });
    let (kept, counts) = admit_traces(&whole);
    assert!(kept.resource_spans.is_empty());
    assert_eq!((counts.records, counts.rejected, counts.foreign), (1, 1, 1));
}

fn nested(levels: u32, list: bool) -> AnyValue {
    (0..levels).fold(text("leaf"), |inner, _| AnyValue {
        value: Some(if list {
            Any::KvlistValue(KeyValueList { values: vec![pair("k", inner)] })
        } else {
            Any::ArrayValue(ArrayValue { values: vec![inner] })
        }),
    })
}

#[test]
fn a_deep_value_fails_its_request() {
    for list in [false, true] {
        for levels in [1, 20, 29, 32, 33, 40, 200, 500] {
            let mut deep = span(&[1; 16], &[2; 8]);
            deep.attributes = vec![pair("a", nested(levels, list)), pair("b", text("kept"))];
            deep.events = vec![span::Event { attributes: deep.attributes.clone(), ..span::Event::default() }];
            let (kept, counts) = admit_traces(&request(vec![deep.clone()]));
            let kept = &kept.resource_spans[0].scope_spans[0].spans[0];
            assert_eq!(kept.attributes[1], deep.attributes[1]);
            // A list of pairs takes three messages a level, and prost follows 100 messages.
            let whole = levels < if list { 30 } else { 32 };
            assert_eq!(kept.attributes[0] == deep.attributes[0], whole, "{levels} {list}");
            assert_eq!(counts.deep, if whole { 0 } else { 2 });
        }
    }
}

/// Scenario: 64 MiB of empty spans, which gzip to 64 KiB and decode to gigabytes.
/// Guarantee: refused by count, before anything is built.
#[test]
fn a_flood_of_empty_messages_is_decoded() {
    let flood = |tag: u8, wrap: &[u8]| {
        let mut inner = [tag, 0].repeat(2 << 20);
        for outer in wrap {
            let mut next = vec![*outer];
            prost::encoding::encode_varint(inner.len() as u64, &mut next);
            next.extend(inner);
            inner = next;
        }
        inner
    };
    for (tag, wrap) in [(0x0a, &[][..]), (0x12, &[0x0a]), (0x12, &[0x12, 0x0a]), (0x4a, &[0x12, 0x12, 0x0a])]
    {
        let refused = admit(Signal::Traces, flood(tag, wrap).into(), &limits(), &tenant());
        assert!(matches!(refused, Err(Error::TooLarge { .. })), "{tag:x} {wrap:x?}: {refused:?}");
    }
}

/// Scenario: a large resource with many scopes, each with a span: small on the wire, terabytes once decoded.
/// Guarantee: refused, since each scope and each record has the resource beside it.
#[test]
fn a_resource_is_multiplied_by_its_scopes() {
    let mut wide = request(vec![]);
    let attributes = vec![pair("k", text(&"x".repeat(1 << 20)))];
    wide.resource_spans[0].resource = Some(Resource { attributes, ..Resource::default() });
    let scope = ScopeSpans { spans: vec![span(&[1; 16], &[2; 8])], ..ScopeSpans::default() };
    wide.resource_spans[0].scope_spans = vec![scope; 2000];
    let refused = admit(Signal::Traces, wide.encode_to_vec().into(), &limits(), &tenant());
    assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
}

#[test]
fn an_empty_request_is_refused() {
    for empty in [vec![], vec![0x0a, 0], vec![0x0a, 2, 0x12, 0]] {
        let (_, counts) = admit(Signal::Traces, empty.into(), &limits(), &tenant()).unwrap();
        assert_eq!(counts.kept(), 0);
    }
}

#[test]
fn a_log_record_outside_any_trace_is_rejected() {
    let record = |trace: &[u8]| LogRecord { trace_id: trace.into(), ..LogRecord::default() };
    let log_records = vec![record(&[]), record(&[0; 16]), record(&[1; 3]), record(&[0; 3]), record(&[0; 40])];
    let scope_logs = vec![ScopeLogs { log_records, ..ScopeLogs::default() }];
    let resource_logs = vec![ResourceLogs { scope_logs, ..ResourceLogs::default() }];
    let bytes = ExportLogsServiceRequest { resource_logs }.encode_to_vec();
    let (_, counts) = admit(Signal::Logs, bytes.into(), &limits(), &tenant()).unwrap();
    // Zeros in another length than that of an id are no id, and no absence of one.
    assert_eq!((counts.records, counts.rejected), (5, 3));
}

fn sample() -> Vec<u8> {
    let mut one = span(&[1; 16], &[2; 8]);
    one.attributes = vec![pair("a", nested(3, true)), pair("b", nested(2, false))];
    one.status = Some(Status { message: "m".into(), code: 2 });
    one.events = vec![span::Event { name: "e".into(), ..span::Event::default() }];
    one.links = vec![span::Link { trace_id: vec![1; 16], ..span::Link::default() }];
    request(vec![one, span(&[], &[]), span(&[3; 16], &[4; 8])]).encode_to_vec()
}

proptest! {
    /// Scenario: a valid request with bytes changed, cut or inserted.
    /// Guarantee: what the scan admits always decodes; there is no panic.
    #[test]
    fn bytes_that_were_admitted_do_not_decode(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 0..6)
    ) {
        let mut bytes = sample();
        for (place, byte, edit) in edits {
            let place = place.index(bytes.len().max(1));
            match edit {
                0 if place < bytes.len() => bytes[place] = byte,
                1 => bytes.insert(place.min(bytes.len()), byte),
                _ => bytes.truncate(place.max(1)),
            }
        }
        if let Ok((bytes, counts)) = admit(Signal::Traces, bytes.into(), &limits(), &tenant()) {
            let decoded = ExportTraceServiceRequest::decode(bytes).unwrap();
            let spans = decoded.resource_spans.iter().flat_map(|r| &r.scope_spans).map(|s| s.spans.len() as u64);
            prop_assert_eq!(spans.sum::<u64>(), counts.kept());
        }
    }

    #[test]
    fn random_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for signal in [Signal::Traces, Signal::Logs, Signal::Metrics] {
            let _ = admit(signal, bytes.clone().into(), &limits(), &tenant());
        }
    }
}
