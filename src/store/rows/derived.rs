//! Steps, messages and checkpoints of a run as rows.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{
    otlp::record::SpanId,
    run::{
        Run,
        model::{RunCheckpoint, RunMessage, Step},
    },
    store::table::Error,
};

type Row = Map<String, Value>;

/// Rows of `run_steps`.
pub(super) fn run_steps(run: &Run) -> impl Iterator<Item = Result<Row, Error>> {
    run.steps.iter().map(|step| run_step(run, step))
}

fn run_step(run: &Run, s: &Step) -> Result<Row, Error> {
    let duration = (s.start_ns != 0).then(|| s.end_ns.checked_sub(s.start_ns)).flatten();
    let texts = |ids: &[SpanId]| ids.iter().map(ToString::to_string).collect::<Vec<_>>();
    let last_input = s.input_messages.last().and_then(|i| run.messages.get(usize::try_from(*i).ok()?));
    let failure = s.error.as_ref();
    Ok(row([
        ("run_id", json!(run.run_id)),
        ("step_index", json!(s.index)),
        ("kind", json!(s.kind)),
        ("name", json!(s.name)),
        ("decision", json!(s.decision)),
        ("span_id", json!(s.span_id)),
        ("trace_id", json!(s.trace_id)),
        ("parent_step_index", json!(s.parent_index)),
        ("depth", json!(s.depth)),
        ("agent_path", json!(s.agent_path)),
        ("parallel_group", json!(s.parallel_group)),
        ("started_at", micros(s.start_ns)),
        ("ended_at", micros(s.end_ns)),
        ("duration_ns", json!(duration)),
        ("status", json!(s.status)),
        ("error_type", json!(failure.and_then(|f| f.kind.as_ref()))),
        ("error_message", json!(failure.and_then(|f| f.message.as_ref()))),
        ("model", json!(s.model)),
        ("response_model", json!(s.response_model)),
        ("provider", json!(s.provider)),
        ("response_id", json!(s.response_id)),
        ("finish_reasons", json!(s.finish_reasons)),
        ("temperature", json!(s.request.temperature)),
        ("top_p", json!(s.request.top_p)),
        ("max_tokens", json!(s.request.max_tokens)),
        ("seed", json!(s.request.seed)),
        ("streamed", json!(s.request.streamed)),
        ("ttft_ns", json!(s.ttft_ns)),
        ("system_instructions", text(&s.system_instructions)?),
        ("tool_definitions", optional(s.tool_definitions.as_ref())?),
        ("input_message_indexes", json!(s.input_messages)),
        ("input_text_last", json!(last_input.map(|m| m.message.text()))),
        ("output_text", json!(s.output_messages.iter().map(|m| m.text()).collect::<String>())),
        ("output_messages", text(&s.output_messages)?),
        ("tool_call_id", json!(s.tool_call_id)),
        ("tool_arguments", optional(s.tool_arguments.as_ref())?),
        ("tool_result", optional(s.tool_result.as_ref())?),
        ("retrieval_query", json!(s.retrieval_query)),
        ("retrieval_documents", optional(s.retrieval_documents.as_ref())?),
        ("input_tokens", json!(s.usage.input_tokens)),
        ("output_tokens", json!(s.usage.output_tokens)),
        ("cache_read_tokens", json!(s.usage.cache_read_tokens)),
        ("cache_write_tokens", json!(s.usage.cache_write_tokens)),
        ("reasoning_tokens", json!(s.usage.reasoning_tokens)),
        ("cost_usd", json!(s.usage.cost_usd)),
        ("cost_source", json!(s.cost_source)),
        ("input_state", json!(s.input_state)),
        ("output_state", json!(s.output_state)),
        ("inferred", json!(s.inferred)),
        ("dialect", json!(s.dialect)),
        ("service_name", json!(s.service_name)),
        ("superseded_spans", json!(texts(&s.superseded_spans))),
    ]))
}

/// Rows of `messages`.
pub(super) fn messages(run: &Run) -> impl Iterator<Item = Result<Row, Error>> {
    let message = |(index, m): (usize, &RunMessage)| {
        Ok(row([
            ("run_id", json!(run.run_id)),
            ("message_index", json!(index)),
            ("role", json!(m.message.role)),
            ("name", json!(m.message.name)),
            ("parts", text(&m.message.parts)?),
            ("text", json!(m.message.text())),
            ("first_step_index", json!(m.first_step_index)),
        ]))
    };
    run.messages.iter().enumerate().map(message)
}

/// Rows of `checkpoints`.
pub(super) fn checkpoints(run: &Run) -> impl Iterator<Item = Result<Row, Error>> {
    let checkpoint = |c: &RunCheckpoint| {
        Ok(row([
            ("run_id", json!(run.run_id)),
            ("checkpoint_id", json!(c.reference.checkpoint_id)),
            ("step_index", json!(c.step_index)),
            ("namespace", json!(c.reference.namespace)),
            ("thread_id", json!(c.reference.thread_id)),
            ("parent_checkpoint_id", json!(c.reference.parent_checkpoint_id)),
            ("source", json!(c.reference.source)),
            ("recorded", json!(c.reference.recorded)),
            ("state", optional(c.state.as_ref())?),
        ]))
    };
    let mut in_place: Vec<&RunCheckpoint> = run.checkpoints.iter().collect();
    in_place.sort_by_key(|c| (c.reference.namespace.clone(), c.reference.checkpoint_id.clone()));
    in_place.into_iter().map(checkpoint)
}

fn row<const N: usize>(columns: [(&str, Value); N]) -> Row {
    columns
        .into_iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// JSON text in a column.
fn text(value: &impl Serialize) -> Result<Value, Error> {
    Ok(Value::String(serde_json::to_string(value)?))
}

fn optional(value: Option<&Value>) -> Result<Value, Error> {
    value.map_or(Ok(Value::Null), text)
}

/// Microseconds for a time column; null for a time that is not known or past what the column holds.
fn micros(nanos: u64) -> Value {
    match i64::try_from(nanos) {
        Ok(nanos) if nanos != 0 => json!(nanos / 1000),
        _ => Value::Null,
    }
}
