//! What is done about tools, and what replaces a recorded answer.

use std::collections::BTreeMap;

use glob::Pattern;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Rules for tools, first match first. A tool without a rule is answered from the record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// The rules.
    #[serde(default)]
    pub tools: Vec<ToolRule>,
}

/// What is done when a tool is called.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolRule {
    /// A tool's name; `*`, `?` and `[...]` stand for what they do in file names.
    pub name: String,
    /// Where the answer comes from.
    #[serde(rename = "do")]
    pub action: Action,
    /// What `static` and `error` answer.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub value: Value,
    /// What is done when the record has no answer.
    #[serde(default)]
    pub on_miss: OnMiss,
}

/// Where a tool's answer comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// From the record.
    #[default]
    Record,
    /// The rule's value.
    Static,
    /// The tool itself runs.
    Live,
    /// None: the call is refused.
    Deny,
    /// The tool fails with the rule's value.
    Error,
}

/// What is done when the record has no answer for a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnMiss {
    /// The call is refused, as the mode says.
    #[default]
    Fail,
    /// The tool fails, and the agent goes on.
    ErrorResult,
    /// The recorded call of that tool that is most like it answers.
    Nearest,
}

/// What replaces the answer of a recorded step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Patch {
    /// For a model: text, a message, or a list of messages in the replay document's shape.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// For a tool: its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
}

/// Patches by the index of the step.
pub type Patches = BTreeMap<u32, Patch>;

/// A rule that cannot work.
#[derive(Debug, thiserror::Error, PartialEq)]
#[error("policy: {name:?} is no pattern: {reason}")]
pub struct InvalidPattern {
    name: String,
    reason: &'static str,
}

/// A checked policy.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules(Vec<(Pattern, ToolRule)>);

impl Rules {
    pub(super) fn new(policy: &Policy) -> Result<Self, InvalidPattern> {
        let rule = |rule: &ToolRule| match Pattern::new(&rule.name) {
            Ok(pattern) => Ok((pattern, rule.clone())),
            Err(error) => Err(InvalidPattern { name: rule.name.clone(), reason: error.msg }),
        };
        policy.tools.iter().map(rule).collect::<Result<_, _>>().map(Self)
    }

    /// The rule for a tool.
    pub(super) fn of(&self, name: &str) -> Option<&ToolRule> {
        self.0.iter().find(|(pattern, _)| pattern.matches(name)).map(|(_, rule)| rule)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_later_rule_wins_or_a_bad_one_is_taken() {
        let policy: Policy = serde_json::from_value(json!({"tools": [
            {"name": "book_*", "do": "deny"},
            {"name": "*", "do": "static", "value": 1, "on_miss": "nearest"},
        ]}))
        .unwrap();
        let rules = Rules::new(&policy).unwrap();
        assert_eq!(rules.of("book_trip").unwrap().action, Action::Deny);
        assert_eq!(rules.of("a/b").unwrap().action, Action::Static);
        let bad = Policy { tools: vec![ToolRule { name: "[".into(), ..policy.tools[0].clone() }] };
        assert!(Rules::new(&bad).is_err());
        assert!(serde_json::from_value::<Policy>(json!({"tools": [{"name": "a", "do": "guess"}]})).is_err());
    }
}
