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
    /// A run's rows in one of the derived tables, in order of their places. Made one by one: those of a long run are
    /// many times its size.
    pub(super) fn rows<'a>(
        &'a self,
        table: Table,
        run: &'a Run,
    ) -> Box<dyn Iterator<Item = Result<Map<String, Value>, table::Error>> + 'a> {
        let complete =
            move |row: Result<Map<String, Value>, table::Error>| Ok(self.complete(table, run, row?));
        match table {
            Table::Spans => Box::new(std::iter::empty()),
            Table::Messages => Box::new(derived::messages(run).map(complete)),
            Table::Checkpoints => Box::new(derived::checkpoints(run).map(complete)),
            Table::RunSteps => Box::new(derived::run_steps(run).map(complete)),
            Table::Runs => {
                Box::new(std::iter::once(runs::RunRow::of(run).to_row().map_err(Into::into)).map(complete))
            }
        }
    }

    /// Adds the columns that every table has.
    fn complete(&self, table: Table, run: &Run, mut row: Map<String, Value>) -> Map<String, Value> {
        let id = row_id(self.tenant, table.name(), &[&run.run_id, &place_of(&row)]);
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
        row
    }
}

/// A row's place among those of its run, as text that sorts.
pub(super) fn place_of(row: &Map<String, Value>) -> String {
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
