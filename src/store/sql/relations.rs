//! A tenant's tables as a query sees them: files of the present versions, and rows of what memory holds.

use super::Relation;
use crate::{
    store::{
        Error, Store, parquet,
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
        let failed = |source| Error::Table(table::Error::File { path: id.to_string(), source });
        let spans: Vec<SpanRow> = listed.hot.iter().map(|record| SpanRow::new(id, record)).collect();
        let context =
            rows::Context { tenant: id, revision: i64::try_from(tables.spans.version()).unwrap_or(i64::MAX) };
        let mut relations = Vec::new();
        for table in Table::ALL {
            let hot = if table == Table::Spans {
                parquet::batches(table, &spans).map_err(failed)?
            } else {
                let mut rows = Vec::new();
                for run in &listed.runs {
                    rows.extend(context.rows(table, run)?);
                }
                parquet::batches(table, &rows).map_err(failed)?
            };
            let replaced =
                (table != Table::Spans).then(|| (table.key(), listed.replaced.iter().cloned().collect()));
            let files = tables.get(table).paths();
            relations.push(Relation { name: table.name(), schema: table.arrow(), files, replaced, hot });
        }
        Ok(relations)
    }
}
