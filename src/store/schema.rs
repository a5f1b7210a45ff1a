//! Columns of the tables, as Arrow and as Delta. Names are stable; adding a column is the only change.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use serde_json::{Value, json};

/// The column that data files are partitioned by; it stands in paths, not in files.
pub const PARTITION: &str = "ingest_date";

/// The tables of a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// Every accepted record, losslessly.
    Spans,
    /// Messages of runs, each once a run.
    Messages,
    /// Checkpoints of runs.
    Checkpoints,
    /// Steps of runs, in order.
    RunSteps,
    /// Runs.
    Runs,
}

/// Types that every engine reads.
#[derive(Clone, Copy)]
enum Type {
    Text,
    Long,
    Time,
    TextMap,
    Double,
    Flag,
    TextList,
    LongList,
}

use Type::{Double, Flag, Long, LongList, Text, TextList, TextMap, Time};

const SPANS: &[(&str, Type)] = &[
    ("id", Text),
    ("tenant_id", Text),
    ("record", Text),
    ("record_hash", Text),
    ("trace_id", Text),
    ("span_id", Text),
    ("parent_span_id", Text),
    ("trace_state", Text),
    ("flags", Long),
    ("name", Text),
    ("kind", Long),
    ("start_time", Time),
    ("end_time", Time),
    ("start_time_unix_nano", Long),
    ("end_time_unix_nano", Long),
    ("status_code", Long),
    ("status_message", Text),
    ("attributes", TextMap),
    ("attributes_repeated", Text),
    ("events", Text),
    ("links", Text),
    ("event_name", Text),
    ("body", Text),
    ("severity_number", Long),
    ("severity_text", Text),
    ("observed_time_unix_nano", Long),
    ("resource", Text),
    ("scope", Text),
    ("resource_schema_url", Text),
    ("scope_schema_url", Text),
    ("dropped_attributes_count", Long),
    ("dropped_events_count", Long),
    ("dropped_links_count", Long),
    ("received_at", Time),
    ("received_at_unix_nano", Long),
    ("wal_seq", Long),
    ("created_at", Time),
    ("updated_at", Time),
];

const RUN_STEPS: &[(&str, Type)] = &[
    ("id", Text),
    ("tenant_id", Text),
    ("run_id", Text),
    ("step_index", Long),
    ("kind", Text),
    ("name", Text),
    ("decision", Text),
    ("span_id", Text),
    ("trace_id", Text),
    ("parent_step_index", Long),
    ("depth", Long),
    ("agent_path", TextList),
    ("parallel_group", Long),
    ("started_at", Time),
    ("ended_at", Time),
    ("duration_ns", Long),
    ("status", Text),
    ("error_type", Text),
    ("error_message", Text),
    ("model", Text),
    ("response_model", Text),
    ("provider", Text),
    ("response_id", Text),
    ("finish_reasons", TextList),
    ("temperature", Double),
    ("top_p", Double),
    ("max_tokens", Long),
    ("seed", Long),
    ("streamed", Flag),
    ("ttft_ns", Long),
    ("system_instructions", Text),
    ("tool_definitions", Text),
    ("input_message_indexes", LongList),
    ("input_text_last", Text),
    ("output_text", Text),
    ("output_messages", Text),
    ("tool_call_id", Text),
    ("tool_arguments", Text),
    ("tool_result", Text),
    ("retrieval_query", Text),
    ("retrieval_documents", Text),
    ("input_tokens", Long),
    ("output_tokens", Long),
    ("cache_read_tokens", Long),
    ("cache_write_tokens", Long),
    ("reasoning_tokens", Long),
    ("cost_usd", Double),
    ("cost_source", Text),
    ("input_state", Text),
    ("output_state", Text),
    ("inferred", Flag),
    ("dialect", Text),
    ("service_name", Text),
    ("superseded_spans", TextList),
    ("created_at", Time),
    ("updated_at", Time),
    ("revision", Long),
    ("rules_version", Long),
];

const MESSAGES: &[(&str, Type)] = &[
    ("id", Text),
    ("tenant_id", Text),
    ("run_id", Text),
    ("message_index", Long),
    ("role", Text),
    ("name", Text),
    ("parts", Text),
    ("text", Text),
    ("first_step_index", Long),
    ("created_at", Time),
    ("updated_at", Time),
    ("revision", Long),
    ("rules_version", Long),
];

const RUNS: &[(&str, Type)] = &[
    ("id", Text),
    ("tenant_id", Text),
    ("run_id", Text),
    ("aliases", TextList),
    ("rule", Text),
    ("status", Text),
    ("settled", Flag),
    ("started_at", Time),
    ("ended_at", Time),
    ("started_at_unix_nano", Long),
    ("ended_at_unix_nano", Long),
    ("steps", Text),
    ("input_tokens", Long),
    ("output_tokens", Long),
    ("cache_read_tokens", Long),
    ("cache_write_tokens", Long),
    ("reasoning_tokens", Long),
    ("cost_usd", Double),
    ("models", TextList),
    ("tools", TextList),
    ("agents", TextList),
    ("conversation", Text),
    ("user", Text),
    ("thread", Text),
    ("trace_ids", TextList),
    ("root_span_id", Text),
    ("span_count", Long),
    ("service_names", TextList),
    ("replayability", Text),
    ("partial_reasons", Text),
    ("notes", Text),
    ("checkpoints", TextList),
    ("error", Text),
    ("parent_run_id", Text),
    ("record_digest", Text),
    ("join_keys", TextList),
    ("source", Text),
    ("last_received_unix_nano", Long),
    ("created_at", Time),
    ("updated_at", Time),
    ("revision", Long),
    ("rules_version", Long),
];

const CHECKPOINTS: &[(&str, Type)] = &[
    ("id", Text),
    ("tenant_id", Text),
    ("checkpoint_id", Text),
    ("run_id", Text),
    ("step_index", Long),
    ("namespace", Text),
    ("thread_id", Text),
    ("parent_checkpoint_id", Text),
    ("source", Text),
    ("recorded", Flag),
    ("state", Text),
    ("created_at", Time),
    ("updated_at", Time),
    ("revision", Long),
    ("rules_version", Long),
];

impl Table {
    /// All five.
    pub const ALL: [Self; 5] = [Self::Spans, Self::Messages, Self::Checkpoints, Self::RunSteps, Self::Runs];

    /// The table's folder and its name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Self::Spans => "spans",
            Self::Messages => "messages",
            Self::Checkpoints => "checkpoints",
            Self::RunSteps => "run_steps",
            Self::Runs => "runs",
        }
    }

    /// The column that look-ups go by.
    pub fn key(self) -> &'static str {
        if self == Self::Spans { "trace_id" } else { "run_id" }
    }

    /// Columns of the data files, without [`PARTITION`].
    pub fn arrow(self) -> SchemaRef {
        let field = |(name, of): &(&str, Type)| Field::new(*name, arrow_type(*of), true);
        Arc::new(Schema::new(self.columns().iter().map(field).collect::<Fields>()))
    }

    /// The `schemaString` of the table.
    pub fn delta(self) -> String {
        let field =
            |name: &str, of: Value| json!({"name": name, "type": of, "nullable": true, "metadata": {}});
        let mut fields: Vec<Value> =
            self.columns().iter().map(|(name, of)| field(name, delta_type(*of))).collect();
        fields.push(field(PARTITION, json!("date")));
        json!({"type": "struct", "fields": fields}).to_string()
    }

    /// Columns that file statistics may name: no text.
    pub fn statistics_columns(self) -> String {
        let plain = self.columns().iter().filter(|(_, of)| matches!(of, Long | Double | Time));
        plain.map(|(name, _)| *name).collect::<Vec<_>>().join(",")
    }

    fn columns(self) -> &'static [(&'static str, Type)] {
        match self {
            Self::Spans => SPANS,
            Self::Messages => MESSAGES,
            Self::Checkpoints => CHECKPOINTS,
            Self::RunSteps => RUN_STEPS,
            Self::Runs => RUNS,
        }
    }
}

fn arrow_type(of: Type) -> DataType {
    match of {
        Text => DataType::Utf8,
        Long => DataType::Int64,
        Double => DataType::Float64,
        Flag => DataType::Boolean,
        TextList => DataType::List(Arc::new(Field::new("element", DataType::Utf8, true))),
        LongList => DataType::List(Arc::new(Field::new("element", DataType::Int64, true))),
        Time => DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
        TextMap => {
            let entry = [Field::new("key", DataType::Utf8, false), Field::new("value", DataType::Utf8, true)];
            let entry = DataType::Struct(Fields::from(entry.to_vec()));
            DataType::Map(Arc::new(Field::new("key_value", entry, false)), false)
        }
    }
}

fn delta_type(of: Type) -> Value {
    match of {
        Text => json!("string"),
        Long => json!("long"),
        Double => json!("double"),
        Flag => json!("boolean"),
        TextList => json!({"type": "array", "elementType": "string", "containsNull": true}),
        LongList => json!({"type": "array", "elementType": "long", "containsNull": true}),
        Time => json!("timestamp"),
        TextMap => {
            json!({"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": true})
        }
    }
}
