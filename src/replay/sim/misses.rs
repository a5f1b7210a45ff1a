//! Calls that the record does not answer, and why.

use std::sync::Arc;

use serde_json::Value;

use super::{
    call::{Answer, Refused, RefusedCode},
    ladder::{Asked, Outcome},
    nearest::{self, LIKENESS_MIN},
    plan::{Rung as Key, Target},
    report::{Class, Miss, Near, Rung},
    session::{Reply, Session, State},
};
use crate::{replay::diff::json::Change, run::model::StepKind};

/// Refusals that are kept; an agent that does not stop is refused all the same.
const MISSES_MAX: usize = 10_000;
/// Refused calls that are kept whole, so that the report can tell them by what was left open in the end: how many, and
/// their bytes in a session.
const WHOLE_MAX: usize = 100;
const WHOLE_BYTES_MAX: usize = 4 << 20;
/// Differences that a miss tells, and the bytes of a value in one.
const DIFFS_MAX: usize = 100;
const VALUE_BYTES_MAX: usize = 16 << 10;

impl Session {
    /// Why no recorded call answers `asked`, by those that are open now.
    fn explain_by(&self, open: &[usize], asked: &Asked) -> Miss {
        let candidates = nearest::candidates(&self.plan, asked.target, open.iter().copied(), &asked.live);
        let best = candidates.iter().find(|c| c.likeness >= LIKENESS_MIN).copied();
        let mut diffs =
            best.map(|best| nearest::changes(&self.plan, best.at, &asked.live)).unwrap_or_default();
        diffs.truncate(DIFFS_MAX);
        diffs.iter_mut().for_each(shorten);
        let near = |c: &nearest::Candidate| {
            let call = self.plan.call(c.at)?;
            Some(Near { step: self.step_ref(call)?, likeness: (c.likeness * 1000.0).round() / 1000.0 })
        };
        let nearest: Vec<Near> = candidates.iter().filter_map(near).collect();
        let place = |at: usize| self.plan.call(at).map_or(0, |call| call.step);
        let unknown = open.iter().copied().find(|at| {
            self.plan.call(*at).is_some_and(|call| call.target == asked.target && call.keys.is_empty())
        });
        if let Some(at) = unknown {
            let message = format!(
                "spanreel: hole: what recorded step {} was asked is not in the record, so this call may be it; \
                 mode lenient takes it in order",
                place(at)
            );
            return Miss {
                diffs,
                nearest,
                ..self.miss(asked, RefusedCode::Hole, Class::Hole, message, Some(at))
            };
        }
        let Some(best) = best else {
            let before = asked.keys.iter().flat_map(|keys| self.plan.find(Key::Loose, keys)).next().copied();
            let why = match before {
                Some(at) => format!("it was recorded once, as step {}, and has been answered", place(at)),
                None => "nothing like it was recorded".to_owned(),
            };
            let message = format!("spanreel: divergence: an extra call of {}: {why}", asked.name);
            return self.miss(asked, RefusedCode::Divergence, Class::Extra, message, before);
        };
        let message = format!(
            "spanreel: divergence: this call of {} differs from recorded step {}: {}",
            asked.name,
            place(best.at),
            nearest::told(&diffs)
        );
        let class = nearest::class_of(&diffs);
        Miss { diffs, nearest, ..self.miss(asked, RefusedCode::Divergence, class, message, Some(best.at)) }
    }

    pub(super) fn explain(&self, state: &State, asked: &Asked) -> Miss {
        let open: Vec<usize> = (0..self.plan.calls.len()).filter(|at| self.is_open(state, *at)).collect();
        self.explain_by(&open, asked)
    }

    /// The misses, told by what is open now: the order in which parallel calls came makes no difference.
    pub(super) fn misses(&self, state: &State) -> Vec<Miss> {
        let open: Vec<usize> = (0..self.plan.calls.len()).filter(|at| self.is_open(state, *at)).collect();
        let told = |(miss, asked): &(Miss, Option<Arc<Asked>>)| match asked {
            Some(asked) => Miss { sends: miss.sends, ..self.explain_by(&open, asked) },
            None => miss.clone(),
        };
        let mut all: Vec<Miss> = state.misses.iter().map(told).collect();
        all.sort_by(|a, b| order(a).cmp(&order(b)));
        all
    }

    /// A miss that is nearest to the recorded call at `at`.
    pub(super) fn miss(
        &self,
        asked: &Asked,
        code: RefusedCode,
        class: Class,
        message: String,
        at: Option<usize>,
    ) -> Miss {
        let step = at.and_then(|at| self.plan.call(at)).and_then(|call| self.step_ref(call));
        Miss {
            code: code.name().into(),
            class,
            kind: match asked.target {
                Target::Model => StepKind::ModelCall,
                Target::Tool => StepKind::ToolCall,
                Target::Embedding => StepKind::Embedding,
            },
            name: asked.name.clone(),
            message,
            step_index: step.as_ref().map(|step| step.step_index),
            run_id: step.and_then(|step| step.run_id),
            diffs: Vec::new(),
            nearest: Vec::new(),
            sends: 1,
        }
    }

    /// Refuses a call, and keeps that it was.
    pub(super) fn refuse(&self, state: &mut State, asked: &Arc<Asked>, miss: Miss) -> Reply {
        let code = RefusedCode::of_name(&miss.code).unwrap_or(RefusedCode::Divergence);
        let refused = Refused { code, step: miss.step_index, message: miss.message.clone() };
        if state.misses.len() < MISSES_MAX {
            self.remember(state, asked, Outcome::Missed(state.misses.len()));
            let bytes = asked.live.said.bytes();
            let fits =
                state.misses.len() < WHOLE_MAX && state.kept_bytes.saturating_add(bytes) <= WHOLE_BYTES_MAX;
            let whole = (code == RefusedCode::Divergence && fits).then(|| Arc::clone(asked));
            state.kept_bytes += whole.as_ref().map_or(0, |_| bytes);
            state.misses.push((miss, whole));
        }
        Reply::without_step(Answer::Refused(refused), None::<Rung>)
    }
}

/// A value that is too long to be told is told by its length.
fn shorten(change: &mut Change) {
    for value in [&mut change.before, &mut change.after].into_iter().flatten() {
        let length = value.to_string().len();
        if length > VALUE_BYTES_MAX {
            *value = Value::from(format!("({length} bytes)"));
            change.words.clear();
        }
    }
}

/// Where a miss stands among the others, in whatever order they came.
fn order(miss: &Miss) -> (u32, Class, StepKind, &str, &str) {
    (miss.step_index.unwrap_or(u32::MAX), miss.class, miss.kind, &miss.name, &miss.message)
}
