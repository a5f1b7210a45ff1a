//! What differs between a live call and recorded ones, for those who have to find out why.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{
    canon::{Item, Print, Said},
    facets::Facets,
    plan::{Plan, Target},
    report::Class,
};
use crate::replay::diff::{
    json::{self, Change, Place},
    words::{Effort, Op},
};

/// A recorded call that is less like a live one is not its counterpart.
pub(super) const LIKENESS_MIN: f64 = 0.3;
/// Recorded calls that a miss is compared with.
const COMPARED_MAX: usize = 256;
/// Candidates that a report names.
const NAMED_MAX: usize = 3;
/// Characters of a value that a message shows.
const TOLD_MAX: usize = 300;
/// Words of an item that count when two are compared.
const WORDS_MAX: usize = 2_000;

/// A live call, in canonical form.
#[derive(Debug, Default)]
pub(super) struct Live {
    pub said: Said,
    pub facets: Facets,
}

/// How like a recorded call is to a live one, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    /// Position of the recorded call in the plan.
    pub at: usize,
    pub likeness: f64,
}

/// The recorded calls among `open` that are most like `live`, best first; of equals the earliest.
pub(super) fn candidates(
    plan: &Plan,
    target: Target,
    open: impl Iterator<Item = usize>,
    live: &Live,
) -> Vec<Candidate> {
    let of_target = open.filter(|at| plan.call(*at).is_some_and(|call| call.target == target));
    let mut found: Vec<Candidate> = of_target
        .take(COMPARED_MAX)
        .filter_map(|at| {
            plan.call(at).map(|call| Candidate { at, likeness: likeness(&plan.said_of(call), &live.said) })
        })
        .collect();
    found.sort_by(|a, b| b.likeness.total_cmp(&a.likeness).then(a.at.cmp(&b.at)));
    found.truncate(NAMED_MAX);
    found
}

/// Twice what both have over all that they have; the last thing said, when it differs, counts by its words.
fn likeness(recorded: &Said, live: &Said) -> f64 {
    let all =
        |said: &Said| said.system.iter().chain(&said.items).map(|i| i.prints().loose).collect::<Vec<_>>();
    let (a, b) = (all(recorded), all(live));
    if a.is_empty() && b.is_empty() {
        return 1.0;
    }
    let mut counts: HashMap<Print, usize> = HashMap::new();
    for print in &a {
        *counts.entry(*print).or_default() += 1;
    }
    let mut shared = 0.0;
    for print in &b {
        if let Some(count) = counts.get_mut(print).filter(|count| **count > 0) {
            *count -= 1;
            shared += 1.0;
        }
    }
    // Texts that differ are compared in pairs from both ends, where edits are.
    let differ = |x: &&Item, y: &&Item| x.prints().loose != y.prints().loose;
    let system = recorded.system.iter().zip(&live.system).find(|(x, y)| differ(x, y));
    let first = recorded.items.iter().zip(&live.items).find(|(x, y)| differ(x, y));
    for (x, y) in [system, first].into_iter().flatten() {
        shared += alike(&text(x), &text(y));
    }
    #[expect(clippy::cast_precision_loss, reason = "lengths of lists in memory")]
    let total = (a.len() + b.len()) as f64;
    (2.0 * shared / total).min(1.0)
}

fn text(item: &Item) -> String {
    match item {
        Item::System(text) | Item::Text { text, .. } => text.clone(),
        other => other.document().to_string(),
    }
}

/// Words of both over words of either.
#[expect(clippy::cast_precision_loss, reason = "bounded counts")]
fn alike(a: &str, b: &str) -> f64 {
    let mut counts: HashMap<&str, isize> = HashMap::new();
    let mut total = 0_usize;
    for word in a.split_whitespace().take(WORDS_MAX) {
        *counts.entry(word).or_default() += 1;
        total += 1;
    }
    let mut shared = 0_usize;
    for word in b.split_whitespace().take(WORDS_MAX) {
        total += 1;
        if let Some(count) = counts.get_mut(word).filter(|count| **count > 0) {
            *count -= 1;
            shared += 1;
        }
    }
    if total == 0 { 0.0 } else { 2.0 * shared as f64 / total as f64 }
}

/// What leads from the recorded call to the live one. Whatever only one side tells is no difference.
pub(super) fn changes(plan: &Plan, at: usize, live: &Live) -> Vec<Change> {
    let Some(call) = plan.call(at) else { return Vec::new() };
    let (mut recorded, mut now) =
        (document(&plan.said_of(call), &call.facets), document(&live.said, &live.facets));
    let absent =
        |value: Option<&Value>| value.is_none_or(|v| v.is_null() || v.as_object().is_some_and(Map::is_empty));
    for name in ["model", "tools"] {
        if absent(recorded.get(name)) || absent(now.get(name)) {
            let _ = (recorded.remove(name), now.remove(name));
        }
    }
    let parameters =
        |document: &Map<String, Value>| document.get("parameters").and_then(Value::as_object).cloned();
    if let (Some(a), Some(b)) = (parameters(&recorded), parameters(&now)) {
        for (document, other) in [(&mut recorded, &b), (&mut now, &a)] {
            if let Some(Value::Object(members)) = document.get_mut("parameters") {
                members.retain(|name, _| other.contains_key(name));
            }
        }
    }
    if call.facets.difference(&live.facets) < super::facets::Difference::Model {
        // Two names of one model.
        let _ = (recorded.remove("model"), now.remove("model"));
    }
    let (recorded, now) = (Value::Object(recorded), Value::Object(now));
    json::changes(Place::both(""), &recorded, &now, &mut Effort::default())
}

/// What kind of thing differs first, in the order of how much it explains.
pub(super) fn class_of(changes: &[Change]) -> Class {
    let of = |change: &Change| {
        let mut path = change.path.split('/').skip(1);
        match (path.next(), path.nth(1)) {
            (Some("model"), _) => Class::Model,
            (Some("tools"), _) => Class::ToolSet,
            (Some("parameters"), _) => Class::Parameters,
            (Some("messages"), Some("arguments")) => Class::ToolArguments,
            (Some("messages"), Some("result")) => Class::ToolResult,
            _ => Class::Prompt,
        }
    };
    changes.iter().map(of).min().unwrap_or(Class::Extra)
}

/// The first difference in words, short enough for an exception's message.
pub(super) fn told(changes: &[Change]) -> String {
    let Some(first) = changes.first() else { return "in what the record does not tell".into() };
    let more = match changes.len() {
        1 => String::new(),
        n => format!(" (and {} more)", n - 1),
    };
    if first.words.is_empty() {
        let value = |value: Option<&Value>| value.map_or("nothing".into(), |value| cut(&value.to_string()));
        let (before, after) = (value(first.before.as_ref()), value(first.after.as_ref()));
        return format!("at {}: recorded {before}, now {after}{more}", first.path);
    }
    let of = |op: Op| {
        let texts = first.words.iter().filter(|piece| piece.op == op).map(|piece| piece.text.trim());
        cut(&texts.collect::<Vec<_>>().join(" … "))
    };
    format!("at {}: recorded \"{}\", now \"{}\"{more}", first.path, of(Op::Delete), of(Op::Insert))
}

fn cut(text: &str) -> String {
    let mut short: String = text.chars().take(TOLD_MAX).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

fn document(said: &Said, facets: &Facets) -> Map<String, Value> {
    let items = |items: &[Item]| items.iter().map(Item::document).collect::<Value>();
    let mut document: Map<String, Value> =
        facets.document().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let _ = document.insert("instructions".into(), items(&said.system));
    let _ = document.insert("messages".into(), items(&said.items));
    document
}
