//! The table `spans` of one tenant: append records once, read them back by trace.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
};

use super::{
    delta::{
        actions::{Action, Add, Format, MetaData, Protocol, Txn},
        log::{self, Log, Outcome, State},
    },
    object::{Objects, Put},
    parquet,
    rows::spans::{Damaged, SpanRow, row_id},
    schema::{PARTITION, Table},
};
use crate::{
    otlp::record::{Record, RecordHash, TraceId},
    tenant::TenantId,
};

/// The table could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The log.
    #[error(transparent)]
    Log(#[from] log::Error),
    /// A data file's bytes.
    #[error("{path}: {source}")]
    File {
        /// Relative to the table.
        path: String,
        /// Why.
        source: parquet::Error,
    },
    /// A row.
    #[error(transparent)]
    Row(#[from] Damaged),
    /// The disk.
    #[error("cannot reach data file {path}: {source}; check the disk and its free space")]
    Io {
        /// Relative to the table.
        path: String,
        /// Why.
        source: std::io::Error,
    },
}

/// One tenant's `spans`, at the version that was read last.
#[derive(Debug)]
pub struct Spans {
    objects: Objects,
    log: Log,
    tenant: TenantId,
    folder: String,
    state: State,
}

impl Spans {
    /// The table of `tenant` at its head; it may not exist yet.
    ///
    /// # Errors
    /// When its log cannot be read.
    pub fn open(objects: Objects, tenant: TenantId) -> Result<Self, Error> {
        let folder = format!("{tenant}/{}", Table::Spans.name());
        let log = Log::new(objects.clone(), folder.clone());
        let mut state = State::default();
        log.advance(&mut state)?;
        Ok(Self { objects, log, tenant, folder, state })
    }

    /// The last frame of `node` whose records are in the table.
    pub fn flushed(&self, node: &str) -> Option<i64> {
        self.state.txns.get(&format!("wal/{node}")).copied()
    }

    /// Appends the records of `node`'s frames up to `seq`; those that the table holds already are dropped.
    ///
    /// `now_ms` is in milliseconds since the Unix epoch. Calling it again with the same frames changes nothing. One
    /// writer at a time: a copy that another node commits between the look-up and the commit is not seen.
    ///
    /// # Errors
    /// The outcome is then unknown; calling it again with the same frames settles it.
    pub fn append(
        &mut self,
        node: &str,
        seq: i64,
        records: &[Arc<Record>],
        now_ms: i64,
    ) -> Result<Outcome, Error> {
        self.create(now_ms)?;
        let traces: BTreeSet<TraceId> = records.iter().map(|r| r.trace_id()).collect();
        let mut seen: HashSet<RecordHash> = self.records(&traces)?.iter().map(|r| r.hash).collect();
        let mut rows: Vec<SpanRow> = records
            .iter()
            .filter(|record| seen.insert(record.hash))
            .map(|record| SpanRow::new(&self.tenant, record))
            .collect();
        let order =
            |r: &SpanRow| (r.trace_id.clone(), r.start_time_unix_nano.cast_unsigned(), r.span_id.clone());
        rows.sort_by_cached_key(order);
        let txn = Txn { app_id: format!("wal/{node}"), version: seq };
        let mut actions = Vec::new();
        let digest = rows.iter().map(|r| r.id.as_str()).collect::<Vec<_>>();
        let commit_id = row_id(&self.tenant, &format!("{node}/{seq}"), &digest);
        if !rows.is_empty() {
            actions.push(Action::Add(self.write(&rows, &commit_id, now_ms)?));
        }
        Ok(self.log.commit(&mut self.state, &commit_id, Some(&txn), &actions, now_ms)?)
    }

    /// The records of these traces, each version once.
    ///
    /// # Errors
    /// When a data file cannot be read.
    pub fn records(&self, traces: &BTreeSet<TraceId>) -> Result<Vec<Record>, Error> {
        let wanted: BTreeSet<String> = traces.iter().map(ToString::to_string).collect();
        // Records without a valid trace id stand under the id as it was sent.
        let all = traces.iter().any(|t| !t.is_valid());
        let mut records = Vec::new();
        let mut seen = HashSet::new();
        for path in self.state.files.keys() {
            let io = |source| Error::Io { path: path.clone(), source };
            let read = self.objects.read(&format!("{}/{path}", self.folder)).map_err(io)?;
            let bytes = read.ok_or_else(|| io(std::io::ErrorKind::NotFound.into()))?;
            let rows = parquet::read::<SpanRow>(bytes.into(), (!all).then_some(&wanted))
                .map_err(|source| Error::File { path: path.clone(), source })?;
            for row in rows {
                let record = row.to_record()?;
                if traces.contains(&record.trace_id()) && seen.insert(record.hash) {
                    records.push(record);
                }
            }
        }
        Ok(records)
    }

    fn write(&self, rows: &[SpanRow], unique: &str, now_ms: i64) -> Result<Add, Error> {
        let date = chrono::DateTime::from_timestamp_millis(now_ms)
            .unwrap_or_default()
            .format("%Y-%m-%d")
            .to_string();
        let path = format!("{PARTITION}={date}/{unique}.parquet");
        let bytes = parquet::write(Table::Spans, rows)
            .map_err(|source| Error::File { path: path.clone(), source })?;
        let name = format!("{}/{path}", self.folder);
        self.objects.put(&name, &bytes).map_err(|source| Error::Io { path: path.clone(), source })?;
        Ok(Add {
            path,
            partition_values: BTreeMap::from([(PARTITION.to_owned(), Some(date))]),
            size: i64::try_from(bytes.len()).unwrap_or(i64::MAX),
            modification_time: now_ms,
            data_change: true,
            stats: Some(format!("{{\"numRecords\":{}}}", rows.len())),
        })
    }

    fn create(&mut self, now_ms: i64) -> Result<(), Error> {
        if self.state.version.is_some() {
            return Ok(());
        }
        let table = Table::Spans;
        let actions = [
            Action::Protocol(Protocol { min_reader_version: 1, min_writer_version: 2 }),
            Action::MetaData(MetaData {
                id: row_id(&self.tenant, table.name(), &[]),
                format: Format { provider: "parquet".into(), options: BTreeMap::new() },
                schema_string: table.delta(),
                partition_columns: vec![PARTITION.into()],
                configuration: BTreeMap::from([(
                    "delta.dataSkippingStatsColumns".to_owned(),
                    table.statistics_columns(),
                )]),
                created_time: Some(now_ms),
            }),
        ];
        let bytes = super::delta::actions::print(&actions)
            .map_err(|e| Error::Io { path: self.folder.clone(), source: e.into() })?;
        // Whoever came first made the same table.
        let put = self.objects.put_if_absent(&format!("{}/_delta_log/{:020}.json", self.folder, 0), &bytes);
        let (Put::Done | Put::Exists) =
            put.map_err(|source| Error::Io { path: self.folder.clone(), source })?;
        Ok(self.log.advance(&mut self.state)?)
    }
}

#[cfg(test)]
mod tests;
