//! Records and runs as rows, and back.

pub mod derived;
pub mod runs;
pub mod spans;
pub mod value;

use serde_json::{Map, Value, json};

use super::{schema::Table, table};
use crate::{run::Run, tenant::TenantId};
use spans::row_id;

/// The rule set that runs are assembled by; a greater one asks for a reassembly.
pub const RULES_VERSION: i64 = 1;

/// What every row of a derivation has in common.
pub(super) struct Context<'a> {
    pub(super) tenant: &'a TenantId,
    pub(super) revision: i64,
}

impl Context<'_> {
    /// A run's rows in one of the derived tables.
    pub(super) fn rows(&self, table: Table, run: &Run) -> Result<Vec<Value>, table::Error> {
        let rows = match table {
            Table::Spans => Vec::new(),
            Table::Messages => derived::messages(run)?,
            Table::Checkpoints => derived::checkpoints(run)?,
            Table::RunSteps => derived::run_steps(run)?,
            Table::Runs => vec![runs::RunRow::of(run).to_row()?],
        };
        Ok(rows.into_iter().map(|row| self.complete(table, run, row)).collect())
    }

    /// Adds the columns that every table has.
    fn complete(&self, table: Table, run: &Run, mut row: Map<String, Value>) -> Value {
        let id = row_id(self.tenant, table.name(), &[&run.run_id, &place_of(&Value::Object(row.clone()))]);
        let micros = |nanos: u64| json!(i64::try_from(nanos / 1000).unwrap_or(i64::MAX));
        for (name, value) in [
            ("id", json!(id)),
            ("tenant_id", json!(self.tenant.as_str())),
            ("created_at", micros(run.first_received_at)),
            ("updated_at", micros(run.last_received_at)),
            ("revision", json!(self.revision)),
            ("rules_version", json!(RULES_VERSION)),
        ] {
            let _ = row.insert(name.into(), value);
        }
        Value::Object(row)
    }
}

/// A row's place among those of its run, as text that sorts.
pub(super) fn place_of(row: &Value) -> String {
    for name in ["step_index", "message_index"] {
        if row.get("checkpoint_id").is_none()
            && let Some(index) = row.get(name).and_then(Value::as_i64)
        {
            return format!("{index:012}");
        }
    }
    let text = |name: &str| row.get(name).and_then(Value::as_str).unwrap_or_default();
    format!("{}{}", text("namespace"), text("checkpoint_id"))
}
