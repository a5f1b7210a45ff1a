//! Two JSON values, member by member: what differs, by JSON pointer.
//!
//! The order of members and the way in which a number is written make no difference.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};
use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::{
    digest::Digest,
    words::{self, Effort, Piece},
};

/// More differences than this between two values, and the one is told as replaced by the other.
const CHANGES_MAX: usize = 1_000;
/// Two lists with more items than this between what they begin and end with alike are compared place by place.
const ITEMS_MAX: usize = 1_000;

/// What differs in one place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// JSON pointer into the second document; into the first where only that has it.
    pub path: String,
    /// Where it stands in the first document, when that is another place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_before: Option<String>,
    /// What the first document has there; absent when it has nothing.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub before: Option<Value>,
    /// What the second document has there; absent when it has nothing.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub after: Option<Value>,
    /// Of two texts, what leads from the one to the other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<Piece>,
}

/// A member that is there holds a value, `null` too.
fn given<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(value).map(Some)
}

impl Change {
    /// The change that leads back.
    pub(crate) fn reversed(self) -> Self {
        let (path, path_before) = match self.path_before {
            Some(before) => (before, Some(self.path)),
            None => (self.path, None),
        };
        let words = words::reversed(self.words);
        Self { path, path_before, before: self.after, after: self.before, words }
    }
}

/// The changes that lead back.
pub(crate) fn reversed(changes: Vec<Change>) -> Vec<Change> {
    settled(changes.into_iter().map(Change::reversed).collect())
}

/// What one document alone has in one place comes before what the other alone has there.
pub(crate) fn settled(mut changes: Vec<Change>) -> Vec<Change> {
    let alone = |change: &Change| change.before.is_none() || change.after.is_none();
    let parent = |change: &Change| change.path.rsplit_once('/').map(|(parent, _)| parent.to_owned());
    for group in changes.chunk_by_mut(|a, b| alone(a) && alone(b) && parent(a) == parent(b)) {
        group.sort_by_key(|change| change.before.is_none());
    }
    changes
}

/// What leads from `before` to `after`, which stand at `place`.
pub(crate) fn changes(place: Place<'_>, before: &Value, after: &Value, effort: &mut Effort) -> Vec<Change> {
    let mut found = Vec::new();
    if collect(place, before, after, effort, &mut found).is_none() {
        return vec![change(place.before, place.after, Some(before), Some(after), effort)];
    }
    found
}

/// JSON pointers of two values that are compared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) before: &'a str,
    pub(crate) after: &'a str,
}

impl<'a> Place<'a> {
    /// The same place in both documents.
    pub(crate) fn both(path: &'a str) -> Self {
        Self { before: path, after: path }
    }
}

/// True when nothing differs.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| same(value, other)))
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Number(a), Value::Number(b)) => whole(a).map_or(a == b, |whole_a| Some(whole_a) == whole(b)),
        (a, b) => a == b,
    }
}

/// The whole number that it stands for, `1.0` like `1`.
pub(crate) fn whole(number: &Number) -> Option<i128> {
    /// Above it not every whole number is a float.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    if let Some(whole) = number.as_i128() {
        return Some(whole);
    }
    let float = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() <= EXACT_MAX)?;
    #[allow(clippy::cast_possible_truncation)]
    let whole = float as i128;
    Some(whole)
}

/// One key of a JSON pointer.
pub(crate) fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// One difference, with the words of two texts.
pub(crate) fn change(
    path_before: &str,
    path: &str,
    before: Option<&Value>,
    after: Option<&Value>,
    effort: &mut Effort,
) -> Change {
    let words = match (before, after) {
        (Some(Value::String(before)), Some(Value::String(after))) => words::diff(before, after, effort),
        _ => Vec::new(),
    };
    let (path, path_before) = match (before, after) {
        (Some(_), None) => (path_before, None),
        (None, _) => (path, None),
        _ => (path, (path_before != path).then(|| path_before.to_owned())),
    };
    Change { path: path.to_owned(), path_before, before: before.cloned(), after: after.cloned(), words }
}

/// Two objects that say that they are of other types: their members have nothing to do with each other.
fn is_other(old: &Map<String, Value>, new: &Map<String, Value>) -> bool {
    let kind = |members: &Map<String, Value>| members.get("type").and_then(Value::as_str).map(str::to_owned);
    kind(old).zip(kind(new)).is_some_and(|(old, new)| old != new)
}

/// `None` when there are too many.
fn collect(
    place: Place<'_>,
    before: &Value,
    after: &Value,
    effort: &mut Effort,
    found: &mut Vec<Change>,
) -> Option<()> {
    match (before, after) {
        (Value::Object(old), Value::Object(new)) if !is_other(old, new) => {
            // In the order of the keys: the order in which they were written says nothing.
            let mut keys: Vec<&String> = old.keys().chain(new.keys()).collect();
            keys.sort_unstable();
            keys.dedup();
            for key in keys {
                let below = |path: &str| format!("{path}/{}", escaped(key));
                let (at_before, at_after) = (below(place.before), below(place.after));
                let place = Place { before: &at_before, after: &at_after };
                either(place, old.get(key), new.get(key), effort, found)?;
            }
        }
        (Value::Array(old), Value::Array(new)) => {
            for (a, b) in pairs(old, new) {
                let below =
                    |path: &str, index: Option<usize>| format!("{path}/{}", index.unwrap_or_default());
                let (at_before, at_after) = (below(place.before, a), below(place.after, b));
                let place = Place { before: &at_before, after: &at_after };
                let (before, after) = (a.and_then(|n| old.get(n)), b.and_then(|n| new.get(n)));
                either(place, before, after, effort, found)?;
            }
        }
        _ if same(before, after) => {}
        _ => found.push(change(place.before, place.after, Some(before), Some(after), effort)),
    }
    (found.len() <= CHANGES_MAX).then_some(())
}

fn either(
    place: Place<'_>,
    before: Option<&Value>,
    after: Option<&Value>,
    effort: &mut Effort,
    found: &mut Vec<Change>,
) -> Option<()> {
    match (before, after) {
        (Some(before), Some(after)) => collect(place, before, after, effort, found),
        (None, None) => Some(()),
        (before, after) => {
            found.push(change(place.before, place.after, before, after, effort));
            (found.len() <= CHANGES_MAX).then_some(())
        }
    }
}

/// Which items of two lists stand for each other; equal ones are left out.
fn pairs(old: &[Value], new: &[Value]) -> Vec<(Option<usize>, Option<usize>)> {
    let head = old.iter().zip(new).take_while(|(a, b)| same(a, b)).count();
    let rests = old.iter().skip(head).rev().zip(new.iter().skip(head).rev());
    let tail = rests.take_while(|(a, b)| same(a, b)).count();
    let (gone, come) = (head..old.len() - tail, head..new.len() - tail);
    if gone.len() + come.len() > ITEMS_MAX {
        return side_by_side(gone, come).collect();
    }
    let names = |items: &[Value], range: &Range<usize>| -> Vec<u128> {
        items.get(range.clone()).unwrap_or_default().iter().map(Digest::of).collect()
    };
    let ops = capture_diff_slices(Algorithm::Myers, &names(old, &gone), &names(new, &come));
    let changed = ops.iter().filter(|op| !matches!(op, DiffOp::Equal { .. }));
    let shifted = |range: Range<usize>| range.start + head..range.end + head;
    changed.flat_map(|op| side_by_side(shifted(op.old_range()), shifted(op.new_range()))).collect()
}

fn side_by_side(
    old: Range<usize>,
    new: Range<usize>,
) -> impl Iterator<Item = (Option<usize>, Option<usize>)> {
    let at = |range: &Range<usize>, n: usize| (n < range.len()).then(|| range.start + n);
    (0..old.len().max(new.len())).map(move |n| (at(&old, n), at(&new, n)))
}

#[cfg(test)]
mod tests;
