//! Steps that ran at the same time have no order: any order of them is the same.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet, VecDeque},
};

use super::{
    align::Names,
    content::{Content, SCORE_SAME},
};

/// Further than this from a group, no step is looked at to find the place of the group in the other run.
const REACH: usize = 1_000;
/// Pairs that are tried in all groups together.
const TRIES_MAX: usize = 4 << 20;
/// Names by which equal steps are paired before others are tried: all that they say, and what they did.
const LEVELS_OF_EQUALS: usize = 2;

/// The steps of a run in an order that only what they say decides where time does not.
#[derive(Debug)]
pub(super) struct Order {
    /// Indexes of steps. A step comes before those that it encloses, and these before its next sibling.
    pub(super) steps: Vec<usize>,
    /// For each parallel group, the places of its steps in `steps`.
    groups: Vec<Vec<usize>>,
}

impl Order {
    pub(super) fn of(content: &Content<'_>) -> Self {
        let all = &content.run.steps;
        let mut roots = Vec::new();
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); all.len()];
        for (at, step) in all.iter().enumerate() {
            let parent =
                step.parent_index.and_then(|n| usize::try_from(n).ok()).filter(|parent| *parent < at);
            match parent.and_then(|parent| children.get_mut(parent)) {
                Some(siblings) => siblings.push(at),
                None => roots.push(at),
            }
        }
        let mut order = Self { steps: Vec::with_capacity(all.len()), groups: Vec::new() };
        let mut group_of: Vec<Option<usize>> = vec![None; all.len()];
        let mut stack = order.settle(content, roots, &mut group_of);
        stack.reverse();
        while let Some(at) = stack.pop() {
            if let Some(places) = group_of.get(at).copied().flatten().and_then(|g| order.groups.get_mut(g)) {
                places.push(order.steps.len());
            }
            order.steps.push(at);
            let below = children.get_mut(at).map(std::mem::take).unwrap_or_default();
            stack.extend(order.settle(content, below, &mut group_of).into_iter().rev());
        }
        order
    }

    /// Siblings with the steps of each parallel group together, sorted by what they say.
    fn settle(
        &mut self,
        content: &Content<'_>,
        siblings: Vec<usize>,
        group_of: &mut [Option<usize>],
    ) -> Vec<usize> {
        let group = |at: usize| content.run.steps.get(at).and_then(|step| step.parallel_group);
        let mut members: HashMap<u32, Vec<usize>> = HashMap::new();
        for at in &siblings {
            if let Some(group) = group(*at) {
                members.entry(group).or_default().push(*at);
            }
        }
        let mut settled = Vec::with_capacity(siblings.len());
        for at in siblings {
            let Some(number) = group(at) else {
                settled.push(at);
                continue;
            };
            let Some(mut together) = members.remove(&number) else { continue };
            together.sort_by_cached_key(|at| {
                content.step(*at).map(|(step, said)| {
                    (&step.agent_path, step.kind, &step.name, said.given, said.own, said.whole)
                })
            });
            for at in &together {
                if let Some(slot) = group_of.get_mut(*at) {
                    *slot = Some(self.groups.len());
                }
            }
            self.groups.push(Vec::new());
            settled.extend(together);
        }
        settled
    }
}

/// Pairs the steps of each parallel group anew, whatever their order, where that fits better. All numbers are places.
pub(super) fn pair_groups(
    (a, b): (&Order, &Order),
    levels: &[Names<'_>],
    pairs: &[(usize, usize)],
    score: &dyn Fn(usize, usize) -> u32,
) -> Vec<(usize, usize)> {
    let mut tries = TRIES_MAX;
    let mut there = Links::new(a.steps.len(), b.steps.len(), pairs.iter().copied());
    for group in &a.groups {
        there.improve(group, levels, score, &mut tries);
    }
    let levels: Vec<Names<'_>> = levels.iter().map(|names| Names { a: names.b, b: names.a }).collect();
    let mut back = Links::new(b.steps.len(), a.steps.len(), there.pairs().map(|(a, b)| (b, a)));
    for group in &b.groups {
        back.improve(group, &levels, &|b, a| score(a, b), &mut tries);
    }
    let mut pairs: Vec<_> = back.pairs().map(|(b, a)| (a, b)).collect();
    pairs.sort_unstable();
    pairs
}

/// Pairs, from either side.
struct Links {
    to: Vec<Option<usize>>,
    from: Vec<Option<usize>>,
}

impl Links {
    fn new(here: usize, there: usize, pairs: impl Iterator<Item = (usize, usize)>) -> Self {
        let mut links = Self { to: vec![None; here], from: vec![None; there] };
        pairs.for_each(|(a, b)| links.tie(a, b));
        links
    }

    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> {
        self.to.iter().enumerate().filter_map(|(a, b)| Some((a, (*b)?)))
    }

    fn tie(&mut self, a: usize, b: usize) {
        if let (Some(to), Some(from)) = (self.to.get_mut(a), self.from.get_mut(b)) {
            (*to, *from) = (Some(b), Some(a));
        }
    }

    fn untie(&mut self, a: usize) {
        if let Some(b) = self.to.get_mut(a).and_then(Option::take)
            && let Some(from) = self.from.get_mut(b)
        {
            *from = None;
        }
    }

    fn target(&self, a: usize) -> Option<usize> {
        self.to.get(a).copied().flatten()
    }

    fn improve(
        &mut self,
        group: &[usize],
        levels: &[Names<'_>],
        score: &dyn Fn(usize, usize) -> u32,
        tries: &mut usize,
    ) {
        let sum = |pairs: &[(usize, usize)]| pairs.iter().map(|(a, b)| u64::from(score(*a, *b))).sum::<u64>();
        let now: Vec<_> = group.iter().filter_map(|a| Some((*a, self.target(*a)?))).collect();
        if sum(&now) == u64::from(SCORE_SAME) * group.len() as u64 {
            return;
        }
        let free = self.free_for(group);
        let better = assign(group, free, levels, score, tries);
        if sum(&better) > sum(&now) {
            group.iter().for_each(|a| self.untie(*a));
            better.into_iter().for_each(|(a, b)| self.tie(a, b));
        }
    }

    /// What may be paired with the steps of a group: what lies between the partners of the steps around it, and has no
    /// partner outside the group.
    fn free_for(&self, group: &[usize]) -> Vec<usize> {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { return Vec::new() };
        let before = (first.saturating_sub(REACH)..*first).rev().find_map(|a| self.target(a));
        let after = (last + 1..last.saturating_add(REACH)).find_map(|a| self.target(a));
        let all = before.map_or(0, |b| b + 1)..after.unwrap_or(self.from.len());
        let free = |b: &usize| match self.from.get(*b).copied().flatten() {
            Some(a) => group.binary_search(&a).is_ok(),
            None => true,
        };
        all.filter(free).collect()
    }
}

/// The best pairs first. What has one name on both sides is paired without trying; of large groups, what has one of the
/// weaker names too.
fn assign(
    group: &[usize],
    mut free: Vec<usize>,
    levels: &[Names<'_>],
    score: &dyn Fn(usize, usize) -> u32,
    tries: &mut usize,
) -> Vec<(usize, usize)> {
    let mut group = group.to_vec();
    let mut pairs = Vec::new();
    for (n, names) in levels.iter().enumerate() {
        let left = group.len().saturating_mul(free.len());
        if n < LEVELS_OF_EQUALS || left > *tries {
            pair_equals(names, &mut group, &mut free, &mut pairs);
        }
    }
    let left = group.len().saturating_mul(free.len());
    if left > *tries {
        return pairs;
    }
    *tries -= left;
    let all = group.iter().flat_map(|a| free.iter().map(move |b| (*a, *b)));
    let mut fits: Vec<(u32, usize, usize)> =
        all.map(|(a, b)| (score(a, b), a, b)).filter(|(score, ..)| *score > 0).collect();
    fits.sort_by_key(|(score, a, b)| (Reverse(*score), *a, *b));
    let (mut used_a, mut used_b) = (HashSet::new(), HashSet::new());
    for (_, a, b) in fits {
        if !used_a.contains(&a) && used_b.insert(b) {
            let _ = used_a.insert(a);
            pairs.push((a, b));
        }
    }
    pairs
}

/// Pairs what has one name, in order, and takes it off both sides.
fn pair_equals(
    names: &Names<'_>,
    group: &mut Vec<usize>,
    free: &mut Vec<usize>,
    pairs: &mut Vec<(usize, usize)>,
) {
    let mut named: HashMap<u128, VecDeque<usize>> = HashMap::new();
    for b in free.iter() {
        if let Some(name) = names.b.get(*b).filter(|name| **name != 0) {
            named.entry(*name).or_default().push_back(*b);
        }
    }
    let mut used = HashSet::new();
    group.retain(|a| {
        let partner = names.a.get(*a).and_then(|name| named.get_mut(name)?.pop_front());
        pairs.extend(partner.map(|b| (*a, b)));
        partner.is_none_or(|b| !used.insert(b))
    });
    free.retain(|b| !used.contains(b));
}
