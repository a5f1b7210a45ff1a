//! A tenant's tables as a query sees them: files of the present versions, and rows of what memory holds.

use std::collections::{BTreeSet, HashSet};

use super::Relation;
use crate::{
    store::{
        Error, Store, parquet,
        rows::{self, spans::SpanRow},
        schema::Table,
        table,
        tenant::{Tables, stored_records},
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
        let Some(tenant) = self.inner.known_tenant(id) else {
            let empty = |table: Table| Relation {
                name: table.name(),
                schema: table.arrow(),
                files: Vec::new(),
                replaced: None,
                hot: Vec::new(),
            };
            return Ok(Table::ALL.map(empty).into());
        };
        let live = self.live_runs(&tenant)?;
        let (tables, hot, replaced): (Tables, Vec<_>, BTreeSet<String>) = {
            let view = tenant.view.lock();
            let hot = view.hot.records.values().flatten().cloned().collect();
            let covered = view.listed.as_ref().map(|l| l.traces.clone()).unwrap_or_default();
            (view.tables.clone(), hot, view.runs_of(&covered))
        };
        let failed = |source| Error::Table(table::Error::File { path: id.to_string(), source });
        let traces = hot.iter().map(|r| r.trace_id()).collect();
        let there: HashSet<_> = stored_records(&tables.spans, &traces)?.iter().map(|r| r.hash).collect();
        let spans: Vec<SpanRow> =
            hot.iter().filter(|r| !there.contains(&r.hash)).map(|r| SpanRow::new(id, r)).collect();
        let context =
            rows::Context { tenant: id, revision: i64::try_from(tables.spans.version()).unwrap_or(i64::MAX) };
        let mut relations = Vec::new();
        for table in Table::ALL {
            let hot = if table == Table::Spans {
                parquet::batches(table, &spans).map_err(failed)?
            } else {
                let mut rows = Vec::new();
                for run in &live {
                    rows.extend(context.rows(table, run)?);
                }
                parquet::batches(table, &rows).map_err(failed)?
            };
            let replaced = (table != Table::Spans).then(|| (table.key(), replaced.iter().cloned().collect()));
            let files = tables.get(table).paths();
            relations.push(Relation { name: table.name(), schema: table.arrow(), files, replaced, hot });
        }
        Ok(relations)
    }
}
