//! What a simulation found: the same for the same calls, in whatever order parallel ones came.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{
    call::RefusedCode,
    canon::{Item, Print},
    plan::{Recorded, Target},
    session::{Mode, Session, State},
};
use crate::{replay::diff::json::Change, run::model::StepKind};

/// How the execution compares with the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every call was answered from the record, and every recorded model call was made.
    Same,
    /// A call differs, is new, or was not made.
    Diverged,
    /// A call fell into a hole of the record.
    Hole,
    /// A call was refused by the policy, or would have had to be live.
    Blocked,
    /// The budget for live calls was spent.
    Budget,
}

/// Which rung of the ladder found the recorded call; each but the first two is taken only where that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rung {
    /// All is equal.
    Exact,
    /// Equal but for ids, times, paths, ports, the most tokens, how a tool is described, or an order that the record does
    /// not tell.
    Volatile,
    /// What was asked is not in the record; the place in the order is right.
    Position,
    /// The same conversation with another model, other tools or settings.
    Settings,
    /// The same conversation under other instructions.
    Instructions,
    /// The end of the conversation is the recorded one.
    History,
    /// The same tools with the same names of arguments.
    Shape,
    /// The recorded call that is most like it.
    Nearest,
    /// A rule's value, not the record.
    Static,
    /// The upstream answered.
    Live,
}

/// A recorded step.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct StepRef {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    pub step_index: u32,
    pub kind: StepKind,
    pub name: String,
}

/// A recorded step that answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Match {
    #[serde(flatten)]
    pub step: StepRef,
    pub rung: Rung,
    /// True when a patch stood in for the recorded answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub patched: bool,
    /// What differs all the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drift: Vec<Change>,
    /// How often the client sent the call; more than once when it tried again.
    pub sends: u32,
}

/// What kind of thing differs first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Class {
    Model,
    ToolSet,
    Parameters,
    Prompt,
    ToolArguments,
    ToolResult,
    /// Nothing like it was recorded, or it was recorded fewer times.
    Extra,
    Hole,
    Policy,
}

/// A call that the record did not answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Miss {
    /// The code that the client saw.
    pub code: String,
    pub class: Class,
    /// `model_call`, `tool_call` or `embedding`.
    pub kind: StepKind,
    /// Model or tool that was asked.
    pub name: String,
    pub message: String,
    /// The recorded step that is nearest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_index: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// What leads from that step to the call.
    pub diffs: Vec<Change>,
    /// Other recorded steps that are like it.
    pub nearest: Vec<Near>,
    pub sends: u32,
}

/// A recorded step that is like a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Near {
    #[serde(flatten)]
    pub step: StepRef,
    /// 0 to 1.
    pub likeness: f64,
}

/// What an execution from the record spares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Saved {
    pub model_calls: u32,
    pub tool_calls: u32,
    pub input_tokens: u64,
    pub output_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// How long the recorded calls took, one after the other.
    pub duration_ms: f64,
}

/// What a simulation was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Asked {
    pub mode: Mode,
    pub allow_partial: bool,
}

/// What a simulation found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Report {
    pub run_id: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub with_runs: Vec<String>,
    pub record_digest: String,
    pub simulation: Asked,
    pub verdict: Verdict,
    /// The miss that stands first in the order of the record.
    pub first_divergence: Option<Miss>,
    /// Steps of the record.
    pub steps: u32,
    pub matches: Vec<Match>,
    /// Recorded calls of models that were not made.
    pub unused: Vec<StepRef>,
    /// Recorded calls of tools that neither came here nor show in what a model was told.
    pub unseen: Vec<StepRef>,
    pub extra: Vec<Miss>,
    /// Calls that were left to be made live.
    pub live: u32,
    pub saved: Saved,
    /// What the answers held that is not in the record.
    pub synthesized: Vec<String>,
}

impl Session {
    /// What was found so far.
    pub fn report(&self) -> Report {
        let state = self.state.lock().snapshot();
        let runs = &self.plan.runs;
        let extra = self.misses(&state);
        let answered = self.answered(&state);
        let (unused, unseen) = self.not_asked(&state);
        let loose = answered.iter().any(|found| found.rung > Rung::Position && found.rung < Rung::Static);
        Report {
            run_id: runs.first().map(|run| run.run_id.clone()).unwrap_or_default(),
            with_runs: runs.iter().skip(1).map(|run| run.run_id.clone()).collect(),
            record_digest: runs.first().map(|run| run.record_digest.to_string()).unwrap_or_default(),
            simulation: Asked { mode: self.settings.mode, allow_partial: self.settings.allow_partial },
            verdict: verdict(&extra, !unused.is_empty() || loose),
            first_divergence: extra.first().cloned(),
            steps: runs.iter().map(|run| u32::try_from(run.steps.len()).unwrap_or(u32::MAX)).sum(),
            live: state.live,
            saved: self.saved(&state),
            synthesized: self.synthesized(&state),
            matches: answered,
            unused,
            unseen,
            extra,
        }
    }

    /// The step of a recorded call, as reports name it.
    pub(super) fn step_ref(&self, call: &Recorded) -> Option<StepRef> {
        let (run, step) = self.plan.step(call)?;
        let run_id = (self.plan.runs.len() > 1).then(|| run.run_id.clone());
        Some(StepRef { run_id, step_index: step.index, kind: step.kind, name: step.name.clone() })
    }

    fn answered(&self, state: &State) -> Vec<Match> {
        let used = self.plan.calls.iter().zip(&state.uses);
        let used = used.filter_map(|(call, used)| Some((call, used.as_ref().filter(|used| !used.is_hole)?)));
        used.filter_map(|(call, used)| {
            Some(Match {
                step: self.step_ref(call)?,
                rung: used.rung,
                patched: self.patch_of(call).is_some(),
                drift: used.drift.clone(),
                sends: used.sends,
            })
        })
        .collect()
    }

    /// Recorded calls that nobody made: of models and embeddings, and of tools whose result no model was told either.
    fn not_asked(&self, state: &State) -> (Vec<StepRef>, Vec<StepRef>) {
        let calls = || self.plan.calls.iter().zip(&state.uses);
        let within = |call: &Recorded| match self.settings.mode {
            Mode::Fork(from) => call.step < from as usize,
            _ => true,
        };
        let mut told: BTreeSet<Print> = BTreeSet::new();
        for (call, used) in calls() {
            if used.is_some() && call.target == Target::Model {
                let items = self.plan.said_of(call).items;
                told.extend(
                    items.iter().filter(|i| matches!(i, Item::Call { .. })).map(|i| i.prints().loose),
                );
            }
        }
        let mut unused = Vec::new();
        let mut unseen = Vec::new();
        for (call, _) in calls().filter(|(call, used)| used.is_none() && within(call)) {
            let Some(step) = self.step_ref(call) else { continue };
            if call.target != Target::Tool {
                unused.push(step);
            } else if step.kind == StepKind::ToolCall
                && !self.plan.said_of(call).items.iter().any(|item| told.contains(&item.prints().loose))
            {
                unseen.push(step);
            }
        }
        (unused, unseen)
    }

    #[expect(clippy::cast_precision_loss, reason = "for people")]
    fn saved(&self, state: &State) -> Saved {
        let mut saved = Saved::default();
        for (call, used) in self.plan.calls.iter().zip(&state.uses) {
            let is_answer = used.as_ref().is_some_and(|used| !used.is_hole && used.rung != Rung::Live);
            let Some((_, step)) = self.plan.step(call).filter(|_| is_answer) else { continue };
            match call.target {
                Target::Tool => saved.tool_calls += 1,
                Target::Model | Target::Embedding => saved.model_calls += 1,
            }
            saved.input_tokens += step.usage.input_tokens.unwrap_or_default();
            saved.output_tokens += step.usage.output_tokens.unwrap_or_default();
            if let Some(cost) = step.usage.cost_usd {
                *saved.cost_usd.get_or_insert(0.0) += cost;
            }
            saved.duration_ms += step.end_ns.saturating_sub(step.start_ns) as f64 / 1e6;
        }
        saved
    }

    fn synthesized(&self, state: &State) -> Vec<String> {
        let mut all = Vec::new();
        if state.uses.iter().any(Option::is_some) {
            all.extend(["ids of responses", "pieces of streams", "limits and fingerprints of responses"]);
        }
        if state.has_vectors {
            all.push("embedding vectors");
        }
        if state.by_rule > 0 {
            all.push("answers of rules");
        }
        all.into_iter().map(str::to_owned).collect()
    }
}

fn verdict(extra: &[Miss], differs: bool) -> Verdict {
    let has = |code: RefusedCode| extra.iter().any(|miss| miss.code == code.name());
    if has(RefusedCode::Budget) {
        Verdict::Budget
    } else if has(RefusedCode::Denied) || has(RefusedCode::LiveBlocked) {
        Verdict::Blocked
    } else if has(RefusedCode::Divergence) {
        Verdict::Diverged
    } else if has(RefusedCode::Hole) {
        Verdict::Hole
    } else if differs {
        Verdict::Diverged
    } else {
        Verdict::Same
    }
}
