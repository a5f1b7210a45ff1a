//! Just enough of the protobuf wire format to tell which signal an export request is of.

use crate::otlp::Signal;

/// A field of a message.
#[derive(Clone, Copy, Debug)]
enum Field<'a> {
    Varint,
    Fixed64,
    Fixed32,
    Bytes(&'a [u8]),
}

/// The signal of an export request, told from the first span, log record or metric in it; `None` when the bytes are
/// no export request or hold nothing. All three have the same outer form: resources, scopes, items.
pub(super) fn signal(request: &[u8]) -> Option<Signal> {
    let mut found = None;
    for (number, field) in fields(request)? {
        let (1, Field::Bytes(resource)) = (number, field) else { return None };
        for (number, field) in fields(resource)? {
            let (2, Field::Bytes(scope)) = (number, field) else { continue };
            for (number, field) in fields(scope)? {
                let (2, Field::Bytes(item)) = (number, field) else { continue };
                if found.is_none() {
                    found = Some(signal_of(item)?);
                }
            }
        }
    }
    found
}

/// A span has a trace id of 16 bytes in field 1 and a span id of 8 in field 2, or its times in fields 7 and 8. A log
/// record has times in fields 1 and 11, or a severity in field 2. A metric has a name in field 1 and data in 5 to 11.
fn signal_of(item: &[u8]) -> Option<Signal> {
    let fields = fields(item)?;
    let has = |test: fn(&(u32, Field<'_>)) -> bool| fields.iter().any(test);
    if has(|f| matches!(f, (1 | 11, Field::Fixed64) | (2, Field::Varint))) {
        Some(Signal::Logs)
    } else if has(|f| matches!(f, (7 | 8, Field::Fixed64)))
        || has(|f| matches!(f, (1, Field::Bytes(id)) if id.len() == 16))
            && has(|f| matches!(f, (2, Field::Bytes(id)) if id.len() == 8))
    {
        Some(Signal::Traces)
    } else if has(|f| matches!(f, (1, Field::Bytes(_)))) {
        Some(Signal::Metrics)
    } else {
        // A log record may hold nothing but its body, attributes and ids.
        has(|f| matches!(f, (5 | 6 | 9, Field::Bytes(_)))).then_some(Signal::Logs)
    }
}

/// The fields of a message in their order, or `None` when the bytes are no message.
fn fields(mut bytes: &[u8]) -> Option<Vec<(u32, Field<'_>)>> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let (tag, rest) = varint(bytes)?;
        let number = u32::try_from(tag >> 3).ok().filter(|n| *n != 0)?;
        let (field, rest) = match tag & 7 {
            0 => (Field::Varint, varint(rest)?.1),
            1 => (Field::Fixed64, rest.get(8..)?),
            2 => {
                let (length, rest) = varint(rest)?;
                let (inner, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
                (Field::Bytes(inner), rest)
            }
            5 => (Field::Fixed32, rest.get(4..)?),
            _ => return None,
        };
        all.push((number, field));
        bytes = rest;
    }
    Some(all)
}

/// A varint and what follows it.
pub(super) fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (index, byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((value, bytes.get(index + 1..)?));
        }
    }
    None
}
