//! Every capture: imported, read back, compared with what really happened.

use std::{collections::BTreeMap, path::Path};

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
