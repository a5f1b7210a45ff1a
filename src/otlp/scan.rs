//! The wire scan: walks protobuf without allocating, before any struct is built.
//!
//! It counts spans, attributes, events, links and log records, and checks ids, depth, UTF-8 and the wire format, so
//! that decoding what it admitted cannot fail. A 64 KiB request can otherwise cost gigabytes: empty messages are two
//! bytes on the wire and hundreds in memory.

use bytes::Bytes;

use super::{Error, Signal, splice};
use crate::{config::otlp::Settings, tenant::TenantId};

/// `AnyValue`s may be nested this deep; what is deeper is kept as opaque bytes.
pub const DEPTH_MAX: u32 = 32;
/// Messages in messages; prost refuses more than 100.
const MESSAGE_DEPTH_MAX: u32 = 96;

/// Resources may be this many times the request, counted once for each scope and record under them.
const EXPANSION_MAX: u64 = 16;

/// What one request may hold.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes, uncompressed.
    pub request_bytes_max: usize,
    /// Spans or log records.
    pub spans_max: usize,
    /// Attributes of everything.
    pub attributes_max: usize,
    /// Events and links.
    pub events_max: usize,
}

impl From<&Settings> for Limits {
    fn from(s: &Settings) -> Self {
        Self {
            request_bytes_max: s.request_bytes_max,
            spans_max: s.spans_max,
            attributes_max: s.attributes_max,
            events_max: s.events_max,
        }
    }
}

/// What a request holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Spans or log records.
    pub records: u64,
    /// Of these, the ones that were left out.
    pub rejected: u64,
    /// Of the rejected, those that name another tenant than the sender's.
    pub foreign: u64,
    /// Data points of metrics.
    pub points: u64,
    /// Messages in lists that are none of the others: attributes and array members.
    pub attributes: u64,
    /// Events and links.
    pub events: u64,
    /// Values that were too deep.
    pub deep: u64,
    /// Bytes of resources, once for each scope and record under them.
    pub expanded_bytes: u64,
}

impl Counts {
    /// Records that are stored.
    pub fn kept(&self) -> u64 {
        self.records.saturating_sub(self.rejected)
    }

    /// What to tell the sender; empty when there is nothing to tell.
    pub fn message(&self, signal: Signal) -> String {
        let noun = if signal == Signal::Traces { "spans" } else { "log records" };
        let bad = self.rejected - self.foreign;
        let mut parts = Vec::new();
        if bad > 0 {
            parts.push(format!(
                "{bad} {noun} rejected: ids must be 16 bytes (trace) and 8 bytes (span), not all zero"
            ));
        }
        if self.foreign > 0 {
            parts.push(format!(
                "{} {noun} rejected: eai.tenant_id is not the tenant of the key",
                self.foreign
            ));
        }
        if self.deep > 0 {
            parts.push(format!(
                "{} values nested deeper than {DEPTH_MAX} are kept as opaque bytes",
                self.deep
            ));
        }
        parts.join("; ")
    }
}

/// Scans a request, and cuts out what can never be stored. Returns the bytes to store.
///
/// # Errors
/// [`Error::Invalid`] when it is no export request of `signal`; [`Error::TooLarge`] over a limit.
pub fn admit(
    signal: Signal,
    bytes: Bytes,
    limits: &Limits,
    tenant: &TenantId,
) -> Result<(Bytes, Counts), Error> {
    let mut scan = Scan { limits, tenant: tenant.as_str(), counts: Counts::default() };
    scan.message(Message::request(signal), &bytes, 0, 0)?;
    let counts = scan.counts;
    if counts.rejected == 0 && counts.deep == 0 {
        return Ok((bytes, counts));
    }
    Ok((splice::splice(Message::request(signal), &bytes, tenant.as_str())?.into(), counts))
}

/// Messages of OTLP that the scan knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    Request(Signal),
    ResourceEntry(Signal),
    Resource,
    ScopeEntry(Signal),
    Scope,
    Span,
    Event,
    Link,
    Status,
    LogRecord,
    Metric,
    /// A gauge, sum or histogram.
    Series,
    Point,
    KeyValue,
    AnyValue,
    Array,
    KeyValueList,
    EntityRef,
}

/// How a field is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Varint,
    Fixed64,
    Fixed32,
    Bytes,
    Text,
    Message(Message),
    /// Not in the schema: skipped, whatever its wire type.
    Unknown,
}

impl Message {
    pub(super) fn request(signal: Signal) -> Self {
        Self::Request(signal)
    }

    /// The schema of OTLP 1.x, as far as the scan has to know it.
    pub(super) fn field(self, number: u32) -> Field {
        use Field::{Bytes, Fixed32, Fixed64, Text, Varint};
        match (self, number) {
            (Self::Request(s), 1) => Field::Message(Self::ResourceEntry(s)),
            (Self::ResourceEntry(_), 1) => Field::Message(Self::Resource),
            (Self::ResourceEntry(s), 2) => Field::Message(Self::ScopeEntry(s)),
            (Self::ResourceEntry(_) | Self::ScopeEntry(_), 3) => Text,
            (Self::ScopeEntry(_), 1) => Field::Message(Self::Scope),
            (Self::ScopeEntry(Signal::Traces), 2) => Field::Message(Self::Span),
            (Self::ScopeEntry(Signal::Logs), 2) => Field::Message(Self::LogRecord),
            (Self::ScopeEntry(Signal::Metrics), 2) => Field::Message(Self::Metric),
            (Self::Resource, 1) | (Self::Scope, 3) | (Self::Span, 9) => Field::Message(Self::KeyValue),
            (Self::Resource, 2) | (Self::Scope, 4) | (Self::Status, 3) => Varint,
            (Self::Resource, 3) => Field::Message(Self::EntityRef),
            (Self::Scope, 1 | 2) | (Self::Status, 2) => Text,
            (Self::EntityRef, 1..=4) => Text,
            (Self::Span, 1 | 2 | 4) | (Self::Link, 1 | 2) | (Self::LogRecord, 9 | 10) => Bytes,
            (Self::Span, 3 | 5) | (Self::Event, 2) | (Self::Link, 3) | (Self::LogRecord, 3 | 12) => Text,
            (Self::Span, 6 | 10 | 12 | 14)
            | (Self::Event, 4)
            | (Self::Link, 5)
            | (Self::LogRecord, 2 | 7) => Varint,
            (Self::Span, 7 | 8) | (Self::Event, 1) | (Self::LogRecord, 1 | 11) => Fixed64,
            (Self::Span, 16) | (Self::Link, 6) | (Self::LogRecord, 8) => Fixed32,
            (Self::Span, 11) => Field::Message(Self::Event),
            (Self::Span, 13) => Field::Message(Self::Link),
            (Self::Span, 15) => Field::Message(Self::Status),
            (Self::Event, 3) | (Self::Link, 4) | (Self::LogRecord, 6) => Field::Message(Self::KeyValue),
            (Self::LogRecord, 5) | (Self::KeyValue, 2) | (Self::Array, 1) => Field::Message(Self::AnyValue),
            (Self::KeyValue, 1) | (Self::AnyValue, 1) => Text,
            (Self::KeyValue, 3) | (Self::AnyValue, 2 | 3 | 8) => Varint,
            (Self::AnyValue, 4) => Fixed64,
            (Self::AnyValue, 5) => Field::Message(Self::Array),
            (Self::AnyValue, 6) => Field::Message(Self::KeyValueList),
            (Self::AnyValue, 7) => Bytes,
            (Self::KeyValueList, 1) => Field::Message(Self::KeyValue),
            (Self::Metric, 5 | 7 | 9 | 10 | 11) => Field::Message(Self::Series),
            (Self::Series, 1) => Field::Message(Self::Point),
            _ => Field::Unknown,
        }
    }
}

struct Scan<'a> {
    limits: &'a Limits,
    tenant: &'a str,
    counts: Counts,
}

impl Scan<'_> {
    /// Checks one message and what is in it. `any_depth` counts `AnyValue`s above, `depth` all messages.
    fn message(&mut self, message: Message, bytes: &[u8], any_depth: u32, depth: u32) -> Result<(), Error> {
        let foreign_before = self.counts.foreign;
        let mut reader = Reader(bytes);
        let foreign_resource =
            matches!(message, Message::ResourceEntry(_)) && names_other(bytes, 1, 1, self.tenant);
        let records_before = (self.counts.records, self.counts.rejected);
        let (mut shared, mut scopes) = (0_u64, 0_u64);
        while let Some((number, value)) = reader.next()? {
            let field = message.field(number);
            check(message, number, field, value)?;
            if message == Message::EntityRef {
                self.count(Message::EntityRef, &[])?;
            }
            let Value::Bytes(inner) = value else { continue };
            let entry = matches!(message, Message::ResourceEntry(_) | Message::ScopeEntry(_));
            // A field that stands more than once is merged by the decoder: all of it counts.
            if entry && (number == 1 || number == 3) {
                shared += inner.len() as u64;
            }
            let Field::Message(child) = field else { continue };
            // A pair counts once, with its value.
            if (message, child) != (Message::KeyValue, Message::AnyValue) {
                self.count(child, inner)?;
            }
            scopes += u64::from(matches!(child, Message::ScopeEntry(_)));
            let below = any_depth + u32::from(child == Message::AnyValue);
            if is_deep(child, below, depth) {
                self.counts.deep += 1;
                continue;
            }
            self.message(child, inner, below, depth + 1)?;
        }
        // Each record is stored with its resource and its scope beside it: their product is bounded too.
        let records = self.counts.records - records_before.0;
        self.counts.expanded_bytes += shared.saturating_mul(scopes + records);
        if self.counts.expanded_bytes > EXPANSION_MAX.saturating_mul(self.limits.request_bytes_max as u64) {
            return Err(Error::TooLarge {
                limit: "otlp.request_bytes_max",
                value: self.limits.request_bytes_max,
            });
        }
        if foreign_resource {
            // The whole resource names another tenant: nothing under it is kept.
            self.counts.rejected = records_before.1 + records;
            self.counts.foreign = foreign_before + records;
        }
        Ok(())
    }

    fn count(&mut self, child: Message, inner: &[u8]) -> Result<(), Error> {
        let (counter, limit, value) = match child {
            Message::Span | Message::LogRecord => {
                match verdict(child, inner, self.tenant) {
                    Record::Good => {}
                    Record::BadIds => self.counts.rejected += 1,
                    Record::Foreign => {
                        self.counts.rejected += 1;
                        self.counts.foreign += 1;
                    }
                }
                (&mut self.counts.records, "otlp.spans_max", self.limits.spans_max)
            }
            Message::KeyValue | Message::AnyValue | Message::EntityRef => {
                (&mut self.counts.attributes, "otlp.attributes_max", self.limits.attributes_max)
            }
            Message::Event | Message::Link => {
                (&mut self.counts.events, "otlp.events_max", self.limits.events_max)
            }
            Message::ResourceEntry(_) | Message::ScopeEntry(_) => {
                (&mut self.counts.events, "otlp.events_max", self.limits.events_max)
            }
            Message::Point | Message::Metric => {
                (&mut self.counts.points, "otlp.attributes_max", self.limits.attributes_max)
            }
            _ => return Ok(()),
        };
        *counter += 1;
        if *counter > value as u64 { Err(Error::TooLarge { limit, value }) } else { Ok(()) }
    }
}

/// True when a message must be kept as opaque bytes instead of being walked.
pub(super) fn is_deep(child: Message, any_depth: u32, depth: u32) -> bool {
    child == Message::AnyValue && (any_depth > DEPTH_MAX || depth + 4 > MESSAGE_DEPTH_MAX)
}

/// Whether a record can be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Record {
    Good,
    BadIds,
    Foreign,
}

/// Looks at the ids and at `eai.tenant_id`; what cannot be read here is refused by the walk.
pub(super) fn verdict(message: Message, bytes: &[u8], tenant: &str) -> Record {
    let (trace, span, attributes) = if message == Message::Span { (1, 2, 9) } else { (9, 10, 6) };
    let (mut trace_id, mut span_id): (&[u8], &[u8]) = (&[], &[]);
    let mut reader = Reader(bytes);
    while let Ok(Some((number, value))) = reader.next() {
        if let Value::Bytes(inner) = value {
            match number {
                n if n == trace => trace_id = inner,
                n if n == span => span_id = inner,
                _ => {}
            }
        }
    }
    let whole = |id: &[u8], length: usize| id.len() == length && id.iter().any(|b| *b != 0);
    let optional = message == Message::LogRecord;
    // A log record may stand outside any trace: no id, or all zero in the right length.
    let may =
        |id: &[u8], length: usize| whole(id, length) || optional && (id.is_empty() || id.len() == length);
    let (trace_ok, span_ok) = (may(trace_id, 16), may(span_id, 8));
    if !trace_ok || !span_ok {
        Record::BadIds
    } else if names_other_attribute(bytes, attributes, tenant) {
        Record::Foreign
    } else {
        Record::Good
    }
}

/// True when a `ResourceEntry` has a resource whose `eai.tenant_id` is another tenant.
pub(super) fn names_other(bytes: &[u8], resource: u32, attributes: u32, tenant: &str) -> bool {
    let mut reader = Reader(bytes);
    while let Ok(Some((number, value))) = reader.next() {
        if let (true, Value::Bytes(inner)) = (number == resource, value)
            && names_other_attribute(inner, attributes, tenant)
        {
            return true;
        }
    }
    false
}

/// True when `eai.tenant_id` is there and is anything but one string that is the tenant.
fn names_other_attribute(bytes: &[u8], attributes: u32, tenant: &str) -> bool {
    let mut reader = Reader(bytes);
    while let Ok(Some((number, value))) = reader.next() {
        let Value::Bytes(pair) = value else { continue };
        if number == attributes
            && last_bytes(pair, 1) == Some(b"eai.tenant_id")
            && only(pair, 2).and_then(|value| only(value, 1)) != Some(tenant.as_bytes())
        {
            return true;
        }
    }
    false
}

/// The field, where it is there once; among the members of a value, where no other is there.
fn only(bytes: &[u8], wanted: u32) -> Option<&[u8]> {
    let mut found = None;
    let mut reader = Reader(bytes);
    while let Ok(Some((number, value))) = reader.next() {
        match value {
            Value::Bytes(inner) if number == wanted && found.is_none() => found = Some(inner),
            _ if number == wanted || wanted == 1 => return None,
            _ => {}
        }
    }
    found
}

/// The last occurrence of a length-delimited field; protobuf lets it win.
fn last_bytes(bytes: &[u8], wanted: u32) -> Option<&[u8]> {
    let mut found = None;
    let mut reader = Reader(bytes);
    while let Ok(Some((number, value))) = reader.next() {
        if let (true, Value::Bytes(inner)) = (number == wanted, value) {
            found = Some(inner);
        }
    }
    found
}

fn check(message: Message, number: u32, field: Field, value: Value<'_>) -> Result<(), Error> {
    let fits = match (field, value) {
        (Field::Unknown, _)
        | (Field::Varint, Value::Varint(_))
        | (Field::Fixed64, Value::Fixed64)
        | (Field::Fixed32, Value::Fixed32)
        | (Field::Bytes | Field::Message(_), Value::Bytes(_)) => true,
        (Field::Text, Value::Bytes(text)) => std::str::from_utf8(text).is_ok(),
        _ => false,
    };
    if fits {
        Ok(())
    } else {
        Err(Error::Invalid(format!("field {number} of {message:?} is not of its type")))
    }
}

/// A field's value on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Varint(u64),
    Fixed64,
    Fixed32,
    Bytes(&'a [u8]),
}

/// Reads fields one after the other.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    /// The next field's number and value; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u32, Value<'a>)>, Error> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let (number, wire) = self.tag()?;
        let value = match wire {
            0 => Value::Varint(self.varint()?),
            1 => self.take(8).map(|_| Value::Fixed64)?,
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| cut())?;
                Value::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Value::Fixed32)?,
            // Groups are not in protobuf 3.
            _ => return Err(Error::Invalid("an unknown wire type".into())),
        };
        Ok(Some((number, value)))
    }

    fn tag(&mut self) -> Result<(u32, u8), Error> {
        let tag =
            u32::try_from(self.varint()?).map_err(|_| Error::Invalid("a field tag is too large".into()))?;
        if tag < 8 {
            return Err(Error::Invalid("field number 0".into()));
        }
        Ok((tag >> 3, (tag & 7) as u8))
    }

    fn varint(&mut self) -> Result<u64, Error> {
        let mut value = 0_u64;
        for place in 0..10 {
            let (byte, rest) = self.0.split_first().ok_or_else(cut)?;
            self.0 = rest;
            if place == 9 && *byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Error::Invalid("a varint is too long".into()))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Error> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(cut)?;
        self.0 = rest;
        Ok(taken)
    }
}

fn cut() -> Error {
    Error::Invalid("the request ends in the middle of a field".into())
}

#[cfg(test)]
mod tests;
