//! Clients that send runs under load, and what must be there of them afterwards.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{AnyValue, KeyValue, any_value::Value},
    trace::v1::{ResourceSpans, ScopeSpans, Span},
};
use prost::Message;
use serde_json::Value as Json;

use crate::harness::{NO_READERS, Server, readers, skipped, wait_for};

const CLIENTS: u64 = 4;

/// Trace id and span id, as hex.
pub(crate) type Id = (String, String);

/// What the clients sent, and what was acknowledged.
#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) sent: BTreeSet<Id>,
    pub(crate) acknowledged: BTreeSet<Id>,
}

/// Clients that send OTLP over HTTP until they are told to stop.
pub(crate) struct Load {
    shared: Arc<Shared>,
    clients: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    ledger: Mutex<Ledger>,
    endpoints: Mutex<Vec<String>>,
    stop: AtomicBool,
    acks: AtomicU64,
}

impl Shared {
    fn url(&self, client: u64) -> String {
        let endpoints = self.endpoints.lock().unwrap();
        format!("{}/v1/traces", endpoints[client as usize % endpoints.len()])
    }
}

impl Load {
    /// The clients send to these in turn.
    pub(crate) fn start(endpoints: Vec<String>) -> Self {
        let shared = Arc::new(Shared { endpoints: Mutex::new(endpoints), ..Shared::default() });
        let clients = (0..CLIENTS)
            .map(|client| {
                let shared = shared.clone();
                std::thread::spawn(move || send_until_stopped(client, &shared))
            })
            .collect();
        Self { shared, clients }
    }

    /// From now on the clients send there.
    pub(crate) fn send_to(&self, endpoints: Vec<String>) {
        *self.shared.endpoints.lock().unwrap() = endpoints;
    }

    /// Waits for one more acknowledgement, and ends the clients.
    pub(crate) fn stop(self) -> Ledger {
        let acks = || self.shared.acks.load(Ordering::SeqCst);
        let before = acks();
        wait_for(|| acks() > before, "no acknowledgement after the last restart");
        self.shared.stop.store(true, Ordering::SeqCst);
        for client in self.clients {
            client.join().unwrap();
        }
        std::mem::take(&mut *self.shared.ledger.lock().unwrap())
    }
}

impl Ledger {
    /// How many acknowledged spans the API lacks; fails on a duplicate or an invented one. One pass over everything the
    /// tenant has: a look-up a trace would take longer than the kills.
    pub(crate) fn lost_by_api(&self, server: &Server) -> usize {
        let mut seen: BTreeMap<Id, u32> = BTreeMap::new();
        for line in server.get_lines("/v1/otlp") {
            for span in spans_of(&line) {
                *seen.entry(span).or_default() += 1;
            }
        }
        self.lost("api", &seen)
    }

    /// Fails when the tables of a tenant lack an acknowledged span, or hold a span or a step twice or an invented one.
    pub(crate) fn check_tables(&self, tenant: &Path) {
        let Some(tables) = readers(tenant) else {
            return skipped(NO_READERS);
        };
        let pairs = |table: &str| -> Vec<Id> {
            let rows = tables["ids"][table].as_array().unwrap();
            rows.iter().map(|r| (plain(&r[0]), plain(&r[1]))).collect()
        };
        let mut seen = BTreeMap::new();
        for span in pairs("spans") {
            *seen.entry(span).or_default() += 1;
        }
        assert_eq!(self.lost("tables", &seen), 0);
        let steps = pairs("run_steps");
        assert_eq!(steps.iter().collect::<BTreeSet<_>>().len(), steps.len(), "a step stands twice");
        // Each run is a root, and a model call and a tool call a turn; the root is no step.
        let roots = seen.keys().filter(|(trace, span)| trace.ends_with(span.as_str())).count();
        assert_eq!(steps.len(), seen.len() - roots, "steps for the spans in the tables");
    }

    fn lost(&self, by: &str, seen: &BTreeMap<Id, u32>) -> usize {
        for (span, times) in seen {
            assert_eq!(*times, 1, "{by}: {span:?} is there more than once");
            assert!(self.sent.contains(span), "{by}: {span:?} was never sent");
        }
        self.acknowledged.iter().filter(|s| !seen.contains_key(*s)).count()
    }
}

/// Sends run after run, in requests of a few spans; repeats a request until it is acknowledged.
fn send_until_stopped(client: u64, shared: &Shared) {
    let mut random = Random(client + 1);
    let agent = ureq::Agent::new_with_config(
        ureq::Agent::config_builder().timeout_global(Some(Duration::from_secs(5))).build(),
    );
    let stopped = || shared.stop.load(Ordering::SeqCst);
    while !stopped() {
        let spans = run_spans(&mut random);
        for chunk in spans.chunks(3) {
            let ids: Vec<Id> = chunk.iter().map(ids).collect();
            shared.ledger.lock().unwrap().sent.extend(ids.iter().cloned());
            let body = request(chunk).encode_to_vec();
            loop {
                let url = shared.url(client);
                let answer = agent.post(&url).content_type("application/x-protobuf").send(&body[..]);
                if answer.is_ok() {
                    shared.ledger.lock().unwrap().acknowledged.extend(ids);
                    let _ = shared.acks.fetch_add(1, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(10));
                    break;
                }
                if stopped() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// A root span, and five turns of a model call that asks for a tool, and the tool call.
pub(crate) fn run_spans(random: &mut Random) -> Vec<Span> {
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

/// A span of that name, with text attributes.
pub(crate) fn span(
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

/// The request that holds these spans.
pub(crate) fn request(spans: &[Span]) -> ExportTraceServiceRequest {
    let scope_spans = vec![ScopeSpans { spans: spans.to_vec(), ..ScopeSpans::default() }];
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans { scope_spans, ..ResourceSpans::default() }],
    }
}

/// The ids of a span, as the ledger has them.
pub(crate) fn ids(span: &Span) -> Id {
    (hex(&span.trace_id), hex(&span.span_id))
}

/// (trace id, span id) of every span in an OTLP/JSON request.
pub(crate) fn spans_of(otlp: &Json) -> Vec<Id> {
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

/// xorshift: reproducible, and good enough to place a kill.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        let mut x = self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        x ^= x >> 27;
        x ^= x << 13;
        x ^= x >> 7;
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        x | 1
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}
