//! Writes a request again without the records that can never be stored, and with values that are too deep as opaque
//! bytes. The rare path: it allocates.

use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, KeyValueList, any_value::Value as Any};
use prost::{Message as _, encoding::encode_varint};

use super::{
    Error,
    scan::{Field, Message, Reader, Record, Value, is_deep, names_other, verdict},
};

/// The key under which a value that is too deep stands: a list of one pair, the value's encoding as bytes.
pub(super) const DEEP_VALUE: &str = "spanreel.deep_value";

/// A value that holds the encoding of one that is nested too deep.
pub(crate) fn opaque(encoding: &[u8]) -> AnyValue {
    let bytes = AnyValue { value: Some(Any::BytesValue(encoding.to_vec())) };
    let pair = KeyValue { key: DEEP_VALUE.into(), value: Some(bytes), ..KeyValue::default() };
    AnyValue { value: Some(Any::KvlistValue(KeyValueList { values: vec![pair] })) }
}

/// True when `value` is or holds one that is nested too deep and was kept as bytes.
pub(crate) fn holds_deep(value: &AnyValue) -> bool {
    let mut todo = vec![value];
    while let Some(value) = todo.pop() {
        match &value.value {
            Some(Any::KvlistValue(list)) => {
                if list.values.iter().any(|pair| pair.key == DEEP_VALUE) {
                    return true;
                }
                todo.extend(list.values.iter().filter_map(|pair| pair.value.as_ref()));
            }
            Some(Any::ArrayValue(list)) => todo.extend(&list.values),
            _ => {}
        }
    }
    false
}

/// The request without what its scan rejected.
///
/// # Errors
/// Only for bytes that the scan would have refused.
pub(super) fn splice(message: Message, bytes: &[u8], tenant: &str) -> Result<Vec<u8>, Error> {
    let mut out = Vec::with_capacity(bytes.len());
    copy(message, bytes, tenant, 0, 0, &mut out)?;
    Ok(out)
}

fn copy(
    message: Message,
    bytes: &[u8],
    tenant: &str,
    any: u32,
    depth: u32,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let mut reader = Reader(bytes);
    loop {
        let before = reader.0;
        let Some((number, value)) = reader.next()? else { return Ok(()) };
        let raw = before.get(..before.len() - reader.0.len()).unwrap_or_default();
        let (Field::Message(child), Value::Bytes(inner)) = (message.field(number), value) else {
            out.extend_from_slice(raw);
            continue;
        };
        let record = matches!(child, Message::Span | Message::LogRecord);
        if record && verdict(child, inner, tenant) != Record::Good {
            continue;
        }
        if matches!(child, Message::ResourceEntry(_)) && names_other(inner, 1, 1, tenant) {
            continue;
        }
        let below = any + u32::from(child == Message::AnyValue);
        let written = if is_deep(child, below, depth) {
            opaque(inner).encode_to_vec()
        } else {
            let mut written = Vec::with_capacity(inner.len());
            copy(child, inner, tenant, below, depth + 1, &mut written)?;
            written
        };
        encode_varint(u64::from(number << 3 | 2), out);
        encode_varint(written.len() as u64, out);
        out.extend_from_slice(&written);
    }
}
