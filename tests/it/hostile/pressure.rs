//! More than a server takes: what it refuses, how, and how fast.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use prost::Message;

use crate::{
    client::{Answer, Client, Wire, gzip},
    harness::Server,
    load::{Ledger, Random, ids, request, run_spans},
    watch::{Process, SLOWER, is_full, mib, quantile},
};

/// Each sends, and sends again as soon as it is refused, whatever advice it gets.
const SENDERS: u64 = 24;

/// Memory that these settings allow: requests, frames on their way, hot records and what writing them takes.
const RSS_MAX: u64 = 256 << 20;

const SETTINGS: &[(&str, u64)] = &[
    ("otlp.request_bytes_max", 4 << 20),
    ("otlp.memory_bytes_max", 2 << 20),
    ("otlp.requests_max", 8),
    ("wal.queue_bytes_max", 1 << 20),
    ("wal.segment_bytes", 8 << 20),
    ("store.hot_bytes_max", 4 << 20),
    ("store.flush_bytes", 2 << 20),
    ("store.settle_after_s", 1),
];

#[derive(Default)]
struct Figures {
    taken: Vec<Duration>,
    refused: Vec<Duration>,
    reasons: BTreeSet<String>,
    bytes: usize,
}

/// Scenario: senders with several times what a server with small limits takes, over each wire, plain and gzip, that
/// come again at once.
/// Guarantee: each answer within 2 s for 99 of 100; each refusal may be sent again, and says when; memory stays under a
/// cap; nothing that was acknowledged is lost.
#[test]
fn pressure_delays_answers_takes_memory_or_loses_spans() {
    let time = Duration::from_secs(if is_full() { 300 } else { 10 });
    let data = tempfile::tempdir().unwrap();
    let server = Arc::new(Server::start_set(data.path(), SETTINGS));
    let process = Process::of(&server);
    let (ledger, figures) =
        (Arc::new(Mutex::new(Ledger::default())), Arc::new(Mutex::new(Figures::default())));
    let stop = Arc::new(AtomicBool::new(false));
    let begun = Instant::now();
    let senders: Vec<_> = (0..SENDERS)
        .map(|number| {
            let (server, ledger, figures, stop) =
                (server.clone(), ledger.clone(), figures.clone(), stop.clone());
            std::thread::spawn(move || press(number, &server, &ledger, &figures, &stop))
        })
        .collect();
    std::thread::sleep(time);
    stop.store(true, Ordering::SeqCst);
    for sender in senders {
        sender.join().unwrap();
    }
    let (elapsed, peak) = (begun.elapsed(), process.peak_bytes());
    let figures = Arc::into_inner(figures).unwrap().into_inner().unwrap();
    let ledger = Arc::into_inner(ledger).unwrap().into_inner().unwrap();
    let lost = ledger.lost_by_api(&server);
    let all = [figures.taken.clone(), figures.refused.clone()].concat();
    let slowest = all.iter().max().copied().unwrap_or_default();
    let p99 = quantile(all, 0.99);
    println!(
        "scorecard: 30 backpressure: {SENDERS} senders for {elapsed:.0?}: {} requests taken ({} spans, {}), {} refused; p99 {p99:.1?} (taken {:.1?}, refused {:.1?}), slowest {slowest:.1?}; peak memory {}; {lost} acknowledged spans lost",
        figures.taken.len(),
        ledger.acknowledged.len(),
        mib(figures.bytes as u64),
        figures.refused.len(),
        quantile(figures.taken.clone(), 0.99),
        quantile(figures.refused.clone(), 0.99),
        mib(peak)
    );
    println!("reasons: {:?}", figures.reasons);
    assert!(figures.taken.len() > 10 && figures.refused.len() > 10, "no pressure");
    assert!(p99 < Duration::from_secs(2) * SLOWER.min(2), "{p99:?}");
    assert!(peak < RSS_MAX, "{}", mib(peak));
    assert_eq!(lost, 0);
}

fn press(number: u64, server: &Server, ledger: &Mutex<Ledger>, figures: &Mutex<Figures>, stop: &AtomicBool) {
    let (mut random, mut client) = (Random(number + 100), Client::new(server));
    while !stop.load(Ordering::SeqCst) {
        let mut spans = run_spans(&mut random);
        for span in &mut spans {
            // What does not compress, so that bytes are bytes.
            span.trace_state = (0..200).map(|_| format!("{:x}", random.next())).collect();
        }
        let wire = [Wire::Protobuf, Wire::Grpc][usize::try_from(number % 2).unwrap()];
        let body = request(&spans).encode_to_vec();
        let (encoding, sent) =
            if number.is_multiple_of(5) { ("gzip", gzip(&body)) } else { ("", body.clone()) };
        ledger.lock().unwrap().sent.extend(spans.iter().map(ids));
        loop {
            let answer = client.send(wire, encoding, &sent).unwrap_or_else(|e| panic!("no answer: {e}"));
            let mut figures = figures.lock().unwrap();
            if answer.is_success() {
                figures.taken.push(answer.took);
                figures.bytes += body.len();
                ledger.lock().unwrap().acknowledged.extend(spans.iter().map(ids));
                drop(figures);
                // What the census of the longer form has to read is bounded; the pressure is of those that are refused.
                std::thread::sleep(Duration::from_millis(if is_full() { 100 } else { 0 }));
                break;
            }
            figures.refused.push(answer.took);
            let _ = figures.reasons.insert(reason(&answer));
            drop(figures);
            if stop.load(Ordering::SeqCst) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5 + random.below(10)));
        }
    }
}

/// Why it was refused; fails when that is not to be sent again, or does not say when.
fn reason(answer: &Answer) -> String {
    assert!(answer.is_retryable(), "{answer:?}");
    assert!(answer.advice.is_some_and(|after| after >= Duration::from_secs(1)), "{answer:?}");
    // gRPC writes spaces as escapes.
    answer.message.replace("%20", " ").split(';').next().unwrap_or_default().to_owned()
}
