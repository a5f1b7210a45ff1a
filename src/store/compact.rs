//! Small data files become larger ones, so that a tenant that trickles does not get ever more of them.
//!
//! Rows stay as they are, and so does what a reader of any kept version finds: replaced files go by `vacuum`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{
    Error, Inner,
    delta::actions::Add,
    rows::spans::row_id,
    schema::{PARTITION, Table},
    table::{self, TenantTable, key_of},
    tenant::Tenant,
};

impl Inner {
    /// Joins the small files of the tenant's tables: those of today when there are `store.small_files_max`, those of a
    /// day that is over at once. What would be over `store.join_bytes_max` stays.
    pub(super) fn compact(&self, tenant: &Tenant) -> Result<(), Error> {
        let _work = tenant.work.lock();
        let (tables, open) = {
            let view = tenant.view.lock();
            // Traces whose runs are not derived are found, after a crash, by the files that brought them.
            if !view.hot.pending.is_empty() {
                return Ok(());
            }
            let open = view.rows.values().filter(|row| !row.settled).map(|row| row.run_id.clone());
            (view.tables.clone(), open.collect::<BTreeSet<String>>())
        };
        let (mut changed, today) = (false, table::day(self.now().unix_ms()));
        for table in tables.all() {
            // What could not be joined on that day cannot be now.
            let looked_at = (table.version(), today.clone());
            if tenant.joined.lock().get(&table.table) == Some(&looked_at) {
                continue;
            }
            for (day, files) in self.small_files(table, &today, &open)? {
                self.join(tenant, table, &day, &files)?;
                changed = true;
            }
            let version = tenant.view.lock().tables.get(table.table).version();
            let _ = tenant.joined.lock().insert(table.table, (version, today.clone()));
        }
        drop(tables);
        if !changed {
            return Ok(());
        }
        // The new versions are a revision of their own, which gets its number from `spans`.
        let version = {
            let mut view = tenant.view.lock();
            let id = row_id(&tenant.id, "compact", &[&view.tables.spans.version().to_string()]);
            let _ = view.tables.spans.commit(&id, &[], Vec::new(), &BTreeSet::new(), self.now().unix_ms())?;
            view.tables.spans.version()
        };
        self.snapshot(tenant, version)
    }

    /// The small files of each day, where they are many, or the day is over, without those that hold runs which are
    /// `open`: they are replaced soon, and what is joined with them would be written again. As many as can be held in
    /// memory together, since text that repeats is a thousand times larger there than on disk.
    fn small_files(
        &self,
        table: &TenantTable,
        today: &str,
        open: &BTreeSet<String>,
    ) -> Result<BTreeMap<String, BTreeSet<String>>, Error> {
        let limit = i64::try_from(self.settings.small_file_bytes).unwrap_or(i64::MAX);
        let mut days: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let open = if table.table == Table::Spans { BTreeSet::new() } else { table.files_with(open) };
        let small = |file: &&Add| file.size < limit && !open.contains(&file.path);
        for file in table.state.files.values().filter(small) {
            let day = file.partition_values.get(PARTITION).cloned().flatten().unwrap_or_default();
            let _ = days.entry(day).or_default().insert(file.path.clone());
        }
        let few = |day: &String| if day == today { self.settings.small_files_max.max(2) } else { 2 };
        days.retain(|day, files| files.len() >= few(day));
        for files in days.values_mut() {
            let mut room = self.settings.join_bytes_max;
            let sized = |path: String| Ok((table.bytes_in_memory(&path)?, path));
            let mut sized: Vec<(u64, String)> =
                std::mem::take(files).into_iter().map(sized).collect::<Result<_, table::Error>>()?;
            // The least first: one that has nearly the size must not keep others from being joined.
            sized.sort();
            for (bytes, path) in sized {
                if bytes <= room {
                    room -= bytes;
                    let _ = files.insert(path);
                }
            }
        }
        days.retain(|_, files| files.len() > 1);
        Ok(days)
    }

    /// Writes the rows of `files` into one of the same day that replaces them.
    fn join(
        &self,
        tenant: &Tenant,
        table: &TenantTable,
        day: &str,
        files: &BTreeSet<String>,
    ) -> Result<(), Error> {
        let mut rows: BTreeMap<(String, i64, String), Vec<Map<String, Value>>> = BTreeMap::new();
        for path in files {
            for row in table.read::<Map<String, Value>>(path, None)? {
                rows.entry(place(&row, table.table)).or_default().push(row);
            }
        }
        let keys: BTreeSet<String> = rows.keys().map(|(key, ..)| key.clone()).collect();
        let names: Vec<&str> = files.iter().map(String::as_str).collect();
        let commit_id = row_id(&tenant.id, table.table.name(), &[&["compact"][..], &names].concat());
        let now_ms = self.now().unix_ms();
        let add = table.write(rows.into_values().flatten().map(Ok), &commit_id, day, now_ms)?;
        let adds = add.into_iter().map(|file| (table::same_rows(file), BTreeSet::clone(&keys))).collect();
        let mut view = tenant.view.lock();
        view.listed = None;
        let _ = view.tables.get_mut(table.table).commit(&commit_id, &[], adds, files, now_ms)?;
        let _ = self.metrics.commits.inc();
        view.changed();
        Ok(())
    }
}

/// Where a row stands in a file of its table: by key, then by time or index.
fn place(row: &Map<String, Value>, table: Table) -> (String, i64, String) {
    let number = |name: &str| row.get(name).and_then(Value::as_i64);
    let order = ["start_time_unix_nano", "step_index", "message_index"].into_iter().find_map(number);
    let id = row.get("span_id").and_then(Value::as_str).unwrap_or_default();
    (key_of(row, table).to_owned(), order.unwrap_or_default(), id.to_owned())
}
