//! Connections that end in the middle: of a request, or before its answer is read.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use prost::Message;

use super::frames::{PREFACE, data, settings, start_of_request, until_end_of_stream};
use crate::{
    harness::{Server, wait_for},
    load::{Ledger, Random, ids, request, run_spans, spans_of},
    watch::is_full,
};

/// How the bytes of a request are laid out on a connection.
type Layout = (&'static str, usize, fn(&[u8]) -> Vec<u8>);

const LAYOUTS: &[Layout] = &[
    ("HTTP with a length", 1, |body| {
        let head = "POST /v1/traces HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-protobuf\r\n";
        [format!("{head}content-length: {}\r\n\r\n", body.len()).as_bytes(), body].concat()
    }),
    ("HTTP in chunks", 1, |body| {
        let head = "POST /v1/traces HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-protobuf\r\n";
        let mut out = format!("{head}transfer-encoding: chunked\r\n\r\n").into_bytes();
        for chunk in body.chunks(300) {
            out.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
            out.extend(chunk);
            out.extend(b"\r\n");
        }
        out.extend(b"0\r\n\r\n");
        out
    }),
    ("gRPC", 0, |body| {
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        let message = [&[0][..], &length, body].concat();
        let mut out = [PREFACE.to_vec(), settings(), start_of_request(1)].concat();
        let mut chunks = message.chunks(300).peekable();
        while let Some(chunk) = chunks.next() {
            out.extend(data(1, chunk, chunks.peek().is_none()));
        }
        out
    }),
];

/// Scenario: requests of one run each are cut at a random byte, over HTTP with a length, HTTP in chunks, and gRPC; each
/// tenth is whole.
/// Guarantee: of each request, all spans are there or none; of a whole one all.
#[test]
fn a_cut_request_is_stored_in_part() {
    let cuts = if is_full() { 1000 } else { 100 };
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path());
    let mut random = Random(0xc07);
    let mut sent: BTreeMap<String, (usize, bool, &str)> = BTreeMap::new();
    for n in 0..cuts {
        let (name, port, layout) = LAYOUTS[n % LAYOUTS.len()];
        let spans = run_spans(&mut random);
        let bytes = layout(&request(&spans).encode_to_vec());
        let whole = n % 10 == 0;
        let end =
            if whole { bytes.len() } else { usize::try_from(random.below(bytes.len() as u64)).unwrap() };
        let mut stream = TcpStream::connect(("127.0.0.1", server.ports()[port])).unwrap();
        stream.write_all(&bytes[..end]).unwrap();
        if whole {
            read_success(&mut stream, port);
        }
        drop(stream);
        let _ = sent.insert(ids(&spans[0]).0, (spans.len(), whole, name));
    }
    let wholes = sent.values().filter(|(_, whole, _)| *whole).count();
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    wait_for(
        || {
            found = census(&server);
            found.len() >= wholes
        },
        "a whole request is not there",
    );
    // Those that were cut behind their last byte may still be on their way.
    std::thread::sleep(Duration::from_millis(500));
    found = census(&server);
    for (trace, (count, whole, name)) in &sent {
        match found.remove(trace) {
            None => assert!(!whole, "{name}: a whole request is not there"),
            Some(stored) => assert_eq!(stored, *count, "{name}: {stored} of {count} spans of a request"),
        }
    }
    assert!(found.is_empty(), "{found:?} were never sent");
    println!("scorecard: 9 cut requests: {cuts} over {} layouts, {wholes} whole, 0 in part", LAYOUTS.len());
}

/// Reads the answer on a port; fails unless it is a success.
fn read_success(stream: &mut TcpStream, port: usize) {
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    if port == 0 {
        return until_end_of_stream(stream);
    }
    let mut answer = [0; 15];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
}

/// How many spans each trace has.
fn census(server: &Server) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for line in server.get_lines("/v1/otlp") {
        for (trace, _) in spans_of(&line) {
            *found.entry(trace).or_default() += 1;
        }
    }
    found
}

/// Scenario: a client loses every second answer (it closes before it reads), and sends again until it has one; requests
/// hold parts of runs, and the tables are written meanwhile.
/// Guarantee: every span is there once, and every step.
#[test]
fn a_request_that_is_sent_again_makes_a_step_twice() {
    let spans_min = if is_full() { 100_000 } else { 5_000 };
    let data = tempfile::tempdir().unwrap();
    let settings = [("store.flush_age_max_s", 3), ("store.settle_after_s", 1)];
    let server = Server::start_set(data.path(), &settings);
    let (mut random, mut ledger) = (Random(25), Ledger::default());
    let (mut runs, mut lost) = (BTreeMap::new(), 0);
    while ledger.acknowledged.len() < spans_min {
        let spans = run_spans(&mut random);
        // The root is no step.
        let _ = runs.insert(ids(&spans[0]).0, spans.len() - 1);
        for (n, chunk) in spans.chunks(4).enumerate() {
            let (_, port, layout) = LAYOUTS[(runs.len() + n) % LAYOUTS.len()];
            let bytes = layout(&request(chunk).encode_to_vec());
            ledger.sent.extend(chunk.iter().map(ids));
            loop {
                let mut stream = TcpStream::connect(("127.0.0.1", server.ports()[port])).unwrap();
                stream.write_all(&bytes).unwrap();
                if random.below(4) < 2 {
                    // Sometimes the server had time to answer.
                    std::thread::sleep(Duration::from_micros(random.below(3000)));
                    lost += 1;
                    continue;
                }
                read_success(&mut stream, port);
                ledger.acknowledged.extend(chunk.iter().map(ids));
                break;
            }
        }
    }
    assert_eq!(ledger.lost_by_api(&server), 0, "spans are lost");
    let mut steps = 0;
    // The shorter form reads some of the runs.
    for (run, count) in runs.iter().step_by(if is_full() { 1 } else { 10 }) {
        let document = server.get_lines(&format!("/v1/runs/{run}/steps")).remove(0);
        let spans: Vec<_> = document["steps"].as_array().unwrap().iter().map(|s| &s["span_id"]).collect();
        let mut distinct = spans.clone();
        distinct.sort_by_key(|id| id.as_str());
        distinct.dedup();
        assert_eq!((spans.len(), distinct.len()), (*count, *count), "steps of {run}");
        steps += spans.len();
    }
    println!(
        "scorecard: 25 lost answers: {} spans, {lost} answers lost, 0 spans lost or double; {steps} steps read, 0 double",
        ledger.acknowledged.len()
    );
}
