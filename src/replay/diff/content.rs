//! What a run says, apart from ids and times: names by which steps and messages of two runs are compared.

use serde_json::Value;

use super::{
    digest::Digest,
    ids::Ids,
    sketch::Sketch,
    step::{ending, plain, retrieval},
};
use crate::{
    genai::message::{Message, Part},
    run::model::{Run, Step, StepKind},
};

/// A run, and names of what is in it.
#[derive(Debug)]
pub(super) struct Content<'a> {
    pub(super) run: &'a Run,
    pub(super) ids: Ids<'a>,
    /// Of [`Run::messages`].
    pub(super) messages: Vec<u128>,
    /// Of [`Run::steps`].
    pub(super) steps: Vec<StepContent>,
}

/// Names of a step. Two steps with one name say the same in what the name covers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StepContent {
    /// Everything that can make a difference.
    pub(super) whole: u128,
    /// What it did, without the history that it was given, its parameters and its tokens.
    pub(super) own: u128,
    /// What it was asked: last message, arguments, query. 0 when that is not known.
    pub(super) given: u128,
    /// What came of it. 0 when that is not known.
    pub(super) said: u128,
    /// Kind, name and agent.
    pub(super) label: u128,
    pub(super) sketch: Sketch,
}

impl<'a> Content<'a> {
    pub(super) fn of(run: &'a Run) -> Self {
        let ids = Ids::of(run);
        let messages: Vec<u128> = run.messages.iter().map(|m| ids.name_of_message(&m.message)).collect();
        let steps = run.steps.iter().map(|step| StepContent::of(run, step, &ids, &messages)).collect();
        Self { run, ids, messages, steps }
    }

    /// The step at a place.
    pub(super) fn step(&self, at: usize) -> Option<(&'a Step, &StepContent)> {
        Some((self.run.steps.get(at)?, self.steps.get(at)?))
    }

    /// The input messages of a step with their names, by their place in the step document.
    pub(super) fn inputs(&self, step: &Step) -> Vec<(&'a Message, u128)> {
        let at = |index: &u32| {
            let index = usize::try_from(*index).ok()?;
            Some((&*self.run.messages.get(index)?.message, *self.messages.get(index)?))
        };
        step.input_messages.iter().filter_map(at).collect()
    }

    /// The output messages of a step with their names.
    pub(super) fn outputs<'s>(&self, step: &'s Step) -> Vec<(&'s Message, u128)> {
        step.output_messages.iter().map(|m| (&**m, self.ids.name_of_message(m))).collect()
    }
}

impl StepContent {
    fn of(run: &Run, step: &Step, ids: &Ids<'_>, messages: &[u128]) -> Self {
        let name = |value: &Value| Digest::of(&ids.value(value));
        let inputs: Vec<u128> = step
            .input_messages
            .iter()
            .filter_map(|n| messages.get(usize::try_from(*n).ok()?).copied())
            .collect();
        let outputs: Vec<u128> = step.output_messages.iter().map(|m| ids.name_of_message(m)).collect();
        let given = first_known([
            inputs.last().copied(),
            step.tool_arguments.as_ref().map(name),
            step.retrieval_query.as_ref().map(|query| Digest::default().text(query).finish()),
        ]);
        let said = first_known([
            (!outputs.is_empty()).then(|| Digest::default().numbers(&outputs).finish()),
            step.tool_result.as_ref().map(name),
            step.retrieval_documents.as_ref().map(name),
            step.decision.as_ref().map(|decision| Digest::default().text(decision).finish()),
        ]);
        let label =
            Digest::default().number(step.kind as u128).text(named(step)).texts(&step.agent_path).finish();
        let own = [label, given, said, step.status as u128];
        let own = Digest::default().numbers(&own).finish();
        let whole = Digest::default()
            .number(own)
            .value(&ids.value(&plain(step)))
            .value(&ids.value(&ending(step)))
            .value(&ids.parts(&step.system_instructions))
            .value(&ids.value(&step.tool_definitions))
            .value(&ids.value(&step.tool_arguments))
            .value(&ids.value(&step.tool_result))
            .value(&ids.value(&retrieval(step)))
            .value(&ids.value(&step.usage))
            .numbers(&inputs)
            .finish();
        Self { whole, own, given, said, label, sketch: sketch(run, step) }
    }

    /// How well two steps fit that are of one kind; 0 when they are no pair.
    pub(super) fn score(&self, other: &Self, a: &Step, b: &Step) -> u32 {
        if a.kind != b.kind {
            return 0;
        }
        if self.whole == other.whole {
            return SCORE_SAME;
        }
        let known = |a: u128, b: u128, score: u32| if a == b && a != 0 { score } else { 0 };
        let content = known(self.own, other.own, 60)
            + known(self.given, other.given, 50)
            + known(self.said, other.said, 30)
            + 5 * self.sketch.likeness(&other.sketch);
        // Another tool is another step, unless what it was given or gave says that it only got another name.
        if named(a) != named(b) && content < SCORE_RENAMED_MIN {
            return 0;
        }
        content + known(self.label, other.label, 20) + SCORE_KIND
    }
}

/// Two steps in which nothing differs.
pub(super) const SCORE_SAME: u32 = 250;
/// Two steps of one kind.
const SCORE_KIND: u32 = 20;
/// What two steps of other names must have in common.
const SCORE_RENAMED_MIN: u32 = 30;

/// The name of a step where it says what the step is: a model call is named after its model, which may change.
pub(super) fn named(step: &Step) -> &str {
    if is_model(step.kind) { "" } else { &step.name }
}

fn is_model(kind: StepKind) -> bool {
    matches!(kind, StepKind::ModelCall | StepKind::Embedding | StepKind::Rerank)
}

fn first_known<const N: usize>(names: [Option<u128>; N]) -> u128 {
    names.into_iter().flatten().next().unwrap_or_default()
}

fn sketch(run: &Run, step: &Step) -> Sketch {
    let mut sketch = Sketch::default();
    let last = step.input_messages.last().and_then(|n| run.messages.get(usize::try_from(*n).ok()?));
    let given = last.map(|m| &*m.message);
    for message in given.into_iter().chain(step.output_messages.iter().map(|m| &**m)) {
        sketch_message(&mut sketch, message);
    }
    for value in [&step.tool_arguments, &step.tool_result, &step.retrieval_documents].into_iter().flatten() {
        sketch.add(&value.to_string());
    }
    sketch.add(step.retrieval_query.as_deref().unwrap_or_default());
    sketch
}

/// Adds what a message says.
pub(super) fn sketch_message(sketch: &mut Sketch, message: &Message) {
    for part in &message.parts {
        match part {
            Part::Text { content, .. } | Part::Reasoning { content, .. } => {
                sketch.add(content.as_deref().unwrap_or_default());
            }
            Part::ToolCall { name, arguments, .. } => {
                sketch.add(name);
                sketch.add(&arguments.as_ref().map(Value::to_string).unwrap_or_default());
            }
            Part::ToolCallResponse { response, .. } => {
                sketch.add(&response.as_ref().map(Value::to_string).unwrap_or_default());
            }
            Part::Other(_) => {}
        }
    }
}
