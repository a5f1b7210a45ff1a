//! What keeps a record from answering, before anything was asked.

use std::sync::Arc;

use super::session::Mode;
use crate::run::{
    Run,
    model::{Reason, ReasonClass, ReasonCode, StepKind},
};

/// The content reasons of the runs that are in the way of a simulation.
///
/// A vector is made of its text, so that an embedding without content is none. With several runs, calls and results of
/// tools that one of them lacks are expected in another. A fork needs nothing of the steps after it.
pub(super) fn of(runs: &[Arc<Run>], mode: Mode) -> Vec<Reason> {
    let is_in_the_way = |run: &Run, reason: &Reason| {
        let step = reason.step_index.and_then(|at| run.steps.get(at as usize));
        let crosses_runs = matches!(reason.code, ReasonCode::MissingToolResult | ReasonCode::MissingToolCall);
        let is_past = match mode {
            Mode::Fork(from) => reason.step_index.is_some_and(|at| at >= from),
            _ => false,
        };
        reason.class == ReasonClass::Content
            && step.is_none_or(|step| step.kind != StepKind::Embedding)
            && !(crosses_runs && runs.len() > 1)
            && !is_past
    };
    runs.iter()
        .flat_map(|run| run.partial_reasons.iter().filter(|reason| is_in_the_way(run, reason)).cloned())
        .collect()
}
