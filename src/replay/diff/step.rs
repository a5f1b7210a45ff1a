//! What differs between two steps that stand for each other.

use serde::Serialize;
use serde_json::{Value, json};

use super::{
    content::{Content, named},
    history::{Found, History},
    json::{self, Change, Place},
};
use crate::{
    genai::operation::Usage,
    replay::document::duration_ms,
    run::model::{Step, StepKind},
};

/// Where a step stands in a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StepOp {
    /// Both runs have it, and it did the same. It may still repeat changes that an earlier step tells.
    Same,
    /// Both runs have it, and something differs.
    Changed,
    /// Only the first run has it.
    OnlyInA,
    /// Only the second run has it.
    OnlyInB,
}

/// A value of each run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Sides<T> {
    pub before: T,
    pub after: T,
}

impl<T> Sides<T> {
    pub(super) fn reversed(self) -> Self {
        Self { before: self.after, after: self.before }
    }
}

/// A step of one run, or two that stand for each other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepDiff {
    /// Which runs have it.
    pub op: StepOp,
    /// Its index in the first run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub a: Option<u32>,
    /// Its index in the second run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b: Option<u32>,
    /// What it is.
    pub kind: StepKind,
    /// Its name, that of the second run where both have it.
    pub name: String,
    /// What differs, by pointers into the step documents. Ids of the run are left out of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
    /// Differences that an earlier step tells, and that this one repeats.
    #[serde(skip_serializing_if = "is_zero")]
    pub inherited: u32,
    /// Counts of tokens, and cost, where they differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Sides<Usage>>,
    /// How long it took, where that differs; that alone is no difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<Sides<Option<f64>>>,
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl StepDiff {
    /// A step that one run has.
    pub(super) fn only(step: &Step, op: StepOp) -> Self {
        Self {
            op,
            a: (op == StepOp::OnlyInA).then_some(step.index),
            b: (op == StepOp::OnlyInB).then_some(step.index),
            kind: step.kind,
            name: step.name.clone(),
            changes: Vec::new(),
            inherited: 0,
            tokens: None,
            duration_ms: None,
        }
    }

    pub(super) fn reversed(self) -> Self {
        let op = match self.op {
            StepOp::OnlyInA => StepOp::OnlyInB,
            StepOp::OnlyInB => StepOp::OnlyInA,
            op => op,
        };
        Self {
            op,
            a: self.b,
            b: self.a,
            changes: json::reversed(self.changes),
            tokens: self.tokens.map(Sides::reversed),
            duration_ms: self.duration_ms.map(Sides::reversed),
            ..self
        }
    }
}

/// Compares the steps at two places.
pub(super) fn compare(
    (a, at_a): (&Content<'_>, usize),
    (b, at_b): (&Content<'_>, usize),
    history: &mut History<'_>,
) -> Option<StepDiff> {
    let ((x, names_x), (y, names_y)) = (a.step(at_a)?, b.step(at_b)?);
    let mut found = Found::default();
    let mut tokens = None;
    if names_x.whole != names_y.whole {
        let both = |path: &str, of: &dyn Fn(&Step) -> Value, history: &mut History<'_>, found: &mut Found| {
            let (before, after) = (a.ids.value(&of(x)), b.ids.value(&of(y)));
            found.changes.extend(json::changes(Place::both(path), &before, &after, &mut history.effort));
        };
        both("", &plain, history, &mut found);
        both("/tool/arguments", &|step| json!(step.tool_arguments), history, &mut found);
        both("/retrieval", &retrieval, history, &mut found);
        history.repeated("/agent_path", &json!(x.agent_path), &json!(y.agent_path), &mut found);
        let system = (a.ids.parts(&x.system_instructions), b.ids.parts(&y.system_instructions));
        history.repeated("/input/system_instructions", &system.0, &system.1, &mut found);
        let tools = (a.ids.value(&x.tool_definitions), b.ids.value(&y.tool_definitions));
        history.repeated("/tool_definitions", &tools.0, &tools.1, &mut found);
        history.inputs(&a.inputs(x), &b.inputs(y), &mut found);
        history.outputs(&a.outputs(x), &b.outputs(y), &mut found);
        both("/tool/result", &|step| json!(step.tool_result), history, &mut found);
        both("", &ending, history, &mut found);
        history.note_tool(Some(x), Some(y));
        tokens = (x.usage != y.usage).then_some(Sides { before: x.usage, after: y.usage });
    }
    let time = |step: &Step| duration_ms(step.start_ns, step.end_ns);
    let times = Sides { before: time(x), after: time(y) };
    Some(StepDiff {
        op: if found.changes.is_empty() && tokens.is_none() { StepOp::Same } else { StepOp::Changed },
        a: Some(x.index),
        b: Some(y.index),
        kind: y.kind,
        name: y.name.clone(),
        changes: json::settled(found.changes),
        inherited: found.inherited,
        tokens,
        duration_ms: (times.before != times.after).then_some(times),
    })
}

/// Members of the step document that say how a step was called.
pub(super) fn plain(step: &Step) -> Value {
    let request = &step.request;
    json!({
        "name": named(step),
        "model": step.model,
        "response_model": step.response_model,
        "provider": step.provider,
        "request": {
            "temperature": request.temperature,
            "top_p": request.top_p,
            "max_tokens": request.max_tokens,
            "seed": request.seed,
            "streamed": request.streamed,
        },
        "input": {"state": step.input_state},
    })
}

/// Members of the step document that say how a step ended.
pub(super) fn ending(step: &Step) -> Value {
    json!({
        "decision": step.decision,
        "error": step.error,
        "finish_reasons": step.finish_reasons,
        "output": {"state": step.output_state},
        "status": step.status,
    })
}

/// The member of the step document for a search.
pub(super) fn retrieval(step: &Step) -> Value {
    json!({"query": step.retrieval_query, "documents": step.retrieval_documents})
}
