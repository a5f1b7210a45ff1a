//! A record as a row of `spans`, and back without loss.

use std::sync::Arc;

use opentelemetry_proto::tonic::{
    common::v1::{EntityRef, InstrumentationScope, KeyValue},
    logs::v1::LogRecord,
    resource::v1::Resource,
    trace::v1::{
        Span, Status,
        span::{Event, Link},
    },
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Visitor, ser::SerializeMap};
use serde_json::{Value, json};

use super::value::{attributes, from_json, object, pairs, to_json};
use crate::{
    otlp::record::{Body, Checkpoint, Origin, Record},
    tenant::TenantId,
};

/// A row holds something that no record was written as.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {0} of table spans does not hold what was written; the row is left out")]
pub struct Damaged(pub &'static str);

/// One row of `spans`. Unsigned 64-bit numbers stand as their bit pattern.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct SpanRow {
    pub id: String,
    pub tenant_id: String,
    pub record: String,
    pub record_hash: String,
    pub trace_id: String,
    pub span_id: String,
    pub parent_span_id: String,
    pub trace_state: String,
    pub flags: i64,
    pub name: String,
    pub kind: i64,
    #[serde(skip_deserializing)]
    pub start_time: Option<i64>,
    #[serde(skip_deserializing)]
    pub end_time: Option<i64>,
    pub start_time_unix_nano: i64,
    pub end_time_unix_nano: i64,
    /// `None` when the span had no status at all.
    pub status_code: Option<i64>,
    pub status_message: Option<String>,
    pub attributes: TextMap,
    /// Pairs that a map cannot hold: repeated keys after the first, keys by reference.
    pub attributes_repeated: Option<String>,
    pub events: Option<String>,
    pub links: Option<String>,
    pub event_name: Option<String>,
    /// A log's body, or a checkpoint.
    pub body: Option<String>,
    pub severity_number: Option<i64>,
    pub severity_text: Option<String>,
    pub observed_time_unix_nano: Option<i64>,
    pub resource: String,
    pub scope: Option<String>,
    pub resource_schema_url: String,
    pub scope_schema_url: String,
    pub dropped_attributes_count: i64,
    pub dropped_events_count: i64,
    pub dropped_links_count: i64,
    #[serde(skip_deserializing)]
    pub received_at: Option<i64>,
    pub received_at_unix_nano: i64,
    pub wal_seq: i64,
    #[serde(skip_deserializing)]
    pub created_at: Option<i64>,
    #[serde(skip_deserializing)]
    pub updated_at: Option<i64>,
}

/// A map column, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TextMap(pub Vec<(String, String)>);

impl SpanRow {
    /// The row of `record` in a tenant's table.
    pub fn new(tenant: &TenantId, record: &Record) -> Self {
        let origin = &record.origin;
        let received = micros(record.received_at);
        let mut row = Self {
            tenant_id: tenant.as_str().into(),
            record_hash: record.hash.to_string(),
            resource: resource_json(&origin.resource).to_string(),
            scope: origin.scope.as_ref().map(|s| scope_json(s).to_string()),
            resource_schema_url: origin.resource_schema_url.clone(),
            scope_schema_url: origin.scope_schema_url.clone(),
            received_at: received,
            received_at_unix_nano: bits(record.received_at),
            wal_seq: bits(record.seq),
            created_at: received,
            updated_at: received,
            ..Self::default()
        };
        match &record.body {
            Body::Span(span) => row.set_span(span),
            Body::Log(log) => row.set_log(log),
            Body::Checkpoint(checkpoint) => {
                row.record = "checkpoint".into();
                row.trace_id = record.place().to_string();
                row.body = Some(json!(checkpoint).to_string());
            }
        }
        row.id = row_id(tenant, "spans", &[&row.record, &row.record_hash]);
        row
    }

    /// The record that the row was made of.
    ///
    /// It keeps the hash under which it was stored, whatever its columns hash to now: that hash is its name.
    ///
    /// # Errors
    /// [`Damaged`] when a column cannot be read.
    pub fn to_record(&self) -> Result<Record, Damaged> {
        let scope = self.scope.as_deref().map(|text| json_of("scope", text)).transpose()?;
        let origin = Origin {
            resource: resource(&json_of("resource", &self.resource)?).into(),
            resource_schema_url: self.resource_schema_url.clone(),
            scope: scope.as_ref().map(scope_of),
            scope_schema_url: self.scope_schema_url.clone(),
        };
        let body = match self.record.as_str() {
            "span" => Body::Span(self.span()?),
            "log" => Body::Log(self.log()?),
            "checkpoint" => {
                let text = self.body.as_deref().ok_or(Damaged("body"))?;
                Body::Checkpoint(serde_json::from_str::<Checkpoint>(text).map_err(|_| Damaged("body"))?)
            }
            _ => return Err(Damaged("record")),
        };
        let received_at = unsigned(self.received_at_unix_nano);
        let mut record = Record::new(body, Arc::new(origin), received_at, unsigned(self.wal_seq));
        let stored = bytes_of("record_hash", &self.record_hash)?;
        let stored: [u8; 32] = stored.try_into().map_err(|_| Damaged("record_hash"))?;
        if record.hash.0 != stored {
            tracing::warn!(
                trace_id = self.trace_id,
                span_id = self.span_id,
                "a stored record reads differently"
            );
            record.hash.0 = stored;
        }
        Ok(record)
    }

    fn set_span(&mut self, span: &Span) {
        self.record = "span".into();
        self.trace_id = hex::encode(&span.trace_id);
        self.span_id = hex::encode(&span.span_id);
        self.parent_span_id = hex::encode(&span.parent_span_id);
        self.trace_state = span.trace_state.clone();
        self.flags = span.flags.into();
        self.name = span.name.clone();
        self.kind = span.kind.into();
        self.start_time = micros(span.start_time_unix_nano);
        self.end_time = micros(span.end_time_unix_nano);
        self.start_time_unix_nano = bits(span.start_time_unix_nano);
        self.end_time_unix_nano = bits(span.end_time_unix_nano);
        self.status_code = span.status.as_ref().map(|s| s.code.into());
        self.status_message = span.status.as_ref().map(|s| s.message.clone());
        self.set_attributes(&span.attributes);
        self.events = Some(span.events.iter().map(event_json).collect::<Value>().to_string());
        self.links = Some(span.links.iter().map(link_json).collect::<Value>().to_string());
        self.dropped_attributes_count = span.dropped_attributes_count.into();
        self.dropped_events_count = span.dropped_events_count.into();
        self.dropped_links_count = span.dropped_links_count.into();
    }

    fn set_log(&mut self, log: &LogRecord) {
        self.record = "log".into();
        self.trace_id = hex::encode(&log.trace_id);
        self.span_id = hex::encode(&log.span_id);
        self.flags = log.flags.into();
        self.start_time = micros(log.time_unix_nano);
        self.start_time_unix_nano = bits(log.time_unix_nano);
        self.event_name = Some(log.event_name.clone());
        self.body = log.body.as_ref().map(|body| to_json(Some(body)).to_string());
        self.severity_number = Some(log.severity_number.into());
        self.severity_text = Some(log.severity_text.clone());
        self.observed_time_unix_nano = Some(bits(log.observed_time_unix_nano));
        self.set_attributes(&log.attributes);
        self.dropped_attributes_count = log.dropped_attributes_count.into();
    }

    fn set_attributes(&mut self, list: &[KeyValue]) {
        let mut seen = std::collections::HashSet::new();
        let (first, again): (Vec<_>, Vec<_>) =
            list.iter().partition(|kv| kv.key_strindex == 0 && seen.insert(kv.key.as_str()));
        let text = |kv: &KeyValue| (kv.key.clone(), to_json(kv.value.as_ref()).to_string());
        self.attributes = TextMap(first.into_iter().map(text).collect());
        let again: Vec<KeyValue> = again.into_iter().cloned().collect();
        self.attributes_repeated = (!again.is_empty()).then(|| pairs(&again).to_string());
    }

    fn attributes(&self) -> Result<Vec<KeyValue>, Damaged> {
        let mut list = Vec::with_capacity(self.attributes.0.len());
        for (key, text) in &self.attributes.0 {
            let value = from_json(&json_of("attributes", text)?);
            list.push(KeyValue { key: key.clone(), value, key_strindex: 0 });
        }
        if let Some(text) = &self.attributes_repeated {
            list.extend(attributes(&json_of("attributes_repeated", text)?));
        }
        Ok(list)
    }

    fn span(&self) -> Result<Span, Damaged> {
        let list = |column, text: &Option<String>| json_of(column, text.as_deref().unwrap_or("[]"));
        Ok(Span {
            trace_id: bytes_of("trace_id", &self.trace_id)?,
            span_id: bytes_of("span_id", &self.span_id)?,
            trace_state: self.trace_state.clone(),
            parent_span_id: bytes_of("parent_span_id", &self.parent_span_id)?,
            flags: small("flags", self.flags)?,
            name: self.name.clone(),
            kind: small("kind", self.kind)?,
            start_time_unix_nano: unsigned(self.start_time_unix_nano),
            end_time_unix_nano: unsigned(self.end_time_unix_nano),
            attributes: self.attributes()?,
            dropped_attributes_count: small("dropped_attributes_count", self.dropped_attributes_count)?,
            events: items(&list("events", &self.events)?).map(event).collect(),
            dropped_events_count: small("dropped_events_count", self.dropped_events_count)?,
            links: items(&list("links", &self.links)?).map(link).collect(),
            dropped_links_count: small("dropped_links_count", self.dropped_links_count)?,
            status: match self.status_code {
                None => None,
                Some(code) => Some(Status {
                    message: self.status_message.clone().unwrap_or_default(),
                    code: small("status_code", code)?,
                }),
            },
        })
    }

    fn log(&self) -> Result<LogRecord, Damaged> {
        let body = self.body.as_deref().map(|text| json_of("body", text)).transpose()?;
        Ok(LogRecord {
            time_unix_nano: unsigned(self.start_time_unix_nano),
            observed_time_unix_nano: unsigned(self.observed_time_unix_nano.unwrap_or_default()),
            severity_number: small("severity_number", self.severity_number.unwrap_or_default())?,
            severity_text: self.severity_text.clone().unwrap_or_default(),
            body: body.as_ref().and_then(from_json),
            attributes: self.attributes()?,
            dropped_attributes_count: small("dropped_attributes_count", self.dropped_attributes_count)?,
            flags: small("flags", self.flags)?,
            trace_id: bytes_of("trace_id", &self.trace_id)?,
            span_id: bytes_of("span_id", &self.span_id)?,
            event_name: self.event_name.clone().unwrap_or_default(),
        })
    }
}

/// A row's id: the same for the same natural key, so that a row that is written again keeps it.
pub fn row_id(tenant: &TenantId, table: &str, key: &[&str]) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in [tenant.as_str(), table].iter().chain(key) {
        let _ = hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
    }
    let mut id = [0; 16];
    hasher.finalize_xof().fill(&mut id);
    uuid::Uuid::new_v8(id).to_string()
}

fn resource_json(resource: &Resource) -> Value {
    let entity = |e: &EntityRef| json!([e.schema_url, e.r#type, e.id_keys, e.description_keys]);
    json!({
        "attributes": object(&resource.attributes),
        "dropped_attributes_count": resource.dropped_attributes_count,
        "entity_refs": resource.entity_refs.iter().map(entity).collect::<Value>(),
    })
}

fn resource(json: &Value) -> Resource {
    let strings = |v: Option<&Value>| {
        v.map(items).into_iter().flatten().filter_map(|s| s.as_str().map(str::to_owned)).collect()
    };
    Resource {
        attributes: attributes(member(json, "attributes")),
        dropped_attributes_count: number(json, "dropped_attributes_count"),
        entity_refs: items(member(json, "entity_refs"))
            .map(|e| EntityRef {
                schema_url: e.get(0).and_then(Value::as_str).unwrap_or_default().into(),
                r#type: e.get(1).and_then(Value::as_str).unwrap_or_default().into(),
                id_keys: strings(e.get(2)),
                description_keys: strings(e.get(3)),
            })
            .collect(),
    }
}

fn scope_json(scope: &InstrumentationScope) -> Value {
    json!({
        "name": scope.name,
        "version": scope.version,
        "attributes": object(&scope.attributes),
        "dropped_attributes_count": scope.dropped_attributes_count,
    })
}

fn scope_of(json: &Value) -> InstrumentationScope {
    InstrumentationScope {
        name: text(json, "name"),
        version: text(json, "version"),
        attributes: attributes(member(json, "attributes")),
        dropped_attributes_count: number(json, "dropped_attributes_count"),
    }
}

fn event_json(event: &Event) -> Value {
    json!({
        "time_unix_nano": event.time_unix_nano,
        "name": event.name,
        "attributes": object(&event.attributes),
        "dropped_attributes_count": event.dropped_attributes_count,
    })
}

fn event(json: &Value) -> Event {
    Event {
        time_unix_nano: member(json, "time_unix_nano").as_u64().unwrap_or_default(),
        name: text(json, "name"),
        attributes: attributes(member(json, "attributes")),
        dropped_attributes_count: number(json, "dropped_attributes_count"),
    }
}

fn link_json(link: &Link) -> Value {
    json!({
        "trace_id": hex::encode(&link.trace_id),
        "span_id": hex::encode(&link.span_id),
        "trace_state": link.trace_state,
        "attributes": object(&link.attributes),
        "dropped_attributes_count": link.dropped_attributes_count,
        "flags": link.flags,
    })
}

fn link(json: &Value) -> Link {
    Link {
        trace_id: hex::decode(text(json, "trace_id")).unwrap_or_default(),
        span_id: hex::decode(text(json, "span_id")).unwrap_or_default(),
        trace_state: text(json, "trace_state"),
        attributes: attributes(member(json, "attributes")),
        dropped_attributes_count: number(json, "dropped_attributes_count"),
        flags: number(json, "flags"),
    }
}

fn member<'a>(json: &'a Value, name: &str) -> &'a Value {
    json.get(name).unwrap_or(&Value::Null)
}

fn text(json: &Value, name: &str) -> String {
    member(json, name).as_str().unwrap_or_default().into()
}

fn number(json: &Value, name: &str) -> u32 {
    member(json, name).as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or_default()
}

fn items(json: &Value) -> std::slice::Iter<'_, Value> {
    json.as_array().map(Vec::as_slice).unwrap_or_default().iter()
}

fn json_of(column: &'static str, text: &str) -> Result<Value, Damaged> {
    serde_json::from_str(text).map_err(|_| Damaged(column))
}

fn bytes_of(column: &'static str, text: &str) -> Result<Vec<u8>, Damaged> {
    hex::decode(text).map_err(|_| Damaged(column))
}

fn small<T: TryFrom<i64>>(column: &'static str, number: i64) -> Result<T, Damaged> {
    T::try_from(number).map_err(|_| Damaged(column))
}

fn bits(number: u64) -> i64 {
    i64::from_ne_bytes(number.to_ne_bytes())
}

fn unsigned(number: i64) -> u64 {
    u64::from_ne_bytes(number.to_ne_bytes())
}

/// Microseconds for the time columns; `None` for a time that was not given.
fn micros(nanos: u64) -> Option<i64> {
    (nanos != 0).then(|| i64::try_from(nanos / 1000).unwrap_or(i64::MAX))
}

impl Serialize for TextMap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for TextMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = TextMap;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a map of text")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<TextMap, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(TextMap(entries))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

#[cfg(test)]
mod tests;
