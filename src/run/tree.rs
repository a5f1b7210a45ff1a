//! The spans of a run as nested [`TreeNode`]s.

use std::collections::HashMap;

use super::{duplicates::Duplicates, forest::Forest, model::TreeNode, steps::Draft};

/// Levels of nesting that a tree shows. What is deeper stands in the last level, in depth-first order, with its true
/// `parent_span_id`: so nobody who walks, compares or prints a tree needs a stack as deep as a hostile trace.
pub(super) const LEVELS_MAX: u32 = 56;

/// The trees of a run, roots by start time; and whether some spans stand deeper than the trees show.
pub(super) fn tree(
    forest: &Forest,
    nodes: &[usize],
    drafts: &[Draft],
    duplicates: &Duplicates,
) -> (Vec<TreeNode>, bool) {
    let step_of: HashMap<usize, &Draft> =
        drafts.iter().filter_map(|draft| Some((draft.node?, draft))).collect();
    let mut level_of: HashMap<usize, (u32, usize)> = HashMap::with_capacity(nodes.len());
    let mut below: HashMap<Option<usize>, Vec<usize>> = HashMap::with_capacity(nodes.len());
    let mut cut = false;
    for number in nodes {
        let up = forest.nodes[*number].parent.filter(|up| level_of.contains_key(up));
        // The node under which this one shows: its parent, unless that is at the last level already.
        let (level, shown_under) = match up.and_then(|up| Some((up, level_of.get(&up)?))) {
            None => (0, None),
            Some((_, (level, holder))) if *level + 1 >= LEVELS_MAX => {
                cut = true;
                (*level, Some(*holder))
            }
            Some((up, (level, _))) => (*level + 1, Some(up)),
        };
        let _ = level_of.insert(*number, (level, shown_under.unwrap_or(*number)));
        below.entry(shown_under).or_default().push(*number);
    }
    let mut built: HashMap<usize, TreeNode> = HashMap::with_capacity(nodes.len());
    for number in nodes.iter().rev() {
        let children = below.remove(&Some(*number)).unwrap_or_default();
        let children = children.iter().filter_map(|child| built.remove(child)).collect();
        let _ = built.insert(*number, leaf(forest, *number, step_of.get(number), duplicates, children));
    }
    let roots = below.remove(&None).unwrap_or_default();
    (roots.iter().filter_map(|root| built.remove(root)).collect(), cut)
}

fn leaf(
    forest: &Forest,
    number: usize,
    draft: Option<&&Draft>,
    duplicates: &Duplicates,
    children: Vec<TreeNode>,
) -> TreeNode {
    let node = &forest.nodes[number];
    TreeNode {
        span_id: node.span,
        trace_id: node.trace,
        parent_span_id: node.parent_id,
        name: node.name().to_owned(),
        kind: draft.map_or_else(|| word(node.op.kind), |draft| word(draft.step.kind)),
        step_index: draft.map(|draft| draft.step.index),
        superseded_by: duplicates.superseded_by.get(&number).map(|by| forest.nodes[*by].span),
        other_versions: node.other_versions.clone(),
        children,
    }
}

/// The word that a kind is written as in documents.
fn word(kind: impl serde::Serialize) -> String {
    match serde_json::to_value(kind) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}
