//! What differs between two runs.
//!
//! Steps are aligned by what they are and say; ids, times and the order of steps that ran at the same time make no
//! difference. Pure: no I/O, no clock. What a comparison may cost is bounded by counting, so that a folder and a
//! server give the same answer on any machine.
//!
//! `ids` and `content` name what is compared, `order` and `align` find which steps stand for each other, `step` and `history`
//! tell what differs in them, `json` and `words` where and in which words.

mod align;
mod content;
mod digest;
mod history;
mod ids;
mod order;
mod sketch;
mod step;
pub(crate) mod json;
pub(crate) mod words;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde::Serialize;
use serde_json::json;

use crate::{
    genai::operation::Usage,
    replay::document::duration_ms,
    run::model::{Replayability, Run, RunStatus, Step},
};
use align::{Names, align};
use content::{Content, StepContent};
use digest::Digest;
use history::History;
use json::{Change, Place};
use order::{Order, pair_groups};
pub use step::{Sides, StepDiff, StepOp};

/// What leads from one run to another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diff {
    /// True when nothing differs but ids, times and the order of steps that ran at the same time.
    pub same: bool,
    /// The first run.
    pub a: Side,
    /// The second run.
    pub b: Side,
    /// What differs at a glance.
    pub summary: Summary,
    /// What differs in how the runs ended, by pointers into the replay documents.
    pub changes: Vec<Change>,
    /// Every step of both runs.
    pub steps: Vec<StepDiff>,
}

/// One of the two runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Side {
    pub run_id: String,
    pub status: RunStatus,
    pub replayability: Replayability,
    pub steps: usize,
    pub duration_ms: Option<f64>,
    pub usage: Usage,
    pub record_digest: String,
}

/// Counts of steps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// That both runs have, and that did the same.
    pub same: u32,
    /// That both runs have, and in which something differs.
    pub changed: u32,
    /// That only the first run has.
    pub only_in_a: u32,
    /// That only the second run has.
    pub only_in_b: u32,
    /// In how many steps each area differs: `input`, `output`, `arguments`, `result`, `model`, `tokens`, ...
    pub areas: BTreeMap<&'static str, u32>,
}

/// Compares two runs.
pub fn diff(a: &Run, b: &Run) -> Diff {
    let (ordered_a, ordered_b) = (Ordered::of(a), Ordered::of(b));
    // Always in one direction: the way back is then the same way.
    let (changes, mut steps) = if ordered_a.names(&whole) <= ordered_b.names(&whole) {
        compare(&ordered_a, &ordered_b)
    } else {
        let (changes, steps) = compare(&ordered_b, &ordered_a);
        (json::reversed(changes), reversed(steps))
    };
    for diff in &mut steps {
        let step = diff.b.and_then(|n| b.steps.get(usize::try_from(n).ok()?));
        diff.name = step.map_or(std::mem::take(&mut diff.name), |step| step.name.clone());
    }
    let summary = Summary::of(&steps);
    let same = changes.is_empty() && summary.changed + summary.only_in_a + summary.only_in_b == 0;
    Diff { same, a: Side::of(a), b: Side::of(b), summary, changes, steps }
}

/// A run with its steps in the order in which they are compared.
struct Ordered<'a> {
    content: Content<'a>,
    order: Order,
}

impl<'a> Ordered<'a> {
    fn of(run: &'a Run) -> Self {
        let content = Content::of(run);
        Self { order: Order::of(&content), content }
    }

    /// The step at a place in the order, and its index.
    fn at(&self, place: usize) -> Option<(&'a Step, &StepContent, usize)> {
        let index = *self.order.steps.get(place)?;
        self.content.step(index).map(|(step, names)| (step, names, index))
    }

    fn names(&self, name: &dyn Fn(&StepContent) -> u128) -> Vec<u128> {
        (0..self.order.steps.len())
            .map(|place| self.at(place).map_or(0, |(_, names, _)| name(names)))
            .collect()
    }
}

fn whole(step: &StepContent) -> u128 {
    step.whole
}

fn compare(a: &Ordered<'_>, b: &Ordered<'_>) -> (Vec<Change>, Vec<StepDiff>) {
    let mut history = History::new(&a.content, &b.content);
    let ends = |ordered: &Ordered<'_>| {
        let run = ordered.content.run;
        json!({"status": run.status, "error": run.error})
    };
    let changes = json::changes(Place::both(""), &ends(a), &ends(b), &mut history.effort);
    let partners: BTreeMap<usize, usize> = pairs(a, b).into_iter().collect();
    let paired: HashSet<usize> = partners.values().copied().collect();
    let mut steps = Vec::with_capacity(a.order.steps.len().max(b.order.steps.len()));
    let mut next_b = 0;
    for place in 0..=a.order.steps.len() {
        let partner = partners.get(&place).copied();
        // What only the second run has comes before the next pair behind it, and at the end.
        let until = if place == a.order.steps.len() { b.order.steps.len() } else { partner.unwrap_or(0) };
        for alone in (next_b..until).filter(|place| !paired.contains(place)) {
            if let Some((step, ..)) = b.at(alone) {
                history.note_step(&b.content, step, false);
                steps.push(StepDiff::only(step, StepOp::OnlyInB));
            }
        }
        next_b = until.max(next_b);
        let here = a.at(place);
        match (here, partner.and_then(|place| b.at(place))) {
            (Some((.., at_a)), Some((.., at_b))) => {
                steps.extend(step::compare((&a.content, at_a), (&b.content, at_b), &mut history));
            }
            (Some((step, ..)), None) => {
                history.note_step(&a.content, step, true);
                steps.push(StepDiff::only(step, StepOp::OnlyInA));
            }
            (None, _) => {}
        }
    }
    (json::settled(changes), steps)
}

/// Which steps stand for each other, by their places.
fn pairs(a: &Ordered<'_>, b: &Ordered<'_>) -> Vec<(usize, usize)> {
    let of = |step: &StepContent, name: u128| {
        if name == 0 { 0 } else { Digest::default().number(step.label).number(name).finish() }
    };
    let given = |step: &StepContent| of(step, step.given);
    let said = |step: &StepContent| of(step, step.said);
    let both = |name: &dyn Fn(&StepContent) -> u128| (a.names(name), b.names(name));
    let levels = [both(&whole), both(&|step| step.own), both(&given), both(&said)];
    let levels: Vec<Names<'_>> = levels.iter().map(|(a, b)| Names { a, b }).collect();
    let score = |place_a: usize, place_b: usize| -> u32 {
        let both = a.at(place_a).zip(b.at(place_b));
        both.map_or(0, |((step_a, names_a, _), (step_b, names_b, _))| names_a.score(names_b, step_a, step_b))
    };
    let pairs = align(&levels, &score);
    pair_groups((&a.order, &b.order), &levels, &pairs, &score)
}

/// The steps of the way back. Where steps of either run stand alone, those of the first come first.
fn reversed(steps: Vec<StepDiff>) -> Vec<StepDiff> {
    let mut back: Vec<StepDiff> = steps.into_iter().map(StepDiff::reversed).collect();
    let alone = |step: &StepDiff| matches!(step.op, StepOp::OnlyInA | StepOp::OnlyInB);
    for group in back.chunk_by_mut(|one, next| alone(one) && alone(next)) {
        group.sort_by_key(|step| step.op);
    }
    back
}

impl Side {
    fn of(run: &Run) -> Self {
        Self {
            run_id: run.run_id.clone(),
            status: run.status,
            replayability: run.replayability,
            steps: run.steps.len(),
            duration_ms: duration_ms(run.start_ns, run.end_ns),
            usage: run.usage,
            record_digest: run.record_digest.to_string(),
        }
    }
}

impl Summary {
    fn of(steps: &[StepDiff]) -> Self {
        let mut summary = Self::default();
        for step in steps {
            match step.op {
                StepOp::Same => summary.same += 1,
                StepOp::Changed => summary.changed += 1,
                StepOp::OnlyInA => summary.only_in_a += 1,
                StepOp::OnlyInB => summary.only_in_b += 1,
            }
            let mut areas: BTreeSet<&str> = step.changes.iter().map(|change| area(&change.path)).collect();
            if step.tokens.is_some() {
                let _ = areas.insert("tokens");
            }
            for area in areas {
                *summary.areas.entry(area).or_default() += 1;
            }
        }
        summary
    }
}

/// Prefixes of pointers into a step document, and what stands there in a word.
const AREAS: &[(&str, &str)] = &[
    ("/input/system_instructions", "instructions"),
    ("/input", "input"),
    ("/output", "output"),
    ("/tool_definitions", "tools"),
    ("/tool/arguments", "arguments"),
    ("/tool/result", "result"),
    ("/retrieval", "retrieval"),
    ("/request", "parameters"),
    ("/model", "model"),
    ("/response_model", "model"),
    ("/provider", "model"),
    ("/finish_reasons", "finish"),
    ("/status", "status"),
    ("/error", "error"),
    ("/decision", "decision"),
    ("/name", "name"),
    ("/agent_path", "agent"),
];

fn area(path: &str) -> &'static str {
    let found = AREAS.iter().find(|(prefix, _)| path.starts_with(prefix));
    found.map_or("step", |(_, area)| area)
}

#[cfg(test)]
mod tests;
