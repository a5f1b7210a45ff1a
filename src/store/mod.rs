//! Runs -> Delta tables -> rows: the hot set, the flush, the derived tables, and reading a run.
//!
//! A record is *hot* from its acknowledgement until it is in `spans`; a trace is *pending* from then until its runs
//! are derived. A reader takes hot records and table files under one lock, so that a record is seen once: never zero
//! times, and twice only where the hash takes the copy out again.
//!
//! | file | what it knows |
//! |---|---|
//! | `folder` | the data folder: format, lock, node id |
//! | `object` | files, durably |
//! | `delta` | the log of a table and the commit |
//! | `schema`, `parquet`, `rows` | columns, data files, records and runs as rows |
//! | `table` | one table of a tenant: its files, and which of them hold a key |
//! | `links` | which traces belong together |
//! | `tenant` | one tenant: hot set, tables, flush |
//! | `derive` | records at a version -> the four derived tables, and the snapshot |
//! | `read` | a run, a list of runs, records |
//! | `vacuum` | replaced files and orphans go |
//! | `sql` | read-only SQL (cargo feature `sql`) |
//!
//! *Committed* means: the commit's file is linked and synced, and so is every data file that it names.

pub mod delta;
mod batch;
mod compact;
mod derive;
pub mod folder;
mod links;
pub mod object;
pub mod parquet;
mod read;
pub mod rows;
pub mod schema;
#[cfg(feature = "sql")]
pub mod sql;
mod table;
mod tenant;
mod vacuum;
mod work;

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};

use crate::{
    clock::Clock,
    config,
    otlp::{self, Signal, SinkError},
    telemetry::Metrics,
    tenant::TenantId,
    wal::{self, Appended, FrameKind, Wal},
};
use folder::Folder;
use object::Objects;
pub use read::{Found, Page, RunFilter};
pub use rows::runs::RunRow;
use tenant::Tenant;

/// The store could not do it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another process holds the folder.
    #[error("{path} is in use by another process{}; stop it first", api.map(|a| format!(" (API on {a})")).unwrap_or_default())]
    InUse {
        /// The folder.
        path: PathBuf,
        /// Where its holder answers.
        api: Option<SocketAddr>,
    },
    /// Another version wrote the folder.
    #[error("{path} was written by another version ({found}); open it with that version")]
    OtherVersion {
        /// The folder.
        path: PathBuf,
        /// What its format file says.
        found: String,
    },
    /// Nothing is there.
    #[error("{0} is not a data folder; give another with --data, or start a server on it")]
    NotThere(PathBuf),
    /// The disk.
    #[error("cannot use {path}: {source}; check the disk, its space and permissions")]
    Io {
        /// File or folder.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A table.
    #[error(transparent)]
    Table(#[from] table::Error),
    /// The log.
    #[error(transparent)]
    Wal(#[from] wal::Error),
    /// A page's cursor is not one that was given.
    #[error("the cursor is not one that this list gave; start without one")]
    Cursor,
    /// The folder was opened for reading.
    #[error("the folder was opened for reading")]
    ReadOnly,
}

impl Error {
    /// When the same may succeed; `None` when it never will.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Wal(error) => error.retry_after(),
            Self::Io { .. } | Self::Table(_) => Some(Duration::from_secs(5)),
            _ => None,
        }
    }
}

/// How a folder is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// By its one owner: recovers, takes records, writes the tables.
    ReadWrite,
    /// By a reader while nobody owns it: nothing is written, and everything counts as settled.
    ReadOnly,
}

/// A data folder, open.
#[derive(Debug)]
pub struct Store {
    inner: Arc<Inner>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Inner {
    folder: Folder,
    objects: Objects,
    settings: config::store::Settings,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    mode: Mode,
    wal: Option<Wal>,
    tenants: RwLock<BTreeMap<TenantId, Arc<Tenant>>>,
    /// Frames below this number are in the hot set or beyond.
    applied: AtomicU64,
    stop: AtomicBool,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").field("mode", &self.mode).finish_non_exhaustive()
    }
}

impl Store {
    /// Opens a data folder. For [`Mode::ReadWrite`] it is made when absent, and when this returns every record that
    /// was ever acknowledged can be read.
    ///
    /// # Errors
    /// When the folder is in use, of another version, absent (for reading), or cannot be read or written.
    pub fn open(
        path: &Path,
        settings: config::store::Settings,
        wal_settings: config::wal::Settings,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
        mode: Mode,
    ) -> Result<Arc<Self>, Error> {
        let objects = Objects::new(path.join("tables"));
        Self::open_on(objects, path, settings, wal_settings, clock, metrics, mode)
    }

    fn open_on(
        objects: Objects,
        path: &Path,
        settings: config::store::Settings,
        wal_settings: config::wal::Settings,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
        mode: Mode,
    ) -> Result<Arc<Self>, Error> {
        let folder = Folder::open(path, mode)?;
        let wal_folder = path.join("wal");
        let mut inner = Inner {
            folder,
            objects,
            settings,
            clock,
            metrics,
            mode,
            wal: None,
            tenants: RwLock::default(),
            applied: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        };
        inner.open_tenants()?;
        let (recovered, frames) = match mode {
            Mode::ReadOnly => (Wal::peek(&wal_folder)?, None),
            Mode::ReadWrite => {
                let (wal, recovered, frames) =
                    Wal::open(&wal_folder, wal_settings, inner.seq_after_tables())?;
                // Numbers that were given out before are in a table or among the recovered frames.
                inner.applied.store(recovered.next_seq, Ordering::SeqCst);
                inner.wal = Some(wal);
                (recovered.frames, Some(frames))
            }
        };
        let inner = Arc::new(inner);
        inner.recover(&recovered)?;
        let threads = frames.map(|frames| work::spawn(&inner, frames)).transpose();
        let threads = threads.map_err(|source| Error::Io { path: path.into(), source })?.unwrap_or_default();
        Ok(Arc::new(Self { inner, threads: Mutex::new(threads) }))
    }

    /// Writes the API's address into the lock file, so that commands find the server that holds the folder.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn announce(&self, api: SocketAddr) -> Result<(), Error> {
        self.inner.folder.announce(api)
    }

    /// Hands a frame to the log; the answer comes when it is durable.
    ///
    /// # Errors
    /// When the log refuses it, or the folder was opened for reading.
    pub fn append(&self, tenant: &TenantId, kind: FrameKind, bytes: Bytes) -> Result<Appended, Error> {
        let wal = self.inner.wal.as_ref().ok_or(Error::ReadOnly)?;
        Ok(wal.append(tenant.clone(), self.inner.clock.unix_nanos(), kind, bytes)?)
    }

    /// As [`Self::append`] for one caller that has much to hand over: where too much waits to be read already, it waits
    /// for that instead of being refused.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub fn append_when_caught_up(
        &self,
        tenant: &TenantId,
        kind: FrameKind,
        bytes: Bytes,
    ) -> Result<Appended, Error> {
        match self.append(tenant, kind, bytes.clone()) {
            Err(Error::Wal(wal::Error::Full(_))) => {
                self.inner.catch_up();
                self.append(tenant, kind, bytes)
            }
            other => other,
        }
    }

    /// Brings everything that was acknowledged into the tables, every trace counted as settled. The end of an import.
    ///
    /// # Errors
    /// When a table cannot be written; nothing is lost then.
    pub fn settle_and_flush(&self) -> Result<(), Error> {
        self.inner.catch_up();
        self.inner.write_tables(true, true)
    }

    /// Resolves when the log has failed for good: the process should end, and recover from the disk.
    pub async fn poisoned(&self) {
        while !self.inner.wal.as_ref().is_some_and(Wal::is_poisoned) {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Takes no more records, writes what is in memory to the tables, and ends the threads.
    ///
    /// # Errors
    /// When a table cannot be written; the log still has the records then.
    pub fn drain(&self) -> Result<(), Error> {
        self.inner.stop.store(true, Ordering::SeqCst);
        if let Some(wal) = &self.inner.wal {
            wal.close();
        }
        for thread in self.threads.lock().drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the store panicked");
            }
        }
        match self.inner.mode {
            Mode::ReadWrite => self.inner.write_before_end(),
            Mode::ReadOnly => Ok(()),
        }
    }
}

impl otlp::Sink for Store {
    fn append(
        &self,
        tenant: &TenantId,
        signal: Signal,
        bytes: Bytes,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<(), SinkError>> + Send>> {
        let kind = match signal {
            Signal::Traces => FrameKind::Traces,
            Signal::Logs => FrameKind::Logs,
            // The receiver discards metrics.
            Signal::Metrics => return Box::pin(std::future::ready(Ok(()))),
        };
        fn refusal(error: &Error) -> SinkError {
            SinkError { message: error.to_string(), retry_after: error.retry_after() }
        }
        match Self::append(self, tenant, kind, bytes) {
            Ok(appended) => {
                Box::pin(async move { appended.await.map(drop).map_err(|error| refusal(&error.into())) })
            }
            Err(error) => Box::pin(std::future::ready(Err(refusal(&error)))),
        }
    }
}

#[cfg(test)]
mod tests;
