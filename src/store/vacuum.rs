//! Replaced data files go when no reader can still be using them; so do files that no commit ever named.

use std::{
    collections::BTreeSet,
    time::{Duration, SystemTime},
};

use serde_json::Value;

use super::{Error, Inner, table, tenant::Tenant};

impl Inner {
    /// Deletes files that are in no live version, in no snapshot that a reader may hold, and were so for `file_keep`.
    /// That is measured by this process: the times of files move with the machine's clock.
    pub(super) fn vacuum(&self, tenant: &Tenant) -> Result<(), Error> {
        // A flush or derivation under way has files that no commit names yet.
        let _work = tenant.work.lock();
        let tables = tenant.view.lock().tables.clone();
        let kept = self.kept_snapshots(tenant)?;
        let now = self.clock.monotonic();
        for table in tables.all() {
            let mut needed: BTreeSet<String> = table.state.files.keys().cloned().collect();
            for snapshot in &kept {
                if let Some(version) =
                    snapshot.pointer(&format!("/versions/{}", table.table.name())).and_then(Value::as_u64)
                {
                    needed.extend(table.files_at(version)?);
                }
            }
            for path in table.on_disk()?.into_iter().filter(|path| !needed.contains(path)) {
                let file = (table.table, path);
                let since = *tenant.unneeded.lock().entry(file.clone()).or_insert(now);
                let (_, path) = &file;
                if now.saturating_sub(since) > self.file_keep()
                    && self.age(&table.path(path)) > self.file_keep()
                {
                    tracing::info!(table = table.table.name(), path, tenant = %tenant.id, "file deleted");
                    table.delete(path)?;
                    let _ = tenant.unneeded.lock().remove(&file);
                }
            }
        }
        Ok(())
    }

    /// Snapshots younger than `file_keep`, and the one before them, which was the newest until they came.
    fn kept_snapshots(&self, tenant: &Tenant) -> Result<Vec<Value>, Error> {
        let folder = format!("{}/_snapshots", tenant.id);
        let io = |source| Error::Table(table::Error::Io { path: folder.clone(), source });
        let mut kept = Vec::new();
        for name in self.objects.list(&folder).map_err(io)?.into_iter().rev() {
            let path = format!("{folder}/{name}");
            let bytes = self.objects.read(&path).map_err(io)?.unwrap_or_default();
            kept.extend(serde_json::from_slice::<Value>(&bytes).ok());
            if self.age(&self.objects.path(&path)) > self.file_keep() {
                break;
            }
        }
        Ok(kept)
    }

    fn file_keep(&self) -> Duration {
        Duration::from_secs(self.settings.file_keep_s)
    }

    /// Time since a file was written; nothing for one that cannot be looked at, so that it stays.
    fn age(&self, path: &std::path::Path) -> Duration {
        let now = SystemTime::UNIX_EPOCH + Duration::from_nanos(self.clock.unix_nanos());
        let written = std::fs::metadata(path).and_then(|m| m.modified());
        written.ok().and_then(|w| now.duration_since(w).ok()).unwrap_or_default()
    }
}
