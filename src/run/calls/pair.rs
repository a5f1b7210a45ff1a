//! Which step executed which call: by id, else by name, arguments and order.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

use super::{
    super::{
        duplicates::same_tool,
        model::{Step, StepKind},
        steps::Draft,
    },
    Asked, Shown, executes,
};
use crate::genai::message::ContentState;

pub(super) fn match_steps(drafts: &[Draft], asked: &mut [Asked], shown: &Shown) {
    let mut by_id: HashMap<&str, Vec<usize>> = HashMap::new();
    let mut free: Vec<(usize, &Draft)> = Vec::new();
    let ids: BTreeSet<String> = asked.iter().filter_map(|call| call.id.clone()).collect();
    for (number, draft) in drafts.iter().enumerate().filter(|(_, draft)| executes(&draft.step)) {
        match &draft.step.tool_call_id {
            Some(id) if ids.contains(id) => by_id.entry(id).or_default().push(number),
            Some(id) if shown.asked_before.contains(id) => {}
            // Some frameworks tell the model one id and their tool another.
            _ => free.push((number, draft)),
        }
    }
    for call in asked.iter_mut() {
        call.tools = call.id.as_deref().and_then(|id| by_id.get(id).cloned()).unwrap_or_default();
    }
    free.sort_by_key(|(_, draft)| draft.rank);
    match_in_order(drafts, asked, &free, true, |call, step| {
        let told = call.arguments.as_ref().zip(step.tool_arguments.as_ref());
        same_tool(&call.name, &step.name) && told.is_some_and(|(call, step)| same_arguments(call, step))
    });
    match_in_order(drafts, asked, &free, true, |call, step| {
        let unknown = step.tool_arguments.is_none() || call.arguments.is_none();
        same_tool(&call.name, &step.name) && (unknown || step.input_state != ContentState::Captured)
    });
    match_in_order(drafts, asked, &free, false, |call, step| same_tool(&call.name, &step.name));
    // A function may be offered under another name than its own.
    match_in_order(drafts, asked, &free, true, |call, step| {
        let told = call.arguments.as_ref().zip(step.tool_arguments.as_ref());
        step.kind == StepKind::ToolCall && told.is_some_and(|(call, step)| call == step && is_telling(call))
    });
    // A hand-off is asked for through a tool that each framework names its own way.
    match_in_order(drafts, asked, &free, true, |call, step| {
        let target = step.decision.as_deref().unwrap_or(&step.name).to_lowercase().replace([' ', '-'], "_");
        step.kind == StepKind::Handoff
            && (call.name.starts_with("transfer_to") || call.name.contains(&target))
    });
}

/// Equal, or the bare value of the only argument.
fn same_arguments(asked: &Value, executed: &Value) -> bool {
    let only = asked.as_object().filter(|map| map.len() == 1).and_then(|map| map.values().next());
    asked == executed || only == Some(executed)
}

/// Arguments that two calls of different tools hardly share.
fn is_telling(arguments: &Value) -> bool {
    arguments.as_object().is_some_and(|members| !members.is_empty())
}

/// Gives each unmatched call the first free step at or after it that `fits`. Looks at a bounded number of steps a call.
fn match_in_order(
    drafts: &[Draft],
    asked: &mut [Asked],
    free: &[(usize, &Draft)],
    sure: bool,
    fits: impl Fn(&Asked, &Step) -> bool,
) {
    /// Free steps that are looked at for one call.
    const LOOK_AHEAD_MAX: usize = 256;
    let mut taken: BTreeSet<usize> = asked.iter().flat_map(|call| call.tools.iter().copied()).collect();
    let mut open: Vec<(usize, &Draft)> = free.iter().filter(|(n, _)| !taken.contains(n)).copied().collect();
    let mut first = 0;
    for call in asked.iter_mut().filter(|call| call.tools.is_empty()) {
        let Some(asker) = drafts.get(call.by) else { continue };
        // Calls come in time order: what is before this one is before all that follow.
        while open.get(first).is_some_and(|(n, d)| d.rank.0 < asker.rank.0 || taken.contains(n)) {
            first += 1;
        }
        let candidates = open.iter().skip(first).take(LOOK_AHEAD_MAX);
        let hit =
            candidates.into_iter().find(|(n, d)| !taken.contains(n) && fits(call, &d.step)).map(|(n, _)| *n);
        if let Some(step) = hit {
            let _ = taken.insert(step);
            call.tools.push(step);
            call.sure = sure;
            // Steps that are taken fill the look-ahead of the calls to come; they go now and then.
            if taken.len().is_multiple_of(LOOK_AHEAD_MAX) {
                open.retain(|(n, _)| !taken.contains(n));
                first = 0;
            }
        }
    }
}
