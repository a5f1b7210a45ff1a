//! The order of steps: a graph with edges of four strengths, and Kahn's method (design section 4, "Order").

use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap},
};

use super::table::Table;
use crate::otlp::record::{SpanId, TraceId};

/// Why one step comes before another; the least is the strongest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    /// A parent before its child.
    Parent,
    /// A model call before the tool call that it asked for.
    Asked,
    /// A tool call before the model call that was given its result.
    Result,
    /// An explicit sequence of the producer.
    Sequence,
}

/// `before` comes before `after`. The ids are those of the steps, so that the choice of edges does not depend on numbering.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Edge {
    pub(super) class: Class,
    pub(super) before: usize,
    pub(super) after: usize,
}

/// What decides among steps that are ready: start time, depth-first position, trace id, span id, place among siblings without a span.
pub(super) type Rank = (u64, usize, TraceId, SpanId, usize);

/// An order, and the edges that had to be left out to get one.
#[derive(Debug, Default)]
pub(super) struct Ordered {
    /// Step numbers in order.
    pub(super) order: Vec<usize>,
    /// Edges that would have closed a cycle.
    pub(super) left_out: Vec<Edge>,
}

/// Above this many edges in one knot of cycles, whole classes are left out instead of single edges.
const EXACT_EDGES_MAX: usize = 2048;

/// Orders steps `0..ranks.len()`. Numbers beyond are joints of sequence edges: they carry no rank and do not show.
pub(super) fn order(ranks: &Table<Rank>, joints: usize, mut edges: Vec<Edge>) -> Ordered {
    edges.sort();
    edges.dedup();
    edges.retain(|edge| edge.before != edge.after);
    let len = ranks.len() + joints;
    let mut left_out = Vec::new();
    // Each round makes every knot lose its weakest class or become acyclic; there are four classes.
    loop {
        let knots = knots(len, &edges);
        let inside = |edge: &Edge| knots[edge.before] == knots[edge.after];
        let (inside, outside): (Vec<_>, Vec<_>) = edges.into_iter().partition(inside);
        edges = outside;
        if inside.is_empty() {
            break;
        }
        let (kept, out) = untie(ranks, &knots, inside);
        edges.extend(kept);
        left_out.extend(out);
    }
    left_out.retain(|edge| edge.before < ranks.len() && edge.after < ranks.len());
    left_out.sort();
    Ordered { order: kahn(ranks, len, &edges), left_out }
}

/// Kahn's method; joints come as soon as they can.
fn kahn(ranks: &Table<Rank>, len: usize, edges: &[Edge]) -> Vec<usize> {
    let mut waits = Table::filled(0_usize, len);
    let mut next: Table<Vec<usize>> = Table::filled(Vec::new(), len);
    for edge in edges {
        waits[edge.after] += 1;
        next[edge.before].push(edge.after);
    }
    let rank = |step: usize| (step < ranks.len()).then(|| ranks[step]);
    let mut ready: BinaryHeap<_> =
        (0..len).filter(|step| waits[*step] == 0).map(|step| Reverse((rank(step), step))).collect();
    let mut order = Vec::with_capacity(ranks.len());
    while let Some(Reverse((rank_of, step))) = ready.pop() {
        if rank_of.is_some() {
            order.push(step);
        }
        for after in &next[step] {
            waits[*after] -= 1;
            if waits[*after] == 0 {
                ready.push(Reverse((rank(*after), *after)));
            }
        }
    }
    order
}

/// Leaves edges out of knots: one by one where a knot is small, else its weakest class.
fn untie(ranks: &Table<Rank>, knots: &Table<usize>, inside: Vec<Edge>) -> (Vec<Edge>, Vec<Edge>) {
    let mut by_knot: std::collections::BTreeMap<usize, Vec<Edge>> = std::collections::BTreeMap::new();
    for edge in inside {
        by_knot.entry(knots[edge.before]).or_default().push(edge);
    }
    let (mut kept, mut out) = (Vec::new(), Vec::new());
    for edges in by_knot.into_values() {
        if edges.len() > EXACT_EDGES_MAX {
            let weakest = edges.iter().map(|edge| edge.class).max();
            let (dropped, rest): (Vec<_>, Vec<_>) = edges.into_iter().partition(|e| Some(e.class) == weakest);
            kept.extend(rest);
            out.extend(dropped);
            continue;
        }
        let mut edges = edges;
        let ids = |step: usize| {
            if step < ranks.len() { (ranks[step].2, ranks[step].3, step) } else { Default::default() }
        };
        // The strongest go in first; of equal ones the greatest ids, so that the least are left out.
        edges.sort_by_key(|edge| (edge.class, Reverse((ids(edge.before), ids(edge.after)))));
        let mut inserted: std::collections::BTreeMap<usize, Vec<usize>> = std::collections::BTreeMap::new();
        for edge in edges {
            if reaches(&inserted, edge.after, edge.before) {
                out.push(edge);
            } else {
                inserted.entry(edge.before).or_default().push(edge.after);
                kept.push(edge);
            }
        }
    }
    (kept, out)
}

fn reaches(edges: &std::collections::BTreeMap<usize, Vec<usize>>, from: usize, to: usize) -> bool {
    let mut seen = BTreeSet::from([from]);
    let mut stack = vec![from];
    while let Some(at) = stack.pop() {
        if at == to {
            return true;
        }
        stack.extend(edges.get(&at).into_iter().flatten().filter(|after| seen.insert(**after)));
    }
    false
}

/// Strongly connected components: a number for each vertex, equal within a component (Tarjan, iterative).
fn knots(len: usize, edges: &[Edge]) -> Table<usize> {
    const NEW: usize = usize::MAX;
    let mut next: Table<Vec<usize>> = Table::filled(Vec::new(), len);
    for edge in edges {
        next[edge.before].push(edge.after);
    }
    let mut index = Table::filled(NEW, len);
    let mut low = Table::filled(0, len);
    let mut knot = Table::filled(NEW, len);
    let (mut count, mut open) = (0, Vec::new());
    for root in 0..len {
        let mut calls = if index[root] == NEW { vec![(root, 0)] } else { Vec::new() };
        while let Some((at, edge)) = calls.pop() {
            if edge == 0 {
                index[at] = count;
                low[at] = count;
                count += 1;
                open.push(at);
            }
            if let Some(after) = next[at].get(edge).copied() {
                calls.push((at, edge + 1));
                if index[after] == NEW {
                    calls.push((after, 0));
                } else if knot[after] == NEW {
                    low[at] = low[at].min(index[after]);
                }
                continue;
            }
            if low[at] == index[at] {
                while let Some(member) = open.pop() {
                    knot[member] = at;
                    if member == at {
                        break;
                    }
                }
            }
            if let Some((up, _)) = calls.last() {
                low[*up] = low[*up].min(low[at]);
            }
        }
    }
    knot
}
