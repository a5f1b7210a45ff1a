//! Our own attributes (`eai.*`, `spanreel.*`). Identity is read by `genai::identity`; only the fallback kind is here.

use super::{Dialect, Facts, fill};
use crate::genai::operation::{Kind, Operation};

/// The row of this dialect.
pub(super) const DIALECT: Dialect = Dialect { name: "own", detect, kind, read };

fn detect(facts: &Facts<'_>) -> bool {
    facts.attrs.any_with_prefix("eai.")
}

/// The convention's own operation decides where there is one.
fn kind(facts: &Facts<'_>) -> Option<Kind> {
    let bare_tool = facts.attrs.has("gen_ai.tool.name") && !facts.attrs.has("gen_ai.operation.name");
    bare_tool.then_some(Kind::ToolCall)
}

fn read(facts: &Facts<'_>, operation: &mut Operation) {
    fill(&mut operation.agent_id, || facts.attrs.text(&["gen_ai.agent.id"]));
}
