//! The rules of section 4 of the design, one by one.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::json;

use super::{
    super::{
        Settled, assemble_with,
        model::{ReasonCode, Replayability, Run, RunStatus, StepKind},
    },
    build::{answers, asks, assemble, checkpoint, keys, meaning, says, span, trace},
};
use crate::genai::{message::ContentState, operation::Rule};

fn codes(run: &Run) -> Vec<ReasonCode> {
    run.partial_reasons.iter().map(|reason| reason.code).collect()
}

fn notes(run: &Run) -> BTreeSet<&str> {
    run.notes.iter().map(|note| note.code.as_str()).collect()
}

fn names(run: &Run) -> Vec<&str> {
    run.steps.iter().map(|step| step.name.as_str()).collect()
}

#[test]
fn a_whole_run_is_not_called_partial() {
    let runs = assemble(&[
        span(1, 0, 0, 100).agent("a").done(),
        span(2, 1, 10, 20).chat(says("q"), asks(&[("c1", "t")])).done(),
        span(3, 1, 30, 40).tool("t", "c1").tool_io(json!({"of": "c1"}), json!("r")).done(),
        span(4, 1, 50, 60).chat(answers(&[("c1", "r")]), says("done")).done(),
    ]);
    let [run] = runs.as_slice() else { panic!("{} runs", runs.len()) };
    assert_eq!((run.replayability, run.status), (Replayability::Complete, RunStatus::Completed));
    assert_eq!(names(run), ["m", "t", "m"]);
    assert_eq!((run.rule, run.run_id.as_str()), (Rule::TraceId, trace(1).to_string().as_str()));
    assert_eq!(run.steps[1].agent_path, ["a"]);
    assert_eq!(run.steps[1].depth, 1);
    assert_eq!(run.root_span_id.unwrap().to_string(), "0000000000000001");
}

#[test]
fn a_trace_without_a_genai_operation_is_no_run() {
    assert!(assemble(&[span(1, 0, 0, 1).done(), span(2, 1, 0, 1).done()]).is_empty());
}

#[test]
fn clocks_do_not_put_a_tool_before_the_call_that_asked_for_it() {
    let runs = assemble(&[
        span(1, 0, 50, 100).agent("a").done(),
        span(2, 1, 30, 45).chat(says("q"), asks(&[("c1", "t")])).done(),
        span(3, 1, 10, 20).tool("t", "c1").tool_io(json!(1), json!("r")).done(),
        span(4, 1, 5, 8).chat(answers(&[("c1", "r")]), says("done")).done(),
    ]);
    assert_eq!(runs[0].steps.iter().map(|s| s.start_ns / 1_000_000 - 1_000).collect::<Vec<_>>(), [30, 10, 5]);
    assert!(notes(&runs[0]).contains("clock_skew"));
}

#[test]
fn an_edge_that_would_close_a_cycle_is_left_out_with_a_note() {
    // Each model call shows the other's result: the edges of results contradict those of asking.
    let runs = assemble(&[
        span(1, 0, 10, 20).chat(answers(&[("c1", "r")]), asks(&[("c1", "t")])).done(),
        span(2, 0, 30, 40).tool("t", "c1").tool_io(json!(1), json!("r")).done(),
    ]);
    assert_eq!(names(&runs[0]), ["m", "t"]);
    assert!(notes(&runs[0]).contains("order_conflict"));
}

#[test]
fn an_explicit_sequence_orders_steps_that_start_together() {
    let runs = assemble(&[
        span(1, 0, 10, 20).tool("b", "x").set("sequence", 2).done(),
        span(2, 0, 10, 20).tool("a", "y").set("sequence", 1).done(),
    ]);
    assert_eq!(names(&runs[0]), ["a", "b"]);
}

#[test]
fn a_tool_without_a_span_is_inferred_from_a_later_call_of_the_same_run_only() {
    let history = json!([
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "c0", "name": "t"}, {"type": "tool_call", "id": "c1", "name": "t"}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c0", "response": 0}, {"type": "tool_call_response", "id": "c1", "response": 1}]},
    ]);
    let runs = assemble(&[
        span(1, 0, 0, 10).chat(says("q"), asks(&[("c1", "t")])).done(),
        span(2, 0, 20, 30).chat(history, says("done")).done(),
    ]);
    let step = &runs[0].steps[1];
    assert_eq!(runs[0].steps.len(), 3, "c0 was carried in: it infers nothing");
    assert!(step.inferred && step.span_id.is_none());
    assert_eq!((step.kind, step.output_state), (StepKind::ToolCall, ContentState::Inferred));
    assert_eq!(step.tool_result, Some(json!(1)));
    assert_eq!(runs[0].replayability, Replayability::Complete);
}

#[test]
fn content_that_only_model_calls_hold_fills_the_tool_step() {
    let runs = assemble(&[
        span(1, 0, 0, 10).chat(says("q"), asks(&[("c1", "t")])).done(),
        span(2, 0, 11, 12).tool("t", "").done(),
        span(3, 0, 20, 30).chat(answers(&[("c1", "r")]), says("done")).done(),
    ]);
    let step = &runs[0].steps[1];
    assert_eq!(runs[0].steps.len(), 3);
    assert!(!step.inferred);
    assert_eq!((step.input_state, step.output_state), (ContentState::Inferred, ContentState::Inferred));
    assert_eq!(
        (step.tool_arguments.clone(), step.tool_result.clone()),
        (Some(json!({"of": "c1"})), Some(json!("r")))
    );
    assert!(notes(&runs[0]).contains("value_inferred"));
}

#[test]
fn an_unanswered_call_is_a_reason_unless_the_run_waits_for_a_human() {
    let asking = || span(1, 0, 0, 10).chat(says("q"), asks(&[("c1", "t")])).done();
    let lost = assemble(&[asking()]);
    assert_eq!(codes(&lost[0]), [ReasonCode::MissingToolResult]);
    let waiting = assemble(&[
        asking(),
        span(2, 0, 11, 12).set("gen_ai.operation.name", "task").set("status", "interrupted").done(),
    ]);
    assert_eq!(codes(&waiting[0]), []);
    assert!(notes(&waiting[0]).contains("awaiting_input"));
}

#[test]
fn a_result_that_nothing_asked_for_is_told() {
    let runs = assemble(&[span(1, 0, 0, 10).tool("t", "c1").tool_io(json!(1), json!(2)).done()]);
    assert_eq!(codes(&runs[0]), [ReasonCode::MissingToolCall]);
}

#[test]
fn output_tools_are_not_calls_that_were_never_made() {
    let runs = assemble(&[span(1, 0, 0, 10).chat(says("q"), asks(&[("c1", "final_result")])).done()]);
    assert_eq!(runs[0].replayability, Replayability::Complete);
}

#[test]
fn nested_reports_of_one_model_call_count_once() {
    let runs = assemble(&[
        span(1, 0, 0, 100).agent("a").set("gen_ai.usage.input_tokens", 7).done(),
        span(2, 1, 10, 20)
            .chat(says("q"), says("a"))
            .set("gen_ai.usage.input_tokens", 7)
            .scope("framework")
            .done(),
        span(3, 2, 11, 19)
            .set("gen_ai.operation.name", "chat")
            .set("gen_ai.request.model", "m-2026-01-01")
            .set("gen_ai.usage.input_tokens", 7)
            .scope("sdk")
            .done(),
    ]);
    assert_eq!(runs[0].steps.len(), 1);
    assert_eq!(runs[0].steps[0].superseded_spans.len(), 1);
    assert_eq!(runs[0].usage.input_tokens, Some(7));
    assert!(runs[0].tree[0].children[0].children[0].superseded_by.is_some());
}

#[test]
fn a_wrapper_of_several_model_calls_is_no_step() {
    let runs = assemble(&[
        span(1, 0, 0, 100).chat(says("q"), says("b")).set("gen_ai.usage.input_tokens", 9).done(),
        span(2, 1, 10, 20).chat(says("q"), asks(&[("", "t")])).set("gen_ai.usage.input_tokens", 4).done(),
        span(3, 1, 30, 40).chat(says("q"), says("b")).set("gen_ai.usage.input_tokens", 5).done(),
    ]);
    assert_eq!(runs[0].steps.len(), 2);
    assert_eq!(runs[0].usage.input_tokens, Some(9));
}

#[test]
fn a_model_call_of_a_sub_agent_inside_a_tool_is_no_duplicate() {
    let runs = assemble(&[
        span(1, 0, 0, 100).chat(says("q"), says("a")).done(),
        span(2, 1, 10, 90).tool("t", "").done(),
        span(3, 2, 20, 30).chat(says("q"), says("a")).done(),
    ]);
    assert_eq!(runs[0].steps.len(), 3);
}

#[test]
fn a_retry_of_a_tool_call_with_one_id_is_two_steps() {
    let runs = assemble(&[
        span(1, 0, 0, 10).tool("t", "c1").set("status", "error").done(),
        span(2, 0, 20, 30).tool("t", "c1").tool_io(json!(1), json!(2)).done(),
    ]);
    assert_eq!(runs[0].steps.len(), 2);
}

#[test]
fn two_scopes_that_tell_the_same_call_at_one_time_are_one_step() {
    let runs = assemble(&[
        span(1, 0, 0, 10).chat(says("q"), says("the same")).scope("x").done(),
        span(2, 0, 1, 9).chat(says("q"), says("the same")).scope("y").done(),
    ]);
    assert_eq!(runs[0].steps.len(), 1);
}

#[test]
fn usage_of_a_container_counts_only_where_nothing_below_has_any() {
    let agent = || span(1, 0, 0, 100).agent("a").set("gen_ai.usage.input_tokens", 50);
    let alone = assemble(&[agent().done(), span(2, 1, 1, 2).chat(says("q"), says("a")).done()]);
    assert_eq!(alone[0].usage.input_tokens, Some(50));
    let counted = assemble(&[
        agent().done(),
        span(2, 1, 1, 2).chat(says("q"), says("a")).set("gen_ai.usage.input_tokens", 20).done(),
    ]);
    assert_eq!(counted[0].usage.input_tokens, Some(20));
}

#[test]
fn an_agent_without_a_step_below_is_a_step_only_with_content() {
    let with = assemble(&[span(1, 0, 0, 1).agent("a").set("gen_ai.input.messages", says("q")).done()]);
    assert_eq!((with[0].steps[0].kind, names(&with[0])), (StepKind::AgentCall, vec!["a"]));
    assert!(assemble(&[span(1, 0, 0, 1).agent("a").done()])[0].steps.is_empty());
}

#[test]
fn ids_of_sub_agents_do_not_name_the_run() {
    let runs = assemble(&[
        span(1, 0, 0, 100).done(),
        span(2, 1, 1, 99).agent("a").set("gen_ai.agent.call.id", "outer").done(),
        span(3, 2, 2, 98).agent("b").set("gen_ai.agent.call.id", "inner").done(),
    ]);
    assert_eq!(runs.len(), 1);
    assert_eq!((runs[0].rule, runs[0].run_id.as_str()), (Rule::Producer, "outer"));
    assert_eq!(runs[0].aliases, [trace(1).to_string()]);
    assert_eq!(runs[0].span_count, 3);
}

#[test]
fn two_agents_side_by_side_with_own_ids_are_two_runs_of_one_trace() {
    let runs = assemble(&[
        span(1, 0, 0, 100).done(),
        span(2, 1, 1, 49).agent("a").set("gen_ai.agent.call.id", "one").done(),
        span(3, 1, 50, 98).agent("b").set("gen_ai.agent.call.id", "two").done(),
        span(4, 3, 51, 52).done(),
    ]);
    assert_eq!(
        runs.iter().map(|run| (run.run_id.as_str(), run.span_count)).collect::<Vec<_>>(),
        [("one", 2), ("two", 2)]
    );
}

#[test]
fn a_run_id_joins_traces_and_the_strongest_rule_names_the_run() {
    let records = [
        span(1, 0, 0, 9).agent("a").set("gen_ai.agent.call.id", "p").set("eai.run_id", "r").done(),
        span(2, 0, 20, 29).trace(2).agent("a").set("gen_ai.agent.call.id", "p").done(),
        checkpoint("p", "chk"),
    ];
    let runs = assemble(&records);
    assert_eq!(runs.len(), 1);
    assert_eq!((runs[0].rule, runs[0].run_id.as_str()), (Rule::EaiRunId, "r"));
    assert_eq!(runs[0].aliases, [trace(1).to_string(), trace(2).to_string(), "p".into()]);
    assert_eq!(runs[0].trace_ids, [trace(1), trace(2)]);
    assert_eq!(runs[0].checkpoints[0].reference.checkpoint_id, "chk");
    for pair in records.windows(2) {
        assert!(
            !keys(&pair[..1]).is_disjoint(&keys(&pair[1..])),
            "keys must bring the records of a run together"
        );
    }
}

#[test]
fn links_join_traces_of_a_linking_producer_only() {
    let linked = |with: bool| {
        let one = span(1, 0, 0, 9).agent("a").link(2).done();
        let two = span(2, 0, 20, 29).trace(2).agent("a");
        assemble(&[one, if with { two.set("links_join", true).done() } else { two.done() }])
    };
    assert_eq!(linked(true).len(), 1);
    assert_eq!(linked(true)[0].rule, Rule::Links);
    assert_eq!(linked(true)[0].run_id, trace(1).to_string());
    assert_eq!(linked(false).len(), 2);
}

#[test]
fn the_flags_of_a_span_tell_whether_its_missing_parent_was_lost() {
    let with = |flags: u32| assemble(&[span(1, 99, 0, 9).chat(says("q"), says("a")).flags(flags).done()]);
    assert!(notes(&with(0x300)[0]).contains("parent_outside"));
    assert_eq!(codes(&with(0x300)[0]), []);
    assert_eq!(codes(&with(0x101)[0]), [ReasonCode::MissingRoot]);
    assert_eq!(codes(&with(0)[0]), [ReasonCode::MissingRoot]);
    let agent =
        assemble(&[span(1, 99, 0, 9).agent("a").done(), span(2, 1, 1, 2).chat(says("q"), says("a")).done()]);
    assert!(notes(&agent[0]).contains("parent_outside"));
    let rooted =
        assemble(&[span(1, 99, 0, 9).chat(says("q"), says("a")).done(), span(2, 0, 0, 10).agent("a").done()]);
    assert_eq!(codes(&rooted[0]), [ReasonCode::MissingParent]);
}

#[test]
fn cycles_are_cut_and_told_and_hide_nothing() {
    let runs = assemble(&[
        span(1, 2, 0, 9).agent("a").done(),
        span(2, 1, 1, 8).chat(says("q"), says("a")).done(),
        span(3, 3, 2, 7).chat(says("q"), says("b")).done(),
    ]);
    assert_eq!(runs[0].span_count, 3);
    assert_eq!(runs[0].steps.len(), 2);
    assert_eq!(codes(&runs[0]).iter().filter(|code| **code == ReasonCode::Cycle).count(), 2);
}

#[test]
fn versions_of_a_span_are_elected_and_never_merged() {
    let start = span(1, 0, 5, 0).agent("a").set("extra", 1).set("more", 2).done();
    let end = span(1, 0, 5, 9).agent("a").done();
    let runs = assemble(&[Arc::clone(&start), Arc::clone(&end), start.clone()]);
    assert_eq!(runs[0].tree[0].other_versions, [start.hash]);
    assert!(notes(&runs[0]).contains("duplicate_elected"));
    assert_eq!(codes(&runs[0]), []);
    let other = span(1, 0, 5, 9).chat(says("q"), says("a")).done();
    assert!(codes(&assemble(&[end, other])[0]).contains(&ReasonCode::DuplicateConflict));
}

#[test]
fn nothing_is_missing_from_a_run_that_has_not_settled() {
    let records = [span(1, 99, 0, 10).chat(says("q"), asks(&[("c1", "t")])).done()];
    let run = &assemble_with(&records, Settled::Traces(&BTreeSet::new()), &meaning())[0];
    assert_eq!((run.status, run.settled), (RunStatus::Running, false));
    assert_eq!(codes(run), []);
}

#[test]
fn steps_that_overlap_are_numbered_groups_and_a_touch_is_no_overlap() {
    let runs = assemble(&[
        span(1, 0, 0, 10).tool("a", "1").done(),
        span(2, 0, 10, 20).tool("b", "2").done(),
        span(3, 0, 15, 30).tool("c", "3").done(),
        span(4, 0, 40, 50).tool("d", "4").done(),
        span(5, 0, 45, 60).tool("e", "5").done(),
    ]);
    let groups: Vec<_> = runs[0].steps.iter().map(|step| step.parallel_group).collect();
    assert_eq!(groups, [None, Some(0), Some(0), Some(1), Some(1)]);
}

#[test]
fn a_repeated_history_is_stored_once() {
    let runs = assemble(&[
        span(1, 0, 0, 10).chat(says("q"), says("a")).done(),
        span(2, 0, 20, 30).chat(says("q"), says("b")).done(),
    ]);
    assert_eq!(runs[0].messages.len(), 1);
    assert_eq!(runs[0].steps[1].input_messages, [0]);
}

#[test]
fn a_checkpoint_that_is_referred_to_and_never_recorded_is_a_reason() {
    let chat = || {
        span(1, 0, 0, 10).chat(says("q"), says("a")).set("eai.run_id", "r").set("checkpoint", "chk").done()
    };
    let lost = assemble(&[chat()]);
    assert_eq!(codes(&lost[0]), [ReasonCode::MissingCheckpoint]);
    assert_eq!(lost[0].partial_reasons[0].step_index, Some(0));
    assert_eq!(codes(&assemble(&[chat(), checkpoint("r", "chk")])[0]), []);
}

#[test]
fn times_beyond_the_tables_and_lost_attributes_are_told() {
    let mut odd = span(1, 0, 1, 2).chat(says("q"), says("a"));
    odd.span.end_time_unix_nano = u64::MAX;
    odd.span.dropped_attributes_count = 3;
    assert_eq!(codes(&assemble(&[odd.done()])[0]), [ReasonCode::DroppedAttributes, ReasonCode::InvalidTime]);
}

#[test]
fn a_bare_argument_is_told_from_that_of_a_sibling() {
    let call = |id: &str, city: &str| json!({"type": "tool_call", "id": id, "name": "t", "arguments": {"city": city}});
    let asked = json!([{"role": "assistant", "parts": [call("c1", "Paris"), call("c2", "London")]}]);
    let runs = assemble(&[
        span(1, 0, 0, 10).chat(says("q"), asked).done(),
        span(2, 0, 11, 19).tool("t", "").tool_io(json!("London"), json!(14)).done(),
        span(3, 0, 12, 19).tool("t", "").tool_io(json!("Paris"), json!(18)).done(),
    ]);
    let ids: Vec<_> = runs[0].steps.iter().filter_map(|step| step.tool_call_id.as_deref()).collect();
    assert_eq!(ids, ["c2", "c1"]);
}

#[test]
fn a_run_whose_agent_was_killed_is_abandoned_and_a_filtered_parent_is_no_death() {
    let killed = assemble(&[span(2, 1, 0, 10).tool("t", "").flags(0x101).done()]);
    assert_eq!(killed[0].status, RunStatus::Abandoned);
    let filtered = assemble(&[span(2, 1, 0, 10).chat(says("q"), says("a")).done()]);
    assert_eq!(filtered[0].status, RunStatus::Completed);
    let failed = assemble(&[span(1, 0, 0, 20).agent("a").set("status", "error").done()]);
    assert_eq!(failed[0].status, RunStatus::Failed);
}
