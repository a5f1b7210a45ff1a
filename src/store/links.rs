//! Which traces belong together: traces that share a join key are assembled together.

use std::collections::{BTreeMap, BTreeSet};

use crate::otlp::record::TraceId;

/// Keys and traces, both ways.
#[derive(Clone, Debug, Default)]
pub(super) struct Links {
    by_trace: BTreeMap<TraceId, BTreeSet<String>>,
    by_key: BTreeMap<String, BTreeSet<TraceId>>,
}

impl Links {
    pub(super) fn add(&mut self, trace: TraceId, keys: impl IntoIterator<Item = String>) {
        for key in keys {
            let _ = self.by_key.entry(key.clone()).or_default().insert(trace);
            let _ = self.by_trace.entry(trace).or_default().insert(key);
        }
    }

    pub(super) fn remove(&mut self, trace: TraceId) {
        for key in self.by_trace.remove(&trace).unwrap_or_default() {
            if let Some(traces) = self.by_key.get_mut(&key) {
                let _ = traces.remove(&trace);
                if traces.is_empty() {
                    let _ = self.by_key.remove(&key);
                }
            }
        }
    }

    pub(super) fn traces(&self, key: &str) -> impl Iterator<Item = TraceId> {
        self.by_key.get(key).into_iter().flatten().copied()
    }
}

/// All traces that `from` belong together with, by the keys of any of `links`, and where checkpoints of theirs stand:
/// they may have been there before anything named their run.
pub(super) fn closure(from: impl IntoIterator<Item = TraceId>, links: &[&Links]) -> BTreeSet<TraceId> {
    let mut found: BTreeSet<TraceId> = from.into_iter().collect();
    let mut checkpoints: BTreeSet<TraceId> = BTreeSet::new();
    let mut open: Vec<TraceId> = found.iter().copied().collect();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    while let Some(trace) = open.pop() {
        let own = format!("trace:{trace}");
        let by_own = links.iter().flat_map(|l| l.traces(&own));
        let mut next: Vec<TraceId> = by_own.collect();
        let mut named: Vec<TraceId> = Vec::new();
        if !checkpoints.contains(&trace) {
            // A run may go by its trace's id.
            named.push(TraceId::of_checkpoints(&trace.to_string()));
        }
        for key in links.iter().filter_map(|l| l.by_trace.get(&trace)).flatten() {
            if !seen.insert(key) {
                continue;
            }
            // A key that names a trace ties to it though the trace itself says nothing.
            named.extend(key.strip_prefix("run:").map(TraceId::of_checkpoints));
            next.extend(key.strip_prefix("trace:").and_then(|t| t.parse::<TraceId>().ok()));
            next.extend(links.iter().flat_map(|l| l.traces(key)));
        }
        checkpoints.extend(named.iter().copied());
        for trace in next.into_iter().chain(named) {
            if found.insert(trace) {
                open.push(trace);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_that_is_tied_over_two_keys_is_left_out() {
        let t = |n: u8| TraceId([n; 16]);
        let (mut stored, mut hot) = (Links::default(), Links::default());
        stored.add(t(1), ["run:a".into(), format!("trace:{}", t(1))]);
        stored.add(t(9), ["run:z".into()]);
        hot.add(t(2), ["run:a".into(), "run:b".into()]);
        hot.add(t(3), ["run:b".into(), format!("trace:{}", t(4))]);
        let all = closure([t(1)], &[&stored, &hot]);
        let of = |traces: &[u8], runs: &[&str]| {
            let homes = traces.iter().map(|n| TraceId::of_checkpoints(&t(*n).to_string()));
            let homes = homes.chain(runs.iter().map(|id| TraceId::of_checkpoints(id)));
            homes.chain(traces.iter().map(|n| t(*n))).collect::<BTreeSet<_>>()
        };
        assert_eq!(all, of(&[1, 2, 3, 4], &["a", "b"]));
        hot.remove(t(2));
        assert_eq!(closure([t(1)], &[&stored, &hot]), of(&[1], &["a"]));
    }
}
