//! The content hash of a record: BLAKE3 over its parts, each with its length before it.
//!
//! Attribute order is not content: attributes are taken by their keys (stably, so repeated keys keep theirs). Nothing
//! is copied for that, since one record may be as large as a request: the encoding is hashed piece by piece, and
//! texts where they are.

use std::mem::take;

use blake3::Hasher;
use opentelemetry_proto::tonic::{
    common::v1::{AnyValue, KeyValue, any_value::Value},
    logs::v1::LogRecord,
    resource::v1::Resource,
    trace::v1::{Span, Status},
};
use prost::{
    Message,
    encoding::{WireType, encode_key, encode_varint, encoded_len_varint, int32, message, string, uint32},
};

use super::{Body, Origin, RecordHash};

/// Resource and scope.
pub(super) fn seed(origin: &Origin) -> Hasher {
    let attributes = |origin: &Origin| {
        let scope = origin.scope.as_ref().map(|scope| scope.attributes.as_slice());
        is_plain(&origin.resource.attributes) && scope.is_none_or(is_plain)
    };
    if attributes(origin) {
        return seed_of_plain(origin);
    }
    let mut resource = Resource::clone(&origin.resource);
    make_plain(&mut resource.attributes);
    let mut scope = origin.scope.clone();
    scope.iter_mut().for_each(|scope| make_plain(&mut scope.attributes));
    seed_of_plain(&Origin { resource: resource.into(), scope, ..origin.clone() })
}

fn seed_of_plain(origin: &Origin) -> Hasher {
    let mut parts = Parts::default();
    let resource = &origin.resource;
    parts.begin(resource.encoded_len());
    parts.attributes(1, &resource.attributes);
    parts.piece(|buffer| {
        if resource.dropped_attributes_count != 0 {
            uint32::encode(2, &resource.dropped_attributes_count, buffer);
        }
    });
    for entity in &resource.entity_refs {
        parts.piece(|buffer| message::encode(3, entity, buffer));
    }
    parts.whole(origin.resource_schema_url.as_bytes());
    let none = Default::default();
    let scope = origin.scope.as_ref().unwrap_or(&none);
    parts.begin(scope.encoded_len());
    parts.piece(|buffer| {
        if !scope.name.is_empty() {
            string::encode(1, &scope.name, buffer);
        }
        if !scope.version.is_empty() {
            string::encode(2, &scope.version, buffer);
        }
    });
    parts.attributes(3, &scope.attributes);
    parts.piece(|buffer| {
        if scope.dropped_attributes_count != 0 {
            uint32::encode(4, &scope.dropped_attributes_count, buffer);
        }
    });
    parts.whole(origin.scope_schema_url.as_bytes());
    parts.hasher
}

/// The record, after its [`seed`]. The body is the same afterwards.
pub(super) fn of(body: &mut Body, seed: Hasher) -> RecordHash {
    match without_empties(body) {
        Some(mut plain) => of_plain(&mut plain, seed),
        None => of_plain(body, seed),
    }
}

/// A copy without what is empty; `None` when nothing is. An empty value or status is the same as none: a collector
/// writes one where a sender wrote none.
fn without_empties(body: &Body) -> Option<Body> {
    match body {
        Body::Span(span) => {
            let lists = || {
                let events = span.events.iter().map(|event| event.attributes.as_slice());
                let links = span.links.iter().map(|link| link.attributes.as_slice());
                events.chain(links).chain([span.attributes.as_slice()])
            };
            if lists().all(is_plain) && span.status.as_ref().is_none_or(|status| *status != Status::default())
            {
                return None;
            }
            let mut span = span.clone();
            make_plain(&mut span.attributes);
            span.events.iter_mut().for_each(|event| make_plain(&mut event.attributes));
            span.links.iter_mut().for_each(|link| make_plain(&mut link.attributes));
            let _ = span.status.take_if(|status| *status == Status::default());
            Some(Body::Span(span))
        }
        Body::Log(log) => {
            if is_plain(&log.attributes) && log.body.as_ref().is_none_or(is_plain_value) {
                return None;
            }
            let mut log = log.clone();
            make_plain(&mut log.attributes);
            let _ = log.body.take_if(holds_nothing);
            Some(Body::Log(log))
        }
        Body::Checkpoint(_) => None,
    }
}

fn is_plain(attributes: &[KeyValue]) -> bool {
    attributes.iter().all(|attribute| attribute.value.as_ref().is_none_or(is_plain_value))
}

/// False for a value that is there and holds nothing, at any depth but as a member of an array, where it keeps a place.
fn is_plain_value(value: &AnyValue) -> bool {
    match &value.value {
        None => false,
        Some(Value::ArrayValue(array)) => {
            array.values.iter().all(|value| value.value.is_none() || is_plain_value(value))
        }
        Some(Value::KvlistValue(list)) => is_plain(&list.values),
        // JSON knows one of the many values that are no number.
        Some(Value::DoubleValue(number)) => !number.is_nan() || number.to_bits() == f64::NAN.to_bits(),
        Some(_) => true,
    }
}

fn make_plain(attributes: &mut [KeyValue]) {
    for attribute in attributes {
        let _ = attribute.value.take_if(holds_nothing);
    }
}

/// Says so of a value; in one that holds something, what holds nothing is left out.
fn holds_nothing(value: &mut AnyValue) -> bool {
    match &mut value.value {
        None => return true,
        Some(Value::ArrayValue(array)) => {
            for value in &mut array.values {
                let _ = holds_nothing(value);
            }
        }
        Some(Value::KvlistValue(list)) => make_plain(&mut list.values),
        Some(Value::DoubleValue(number)) if number.is_nan() => *number = f64::NAN,
        Some(_) => {}
    }
    false
}

fn of_plain(body: &mut Body, seed: Hasher) -> RecordHash {
    let mut parts = Parts { hasher: seed, ..Parts::default() };
    match body {
        Body::Span(whole) => {
            parts.whole(b"span");
            parts.begin(whole.encoded_len());
            // Fields are encoded in the order of their numbers: those below the attributes' and those above.
            let attributes = take(&mut whole.attributes);
            let mut above = Span {
                dropped_attributes_count: take(&mut whole.dropped_attributes_count),
                events: take(&mut whole.events),
                dropped_events_count: take(&mut whole.dropped_events_count),
                links: take(&mut whole.links),
                dropped_links_count: take(&mut whole.dropped_links_count),
                status: take(&mut whole.status),
                flags: take(&mut whole.flags),
                ..Span::default()
            };
            parts.message(whole);
            parts.attributes(9, &attributes);
            parts.message(&above);
            let below = take(whole);
            above.trace_id = below.trace_id;
            above.span_id = below.span_id;
            above.trace_state = below.trace_state;
            above.parent_span_id = below.parent_span_id;
            above.name = below.name;
            above.kind = below.kind;
            above.start_time_unix_nano = below.start_time_unix_nano;
            above.end_time_unix_nano = below.end_time_unix_nano;
            above.attributes = attributes;
            *whole = above;
        }
        Body::Log(whole) => {
            parts.whole(b"log");
            parts.begin(whole.encoded_len());
            let attributes = take(&mut whole.attributes);
            let mut below = LogRecord {
                time_unix_nano: take(&mut whole.time_unix_nano),
                severity_number: take(&mut whole.severity_number),
                severity_text: take(&mut whole.severity_text),
                body: take(&mut whole.body),
                ..LogRecord::default()
            };
            parts.message(&below);
            parts.attributes(6, &attributes);
            parts.message(whole);
            whole.time_unix_nano = below.time_unix_nano;
            whole.severity_number = below.severity_number;
            whole.severity_text = take(&mut below.severity_text);
            whole.body = take(&mut below.body);
            whole.attributes = attributes;
        }
        Body::Checkpoint(checkpoint) => {
            parts.whole(b"checkpoint");
            // A struct of strings and JSON always serializes.
            parts.whole(&serde_json::to_vec(checkpoint).unwrap_or_default());
        }
    }
    RecordHash(*parts.hasher.finalize().as_bytes())
}

/// Feeds a hasher part by part.
#[derive(Default)]
struct Parts {
    hasher: Hasher,
    buffer: Vec<u8>,
}

impl Parts {
    /// Starts a part of so many bytes.
    fn begin(&mut self, length: usize) {
        let _ = self.hasher.update(&(length as u64).to_le_bytes());
    }

    fn whole(&mut self, bytes: &[u8]) {
        self.begin(bytes.len());
        let _ = self.hasher.update(bytes);
    }

    fn piece(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        self.buffer.clear();
        encode(&mut self.buffer);
        let _ = self.hasher.update(&self.buffer);
    }

    fn message(&mut self, message: &impl Message) {
        let _ = self.hasher.update(&message.encode_to_vec());
    }

    fn attributes(&mut self, number: u32, attributes: &[KeyValue]) {
        let mut sorted: Vec<&KeyValue> = attributes.iter().collect();
        sorted.sort_by(|a, b| (&a.key, a.key_strindex).cmp(&(&b.key, b.key_strindex)));
        for attribute in sorted {
            match attribute.value.as_ref().and_then(|value| value.value.as_ref()) {
                Some(Value::StringValue(text)) => self.text(number, attribute, text),
                _ => {
                    // Doubling would take twice what a large attribute needs; tag and length are 10 bytes at most.
                    self.buffer.clear();
                    self.buffer.reserve_exact(attribute.encoded_len() + 10);
                    self.piece(|buffer| message::encode(number, attribute, buffer));
                }
            }
        }
    }

    /// An attribute that is a text, which may be most of a request: its bytes are hashed where they are.
    fn text(&mut self, number: u32, attribute: &KeyValue, text: &str) {
        let value_bytes = 1 + encoded_len_varint(text.len() as u64) + text.len();
        self.piece(|buffer| {
            encode_key(number, WireType::LengthDelimited, buffer);
            encode_varint(attribute.encoded_len() as u64, buffer);
            if !attribute.key.is_empty() {
                string::encode(1, &attribute.key, buffer);
            }
            encode_key(2, WireType::LengthDelimited, buffer);
            encode_varint(value_bytes as u64, buffer);
            encode_key(1, WireType::LengthDelimited, buffer);
            encode_varint(text.len() as u64, buffer);
        });
        let _ = self.hasher.update(text.as_bytes());
        if attribute.key_strindex != 0 {
            self.piece(|buffer| int32::encode(3, &attribute.key_strindex, buffer));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use opentelemetry_proto::tonic::{
        common::v1::{EntityRef, InstrumentationScope},
        trace::v1::span,
    };
    use serde_json::json;

    use super::*;
    use crate::otlp::{
        fixtures::{any_value, attributes_of},
        record::Record,
    };

    /// The same without care for memory: copies, leaves out what is empty, sorts and encodes the whole.
    fn simple(body: &Body, origin: &Origin) -> RecordHash {
        let sort = |attributes: &mut Vec<KeyValue>| {
            make_plain(attributes);
            attributes.sort_by(|a, b| a.key.cmp(&b.key));
        };
        let mut hasher = Hasher::new();
        let mut part = |bytes: &[u8]| {
            let _ = hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
        };
        let mut resource = Resource::clone(&origin.resource);
        sort(&mut resource.attributes);
        part(&resource.encode_to_vec());
        part(origin.resource_schema_url.as_bytes());
        let mut scope = origin.scope.clone().unwrap_or_default();
        sort(&mut scope.attributes);
        part(&scope.encode_to_vec());
        part(origin.scope_schema_url.as_bytes());
        match without_empties(body).unwrap_or_else(|| body.clone()) {
            Body::Span(mut span) => {
                sort(&mut span.attributes);
                part(b"span");
                part(&span.encode_to_vec());
            }
            Body::Log(mut log) => {
                sort(&mut log.attributes);
                part(b"log");
                part(&log.encode_to_vec());
            }
            Body::Checkpoint(_) => {}
        }
        RecordHash(*hasher.finalize().as_bytes())
    }

    /// Scenario: records with every field set, or none; attributes out of order and repeated.
    /// Guarantee: the hash is that of the whole encoding, as tables and logs hold it, and the record is as it was.
    #[test]
    fn a_hash_of_pieces_is_not_that_of_the_whole() {
        let mut attributes = attributes_of(&json!({"z": 1, "a": "text", "m": [1, {"x": null}]}));
        attributes.extend(attributes_of(&json!({"a": "again", "": "", "l": "long".repeat(100)})));
        attributes.push(KeyValue { key_strindex: -3, ..attributes_of(&json!({"i": "indexed"})).remove(0) });
        let event = span::Event { name: "e".into(), attributes: attributes.clone(), ..Default::default() };
        let full = Span {
            trace_id: vec![1; 16],
            span_id: vec![2; 8],
            trace_state: "s".into(),
            parent_span_id: vec![3; 8],
            flags: 0x1ff,
            name: "n".into(),
            kind: 3,
            start_time_unix_nano: 4,
            end_time_unix_nano: 5,
            attributes: attributes.clone(),
            dropped_attributes_count: 6,
            events: vec![event],
            dropped_events_count: 7,
            links: vec![span::Link { trace_id: vec![8; 16], ..Default::default() }],
            dropped_links_count: 9,
            status: Some(Status { message: "m".into(), code: 2 }),
        };
        let log = LogRecord {
            time_unix_nano: 1,
            observed_time_unix_nano: 2,
            severity_number: 9,
            severity_text: "INFO".into(),
            body: Some(any_value(&json!({"b": 1}))),
            attributes: attributes.clone(),
            dropped_attributes_count: 3,
            flags: 4,
            trace_id: vec![5; 16],
            span_id: vec![6; 8],
            event_name: "gen_ai".into(),
        };
        let entity = EntityRef { r#type: "service".into(), ..EntityRef::default() };
        let origin = Origin {
            resource: Arc::new(Resource {
                attributes: attributes.clone(),
                dropped_attributes_count: 1,
                entity_refs: vec![entity],
            }),
            resource_schema_url: "r".into(),
            scope: Some(InstrumentationScope {
                name: "scope".into(),
                version: "1".into(),
                attributes,
                dropped_attributes_count: 2,
            }),
            scope_schema_url: "s".into(),
        };
        for origin in [origin, Origin::default()].map(Arc::new) {
            for body in [
                Body::Span(full.clone()),
                Body::Span(Span::default()),
                Body::Log(log.clone()),
                Body::Log(LogRecord::default()),
            ] {
                let record = Record::new(body.clone(), origin.clone(), 1, 2);
                assert_eq!(record.hash, simple(&body, &origin));
                assert_eq!(record.body, body);
            }
        }
    }
}
