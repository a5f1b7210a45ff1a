//! What load tests share: runs to send, the ledger of what was sent and acknowledged, and the census against it.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{BufRead, BufReader},
    time::{Duration, Instant},
};

use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{AnyValue, KeyValue, any_value::Value},
    trace::v1::{ResourceSpans, ScopeSpans, Span},
};
use serde_json::Value as Json;

use crate::harness::Server;

/// What the clients sent, and what was acknowledged; ids as hex.
#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) sent: BTreeSet<(String, String)>,
    pub(crate) acknowledged: BTreeSet<(String, String)>,
}

/// One pass over everything the tenant has: a look-up a trace would take longer than the kills.
pub(crate) fn census_by_api(server: &Server, ledger: &Ledger) -> usize {
    let mut seen: BTreeMap<(String, String), u32> = BTreeMap::new();
    // Line by line: it may be more than fits into memory twice.
    let mut answer = ureq::get(&format!("{}/v1/otlp", server.api())).call().unwrap();
    let lines = BufReader::new(answer.body_mut().with_config().limit(u64::MAX).reader()).lines();
    for line in lines {
        for span in spans_of(&serde_json::from_str(&line.unwrap()).unwrap()) {
            *seen.entry(span).or_default() += 1;
        }
    }
    census("api", &seen, ledger)
}

/// Returns how many acknowledged spans are not there; fails on a duplicate or an invented one.
pub(crate) fn census<N: Copy + Into<i64>>(
    by: &str,
    seen: &BTreeMap<(String, String), N>,
    ledger: &Ledger,
) -> usize {
    for (span, times) in seen {
        assert_eq!((*times).into(), 1, "{by}: {span:?} is there more than once");
        assert!(ledger.sent.contains(span), "{by}: {span:?} was never sent");
    }
    ledger.acknowledged.iter().filter(|s| !seen.contains_key(*s)).count()
}

/// How many of the spans are roots of [`run_spans`].
pub(crate) fn roots<N>(seen: &BTreeMap<(String, String), N>) -> usize {
    seen.keys().filter(|(trace, span)| trace.ends_with(span.as_str())).count()
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
pub(crate) fn ids(span: &Span) -> (String, String) {
    (hex(&span.trace_id), hex(&span.span_id))
}

/// (trace id, span id) of every span in an OTLP/JSON request.
pub(crate) fn spans_of(otlp: &Json) -> Vec<(String, String)> {
    let each = |value: &Json, field: &str| value[field].as_array().cloned().unwrap_or_default();
    each(otlp, "resourceSpans")
        .iter()
        .flat_map(|r| each(r, "scopeSpans"))
        .flat_map(|s| each(&s, "spans"))
        .map(|s| (plain(&s["traceId"]), plain(&s["spanId"])))
        .collect()
}

/// A text without its quotes.
pub(crate) fn plain(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Waits up to 20 s.
pub(crate) fn wait_for(mut holds: impl FnMut() -> bool, otherwise: &str) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{otherwise}");
        std::thread::sleep(Duration::from_millis(20));
    }
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
