//! What a model call says beside its conversation: model, tools, settings. The record often lacks some of it, so each is
//! compared only where both sides tell it.

use std::{collections::BTreeMap, sync::LazyLock};

use regex::Regex;
use serde_json::{Value, json};

use super::{
    call::{ModelCall, Sampling},
    canon::Print,
    tools,
};
use crate::run::model::Step;

/// What stands beside a conversation.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Facets {
    /// Names of the model: as asked for, and as answered by. Empty when not recorded.
    models: Vec<String>,
    /// Tools by name; `None` when not recorded.
    tools: Option<BTreeMap<String, Print>>,
    sampling: Sampling,
}

/// How two calls with one conversation differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Difference {
    /// Nothing that both sides tell.
    None,
    /// The description or schema of a tool, or the most tokens.
    Weak,
    /// A setting that changes what a model answers.
    Parameters,
    /// The names of the tools.
    ToolSet,
    /// The model.
    Model,
}

impl Facets {
    pub(super) fn of_step(step: &Step) -> Self {
        let request = &step.request;
        Self {
            models: step.model.iter().chain(&step.response_model).cloned().collect(),
            tools: step.tool_definitions.as_ref().map(|value| tools::prints(&tools::read(value))),
            sampling: Sampling {
                temperature: request.temperature,
                top_p: request.top_p,
                max_tokens: request.max_tokens.and_then(|n| u64::try_from(n).ok()),
                seed: request.seed,
            },
        }
    }

    pub(super) fn of_call(call: &ModelCall) -> Self {
        Self {
            models: vec![call.model.clone()],
            tools: Some(tools::prints(&call.tools)),
            sampling: call.sampling,
        }
    }

    /// Of a call that names a model and nothing else.
    pub(super) fn of_model(name: &str) -> Self {
        Self { models: vec![name.to_owned()], ..Self::default() }
    }

    /// How the live call `live` differs from this recorded one.
    pub(super) fn difference(&self, live: &Self) -> Difference {
        let same_model = |name: &String| live.models.iter().any(|other| family(name) == family(other));
        if !self.models.is_empty() && !self.models.iter().any(same_model) {
            return Difference::Model;
        }
        if let (Some(recorded), Some(now)) = (&self.tools, &live.tools)
            && !recorded.keys().eq(now.keys())
        {
            return Difference::ToolSet;
        }
        let (recorded, now) = (&self.sampling, &live.sampling);
        if differ(recorded.temperature, now.temperature)
            || differ(recorded.top_p, now.top_p)
            || differ(recorded.seed, now.seed)
        {
            return Difference::Parameters;
        }
        let schemas = self.tools.is_some() && self.tools != live.tools;
        if schemas || differ(recorded.max_tokens, now.max_tokens) {
            Difference::Weak
        } else {
            Difference::None
        }
    }

    /// What the reports show of it.
    pub(super) fn document(&self) -> Vec<(&'static str, Value)> {
        let tools = self.tools.as_ref().map(|tools| tools.keys().collect::<Vec<_>>());
        vec![
            ("model", json!(self.models.first())),
            ("tools", json!(tools)),
            ("parameters", json!(self.sampling)),
        ]
    }
}

fn differ<T: PartialEq>(recorded: Option<T>, live: Option<T>) -> bool {
    matches!((recorded, live), (Some(a), Some(b)) if a != b)
}

/// A date, a version, a revision behind a model's name.
static VERSION: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?:[-@](?:\d{4}-\d{2}-\d{2}|\d{8}|\d{3}|latest)|-v\d+(?::\d+)?|:\d+)$").ok()
});
/// Regions and makers in front of a name, as Bedrock writes them.
const PREFIXES: &[&str] =
    &["us", "eu", "apac", "global", "anthropic", "amazon", "meta", "mistral", "cohere", "ai21", "deepseek"];

/// The model itself, without who serves it and which day's build it is.
fn family(name: &str) -> String {
    let name = name.rsplit('/').next().unwrap_or(name).to_lowercase();
    let mut rest = name.as_str();
    while let Some((head, tail)) = rest.split_once('.')
        && PREFIXES.contains(&head)
    {
        rest = tail;
    }
    let mut family = rest.to_owned();
    while let Some(shorter) = VERSION.as_ref().and_then(|v| v.find(&family)).map(|found| found.start()) {
        family.truncate(shorter);
    }
    family
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_or_a_provider_makes_another_model() {
        for (name, expected) in [
            ("gpt-4o-mini-2024-07-18", "gpt-4o-mini"),
            ("openai/gpt-4o-mini", "gpt-4o-mini"),
            ("us.anthropic.claude-sonnet-4-20250514-v1:0", "claude-sonnet-4"),
            ("claude-sonnet-4@20250514", "claude-sonnet-4"),
            ("models/gemini-2.5-flash", "gemini-2.5-flash"),
            ("gpt-4.1", "gpt-4.1"),
            ("gpt-4o", "gpt-4o"),
        ] {
            assert_eq!(family(name), expected);
        }
        assert_ne!(family("gpt-4o"), family("gpt-4o-mini"));
    }

    #[test]
    fn what_was_not_recorded_makes_a_difference() {
        let live = Facets::of_call(&ModelCall {
            model: "gpt-4o".into(),
            sampling: Sampling { temperature: Some(0.2), max_tokens: Some(9), ..Sampling::default() },
            ..ModelCall::default()
        });
        assert_eq!(Facets::default().difference(&live), Difference::None);
        let recorded = |change: fn(&mut Facets)| {
            let mut facets = live.clone();
            change(&mut facets);
            facets.difference(&live)
        };
        assert_eq!(recorded(|_| ()), Difference::None);
        assert_eq!(recorded(|f| f.models = vec!["gpt-4.1".into()]), Difference::Model);
        assert_eq!(recorded(|f| f.tools = Some([("w".into(), [0; 32])].into())), Difference::ToolSet);
        assert_eq!(recorded(|f| f.sampling.temperature = Some(0.3)), Difference::Parameters);
        assert_eq!(recorded(|f| f.sampling.max_tokens = Some(8)), Difference::Weak);
        assert_eq!(recorded(|f| f.sampling.temperature = None), Difference::None);
    }
}
