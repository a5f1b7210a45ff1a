//! Messages that every later step repeats: a change in them is told once, by the step in which it shows first.

use std::{collections::HashSet, ops::Range};

use serde_json::Value;

use super::{
    align::{Names, align},
    content::{Content, sketch_message},
    digest::Digest,
    ids::Ids,
    json::{self, Change, Place},
    sketch::Sketch,
    words::Effort,
};
use crate::{
    genai::message::Message,
    run::model::{Step, StepKind},
};

/// What differs that was told already, and what comparing may still cost.
#[derive(Debug)]
pub(super) struct History<'a> {
    ids: (&'a Ids<'a>, &'a Ids<'a>),
    /// Names of what stands for each other: messages, parts, or what repeats whole; 0 for nothing.
    told: HashSet<(u128, u128)>,
    /// Names of messages that both runs have.
    shared: HashSet<u128>,
    pub(super) effort: Effort,
}

/// How alike two messages of other roles must be to stand for each other, of 8.
const LIKENESS_MIN: u32 = 4;

/// What was found in the messages of a step.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) changes: Vec<Change>,
    /// Differences that an earlier step told.
    pub(super) inherited: u32,
}

/// A message, with its name and its place in a list.
type Named<'a> = (&'a Message, u128);

impl<'a> History<'a> {
    pub(super) fn new(a: &'a Content<'_>, b: &'a Content<'_>) -> Self {
        let names = |content: &Content<'_>| content.messages.iter().copied().collect::<HashSet<u128>>();
        let shared = names(a).intersection(&names(b)).copied().collect();
        Self { ids: (&a.ids, &b.ids), told: HashSet::new(), shared, effort: Effort::default() }
    }

    /// Compares what stands at `path` and repeats as a whole, such as the system instructions.
    pub(super) fn repeated(&mut self, path: &str, before: &Value, after: &Value, found: &mut Found) {
        if json::same(before, after) {
            return;
        }
        let name = |value| Digest::default().text(path).value(value).finish();
        if self.told.insert((name(before), name(after))) {
            found.changes.extend(json::changes(Place::both(path), before, after, &mut self.effort));
        } else {
            found.inherited += 1;
        }
    }

    /// Compares the input messages of two steps.
    pub(super) fn inputs(&mut self, a: &[Named<'_>], b: &[Named<'_>], found: &mut Found) {
        let (mut from, mut to) = ((0, 0), (a.len(), b.len()));
        while let Some(over) = self.passes(a.get(from.0), b.get(from.1), found) {
            from = (from.0 + over.0, from.1 + over.1);
        }
        while let Some(over) = self.passes(last(a, from.0..to.0), last(b, from.1..to.1), found) {
            to = (to.0 - over.0, to.1 - over.1);
        }
        self.messages("/input/messages", (a, from.0..to.0), (b, from.1..to.1), true, found);
    }

    /// How many messages of each side need no telling: two that are equal or told, or one that is.
    fn passes(
        &mut self,
        a: Option<&Named<'_>>,
        b: Option<&Named<'_>>,
        found: &mut Found,
    ) -> Option<(usize, usize)> {
        let (over, told) = match (a, b) {
            (Some(a), Some(b)) if a.1 == b.1 => ((1, 1), false),
            (Some(_), Some(_)) if self.is_told(a, b) => ((1, 1), true),
            (Some(_), _) if self.is_told(a, None) => ((1, 0), true),
            (_, Some(_)) if self.is_told(None, b) => ((0, 1), true),
            _ => return None,
        };
        found.inherited += u32::from(told);
        Some(over)
    }

    /// Compares two lists of messages, of which the parts given by the ranges differ.
    fn messages(
        &mut self,
        path: &str,
        (all_a, range_a): (&[Named<'_>], Range<usize>),
        (all_b, range_b): (&[Named<'_>], Range<usize>),
        inherits: bool,
        found: &mut Found,
    ) {
        let a = all_a.get(range_a.clone()).unwrap_or_default();
        let b = all_b.get(range_b.clone()).unwrap_or_default();
        let pairs = pair(a, b);
        let (mut next_a, mut next_b) = (0, 0);
        for (at_a, at_b) in pairs.into_iter().chain([(a.len(), b.len())]) {
            for at in next_a..at_a {
                self.one(path, range_a.start + at, a.get(at), None, inherits, found);
            }
            for at in next_b..at_b {
                self.one(path, range_b.start + at, None, b.get(at), inherits, found);
            }
            if let (Some(x), Some(y)) = (a.get(at_a), b.get(at_b)) {
                let places = (range_a.start + at_a, range_b.start + at_b);
                self.two(path, places, x, y, inherits, found);
            }
            (next_a, next_b) = (at_a + 1, at_b + 1);
        }
    }

    fn one(
        &mut self,
        path: &str,
        at: usize,
        a: Option<&Named<'_>>,
        b: Option<&Named<'_>>,
        inherits: bool,
        found: &mut Found,
    ) {
        if inherits && self.is_told(a, b) {
            found.inherited += 1;
            return;
        }
        let path = format!("{path}/{at}");
        let (before, after) = (a.map(|a| self.ids.0.message(a.0)), b.map(|b| self.ids.1.message(b.0)));
        found.changes.push(json::change(&path, &path, before.as_ref(), after.as_ref(), &mut self.effort));
        self.tell(a, b);
    }

    fn two(
        &mut self,
        path: &str,
        places: (usize, usize),
        a: &Named<'_>,
        b: &Named<'_>,
        inherits: bool,
        found: &mut Found,
    ) {
        if a.1 == b.1 {
            return;
        }
        if inherits && self.is_told(Some(a), Some(b)) {
            found.inherited += 1;
            return;
        }
        let (before, after) = (format!("{path}/{}", places.0), format!("{path}/{}", places.1));
        let place = Place { before: &before, after: &after };
        let (before, after) = (self.ids.0.message(a.0), self.ids.1.message(b.0));
        found.changes.extend(json::changes(place, &before, &after, &mut self.effort));
        self.tell(Some(a), Some(b));
    }

    /// Compares what two steps said.
    pub(super) fn outputs(&mut self, a: &[Named<'_>], b: &[Named<'_>], found: &mut Found) {
        self.messages("/output/messages", (a, 0..a.len()), (b, 0..b.len()), false, found);
    }

    /// Notes a difference in what a tool was given or gave back: the messages of later steps repeat it.
    pub(super) fn note_tool(&mut self, a: Option<&Step>, b: Option<&Step>) {
        let [a, b] = [a, b].map(|step| step.filter(|step| step.kind == StepKind::ToolCall));
        let call = |ids: &Ids<'_>, step: &Step| ids.name_of_call(&step.name, step.tool_arguments.as_ref());
        let result = |ids: &Ids<'_>, step: &Step| ids.name_of_result(step.tool_result.as_ref());
        for name in [&call as &dyn Fn(&Ids<'_>, &Step) -> u128, &result] {
            let names = (a.map_or(0, |a| name(self.ids.0, a)), b.map_or(0, |b| name(self.ids.1, b)));
            if names.0 != names.1 {
                let _ = self.told.insert(names);
            }
        }
    }

    /// Notes what a step said and was given that the other run has no step for.
    pub(super) fn note_step(&mut self, content: &Content<'_>, step: &Step, is_a: bool) {
        let mut inputs = content.inputs(step);
        inputs.retain(|(_, name)| !self.shared.contains(name));
        for message in inputs.iter().chain(&content.outputs(step)) {
            let (a, b) = if is_a { (Some(message), None) } else { (None, Some(message)) };
            self.tell(a, b);
        }
        let (a, b) = if is_a { (Some(step), None) } else { (None, Some(step)) };
        self.note_tool(a, b);
    }

    fn tell(&mut self, a: Option<&Named<'_>>, b: Option<&Named<'_>>) {
        let name = |side: Option<&Named<'_>>| side.map_or(0, |(_, name)| *name);
        let _ = self.told.insert((name(a), name(b)));
        let parts = self.differing_parts(a, b);
        self.told.extend(parts);
    }

    fn is_told(&mut self, a: Option<&Named<'_>>, b: Option<&Named<'_>>) -> bool {
        let name = |side: Option<&Named<'_>>| side.map_or(0, |(_, name)| *name);
        let names = (name(a), name(b));
        if self.told.is_empty() || self.told.contains(&names) {
            return !self.told.is_empty();
        }
        let alike = match (a, b) {
            (Some((a, _)), Some((b, _))) => a.role == b.role && a.name == b.name,
            _ => true,
        };
        let parts = self.differing_parts(a, b);
        let told = alike && !parts.is_empty() && parts.iter().all(|names| self.told.contains(names));
        if told {
            // Its parts need not be looked at again.
            let _ = self.told.insert(names);
        }
        told
    }

    /// Names of the parts that differ, 0 where there is none.
    fn differing_parts(&self, a: Option<&Named<'_>>, b: Option<&Named<'_>>) -> Vec<(u128, u128)> {
        let names = |side: Option<&Named<'_>>, ids: &Ids<'_>| -> Vec<u128> {
            let parts = side.into_iter().flat_map(|(message, _)| &message.parts);
            parts.map(|part| ids.name_of_part(part)).collect()
        };
        let (mut a, mut b) = (names(a, self.ids.0), names(b, self.ids.1));
        while !a.is_empty() && a.last() == b.last() {
            let _ = (a.pop(), b.pop());
        }
        let at = |names: &[u128], n: usize| names.get(n).copied().unwrap_or_default();
        let all = (0..a.len().max(b.len())).map(|n| (at(&a, n), at(&b, n)));
        all.filter(|(a, b)| a != b).collect()
    }
}

fn last<'l, 'm>(list: &'l [Named<'m>], range: Range<usize>) -> Option<&'l Named<'m>> {
    list.get(range)?.last()
}

/// Which messages stand for each other.
fn pair(a: &[Named<'_>], b: &[Named<'_>]) -> Vec<(usize, usize)> {
    if a.is_empty() || b.is_empty() {
        return Vec::new();
    }
    let names = |list: &[Named<'_>]| list.iter().map(|(_, name)| *name).collect::<Vec<_>>();
    let sketches = |list: &[Named<'_>]| {
        let sketch = |(message, _): &Named<'_>| {
            let mut sketch = Sketch::default();
            sketch_message(&mut sketch, message);
            sketch
        };
        list.iter().map(sketch).collect::<Vec<_>>()
    };
    let (names_a, names_b, sketches_a, sketches_b) = (names(a), names(b), sketches(a), sketches(b));
    let score = |at_a: usize, at_b: usize| -> u32 {
        let (Some(x), Some(y)) = (a.get(at_a), b.get(at_b)) else { return 0 };
        let likeness = sketches_a.get(at_a).zip(sketches_b.get(at_b)).map_or(0, |(x, y)| x.likeness(y));
        match (x.1 == y.1, x.0.role == y.0.role) {
            (true, _) => 20,
            (false, true) => 2 + likeness,
            // Producers do not agree on who gives a tool's answer.
            (false, false) if likeness >= LIKENESS_MIN => likeness,
            (false, false) => 0,
        }
    };
    align(&[Names { a: &names_a, b: &names_b }], &score)
}
