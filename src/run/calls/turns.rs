//! The order of the model's turns in a history that does not tell it: as the model calls of the run made them.

use std::{collections::HashMap, sync::Arc};

use super::{
    super::{order::Rank, steps::Draft},
    models, parts,
};
use crate::genai::{
    message::{Message, Part},
    operation::Unordered,
};

/// Puts the turns in order where every turn asked for a call that a model call of the run made.
pub(super) fn order(drafts: &mut [Draft]) {
    if !drafts.iter().any(|draft| draft.calls.unordered == Some(Unordered::Turns)) {
        return;
    }
    let mut made: HashMap<String, Rank> = HashMap::new();
    for model in models(drafts) {
        let Some(draft) = drafts.get(model) else { continue };
        for part in parts(&draft.step.output_messages) {
            if let Part::ToolCall { id: Some(id), .. } = part {
                let _ = made.entry(id.clone()).or_insert(draft.rank);
            }
        }
    }
    for draft in drafts.iter_mut().filter(|draft| draft.calls.unordered == Some(Unordered::Turns)) {
        if let Some(ordered) = in_order(&draft.input, &made) {
            draft.input = ordered;
            draft.calls.unordered = None;
        }
    }
}

/// The history with its turns in the order they were made; `None` when that of a turn is unknown.
fn in_order(history: &[Arc<Message>], made: &HashMap<String, Rank>) -> Option<Vec<Arc<Message>>> {
    let is_turn = |message: &Arc<Message>| message.role == "assistant";
    let first = history.iter().position(is_turn)?;
    let (before, turns) = history.split_at_checked(first)?;
    let mut turns: Vec<&[Arc<Message>]> = turns.chunk_by(|_, next| !is_turn(next)).collect();
    let when = |turn: &&[Arc<Message>]| {
        parts(turn).find_map(|part| match part {
            Part::ToolCall { id: Some(id), .. } => made.get(id).copied(),
            _ => None,
        })
    };
    if !turns.iter().all(|turn| when(turn).is_some()) {
        return None;
    }
    turns.sort_by_key(when);
    Some(before.iter().chain(turns.into_iter().flatten()).cloned().collect())
}
