//! Messages that every later step repeats: a change in them is told once, by the step in which it shows first.

use std::{collections::HashSet, ops::Range};

use serde_json::Value;

use super::{
    align::{Names, align},
    content::{self, Content, sketch_message},
    digest::Digest,
    json::{self, Change, Place},
    sketch::Sketch,
    words::Effort,
};
use crate::{
    genai::message::{Message, Part},
    run::model::{Step, StepKind},
};

/// What differs that was told already, and what comparing may still cost.
#[derive(Debug)]
pub(super) struct History {
    /// Names of what stands for each other: messages, parts, or what repeats whole; 0 for nothing.
    told: HashSet<(u128, u128)>,
    /// Names of messages that both runs have.
    shared: HashSet<u128>,
    pub(super) effort: Effort,
}

/// What was found in the messages of a step.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) changes: Vec<Change>,
    /// Differences that an earlier step told.
    pub(super) inherited: u32,
}

/// A message, with its name and its place in a list.
type Named<'a> = (&'a Message, u128);

impl History {
    pub(super) fn new(a: &Content<'_>, b: &Content<'_>) -> Self {
        let names = |content: &Content<'_>| content.messages.iter().copied().collect::<HashSet<u128>>();
        let shared = names(a).intersection(&names(b)).copied().collect();
        Self { told: HashSet::new(), shared, effort: Effort::default() }
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
        let document = |side: Option<&Named<'_>>| side.map(|(message, _)| content::message(message));
        let path = format!("{path}/{at}");
        let (before, after) = (document(a), document(b));
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
        let (before, after) = (content::message(a.0), content::message(b.0));
        found.changes.extend(json::changes(place, &before, &after, &mut self.effort));
        self.tell(Some(a), Some(b));
    }

    /// Compares what two steps said.
    pub(super) fn outputs(&mut self, a: &Step, b: &Step, found: &mut Found) {
        let (a, b) = (outputs(a), outputs(b));
        self.messages("/output/messages", (&a, 0..a.len()), (&b, 0..b.len()), false, found);
    }

    /// Notes a difference in what a tool was given or gave back: the messages of later steps repeat it.
    pub(super) fn note_tool(&mut self, a: Option<&Step>, b: Option<&Step>) {
        let call = |step: &Step| name_of_call(&step.name, step.tool_arguments.as_ref());
        let result = |step: &Step| name_of_result(step.tool_result.as_ref());
        let [a, b] = [a, b].map(|step| step.filter(|step| step.kind == StepKind::ToolCall));
        for name in [&call as &dyn Fn(&Step) -> u128, &result] {
            let names = (a.map_or(0, name), b.map_or(0, name));
            if names.0 != names.1 {
                let _ = self.told.insert(names);
            }
        }
    }

    /// Notes what a step said and was given that the other run has no step for.
    pub(super) fn note_step(&mut self, content: &Content<'_>, step: &Step, is_a: bool) {
        let mut inputs = content.inputs(step);
        inputs.retain(|(_, name)| !self.shared.contains(name));
        for message in inputs.iter().chain(&outputs(step)) {
            let (a, b) = if is_a { (Some(message), None) } else { (None, Some(message)) };
            self.tell(a, b);
        }
        let (a, b) = if is_a { (Some(step), None) } else { (None, Some(step)) };
        self.note_tool(a, b);
    }

    fn tell(&mut self, a: Option<&Named<'_>>, b: Option<&Named<'_>>) {
        let name = |side: Option<&Named<'_>>| side.map_or(0, |(_, name)| *name);
        let _ = self.told.insert((name(a), name(b)));
        self.told.extend(differing_parts(a, b));
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
        let parts = differing_parts(a, b);
        let told = alike && !parts.is_empty() && parts.iter().all(|names| self.told.contains(names));
        if told {
            // Its parts need not be looked at again.
            let _ = self.told.insert(names);
        }
        told
    }
}

fn last<'l, 'm>(list: &'l [Named<'m>], range: Range<usize>) -> Option<&'l Named<'m>> {
    list.get(range)?.last()
}

fn outputs(step: &Step) -> Vec<Named<'_>> {
    step.output_messages.iter().map(|m| (&**m, content::name_of_message(m))).collect()
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
            (false, false) => 0,
        }
    };
    align(&[Names { a: &names_a, b: &names_b }], &score)
}

/// Names of the parts that differ, 0 where there is none.
fn differing_parts(a: Option<&Named<'_>>, b: Option<&Named<'_>>) -> Vec<(u128, u128)> {
    let names = |side: Option<&Named<'_>>| -> Vec<u128> {
        side.map(|(message, _)| message.parts.iter().map(name_of_part).collect()).unwrap_or_default()
    };
    let (mut a, mut b) = (names(a), names(b));
    while !a.is_empty() && a.last() == b.last() {
        let _ = (a.pop(), b.pop());
    }
    let at = |names: &[u128], n: usize| names.get(n).copied().unwrap_or_default();
    let all = (0..a.len().max(b.len())).map(|n| (at(&a, n), at(&b, n)));
    all.filter(|(a, b)| a != b).collect()
}

fn name_of_part(part: &Part) -> u128 {
    match part {
        Part::ToolCall { name, arguments, .. } => name_of_call(name, arguments.as_ref()),
        Part::ToolCallResponse { response, .. } => name_of_result(response.as_ref()),
        part => Digest::of(&content::parts(std::slice::from_ref(part))),
    }
}

fn name_of_call(name: &str, arguments: Option<&Value>) -> u128 {
    Digest::default().text("call").text(name).value(&opened(arguments)).finish()
}

fn name_of_result(result: Option<&Value>) -> u128 {
    Digest::default().text("result").value(&opened(result)).finish()
}

/// JSON text as what it stands for: a step may hold the one and a message the other.
fn opened(value: Option<&Value>) -> Value {
    match value {
        Some(Value::String(text)) => {
            serde_json::from_str(text).unwrap_or_else(|_| Value::from(text.as_str()))
        }
        value => value.cloned().unwrap_or_default(),
    }
}
