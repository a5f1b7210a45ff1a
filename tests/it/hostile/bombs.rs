//! Requests that are small on the wire and large in memory.

use std::time::Duration;

use flate2::{Compress, Compression, Crc, FlushCompress};

use super::wire::{field, resource_spans, text};
use crate::{
    client::{Client, Wire, gzip},
    harness::Server,
    watch::{Neighbour, Process, SLOWER, is_full, mib},
};

/// Bytes of a chunk that is repeated.
const CHUNK_BYTES: usize = 1 << 20;

/// What threads and the allocator keep; counts in the shorter form only.
const ALLOCATOR_BYTES: u64 = 16 << 20;

/// What is sent, and whether it is to be stored.
struct Bomb {
    name: &'static str,
    wires: &'static [Wire],
    encoding: &'static str,
    body: Vec<u8>,
    stored: bool,
}

/// The wires that carry protobuf.
const PROTOBUF: &[Wire] = &[Wire::Protobuf, Wire::Grpc];
const JSON: &[Wire] = &[Wire::Json];

/// Scenario: requests that grow when they are inflated or decoded, each over each wire that can carry it.
/// Guarantee: each is answered in 2 s and takes less than four times the limit of a request; a client beside them is
/// served meanwhile.
#[test]
fn a_bomb_takes_memory_or_time_from_others() {
    let data = tempfile::tempdir().unwrap();
    let limit = if is_full() { 64 << 20 } else { 16 << 20 };
    // What is asked is the cost of a request: no flush, for which there is a budget of its own, falls between.
    let later = [
        ("store.flush_bytes", 1 << 30),
        ("store.hot_bytes_max", 2 << 30),
        ("store.flush_age_max_s", 3600),
        ("wal.segment_bytes", 4 << 30),
    ];
    let server =
        Server::start_set(data.path(), &[&later[..], &[("otlp.request_bytes_max", limit as u64)]].concat());
    let process = Process::of(&server);
    let mut client = Client::new(&server);
    let quiet = Neighbour::alone(&server, Duration::from_secs(2));
    let (mut slowest, mut largest) = ((Duration::ZERO, ""), (0, ""));
    let neighbour = Neighbour::of(&server);
    for Bomb { name, wires, encoding, body, stored } in bombs(limit) {
        for wire in wires {
            process.reset_peak();
            let before = process.resident_bytes();
            let answer = client.send(*wire, encoding, &body);
            let answer = answer.unwrap_or_else(|error| panic!("{name} over {wire:?}: {error}"));
            // What is done with a stored request after its answer counts too.
            std::thread::sleep(Duration::from_millis(if stored { 1000 } else { 50 }));
            let rise = process.peak_bytes().saturating_sub(before);
            let (code, took, bytes) = (answer.code, answer.took, body.len());
            println!("{name} over {wire:?}: {bytes} bytes, answer {code} in {took:.1?}, {} more", mib(rise));
            assert_eq!(answer.is_success(), stored, "{name} over {wire:?}: {answer:?}");
            assert!(!answer.is_retryable(), "{name} over {wire:?}: {answer:?}");
            slowest = slowest.max((took, name));
            assert!(rise < 4 * limit as u64 + ALLOCATOR_BYTES, "{name} over {wire:?}: {}", mib(rise));
            largest = largest.max((rise, name));
        }
    }
    let beside = neighbour.end();
    println!(
        "scorecard: 31 bombs: slowest answer {:.1?} ({}), largest rise {} ({}); beside them {beside}; before them {quiet}",
        slowest.0,
        slowest.1,
        mib(largest.0),
        largest.1
    );
    assert!(slowest.0 < Duration::from_secs(2) * SLOWER, "{slowest:?}");
    assert_eq!(beside.refused, 0, "{beside}");
    assert!(beside.p99() < Duration::from_secs(1) * SLOWER, "{beside}");
}

fn bombs(limit: usize) -> Vec<Bomb> {
    let refused = |name, wires, encoding, body| Bomb { name, wires, encoding, body, stored: false };
    let stored = |name, wires, body| Bomb { name, wires, encoding: "", body, stored: true };
    let attributes = if is_full() { 1_000_000 } else { 200_000 };
    let zeros = vec![0; CHUNK_BYTES];
    let mut all = vec![
        refused("gzip of 1 GiB", PROTOBUF, "gzip", repeated(&[], &zeros, 1 << 10, &[])),
        refused("gzip of 1 GiB", JSON, "gzip", repeated(&[], &zeros, 1 << 10, &[])),
        refused("zstd of 1 GiB", PROTOBUF, "zstd", zstd_of_a_gibibyte()),
        refused("gzip in gzip", PROTOBUF, "gzip", gzip(&repeated(&[], &zeros, 64, &[]))),
        refused("a thousand gzip members of 1 MiB", PROTOBUF, "gzip", gzip(&zeros).repeat(1000)),
        Bomb { encoding: "gzip", ..stored("a thousand gzip members", PROTOBUF, members()) },
        stored("one long text", PROTOBUF, long_text(limit)),
        stored("one long text", JSON, long_text_json(limit)),
        stored("a million attributes", PROTOBUF, many_attributes(attributes)),
        stored("a million attributes", JSON, many_attributes_json(attributes)),
    ];
    // Field numbers from the request down to the message that is repeated, empty: a span, its attributes, events and
    // links, a scope, a resource, attributes of a resource, members of a list.
    for (name, path) in [
        ("empty spans", &[1, 2, 2][..]),
        ("empty attributes", &[1, 2, 2, 9]),
        ("empty events", &[1, 2, 2, 11]),
        ("empty links", &[1, 2, 2, 13]),
        ("empty scopes", &[1, 2]),
        ("empty resources", &[1]),
        ("empty attributes of a resource", &[1, 1, 1]),
        ("empty members of a list", &[1, 2, 2, 9, 2, 5, 1]),
    ] {
        // Both wires share the scan, so that the shorter form takes turns.
        let turn = all.len() % PROTOBUF.len();
        let wires = if is_full() { PROTOBUF } else { &PROTOBUF[turn..=turn] };
        all.push(refused(name, wires, "gzip", flood(path, limit)));
    }
    for (name, open, close) in [
        ("empty spans", r#"{"resourceSpans":[{"scopeSpans":[{"spans":["#, "{}]}]}]}"),
        ("empty attributes", r#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"attributes":["#, "{}]}]}]}]}"),
        ("empty events", r#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"events":["#, "{}]}]}]}]}"),
        ("empty links", r#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"links":["#, "{}]}]}]}]}"),
        ("empty scopes", r#"{"resourceSpans":[{"scopeSpans":["#, "{}]}]}"),
        ("empty resources", r#"{"resourceSpans":["#, "{}]}"),
    ] {
        let chunk = b"{},".repeat(CHUNK_BYTES / 3);
        let body = repeated(open.as_bytes(), &chunk, limit / CHUNK_BYTES, close.as_bytes());
        all.push(refused(name, JSON, "gzip", body));
    }
    all
}

/// gzip of `head`, `times` times `chunk`, and `tail`, without compressing the chunk more than once.
fn repeated(head: &[u8], chunk: &[u8], times: usize, tail: &[u8]) -> Vec<u8> {
    let deflated = |bytes: &[u8]| {
        let mut out = Vec::with_capacity(bytes.len() + 64);
        let _ = Compress::new(Compression::best(), false).compress_vec(bytes, &mut out, FlushCompress::Full);
        out
    };
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 0xff];
    out.extend(deflated(head));
    out.extend(deflated(chunk).repeat(times));
    out.extend(deflated(tail));
    // The last block, empty.
    out.extend([3, 0]);
    let mut crc = Crc::new();
    crc.update(head);
    (0..times).for_each(|_| crc.update(chunk));
    crc.update(tail);
    out.extend(crc.sum().to_le_bytes());
    out.extend(crc.amount().to_le_bytes());
    out
}

fn zstd_of_a_gibibyte() -> Vec<u8> {
    let zeros = std::io::Read::take(std::io::repeat(0), 1 << 30);
    zstd::encode_all(zeros, 1).unwrap()
}

/// Empty messages at the end of `path`, as many as a request holds.
fn flood(path: &[u32], limit: usize) -> Vec<u8> {
    let (last, above) = path.split_last().unwrap();
    let chunk = [u8::try_from(last << 3 | 2).unwrap(), 0].repeat(CHUNK_BYTES / 2);
    // The headers of the messages around it take some of the limit.
    let times = limit / CHUNK_BYTES - usize::from(!above.is_empty());
    let (mut head, mut inner) = (Vec::new(), times * CHUNK_BYTES);
    for number in above.iter().rev() {
        let header = field(*number, inner);
        inner += header.len();
        head.splice(0..0, header);
    }
    repeated(&head, &chunk, times, &[])
}

/// A thousand gzip members with a resource each.
fn members() -> Vec<u8> {
    (1..=1000).flat_map(|n| gzip(&resource_spans(n, &[]))).collect()
}

fn long_text(limit: usize) -> Vec<u8> {
    resource_spans(2000, &text("gen_ai.input.messages", &"x".repeat(limit - 200)))
}

fn long_text_json(limit: usize) -> Vec<u8> {
    json_span(2001, &format!(r#"{{"key":"k","value":{{"stringValue":"{}"}}}}"#, "x".repeat(limit - 300)))
}

fn many_attributes(count: usize) -> Vec<u8> {
    resource_spans(2002, &(0..count).flat_map(|n| text(&format!("k{n}"), "v")).collect::<Vec<u8>>())
}

fn many_attributes_json(count: usize) -> Vec<u8> {
    let all: Vec<_> = (0..count).map(|n| format!(r#"{{"key":"k{n}","value":{{"intValue":{n}}}}}"#)).collect();
    json_span(2003, &all.join(","))
}

fn json_span(id: u64, attributes: &str) -> Vec<u8> {
    let ids = format!(r#""traceId":"{id:032x}","spanId":"{id:016x}""#);
    format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{{{ids},"attributes":[{attributes}]}}]}}]}}]}}"#)
        .into_bytes()
}
