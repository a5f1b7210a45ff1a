//! A tenant's tables as a query sees them: files of the present versions, and rows of what memory holds.

use arrow::array::RecordBatch;
use serde::Serialize;

use super::Relation;
use crate::{
    store::{
        Error, Store, batch,
        rows::{self, spans::SpanRow},
        schema::Table,
        table,
    },
    tenant::TenantId,
};

impl Store {
    /// The five tables of a tenant, current: a run with records that the tables do not have takes all its rows from
    /// memory.
    ///
    /// # Errors
    /// When a table cannot be read.
    pub fn relations(&self, id: &TenantId) -> Result<Vec<Relation>, Error> {
        let Some(tenant) = self.current(id) else {
            let empty = |table: Table| Relation {
                name: table.name(),
                schema: table.arrow(),
                files: Vec::new(),
                replaced: None,
                hot: Vec::new(),
            };
            return Ok(Table::ALL.map(empty).into());
        };
        let listed = self.listed(&tenant)?;
        let tables = &listed.tables;
        let context =
            rows::Context { tenant: id, revision: i64::try_from(tables.spans.version()).unwrap_or(i64::MAX) };
        let mut relations = Vec::new();
        for table in Table::ALL {
            let hot = if table == Table::Spans {
                batches(id, table, listed.hot.iter().map(|record| Ok(SpanRow::new(id, record))))?
            } else {
                batches(id, table, listed.runs.iter().flat_map(|run| context.rows(table, run)))?
            };
            let replaced =
                (table != Table::Spans).then(|| (table.key(), listed.replaced.iter().cloned().collect()));
            let files = tables.get(table).paths();
            relations.push(Relation { name: table.name(), schema: table.arrow(), files, replaced, hot });
        }
        Ok(relations)
    }
}

/// Rows as batches in memory, with the columns of the table's files.
fn batches<T: Serialize>(
    tenant: &TenantId,
    table: Table,
    rows: impl Iterator<Item = Result<T, table::Error>>,
) -> Result<Vec<RecordBatch>, Error> {
    let failed = |source| Error::Table(table::Error::File { path: tenant.to_string(), source });
    let mut waiting = batch::Batches::new(table).map_err(failed)?;
    let mut batches = Vec::new();
    for row in rows {
        batches.extend(waiting.push(&row?).map_err(failed)?);
    }
    batches.extend(waiting.finish().map_err(failed)?);
    Ok(batches)
}
