//! Which items of two sequences stand for each other, in order.
//!
//! Equal ends first, then items that are unique on both sides, by one set of names after another; what lies between
//! them is aligned by Needleman and Wunsch's method. Where that would cost too much, it is cut into windows.

use std::{collections::HashMap, ops::Range};

/// Cells of one table.
const GAP_CELLS_MAX: usize = 16 << 20;
/// Cells of all tables of one alignment, windows aside; those cost [`WINDOW`] cells an item at most.
const CELLS_MAX: usize = 48 << 20;
/// Up to this many cells a table is the first choice: it sees more than unique items do.
const SMALL_CELLS_MAX: usize = 4 << 10;
/// Items on the longer side of a window.
const WINDOW: usize = 256;

/// Names of the items of both sequences; 0 is no name.
pub(super) struct Names<'a> {
    pub(super) a: &'a [u128],
    pub(super) b: &'a [u128],
}

/// Pairs `(a, b)`, both growing. `levels` are names from the strictest to the weakest, `score` says how well two items
/// fit: 0 when they must not be paired.
pub(super) fn align(levels: &[Names<'_>], score: &dyn Fn(usize, usize) -> u32) -> Vec<(usize, usize)> {
    let Some(all) = levels.first() else { return Vec::new() };
    let (a, b) = (0..all.a.len(), 0..all.b.len());
    let mut aligner = Aligner { levels, score, cells: CELLS_MAX, pairs: Vec::new() };
    aligner.solve(0, a, b);
    aligner.pairs.sort_unstable();
    aligner.pairs
}

struct Aligner<'a> {
    levels: &'a [Names<'a>],
    score: &'a dyn Fn(usize, usize) -> u32,
    /// What tables may still cost.
    cells: usize,
    pairs: Vec<(usize, usize)>,
}

impl Aligner<'_> {
    /// Recursion is as deep as there are levels.
    fn solve(&mut self, level: usize, mut a: Range<usize>, mut b: Range<usize>) {
        self.trim(level, &mut a, &mut b);
        if a.is_empty() || b.is_empty() {
            return;
        }
        let cells = a.len().saturating_mul(b.len());
        let fits = cells <= GAP_CELLS_MAX.min(self.cells);
        match self.levels.get(level) {
            Some(names) if cells > SMALL_CELLS_MAX => {
                let anchors = unique_pairs(names, &a, &b);
                let (mut from_a, mut from_b) = (a.start, b.start);
                for (at_a, at_b) in anchors {
                    self.pairs.push((at_a, at_b));
                    self.solve(level + 1, from_a..at_a, from_b..at_b);
                    (from_a, from_b) = (at_a + 1, at_b + 1);
                }
                self.solve(level + 1, from_a..a.end, from_b..b.end);
            }
            _ if fits => {
                self.cells -= cells;
                self.table(a, b);
            }
            _ => self.windows(&a, &b),
        }
    }

    /// Pairs what both begin and end with.
    fn trim(&mut self, level: usize, a: &mut Range<usize>, b: &mut Range<usize>) {
        let Some(names) = self.levels.get(level) else { return };
        let same = |at_a: usize, at_b: usize| {
            names.a.get(at_a).is_some_and(|name| *name != 0 && names.b.get(at_b) == Some(name))
        };
        while a.start < a.end && b.start < b.end && same(a.start, b.start) {
            self.pairs.push((a.start, b.start));
            (a.start, b.start) = (a.start + 1, b.start + 1);
        }
        while a.start < a.end && b.start < b.end && same(a.end - 1, b.end - 1) {
            (a.end, b.end) = (a.end - 1, b.end - 1);
            self.pairs.push((a.end, b.end));
        }
    }

    fn windows(&mut self, a: &Range<usize>, b: &Range<usize>) {
        let count = a.len().max(b.len()).div_ceil(WINDOW);
        let cut = |range: &Range<usize>, n: usize| range.start + range.len() * n / count;
        for n in 0..count {
            self.table(cut(a, n)..cut(a, n + 1), cut(b, n)..cut(b, n + 1));
        }
    }

    /// The pairs with the greatest sum of scores. An item without a pair costs nothing: it scores nothing.
    fn table(&mut self, a: Range<usize>, b: Range<usize>) {
        #[derive(Clone, Copy)]
        enum From {
            Pair,
            A,
            B,
        }
        let width = b.len();
        let mut from = Vec::with_capacity(a.len() * width);
        let mut above = vec![0_u64; width + 1];
        for at_a in a.clone() {
            let (mut left, mut corner) = (0, 0);
            for (at_b, best) in b.clone().zip(above.iter_mut().skip(1)) {
                let score = u64::from((self.score)(at_a, at_b));
                let paired = if score == 0 { 0 } else { corner + score };
                corner = *best;
                let way = if score != 0 && paired >= left.max(*best) {
                    From::Pair
                } else if *best >= left {
                    From::A
                } else {
                    From::B
                };
                *best = match way {
                    From::Pair => paired,
                    From::A => *best,
                    From::B => left,
                };
                left = *best;
                from.push(way);
            }
        }
        let (mut rows, mut columns) = (a.len(), width);
        while rows > 0 && columns > 0 {
            match from.get((rows - 1) * width + columns - 1) {
                Some(From::Pair) => {
                    (rows, columns) = (rows - 1, columns - 1);
                    self.pairs.push((a.start + rows, b.start + columns));
                }
                Some(From::A) => rows -= 1,
                _ => columns -= 1,
            }
        }
    }
}

/// Items whose name stands once in each range, the longest series of them that is in order on both sides.
fn unique_pairs(names: &Names<'_>, a: &Range<usize>, b: &Range<usize>) -> Vec<(usize, usize)> {
    let (in_a, in_b) = (once(names.a, a), once(names.b, b));
    let mut pairs: Vec<(usize, usize)> =
        in_a.into_iter().filter_map(|(name, at_a)| Some((at_a?, (*in_b.get(&name)?)?))).collect();
    pairs.sort_unstable();
    longest_rising(&pairs)
}

/// Where each name stands; `None` for one that stands twice.
fn once(names: &[u128], range: &Range<usize>) -> HashMap<u128, Option<usize>> {
    let mut places = HashMap::new();
    for (at, name) in range.clone().zip(names.get(range.clone()).unwrap_or_default()) {
        if *name != 0 {
            let _ = places.entry(*name).and_modify(|place| *place = None).or_insert(Some(at));
        }
    }
    places
}

/// The longest series of pairs, given by growing `a`, whose `b` grow too.
fn longest_rising(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let b_of = |n: usize| pairs.get(n).map_or(0, |pair| pair.1);
    // The last pair of the best series of each length, and the pair before each.
    let mut last: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(pairs.len());
    for (n, (_, b)) in pairs.iter().enumerate() {
        let length = last.partition_point(|end| b_of(*end) < *b);
        before.push(length.checked_sub(1).and_then(|shorter| last.get(shorter).copied()));
        match last.get_mut(length) {
            Some(end) => *end = n,
            None => last.push(n),
        }
    }
    let mut series = Vec::with_capacity(last.len());
    let mut at = last.last().copied();
    while let Some(n) = at {
        series.extend(pairs.get(n).copied());
        at = before.get(n).copied().flatten();
    }
    series.reverse();
    series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_falls() {
        let pairs: Vec<_> = [3, 0, 4, 1, 2, 9, 5].into_iter().enumerate().collect();
        assert_eq!(longest_rising(&pairs), [(1, 0), (3, 1), (4, 2), (6, 5)]);
        assert_eq!(longest_rising(&[]), []);
    }

    #[test]
    fn a_better_pair_is_passed_over() {
        let (a, b) = ([10, 20, 30], [21, 10, 31, 22]);
        let names = vec![0; 4];
        let score = |x: usize, y: usize| u32::from(a[x] / 10 == b[y] / 10) * (1 + u32::from(a[x] == b[y]));
        assert_eq!(align(&[Names { a: &names[..3], b: &names }], &score), [(0, 1), (1, 3)]);
    }

    /// Scenario: sequences without names, too long for one table.
    /// Guarantee: windows pair what lies side by side.
    #[test]
    fn sequences_without_names_need_a_table_of_all() {
        const LEN: usize = 5_000;
        let names = vec![0; LEN];
        let score = |x: usize, y: usize| u32::from(x % 7 == y % 7);
        let pairs = align(&[Names { a: &names, b: &names }], &score);
        assert!(pairs.into_iter().eq((0..LEN).map(|n| (n, n))));
        assert!(align(&[Names { a: &names, b: &names }], &|_, _| 0).is_empty());
    }
}
