//! Guardrails and evaluations: what was checked, how it came out, and why, in everybody's words.

use super::{Facts, fill, fill_messages};
use crate::genai::{
    attrs::Attrs,
    operation::{Kind, Operation},
};

const VERDICTS: &[&str] = &[
    "gen_ai.guardrail.result.value",
    "gen_ai.guardrail.result.type",
    "gen_ai.guardrail.verdict.type",
    "gen_ai.guardrail.action.type",
    "agent.threat.detection.action",
    "guardrail_status",
    "guardrail_response",
];
const SCORES: &[&str] = &["gen_ai.evaluation.score.label", "gen_ai.evaluation.score.value"];
const REASONS: &[&str] =
    &["gen_ai.evaluation.explanation", "gen_ai.guardrail.result.reason", "gen_ai.guardrail.verdict.reason"];
const NAMES: &[&str] = &[
    "gen_ai.guardrail.component.name",
    "gen_ai.guardrail.name",
    "guardrail_name",
    "agent.threat.detection.rule_id",
    "aws.bedrock.guardrail.id",
    "gen_ai.evaluation.name",
];
/// Attributes that only the span of a guardrail carries.
const GUARDRAIL: &[&str] = &["guardrail_name", "guardrail_response", "agent.threat.detection.action"];

/// True for a span that says by its attributes alone that it is a guardrail.
pub(super) fn is_guardrail(attrs: &Attrs) -> bool {
    GUARDRAIL.iter().any(|key| attrs.has(key))
}

/// Fills what the span says of a check, then what the events say that it left.
pub(super) fn read(facts: &Facts<'_>, operation: &mut Operation) {
    let (event, verdicts) = match operation.kind {
        Kind::Guardrail => ("gen_ai.guardrail.result", VERDICTS),
        Kind::Evaluation => ("gen_ai.evaluation.result", SCORES),
        _ => return,
    };
    let events = facts.events.iter().filter(|e| e.name == event && facts.log.is_none()).map(|e| &e.attrs);
    for attrs in std::iter::once(facts.attrs).chain(events) {
        fill(&mut operation.tool.name, || attrs.text(NAMES));
        fill(&mut operation.decision, || attrs.text(verdicts));
        fill_messages(operation, None, attrs.first(REASONS));
    }
}
