//! Every capture: imported, read back, compared with what really happened.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use serde_json::Value;

use crate::{
    harness::{captures, json, output},
    truth,
};

/// Captures whose truth joins what no rule of run identity joins: here LangChain's copy of each model call stands in a
/// trace of its own, and only equal response ids tie calls of different traces together. The copy has none.
const COPIES_IN_OTHER_TRACES: &[&str] = &["js-traceloop-langchain"];

/// Scenario: each capture is imported into a fresh folder.
/// Guarantee: its runs have the steps of its truth, in order, with arguments, results, usage, states and verdict.
#[test]
fn a_capture_differs_from_what_happened() {
    let mut failed = Vec::new();
    let (mut scenarios, mut verdicts) = (0, 0);
    for folder in captures() {
        let truth = read_json(&folder.join("truth.json"));
        if COPIES_IN_OTHER_TRACES.contains(&truth["scenario"].as_str().unwrap_or_default()) {
            continue;
        }
        scenarios += 1;
        let (_data, documents) = imported(&folder);
        let differences = truth::compare(&truth, &documents);
        verdicts += differences.verdict.len();
        failed.extend(differences.hard.iter().map(|d| format!("{}: {d}", truth["scenario"])));
    }
    println!("captures: {scenarios} scenarios, {verdicts} uncertain verdicts differ");
    assert!(scenarios > 0);
    assert!(failed.is_empty(), "{} differences:\n{}", failed.len(), failed.join("\n"));
}

/// Scenario: 44 spans in 44 traces, without a parent, a link or a session; no two of them share a response id.
/// Guarantee: each copy stays a run of its own, with the counts of the call that it repeats; without the copies, the
/// runs are what happened.
#[test]
fn a_copy_in_a_trace_of_its_own_is_joined_by_a_guess() {
    for folder in captures() {
        let truth = read_json(&folder.join("truth.json"));
        if !COPIES_IN_OTHER_TRACES.contains(&truth["scenario"].as_str().unwrap_or_default()) {
            continue;
        }
        let mut responses = BTreeSet::new();
        for request in sent(&folder) {
            for span in all(&request, &["resourceSpans", "scopeSpans", "spans"]) {
                assert!(span["parentSpanId"].is_null() && span["links"].is_null(), "{span}");
                for attribute in all(span, &["attributes"]) {
                    assert_ne!(attribute["key"], "session.id");
                    let id = attribute["value"].to_string();
                    assert!(attribute["key"] != "gen_ai.response.id" || responses.insert(id), "{span}");
                }
            }
        }
        let (_data, documents) = imported(&folder);
        let superseded = all(&truth, &["runs", "superseded"]);
        let is_copy = |run: &&Value| superseded.contains(&&run["steps"][0]["span_id"]);
        let (copies, calls): (Vec<&Value>, Vec<&Value>) = documents.iter().partition(is_copy);
        assert_eq!((copies.len(), responses.len()), (superseded.len(), superseded.len()));
        let counts =
            |run: &Value| (run["usage"]["input_tokens"].clone(), run["usage"]["output_tokens"].clone());
        for copy in copies {
            assert_eq!(copy["trace_ids"].as_array().map(Vec::len), Some(1), "{}", copy["run_id"]);
            let called = calls.iter().any(|run| counts(run) == counts(copy));
            assert!(called, "{} repeats nothing", copy["run_id"]);
        }
        let calls: Vec<Value> = calls.into_iter().cloned().collect();
        // What happened in one run stands in many here.
        let mut apart = truth.clone();
        for run in apart["runs"].as_array_mut().into_iter().flatten() {
            run["joined"] = true.into();
        }
        assert_eq!(truth::compare(&apart, &calls).hard, Vec::<String>::new());
    }
}

/// The items at the end of a path of lists.
fn all<'a>(value: &'a Value, path: &[&str]) -> Vec<&'a Value> {
    let below = |at: Vec<&'a Value>, key: &&str| {
        at.into_iter().flat_map(|value| value[*key].as_array().into_iter().flatten()).collect()
    };
    path.iter().fold(vec![value], below)
}

/// Scenario: each capture is imported and exported as OTLP again.
/// Guarantee: the same spans come back, with their attributes, events, links and status.
#[test]
fn an_export_loses_part_of_a_span() {
    for folder in captures() {
        let data = tempfile::tempdir().unwrap();
        let data = data.path().to_str().unwrap();
        let import = output(&["import", folder.to_str().unwrap(), "--data", data]);
        assert_eq!(import.status.code(), Some(0), "{folder:?}: {}", String::from_utf8_lossy(&import.stderr));
        let export = output(&["export", "--all", "--format", "otlp", "-o", "-", "--data", data]);
        assert!(export.status.success(), "{folder:?}: {}", String::from_utf8_lossy(&export.stderr));
        let requests = String::from_utf8(export.stdout).unwrap();
        let exported = requests.lines().map(|l| serde_json::from_str(l).unwrap());
        assert_eq!(spans(exported), spans(sent(&folder)), "{folder:?}");
    }
}

/// The documents of all runs of a capture, and the folder they are stored in.
pub(crate) fn imported(folder: &Path) -> (tempfile::TempDir, Vec<Value>) {
    let data = tempfile::tempdir().unwrap();
    let path = data.path().to_str().unwrap();
    let import = output(&["import", folder.to_str().unwrap(), "--data", path]);
    assert_eq!(import.status.code(), Some(0), "{folder:?}: {}", String::from_utf8_lossy(&import.stderr));
    let runs = json(&["runs", "--json", "--data", path]);
    let ids = runs.as_array().unwrap().iter().map(|r| r["run_id"].as_str().unwrap());
    let documents = ids.map(|id| json(&["replay", id, "--json", "--data", path])).collect();
    (data, documents)
}

fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// The trace requests of a capture, as OTLP/JSON.
fn sent(folder: &Path) -> impl Iterator<Item = Value> {
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    files.into_iter().filter_map(|file| {
        let name = file.file_name()?.to_str()?;
        let bytes = std::fs::read(&file).unwrap();
        if name.ends_with(".traces.json") {
            Some(serde_json::from_slice(&bytes).unwrap())
        } else if name.ends_with(".traces.pb") {
            let request = prost::Message::decode(&bytes[..]).unwrap();
            Some(spanreel::otlp::json::encode_traces(&request))
        } else {
            None
        }
    })
}

/// Each span by its ids, in a form that does not depend on the encoder: with resource and scope, attributes sorted,
/// numbers as text, absent and default values left out.
fn spans(requests: impl Iterator<Item = Value>) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for request in requests {
        for resource in request["resourceSpans"].as_array().into_iter().flatten() {
            for scope in resource["scopeSpans"].as_array().into_iter().flatten() {
                for span in scope["spans"].as_array().into_iter().flatten() {
                    let id = format!("{}{}", span["traceId"], span["spanId"]);
                    let whole = serde_json::json!({
                        "resource": resource["resource"], "resourceSchema": resource["schemaUrl"],
                        "scope": scope["scope"], "scopeSchema": scope["schemaUrl"], "span": span,
                    });
                    let _ = all.insert(id, canonical(&whole));
                }
            }
        }
    }
    all
}

fn canonical(value: &Value) -> Value {
    match value {
        Value::Number(n) => Value::String(n.to_string()),
        Value::Array(items) => {
            let mut items: Vec<Value> = items.iter().map(canonical).collect();
            if items.iter().all(|i| i["key"].is_string()) {
                items.sort_by_key(|i| i["key"].to_string());
            }
            Value::Array(items)
        }
        Value::Object(map) => {
            let entries = map.iter().map(|(k, v)| (k.clone(), canonical(v)));
            let default = |v: &Value| {
                v.is_null()
                    || matches!(v.as_str(), Some("" | "0"))
                    || v.as_array().is_some_and(Vec::is_empty)
                    || v.as_object().is_some_and(serde_json::Map::is_empty)
            };
            let kept: BTreeMap<String, Value> =
                entries.filter(|(k, v)| k.ends_with("Value") || !default(v)).collect();
            Value::Object(kept.into_iter().collect())
        }
        other => other.clone(),
    }
}
