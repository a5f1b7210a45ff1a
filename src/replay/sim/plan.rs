//! What a record can be asked: the recorded calls of one or more runs, by their keys.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use serde_json::Value;

use super::{
    canon::{self, Item, Print, Prints, Said},
    facets::Facets,
};
use crate::{
    genai::{
        message::{ContentState, Part},
        operation::OpStatus,
    },
    run::{
        Run,
        model::{Step, StepKind},
    },
};

/// Places of a live conversation that are tried as the begin of a recorded one.
const TAILS_MAX: usize = 64;

/// Who is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Target {
    Model,
    Tool,
    Embedding,
}

/// The keys of a call: hashes over who is asked and what is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Keys {
    /// All of it.
    pub exact: Print,
    /// Without what is volatile.
    pub loose: Print,
    /// As `loose`, without instructions.
    pub bare: Print,
    /// Who speaks, and the names of tools and arguments.
    pub shape: Print,
    /// As `loose`, in whatever order; zeros where it is of no use.
    pub bag: Print,
}

/// A recorded call.
#[derive(Debug)]
pub(super) struct Recorded {
    /// Position of its run in the plan.
    pub run: usize,
    /// Index of its step in that run.
    pub step: usize,
    pub target: Target,
    /// `None` when what was asked is not in the record. The second are of the conversation that was pieced together.
    pub keys: Vec<Keys>,
    /// What its conversation begins with.
    head: Option<Print>,
    /// The record does not tell the order of all that was said.
    is_unordered: bool,
    pub facets: Facets,
    /// False for a hole.
    pub has_answer: bool,
}

/// The recorded calls of some runs, in their order.
#[derive(Debug)]
pub(super) struct Plan {
    pub runs: Vec<Arc<Run>>,
    pub calls: Vec<Recorded>,
    by_key: HashMap<(Rung, Print), Vec<usize>>,
    /// What recorded conversations begin with.
    heads: HashSet<Print>,
}

/// Which of its keys found a recorded call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Rung {
    Exact,
    Loose,
    Bare,
    Shape,
    Bag,
}

impl Plan {
    pub(super) fn new(runs: Vec<Arc<Run>>) -> Self {
        let mut calls = Vec::new();
        for (number, run) in runs.iter().enumerate() {
            let mut reader = Reader::new(run);
            calls.extend(run.steps.iter().enumerate().filter_map(|(at, step)| reader.read(number, at, step)));
        }
        let mut by_key: HashMap<_, Vec<usize>> = HashMap::new();
        for (at, call) in calls.iter().enumerate() {
            let of_call = call.keys.iter().flat_map(Keys::all);
            // In any order only where the record does not tell it.
            for (rung, key) in of_call.filter(|(rung, _)| *rung != Rung::Bag || call.is_unordered) {
                let found = by_key.entry((rung, key)).or_default();
                if found.last() != Some(&at) {
                    found.push(at);
                }
            }
        }
        let heads = calls.iter().filter_map(|call| call.head).collect();
        Self { runs, calls, by_key, heads }
    }

    /// The recorded calls that `key` finds on a rung, in their order.
    pub(super) fn find(&self, rung: Rung, keys: &Keys) -> &[usize] {
        let key = keys.all().into_iter().find(|(r, _)| *r == rung);
        key.and_then(|key| self.by_key.get(&key)).map_or(&[], Vec::as_slice)
    }

    pub(super) fn call(&self, at: usize) -> Option<&Recorded> {
        self.calls.get(at)
    }

    /// The run and the step of a recorded call.
    pub(super) fn step(&self, call: &Recorded) -> Option<(&Run, &Step)> {
        let run = self.runs.get(call.run)?;
        run.steps.get(call.step).map(|step| (&**run, step))
    }

    /// What was said in a recorded call.
    pub(super) fn said_of(&self, call: &Recorded) -> Said {
        let Some((run, step)) = self.step(call) else { return Said::default() };
        match call.target {
            Target::Model => said(run, step),
            Target::Tool => {
                let arguments = canon::opened(&arguments_of(step));
                Said { items: vec![Item::Call { name: step.name.clone(), arguments }], ..Said::default() }
            }
            Target::Embedding => {
                Said { items: texts(run, step).into_iter().map(embedded).collect(), ..Said::default() }
            }
        }
    }

    /// Recorded calls whose conversation is the end of `said`, the longest first.
    pub(super) fn find_tail(&self, said: &Said) -> Vec<usize> {
        let prints: Vec<Prints> = said.items.iter().map(Item::prints).collect();
        let begins = |at: &usize| prints.get(*at).is_some_and(|print| self.heads.contains(&print.loose));
        let mut found = Vec::new();
        for at in (1..prints.len()).filter(begins).take(TAILS_MAX) {
            let tail = canon::list(prints.iter().skip(at));
            let key = (Rung::Bare, Keys::new(Target::Model, &canon::empty(), &tail).bare);
            found.extend(self.by_key.get(&key).into_iter().flatten());
        }
        found
    }
}

impl Keys {
    pub(super) fn new(target: Target, system: &Prints, items: &Prints) -> Self {
        let kind: &[u8] = match target {
            Target::Model => b"model",
            Target::Tool => b"tool",
            Target::Embedding => b"embedding",
        };
        let join = |parts: &[&Print]| {
            let mut hasher = blake3::Hasher::new();
            let _ = hasher.update(kind);
            for part in parts {
                let _ = hasher.update(*part);
            }
            *hasher.finalize().as_bytes()
        };
        Self {
            exact: join(&[&system.exact, &items.exact]),
            loose: join(&[&system.loose, &items.loose]),
            bare: join(&[&items.loose]),
            shape: join(&[&items.shape]),
            bag: Print::default(),
        }
    }

    /// The same, with the key of `items` in whatever order.
    fn with_bag(self, system: &Prints, items: &[Prints]) -> Self {
        let mut hasher = blake3::Hasher::new();
        let _ = hasher.update(&system.loose).update(&canon::bag(items));
        Self { bag: *hasher.finalize().as_bytes(), ..self }
    }

    fn all(&self) -> [(Rung, Print); 5] {
        [
            (Rung::Exact, self.exact),
            (Rung::Loose, self.loose),
            (Rung::Bare, self.bare),
            (Rung::Shape, self.shape),
            (Rung::Bag, self.bag),
        ]
    }
}

/// The keys of what is said to a model.
pub(super) fn keys_of(said: &Said) -> Keys {
    let prints = |items: &[Item]| items.iter().map(Item::prints).collect::<Vec<_>>();
    let (system, items) = (canon::list(&prints(&said.system)), prints(&said.items));
    Keys::new(Target::Model, &system, &canon::list(&items)).with_bag(&system, &items)
}

/// The keys of a call of a tool.
pub(super) fn keys_of_tool(name: &str, arguments: &Value) -> Keys {
    let arguments = match canon::opened(arguments) {
        Value::Null => Value::Object(serde_json::Map::new()),
        other => other,
    };
    let prints = Item::Call { name: name.to_owned(), arguments }.prints();
    Keys::new(Target::Tool, &canon::empty(), &prints)
}

/// The keys of texts to embed.
pub(super) fn keys_of_inputs(inputs: impl IntoIterator<Item = String>) -> Keys {
    let prints: Vec<Prints> = inputs.into_iter().map(|text| embedded(text).prints()).collect();
    Keys::new(Target::Embedding, &canon::empty(), &canon::list(&prints))
}

/// A text to embed.
pub(super) fn embedded(text: String) -> Item {
    Item::Text { role: "embed".into(), text }
}

/// The texts that an embedding was asked for.
fn texts(run: &Run, step: &Step) -> Vec<String> {
    let items = said(run, step).items.into_iter();
    items.filter_map(|item| if let Item::Text { text, .. } = item { Some(text) } else { None }).collect()
}

/// What a tool was called with; a retrieval by its query.
fn arguments_of(step: &Step) -> Value {
    match (&step.tool_arguments, &step.retrieval_query) {
        (Some(arguments), _) => arguments.clone(),
        (None, Some(query)) => serde_json::json!({"query": query}),
        (None, None) => Value::Null,
    }
}

/// What was said in a step.
pub(super) fn said(run: &Run, step: &Step) -> Said {
    let mut said = Said::default();
    said.instruct(&step.system_instructions);
    for message in step.input_messages.iter().filter_map(|at| run.messages.get(*at as usize)) {
        said.extend(&message.message);
    }
    said
}

/// A message in canonical form.
#[derive(Clone, Debug)]
struct Canonical {
    system: Vec<Prints>,
    items: Vec<Prints>,
    has_call: bool,
    /// A result stands in it before any call.
    has_orphan: bool,
}

/// A conversation as far as it was read, up to a message.
#[derive(Clone, Copy, Debug)]
struct Walked {
    system: Prints,
    items: Prints,
    head: Option<Print>,
    has_call: bool,
    /// A result came before any call: the history was left out.
    is_tail: bool,
}

/// The last model call of an agent. The next one repeats most of it, and is read from where it differs.
struct Talk<'a> {
    instructions: &'a [Part],
    indexes: &'a [u32],
    /// The begin, and the place behind each message.
    walked: Vec<Walked>,
    /// The conversation with the answer.
    after: Prints,
}

/// Reads the steps of a run in order. A message that many steps repeat is brought to canonical form once.
struct Reader<'a> {
    run: &'a Run,
    /// By index of the message.
    messages: Vec<Option<Arc<Canonical>>>,
    /// By agent path.
    talks: HashMap<&'a [String], Talk<'a>>,
    /// Steps whose order of messages the record does not tell.
    unordered: HashSet<u32>,
}

impl<'a> Reader<'a> {
    fn new(run: &'a Run) -> Self {
        let notes = run.notes.iter().filter(|note| note.code == "order_conflict");
        Self {
            run,
            messages: vec![None; run.messages.len()],
            talks: HashMap::new(),
            unordered: notes.filter_map(|note| note.step_index).collect(),
        }
    }

    fn read(&mut self, number: usize, at: usize, step: &'a Step) -> Option<Recorded> {
        let captured = !matches!(step.input_state, ContentState::NotCaptured | ContentState::External);
        let mut head = None;
        let (target, keys, has_answer) = match step.kind {
            StepKind::ModelCall => {
                let keys = if captured {
                    let (keys, first) = self.model_keys(step);
                    head = first;
                    keys
                } else {
                    Vec::new()
                };
                let answered =
                    !step.output_messages.is_empty() && step.output_state != ContentState::NotCaptured;
                (Target::Model, keys, answered || step.status == OpStatus::Error)
            }
            StepKind::Embedding => {
                let texts = texts(self.run, step);
                let keys = (!texts.is_empty()).then(|| keys_of_inputs(texts));
                // A vector is made of its text: telemetry holds none.
                (Target::Embedding, keys.into_iter().collect(), true)
            }
            StepKind::ToolCall | StepKind::Handoff | StepKind::Retrieval => {
                let arguments = arguments_of(step);
                let known = captured || !arguments.is_null();
                let keys = known.then(|| keys_of_tool(&step.name, &arguments));
                let answered = step.tool_result.is_some()
                    || step.retrieval_documents.is_some()
                    || step.status == OpStatus::Error;
                (Target::Tool, keys.into_iter().collect(), answered)
            }
            _ => return None,
        };
        let facets = if target == Target::Tool { Facets::default() } else { Facets::of_step(step) };
        let is_unordered = self.unordered.contains(&step.index);
        Some(Recorded { run: number, step: at, target, keys, head, is_unordered, facets, has_answer })
    }

    /// The keys of a model call, and what its conversation begins with.
    fn model_keys(&mut self, step: &'a Step) -> (Vec<Keys>, Option<Print>) {
        let before = self.talks.remove(&*step.agent_path);
        let known_after = before.as_ref().map(|talk| talk.after);
        let mut walked = match before {
            Some(mut talk) if talk.instructions == step.system_instructions => {
                let pairs = talk.indexes.iter().zip(&step.input_messages);
                talk.walked.truncate(1 + pairs.take_while(|(a, b)| a == b).count());
                talk.walked
            }
            _ => vec![self.begin(step)],
        };
        for index in step.input_messages.iter().skip(walked.len().saturating_sub(1)) {
            let Some(mut place) = walked.last().copied() else { break };
            if let Some(message) = self.message(*index as usize) {
                place.system = canon::chain(place.system, &message.system);
                place.items = canon::chain(place.items, &message.items);
                place.head = place.head.or_else(|| message.items.first().map(|item| item.loose));
                place.is_tail |= !place.has_call && message.has_orphan;
                place.has_call |= message.has_call;
            }
            walked.push(place);
        }
        let Some(end) = walked.last().copied() else { return (Vec::new(), None) };
        let mut keys = vec![Keys::new(Target::Model, &end.system, &end.items)];
        if self.unordered.contains(&step.index) {
            let items = self.items(step);
            keys = keys.into_iter().map(|keys| keys.with_bag(&end.system, &items)).collect();
        }
        let mut whole = end.items;
        if let Some(before) = known_after.filter(|_| end.is_tail) {
            whole = canon::chain(before, &self.items(step));
            keys.push(Keys::new(Target::Model, &end.system, &whole));
        }
        let mut answer = Said::default();
        step.output_messages.iter().for_each(|message| answer.extend(message));
        let answer: Vec<Prints> = answer.items.iter().map(Item::prints).collect();
        let talk = Talk {
            instructions: &step.system_instructions,
            indexes: &step.input_messages,
            walked,
            after: canon::chain(whole, &answer),
        };
        let _ = self.talks.insert(&step.agent_path, talk);
        (keys, end.head)
    }

    fn begin(&self, step: &Step) -> Walked {
        let mut instructions = Said::default();
        instructions.instruct(&step.system_instructions);
        let prints: Vec<Prints> = instructions.system.iter().map(Item::prints).collect();
        let (system, items) = (canon::list(&prints), canon::empty());
        Walked { system, items, head: None, has_call: false, is_tail: false }
    }

    /// All that was said in a step but instructions.
    fn items(&mut self, step: &Step) -> Vec<Prints> {
        let read = step.input_messages.iter().filter_map(|index| self.message(*index as usize));
        read.flat_map(|message| message.items.clone()).collect()
    }

    fn message(&mut self, index: usize) -> Option<Arc<Canonical>> {
        let slot = self.messages.get_mut(index)?;
        if slot.is_none() {
            let mut said = Said::default();
            said.extend(&self.run.messages.get(index)?.message);
            let prints = |items: &[Item]| items.iter().map(Item::prints).collect();
            let call = said.items.iter().position(|item| matches!(item, Item::Call { .. }));
            let result = said.items.iter().position(|item| matches!(item, Item::Result(_)));
            *slot = Some(Arc::new(Canonical {
                system: prints(&said.system),
                items: prints(&said.items),
                has_call: call.is_some(),
                has_orphan: result.is_some_and(|result| call.is_none_or(|call| result < call)),
            }));
        }
        slot.clone()
    }
}
