//! One table of a tenant: its files, which of them hold a key, and the commit that replaces some of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use super::{
    delta::{
        actions::{self, Action, Add, Format, MetaData, Protocol, Remove, Txn},
        log::{self, Log, Outcome, State},
    },
    object::Objects,
    parquet,
    rows::spans::{Damaged, row_id},
    schema::{PARTITION, Table},
};
use crate::tenant::TenantId;

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
        /// Relative to the data folder's tables.
        path: String,
        /// Why.
        source: parquet::Error,
    },
    /// A row.
    #[error(transparent)]
    Row(#[from] Damaged),
    /// A row that cannot be written down.
    #[error("a row cannot be written: {0}; please report this")]
    Json(#[from] serde_json::Error),
    /// The disk.
    #[error("cannot reach {path}: {source}; check the disk and its free space")]
    Io {
        /// Relative to the data folder's tables.
        path: String,
        /// Why.
        source: std::io::Error,
    },
}

/// A table at the version that was read last, and the keys (trace ids, run ids) of each live file.
#[derive(Clone, Debug)]
pub(super) struct TenantTable {
    pub(super) table: Table,
    objects: Objects,
    log: Log,
    tenant: TenantId,
    folder: String,
    /// Shared: every reader takes the table as it is at one moment.
    pub(super) state: Arc<State>,
    files_of: Arc<BTreeMap<String, BTreeSet<String>>>,
}

impl TenantTable {
    /// The table at its head. One that is absent is empty; the first commit makes it.
    pub(super) fn open(objects: Objects, tenant: TenantId, table: Table) -> Result<Self, Error> {
        let folder = format!("{tenant}/{}", table.name());
        let log = Log::new(objects.clone(), folder.clone());
        let (state, files_of) = (Arc::default(), Arc::default());
        let mut opened = Self { table, objects, log, tenant, folder, state, files_of };
        opened.refresh()?;
        Ok(opened)
    }

    /// Reads on to the head of the log: a commit whose outcome is not known may be in it.
    pub(super) fn refresh(&mut self) -> Result<(), Error> {
        let mut state = State::clone(&self.state);
        self.log.advance(&mut state)?;
        if state.version == self.state.version {
            return Ok(());
        }
        let new: Vec<String> =
            state.files.keys().filter(|path| !self.state.files.contains_key(*path)).cloned().collect();
        let keys = |path: &String| {
            let keys = parquet::keys(self.bytes(path)?, self.table.key());
            keys.map_err(|source| self.file_error(path, source))
        };
        let keys = new.iter().map(keys).collect::<Result<Vec<_>, _>>()?;
        let gone: BTreeSet<String> =
            self.state.files.keys().filter(|path| !state.files.contains_key(*path)).cloned().collect();
        self.forget(&gone);
        for (path, keys) in new.iter().zip(keys) {
            self.index(path, keys);
        }
        self.state = Arc::new(state);
        Ok(())
    }

    pub(super) fn version(&self) -> u64 {
        self.state.version.unwrap_or_default()
    }

    /// How far an application has got in this table.
    pub(super) fn txn(&self, app_id: &str) -> Option<i64> {
        self.state.txns.get(app_id).copied()
    }

    /// Live files that hold one of `keys`.
    pub(super) fn files_with<'a>(&self, keys: impl IntoIterator<Item = &'a String>) -> BTreeSet<String> {
        keys.into_iter().filter_map(|k| self.files_of.get(k)).flatten().cloned().collect()
    }

    /// Keys of the files that commits after `version` added.
    pub(super) fn keys_added_since(&self, version: u64) -> Result<BTreeSet<String>, Error> {
        let mut added = BTreeSet::new();
        for next in version + 1..=self.version() {
            for action in self.log.entry(next)?.unwrap_or_default() {
                if let Action::Add(add) = action
                    && add.data_change
                {
                    let _ = added.insert(add.path);
                }
            }
        }
        let keys = self.files_of.iter().filter(|(_, files)| !files.is_disjoint(&added));
        Ok(keys.map(|(key, _)| key.clone()).collect())
    }

    /// Rows of a live file; with `keys`, only those that have one.
    pub(super) fn read<T: DeserializeOwned>(
        &self,
        path: &str,
        keys: Option<&BTreeSet<String>>,
    ) -> Result<Vec<T>, Error> {
        parquet::read(self.bytes(path)?, self.table.key(), keys)
            .map_err(|source| self.file_error(path, source))
    }

    /// The same rows with `columns` only.
    pub(super) fn project<T: DeserializeOwned>(
        &self,
        path: &str,
        keys: &BTreeSet<String>,
        columns: &[&str],
    ) -> Result<Vec<T>, Error> {
        parquet::project(self.bytes(path)?, self.table.key(), Some(keys), columns)
            .map_err(|source| self.file_error(path, source))
    }

    /// Bytes of a live file's columns in memory.
    pub(super) fn bytes_in_memory(&self, path: &str) -> Result<u64, Error> {
        parquet::bytes_in_memory(self.bytes(path)?).map_err(|source| self.file_error(path, source))
    }

    /// Writes a data file of `rows`, in their order, into the partition of `day`. No commit names it yet; there is none
    /// when there are no rows. Its name is a function of `name`.
    pub(super) fn write<T: Serialize>(
        &self,
        rows: impl Iterator<Item = Result<T, Error>>,
        name: &str,
        day: &str,
        now_ms: i64,
    ) -> Result<Option<Add>, Error> {
        let path = format!("{PARTITION}={day}/{name}.parquet");
        let failed = |source| self.file_error(&path, source);
        let mut file = parquet::Writer::new(self.table).map_err(failed)?;
        for row in rows {
            file.push(&row?).map_err(failed)?;
        }
        let (bytes, count) = file.finish().map_err(failed)?;
        if count == 0 {
            return Ok(None);
        }
        let name = format!("{}/{path}", self.folder);
        self.objects.put(&name, &bytes).map_err(|source| Error::Io { path: name, source })?;
        Ok(Some(Add {
            path,
            partition_values: BTreeMap::from([(PARTITION.to_owned(), Some(day.to_owned()))]),
            size: i64::try_from(bytes.len()).unwrap_or(i64::MAX),
            modification_time: now_ms,
            data_change: true,
            stats: Some(format!("{{\"numRecords\":{count}}}")),
        }))
    }

    /// Commits: `adds` join with their keys, `removed` files leave, `txns` say how far it got; the first of them decides
    /// whether it is in already.
    pub(super) fn commit(
        &mut self,
        commit_id: &str,
        txns: &[(String, i64)],
        adds: Vec<(Add, BTreeSet<String>)>,
        removed: &BTreeSet<String>,
        now_ms: i64,
    ) -> Result<Outcome, Error> {
        if self.state.version.is_none() {
            self.create()?;
        }
        let txn = |(app_id, version): &(String, i64)| Txn { app_id: app_id.clone(), version: *version };
        let once = txns.first().map(txn);
        let mut actions: Vec<Action> = txns.iter().skip(1).map(|t| Action::Txn(txn(t))).collect();
        let data_change = adds.iter().all(|(add, _)| add.data_change);
        actions.extend(removed.iter().map(|path| {
            Action::Remove(Remove { path: path.clone(), deletion_timestamp: Some(now_ms), data_change })
        }));
        actions.extend(adds.iter().map(|(add, _)| Action::Add(add.clone())));
        let outcome =
            self.log.commit(Arc::make_mut(&mut self.state), commit_id, once.as_ref(), &actions, now_ms)?;
        // Also for a commit that was in already: this process may not have heard of it.
        self.forget(removed);
        for (add, keys) in adds {
            if self.state.files.contains_key(&add.path) {
                self.index(&add.path, keys);
            }
        }
        Ok(outcome)
    }

    /// The day of a live file's partition.
    pub(super) fn day_of(&self, path: &str) -> String {
        let day = self.state.files.get(path).and_then(|file| file.partition_values.get(PARTITION));
        day.cloned().flatten().unwrap_or_default()
    }

    /// Paths of the live files on disk.
    #[cfg(feature = "sql")]
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        self.state.files.keys().map(|path| self.objects.path(&format!("{}/{path}", self.folder))).collect()
    }

    /// Keys of all live files.
    pub(super) fn all_keys(&self) -> impl Iterator<Item = &String> {
        self.files_of.keys()
    }

    /// Files that the table had at `version`.
    pub(super) fn files_at(&self, version: u64) -> Result<BTreeSet<String>, Error> {
        Ok(self.log.at(version)?.files.into_keys().collect())
    }

    /// Data files on disk, live or not, with the folder that they are named from.
    pub(super) fn on_disk(&self) -> Result<Vec<String>, Error> {
        let list = |folder: &str| {
            let name = format!("{}/{folder}", self.folder);
            self.objects.list(&name).map_err(|source| Error::Io { path: name, source })
        };
        let mut files = Vec::new();
        for folder in list("")?.into_iter().filter(|f| f.starts_with(PARTITION)) {
            files.extend(list(&folder)?.into_iter().map(|file| format!("{folder}/{file}")));
        }
        Ok(files)
    }

    /// Deletes a file that no version in use names.
    pub(super) fn delete(&self, path: &str) -> Result<(), Error> {
        let name = format!("{}/{path}", self.folder);
        self.objects.delete(&name).map_err(|source| Error::Io { path: name, source })
    }

    /// Where a file of the table stands.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.objects.path(&format!("{}/{path}", self.folder))
    }

    fn forget(&mut self, removed: &BTreeSet<String>) {
        if !removed.is_empty() {
            Arc::make_mut(&mut self.files_of).retain(|_, files| {
                files.retain(|f| !removed.contains(f));
                !files.is_empty()
            });
        }
    }

    fn index(&mut self, path: &str, keys: BTreeSet<String>) {
        let files_of = Arc::make_mut(&mut self.files_of);
        for key in keys {
            let _ = files_of.entry(key).or_default().insert(path.to_owned());
        }
    }

    fn bytes(&self, path: &str) -> Result<bytes::Bytes, Error> {
        let name = format!("{}/{path}", self.folder);
        let read =
            self.objects.read(&name).and_then(|b| b.ok_or_else(|| std::io::ErrorKind::NotFound.into()));
        read.map(Into::into).map_err(|source| Error::Io { path: name, source })
    }

    fn file_error(&self, path: &str, source: parquet::Error) -> Error {
        Error::File { path: format!("{}/{path}", self.folder), source }
    }

    fn create(&mut self) -> Result<(), Error> {
        let properties =
            BTreeMap::from([("delta.dataSkippingStatsColumns".to_owned(), self.table.statistics_columns())]);
        let actions = [
            Action::Protocol(Protocol { min_reader_version: 1, min_writer_version: 2 }),
            Action::MetaData(MetaData {
                id: row_id(&self.tenant, self.table.name(), &[]),
                format: Format { provider: "parquet".into(), options: BTreeMap::new() },
                schema_string: self.table.delta(),
                partition_columns: vec![PARTITION.into()],
                configuration: properties,
                created_time: None,
            }),
        ];
        let name = format!("{}/_delta_log/{:020}.json", self.folder, 0);
        // Whoever came first made the same table.
        let put = self.objects.put_if_absent(&name, &actions::print(&actions)?);
        let _ = put.map_err(|source| Error::Io { path: name, source })?;
        Ok(self.log.advance(Arc::make_mut(&mut self.state))?)
    }
}

/// The day of a moment, as partitions are named.
pub(super) fn day(unix_ms: i64) -> String {
    chrono::DateTime::from_timestamp_millis(unix_ms).unwrap_or_default().format("%Y-%m-%d").to_string()
}

/// A file that holds rows which other files of the table held before.
pub(super) fn same_rows(file: Add) -> Add {
    Add { data_change: false, ..file }
}

/// The key column's value of a row.
pub(super) fn key_of(row: &Map<String, Value>, table: Table) -> &str {
    row.get(table.key()).and_then(Value::as_str).unwrap_or_default()
}
