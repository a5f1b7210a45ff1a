//! Indexed keys (`llm.input_messages.0.message.role`) -> the tree that they stand for.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::attrs::Attrs;

/// Attributes of one tree that are read at most; what is beyond stays in the raw attributes.
const KEYS_MAX: usize = 50_000;
/// Segments of a key that are read at most.
const SEGMENTS_MAX: usize = 16;

#[derive(Debug, Default)]
struct Node<'a> {
    value: Option<&'a Value>,
    /// By index, so that 10 comes after 2; gaps close.
    items: BTreeMap<u64, Node<'a>>,
    members: BTreeMap<&'a str, Node<'a>>,
}

/// The tree under `prefix` (without its last dot); `None` when no attribute is there.
///
/// Where a key is both a value and a prefix, the tree below it wins.
pub fn tree(attrs: &Attrs, prefix: &str) -> Option<Value> {
    let dotted = format!("{prefix}.");
    let mut root = Node::default();
    for (key, value) in attrs.with_prefix(&dotted).take(KEYS_MAX) {
        let mut node = &mut root;
        for segment in key.get(dotted.len()..)?.splitn(SEGMENTS_MAX, '.') {
            node = match segment.parse() {
                Ok(index) => node.items.entry(index).or_default(),
                Err(_) => node.members.entry(segment).or_default(),
            };
        }
        node.value = Some(value);
    }
    (!root.items.is_empty() || !root.members.is_empty()).then(|| json(root))
}

/// The items under `prefix`, by index; empty when there are none.
pub fn items(attrs: &Attrs, prefix: &str) -> Vec<Value> {
    match tree(attrs, prefix) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

/// Recursion is bounded by [`SEGMENTS_MAX`].
fn json(node: Node<'_>) -> Value {
    if !node.items.is_empty() {
        return node.items.into_values().map(json).collect();
    }
    if !node.members.is_empty() {
        let members = node.members.into_iter().map(|(key, node)| (key.to_owned(), json(node)));
        return Value::Object(members.collect::<Map<_, _>>());
    }
    node.value.cloned().unwrap_or_default()
}
