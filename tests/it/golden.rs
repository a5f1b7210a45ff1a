//! What each capture is read as, in a form that a person can review: a golden file a scenario.
//!
//! `SPANREEL_UPDATE=1 cargo test --test it golden` writes them anew; the difference is then in the version control.

use std::{fmt::Write as _, path::Path};

use serde_json::Value;

use crate::{captures::imported, harness::captures};

/// Characters that are shown of a text.
const TEXT_MAX: usize = 100;

/// Scenario: each capture is imported, and its runs are written down.
/// Guarantee: what is read of it changes only with its golden file.
#[test]
fn a_capture_reads_differently_than_before() {
    let update = std::env::var("SPANREEL_UPDATE").is_ok();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut changed = Vec::new();
    for capture in captures() {
        let scenario = capture.file_name().unwrap().to_str().unwrap().to_owned();
        let (_data, mut documents) = imported(&capture);
        documents.sort_by_key(|run| (run["steps"][0]["started_at"].to_string(), run["run_id"].to_string()));
        let text: String = documents.iter().map(show).collect();
        let file = folder.join(format!("{scenario}.txt"));
        if update {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&file, &text).unwrap();
        } else if std::fs::read_to_string(&file).unwrap_or_default() != text {
            changed.push(scenario);
        }
    }
    assert!(
        changed.is_empty(),
        "read differently: {changed:?}; look at the difference after SPANREEL_UPDATE=1"
    );
}

fn show(run: &Value) -> String {
    let mut text = String::new();
    let list = |name: &str| {
        let words = run[name].as_array().into_iter().flatten().map(word);
        words.collect::<Vec<_>>().join(", ")
    };
    let mut line = |indent: usize, name: &str, value: String| {
        if !value.is_empty() && value != "null" {
            writeln!(text, "{:indent$}{name}: {value}", "").unwrap();
        }
    };
    line(0, "run", word(&run["run_id"]));
    line(2, "status", word(&run["status"]));
    line(2, "verdict", word(&run["replayability"]));
    line(2, "reasons", codes(&run["partial_reasons"]));
    line(2, "notes", codes(&run["notes"]));
    line(2, "conversation", word(&run["conversation"]));
    line(2, "user", word(&run["user"]));
    line(2, "agents", list("agents"));
    line(2, "usage", counts(&run["usage"]));
    for step in run["steps"].as_array().into_iter().flatten() {
        let head = [&step["index"], &step["kind"], &step["name"], &step["status"]].map(word).join(" ");
        line(2, "step", head);
        line(4, "span", word(&step["span_id"]));
        line(
            4,
            "agent",
            step["agent_path"].as_array().into_iter().flatten().map(word).collect::<Vec<_>>().join(" > "),
        );
        for name in ["dialect", "model", "provider", "decision", "parallel_group", "parent_index", "inferred"]
        {
            line(4, name, word(&step[name]).replace("false", ""));
        }
        line(
            4,
            "finish",
            step["finish_reasons"].as_array().into_iter().flatten().map(word).collect::<Vec<_>>().join(", "),
        );
        line(4, "usage", counts(&step["usage"]));
        line(4, "error", word(&step["error"]));
        let superseded = step["superseded_spans"].as_array().into_iter().flatten().map(word);
        line(4, "same call", superseded.collect::<Vec<_>>().join(", "));
        for side in ["input", "output"] {
            line(
                4,
                side,
                format!("{} {}", word(&step[side]["state"]), messages(&step[side])).trim_end().to_owned(),
            );
        }
        for side in ["call_id", "arguments", "result"] {
            line(4, side, word(&step["tool"][side]));
        }
        line(4, "query", word(&step["retrieval"]["query"]));
        line(4, "documents", word(&step["retrieval"]["documents"]));
    }
    text
}

fn codes(items: &Value) -> String {
    let mut counted = std::collections::BTreeMap::new();
    for item in items.as_array().into_iter().flatten() {
        *counted.entry(word(&item["code"])).or_insert(0) += 1;
    }
    counted.iter().map(|(code, times)| format!("{code} x{times}")).collect::<Vec<_>>().join(", ")
}

fn counts(usage: &Value) -> String {
    let known = usage.as_object().into_iter().flatten().filter(|(_, count)| !count.is_null());
    known
        .map(|(name, count)| format!("{} {count}", name.trim_end_matches("_tokens")))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Roles, and the parts of the last message: a history stands in the steps before.
fn messages(side: &Value) -> String {
    let all = side["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let roles: String =
        all.iter().map(|m| m["role"].as_str().unwrap_or("?").chars().next().unwrap_or('?')).collect();
    let parts = all.last().and_then(|m| m["parts"].as_array()).into_iter().flatten();
    let parts: Vec<String> = parts
        .map(|part| {
            let content = ["content", "arguments", "response"].iter().find_map(|k| part.get(*k));
            format!(
                "{}={}{}",
                word(&part["type"]),
                part["name"].as_str().unwrap_or_default(),
                content.map(word).unwrap_or_default()
            )
        })
        .collect();
    format!("{roles} {}", parts.join(" | ")).trim().to_owned()
}

fn word(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.replace(['\n', '\r'], " "),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    match text.char_indices().nth(TEXT_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
