//! Compares replay documents with the `truth.json` of a capture: what really happened, matched on to the spans.
//!
//! A value is found when it is equal to the given one after JSON inside strings is opened, or stands somewhere
//! inside it (producers wrap values). Fields that the truth calls `missing` are not carried by the telemetry.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

/// Differences of one scenario: `hard` ones fail it, `verdict` ones are verdicts that the truth calls uncertain.
#[derive(Debug, Default)]
pub(crate) struct Differences {
    pub(crate) hard: Vec<String>,
    pub(crate) verdict: Vec<String>,
}

/// Compares all runs of a scenario.
pub(crate) fn compare(truth: &Value, documents: &[Value]) -> Differences {
    let mut all = Differences::default();
    let mut left: Vec<&Value> = documents.iter().collect();
    for run in list(truth, "runs") {
        let hits = hits(run, &left);
        let Some(first) = hits.first().copied() else {
            all.hard.push(format!("run {} {} absent", run["trace_ids"][0], run["run_id"]));
            continue;
        };
        left.retain(|d| !hits.iter().any(|h| std::ptr::eq(*h, *d)));
        let mut steps: Vec<&Value> = hits.iter().flat_map(|d| list(d, "steps")).collect();
        if hits.len() > 1 {
            steps.sort_by_key(|s| s["started_at"].as_str().unwrap_or_default());
        }
        let (hard, soft) = (run_differences(run, &steps, first), verdict_differences(run, first));
        all.hard.extend(hard);
        let certain = run["verdict_certain"].as_bool() == Some(true);
        if certain { &mut all.hard } else { &mut all.verdict }.extend(soft);
    }
    for extra in left {
        let called = list(extra, "steps").any(|s| s["kind"] == "model_call" || s["kind"] == "tool_call");
        if called {
            all.hard.push(format!("run {} is not in the truth", extra["run_id"]));
        }
    }
    all
}

fn hits<'a>(run: &Value, left: &[&'a Value]) -> Vec<&'a Value> {
    let wanted: BTreeSet<&str> = strings(run, "trace_ids").collect();
    let mut hits: Vec<&Value> =
        left.iter().copied().filter(|d| strings(d, "trace_ids").any(|t| wanted.contains(t))).collect();
    if hits.is_empty() {
        hits = left
            .iter()
            .copied()
            .filter(|d| !run["run_id"].is_null() && d["run_id"] == run["run_id"])
            .collect();
    }
    if hits.is_empty() && wanted.is_empty() {
        hits = left.first().copied().into_iter().collect();
    }
    if hits.len() > 1 && !flag(run, "joined") && run["alt_runs"].is_null() {
        let named: Vec<&Value> = hits.iter().copied().filter(|d| d["run_id"] == run["run_id"]).collect();
        hits = if named.is_empty() { hits.into_iter().take(1).collect() } else { named };
    }
    hits
}

fn run_differences(truth: &Value, steps: &[&Value], document: &Value) -> Vec<String> {
    let mut bad = Vec::new();
    let tolerated: BTreeSet<&str> =
        list(truth, "tolerated").filter_map(|t| t.as_str().or_else(|| t["span_id"].as_str())).collect();
    let asked: BTreeSet<&str> = list(truth, "steps")
        .filter(|s| strings(s, "kind_alt").any(|k| k == "task"))
        .flat_map(|s| s["span_id"].as_str().into_iter().chain(strings(s, "span_id_alt")))
        .collect();
    let steps: Vec<&Value> = steps
        .iter()
        .copied()
        .filter(|s| {
            let id = s["span_id"].as_str().unwrap_or_default();
            let kind = s["kind"].as_str().unwrap_or_default();
            (!tolerated.contains(id) || kind == "model_call" || kind == "tool_call")
                && (kind != "task" || asked.contains(id))
        })
        .collect();
    let wanted: Vec<(usize, &Value)> =
        list(truth, "steps").enumerate().filter(|(_, s)| !flag(s, "absent")).collect();
    if steps.len() != wanted.len() {
        let got: Vec<String> = steps.iter().map(|s| format!("{}:{}", s["kind"], s["name"])).collect();
        bad.push(format!("{} steps for {}: {}", steps.len(), wanted.len(), got.join(" ")));
    }
    let places = free_places(truth, &wanted);
    let mut used = BTreeSet::new();
    for (place, (index, want)) in wanted.iter().enumerate() {
        let alone = BTreeSet::from([place]);
        let best = places
            .get(&place)
            .unwrap_or(&alone)
            .iter()
            .filter(|p| !used.contains(*p))
            .filter_map(|p| Some((*p, step_differences(want, steps.get(*p)?))))
            .min_by_key(|(_, differences)| differences.len());
        match best {
            None => bad.push(format!("step {index} {} {} absent", want["kind"], want["name"])),
            Some((p, differences)) => {
                let _ = used.insert(p);
                bad.extend(differences.into_iter().map(|d| format!("step {index} {}: {d}", want["kind"])));
            }
        }
    }
    let conversation_ok = document["conversation"] == truth["conversation"]
        || list(truth, "conversation_alt").any(|c| *c == document["conversation"]);
    if !truth["conversation"].is_null() && !conversation_ok {
        bad.push(format!("conversation {} for {}", document["conversation"], truth["conversation"]));
    }
    if !truth["run_id"].is_null() && document["run_id"] != truth["run_id"] && !flag(truth, "joined") {
        bad.push(format!("run id {} for {}", document["run_id"], truth["run_id"]));
    }
    for checkpoint in strings(truth, "checkpoints") {
        if !list(document, "checkpoints").any(|c| *c == checkpoint || c["checkpoint_id"] == checkpoint) {
            bad.push(format!("checkpoint {checkpoint} absent"));
        }
    }
    bad
}

/// Places that a step may take: steps of one `parallel` group may stand in any order.
fn free_places(truth: &Value, wanted: &[(usize, &Value)]) -> BTreeMap<usize, BTreeSet<usize>> {
    let place_of: BTreeMap<usize, usize> = wanted.iter().enumerate().map(|(p, (i, _))| (*i, p)).collect();
    let mut places: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for group in list(truth, "parallel") {
        let group: BTreeSet<usize> = group
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|i| place_of.get(&(i.as_u64()? as usize)).copied())
            .collect();
        for place in &group {
            places.entry(*place).or_default().extend(&group);
        }
    }
    places
}

fn verdict_differences(truth: &Value, document: &Value) -> Vec<String> {
    let codes: BTreeSet<&str> =
        list(document, "partial_reasons").filter_map(|r| r["code"].as_str()).collect();
    let (given, wanted) = (&document["replayability"], &truth["replayability"]);
    let mut bad = Vec::new();
    if given != wanted && !list(truth, "replayability_alt").any(|a| a == given) {
        bad.push(format!("verdict {given} {codes:?} for {wanted} {}", truth["reasons"]));
    }
    let reasons: BTreeSet<&str> = strings(truth, "reasons").collect();
    let optional: BTreeSet<&str> = strings(truth, "reasons_optional").collect();
    bad.extend(reasons.difference(&codes).map(|r| format!("reason {r} not given")));
    bad.extend(
        codes
            .difference(&reasons)
            .filter(|r| !optional.contains(*r))
            .map(|r| format!("reason {r} given, not in the truth")),
    );
    bad
}

fn step_differences(want: &Value, step: &Value) -> Vec<String> {
    let missing: BTreeSet<&str> = strings(want, "missing").collect();
    let misses = |field: &str| missing.contains(field);
    let mut bad = Vec::new();
    if !accepted(want, "kind", &step["kind"]) && !list(want, "kind_alt").any(|k| *k == step["kind"]) {
        return vec![format!("kind {} for {}", step["kind"], want["kind"])];
    }
    let ids = ["span_id_alt", "superseded", "duplicates"];
    let other_id = || ids.iter().any(|f| list(want, f).any(|i| *i == step["span_id"]));
    if !want["span_id"].is_null() && step["span_id"] != want["span_id"] && !other_id() {
        bad.push(format!("span {} for {}", step["span_id"], want["span_id"]));
    }
    if !want["status"].is_null() && !misses("status") && !accepted(want, "status", &step["status"]) {
        bad.push(format!("status {} for {}", step["status"], want["status"]));
    }
    let failed = want["status"] == "error" && !misses("status") && !misses("error");
    let named = found(&want["error"], &step["error"])
        || list(&want["accept"], "error").any(|e| found(e, &step["error"]));
    if failed && !want["error"].is_null() && !named {
        bad.push(format!("error {} for {}", step["error"], want["error"]));
    }
    match want["kind"].as_str() {
        Some("model_call") => model_differences(want, step, &misses, &mut bad),
        Some("tool_call") => tool_differences(want, step, &misses, &mut bad),
        _ => {}
    }
    bad
}

fn model_differences(want: &Value, step: &Value, misses: &dyn Fn(&str) -> bool, bad: &mut Vec<String>) {
    let model_ok = accepted(want, "model", &step["model"])
        || step["model"] == want["request_model"]
        || step["model"] == want["response_model"];
    if !want["model"].is_null() && !misses("model") && !model_ok {
        bad.push(format!("model {} for {}", step["model"], want["model"]));
    }
    let text = Value::String(text_of(&step["output"]["messages"]));
    let text_ok = || found(&want["text"], &text) || list(&want["accept"], "text").any(|t| found(t, &text));
    let wants_text = want["text"].as_str().is_some_and(|t| !t.is_empty());
    if wants_text && !misses("text") && !text_ok() {
        bad.push(format!("text {text} for {}", want["text"]));
    }
    if wants_text && misses("text") && text != "" && !found(&want["text"], &text) {
        bad.push(format!("text {text} that the telemetry does not carry"));
    }
    let mut calls = calls_of(&step["output"]["messages"]);
    for (i, call) in list(want, "tool_calls").enumerate() {
        if misses("tool_calls") || misses(&format!("tool_calls[{i}]")) {
            continue;
        }
        let names_only = misses("tool_calls.arguments");
        let hit = calls.iter().position(|(name, arguments)| {
            **name == call["name"] && (names_only || found(&call["arguments"], arguments))
        });
        match hit {
            Some(hit) => drop(calls.remove(hit)),
            None => bad.push(format!("tool call {} not in the output", call["name"])),
        }
    }
    for (key, value) in want["usage"].as_object().into_iter().flatten() {
        let field = format!("{key}_tokens");
        let given = step["usage"][&field].as_u64().unwrap_or(0);
        let alternatives = list(&want["accept"], &format!("usage.{key}")).any(|a| a.as_u64() == Some(given));
        let known = ["input", "output", "cache_read", "cache_write", "reasoning"].contains(&key.as_str());
        let carried = known && !value.is_null() && !misses("usage") && !misses(&format!("usage.{key}"));
        if carried && value.as_u64() != Some(given) && !alternatives {
            bad.push(format!("{field} {given} for {value}"));
        }
    }
}

fn tool_differences(want: &Value, step: &Value, misses: &dyn Fn(&str) -> bool, bad: &mut Vec<String>) {
    if flag(want, "inferred") && !flag(step, "inferred") {
        bad.push("not marked as inferred".into());
    }
    if !want["name"].is_null() && !accepted(want, "name", &step["name"]) && step["name"] != want["real_name"]
    {
        bad.push(format!("tool {} for {}", step["name"], want["name"]));
    }
    for field in ["arguments", "result"] {
        let (wanted, given) = (&want[field], &step["tool"][field]);
        if wanted.is_null() {
            continue;
        }
        let soft = strings(want, "from_model_call").any(|f| f == field)
            || !want["recoverable"][field].is_null()
            || strings(want, "inferred_fields").any(|f| f == field);
        let blank = given.is_null() || *given == "" || given.as_object().is_some_and(Map::is_empty);
        let altered = flag(want, "redacted") || flag(want, "truncated");
        if misses(field) && !blank && !altered && !found(wanted, given) {
            bad.push(format!("{field} {given} that the telemetry does not carry"));
        }
        if !misses(field) && !soft && !found(wanted, given) {
            bad.push(format!("{field} {given} for {wanted}"));
        }
    }
}

fn accepted(want: &Value, field: &str, given: &Value) -> bool {
    want[field] == *given || list(&want["accept"], field).any(|a| a == given)
}

/// The wanted value is the given one, or stands somewhere inside it.
fn found(want: &Value, given: &Value) -> bool {
    found_opened(&opened(want), &opened(given))
}

fn found_opened(want: &Value, given: &Value) -> bool {
    if want == given || plain(want) == plain(given) {
        return true;
    }
    match given {
        Value::Object(given) => {
            let subset = want.as_object().is_some_and(|w| {
                !w.is_empty() && w.iter().all(|(k, v)| given.get(k).is_some_and(|g| found_opened(v, g)))
            });
            subset || given.values().any(|g| found_opened(want, g))
        }
        Value::Array(given) => given.iter().any(|g| found_opened(want, g)),
        Value::String(given) => match want {
            Value::String(want) => want.chars().count() > 3 && given.contains(want.as_str()),
            _ => embedded_json(given).is_some_and(|inner| found_opened(want, &opened(&inner))),
        },
        _ => false,
    }
}

/// JSON between the first opening and the last closing bracket of a text.
fn embedded_json(text: &str) -> Option<Value> {
    let (start, end) = (text.find(['[', '{'])?, text.rfind([']', '}'])?);
    serde_json::from_str(text.get(start..=end)?).ok()
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// JSON inside strings opened, white space folded, whole floats as integers.
fn opened(value: &Value) -> Value {
    match value {
        Value::String(text) => {
            let trimmed = text.trim();
            let number = trimmed.parse::<f64>().is_ok() && trimmed.ends_with(|c: char| c.is_ascii_digit());
            let looks_json = trimmed.starts_with(['{', '[', '"']);
            if looks_json || number || matches!(trimmed, "true" | "false" | "null") {
                if let Ok(inner) = serde_json::from_str::<Value>(trimmed) {
                    return opened(&inner);
                }
            }
            Value::String(trimmed.split_whitespace().collect::<Vec<_>>().join(" "))
        }
        Value::Array(items) => Value::Array(items.iter().map(opened).collect()),
        Value::Object(map) => {
            let sorted: BTreeMap<&String, &Value> = map.iter().collect();
            Value::Object(sorted.into_iter().map(|(k, v)| (k.clone(), opened(v))).collect())
        }
        Value::Number(n) => match n.as_f64() {
            Some(f) if n.is_f64() && f.fract() == 0.0 && f.abs() < 9e15 => Value::from(f as i64),
            _ => value.clone(),
        },
        other => other.clone(),
    }
}

fn parts_of(messages: &Value) -> impl Iterator<Item = &Value> {
    messages.as_array().into_iter().flatten().flat_map(|m| list(m, "parts"))
}

fn text_of(messages: &Value) -> String {
    parts_of(messages).filter(|p| p["type"] == "text").filter_map(|p| p["content"].as_str()).collect()
}

fn calls_of(messages: &Value) -> Vec<(&Value, &Value)> {
    parts_of(messages).filter(|p| p["type"] == "tool_call").map(|p| (&p["name"], &p["arguments"])).collect()
}

fn list<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    value[field].as_array().into_iter().flatten()
}

fn strings<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a str> + use<'a> {
    list(value, field).filter_map(Value::as_str)
}

fn flag(value: &Value, field: &str) -> bool {
    value[field].as_bool() == Some(true)
}
