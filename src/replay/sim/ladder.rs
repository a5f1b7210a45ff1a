//! The ladder: which recorded call a live one is, from the surest match down to a refusal.

use std::sync::Arc;

use super::{
    call::{Answer, Refused, RefusedCode},
    canon::Print,
    facets::Difference,
    nearest::{self, LIKENESS_MIN, Live},
    plan::{Keys, Recorded, Rung as Key, Target},
    policy::OnMiss,
    report::{Class, Rung},
    session::{Mode, Reply, Session, State, Timing, Use},
};

/// A live call, ready to be looked up.
#[derive(Debug)]
pub(super) struct Asked {
    pub target: Target,
    pub name: String,
    pub keys: Vec<Keys>,
    pub live: Live,
    /// The client marks it as sent again.
    pub is_resent: bool,
    pub on_miss: OnMiss,
}

impl Asked {
    /// A hash of all that was sent: a call that is sent again has the same.
    pub(super) fn sent(&self) -> Option<Print> {
        let keys = self.keys.first()?;
        let text = format!("{:?}", self.live.facets);
        Some(*blake3::Hasher::new().update(&keys.exact).update(text.as_bytes()).finalize().as_bytes())
    }
}

/// What a call got.
#[derive(Clone, Copy, Debug)]
pub(super) enum Outcome {
    Answered(usize),
    Missed(usize),
}

impl Session {
    /// Finds the recorded call, and says so in the state.
    pub(super) fn look_up(
        &self,
        state: &mut State,
        asked: &Arc<Asked>,
        answer: &dyn Fn(&Recorded) -> Option<Answer>,
    ) -> Reply {
        let outcome = asked.sent().and_then(|sent| state.outcomes.get(&sent)).copied();
        if asked.is_resent
            && let Some(outcome) = outcome
            && let Some(reply) = self.again(state, outcome, answer)
        {
            return reply;
        }
        if let Some((at, rung)) = self.find(state, asked) {
            return self.take(state, asked, at, rung, answer);
        }
        // A client that tries a failure again does not always say so; a refusal is counted once.
        let is_final = match outcome {
            Some(Outcome::Answered(at)) => {
                matches!(self.plan.call(at).and_then(answer), Some(Answer::Failed(_)))
            }
            Some(Outcome::Missed(_)) => true,
            None => false,
        };
        if let Some(outcome) = outcome.filter(|_| is_final)
            && let Some(reply) = self.again(state, outcome, answer)
        {
            return reply;
        }
        let is_past = |at| {
            self.plan.call(at).is_none_or(|call| call.target != asked.target || !self.is_open(state, at))
        };
        if matches!(self.settings.mode, Mode::Fork(_)) && (0..self.plan.calls.len()).all(is_past) {
            state.live += 1;
            return Reply::without_step(Answer::Live, Some(Rung::Live));
        }
        let miss = self.explain(state, asked);
        self.refuse(state, asked, miss)
    }

    fn take(
        &self,
        state: &mut State,
        asked: &Arc<Asked>,
        at: usize,
        rung: Rung,
        answer: &dyn Fn(&Recorded) -> Option<Answer>,
    ) -> Reply {
        let drift =
            if rung == Rung::Exact { Vec::new() } else { nearest::changes(&self.plan, at, &asked.live) };
        let answer = self
            .plan
            .call(at)
            .filter(|call| call.has_answer || self.patch_of(call).is_some())
            .and_then(answer);
        let used = Use { rung, drift, sends: 1, is_hole: answer.is_none() };
        if let Some(slot) = state.uses.get_mut(at) {
            *slot = Some(used);
        }
        let Some(answer) = answer else {
            let step = self.plan.call(at).map_or(0, |call| call.step);
            let message = format!(
                "spanreel: hole: recorded step {step} is this call, and the record lacks its answer; \
                 its producer did not send the content"
            );
            let miss = self.miss(asked, RefusedCode::Hole, Class::Hole, message, Some(at));
            return self.refuse(state, asked, miss);
        };
        self.remember(state, asked, Outcome::Answered(at));
        self.reply(at, rung, answer)
    }

    fn reply(&self, at: usize, rung: Rung, answer: Answer) -> Reply {
        let step = self.plan.call(at).and_then(|call| self.plan.step(call));
        let timing = step.map(|(_, step)| Timing {
            first_ns: step.ttft_ns.unwrap_or_default(),
            whole_ns: step.end_ns.saturating_sub(step.start_ns),
        });
        Reply {
            answer,
            rung: Some(rung),
            step: step.map(|(run, step)| (run.run_id.clone(), step.index)),
            at: Some(at),
            timing: timing.unwrap_or_default(),
        }
    }

    /// What the call got before.
    fn again(
        &self,
        state: &mut State,
        outcome: Outcome,
        answer: &dyn Fn(&Recorded) -> Option<Answer>,
    ) -> Option<Reply> {
        match outcome {
            Outcome::Answered(at) => {
                let used = state.uses.get_mut(at)?.as_mut()?;
                used.sends += 1;
                let rung = used.rung;
                Some(self.reply(at, rung, answer(self.plan.call(at)?)?))
            }
            Outcome::Missed(number) => {
                let (miss, _) = state.misses.get_mut(number)?;
                miss.sends += 1;
                let code = RefusedCode::of_name(&miss.code)?;
                let refused = Refused { code, step: miss.step_index, message: miss.message.clone() };
                Some(Reply::without_step(Answer::Refused(refused), None))
            }
        }
    }

    /// The first recorded call, not used yet, on the highest rung that the mode allows.
    fn find(&self, state: &State, asked: &Arc<Asked>) -> Option<(usize, Rung)> {
        let open = |at: &usize| self.is_open(state, *at);
        let difference = |at: usize| {
            self.plan.call(at).map_or(Difference::Model, |call| call.facets.difference(&asked.live.facets))
        };
        let on = |key: Key| {
            asked.keys.iter().flat_map(move |keys| self.plan.find(key, keys)).copied().filter(open)
        };
        let is_lenient = self.settings.mode == Mode::Lenient;
        // What a tool is called with is what it acts on: there an id is not volatile.
        let rungs: &[_] = match asked.target {
            Target::Tool if !is_lenient => &[(Key::Exact, Rung::Exact)],
            _ => &[(Key::Exact, Rung::Exact), (Key::Loose, Rung::Volatile)],
        };
        for (key, rung) in rungs.iter().copied() {
            if let Some(at) = on(key).find(|at| difference(*at) == Difference::None) {
                return Some((at, rung));
            }
            if let Some(at) = on(key).find(|at| difference(*at) == Difference::Weak) {
                return Some((at, Rung::Volatile));
            }
        }
        if let Some(at) = on(Key::Bag).find(|at| difference(*at) <= Difference::Weak) {
            return Some((at, Rung::Volatile));
        }
        if is_lenient || asked.target == Target::Embedding {
            let same = |at: &usize| {
                self.plan.call(*at).is_some_and(|call| {
                    let name = self.plan.step(call).map(|(_, step)| step.name.as_str());
                    let is_same = match call.target {
                        Target::Tool => name == Some(asked.name.as_str()),
                        _ => difference(*at) <= Difference::Weak,
                    };
                    call.target == asked.target && call.keys.is_empty() && is_same
                })
            };
            if let Some(at) = (0..self.plan.calls.len()).filter(open).find(same) {
                return Some((at, Rung::Position));
            }
        }
        if !is_lenient && asked.on_miss != OnMiss::Nearest {
            return None;
        }
        let ladder =
            [(Key::Loose, Rung::Settings), (Key::Bare, Rung::Instructions), (Key::Shape, Rung::Shape)];
        for (key, rung) in ladder {
            if let Some(at) = on(key).next() {
                return Some((at, rung));
            }
            if rung == Rung::Instructions
                && let Some(at) = self.plan.find_tail(&asked.live.said).into_iter().find(open)
            {
                return Some((at, Rung::History));
            }
        }
        let same_tool = |at: &usize| {
            let step = self.plan.call(*at).and_then(|call| self.plan.step(call));
            asked.target != Target::Tool || step.is_some_and(|(_, step)| step.name == asked.name)
        };
        let open = (0..self.plan.calls.len()).filter(open).filter(same_tool);
        let best = nearest::candidates(&self.plan, asked.target, open, &asked.live).into_iter().next();
        best.filter(|best| best.likeness >= LIKENESS_MIN || asked.target == Target::Tool)
            .map(|best| (best.at, Rung::Nearest))
    }

    pub(super) fn is_open(&self, state: &State, at: usize) -> bool {
        let below = |call: &Recorded| match self.settings.mode {
            Mode::Fork(from) => call.run == 0 && call.step < from as usize,
            _ => true,
        };
        state.uses.get(at).is_some_and(Option::is_none) && self.plan.call(at).is_some_and(below)
    }

    pub(super) fn remember(&self, state: &mut State, asked: &Arc<Asked>, outcome: Outcome) {
        if let Some(sent) = asked.sent() {
            let _ = state.outcomes.insert(sent, outcome);
        }
    }
}
