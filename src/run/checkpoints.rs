//! Checkpoints of a run: posted to the API, or shown by its spans.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    elect::{self, Versions},
    forest::Forest,
    model::RunCheckpoint,
    steps::Draft,
};
use crate::{
    genai::operation::CheckpointRef,
    otlp::record::{Body, Checkpoint, Record},
};

/// The checkpoints of a run, by id. `posted` are those that were posted under one of its names.
pub(super) fn collect(
    forest: &Forest,
    nodes: &[usize],
    drafts: &[Draft],
    posted: &[&Versions],
) -> Vec<RunCheckpoint> {
    let index_of: BTreeMap<usize, u32> =
        drafts.iter().filter_map(|d| Some((d.node?, d.step.index))).collect();
    let mut all: BTreeMap<String, RunCheckpoint> = BTreeMap::new();
    for versions in posted {
        if let Body::Checkpoint(checkpoint) = &versions.elected.body {
            merge(&mut all, from_post(checkpoint));
        }
    }
    for number in nodes {
        for reference in &forest.nodes[*number].op.checkpoints {
            let step_index = index_of.get(number).copied();
            merge(&mut all, RunCheckpoint { reference: reference.clone(), step_index, state: None });
        }
    }
    all.into_values().collect()
}

/// The checkpoints that were posted for the run `id`, by id: what is there to show before its first span came.
pub(crate) fn posted(records: &[Arc<Record>], id: &str) -> Vec<RunCheckpoint> {
    let elected = elect::elect(records).checkpoints;
    let of_run = elected.iter().filter_map(|versions| match &versions.elected.body {
        Body::Checkpoint(checkpoint) if checkpoint.run_id == id => Some(from_post(checkpoint)),
        _ => None,
    });
    of_run.collect()
}

fn from_post(checkpoint: &Checkpoint) -> RunCheckpoint {
    RunCheckpoint {
        reference: CheckpointRef {
            checkpoint_id: checkpoint.checkpoint_id.clone(),
            namespace: checkpoint.namespace.clone(),
            thread_id: checkpoint.thread_id.clone(),
            parent_checkpoint_id: checkpoint.parent_checkpoint_id.clone(),
            source: checkpoint.source.clone().unwrap_or_else(|| "posted".to_owned()),
            recorded: true,
        },
        step_index: checkpoint.step_index,
        state: checkpoint.state.clone(),
    }
}

/// What was posted comes first and is believed; then the first node in depth-first order that knows a member.
fn merge(all: &mut BTreeMap<String, RunCheckpoint>, new: RunCheckpoint) {
    let Some(known) = all.get_mut(&new.reference.checkpoint_id) else {
        let _ = all.insert(new.reference.checkpoint_id.clone(), new);
        return;
    };
    let (to, from) = (&mut known.reference, new.reference);
    to.namespace = to.namespace.take().or(from.namespace);
    to.thread_id = to.thread_id.take().or(from.thread_id);
    to.parent_checkpoint_id = to.parent_checkpoint_id.take().or(from.parent_checkpoint_id);
    to.recorded |= from.recorded;
    known.step_index = known.step_index.or(new.step_index);
}
