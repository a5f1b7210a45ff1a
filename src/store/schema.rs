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
}

/// Types that every engine reads.
#[derive(Clone, Copy)]
enum Type {
    Text,
    Long,
    Time,
    TextMap,
}

use Type::{Long, Text, TextMap, Time};

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

impl Table {
    /// The table's folder and its name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Self::Spans => "spans",
        }
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
        let plain = self.columns().iter().filter(|(_, of)| matches!(of, Long | Time));
        plain.map(|(name, _)| *name).collect::<Vec<_>>().join(",")
    }

    fn columns(self) -> &'static [(&'static str, Type)] {
        match self {
            Self::Spans => SPANS,
        }
    }
}

fn arrow_type(of: Type) -> DataType {
    match of {
        Text => DataType::Utf8,
        Long => DataType::Int64,
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
        Time => json!("timestamp"),
        TextMap => {
            json!({"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": true})
        }
    }
}
