//! JSON objects -> the messages of OTLP, streamed: nothing is built that the counts do not allow.

use std::{borrow::Cow, cell::Cell, fmt, marker::PhantomData};

use opentelemetry_proto::tonic::{
    collector::{logs::v1::ExportLogsServiceRequest, trace::v1::ExportTraceServiceRequest},
    common::v1::{
        AnyValue, ArrayValue, EntityRef, InstrumentationScope, KeyValue, KeyValueList,
        any_value::Value as Any,
    },
    logs::v1::{LogRecord, ResourceLogs, ScopeLogs},
    resource::v1::Resource,
    trace::v1::{ResourceSpans, ScopeSpans, Span, Status, span},
};
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use super::scalar::{Base64, Double, Hex, Int};
use crate::otlp::{Error, scan::DEPTH_MAX, scan::Limits, splice};

thread_local! {
    // `Deserialize` takes no context: what one request may still build, and how deep its values stand, ride here.
    static BUDGET: Cell<Budget> = const { Cell::new(Budget { spans: 0, attributes: 0, events: 0, depth: 0 }) };
}

#[derive(Clone, Copy)]
struct Budget {
    spans: usize,
    attributes: usize,
    events: usize,
    depth: u32,
}

/// Reads a whole request under `limits`.
pub(super) fn decode<'a, T: Deserialize<'a>>(json: &'a [u8], limits: &Limits) -> Result<T, Error> {
    BUDGET.set(Budget {
        spans: limits.spans_max,
        attributes: limits.attributes_max,
        events: limits.events_max,
        depth: 0,
    });
    // A byte order mark is not JSON, but some writers put one there.
    let json = json.strip_prefix(b"\xef\xbb\xbf").unwrap_or(json);
    let json = if json.trim_ascii().is_empty() { b"{}" } else { json };
    serde_json::from_slice(json).map_err(|error| {
        let left = BUDGET.get();
        let over = |limit, value| Error::TooLarge { limit, value };
        match (left.spans, left.attributes, left.events) {
            (usize::MAX, _, _) => over("otlp.spans_max", limits.spans_max),
            (_, usize::MAX, _) => over("otlp.attributes_max", limits.attributes_max),
            (_, _, usize::MAX) => over("otlp.events_max", limits.events_max),
            _ => super::invalid(error),
        }
    })
}

/// Takes one from a counter; past its end the counter stays at `MAX`, which tells the refusal's reason.
fn spend<E: serde::de::Error>(counter: impl Fn(&mut Budget) -> Option<&mut usize>) -> Result<(), E> {
    let mut budget = BUDGET.get();
    let Some(left) = counter(&mut budget) else { return Ok(()) };
    *left = left.wrapping_sub(1);
    let over = *left == usize::MAX;
    BUDGET.set(budget);
    if over { Err(E::custom("over a limit")) } else { Ok(()) }
}

/// A message with the count that it takes from the budget.
trait Counted {
    fn counter(_: &mut Budget) -> Option<&mut usize> {
        None
    }
}

/// A JSON array; `null` members are skipped.
struct List<T>(Vec<T>);

impl<'de, T: Deserialize<'de> + Counted> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Items<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de> + Counted> Visitor<'de> for Items<T> {
            type Value = List<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<List<T>, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = items.next_element::<Option<T>>()? {
                    spend::<A::Error>(T::counter)?;
                    list.extend(item);
                }
                Ok(List(list))
            }
        }
        deserializer.deserialize_seq(Items(PhantomData))
    }
}

impl<T, M: From<T>> From<List<T>> for Unwrapped<Vec<M>> {
    fn from(list: List<T>) -> Self {
        Self(list.0.into_iter().map(M::from).collect())
    }
}

/// What a wrapper holds, as the field of a message takes it.
struct Unwrapped<T>(T);

macro_rules! unwrap_into {
    ($($wrapper:ty => $field:ty: $from:expr;)*) => {$(
        impl From<$wrapper> for Unwrapped<$field> {
            fn from(wrapper: $wrapper) -> Self {
                let convert: fn($wrapper) -> $field = $from;
                Self(convert(wrapper))
            }
        }
    )*};
}

unwrap_into! {
    String => String: |s| s;
    Hex => Vec<u8>: |h| h.0;
    Int<u64> => u64: |i| i.0;
    Int<i64> => i64: |i| i.0;
    Int<u32> => u32: |i| i.0;
    Int<i32> => i32: |i| i.0;
}

/// Declares a message: its JSON keys (and their aliases), its fields, and how each is read.
macro_rules! messages {
    ($($name:ident($message:ty) $(counts $counter:ident)? { $($key:literal $(| $alias:literal)? => $field:ident: $read:ty),* $(,)? })*) => {$(
        pub(super) struct $name(pub(super) $message);

        impl From<$name> for $message {
            fn from(message: $name) -> Self {
                message.0
            }
        }

        impl From<$name> for Unwrapped<Option<$message>> {
            fn from(message: $name) -> Self {
                Self(Some(message.0))
            }
        }

        impl Counted for $name {
            $(fn counter(budget: &mut Budget) -> Option<&mut usize> {
                Some(&mut budget.$counter)
            })?
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Object;
                impl<'de> Visitor<'de> for Object {
                    type Value = $name;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str(concat!("a ", stringify!($name), " object"))
                    }

                    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<$name, A::Error> {
                        let mut message = <$message>::default();
                        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
                            match &*key {
                                $($key $(| $alias)? => {
                                    if let Some(value) = map.next_value::<Option<$read>>()? {
                                        message.$field = Unwrapped::from(value).0;
                                    }
                                })*
                                _ => drop(map.next_value::<IgnoredAny>()?),
                            }
                        }
                        Ok($name(message))
                    }
                }
                deserializer.deserialize_map(Object)
            }
        }
    )*};
}

messages! {
    Traces(ExportTraceServiceRequest) { "resourceSpans" | "resource_spans" => resource_spans: List<ResourceSpansEntry> }
    ResourceSpansEntry(ResourceSpans) counts events {
        "resource" => resource: ResourceObject,
        "scopeSpans" | "scope_spans" => scope_spans: List<ScopeSpansEntry>,
        "schemaUrl" | "schema_url" => schema_url: String,
    }
    ScopeSpansEntry(ScopeSpans) counts events {
        "scope" => scope: Scope,
        "spans" => spans: List<SpanObject>,
        "schemaUrl" | "schema_url" => schema_url: String,
    }
    ResourceObject(Resource) {
        "attributes" => attributes: List<Pair>,
        "droppedAttributesCount" | "dropped_attributes_count" => dropped_attributes_count: Int<u32>,
        "entityRefs" | "entity_refs" => entity_refs: List<Entity>,
    }
    Entity(EntityRef) counts attributes {
        "schemaUrl" | "schema_url" => schema_url: String,
        "type" => r#type: String,
        "idKeys" | "id_keys" => id_keys: List<Text>,
        "descriptionKeys" | "description_keys" => description_keys: List<Text>,
    }
    Scope(InstrumentationScope) {
        "name" => name: String,
        "version" => version: String,
        "attributes" => attributes: List<Pair>,
        "droppedAttributesCount" | "dropped_attributes_count" => dropped_attributes_count: Int<u32>,
    }
    SpanObject(Span) counts spans {
        "traceId" | "trace_id" => trace_id: Hex,
        "spanId" | "span_id" => span_id: Hex,
        "traceState" | "trace_state" => trace_state: String,
        "parentSpanId" | "parent_span_id" => parent_span_id: Hex,
        "flags" => flags: Int<u32>,
        "name" => name: String,
        "kind" => kind: Enum,
        "startTimeUnixNano" | "start_time_unix_nano" => start_time_unix_nano: Int<u64>,
        "endTimeUnixNano" | "end_time_unix_nano" => end_time_unix_nano: Int<u64>,
        "attributes" => attributes: List<Pair>,
        "droppedAttributesCount" | "dropped_attributes_count" => dropped_attributes_count: Int<u32>,
        "events" => events: List<Event>,
        "droppedEventsCount" | "dropped_events_count" => dropped_events_count: Int<u32>,
        "links" => links: List<Link>,
        "droppedLinksCount" | "dropped_links_count" => dropped_links_count: Int<u32>,
        "status" => status: StatusObject,
    }
    Event(span::Event) counts events {
        "timeUnixNano" | "time_unix_nano" => time_unix_nano: Int<u64>,
        "name" => name: String,
        "attributes" => attributes: List<Pair>,
        "droppedAttributesCount" | "dropped_attributes_count" => dropped_attributes_count: Int<u32>,
    }
    Link(span::Link) counts events {
        "traceId" | "trace_id" => trace_id: Hex,
        "spanId" | "span_id" => span_id: Hex,
        "traceState" | "trace_state" => trace_state: String,
        "attributes" => attributes: List<Pair>,
        "droppedAttributesCount" | "dropped_attributes_count" => dropped_attributes_count: Int<u32>,
        "flags" => flags: Int<u32>,
    }
    StatusObject(Status) { "message" => message: String, "code" => code: Enum }
    Logs(ExportLogsServiceRequest) { "resourceLogs" | "resource_logs" => resource_logs: List<ResourceLogsEntry> }
    ResourceLogsEntry(ResourceLogs) counts events {
        "resource" => resource: ResourceObject,
        "scopeLogs" | "scope_logs" => scope_logs: List<ScopeLogsEntry>,
        "schemaUrl" | "schema_url" => schema_url: String,
    }
    ScopeLogsEntry(ScopeLogs) counts events {
        "scope" => scope: Scope,
        "logRecords" | "log_records" => log_records: List<LogObject>,
        "schemaUrl" | "schema_url" => schema_url: String,
    }
    LogObject(LogRecord) counts spans {
        "timeUnixNano" | "time_unix_nano" => time_unix_nano: Int<u64>,
        "observedTimeUnixNano" | "observed_time_unix_nano" => observed_time_unix_nano: Int<u64>,
        "severityNumber" | "severity_number" => severity_number: Enum,
        "severityText" | "severity_text" => severity_text: String,
        "body" => body: AnyObject,
        "attributes" => attributes: List<Pair>,
        "droppedAttributesCount" | "dropped_attributes_count" => dropped_attributes_count: Int<u32>,
        "flags" => flags: Int<u32>,
        "traceId" | "trace_id" => trace_id: Hex,
        "spanId" | "span_id" => span_id: Hex,
        "eventName" | "event_name" => event_name: String,
    }
    Pair(KeyValue) counts attributes { "key" => key: String, "value" => value: AnyObject }
    Array(ArrayValue) { "values" => values: List<AnyObject> }
    Pairs(KeyValueList) { "values" => values: List<Pair> }
}

#[derive(Deserialize)]
#[serde(transparent)]
struct Text(String);

impl Counted for Text {
    fn counter(budget: &mut Budget) -> Option<&mut usize> {
        Some(&mut budget.attributes)
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        text.0
    }
}

/// An enum: an integer. A name is refused.
struct Enum(i32);

impl<'de> Deserialize<'de> for Enum {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = serde_json::Number::deserialize(deserializer)?;
        let whole = number.as_i64().and_then(|n| i32::try_from(n).ok());
        whole.map(Self).ok_or_else(|| D::Error::custom("an enum must be an integer"))
    }
}

unwrap_into! { Enum => i32: |e| e.0; }

/// A value; one that stands too deep is kept as the bytes of its JSON.
struct AnyObject(AnyValue);

impl From<AnyObject> for AnyValue {
    fn from(value: AnyObject) -> Self {
        value.0
    }
}

unwrap_into! { AnyObject => Option<AnyValue>: |v| Some(v.0); }

impl Counted for AnyObject {
    fn counter(budget: &mut Budget) -> Option<&mut usize> {
        Some(&mut budget.attributes)
    }
}

impl<'de> Deserialize<'de> for AnyObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut budget = BUDGET.get();
        budget.depth += 1;
        BUDGET.set(budget);
        let depth = budget.depth;
        let value = if depth > DEPTH_MAX {
            let raw = <&RawValue>::deserialize(deserializer);
            raw.map(|raw| splice::opaque(raw.get().as_bytes()))
        } else if depth.is_multiple_of(8) {
            // The parser's own limit on recursion begins anew; without this it refuses the request at depth 30.
            let raw = <&RawValue>::deserialize(deserializer);
            raw.and_then(|raw| {
                let mut inner = serde_json::Deserializer::from_str(raw.get());
                inner.deserialize_map(AnyVisitor).map_err(D::Error::custom)
            })
        } else {
            deserializer.deserialize_map(AnyVisitor)
        };
        let mut budget = BUDGET.get();
        budget.depth -= 1;
        BUDGET.set(budget);
        value.map(AnyObject)
    }
}

struct AnyVisitor;

impl<'de> Visitor<'de> for AnyVisitor {
    type Value = AnyValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an AnyValue object, as {\"stringValue\":\"...\"}")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<AnyValue, A::Error> {
        let mut value = None;
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            let read = match &*key {
                "stringValue" | "string_value" => map.next_value::<Option<String>>()?.map(Any::StringValue),
                "boolValue" | "bool_value" => map.next_value::<Option<bool>>()?.map(Any::BoolValue),
                "intValue" | "int_value" => map.next_value::<Option<Int<i64>>>()?.map(|i| Any::IntValue(i.0)),
                "doubleValue" | "double_value" => {
                    map.next_value::<Option<Double>>()?.map(|d| Any::DoubleValue(d.0))
                }
                "bytesValue" | "bytes_value" => {
                    map.next_value::<Option<Base64>>()?.map(|b| Any::BytesValue(b.0))
                }
                "arrayValue" | "array_value" => {
                    map.next_value::<Option<Array>>()?.map(|a| Any::ArrayValue(a.0))
                }
                "kvlistValue" | "kvlist_value" => {
                    map.next_value::<Option<Pairs>>()?.map(|p| Any::KvlistValue(p.0))
                }
                _ => {
                    let IgnoredAny = map.next_value()?;
                    None
                }
            };
            value = read.or(value);
        }
        Ok(AnyValue { value })
    }
}

/// The number of data points in a metrics request. Nothing is kept: metrics are counted and discarded.
pub(super) fn metric_points(json: &[u8]) -> serde_json::Result<u64> {
    struct Points(u64);
    struct Items(u64);
    struct Any;

    impl<'de> Visitor<'de> for Any {
        type Value = Points;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a metrics request")
        }

        fn visit_unit<E: serde::de::Error>(self) -> Result<Points, E> {
            Ok(Points(0))
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Points, A::Error> {
            let mut points = 0;
            while let Some(Points(more)) = items.next_element()? {
                points += more;
            }
            Ok(Points(points))
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Points, A::Error> {
            let mut points = 0;
            while let Some(key) = map.next_key::<Cow<'de, str>>()? {
                points += match &*key {
                    "dataPoints" | "data_points" => {
                        map.next_value::<Option<Items>>()?.map_or(0, |items| items.0)
                    }
                    "resourceMetrics"
                    | "resource_metrics"
                    | "scopeMetrics"
                    | "scope_metrics"
                    | "metrics"
                    | "gauge"
                    | "sum"
                    | "histogram"
                    | "exponentialHistogram"
                    | "exponential_histogram"
                    | "summary" => map.next_value::<Points>()?.0,
                    _ => {
                        let IgnoredAny = map.next_value()?;
                        0
                    }
                };
            }
            Ok(Points(points))
        }
    }

    impl<'de> Deserialize<'de> for Points {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_any(Any)
        }
    }

    impl<'de> Deserialize<'de> for Items {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Count;
            impl<'de> Visitor<'de> for Count {
                type Value = Items;

                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("an array of data points")
                }

                fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Items, A::Error> {
                    let mut count = 0;
                    while let Some(IgnoredAny) = items.next_element()? {
                        count += 1;
                    }
                    Ok(Items(count))
                }
            }
            deserializer.deserialize_seq(Count)
        }
    }

    let json = json.strip_prefix(b"\xef\xbb\xbf").unwrap_or(json);
    let json = if json.trim_ascii().is_empty() { b"{}" } else { json };
    serde_json::from_slice::<Points>(json).map(|points| points.0)
}
