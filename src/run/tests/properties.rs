//! Invariant 2: runs are a function of the set of records.

use std::{collections::BTreeSet, sync::Arc};

use proptest::{collection::vec, prelude::*};

use super::{
    super::{Run, model::TreeNode},
    build::{Build, answers, asks, assemble, checkpoint, keys, log_of, says, span},
};
use crate::otlp::record::{Key, Record};

/// One record of a random forest: few ids, so that versions, cycles, self-parents and orphans are common.
fn any_record() -> impl Strategy<Value = Arc<Record>> {
    let place = (1_u64..12, 0_u64..14, 1_u8..4, 0_u64..6, 0_u64..8);
    let more = (0_u8..8, 0_u8..6, 0_u8..4, 0_u8..10, prop::sample::select(vec![0_u32, 0x100, 0x300]));
    (place, more).prop_map(|((id, parent, trace, start, length), (what, call, run, extra, flags))| {
        let mut one: Build =
            span(id, parent, start, if length == 7 { 0 } else { start + length }).trace(trace).flags(flags);
        let (a, b) = (format!("c{call}"), format!("c{}", call + 1));
        one = match what {
            0 => one.agent("a"),
            1 => one.chat(says("hi"), asks(&[(&a, "t"), (&b, "u")])),
            2 => one.chat(answers(&[(&a, "done")]), says("bye")),
            3 => one
                .chat(answers(&[(&b, "done"), (&a, "done")]), asks(&[("", "t")]))
                .set("gen_ai.usage.input_tokens", call),
            4 => one.tool("t", &a),
            5 => one.tool("u", "").tool_io(1.into(), 2.into()),
            6 => one.set("gen_ai.operation.name", "task").set("gen_ai.input.messages", says("x")),
            _ => one,
        };
        match extra {
            0 => one = one.set("eai.run_id", format!("r{run}")),
            1 => one = one.set("gen_ai.agent.call.id", format!("p{run}")),
            2 => one = one.link(run + 1),
            3 => one = one.set("sequence", run),
            4 => one = one.scope("other"),
            5 => one = one.set("gen_ai.response.id", format!("resp{run}")),
            6 => one = one.set("status", if run > 1 { "error" } else { "interrupted" }),
            7 => one = one.set("checkpoint", format!("chk{run}")),
            8 => one.span.start_time_unix_nano = u64::MAX,
            _ => {}
        }
        one = one.received(u64::from(call) + 1);
        // Log records in a trace, log records outside any trace, posted checkpoints.
        match length {
            5 => log_of(one),
            6 if call > 3 => {
                one.span.trace_id.clear();
                log_of(one.set("gen_ai.conversation.id", run))
            }
            4 if call > 3 => checkpoint(&format!("r{run}"), &format!("chk{start}")),
            _ => one.done(),
        }
    })
}

fn any_set() -> impl Strategy<Value = Vec<Arc<Record>>> {
    vec(any_record(), 0..40)
}

fn walk<'a>(tree: &'a [TreeNode], seen: &mut Vec<&'a TreeNode>) {
    for node in tree {
        seen.push(node);
        walk(&node.children, seen);
    }
}

fn check(runs: &[Run], records: &[Arc<Record>]) {
    let mut shown = BTreeSet::new();
    for run in runs {
        let mut nodes = Vec::new();
        walk(&run.tree, &mut nodes);
        assert!(nodes.len() >= run.span_count as usize, "every span of a run is in its tree");
        for node in &nodes {
            assert!(shown.insert((node.trace_id, node.span_id)), "a span is in one tree, once");
        }
        for (step, index) in run.steps.iter().zip(0..) {
            assert_eq!(step.index, index);
            assert!(step.parent_index.is_none_or(|parent| parent < index), "parents come first");
            assert!(step.input_messages.iter().all(|m| (*m as usize) < run.messages.len()));
        }
        let indexes: BTreeSet<_> = nodes.iter().filter_map(|node| node.step_index).collect();
        let own = run.steps.iter().filter(|step| !step.inferred).count();
        assert_eq!(indexes.len(), own, "every step that has a span shows in the tree");
        assert!(
            run.partial_reasons.iter().all(|r| r.step_index.is_none_or(|i| (i as usize) < run.steps.len()))
        );
        let is_complete = run.replayability == super::super::model::Replayability::Complete;
        assert!(!is_complete || run.partial_reasons.is_empty());
    }
    // Traces that give a run give all their spans.
    let in_runs: BTreeSet<_> = runs.iter().flat_map(|run| run.trace_ids.clone()).collect();
    for record in records {
        if let Key::Span(trace, span) = record.key() {
            let whole =
                runs.iter().any(|run| run.trace_ids == [trace] && run.aliases.contains(&trace.to_string()));
            assert!(
                !(whole && in_runs.contains(&trace)) || shown.contains(&(trace, span)),
                "no span is hidden"
            );
        }
    }
}

proptest! {
    #[test]
    fn order_and_repetition_of_records_do_not_show(
        (records, mixed) in any_set().prop_flat_map(|records| {
            let repeated: Vec<_> = records.iter().enumerate().flat_map(|(n, r)| vec![Arc::clone(r); n % 5 + 1]).collect();
            (Just(records), Just(repeated).prop_shuffle())
        })
    ) {
        let runs = assemble(&records);
        check(&runs, &records);
        prop_assert_eq!(&runs, &assemble(&mixed));
        let mut later: Vec<_> = mixed.iter().map(|r| Arc::new(Record { received_at: r.received_at + 9, ..(**r).clone() })).collect();
        later.extend(records.iter().cloned());
        prop_assert_eq!(&runs, &assemble(&later));
    }

    #[test]
    fn traces_that_share_no_key_give_the_runs_that_they_give_alone(records in any_set()) {
        let whole = assemble(&records);
        // Close each trace over equal keys, assemble the parts alone.
        let mut parts: Vec<(BTreeSet<String>, Vec<Arc<Record>>)> = Vec::new();
        for record in &records {
            let mut keys = keys(std::slice::from_ref(record));
            let mut members = vec![Arc::clone(record)];
            parts.retain_mut(|(known, records)| {
                let apart = known.is_disjoint(&keys);
                if !apart {
                    keys.append(known);
                    members.append(records);
                }
                apart
            });
            parts.push((keys, members));
        }
        let mut alone: Vec<_> = parts.iter().flat_map(|(_, records)| assemble(records)).collect();
        alone.sort_by(|a, b| (a.start_ns, &a.run_id, a.rule).cmp(&(b.start_ns, &b.run_id, b.rule)));
        prop_assert_eq!(whole, alone);
    }

    #[test]
    fn keys_of_a_part_are_keys_of_the_whole(records in any_set(), cut in 0_usize..40) {
        let part = keys(&records[..cut.min(records.len())]);
        prop_assert!(part.is_subset(&keys(&records)));
    }
}

#[test]
fn a_chain_as_deep_as_the_trace_does_not_exhaust_the_stack() {
    let records: Vec<_> = (1..=100_000)
        .map(|id| {
            let one = span(id, id - 1, id, 300_000 - id);
            match id % 10 {
                0 => one.tool("t", &format!("c{id}")),
                5 => one.agent(&format!("a{}", id % 100)),
                _ => one,
            }
            .done()
        })
        .collect();
    let runs = assemble(&records);
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0].span_count, 100_000);
    assert_eq!(runs[0].steps.len(), 10_000);
    assert!(runs[0].notes.iter().any(|note| note.code == "deep_tree"));
    assert_eq!(runs, runs.clone());
}

#[test]
fn a_run_of_many_steps_takes_no_square_time() {
    let records: Vec<_> = (1..=30_000_u64)
        .map(|id| {
            let parent = u64::from(id > 1);
            let one = span(id, parent, id * 2, id * 2 + 1);
            let call = format!("c{}", id / 2);
            match (id, id % 2) {
                (1, _) => one.agent("a"),
                (_, 0) => one.chat(says("hello"), asks(&[(&call, "t")])),
                _ => one.tool("t", &call).tool_io(1.into(), 2.into()),
            }
            .done()
        })
        .collect();
    let runs = assemble(&records);
    assert_eq!(runs[0].steps.len(), 29_999);
}
