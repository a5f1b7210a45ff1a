//! How a run ended.

use std::collections::HashSet;

use super::{
    forest::{Forest, Node},
    model::{Reason, ReasonCode, RunStatus, Step, StepKind},
};
use crate::genai::{
    message::Part,
    operation::{Failure, Kind, OpStatus},
};

/// The status of a run, and why it failed.
///
/// The last of the topmost agents (or workflows) decides; without one, a frame that waits, else the last step. A run that was cut off, in which
/// a span never ended or whose root never came, was abandoned unless its last step is a model's answer.
pub(super) fn status(
    forest: &Forest,
    nodes: &[usize],
    steps: &[Step],
    reasons: &[Reason],
    settled: bool,
) -> (RunStatus, Option<Failure>) {
    if !settled {
        return (RunStatus::Running, None);
    }
    let (op_status, failure) = outcome(forest, nodes, steps);
    // A tool that waits for a person, and nothing that answered it since.
    let last_answer = steps.iter().rposition(|s| s.kind == StepKind::ModelCall).unwrap_or(0);
    let paused = steps.iter().skip(last_answer).any(|s| s.status == OpStatus::Interrupted);
    let cut_off = |reason: &Reason| matches!(reason.code, ReasonCode::MissingRoot | ReasonCode::Unfinished);
    match op_status {
        OpStatus::Error => (RunStatus::Failed, failure),
        OpStatus::Interrupted => (RunStatus::Interrupted, None),
        _ if reasons.iter().any(cut_off) && !answered(steps) => (RunStatus::Abandoned, None),
        OpStatus::Cancelled => (RunStatus::Abandoned, failure),
        OpStatus::Ok if waits(steps) || paused => (RunStatus::Interrupted, None),
        OpStatus::Ok => (RunStatus::Completed, None),
    }
}

fn outcome(forest: &Forest, nodes: &[usize], steps: &[Step]) -> (OpStatus, Option<Failure>) {
    let told = |node: &Node| (node.op.status, node.op.failure.clone());
    if let Some(top) = last_topmost(forest, nodes, |kind| matches!(kind, Kind::Agent | Kind::Workflow)) {
        return told(top);
    }
    let top = last_topmost(forest, nodes, Kind::is_genai).map(told).unwrap_or_default();
    match steps.last() {
        // A graph is only a frame, and knows that it waits.
        Some(_) if top.0 == OpStatus::Interrupted => top,
        Some(step) => (step.status, step.error.clone()),
        None => top,
    }
}

/// Of the nodes of such a kind with none of them above, the one that started last.
fn last_topmost<'a>(forest: &'a Forest, nodes: &[usize], is: impl Fn(Kind) -> bool) -> Option<&'a Node> {
    let mut covered: HashSet<usize> = HashSet::new();
    let mut last: Option<&Node> = None;
    // Depth-first order gives parents first.
    for number in nodes {
        let node = &forest.nodes[*number];
        let below = node.parent.is_some_and(|up| covered.contains(&up));
        if below || is(node.op.kind) {
            let _ = covered.insert(*number);
        }
        if !below && is(node.op.kind) && last.is_none_or(|last| last.order_ns <= node.order_ns) {
            last = Some(node);
        }
    }
    last
}

/// The last thing that happened was a model call that asked for nothing more.
fn answered(steps: &[Step]) -> bool {
    steps.last().is_some_and(|step| {
        let asks = |part: &Part| matches!(part, Part::ToolCall { .. });
        step.kind == StepKind::ModelCall
            && step.status == OpStatus::Ok
            && !step.output_messages.is_empty()
            && !step.output_messages.iter().flat_map(|message| &message.parts).any(asks)
            && !step.finish_reasons.iter().any(|reason| reason == "tool_call")
    })
}

/// The last thing that happened was a question to a human, or a pause.
fn waits(steps: &[Step]) -> bool {
    steps.last().is_some_and(|step| {
        step.status == OpStatus::Interrupted
            || (step.kind == StepKind::HumanInput
                && step.decision.is_none()
                && step.output_messages.is_empty())
    })
}
