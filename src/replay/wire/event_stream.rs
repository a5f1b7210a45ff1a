//! Frames of `application/vnd.amazon.eventstream`: lengths, headers, payload, each half with its CRC32.

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::Value;

/// Media type of a stream of such frames.
pub(super) const MEDIA: &str = "application/vnd.amazon.eventstream";
/// The type of a header whose value is text.
const TEXT: u8 = 7;
/// Bytes of a frame beside headers and payload: two lengths and two checksums.
const AROUND: usize = 16;

/// An event named `name`, its payload JSON.
pub(super) fn event(name: &str, payload: &Value) -> Bytes {
    let headers = [(":event-type", name), (":content-type", "application/json"), (":message-type", "event")];
    frame(&headers, payload.to_string().as_bytes())
}

fn frame(headers: &[(&str, &str)], payload: &[u8]) -> Bytes {
    let mut head = BytesMut::new();
    for (name, value) in headers {
        // Names and values are the few of this file; one that did not fit would be left out whole.
        let (Ok(name_len), Ok(value_len)) = (u8::try_from(name.len()), u16::try_from(value.len())) else {
            continue;
        };
        head.put_u8(name_len);
        head.put_slice(name.as_bytes());
        head.put_u8(TEXT);
        head.put_u16(value_len);
        head.put_slice(value.as_bytes());
    }
    let total = head.len().saturating_add(payload.len()).saturating_add(AROUND);
    let mut frame = BytesMut::with_capacity(total);
    frame.put_u32(length(total));
    frame.put_u32(length(head.len()));
    frame.put_u32(crc32fast::hash(&frame));
    frame.put_slice(&head);
    frame.put_slice(payload);
    frame.put_u32(crc32fast::hash(&frame));
    frame.freeze()
}

/// A piece of an answer is far from four gigabytes.
fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    /// What a frame holds, checked as clients check it: the event's name and its payload, and the bytes behind it.
    pub(in crate::replay::wire) fn read(bytes: &[u8]) -> (String, Value, &[u8]) {
        let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
        let (total, head) = (number(0) as usize, number(4) as usize);
        assert_eq!(number(8), crc32fast::hash(&bytes[..8]), "checksum of the prelude");
        assert_eq!(number(total - 4), crc32fast::hash(&bytes[..total - 4]), "checksum of the message");
        let mut rest = &bytes[12..12 + head];
        let mut name = String::new();
        while !rest.is_empty() {
            let key_end = 1 + usize::from(rest[0]);
            let key = &rest[1..key_end];
            assert_eq!(rest[key_end], TEXT);
            let len = usize::from(u16::from_be_bytes([rest[key_end + 1], rest[key_end + 2]]));
            let value = &rest[key_end + 3..key_end + 3 + len];
            if key == b":event-type" {
                name = String::from_utf8(value.to_vec()).unwrap();
            }
            rest = &rest[key_end + 3 + len..];
        }
        let payload = serde_json::from_slice(&bytes[12 + head..total - 4]).unwrap();
        (name, payload, &bytes[total..])
    }

    /// Guarantee: byte for byte the frame that real clients were seen to take.
    #[test]
    fn a_frame_differs_from_what_clients_take() {
        let expected = "0000007600000052 96d5fade \
             0b3a6576656e742d7479706507000c6d6573736167655374617274 \
             0d3a636f6e74656e742d747970650700106170706c69636174696f6e2f6a736f6e \
             0d3a6d6573736167652d747970650700056576656e74 \
             7b22726f6c65223a22617373697374616e74227d 6fa8c599";
        let frame = event("messageStart", &json!({"role": "assistant"}));
        assert_eq!(hex::encode(&frame), expected.replace(' ', ""));
        let (name, payload, rest) = read(&frame);
        assert_eq!((name.as_str(), payload, rest.len()), ("messageStart", json!({"role": "assistant"}), 0));
    }

    #[test]
    fn a_header_that_does_not_fit_breaks_the_frame() {
        let long = "n".repeat(300);
        assert_eq!(frame(&[(&long, "v")], b"{}"), frame(&[], b"{}"));
    }
}
