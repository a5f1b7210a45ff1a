//! Tool calls as model calls tell them: asked for in an output, answered in a later input.
//!
//! A call is tied to its tool step by call id, else by name, arguments and order. A call without a step of its own whose
//! answer shows becomes an inferred step; a step whose content is missing is filled from what the model calls show.

mod fill;
mod pair;
mod turns;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use serde_json::Value;

use super::{
    messages::canonical,
    model::{Step, StepKind},
    order::{Class, Edge},
    steps::Draft,
};
use crate::genai::{
    message::{ContentState, Message, Part},
    operation::OpStatus,
};

/// Tools that frameworks make up to get an answer in a given shape: asked for, never executed.
const OUTPUT_TOOLS: [&str; 2] = ["final_result", "structured_output"];

/// A model call and the answers in its input, in order.
type Answers = (usize, Vec<Option<Value>>);

/// Name and canonical arguments of a call.
type CallKey = (String, String);

/// A call that a model asked for.
#[derive(Debug)]
struct Asked {
    by: usize,
    id: Option<String>,
    name: String,
    arguments: Option<Value>,
    /// The steps that executed it.
    tools: Vec<usize>,
    /// False when a step was only tied by name although its arguments differ: nothing is filled from that.
    sure: bool,
    /// The first later model call that shows its answer, and the answer.
    answer: Option<(usize, Option<Value>)>,
}

/// Where an answer stands; the messages are those of the inputs, which repeat them.
#[derive(Debug)]
struct Answer {
    message: Arc<Message>,
    part: usize,
}

impl Answer {
    fn response(&self) -> Option<Value> {
        match self.message.parts.get(self.part) {
            Some(Part::ToolCallResponse { response, .. }) => response.clone(),
            _ => None,
        }
    }
}

/// Calls of one input that are not answered yet, in order: an answer without an id answers the first.
#[derive(Default)]
struct Waiting<'a> {
    calls: Vec<Option<Call<'a>>>,
    first: usize,
    by_id: HashMap<&'a str, VecDeque<usize>>,
}

/// Name and arguments.
type Call<'a> = (&'a str, Option<&'a Value>);

impl<'a> Waiting<'a> {
    fn push(&mut self, id: Option<&'a str>, call: Call<'a>) {
        if let Some(id) = id {
            self.by_id.entry(id).or_default().push_back(self.calls.len());
        }
        self.calls.push(Some(call));
    }

    fn answered(&mut self, id: &str) {
        let Some(places) = self.by_id.get_mut(id) else { return };
        while let Some(place) = places.pop_front() {
            if self.calls.get_mut(place).and_then(Option::take).is_some() {
                return;
            }
        }
    }

    /// The first; it waits no longer.
    fn first(&mut self) -> Option<Call<'a>> {
        while let Some(call) = self.calls.get_mut(self.first) {
            self.first += 1;
            if call.is_some() {
                return call.take();
            }
        }
        None
    }
}

/// Answers as the inputs of model calls show them.
#[derive(Debug, Default)]
struct Shown {
    /// By call id: model calls in time order with what they show.
    by_id: HashMap<String, Vec<(usize, Answer)>>,
    /// By name and arguments, for calls without an id: each model call with its answers in order.
    by_call: HashMap<CallKey, Vec<Answers>>,
    /// Ids of calls that stand in some input, so were asked for by someone.
    asked_before: BTreeSet<String>,
}

/// Model calls that an execution is put before, of those that show its answer: the first ones, and the others come after
/// them by their time. An id that a whole run repeats would cost the square of its steps.
const SHOWN_MAX: usize = 64;

/// Ties calls, steps and answers together; adds inferred steps to `drafts`; returns the edges of order that follow.
pub(super) fn tie(drafts: &mut Vec<Draft>, output_tools: &BTreeSet<String>) -> Vec<Edge> {
    fill::restore_calls(drafts);
    turns::order(drafts);
    let shown = shown(drafts);
    let mut asked = asked(drafts, output_tools);
    pair::match_steps(drafts, &mut asked, &shown);
    find_answers(drafts, &mut asked, &shown);
    let mut edges = edges(drafts, &asked, &shown);
    find_unasked(drafts, &asked, &shown);
    for call in &asked {
        fill::fill(drafts, call);
        if call.tools.is_empty() {
            match &call.answer {
                Some((shows, answer)) => {
                    let inferred = fill::infer(drafts, call, *shows, answer.clone());
                    edges.push(Edge { class: Class::Asked, before: call.by, after: drafts.len() });
                    edges.push(Edge { class: Class::Result, before: drafts.len(), after: *shows });
                    drafts.extend(inferred);
                }
                None => fill::note_unanswered(drafts, call),
            }
        }
    }
    edges
}

/// True when a model call stopped to have tools called and only text of it is recorded.
pub(super) fn lost_calls(step: &Step) -> bool {
    let spoken = |part: &Part| matches!(part, Part::Text { .. } | Part::Reasoning { .. });
    step.kind == StepKind::ModelCall
        && step.finish_reasons.iter().any(|reason| reason == "tool_call")
        && parts(&step.output_messages).all(spoken)
}

fn models(drafts: &[Draft]) -> Vec<usize> {
    let model = |draft: &Draft| draft.step.kind == StepKind::ModelCall;
    let mut models: Vec<_> =
        drafts.iter().enumerate().filter(|(_, d)| model(d)).map(|(n, d)| (d.rank, n)).collect();
    models.sort();
    models.into_iter().map(|(_, n)| n).collect()
}

fn parts(messages: &[Arc<Message>]) -> impl Iterator<Item = &Part> {
    messages.iter().flat_map(|message| &message.parts)
}

/// The parts with where they stand.
fn placed(messages: &[Arc<Message>]) -> impl Iterator<Item = (&Arc<Message>, usize, &Part)> {
    messages
        .iter()
        .flat_map(|message| message.parts.iter().enumerate().map(move |(at, part)| (message, at, part)))
}

fn call_key(name: &str, arguments: Option<&Value>) -> CallKey {
    (name.to_owned(), canonical(arguments.unwrap_or(&Value::Null)))
}

fn shown(drafts: &[Draft]) -> Shown {
    let mut shown = Shown::default();
    for model in models(drafts) {
        let Some(draft) = drafts.get(model) else { continue };
        let mut waiting = Waiting::default();
        let mut here: BTreeMap<CallKey, Vec<Option<Value>>> = BTreeMap::new();
        for (message, at, part) in placed(&draft.input) {
            match part {
                Part::ToolCall { id, name, arguments, .. } => {
                    shown.asked_before.extend(id.clone());
                    waiting.push(id.as_deref(), (name, arguments.as_ref()));
                }
                Part::ToolCallResponse { id: Some(id), .. } => {
                    let answer = Answer { message: Arc::clone(message), part: at };
                    shown.by_id.entry(id.clone()).or_default().push((model, answer));
                    waiting.answered(id);
                }
                Part::ToolCallResponse { id: None, response, .. } => {
                    if let Some((name, arguments)) = waiting.first() {
                        here.entry(call_key(name, arguments)).or_default().push(response.clone());
                    }
                }
                _ => {}
            }
        }
        for (key, answers) in here {
            shown.by_call.entry(key).or_default().push((model, answers));
        }
    }
    shown
}

/// The calls of all model outputs in time order, each id once.
fn asked(drafts: &[Draft], output_tools: &BTreeSet<String>) -> Vec<Asked> {
    let mut seen = BTreeSet::new();
    let mut asked = Vec::new();
    for by in models(drafts) {
        let Some(draft) = drafts.get(by) else { continue };
        for part in parts(&draft.step.output_messages) {
            let Part::ToolCall { id, name, arguments, extra } = part else { continue };
            // Executed by the provider, inside the model call.
            let builtin = extra.get("builtin").and_then(Value::as_bool).unwrap_or(false);
            if builtin || is_output_tool(name, output_tools) || id.clone().is_some_and(|id| !seen.insert(id))
            {
                continue;
            }
            asked.push(Asked {
                by,
                id: id.clone(),
                name: name.clone(),
                arguments: arguments.clone(),
                tools: Vec::new(),
                sure: true,
                answer: None,
            });
        }
    }
    asked
}

fn is_output_tool(name: &str, output_tools: &BTreeSet<String>) -> bool {
    let made_up =
        |tool: &str| name.strip_prefix(tool).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'));
    output_tools.contains(name) || OUTPUT_TOOLS.into_iter().any(made_up)
}

/// Steps that may be the execution of a call.
fn executes(step: &Step) -> bool {
    !matches!(step.kind, StepKind::ModelCall | StepKind::Embedding | StepKind::Rerank | StepKind::Checkpoint)
}

fn find_answers(drafts: &[Draft], asked: &mut [Asked], shown: &Shown) {
    let mut times_asked: HashMap<CallKey, usize> = HashMap::new();
    let after = |by: usize, shows: usize| {
        let rank = |n: usize| drafts.get(n).map(|draft| draft.rank);
        rank(by) < rank(shows)
    };
    for call in asked {
        let key = call_key(&call.name, call.arguments.as_ref());
        let nth = times_asked.entry(key.clone()).and_modify(|n| *n += 1).or_insert(0);
        let by_id = call.id.as_ref().and_then(|id| shown.by_id.get(id));
        let by_id = by_id.and_then(|shown| shown.iter().find(|(shows, _)| after(call.by, *shows)));
        let by_id = by_id.map(|(shows, answer)| (*shows, answer.response()));
        let by_call = || {
            let shown = shown.by_call.get(&key)?;
            let later = shown.iter().filter(|(shows, _)| after(call.by, *shows));
            later.into_iter().find_map(|(shows, answers)| Some((*shows, answers.get(*nth)?.clone())))
        };
        call.answer = by_id.or_else(by_call);
    }
}

fn edges(drafts: &[Draft], asked: &[Asked], shown: &Shown) -> Vec<Edge> {
    let mut edges = Vec::new();
    for call in asked.iter().filter(|call| call.id.is_some()) {
        for tool in &call.tools {
            let by_id = drafts.get(*tool).is_some_and(|draft| draft.step.tool_call_id == call.id);
            edges.extend(by_id.then_some(Edge { class: Class::Asked, before: call.by, after: *tool }));
        }
    }
    for (number, draft) in drafts.iter().enumerate().filter(|(_, draft)| executes(&draft.step)) {
        let shows = draft.step.tool_call_id.as_ref().and_then(|id| shown.by_id.get(id));
        for (model, _) in shows.into_iter().flatten().take(SHOWN_MAX) {
            edges.push(Edge { class: Class::Result, before: number, after: *model });
        }
    }
    edges
}

/// Tool calls that nothing asked for. Where a model call did not record its output, it may have asked; and a result in
/// an input without its call is no loss: the provider may keep the history.
fn find_unasked(drafts: &mut [Draft], asked: &[Asked], shown: &Shown) {
    let told = |draft: &Draft| {
        let captured = draft.step.output_state == ContentState::Captured && !lost_calls(&draft.step);
        captured || draft.step.status != OpStatus::Ok
    };
    if !drafts.iter().filter(|draft| draft.step.kind == StepKind::ModelCall).all(told) {
        return;
    }
    let matched: BTreeSet<usize> = asked.iter().flat_map(|call| call.tools.iter().copied()).collect();
    let outputs: BTreeSet<String> = drafts
        .iter()
        .flat_map(|draft| parts(&draft.step.output_messages))
        .filter_map(|part| match part {
            Part::ToolCall { id, .. } => id.clone(),
            // The provider ran it inside the model call; a framework may report it once more.
            Part::Other(block) if block.get("type").and_then(Value::as_str) == Some("server_tool_call") => {
                Some(block.get("id")?.as_str()?.to_owned())
            }
            _ => None,
        })
        .collect();
    for (number, draft) in drafts.iter_mut().enumerate() {
        let id = draft.step.tool_call_id.as_ref().filter(|_| draft.step.kind == StepKind::ToolCall);
        let nobody = |id: &String| !outputs.contains(id) && !shown.asked_before.contains(id);
        draft.calls.unasked = !matched.contains(&number) && id.is_some_and(nobody);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        otlp::record::{SpanId, TraceId},
        run::steps::CallFindings,
    };

    fn draft(number: usize, kind: StepKind, input: Vec<Arc<Message>>) -> Draft {
        let step =
            Step { kind, tool_call_id: (kind == StepKind::ToolCall).then(|| "0".into()), ..Step::default() };
        Draft {
            step: Box::new(step),
            node: None,
            input,
            rank: (number as u64, number, TraceId::default(), SpanId::default(), 0),
            parent: None,
            calls: CallFindings::default(),
        }
    }

    /// Scenario: every call of a run has the id `0`, as some gateways number them.
    /// Guarantee: the order costs a bounded number of edges a step, not the square of the steps.
    #[test]
    fn an_id_that_a_run_repeats_costs_the_square_of_its_steps() {
        let answer = Part::tool_call_response(Some("0".into()), Some("found".into()));
        let shows = Arc::new(Message { role: "tool".into(), parts: vec![answer], ..Message::default() });
        let steps = 2_000;
        let mut drafts: Vec<Draft> = (0..steps)
            .map(|n| match n % 2 {
                0 => draft(n, StepKind::ToolCall, Vec::new()),
                _ => draft(n, StepKind::ModelCall, vec![Arc::clone(&shows)]),
            })
            .collect();
        let edges = tie(&mut drafts, &BTreeSet::new());
        assert!((1..=steps * SHOWN_MAX).contains(&edges.len()), "{} edges", edges.len());
    }
}
