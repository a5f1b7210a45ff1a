//! One simulation: calls come, recorded steps answer, and what happened is kept for the report.

use std::{collections::HashMap, fmt, str::FromStr, sync::Arc};

use parking_lot::Mutex;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

use super::{
    answers,
    call::{Answer, Call, EmbeddingCall, ModelAnswer, ModelCall, RefusedCode, ToolAnswer, ToolCall},
    canon::{self, Item, Print, Said},
    facets::Facets,
    ladder::{Asked, Outcome},
    nearest::Live,
    plan::{self, Plan, Recorded, Target},
    policy::{Action, InvalidPattern, OnMiss, Patch, Patches, Policy, Rules},
    report::{Class, Miss, Rung},
};
use crate::{
    genai::message::Message,
    replay::diff::json::Change,
    run::{Run, model::Reason},
};

/// How a call is matched with the record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Equal calls only.
    #[default]
    Strict,
    /// Whatever is most like it, and every difference is told.
    Lenient,
    /// Steps below the number from the record, strictly; what comes after is live.
    Fork(u32),
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Strict => f.write_str("strict"),
            Self::Lenient => f.write_str("lenient"),
            Self::Fork(from) => write!(f, "fork@{from}"),
        }
    }
}

/// A mode that there is not.
#[derive(Debug, thiserror::Error)]
#[error("mode {0:?} is none of strict, lenient, fork@N (N is the first live step)")]
pub struct InvalidMode(String);

impl FromStr for Mode {
    type Err = InvalidMode;

    fn from_str(text: &str) -> Result<Self, InvalidMode> {
        let fork = || text.strip_prefix("fork@").and_then(|number| number.parse().ok()).map(Self::Fork);
        match text {
            "strict" => Ok(Self::Strict),
            "lenient" => Ok(Self::Lenient),
            _ => fork().ok_or_else(|| InvalidMode(text.to_owned())),
        }
    }
}

impl Serialize for Mode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Mode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// What a simulation is asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// How calls are matched.
    pub mode: Mode,
    /// A record with holes is taken.
    pub allow_partial: bool,
    /// What is done about tools.
    pub policy: Policy,
    /// What replaces recorded answers, of the first run.
    pub patches: Patches,
    /// The record is redacted, by our rules: so are calls before they are compared.
    pub is_redacted: bool,
}

/// Why a record cannot be simulated as asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Content is missing, and that was not allowed.
    #[error("the record has holes; --allow-partial (allow_partial) takes it, mode lenient as well")]
    Partial(Vec<Reason>),
    /// No step can answer.
    #[error("no model, tool or embedding call of the run is in the record")]
    Nothing,
    /// A patch names a step that answers nothing.
    #[error("patch: step {0} is no call of a model or tool")]
    Patch(u32),
    /// A rule of the policy.
    #[error(transparent)]
    Policy(#[from] InvalidPattern),
}

/// What a call gets.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The answer.
    pub answer: Answer,
    /// Which rung found it; `None` for a refusal.
    pub rung: Option<Rung>,
    /// The run and step that answer.
    pub step: Option<(String, u32)>,
    /// Position of that step in the plan.
    pub(super) at: Option<usize>,
    /// How long the recorded call took, and until its first token, in nanoseconds; 0 when unknown.
    pub timing: Timing,
}

/// How long a recorded call took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Timing {
    pub first_ns: u64,
    pub whole_ns: u64,
}

/// One simulation.
#[derive(Debug)]
pub struct Session {
    pub(super) plan: Plan,
    pub(super) settings: Settings,
    rules: Rules,
    /// What ids of answers are made of.
    seed: String,
    pub(super) state: Mutex<State>,
}

/// What happened so far.
#[derive(Debug, Default)]
pub(super) struct State {
    /// By position in the plan.
    pub uses: Vec<Option<Use>>,
    /// With the calls themselves, as far as they fit.
    pub misses: Vec<(Miss, Option<Arc<Asked>>)>,
    /// Bytes of the calls that are kept.
    pub kept_bytes: usize,
    /// By the exact key of a live call: what it got last.
    pub outcomes: HashMap<Print, Outcome>,
    /// By the id of an answer: how it came about.
    turns: HashMap<String, Turn>,
    /// Calls of tools that a rule answered.
    pub by_rule: u32,
    /// Calls that were left to be made live.
    pub live: u32,
    /// Vectors were made up.
    pub has_vectors: bool,
}

impl State {
    /// What a report is made of: making it takes long, and calls must not wait for it.
    pub(super) fn snapshot(&self) -> Self {
        Self {
            uses: self.uses.clone(),
            misses: self.misses.clone(),
            by_rule: self.by_rule,
            live: self.live,
            has_vectors: self.has_vectors,
            ..Self::default()
        }
    }
}

/// How an answer came about, for calls that name it instead of repeating the conversation.
#[derive(Debug)]
struct Turn {
    /// The answer that this one went on from, with what was sent then; the record has the rest.
    before: Option<(String, Vec<Item>)>,
    /// The recorded call that answered.
    at: usize,
    answer: Vec<Item>,
}

/// How a recorded call was used.
#[derive(Clone, Debug)]
pub(super) struct Use {
    pub rung: Rung,
    pub drift: Vec<Change>,
    pub sends: u32,
    pub is_hole: bool,
}

impl Session {
    /// A simulation of `runs`, one after the other. `seed` makes the ids of its answers, and is to be unique.
    ///
    /// # Errors
    /// The record has holes that the settings do not allow, or the settings do not fit it.
    pub fn new(runs: Vec<Arc<Run>>, settings: Settings, seed: String) -> Result<Self, Error> {
        let rules = Rules::new(&settings.policy)?;
        let reasons = super::holes::of(&runs, settings.mode);
        if !reasons.is_empty() && !settings.allow_partial && settings.mode != Mode::Lenient {
            return Err(Error::Partial(reasons));
        }
        let plan = Plan::new(runs);
        if plan.calls.is_empty() {
            return Err(Error::Nothing);
        }
        let known = |step: u32| plan.calls.iter().any(|call| call.run == 0 && call.step == step as usize);
        if let Some(step) = settings.patches.keys().find(|step| !known(**step)) {
            return Err(Error::Patch(*step));
        }
        let state = State { uses: plan.calls.iter().map(|_| None).collect(), ..State::default() };
        Ok(Self { plan, settings, rules, seed, state: Mutex::new(state) })
    }

    /// Answers a call. `is_resent` says that the client marks it as sent again. The same calls get the same answers.
    pub fn answer(&self, call: &Call, is_resent: bool) -> Reply {
        let masked = self.settings.is_redacted.then(|| call.redacted());
        match masked.as_ref().unwrap_or(call) {
            Call::Model(call) => self.model(call, is_resent),
            Call::Tool(call) => self.tool(call, is_resent),
            Call::Embedding(call) => self.embedding(call, is_resent),
        }
    }

    /// Refuses a call that would have had to be made live.
    pub fn block(&self, call: &Call, reason: &str) -> Reply {
        let (target, name) = match call {
            Call::Model(call) => (Target::Model, &call.model),
            Call::Tool(call) => (Target::Tool, &call.name),
            Call::Embedding(call) => (Target::Embedding, &call.model),
        };
        let asked = Arc::new(Asked {
            target,
            name: name.clone(),
            keys: Vec::new(),
            live: Live::default(),
            is_resent: false,
            on_miss: OnMiss::Fail,
        });
        let mut state = self.state.lock();
        state.live = state.live.saturating_sub(1);
        let message = format!("spanreel: a live call of {name} was blocked: {reason}");
        let miss = self.miss(&asked, RefusedCode::LiveBlocked, Class::Policy, message, None);
        self.refuse(&mut state, &asked, miss)
    }

    fn model(&self, call: &ModelCall, is_resent: bool) -> Reply {
        let mut state = self.state.lock();
        let mut said = Said::default();
        said.instruct(&call.system);
        call.messages.iter().for_each(|message| said.extend(message));
        let mut keys = vec![plan::keys_of(&said)];
        let mut before = None;
        if let Some(id) = call.previous_id.as_deref().map(bare_id) {
            before = Some((id.to_owned(), said.items.clone()));
            // Some producers record the whole conversation, some what was sent.
            let mut items = self.conversation(&state, id);
            items.append(&mut said.items);
            said.items = items;
            keys.insert(0, plan::keys_of(&said));
        }
        let asked = Arc::new(Asked {
            target: Target::Model,
            name: call.model.clone(),
            keys,
            live: Live { said, facets: Facets::of_call(call) },
            is_resent,
            on_miss: OnMiss::Fail,
        });
        let reply = self.look_up(&mut state, &asked, &|recorded| {
            let (_, step) = self.plan.step(recorded)?;
            answers::of_model(step, &self.id_of(recorded), self.patch_of(recorded))
        });
        if let (Answer::Model(answer), Some(at)) = (&reply.answer, reply.at) {
            let message =
                Message { role: "assistant".into(), parts: answer.parts.clone(), ..Message::default() };
            let mut said = Said::default();
            said.extend(&message);
            let _ = state.turns.insert(answer.id.clone(), Turn { before, at, answer: said.items });
        }
        reply
    }

    /// How many recorded calls answered so far, and how many calls were refused.
    pub fn counts(&self) -> (usize, usize) {
        let state = self.state.lock();
        let answered = state.uses.iter().flatten().filter(|used| !used.is_hole).count();
        (answered, state.misses.len())
    }

    /// The answer that was given under `id`.
    pub fn given(&self, id: &str) -> Option<ModelAnswer> {
        let at = self.state.lock().turns.get(id)?.at;
        let call = self.plan.call(at)?;
        let answer = answers::of_model(self.plan.step(call)?.1, id, self.patch_of(call));
        if let Some(Answer::Model(answer)) = answer { Some(answer) } else { None }
    }

    /// What was said up to the answer `id`, itself included; nothing when this session did not give it.
    fn conversation(&self, state: &State, id: &str) -> Vec<Item> {
        let mut turns = Vec::new();
        let mut next = state.turns.get(id);
        // A turn goes on from one before it, so that this ends; the count is a second lock.
        while let Some(turn) = next.filter(|_| turns.len() <= state.turns.len()) {
            turns.push(turn);
            next = turn.before.as_ref().and_then(|(id, _)| state.turns.get(id));
        }
        let mut items = Vec::new();
        for turn in turns.into_iter().rev() {
            match &turn.before {
                Some((_, sent)) => items.extend(sent.iter().cloned()),
                None => items.extend(
                    self.plan.call(turn.at).map(|call| self.plan.said_of(call).items).unwrap_or_default(),
                ),
            }
            items.extend(turn.answer.iter().cloned());
        }
        items
    }

    fn tool(&self, call: &ToolCall, is_resent: bool) -> Reply {
        let mut state = self.state.lock();
        let rule = self.rules.of(&call.name);
        let arguments = canon::opened(&call.arguments);
        let said = Said { items: vec![Item::Call { name: call.name.clone(), arguments }], ..Said::default() };
        let asked = Arc::new(Asked {
            target: Target::Tool,
            name: call.name.clone(),
            keys: vec![plan::keys_of_tool(&call.name, &call.arguments)],
            live: Live { said, facets: Facets::default() },
            is_resent,
            on_miss: rule.map(|rule| rule.on_miss).unwrap_or_default(),
        });
        let value = || rule.map(|rule| rule.value.clone()).unwrap_or_default();
        match rule.map(|rule| rule.action).unwrap_or_default() {
            Action::Static => by_rule(&mut state, value(), false),
            Action::Error => by_rule(&mut state, value(), true),
            Action::Deny => {
                let message = format!("spanreel: the policy forbids the tool {}", call.name);
                let miss = self.miss(&asked, RefusedCode::Denied, Class::Policy, message, None);
                self.refuse(&mut state, &asked, miss)
            }
            Action::Live => {
                state.live += 1;
                Reply::without_step(Answer::Live, Some(Rung::Live))
            }
            Action::Record => {
                let reply = self.look_up(&mut state, &asked, &|recorded| {
                    answers::of_tool(self.plan.step(recorded)?.1, self.patch_of(recorded))
                });
                match &reply.answer {
                    Answer::Refused(refused) if asked.on_miss == OnMiss::ErrorResult => {
                        by_rule(&mut state, refused.message.clone().into(), true)
                    }
                    _ => reply,
                }
            }
        }
    }

    fn embedding(&self, call: &EmbeddingCall, is_resent: bool) -> Reply {
        let mut state = self.state.lock();
        let items: Vec<Item> = call.inputs.iter().cloned().map(plan::embedded).collect();
        let named = ModelCall { model: call.model.clone(), ..ModelCall::default() };
        let asked = Arc::new(Asked {
            target: Target::Embedding,
            name: call.model.clone(),
            keys: vec![plan::keys_of_inputs(call.inputs.iter().cloned())],
            live: Live { said: Said { items, ..Said::default() }, facets: Facets::of_model(&named.model) },
            is_resent,
            on_miss: OnMiss::Fail,
        });
        let reply = self.look_up(&mut state, &asked, &|recorded| {
            Some(answers::of_embedding(self.plan.step(recorded)?.1, call))
        });
        state.has_vectors |= matches!(&reply.answer, Answer::Embedding(answer) if !answer.is_recorded);
        reply
    }

    pub(super) fn patch_of(&self, call: &Recorded) -> Option<&Patch> {
        let step = u32::try_from(call.step).ok()?;
        self.settings.patches.get(&step).filter(|_| call.run == 0)
    }

    /// An id that no other answer has, in this simulation or another.
    fn id_of(&self, call: &Recorded) -> String {
        let text = format!("{}/{}/{}", self.seed, call.run, call.step);
        blake3::hash(text.as_bytes()).to_hex().chars().take(24).collect()
    }
}

/// The id of an answer without the prefix of the surface.
fn bare_id(id: &str) -> &str {
    id.rsplit(['_', '-']).next().unwrap_or(id)
}

fn by_rule(state: &mut State, result: Value, is_error: bool) -> Reply {
    state.by_rule += 1;
    Reply::without_step(Answer::Tool(ToolAnswer { step: None, result, is_error }), Some(Rung::Static))
}

impl Reply {
    pub(super) fn without_step(answer: Answer, rung: Option<Rung>) -> Self {
        Self { answer, rung, step: None, at: None, timing: Timing::default() }
    }
}
