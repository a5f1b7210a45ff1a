//! Run -> the documents that API and CLI give. One place, so that both ways give the same answer.
//!
//! Times are RFC 3339 in UTC with nanoseconds, `null` when unknown. Counts that no producer gave are `null` in the
//! usage of a run and left out of the usage of a step.

use chrono::{DateTime, SecondsFormat};
use serde_json::{Map, Value, json};

use crate::{
    genai::{message::Message, operation::Usage},
    run::model::{Replayability, Run, RunCheckpoint, Step, StepKind},
    tenant::TenantId,
};

/// The replay document of a run (design, section 6).
pub fn replay(tenant: &TenantId, run: &Run) -> Value {
    let trace_id = run.trace_ids.first();
    json!({
        "run_id": run.run_id,
        "tenant_id": tenant.as_str(),
        "aliases": run.aliases,
        "rule": run.rule,
        "trace_id": trace_id,
        "trace": {
            "trace_id": trace_id,
            "trace_ids": run.trace_ids,
            "root_span_id": run.root_span_id,
            "span_count": run.span_count,
        },
        "trace_ids": run.trace_ids,
        "parent_run_id": run.parent_run_id,
        "status": run.status,
        "settled": run.settled,
        "started_at": time(run.start_ns),
        "ended_at": time(run.end_ns),
        "duration_ms": duration_ms(run.start_ns, run.end_ns),
        "error": run.error,
        "replayability": run.replayability,
        "partial": run.replayability != Replayability::Complete,
        "record_digest": run.record_digest,
        "partial_reasons": run.partial_reasons,
        "notes": run.notes,
        "checkpoints": recorded_checkpoints(run),
        "conversation": run.conversation,
        "user": run.user,
        "thread": run.thread,
        "agents": run.agents,
        "models": run.models,
        "tools": run.tools,
        "service_names": run.service_names,
        "source": run.source,
        "usage": run.usage,
        "cost_source": run.cost_source,
        "steps": run.steps.iter().map(|s| step(run, s)).collect::<Vec<_>>(),
    })
}

/// A page of the steps of a run: at most `limit` of them, from step `from`. `next_cursor` is `null` on the last page.
pub fn steps(run: &Run, from: usize, limit: usize) -> Value {
    let page: Vec<Value> = run.steps.iter().skip(from).take(limit).map(|s| step(run, s)).collect();
    let next = from.saturating_add(page.len());
    let next_cursor = (next < run.steps.len()).then(|| next.to_string());
    json!({"run_id": run.run_id, "steps": page, "next_cursor": next_cursor})
}

/// One step, as it stands in the replay document of its run.
pub fn step(run: &Run, step: &Step) -> Value {
    let mut document = json!({
        "index": step.index,
        "kind": step.kind,
        "name": step.name,
        "span_id": step.span_id,
        "trace_id": step.trace_id,
        "parent_index": step.parent_index,
        "depth": step.depth,
        "agent_path": step.agent_path,
        "parallel_group": step.parallel_group,
        "started_at": time(step.start_ns),
        "ended_at": time(step.end_ns),
        "duration_ms": duration_ms(step.start_ns, step.end_ns),
        "status": step.status,
        "error": step.error,
        "decision": step.decision,
        "model": step.model,
        "response_model": step.response_model,
        "provider": step.provider,
        "response_id": step.response_id,
        "finish_reasons": step.finish_reasons,
        "usage": known_usage(&step.usage),
        "input": {
            "state": step.input_state,
            "system_instructions": step.system_instructions,
            "messages": input_messages(run, step),
        },
        "output": {"state": step.output_state, "messages": step.output_messages},
        "inferred": step.inferred,
        "superseded_spans": step.superseded_spans,
        "service_name": step.service_name,
        "dialect": step.dialect,
    });
    if let Value::Object(members) = &mut document {
        add_members_of_kind(members, step);
    }
    document
}

/// The spans of a run as a forest: frames and superseded spans included.
pub fn tree(run: &Run) -> Value {
    json!({"run_id": run.run_id, "spans": run.tree})
}

/// The checkpoints of a run, those that are only referred to included (`recorded` is false).
pub fn checkpoints(run_id: &str, checkpoints: &[RunCheckpoint]) -> Value {
    json!({"run_id": run_id, "checkpoints": checkpoints.iter().map(checkpoint).collect::<Vec<_>>()})
}

/// Nanoseconds since the Unix epoch as RFC 3339 in UTC; `None` for 0 (unknown) and beyond what the format holds.
pub fn time(unix_nanos: u64) -> Option<String> {
    let unix_nanos = i64::try_from(unix_nanos).ok().filter(|n| *n != 0)?;
    Some(DateTime::from_timestamp_nanos(unix_nanos).to_rfc3339_opts(SecondsFormat::Nanos, true))
}

/// Milliseconds from start to end; `None` when either is unknown or the end lies before the start.
pub fn duration_ms(start_ns: u64, end_ns: u64) -> Option<f64> {
    let known = start_ns != 0 && end_ns != 0;
    known.then(|| end_ns.checked_sub(start_ns)).flatten().map(millis)
}

/// Members that only some steps have: a member that says nothing about a kind would read as "not captured".
fn add_members_of_kind(members: &mut Map<String, Value>, step: &Step) {
    let mut add = |name: &str, value: Value| {
        let _ = members.insert(name.to_owned(), value);
    };
    if matches!(step.kind, StepKind::ModelCall | StepKind::Embedding | StepKind::Rerank) {
        let request = &step.request;
        add(
            "request",
            json!({
                "temperature": request.temperature,
                "top_p": request.top_p,
                "max_tokens": request.max_tokens,
                "seed": request.seed,
                "streamed": request.streamed,
            }),
        );
        add("ttft_ms", json!(step.ttft_ns.map(millis)));
        add("tool_definitions", json!(step.tool_definitions));
        add("cost_source", json!(step.cost_source));
    }
    let has_tool = step.tool_call_id.is_some() || step.tool_arguments.is_some() || step.tool_result.is_some();
    if step.kind == StepKind::ToolCall || has_tool {
        add(
            "tool",
            json!({"call_id": step.tool_call_id, "arguments": step.tool_arguments, "result": step.tool_result}),
        );
    }
    if step.kind == StepKind::Retrieval
        || step.retrieval_query.is_some()
        || step.retrieval_documents.is_some()
    {
        add("retrieval", json!({"query": step.retrieval_query, "documents": step.retrieval_documents}));
    }
}

fn input_messages<'a>(run: &'a Run, step: &Step) -> Vec<&'a Message> {
    let at = |index: &u32| run.messages.get(usize::try_from(*index).ok()?).map(|m| &*m.message);
    step.input_messages.iter().filter_map(at).collect()
}

fn recorded_checkpoints(run: &Run) -> Vec<&str> {
    let recorded = run.checkpoints.iter().filter(|c| c.reference.recorded);
    recorded.map(|c| c.reference.checkpoint_id.as_str()).collect()
}

fn checkpoint(checkpoint: &RunCheckpoint) -> Value {
    let reference = &checkpoint.reference;
    json!({
        "checkpoint_id": reference.checkpoint_id,
        "step_index": checkpoint.step_index,
        "namespace": reference.namespace,
        "thread_id": reference.thread_id,
        "parent_checkpoint_id": reference.parent_checkpoint_id,
        "source": reference.source,
        "recorded": reference.recorded,
        "state": checkpoint.state,
    })
}

fn known_usage(usage: &Usage) -> Value {
    let mut value = json!(usage);
    if let Value::Object(counts) = &mut value {
        counts.retain(|_, count| !count.is_null());
    }
    value
}

#[allow(clippy::cast_precision_loss)]
fn millis(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}

#[cfg(test)]
mod tests;
