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
    time::{Duration, Instant},
};

use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{AnyValue, KeyValue, any_value::Value},
    trace::v1::{ResourceSpans, ScopeSpans, Span},
};
use prost::Message;
use serde_json::Value as Json;

use crate::harness::{NO_READERS, Server, readers, skipped};

const CLIENTS: u64 = 4;

/// What the clients sent, and what was acknowledged; ids as hex.
#[derive(Default)]
struct Ledger {
    sent: BTreeSet<(String, String)>,
    acknowledged: BTreeSet<(String, String)>,
}

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
    let settings = data.path().with_extension("yaml");
    std::fs::write(&settings, "store: {flush_age_max_s: 3, settle_after_s: 1}\n").unwrap();
    let start = || Server::start_with(data.path(), &["--config", settings.to_str().unwrap()]);
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
    std::fs::remove_file(&settings).unwrap();
    println!(
        "crash: {rounds} kills, {} spans acknowledged, {lost} lost, 0 duplicate, 0 invented",
        ledger.acknowledged.len()
    );
    assert_eq!(lost, 0);
}

/// One pass over everything the tenant has: a look-up a trace would take longer than the kills.
fn census_by_api(server: &Server, ledger: &Ledger) -> usize {
    let mut seen: BTreeMap<(String, String), u32> = BTreeMap::new();
    for line in server.get_lines("/v1/otlp") {
        for span in spans_of(&line) {
            *seen.entry(span).or_default() += 1;
        }
    }
    census("api", &seen, ledger)
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
    assert_eq!(steps.len(), seen.len() - ledger_roots(&seen), "steps for the spans in the tables");
}

fn ledger_roots(seen: &BTreeMap<(String, String), i32>) -> usize {
    seen.keys().filter(|(trace, span)| trace.ends_with(span.as_str())).count()
}

/// Returns how many acknowledged spans are not there; fails on a duplicate or an invented one.
fn census<N: Copy + Into<i64>>(by: &str, seen: &BTreeMap<(String, String), N>, ledger: &Ledger) -> usize {
    for (span, times) in seen {
        assert_eq!((*times).into(), 1, "{by}: {span:?} is there more than once");
        assert!(ledger.sent.contains(span), "{by}: {span:?} was never sent");
    }
    ledger.acknowledged.iter().filter(|s| !seen.contains_key(*s)).count()
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
            let ids: Vec<_> = chunk.iter().map(|s| (hex(&s.trace_id), hex(&s.span_id))).collect();
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

/// A root span, and five turns of a model call that asks for a tool, and the tool call.
fn run_spans(random: &mut Random) -> Vec<Span> {
    let trace = [random.next().to_be_bytes(), random.next().to_be_bytes()].concat();
    let root = trace[8..].to_vec();
    let start = 1_790_000_000_000_000_000 + random.below(1_000_000_000);
    let mut spans = Vec::new();
    for turn in 0..5 {
        let call = format!("call_{turn}");
        let output = format!(
            r#"[{{"role":"assistant","parts":[{{"type":"tool_call","id":"{call}","name":"search","arguments":{{"q":{turn}}}}}]}}]"#
        );
        let at = start + turn * 1000;
        spans.push(span(
            random,
            &trace,
            &root,
            "chat m",
            at,
            &[
                ("gen_ai.operation.name", "chat"),
                ("gen_ai.request.model", "m"),
                ("gen_ai.input.messages", r#"[{"role":"user","parts":[{"type":"text","content":"go on"}]}]"#),
                ("gen_ai.output.messages", &output),
            ],
        ));
        spans.push(span(
            random,
            &trace,
            &root,
            "execute_tool search",
            at + 500,
            &[
                ("gen_ai.operation.name", "execute_tool"),
                ("gen_ai.tool.name", "search"),
                ("gen_ai.tool.call.id", &call),
                ("gen_ai.tool.call.arguments", "{\"q\":1}"),
                ("gen_ai.tool.call.result", "{\"hits\":2}"),
            ],
        ));
    }
    let mut last = span(
        random,
        &trace,
        &[],
        "invoke_agent searcher",
        start,
        &[("gen_ai.operation.name", "invoke_agent"), ("gen_ai.agent.name", "searcher")],
    );
    last.span_id = root;
    last.end_time_unix_nano = start + 10_000;
    spans.push(last);
    spans
}

fn span(
    random: &mut Random,
    trace: &[u8],
    parent: &[u8],
    name: &str,
    at: u64,
    attributes: &[(&str, &str)],
) -> Span {
    let attributes = attributes
        .iter()
        .map(|(key, value)| KeyValue {
            key: (*key).into(),
            value: Some(AnyValue { value: Some(Value::StringValue((*value).into())) }),
            ..KeyValue::default()
        })
        .collect();
    Span {
        trace_id: trace.to_vec(),
        span_id: random.next().to_be_bytes().to_vec(),
        parent_span_id: parent.to_vec(),
        name: name.into(),
        start_time_unix_nano: at,
        end_time_unix_nano: at + 400,
        attributes,
        ..Span::default()
    }
}

fn request(spans: &[Span]) -> ExportTraceServiceRequest {
    let scope_spans = vec![ScopeSpans { spans: spans.to_vec(), ..ScopeSpans::default() }];
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans { scope_spans, ..ResourceSpans::default() }],
    }
}

/// (trace id, span id) of every span in an OTLP/JSON request.
fn spans_of(otlp: &Json) -> Vec<(String, String)> {
    let each = |value: &Json, field: &str| value[field].as_array().cloned().unwrap_or_default();
    each(otlp, "resourceSpans")
        .iter()
        .flat_map(|r| each(r, "scopeSpans"))
        .flat_map(|s| each(&s, "spans"))
        .map(|s| (plain(&s["traceId"]), plain(&s["spanId"])))
        .collect()
}

fn plain(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn wait_for(mut holds: impl FnMut() -> bool, otherwise: &str) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{otherwise}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// xorshift: reproducible, and good enough to place a kill.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        let mut x = self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        x ^= x >> 27;
        x ^= x << 13;
        x ^= x >> 7;
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        x | 1
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}
