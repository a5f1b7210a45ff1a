//! Tokens and cost of a run, each counted once (invariant 8).

use std::collections::{BTreeMap, BTreeSet};

use super::{duplicates::Duplicates, forest::Forest, steps::Draft};
use crate::genai::operation::{Kind, Usage};

/// The sum over the calls, and where the cost comes from.
///
/// A container (agent, workflow, tool, wrapper) counts only where nothing below it has usage; then it is the innermost.
pub(super) fn total(
    forest: &Forest,
    nodes: &[usize],
    drafts: &[Draft],
    duplicates: &Duplicates,
) -> (Usage, Option<String>) {
    let of_step: BTreeMap<usize, &Draft> =
        drafts.iter().filter_map(|draft| Some((draft.node?, draft))).collect();
    let mut counted_below: BTreeSet<usize> = BTreeSet::new();
    let mut total = Usage::default();
    let mut sources: BTreeSet<String> = BTreeSet::new();
    for number in nodes.iter().rev() {
        let node = &forest.nodes[*number];
        let below = counted_below.contains(number);
        let (usage, source) = match of_step.get(number) {
            Some(draft) => (draft.step.usage, draft.step.cost_source.clone()),
            None => (node.op.usage, node.op.cost_source.clone()),
        };
        let model = matches!(node.op.kind, Kind::ModelCall | Kind::Embedding | Kind::Rerank);
        let call = model && of_step.contains_key(number) && !node.op.usage_is_aggregate;
        let counts = !usage.is_empty() && !duplicates.superseded_by.contains_key(number) && (call || !below);
        let hidden_log = node.is_log && duplicates.set_aside.contains(number);
        if counts && !hidden_log {
            add(&mut total, &usage);
            sources.extend(source);
        }
        // A superseded report passes its usage on to the elected one, so it has been counted too.
        let passed_on = duplicates.superseded_by.contains_key(number) && !usage.is_empty();
        if let (true, Some(up)) = (below || counts || passed_on, node.parent) {
            let _ = counted_below.insert(up);
        }
    }
    let source = if sources.len() > 1 { Some("mixed".to_owned()) } else { sources.into_iter().next() };
    (total, source)
}

fn add(total: &mut Usage, usage: &Usage) {
    let sum = |total: &mut Option<u64>, one: Option<u64>| {
        if let Some(one) = one {
            *total = Some(total.unwrap_or(0).saturating_add(one));
        }
    };
    sum(&mut total.input_tokens, usage.input_tokens);
    sum(&mut total.output_tokens, usage.output_tokens);
    sum(&mut total.cache_read_tokens, usage.cache_read_tokens);
    sum(&mut total.cache_write_tokens, usage.cache_write_tokens);
    sum(&mut total.reasoning_tokens, usage.reasoning_tokens);
    if let Some(cost) = usage.cost_usd.filter(|cost| cost.is_finite()) {
        total.cost_usd = Some(total.cost_usd.unwrap_or(0.0) + cost);
    }
}
