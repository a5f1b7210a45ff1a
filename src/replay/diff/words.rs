//! Two texts, word by word.
//!
//! Pure: what a comparison may cost is counted, not timed, so that every machine gives the same answer.

use serde::{Deserialize, Serialize};
use similar::{Algorithm, DiffOp, capture_diff_slices};
use unicode_segmentation::UnicodeSegmentation;

/// Two texts with more words than this between what they begin and end with alike are compared by lines.
const WORDS_MAX: usize = 10_000;
/// The same for lines; above it, all of one text is replaced by all of the other.
const LINES_MAX: usize = 10_000;
/// Longer texts are not cut into words, in bytes.
const WORDS_BYTES_MAX: usize = 128 << 10;
/// Words times edits that one report may cost; what comes after is compared without looking inside.
const EFFORT_MAX: u64 = 400_000_000;
/// Of two texts that have less than one part in so many in common, all is replaced: the words that they happen to share
/// would hide that.
const ALIKE_PARTS: usize = 5;
/// Words and blanks of two texts that are too short to say that they have little in common.
const ALIKE_WORDS_MIN: usize = 16;

/// What may still be spent on comparing texts.
#[derive(Clone, Debug)]
pub(crate) struct Effort(u64);

impl Default for Effort {
    fn default() -> Self {
        Self(EFFORT_MAX)
    }
}

impl Effort {
    /// Counts a comparison of `units` with so many edits; Myers' method takes as long as their product.
    fn spend(&mut self, units: usize, edits: usize) {
        self.0 = self.0.saturating_sub((units as u64).saturating_mul(edits as u64 + 1));
    }

    fn is_spent(&self) -> bool {
        self.0 == 0
    }
}

/// What happens to a piece of text on the way from one to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Op {
    Equal,
    Delete,
    Insert,
}

/// A piece of a text. The pieces that are not inserted make up the first text, those that are not deleted the second.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// Whether both texts have it.
    pub op: Op,
    /// The piece itself, with its blanks.
    pub text: String,
}

/// Leads from `before` to `after`; where something is replaced, what goes stands before what comes.
pub(crate) fn diff(before: &str, after: &str, effort: &mut Effort) -> Vec<Piece> {
    let mut pieces = Pieces::default();
    let (head, tail) = shared_ends(before, after);
    let inner = |text| middle(text, head, tail);
    pieces.push(Op::Equal, before.get(..head).unwrap_or_default());
    compare(inner(before), inner(after), effort, &mut pieces);
    pieces.push(Op::Equal, before.get(before.len() - tail..).unwrap_or_default());
    pieces.0
}

/// The pieces that lead back.
pub(crate) fn reversed(pieces: Vec<Piece>) -> Vec<Piece> {
    let mut back: Vec<Piece> = Vec::with_capacity(pieces.len());
    for Piece { op, text } in pieces {
        let op = match op {
            Op::Equal => Op::Equal,
            Op::Delete => Op::Insert,
            Op::Insert => Op::Delete,
        };
        let at = match back.last() {
            Some(last) if op == Op::Delete && last.op == Op::Insert => back.len() - 1,
            _ => back.len(),
        };
        back.insert(at, Piece { op, text });
    }
    back
}

#[derive(Default)]
struct Pieces(Vec<Piece>);

impl Pieces {
    fn push(&mut self, op: Op, text: &str) {
        match self.0.last_mut() {
            _ if text.is_empty() => {}
            Some(last) if last.op == op => last.text.push_str(text),
            _ => self.0.push(Piece { op, text: text.to_owned() }),
        }
    }

    fn replace(&mut self, before: &str, after: &str) {
        self.push(Op::Delete, before);
        self.push(Op::Insert, after);
    }
}

fn compare(before: &str, after: &str, effort: &mut Effort, pieces: &mut Pieces) {
    if by_words(before, after, effort, pieces) {
        return;
    }
    let lines = |text: &str| text.bytes().filter(|byte| *byte == b'\n').count() + 1;
    if effort.is_spent() || lines(before) + lines(after) > LINES_MAX {
        return pieces.replace(before, after);
    }
    let lines = |text| str::split_inclusive(text, '\n').collect::<Vec<&str>>();
    let (old, new) = (lines(before), lines(after));
    for op in edits(&old, &new, effort) {
        let (before, after) = (part(&old, op.old_range()).concat(), part(&new, op.new_range()).concat());
        if matches!(op, DiffOp::Equal { .. }) {
            pieces.push(Op::Equal, &before);
        } else if !by_words(&before, &after, effort, pieces) {
            pieces.replace(&before, &after);
        }
    }
}

/// False when there are too many words.
fn by_words(before: &str, after: &str, effort: &mut Effort, pieces: &mut Pieces) -> bool {
    if effort.is_spent() || before.len().max(after.len()) > WORDS_BYTES_MAX {
        return false;
    }
    let words = |text| UnicodeSegmentation::split_word_bounds(text).collect::<Vec<&str>>();
    let (old, new) = (words(before), words(after));
    if old.len() + new.len() > WORDS_MAX {
        return false;
    }
    let ops = edits(&old, &new, effort);
    let long = old.len() + new.len() >= ALIKE_WORDS_MIN;
    if long && shared(&old, &ops) * 2 * ALIKE_PARTS < before.len() + after.len() {
        pieces.replace(before, after);
        return true;
    }
    // Two replaced words beside each other read better as one replaced phrase.
    let (mut gone, mut come) = (String::new(), String::new());
    for (n, op) in ops.iter().enumerate() {
        let (before, after) = (part(&old, op.old_range()).concat(), part(&new, op.new_range()).concat());
        let joins = matches!(op, DiffOp::Equal { .. })
            && before.chars().all(|c| c.is_whitespace() && c != '\n')
            && !gone.is_empty()
            && !come.is_empty()
            && matches!(ops.get(n + 1), Some(DiffOp::Replace { .. }));
        if joins || !matches!(op, DiffOp::Equal { .. }) {
            gone.push_str(&before);
            come.push_str(&after);
        } else {
            pieces.replace(&std::mem::take(&mut gone), &std::mem::take(&mut come));
            pieces.push(Op::Equal, &before);
        }
    }
    pieces.replace(&gone, &come);
    true
}

/// Bytes of the words, blanks aside, that both texts have.
fn shared(old: &[&str], ops: &[DiffOp]) -> usize {
    let equal = ops.iter().filter(|op| matches!(op, DiffOp::Equal { .. }));
    let words = equal.flat_map(|op| part(old, op.old_range())).filter(|word| !word.trim().is_empty());
    words.map(|word| word.len()).sum()
}

fn edits(old: &[&str], new: &[&str], effort: &mut Effort) -> Vec<DiffOp> {
    let ops = capture_diff_slices(Algorithm::Myers, old, new);
    let changed = ops.iter().filter(|op| !matches!(op, DiffOp::Equal { .. }));
    effort.spend(old.len() + new.len(), changed.map(|op| op.old_range().len() + op.new_range().len()).sum());
    ops
}

fn part<'a, 't>(units: &'a [&'t str], range: std::ops::Range<usize>) -> &'a [&'t str] {
    units.get(range).unwrap_or_default()
}

/// How many bytes two texts share at their beginning and at their end, both cut back to a blank where there is one, so
/// that no word is cut in two.
fn shared_ends(before: &str, after: &str) -> (usize, usize) {
    let (a, b) = (before.as_bytes(), after.as_bytes());
    let head = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    if head == a.len() && head == b.len() {
        return (head, 0);
    }
    let head = before.get(..floor(before, head)).unwrap_or_default();
    let head = head
        .rfind(char::is_whitespace)
        .map_or(0, |at| at + head.get(at..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8));
    let (a, b) = (before.get(head..).unwrap_or_default(), after.get(head..).unwrap_or_default());
    let tail = a.bytes().rev().zip(b.bytes().rev()).take_while(|(a, b)| a == b).count();
    let mut from = a.len() - tail;
    while !a.is_char_boundary(from) {
        from += 1;
    }
    let tail = a.get(from..).unwrap_or_default();
    let tail = tail.find(char::is_whitespace).map_or(0, |at| tail.len() - at);
    (head, tail)
}

/// The greatest place of a character that is not behind `at`.
fn floor(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn middle(text: &str, head: usize, tail: usize) -> &str {
    text.get(head..text.len() - tail).unwrap_or_default()
}

#[cfg(test)]
mod tests;
