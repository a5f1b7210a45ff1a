//! Records at a version of `spans` -> the four derived tables and the snapshot that names the revision.
//!
//! Everything that a derivation depends on is in the tables: the version of `spans`, and the moment by which traces
//! were judged settled. So a crash anywhere is mended by doing the same again: assembly is pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::{Map, Value, json};

use super::{
    Error, Inner,
    delta::actions::Add,
    rows::{self, runs::RunRow, spans::row_id},
    schema::Table,
    table::{self, TenantTable, key_of},
    tenant::{Tenant, stored_records},
};
use crate::{
    config::store::Settings,
    otlp::record::{Record, TraceId},
    run::{self, Run, Settled},
};

/// The order of the commits; `runs` is last, so that its mark says that all is done.
const ORDER: [Table; 4] = [Table::Messages, Table::Checkpoints, Table::RunSteps, Table::Runs];

/// A moment by which settling is judged, nanoseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Now(pub(super) i64);

impl Now {
    /// After everything: every trace has settled.
    pub(super) const ALL_SETTLED: Self = Self(i64::MAX);

    pub(super) fn unix_ms(self) -> i64 {
        self.0 / 1_000_000
    }
}

/// Traces of `records` that have settled by `now`.
pub(super) fn settled<'a>(
    records: impl IntoIterator<Item = &'a Arc<Record>>,
    now: Now,
    settings: &Settings,
) -> BTreeSet<TraceId> {
    let mut traces: BTreeMap<TraceId, (u64, bool)> = BTreeMap::new();
    for record in records {
        let (last, ended) = traces.entry(record.place()).or_default();
        *last = record.received_at.max(*last);
        *ended |= record.as_span().is_some_and(|s| s.parent_span_id.is_empty() && s.end_time_unix_nano != 0);
    }
    let quiet = |last: u64, seconds: u64| {
        u64::try_from(now.0).unwrap_or_default().saturating_sub(last) >= seconds.saturating_mul(1_000_000_000)
    };
    let settled = traces.into_iter().filter(|(_, (last, ended))| {
        now == Now::ALL_SETTLED
            || *ended && quiet(*last, settings.settle_after_s)
            || quiet(*last, settings.idle_after_s)
    });
    settled.map(|(trace, _)| trace).collect()
}

impl Inner {
    /// Derives the runs of pending traces, and of runs that have settled since they were derived.
    pub(super) fn derive(&self, tenant: &Tenant, now: Now) -> Result<(), Error> {
        let _work = tenant.work.lock();
        let (due, pending) = {
            let mut view = tenant.view.lock();
            Table::ALL.into_iter().try_for_each(|table| view.tables.get_mut(table).refresh())?;
            (self.due(view.rows.values().map(Arc::as_ref), now), view.hot.pending.clone())
        };
        if due.is_empty() && pending.is_empty() {
            return Ok(());
        }
        if pending.is_empty() {
            // Nothing was added, but time has passed: an empty commit gives the new revision its number.
            let mut view = tenant.view.lock();
            let commit_id = row_id(&tenant.id, "settle", &[&now.0.to_string()]);
            let _ = view.tables.spans.commit(
                &commit_id,
                &[],
                Vec::new(),
                &BTreeSet::new(),
                self.now().unix_ms(),
            )?;
        }
        let (version, now) = {
            let view = tenant.view.lock();
            let (version, first) = (view.tables.spans.version(), &view.tables.messages);
            // What was begun and failed goes on with the moment that it began with.
            let begun = first.txn("derive").is_some_and(|begun| u64::try_from(begun) == Ok(version));
            (version, first.txn("derive_now").filter(|_| begun).map_or(now, Now))
        };
        self.derive_at(tenant, version, now)
    }

    /// Ends a derivation that a crash cut off, before anything else touches the tables.
    pub(super) fn finish_derivation(&self, tenant: &Tenant) -> Result<(), Error> {
        let _work = tenant.work.lock();
        let (begun, done, now) = {
            let view = tenant.view.lock();
            let first = &view.tables.messages;
            (first.txn("derive"), view.tables.runs.txn("derive"), first.txn("derive_now"))
        };
        match (begun, now) {
            (Some(begun), Some(now)) if Some(begun) > done => {
                tracing::info!(tenant = %tenant.id, version = begun, "finishing a derivation that was cut off");
                self.derive_at(tenant, u64::try_from(begun).unwrap_or_default(), Now(now))
            }
            (Some(begun), _) => self.snapshot(tenant, u64::try_from(begun).unwrap_or_default()),
            _ => Ok(()),
        }
    }

    /// Traces of runs that are not settled in the table and would be by `now`.
    pub(super) fn due<'a>(&self, rows: impl Iterator<Item = &'a RunRow>, now: Now) -> BTreeSet<TraceId> {
        let waited = |row: &RunRow| {
            let quiet = now.0.saturating_sub(row.last_received_ns());
            let enough = if row.ended() { self.settings.settle_after_s } else { self.settings.idle_after_s };
            now == Now::ALL_SETTLED
                || quiet >= i64::try_from(enough).unwrap_or(i64::MAX).saturating_mul(1_000_000_000)
        };
        rows.filter(|row| !row.settled && waited(row)).flat_map(RunRow::traces).collect()
    }

    fn derive_at(&self, tenant: &Tenant, version: u64, now: Now) -> Result<(), Error> {
        let (traces, replaced, spans) = {
            let mut view = tenant.view.lock();
            let mut from = view.hot.pending.clone();
            from.extend(self.due(view.rows.values().map(Arc::as_ref), now));
            let traces = view.closure(from);
            let replaced = view.runs_of(&traces);
            (traces, replaced, view.tables.spans.clone())
        };
        let records = stored_records(&spans, &traces)?;
        let settled = settled(&records, now, &self.settings);
        let runs = run::assemble(&records, Settled::Traces(&settled));
        drop(records);
        let _ = self.metrics.runs_assembled.inc_by(runs.len() as u64);
        let rows: Vec<RunRow> = runs.iter().map(RunRow::of).collect();
        // The ids of all runs that may have rows: those in `runs`, and those that this derivation makes.
        let mut ids = replaced.clone();
        ids.extend(rows.iter().map(|r| r.run_id.clone()));
        for table in ORDER {
            self.replace(tenant, table, version, now, &ids, &runs)?;
        }
        {
            let mut view = tenant.view.lock();
            for id in &replaced {
                view.remove_row(id);
            }
            for row in rows {
                view.insert_row(row);
            }
            view.hot.derived(&traces);
            view.changed();
        }
        self.snapshot(tenant, version)
    }

    /// Takes the rows of `ids` out of a table and puts those of `runs` in, in one commit.
    ///
    /// What else stands in the files that go is written into files of its own, and so are runs that have settled: else
    /// each round would write again what the rounds before it wrote.
    fn replace(
        &self,
        tenant: &Tenant,
        table: Table,
        version: u64,
        now: Now,
        ids: &BTreeSet<String>,
        runs: &[Run],
    ) -> Result<(), Error> {
        let revision = i64::try_from(version).unwrap_or(i64::MAX);
        let current = tenant.view.lock().tables.get(table).clone();
        if current.txn("derive").is_some_and(|done| done >= revision) {
            return Ok(());
        }
        let name = |part: &[&str]| {
            row_id(&tenant.id, table.name(), &[&["derive", &revision.to_string()], part].concat())
        };
        let now_ms = self.now().unix_ms();
        let removed = current.files_with(ids);
        let mut adds = Vec::new();
        for path in &removed {
            let mut rest = current.read::<Map<String, Value>>(path, None)?;
            rest.retain(|row| !ids.contains(key_of(row, table)));
            rest.sort_by_cached_key(|row| (key_of(row, table).to_owned(), rows::place_of(row)));
            // It came on the day that its file says.
            let day = current.day_of(path);
            adds.extend(keyed(&current, rest.into_iter().map(Ok), &name(&["rest", path]), &day, now_ms)?);
        }
        let context = rows::Context { tenant: &tenant.id, revision };
        let (mut settled, mut open): (Vec<&Run>, Vec<&Run>) = runs.iter().partition(|run| run.settled);
        let today = table::day(now_ms);
        for (part, runs) in [(&[][..], &mut settled), (&["open"][..], &mut open)] {
            runs.sort_by(|a, b| a.run_id.cmp(&b.run_id));
            let rows = runs.iter().flat_map(|run| context.rows(table, run));
            adds.extend(keyed(&current, rows, &name(part), &today, now_ms)?);
        }
        let txns =
            [("derive".to_owned(), revision), ("derive_now".to_owned(), now.0), ("owner".to_owned(), 1)];
        // A table that is shared is copied when it changes.
        drop(current);
        let mut view = tenant.view.lock();
        view.listed = None;
        let _ = view.tables.get_mut(table).commit(&name(&[]), &txns, adds, &removed, now_ms)?;
        let _ = self.metrics.commits.inc();
        Ok(())
    }

    /// Writes the file that says which versions of the five tables are one revision.
    pub(super) fn snapshot(&self, tenant: &Tenant, version: u64) -> Result<(), Error> {
        let versions: BTreeMap<&str, u64> = {
            let view = tenant.view.lock();
            view.tables
                .all()
                .map(|t| (t.table.name(), if t.table == Table::Spans { version } else { t.version() }))
                .into()
        };
        let name = format!("{}/_snapshots/{version:020}.json", tenant.id);
        let bytes = json!({"epoch": 1, "versions": versions}).to_string();
        let put = self.objects.put_if_absent(&name, bytes.as_bytes());
        put.map(drop).map_err(|source| Error::Table(table::Error::Io { path: name, source }))
    }
}

/// A file of `rows` with the keys that are in it; none when there are no rows.
fn keyed(
    table: &TenantTable,
    rows: impl Iterator<Item = Result<Map<String, Value>, table::Error>>,
    name: &str,
    day: &str,
    now_ms: i64,
) -> Result<Option<(Add, BTreeSet<String>)>, table::Error> {
    let mut keys = BTreeSet::new();
    let rows = rows.inspect(|row| {
        if let Ok(row) = row {
            let _ = keys.insert(key_of(row, table.table).to_owned());
        }
    });
    let add = table.write(rows, name, day, now_ms)?;
    Ok(add.map(|add| (add, keys)))
}
