//! What a file holds, told from its bytes. Names say nothing: `.pb` and `.bin` are used for everything.

use std::{borrow::Cow, io::Read};

use super::wire::signal;
use crate::otlp::Signal;

/// The most that one file may hold when it is opened up, in bytes.
const OPENED_BYTES_MAX: u64 = 8 << 30;

/// What a zstd frame starts with.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// One export request in a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Request<'a> {
    /// Protobuf.
    Protobuf(Signal, &'a [u8]),
    /// A JSON object.
    Json(&'a [u8]),
}

/// The bytes, opened when they are gzip or zstd.
pub(super) fn open(bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    let mut opened = Vec::new();
    let mut read = |reader: &mut dyn Read| reader.take(OPENED_BYTES_MAX + 1).read_to_end(&mut opened);
    let result = match bytes.as_slice() {
        [0x1f, 0x8b, ..] => read(&mut flate2::read::MultiGzDecoder::new(&*bytes)),
        magic if magic.starts_with(&ZSTD) => {
            zstd::Decoder::new(&*bytes).and_then(|mut decoder| read(&mut decoder))
        }
        _ => return if one_by_one(&bytes) { open_each(&bytes) } else { Ok(bytes) },
    };
    let _ = result.map_err(|error| format!("cannot be decompressed, it may be cut short: {error}"))?;
    within(opened)
}

fn within(opened: Vec<u8>) -> Result<Vec<u8>, String> {
    if opened.len() as u64 > OPENED_BYTES_MAX {
        return Err(format!("holds more than {} GiB when decompressed; split it", OPENED_BYTES_MAX >> 30));
    }
    Ok(opened)
}

/// How the collector's file exporter compresses: each request by itself, behind its length (u32 big endian).
fn one_by_one(bytes: &[u8]) -> bool {
    u32_be(bytes).is_some_and(|(_, rest)| rest.starts_with(&ZSTD))
}

/// The same requests as the exporter writes them without compression: a line each, or behind their lengths.
fn open_each(mut bytes: &[u8]) -> Result<Vec<u8>, String> {
    let cut = || "is cut short: a length says more than there is".to_owned();
    let mut opened = Vec::new();
    while !bytes.is_empty() {
        let (length, rest) = u32_be(bytes).ok_or_else(cut)?;
        let (frame, rest) = rest.split_at_checked(length).ok_or_else(cut)?;
        bytes = rest;
        let mut request = Vec::new();
        let most = OPENED_BYTES_MAX + 1 - opened.len() as u64;
        let read = zstd::Decoder::new(frame).and_then(|decoder| decoder.take(most).read_to_end(&mut request));
        let _ = read.map_err(|error| format!("cannot be decompressed: {error}"))?;
        if request.starts_with(b"{") {
            request.push(b'\n');
        } else {
            let length = u32::try_from(request.len()).map_err(|_| "holds a request of more than 4 GiB")?;
            opened.extend(length.to_be_bytes());
        }
        opened.append(&mut request);
        opened = within(opened)?;
    }
    Ok(opened)
}

/// Reads a length; what follows it comes back too.
type Length = fn(&[u8]) -> Option<(usize, &[u8])>;

/// The export requests in a file, or why it holds none. Tried in turn: JSON, JSON lines, one protobuf request,
/// protobuf requests each behind its length (u32 little endian, u32 big endian, varint).
pub(super) fn requests(bytes: &[u8]) -> Result<Vec<Request<'_>>, Cow<'static, str>> {
    let text = bytes.trim_ascii();
    match text.first() {
        None => Err("is empty".into()),
        Some(b'{') if serde_json::from_slice::<serde::de::IgnoredAny>(text).is_ok() => {
            Ok(vec![Request::Json(text)])
        }
        Some(b'{') => Ok(text
            .split(|b| *b == b'\n')
            .map(<[u8]>::trim_ascii)
            .filter(|l| !l.is_empty())
            .map(Request::Json)
            .collect()),
        Some(_) => protobuf(bytes),
    }
}

fn protobuf(bytes: &[u8]) -> Result<Vec<Request<'_>>, Cow<'static, str>> {
    if let Some(signal) = signal(bytes) {
        return Ok(vec![Request::Protobuf(signal, bytes)]);
    }
    let framings: [Length; 3] = [u32_le, u32_be, varint];
    let framed = framings.iter().find_map(|length| split(bytes, *length));
    framed.ok_or_else(|| "is not OTLP: neither JSON nor an export request, whole or behind lengths".into())
}

/// All frames, when the lengths end exactly at the end and every frame is an export request.
fn split(mut bytes: &[u8], length: Length) -> Option<Vec<Request<'_>>> {
    let mut requests = Vec::new();
    while !bytes.is_empty() {
        let (length, rest) = length(bytes)?;
        let (frame, rest) = rest.split_at_checked(length)?;
        requests.push(Request::Protobuf(signal(frame)?, frame));
        bytes = rest;
    }
    Some(requests)
}

fn u32_le(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    Some((usize::try_from(u32::from_le_bytes(*length)).ok()?, rest))
}

fn u32_be(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    Some((usize::try_from(u32::from_be_bytes(*length)).ok()?, rest))
}

fn varint(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (length, rest) = super::wire::varint(bytes)?;
    Some((usize::try_from(length).ok()?, rest))
}

#[cfg(test)]
mod tests;
