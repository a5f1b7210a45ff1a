//! Frames of HTTP/2 by hand: what a client library would never send, and where exactly it stops.

use std::{io::Read, net::TcpStream};

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
pub(super) const CONTINUATION: u8 = 9;
pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;

/// What a client sends first.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The frame that follows the preface.
pub(super) fn settings() -> Vec<u8> {
    frame(SETTINGS, 0, 0, &[])
}

/// A request of gRPC whose body follows.
pub(super) fn start_of_request(stream: u32) -> Vec<u8> {
    start(stream, 0)
}

/// A piece of its body.
pub(super) fn data(stream: u32, bytes: &[u8], last: bool) -> Vec<u8> {
    frame(DATA, if last { END_STREAM } else { 0 }, stream, bytes)
}

/// Reads frames until a stream ends; it must say that the request was taken.
pub(super) fn until_end_of_stream(stream: &mut TcpStream) {
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).unwrap();
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        stream.read_exact(&mut payload).unwrap();
        assert_ne!(head[3], RST_STREAM, "the request was reset");
        if head[3] == HEADERS && head[4] & END_STREAM != 0 {
            return;
        }
    }
}

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A request of gRPC on a stream.
pub(super) fn start(stream: u32, flags: u8) -> Vec<u8> {
    frame(HEADERS, flags | END_HEADERS, stream, &request())
}

/// Its header block: what stands in HPACK's static table by number, the rest as literals.
pub(super) fn request() -> Vec<u8> {
    let path = string("/opentelemetry.proto.collector.trace.v1.TraceService/Export");
    let rest = [literal("content-type", "application/grpc"), literal("te", "trailers")].concat();
    [&[0x83, 0x86, 0x04][..], &path, &[0x01], &string("localhost"), &rest].concat()
}

/// A header field that is not put into the table.
pub(super) fn literal(name: &str, value: &str) -> Vec<u8> {
    [vec![0], string(name), string(value)].concat()
}

/// A string of HPACK, its length an integer with a prefix of seven bits.
pub(super) fn string(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    match text.len() {
        length @ ..127 => out.push(u8::try_from(length).unwrap()),
        length => {
            out.push(127);
            prost::encoding::encode_varint((length - 127) as u64, &mut out);
        }
    }
    out.extend(text.as_bytes());
    out
}
