use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValueList, any_value::Value as Any};
use proptest::prelude::*;

use super::*;
use crate::store::{parquet, schema::Table};

fn otlp_value() -> impl Strategy<Value = Option<AnyValue>> {
    let leaf = prop_oneof![
        Just(None),
        ".{0,6}".prop_map(|s| Some(Any::StringValue(s))),
        any::<bool>().prop_map(|b| Some(Any::BoolValue(b))),
        any::<i64>().prop_map(|n| Some(Any::IntValue(n))),
        any::<u64>().prop_map(|n| Some(Any::DoubleValue(f64::from_bits(n)))),
        prop::collection::vec(any::<u8>(), 0..5).prop_map(|b| Some(Any::BytesValue(b))),
    ]
    .prop_map(|value| Some(AnyValue { value }));
    prop_oneof![1 => Just(None), 9 => leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(|values| {
                let values = values.into_iter().map(Option::unwrap_or_default).collect();
                Some(AnyValue { value: Some(Any::ArrayValue(ArrayValue { values })) })
            }),
            prop::collection::vec(("[$a-b]{0,2}", inner), 0..3).prop_map(|list| {
                let values = list.into_iter().map(|(key, value)| KeyValue { key, value, key_strindex: 0 }).collect();
                Some(AnyValue { value: Some(Any::KvlistValue(KeyValueList { values })) })
            }),
        ]
    })]
}

fn list() -> impl Strategy<Value = Vec<KeyValue>> {
    // Keys repeat, and a key may come with a reference into a table that no receiver has.
    let pair = ("[$a-c]{0,1}", otlp_value(), prop_oneof![4 => Just(0), 1 => 1..3_i32]);
    let pair = pair.prop_map(|(key, value, key_strindex)| KeyValue { key, value, key_strindex });
    prop::collection::vec(pair, 0..6)
}

fn record() -> impl Strategy<Value = Record> {
    let id = || prop::collection::vec(any::<u8>(), 0..17);
    (
        list(),
        list(),
        list(),
        id(),
        id(),
        any::<u64>(),
        any::<u64>(),
        any::<u32>(),
        otlp_value(),
        any::<bool>(),
    )
        .prop_map(
            |(attributes, of_event, of_resource, trace_id, span_id, start, end, count, body, is_span)| {
                let event = Event { time_unix_nano: end, attributes: of_event, ..Event::default() };
                let link = Link { trace_id: span_id.clone(), flags: count, ..Link::default() };
                let body = if is_span {
                    Body::Span(Span {
                        trace_id,
                        span_id,
                        start_time_unix_nano: start,
                        end_time_unix_nano: end,
                        attributes,
                        events: vec![event],
                        links: vec![link],
                        dropped_links_count: count,
                        status: (count % 2 == 0).then(Status::default),
                        ..Span::default()
                    })
                } else {
                    Body::Log(LogRecord {
                        trace_id,
                        time_unix_nano: start,
                        attributes,
                        body,
                        ..LogRecord::default()
                    })
                };
                let resource = Resource { attributes: of_resource, ..Resource::default() };
                let scope = (count % 3 == 0).then(InstrumentationScope::default);
                Record::new(
                    body,
                    Arc::new(Origin { resource: resource.into(), scope, ..Origin::default() }),
                    end,
                    start,
                )
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_record_comes_back_from_a_data_file_as_it_was_sent(records in prop::collection::vec(record(), 1..6)) {
        let tenant = TenantId::embedded();
        let rows: Vec<SpanRow> = records.iter().map(|r| SpanRow::new(&tenant, r)).collect();
        let file = parquet::write(Table::Spans, &rows).unwrap();
        let back: Vec<SpanRow> = parquet::read(file.into(), "trace_id", None).unwrap();
        prop_assert_eq!(back.len(), rows.len());
        for (row, record) in back.iter().zip(&records) {
            let back = row.to_record().unwrap();
            // The stored hash is believed; what it names must be there too.
            let read = Record::new(back.body.clone(), back.origin.clone(), 0, 0);
            prop_assert_eq!((back.hash, read.hash), (record.hash, record.hash));
            prop_assert_eq!((back.received_at, back.seq), (record.received_at, record.seq));
        }
    }
}
