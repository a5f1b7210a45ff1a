//! Protobuf by hand: what an encoder would never write.

use prost::encoding::encode_varint;

/// The start of a field that holds `length` bytes.
pub(super) fn field(number: u32, length: usize) -> Vec<u8> {
    let mut header = Vec::new();
    encode_varint(u64::from(number << 3 | 2), &mut header);
    encode_varint(length as u64, &mut header);
    header
}

/// A field that holds `inner`.
pub(super) fn nest(number: u32, inner: &[u8]) -> Vec<u8> {
    [field(number, inner.len()), inner.to_vec()].concat()
}

/// A `ResourceSpans` field with one span of that id, with encoded attributes.
pub(super) fn resource_spans(id: u64, attributes: &[u8]) -> Vec<u8> {
    let trace = nest(1, &u128::from(id).to_be_bytes());
    let span = [trace, nest(2, &id.to_be_bytes()), nest(5, b"chat"), attributes.to_vec()].concat();
    nest(1, &nest(2, &nest(2, &span)))
}

/// An attribute of a span whose encoded value is given.
pub(super) fn attribute(key: &str, value: &[u8]) -> Vec<u8> {
    nest(9, &[nest(1, key.as_bytes()), nest(2, value)].concat())
}

/// An attribute of a span that is a text.
pub(super) fn text(key: &str, value: &str) -> Vec<u8> {
    attribute(key, &nest(1, value.as_bytes()))
}
