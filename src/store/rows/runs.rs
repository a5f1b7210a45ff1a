//! A run as a row of `runs`: what lists show, and what the store keeps of every run.

use std::collections::BTreeMap;

use chrono::{DateTime, SecondsFormat};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{
    genai::operation::{Failure, Rule},
    otlp::record::TraceId,
    run::{
        Run,
        model::{Note, Reason, StepKind},
    },
};

/// Columns that hold JSON text in the table and are structured in documents.
const JSON_COLUMNS: [&str; 4] = ["steps", "partial_reasons", "notes", "error"];
/// Columns that hold a moment.
const TIME_COLUMNS: [&str; 2] = ["started_at", "ended_at"];

/// One row of `runs`, in the form of the API. Times are RFC 3339.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct RunRow {
    pub run_id: String,
    pub aliases: Vec<String>,
    pub rule: Rule,
    pub status: String,
    pub settled: bool,
    pub started_at: Option<String>,
    pub ended_at: Option<String>,
    /// Number of steps by kind.
    pub steps: BTreeMap<StepKind, u32>,
    pub input_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
    pub cache_read_tokens: Option<u64>,
    pub cache_write_tokens: Option<u64>,
    pub reasoning_tokens: Option<u64>,
    pub cost_usd: Option<f64>,
    pub models: Vec<String>,
    pub tools: Vec<String>,
    pub agents: Vec<String>,
    pub conversation: Option<String>,
    pub user: Option<String>,
    pub thread: Option<String>,
    pub trace_ids: Vec<String>,
    pub root_span_id: Option<String>,
    pub span_count: u32,
    pub service_names: Vec<String>,
    pub replayability: String,
    pub partial_reasons: Vec<Reason>,
    pub notes: Vec<Note>,
    pub checkpoints: Vec<String>,
    pub error: Option<Failure>,
    pub parent_run_id: Option<String>,
    pub record_digest: String,
    pub join_keys: Vec<String>,
    pub source: String,
    /// Receive time of the newest record, nanoseconds since the Unix epoch.
    pub last_received_unix_nano: i64,
}

impl Default for RunRow {
    fn default() -> Self {
        // Every field of a row that a table gives is set over this.
        Self {
            run_id: String::new(),
            aliases: Vec::new(),
            rule: Rule::TraceId,
            status: String::new(),
            settled: false,
            started_at: None,
            ended_at: None,
            steps: BTreeMap::new(),
            input_tokens: None,
            output_tokens: None,
            cache_read_tokens: None,
            cache_write_tokens: None,
            reasoning_tokens: None,
            cost_usd: None,
            models: Vec::new(),
            tools: Vec::new(),
            agents: Vec::new(),
            conversation: None,
            user: None,
            thread: None,
            trace_ids: Vec::new(),
            root_span_id: None,
            span_count: 0,
            service_names: Vec::new(),
            replayability: String::new(),
            partial_reasons: Vec::new(),
            notes: Vec::new(),
            checkpoints: Vec::new(),
            error: None,
            parent_run_id: None,
            record_digest: String::new(),
            join_keys: Vec::new(),
            source: String::new(),
            last_received_unix_nano: 0,
        }
    }
}

impl RunRow {
    /// The row of a run.
    pub fn of(run: &Run) -> Self {
        Self {
            run_id: run.run_id.clone(),
            aliases: run.aliases.clone(),
            rule: run.rule,
            status: word(&run.status),
            settled: run.settled,
            started_at: moment(run.start_ns),
            ended_at: moment(run.end_ns),
            steps: run.steps_by_kind.clone(),
            input_tokens: run.usage.input_tokens,
            output_tokens: run.usage.output_tokens,
            cache_read_tokens: run.usage.cache_read_tokens,
            cache_write_tokens: run.usage.cache_write_tokens,
            reasoning_tokens: run.usage.reasoning_tokens,
            cost_usd: run.usage.cost_usd,
            models: run.models.clone(),
            tools: run.tools.clone(),
            agents: run.agents.clone(),
            conversation: run.conversation.clone(),
            user: run.user.clone(),
            thread: run.thread.clone(),
            trace_ids: run.trace_ids.iter().map(ToString::to_string).collect(),
            root_span_id: run.root_span_id.map(|id| id.to_string()),
            span_count: run.span_count,
            service_names: run.service_names.clone(),
            replayability: word(&run.replayability),
            partial_reasons: run.partial_reasons.clone(),
            notes: run.notes.clone(),
            checkpoints: run.checkpoints.iter().map(|c| c.reference.checkpoint_id.clone()).collect(),
            error: run.error.clone(),
            parent_run_id: run.parent_run_id.clone(),
            record_digest: run.record_digest.to_string(),
            join_keys: run.join_keys.clone(),
            source: run.source.to_owned(),
            last_received_unix_nano: i64::try_from(run.last_received_at).unwrap_or(i64::MAX),
        }
    }

    /// Columns of the table.
    pub(super) fn to_row(&self) -> serde_json::Result<Map<String, Value>> {
        let Value::Object(mut row) = serde_json::to_value(self)? else { return Ok(Map::new()) };
        for name in JSON_COLUMNS {
            if let Some(value) = row.get_mut(name).filter(|v| !v.is_null()) {
                *value = Value::String(value.to_string());
            }
        }
        for name in TIME_COLUMNS {
            if let Some(value) = row.get_mut(name) {
                *value = value.as_str().and_then(nanos).map_or(Value::Null, |n| json!(n / 1000));
            }
        }
        let _ = row.insert("started_at_unix_nano".into(), json!(self.start_ns()));
        let _ = row.insert("ended_at_unix_nano".into(), json!(self.ended_at.as_deref().and_then(nanos)));
        row.retain(|_, value| !value.is_null());
        Ok(row)
    }

    /// The row that a table gives.
    ///
    /// # Errors
    /// When a column does not hold what was written.
    pub fn from_row(mut row: Value) -> serde_json::Result<Self> {
        for name in JSON_COLUMNS {
            if let Some(value) = row.get_mut(name)
                && let Some(text) = value.as_str()
            {
                *value = serde_json::from_str(text)?;
            }
        }
        // The time columns of the table end at microseconds.
        for (name, exact) in TIME_COLUMNS.into_iter().zip(["started_at_unix_nano", "ended_at_unix_nano"]) {
            let nanos = row.get(exact).and_then(Value::as_i64).filter(|n| *n != 0);
            let text =
                nanos.map(|n| DateTime::from_timestamp_nanos(n).to_rfc3339_opts(SecondsFormat::Nanos, true));
            if let Some(members) = row.as_object_mut() {
                let _ = members.insert(name.into(), json!(text));
            }
        }
        serde_json::from_value(row)
    }

    /// The run's traces; the all-zero one where log records outside any trace belong to it.
    pub(crate) fn traces(&self) -> impl Iterator<Item = TraceId> {
        /// The key of log records outside any trace.
        const LOOSE: &str = "trace:00000000000000000000000000000000";
        let loose = self.trace_ids.is_empty() || self.join_keys.iter().any(|key| key == LOOSE);
        let loose = loose.then(TraceId::default);
        self.trace_ids.iter().filter_map(|t| t.parse().ok()).chain(loose)
    }

    /// True when the run has ended, as far as its records say.
    pub(crate) fn ended(&self) -> bool {
        self.root_span_id.is_some() && self.ended_at.is_some()
    }

    pub(crate) fn last_received_ns(&self) -> i64 {
        self.last_received_unix_nano
    }

    /// Start, nanoseconds since the Unix epoch; 0 when unknown.
    pub(crate) fn start_ns(&self) -> i64 {
        self.started_at.as_deref().and_then(nanos).unwrap_or_default()
    }

    /// The place in a list.
    pub(crate) fn place(&self) -> (i64, String) {
        (self.start_ns(), self.run_id.clone())
    }
}

fn word(value: &impl Serialize) -> String {
    json!(value).as_str().unwrap_or_default().to_owned()
}

fn moment(unix_nanos: u64) -> Option<String> {
    let nanos = i64::try_from(unix_nanos).ok().filter(|n| *n != 0)?;
    Some(DateTime::from_timestamp_nanos(nanos).to_rfc3339_opts(SecondsFormat::Nanos, true))
}

fn nanos(text: &str) -> Option<i64> {
    DateTime::parse_from_rfc3339(text).ok()?.timestamp_nanos_opt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_changes_on_its_way_through_the_table() {
        let row = RunRow {
            run_id: "r".into(),
            started_at: Some("2026-11-30T02:00:00.123456789Z".into()),
            ended_at: Some("2026-11-30T02:00:01.000000001Z".into()),
            steps: [(StepKind::ToolCall, 2)].into(),
            error: Some(Failure { kind: Some("E".into()), ..Failure::default() }),
            agents: vec!["a".into()],
            ..RunRow::default()
        };
        assert_eq!(RunRow::from_row(Value::Object(row.to_row().unwrap())).unwrap(), row);
    }
}
