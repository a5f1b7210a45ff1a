//! kill -9 under load: every acknowledged span is there once, and nothing that was never sent.
//!
//! `SPANREEL_CRASH_ROUNDS` sets the number of kills (6 by default; the release gate runs 100).
//! kill -9 proves nothing about power loss: the page cache survives it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use prost::Message;

use crate::{
    harness::{NO_READERS, Server, readers, skipped},
    load::{Ledger, Random, census, census_by_api, ids, plain, request, roots, run_spans, wait_for},
};

const CLIENTS: u64 = 4;

/// Scenario: clients send runs while the server is killed at random moments; a request without an answer is sent
/// again, whole, to the next server.
/// Guarantee: 0 lost, 0 duplicate, 0 invented spans, through the API and in the tables.
#[test]
fn a_kill_loses_doubles_or_invents_a_span() {
    let rounds: u64 = std::env::var("SPANREEL_CRASH_ROUNDS").ok().and_then(|r| r.parse().ok()).unwrap_or(6);
    let data = tempfile::tempdir().unwrap();
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    let endpoint = Arc::new(Mutex::new(String::new()));
    let stop = Arc::new(AtomicBool::new(false));
    let acks = Arc::new(AtomicU64::new(0));
    // Flushes every few seconds, so that kills fall into flushes and derivations too.
    let settings = [("store.flush_age_max_s", 3), ("store.settle_after_s", 1)];
    let start = || Server::start_set(data.path(), &settings);
    let mut server = start();
    *endpoint.lock().unwrap() = server.otlp_http();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (ledger, endpoint, stop, acks) =
                (ledger.clone(), endpoint.clone(), stop.clone(), acks.clone());
            std::thread::spawn(move || send_until(client, &ledger, &endpoint, &stop, &acks))
        })
        .collect();
    let mut random = Random(0x5eed);
    for _ in 0..rounds {
        std::thread::sleep(Duration::from_millis(300 + random.below(1500)));
        server.kill();
        server = start();
        *endpoint.lock().unwrap() = server.otlp_http();
    }
    let before = acks.load(Ordering::SeqCst);
    wait_for(|| acks.load(Ordering::SeqCst) > before, "no acknowledgement after the last restart");
    stop.store(true, Ordering::SeqCst);
    for client in clients {
        client.join().unwrap();
    }
    let ledger = ledger.lock().unwrap();
    let lost = census_by_api(&server, &ledger);
    assert!(server.terminate().success(), "a drained server exits with 0");
    census_by_tables(data.path(), &ledger);
    println!(
        "crash: {rounds} kills, {} spans acknowledged, {lost} lost, 0 duplicate, 0 invented",
        ledger.acknowledged.len()
    );
    assert_eq!(lost, 0);
}

fn census_by_tables(data: &Path, ledger: &Ledger) {
    let Some(tables) = readers(&data.join("tables/default")) else {
        return skipped(NO_READERS);
    };
    let pairs = |table: &str| -> Vec<(String, String)> {
        let rows = tables["ids"][table].as_array().unwrap();
        rows.iter().map(|r| (plain(&r[0]), plain(&r[1]))).collect()
    };
    let mut seen = BTreeMap::new();
    for span in pairs("spans") {
        *seen.entry(span).or_insert(0) += 1;
    }
    assert_eq!(census("tables", &seen, ledger), 0);
    let steps = pairs("run_steps");
    assert_eq!(steps.iter().collect::<BTreeSet<_>>().len(), steps.len(), "a step stands twice");
    // Each run is a root, and a model call and a tool call a turn; the root is no step.
    assert_eq!(steps.len(), seen.len() - roots(&seen), "steps for the spans in the tables");
}

/// Sends run after run, in requests of a few spans; repeats a request until it is acknowledged.
fn send_until(
    client: u64,
    ledger: &Mutex<Ledger>,
    endpoint: &Mutex<String>,
    stop: &AtomicBool,
    acks: &AtomicU64,
) {
    let mut random = Random(client + 1);
    let agent = ureq::Agent::new_with_config(
        ureq::Agent::config_builder().timeout_global(Some(Duration::from_secs(5))).build(),
    );
    while !stop.load(Ordering::SeqCst) {
        let spans = run_spans(&mut random);
        for chunk in spans.chunks(3) {
            let ids: Vec<_> = chunk.iter().map(ids).collect();
            ledger.lock().unwrap().sent.extend(ids.iter().cloned());
            let body = request(chunk).encode_to_vec();
            loop {
                let url = format!("{}/v1/traces", endpoint.lock().unwrap());
                let answer = agent.post(&url).content_type("application/x-protobuf").send(&body[..]);
                if answer.is_ok() {
                    ledger.lock().unwrap().acknowledged.extend(ids);
                    let _ = acks.fetch_add(1, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(10));
                    break;
                }
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}
