//! HTTP/2 against its rules, frame by frame.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use super::{
    frames::{
        CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PING, PREFACE, RST_STREAM, SETTINGS, frame,
        literal, request, settings, start, string,
    },
    wire::{resource_spans, text},
};
use crate::{
    client::{Client, Wire},
    harness::Server,
    watch::{Process, SLOWER, is_full, mib},
};

/// Memory that an attack may cost.
const RISE_MAX: u64 = 64 << 20;

/// The frames of one connection, by their number; `None` when it has no more to send.
struct Attack {
    name: &'static str,
    frames: fn(u32) -> Option<Vec<u8>>,
}

const ATTACKS: &[Attack] = &[
    Attack {
        name: "rapid reset",
        frames: |n| {
            Some([start(2 * n + 1, END_STREAM), frame(RST_STREAM, 0, 2 * n + 1, &[0, 0, 0, 8])].concat())
        },
    },
    Attack {
        name: "CONTINUATION flood",
        frames: |n| match n {
            0 => Some(frame(HEADERS, 0, 1, &request())),
            _ => Some(frame(CONTINUATION, 0, 1, &literal(&format!("x{n}"), &"y".repeat(8000)))),
        },
    },
    Attack {
        name: "empty CONTINUATION flood",
        frames: |n| match n {
            0 => Some(frame(HEADERS, 0, 1, &request())),
            _ => Some(frame(CONTINUATION, 0, 1, &[])),
        },
    },
    Attack {
        name: "empty DATA flood",
        frames: |n| if n == 0 { Some(start(1, 0)) } else { Some(frame(DATA, 0, 1, &[])) },
    },
    Attack { name: "streams without a body", frames: |n| Some(start(2 * n + 1, 0)) },
    Attack {
        name: "streams with a body that does not end",
        frames: |n| Some([start(2 * n + 1, 0), frame(DATA, 0, 2 * n + 1, &[0; 400])].concat()),
    },
    Attack {
        name: "a header list of 8 MiB",
        frames: |n| match n {
            0 => Some(frame(HEADERS, END_STREAM, 1, &request())),
            1000 => Some(frame(CONTINUATION, END_HEADERS, 1, &[])),
            1001.. => None,
            _ => Some(frame(CONTINUATION, 0, 1, &literal("x", &"y".repeat(8000)))),
        },
    },
    Attack {
        name: "a header list of 64 MiB out of one entry",
        frames: |n| match n {
            // One entry of 4000 bytes goes to the table, and is referred to 16,000 times.
            0 => {
                let entry = [vec![0x40], string("x"), string(&"y".repeat(4000))].concat();
                Some(frame(HEADERS, 0, 1, &[request(), entry].concat()))
            }
            1 => Some(frame(CONTINUATION, END_HEADERS, 1, &[0xbe; 16_000])),
            _ => None,
        },
    },
    Attack { name: "SETTINGS flood", frames: |_| Some(frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 100])) },
    Attack { name: "PING flood", frames: |_| Some(frame(PING, 0, 0, &[0; 8])) },
    Attack {
        name: "frames of unknown kinds",
        frames: |n| Some(frame(u8::try_from(n % 200).unwrap() + 20, 0, 0, &[0; 4000])),
    },
];

/// Scenario: connections that break the rules of HTTP/2, on the ports of both transports, each as long as the server
/// lets it, and again.
/// Guarantee: less than 64 MiB more for each, and an answer to others within 5 s of it.
#[test]
fn frames_against_the_rules_take_memory_or_the_server() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path());
    let process = Process::of(&server);
    let frames_max = if is_full() { 100_000 } else { 10_000 };
    let (mut largest, mut slowest) = ((0, ""), (Duration::ZERO, ""));
    let before = process.resident_bytes();
    for Attack { name, frames } in ATTACKS {
        process.reset_peak();
        let (begun, mut sent, mut connections) = (Instant::now(), 0, 0);
        while sent < frames_max && connections < 200 {
            let port = server.ports()[connections % 2];
            let this = attack(port, *frames, frames_max - sent);
            sent += this.max(1);
            connections += 1;
        }
        let attacked = begun.elapsed();
        let mut client = Client::new(&server);
        for wire in [Wire::Protobuf, Wire::Grpc] {
            let body = resource_spans(1, &text("k", "v"));
            let answer = client.send(wire, "", &body).unwrap_or_else(|e| panic!("after {name}: {e}"));
            assert!(answer.is_success(), "after {name}: {answer:?}");
            slowest = slowest.max((answer.took, name));
        }
        let rise = process.peak_bytes().saturating_sub(before);
        println!("{name}: {sent} frames on {connections} connections in {attacked:.1?}, {} more", mib(rise));
        largest = largest.max((rise, name));
    }
    println!(
        "scorecard: 35 HTTP/2 abuse: {} ways, largest rise {} ({}), slowest answer afterwards {:.1?} ({})",
        ATTACKS.len(),
        mib(largest.0),
        largest.1,
        slowest.0,
        slowest.1
    );
    assert!(largest.0 < RISE_MAX, "{largest:?}");
    assert!(slowest.0 < Duration::from_secs(5) * SLOWER.min(2), "{slowest:?}");
}

/// Sends frames until the server closes, takes no more, or `frames_max`; how many it took.
fn attack(port: u16, frames: fn(u32) -> Option<Vec<u8>>, frames_max: u32) -> u32 {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut answers = stream.try_clone().unwrap();
    // Answers are read, or the server would stop reading.
    let reader = std::thread::spawn(move || std::io::copy(&mut answers, &mut std::io::sink()));
    stream.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
    let mut sent = 0;
    if stream.write_all(PREFACE).is_ok() && stream.write_all(&settings()).is_ok() {
        while sent < frames_max {
            let Some(frame) = frames(sent) else {
                sent = frames_max;
                break;
            };
            if stream.write_all(&frame).is_err() {
                break;
            }
            sent += 1;
        }
    }
    // A moment for what is still on its way.
    std::thread::sleep(Duration::from_millis(20));
    let _ = stream.shutdown(std::net::Shutdown::Both);
    let _ = stream.read(&mut [0]);
    let _ = reader.join().unwrap();
    sent
}
