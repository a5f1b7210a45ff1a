use opentelemetry_proto::tonic::{
    common::v1::{AnyValue, ArrayValue, KeyValue, KeyValueList, any_value::Value},
    trace::v1::{Status, span},
};

use super::*;

fn pair(key: &str, value: Option<AnyValue>) -> KeyValue {
    KeyValue { key: key.into(), value, ..KeyValue::default() }
}

fn nested(empty: &Option<AnyValue>) -> KeyValue {
    let list = Value::KvlistValue(KeyValueList { values: vec![pair("inner", empty.clone())] });
    let array = Value::ArrayValue(ArrayValue { values: vec![AnyValue { value: Some(list) }] });
    pair("outer", Some(AnyValue { value: Some(array) }))
}

/// Scenario: one log record and one span, with what is empty left out, and written as an empty message, as a collector
/// writes it.
/// Guarantee: they are the same records, so that what came both ways is there once.
#[test]
fn what_passed_a_collector_is_another_record() {
    let hashes = [None, Some(AnyValue::default())].map(|empty| {
        let attributes = vec![pair("none", empty.clone()), nested(&empty)];
        let resource = Resource { attributes: attributes.clone(), ..Resource::default() };
        let scope =
            InstrumentationScope { attributes: attributes.clone(), ..InstrumentationScope::default() };
        let origin = Origin { resource: resource.into(), scope: Some(scope), ..Origin::default() };
        let log = LogRecord { body: empty.clone(), attributes: attributes.clone(), ..LogRecord::default() };
        let event = span::Event { attributes: attributes.clone(), ..span::Event::default() };
        let link = span::Link { attributes: attributes.clone(), ..span::Link::default() };
        let status = empty.is_some().then(Status::default);
        let span = Span { attributes, events: vec![event], links: vec![link], status, ..Span::default() };
        let origin = Arc::new(origin);
        [Body::Log(log), Body::Span(span)].map(|body| Record::new(body, origin.clone(), 0, 0).hash)
    });
    assert_eq!(hashes[0], hashes[1]);
}

/// Scenario: a double that is no number, with the bits that a division by zero leaves and with those that JSON gives back.
/// Guarantee: they are the same record; a number is another.
#[test]
fn what_is_no_number_is_another_record_after_json() {
    let hash = |number: f64| {
        let value = Some(AnyValue { value: Some(Value::DoubleValue(number)) });
        let log = LogRecord { attributes: vec![pair("k", value)], ..LogRecord::default() };
        Record::new(Body::Log(log), Arc::default(), 0, 0).hash
    };
    assert_eq!(hash(f64::from_bits(0xfff8_0000_0000_0000)), hash(f64::NAN));
    assert_ne!(hash(0.0), hash(f64::NAN));
}

/// Scenario: a value that is an empty text, beside one that is nothing.
/// Guarantee: they are different records.
#[test]
fn an_empty_text_passes_for_nothing() {
    let hash = |value| {
        let log = LogRecord { attributes: vec![pair("k", value)], ..LogRecord::default() };
        Record::new(Body::Log(log), Arc::default(), 0, 0).hash
    };
    assert_ne!(hash(None), hash(Some(AnyValue { value: Some(Value::StringValue(String::new())) })));
}
