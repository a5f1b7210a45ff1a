//! What differs between two steps that stand for each other.

use serde::Serialize;
use serde_json::{Value, json};

use super::{
    content::{self, Content, named, value},
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
    /// Both runs have it, and it did the same. What it was given may still show changes that an earlier step tells.
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
    /// What differs, by pointers into the step documents.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
    /// Differences in what it was given that an earlier step tells.
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
            changes: self.changes.into_iter().map(Change::reversed).collect(),
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
    history: &mut History,
) -> Option<StepDiff> {
    let ((x, names_x), (y, names_y)) = (a.step(at_a)?, b.step(at_b)?);
    let mut found = Found::default();
    let mut tokens = None;
    if names_x.whole != names_y.whole {
        let mut plain = |path: &str, before: Value, after: Value, found: &mut Found| {
            let changes = json::changes(Place::both(path), &before, &after, &mut history.effort);
            found.changes.extend(changes);
        };
        plain("", self::plain(x), self::plain(y), &mut found);
        plain("/tool/arguments", value(&x.tool_arguments), value(&y.tool_arguments), &mut found);
        plain("/retrieval", retrieval(x), retrieval(y), &mut found);
        let system = |step: &Step| content::parts(&step.system_instructions);
        history.repeated("/input/system_instructions", &system(x), &system(y), &mut found);
        history.repeated(
            "/tool_definitions",
            &value(&x.tool_definitions),
            &value(&y.tool_definitions),
            &mut found,
        );
        history.inputs(&a.inputs(x), &b.inputs(y), &mut found);
        history.outputs(x, y, &mut found);
        let result = (value(&x.tool_result), value(&y.tool_result));
        found.changes.extend(json::changes(
            Place::both("/tool/result"),
            &result.0,
            &result.1,
            &mut history.effort,
        ));
        found.changes.extend(json::changes(Place::both(""), &ending(x), &ending(y), &mut history.effort));
        history.note_tool(Some(x), Some(y));
        tokens = (x.usage != y.usage).then(|| Sides { before: x.usage, after: y.usage });
    }
    let time = |step: &Step| duration_ms(step.start_ns, step.end_ns);
    let times = Sides { before: time(x), after: time(y) };
    Some(StepDiff {
        op: if found.changes.is_empty() && tokens.is_none() { StepOp::Same } else { StepOp::Changed },
        a: Some(x.index),
        b: Some(y.index),
        kind: y.kind,
        name: y.name.clone(),
        changes: found.changes,
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
        "agent_path": step.agent_path,
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
