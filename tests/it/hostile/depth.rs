//! Values in values: no depth ends the process or takes its neighbours along.

use std::time::Duration;

use serde_json::json;

use super::wire::{attribute, nest, resource_spans, text};
use crate::{
    client::{Client, Wire},
    harness::{Server, wait_for},
    watch::is_full,
};

/// How deep; the last is far past any stack.
const DEPTHS: &[usize] = &[1, 16, 31, 32, 33, 40, 48, 64, 95, 100, 127, 128, 200, 1000, 10_000, 100_000];

/// Scenario: spans whose attribute, message content or tool argument nests ever deeper, in protobuf, JSON, and JSON
/// text inside of messages.
/// Guarantee: each is answered, stored or counted as rejected; the server lives; every run that was stored can be read.
#[test]
fn a_deep_value_ends_the_process_or_hides_a_run() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start_set(data.path(), &[("store.idle_after_s", 1)]);
    let mut client = Client::new(&server);
    let (mut stored, mut rejected, mut id) = (Vec::new(), 0, 0);
    for depth in DEPTHS.iter().filter(|depth| is_full() || **depth != 10_000) {
        for (name, wires, make) in FORMS {
            for wire in *wires {
                id += 1;
                let answer = client.send(*wire, "", &make(id, *depth));
                let answer = answer.unwrap_or_else(|e| panic!("{name} of {depth} over {wire:?}: {e}"));
                let whole = answer.is_success() && answer.rejected_spans == 0;
                let counted = answer.is_success() && answer.rejected_spans == 1;
                assert!(whole || counted, "{name} of {depth} over {wire:?}: {answer:?}");
                assert!(answer.took < Duration::from_secs(20), "{name} of {depth} over {wire:?}: {answer:?}");
                if whole {
                    stored.push((id, format!("{name} of {depth} over {wire:?}")));
                } else {
                    rejected += 1;
                }
            }
        }
    }
    // Once from memory, and once from the tables.
    for from in ["memory", "the tables"] {
        for (id, name) in &stored {
            for part in ["", "/steps", "/replay", "/tree", "/otlp"] {
                let url = format!("{}/v1/runs/{id:032x}{part}", server.api());
                let status = ureq::get(&url).call().map(|a| a.status());
                assert!(
                    status.as_ref().is_ok_and(|s| s.is_success()),
                    "{name}{part} from {from}: {status:?}"
                );
            }
        }
        wait_for(|| is_settled(&server, stored.len()), "the runs do not settle");
    }
    assert!(server.terminate().success());
    let _again = Server::start(data.path());
    println!(
        "scorecard: 32 depth: up to {} levels in {} spans: {rejected} rejected by count, {} runs read, 0 aborts",
        DEPTHS.last().unwrap(),
        stored.len() + rejected,
        stored.len()
    );
}

fn is_settled(server: &Server, runs: usize) -> bool {
    let url = format!("{}/v1/runs?limit=500", server.api());
    let mut answer = ureq::get(&url).call().unwrap();
    let text = answer.body_mut().with_config().limit(1 << 30).read_to_string().unwrap();
    let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
    let items = answer["items"].as_array().unwrap();
    assert_eq!(items.len(), runs, "a run is hidden");
    items.iter().all(|run| run["settled"] == true)
}

type Form = (&'static str, &'static [Wire], fn(u64, usize) -> Vec<u8>);

const FORMS: &[Form] = &[
    ("list", &[Wire::Protobuf, Wire::Grpc], |id, depth| span(id, &attribute("k", &any(depth, list)))),
    ("map", &[Wire::Protobuf], |id, depth| span(id, &attribute("k", &any(depth, map)))),
    ("messages as a list", &[Wire::Protobuf], |id, depth| {
        span(id, &attribute("gen_ai.input.messages", &any(depth, list)))
    }),
    ("JSON list", &[Wire::Json], |id, depth| {
        json_span(id, r#"{"arrayValue":{"values":["#, r#"{"intValue":1}"#, "]}}", depth)
    }),
    ("JSON map", &[Wire::Json], |id, depth| {
        let open = r#"{"kvlistValue":{"values":[{"key":"k","value":"#;
        json_span(id, open, r#"{"intValue":1}"#, "}]}}", depth)
    }),
    ("JSON list that is not known", &[Wire::Json], |id, depth| {
        json_span(id, r#"{"new":["#, "1", "]}", depth)
    }),
    ("text of lists in messages", &[Wire::Protobuf, Wire::Grpc], |id, depth| {
        span(id, &text("gen_ai.input.messages", &texts(depth, "[", "1", "]")))
    }),
    ("text of maps in messages", &[Wire::Protobuf], |id, depth| {
        span(id, &text("gen_ai.output.messages", &texts(depth, r#"{"parts":[{"content":"#, "1", "}]}")))
    }),
    ("content of a message", &[Wire::Protobuf], |id, depth| {
        let content = texts(depth, r#"{"a":["#, "1", "]}");
        span(id, &text("gen_ai.input.messages", &format!(r#"[{{"role":"user","parts":[{content}]}}]"#)))
    }),
    ("text in texts", &[Wire::Protobuf], |id, depth| {
        // Each level doubles the escapes, so that a few are all that fit.
        let mut value = json!([{"role": "user", "content": "x"}]).to_string();
        for _ in 0..depth.min(12) {
            value = json!([{"role": "user", "content": value}]).to_string();
        }
        span(id, &text("gen_ai.input.messages", &value))
    }),
    ("tool definitions", &[Wire::Protobuf], |id, depth| {
        span(id, &text("gen_ai.tool.definitions", &texts(depth, r#"[{"properties":"#, "1", "}]")))
    }),
    ("a Python literal", &[Wire::Protobuf], |id, depth| {
        span(id, &text("gen_ai.input.messages", &texts(depth, "[{'a': (", "None", ",)}]")))
    }),
];

/// A span of a model call, whose run has the id of its trace.
fn span(id: u64, attributes: &[u8]) -> Vec<u8> {
    let call = [text("gen_ai.operation.name", "chat"), text("gen_ai.request.model", "m")].concat();
    resource_spans(id, &[call, attributes.to_vec()].concat())
}

fn json_span(id: u64, open: &str, core: &str, close: &str, depth: usize) -> Vec<u8> {
    let value = texts(depth, open, core, close);
    let ids = format!(r#""traceId":"{id:032x}","spanId":"{id:016x}""#);
    let call = r#"{"key":"gen_ai.operation.name","value":{"stringValue":"chat"}}"#;
    let attributes = format!(r#"{call},{{"key":"k","value":{value}}}"#);
    format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{{{ids},"attributes":[{attributes}]}}]}}]}}]}}"#)
        .into_bytes()
}

fn texts(depth: usize, open: &str, core: &str, close: &str) -> String {
    format!("{}{core}{}", open.repeat(depth), close.repeat(depth))
}

/// An `AnyValue` of that many levels. Lengths come before what they count, so that it is built from the inside and
/// backwards.
fn any(depth: usize, level: fn(usize) -> Vec<u8>) -> Vec<u8> {
    let core = nest(1, b"core");
    let mut reversed: Vec<u8> = core.into_iter().rev().collect();
    for _ in 0..depth {
        reversed.extend(level(reversed.len()).into_iter().rev());
    }
    reversed.reverse();
    reversed
}

/// Headers of an `ArrayValue` with one member of so many bytes.
fn list(length: usize) -> Vec<u8> {
    let inner = super::wire::field(1, length);
    [super::wire::field(5, inner.len() + length), inner].concat()
}

/// Headers of a `KeyValueList` with one pair whose value has so many bytes.
fn map(length: usize) -> Vec<u8> {
    let value = [nest(1, b"k"), super::wire::field(2, length)].concat();
    let pair = [super::wire::field(1, value.len() + length), value].concat();
    [super::wire::field(6, pair.len() + length), pair].concat()
}
