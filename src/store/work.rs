//! The store's two threads, and what they do: frames into the hot set; hot records into the tables.

use std::{
    collections::BTreeMap,
    io,
    panic::AssertUnwindSafe,
    sync::{Arc, atomic::Ordering, mpsc::RecvTimeoutError},
    thread::JoinHandle,
    time::Duration,
};

use super::{Error, Inner, Mode, derive::Now, tenant::Tenant};
use crate::{
    genai,
    otlp::{
        self, Signal,
        record::{Body, Checkpoint, Origin, Record},
    },
    tenant::TenantId,
    wal::{ATTEMPTS_MAX, DurableFrames, Frame, FrameKind, FrameRef, Wal},
};

/// How often the tables are looked after.
const TICK: Duration = Duration::from_secs(1);
/// How often replaced files are looked for.
const VACUUM_EVERY_TICKS: u64 = 300;

pub(super) fn spawn(inner: &Arc<Inner>, frames: DurableFrames) -> io::Result<Vec<JoinHandle<()>>> {
    let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
        std::thread::Builder::new().name(name.into()).spawn(work)
    };
    let (intake, upkeep) = (inner.clone(), inner.clone());
    Ok(vec![
        spawn("intake", Box::new(move || intake.intake(&frames)))?,
        spawn("upkeep", Box::new(move || upkeep.upkeep()))?,
    ])
}

impl Inner {
    /// Opens every tenant that has a folder.
    pub(super) fn open_tenants(&self) -> Result<(), Error> {
        let names =
            self.objects.list("").map_err(|source| Error::Io { path: self.objects.path(""), source })?;
        for id in names.iter().filter_map(|n| n.parse::<TenantId>().ok()) {
            let _ = self.tenant(&id)?;
        }
        Ok(())
    }

    /// The number after the greatest that a table holds. A log that was lost must not give a number again: its frame
    /// would count as one that the table has.
    pub(super) fn seq_after_tables(&self) -> u64 {
        let app = self.wal_app();
        let tenants = self.all_tenants();
        let greatest = tenants.iter().filter_map(|t| t.view.lock().tables.spans.txn(&app)).max();
        greatest.and_then(|seq| u64::try_from(seq).ok()).map_or(0, |seq| seq.saturating_add(1))
    }

    /// The application id under which `spans` keeps how far it has this log.
    fn wal_app(&self) -> String {
        format!("wal/{}", self.folder.node_id)
    }

    /// The tenant, opened when it is not yet.
    pub(super) fn tenant(&self, id: &TenantId) -> Result<Arc<Tenant>, Error> {
        if let Some(tenant) = self.tenants.read().get(id) {
            return Ok(tenant.clone());
        }
        let mut tenants = self.tenants.write();
        if let Some(tenant) = tenants.get(id) {
            return Ok(tenant.clone());
        }
        let tenant = Arc::new(Tenant::open(&self.objects, id.clone())?);
        if self.mode == Mode::ReadWrite {
            self.finish_derivation(&tenant)?;
        }
        let _ = tenants.insert(id.clone(), tenant.clone());
        Ok(tenant)
    }

    /// The tenant when there is one: a question makes none.
    pub(super) fn known_tenant(&self, id: &TenantId) -> Option<Arc<Tenant>> {
        self.tenants.read().get(id).cloned()
    }

    /// Brings the frames that no table holds into the hot set. Memory is bounded: what is over it is flushed.
    pub(super) fn recover(&self, frames: &[FrameRef]) -> Result<(), Error> {
        let app = self.wal_app();
        for frame in frames {
            let in_table = match self.mode {
                Mode::ReadWrite => Some(self.tenant(&frame.tenant)?),
                Mode::ReadOnly => self.known_tenant(&frame.tenant),
            };
            let done = in_table.and_then(|t| t.view.lock().tables.spans.txn(&app));
            let _ = self.applied.fetch_max(frame.seq + 1, Ordering::SeqCst);
            if done.is_none_or(|done| i64::try_from(frame.seq).unwrap_or(i64::MAX) > done) {
                self.apply(Wal::read(frame)?)?;
                // A process that is killed again and again must not leave ever more to its successor.
                let waited = self.clock.unix_nanos().saturating_sub(frame.received_at) / 1_000_000_000;
                if waited >= self.settings.flush_age_max_s {
                    self.tenant(&frame.tenant)?.with_view(|view| view.hot.overdue = true);
                }
            }
        }
        Ok(())
    }

    fn intake(&self, frames: &DurableFrames) {
        loop {
            match frames.recv_timeout(TICK) {
                Ok(group) => {
                    for frame in group {
                        // A frame is never passed over: a flush would commit past it, and its records would be lost.
                        while let Err(error) = self.apply(frame.clone()) {
                            tracing::error!(%error, seq = frame.seq, "cannot apply a frame; will try again");
                            if self.stop.load(Ordering::SeqCst) {
                                return;
                            }
                            std::thread::sleep(TICK);
                        }
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Decodes a frame into the hot set. One that ends the process is set aside after some attempts.
    fn apply(&self, frame: Frame) -> Result<(), Error> {
        let (seq, tenant) = (frame.seq, frame.tenant.clone());
        let attempts = self.wal.as_ref().map_or(Ok(0), |w| w.begin_attempt(seq))?;
        let decoded = match attempts < ATTEMPTS_MAX {
            true => std::panic::catch_unwind(AssertUnwindSafe(|| decode(&frame))).unwrap_or(Err("it panics")),
            false => Err("it ended the process"),
        };
        let records = match (decoded, &self.wal) {
            (Ok(records), _) => records,
            (Err(reason), Some(wal)) => {
                let _ = wal.quarantine(&frame, reason)?;
                let _ = self.metrics.wal_quarantined.inc();
                Vec::new()
            }
            (Err(_), None) => Vec::new(),
        };
        let received = records.len();
        let records: Vec<Record> = records.into_iter().filter(genai::is_kept).collect();
        let _ = self.metrics.logs_discarded.inc_by((received - records.len()) as u64);
        self.tenant(&tenant)?.with_view(|view| {
            view.hot.take(seq, records, self.clock.monotonic());
            view.changed();
        });
        if let Some(wal) = &self.wal {
            wal.end_attempt()?;
        }
        let _ = self.applied.fetch_max(seq + 1, Ordering::SeqCst);
        self.hold_back()
    }

    /// Flushes the largest tenant while the hot set is over its memory. The log waits meanwhile.
    fn hold_back(&self) -> Result<(), Error> {
        if self.mode == Mode::ReadOnly {
            return Ok(());
        }
        loop {
            let mut sizes: Vec<(usize, Arc<Tenant>)> =
                self.tenants.read().values().map(|t| (t.view.lock().hot.bytes, t.clone())).collect();
            let all: usize = sizes.iter().map(|(bytes, _)| bytes).sum();
            let _ = self.metrics.hot_bytes.set(i64::try_from(all).unwrap_or(i64::MAX));
            if all <= self.settings.hot_bytes_max {
                return Ok(());
            }
            sizes.sort_by_key(|(bytes, _)| *bytes);
            let Some((_, largest)) = sizes.pop() else { return Ok(()) };
            self.flush(&largest)?;
        }
    }

    /// Waits until every frame that is durable now is in the hot set.
    pub(super) fn catch_up(&self) {
        while !self.caught_up(Duration::from_secs(60)) && !self.stop.load(Ordering::SeqCst) {}
    }

    /// The same within `wait`: a reader sees what was acknowledged before it asked, unless the intake is far behind.
    pub(super) fn caught_up(&self, wait: Duration) -> bool {
        let Some(wal) = &self.wal else { return true };
        let goal = wal.next_seq();
        let until = self.clock.monotonic().saturating_add(wait);
        while self.applied.load(Ordering::SeqCst) < goal {
            if self.stop.load(Ordering::SeqCst) || self.clock.monotonic() > until {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }

    fn upkeep(&self) {
        let mut ticks = 0_u64;
        while !self.stop.load(Ordering::SeqCst) {
            std::thread::sleep(TICK.min(Duration::from_millis(200)));
            ticks += 1;
            if !ticks.is_multiple_of(5) {
                continue;
            }
            if let Err(error) = self.write_tables(false, false) {
                let _ = self.metrics.commit_failures.inc();
                tracing::warn!(%error, "cannot write the tables; will try again");
            }
            if (ticks / 5).is_multiple_of(VACUUM_EVERY_TICKS) {
                for tenant in self.all_tenants() {
                    if let Err(error) = self.vacuum(&tenant) {
                        tracing::warn!(%error, tenant = %tenant.id, "cannot remove replaced files");
                    }
                }
            }
        }
    }

    pub(super) fn all_tenants(&self) -> Vec<Arc<Tenant>> {
        self.tenants.read().values().cloned().collect()
    }

    /// Writes everything to `spans`, then derives runs as long as there is time.
    pub(super) fn write_before_end(&self) -> Result<(), Error> {
        let until = self.clock.monotonic() + Duration::from_secs(self.settings.stop_timeout_s);
        let tenants = self.all_tenants();
        let flushed = tenants.iter().map(|tenant| self.flush(tenant)).fold(Ok(()), Result::and);
        for tenant in tenants {
            if self.clock.monotonic() > until {
                tracing::info!("the time to stop is over; the next start derives the other runs");
                break;
            }
            self.derive(&tenant, self.now())?;
        }
        flushed
    }

    /// Flushes tenants that are due (or all, when `now`), derives what changed or has settled, releases the log.
    ///
    /// With `settle`, every trace counts as settled.
    pub(super) fn write_tables(&self, now: bool, settle: bool) -> Result<(), Error> {
        let mut failed = None;
        for tenant in self.all_tenants() {
            if let Err(error) = self.write_tenant(&tenant, now, settle) {
                tracing::warn!(%error, tenant = %tenant.id, "cannot write a tenant's tables");
                failed = Some(error);
            }
        }
        if let Some(wal) = &self.wal {
            let _ = self.metrics.wal_bytes.set(i64::try_from(wal.disk_bytes()).unwrap_or(i64::MAX));
        }
        failed.map_or(Ok(()), Err)
    }

    fn write_tenant(&self, tenant: &Tenant, now: bool, settle: bool) -> Result<(), Error> {
        let pinning = self.wal.as_ref().and_then(Wal::pins_oldest_segment).as_ref() == Some(&tenant.id);
        if now || pinning || self.is_due(tenant) {
            self.flush(tenant)?;
        }
        let at = if settle { Now::ALL_SETTLED } else { self.now() };
        // Runs that were assembled for a reader are not held for the next one for ever.
        let now = self.clock.monotonic();
        {
            let mut view = tenant.view.lock();
            let _ = view.listed.take_if(|listed| listed.until <= now);
            let _ = view.opened.take_if(|opened| opened.until <= now);
        }
        self.derive(tenant, at)?;
        // The tables are whole without it.
        if let Err(error) = self.compact(tenant) {
            tracing::warn!(%error, tenant = %tenant.id, "cannot join small files");
        }
        Ok(())
    }

    fn is_due(&self, tenant: &Tenant) -> bool {
        let view = tenant.view.lock();
        let age = view.hot.oldest.map(|oldest| self.clock.monotonic().saturating_sub(oldest));
        view.hot.overdue
            || view.hot.bytes >= self.settings.flush_bytes
            || age.is_some_and(|age| age.as_secs() >= self.settings.flush_age_max_s)
    }

    fn flush(&self, tenant: &Tenant) -> Result<(), Error> {
        let Some(wal) = &self.wal else { return Err(Error::ReadOnly) };
        let flushed = tenant.flush(self.wal_app(), self.now().unix_ms(), self.clock.monotonic())?;
        if let Some(seq) = flushed {
            let _ = self.metrics.commits.inc();
            wal.release(&BTreeMap::from([(tenant.id.clone(), seq)]))?;
        }
        Ok(())
    }

    pub(super) fn now(&self) -> Now {
        Now(i64::try_from(self.clock.unix_nanos()).unwrap_or(i64::MAX - 1))
    }
}

impl Tenant {
    fn with_view(&self, act: impl FnOnce(&mut super::tenant::View)) {
        act(&mut self.view.lock());
    }
}

fn decode(frame: &Frame) -> Result<Vec<Record>, &'static str> {
    let signal = match frame.kind {
        FrameKind::Traces => Signal::Traces,
        FrameKind::Logs => Signal::Logs,
        FrameKind::Checkpoint => {
            let checkpoint: Checkpoint =
                serde_json::from_slice(&frame.bytes).map_err(|_| "it is no checkpoint")?;
            let origin = Arc::new(Origin::default());
            let record = Record::new(Body::Checkpoint(checkpoint), origin, frame.received_at, frame.seq);
            return Ok(vec![Record { share: frame.bytes.len(), ..record }]);
        }
        FrameKind::Erase => return Err("erasure is not known to this version"),
    };
    otlp::decode::records(signal, &frame.bytes, frame.received_at, frame.seq)
        .map_err(|_| "it does not decode")
}
