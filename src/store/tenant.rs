//! One tenant: its hot records, its tables, the flush from one to the other.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;

use super::{
    links::{Links, closure},
    object::Objects,
    rows::{
        runs::RunRow,
        spans::{SpanRow, row_id},
    },
    schema::Table,
    table::{self, TenantTable},
};
use crate::{
    otlp::record::{Record, RecordHash, TraceId},
    run::{self, Run},
    tenant::TenantId,
};

/// What one record takes in memory beside its content; an estimate.
const RECORD_OVERHEAD_BYTES: usize = 600;

/// One tenant. `work` is held through a flush or a derivation; `view` is held shortly, and a commit is made under it.
pub(super) struct Tenant {
    pub(super) id: TenantId,
    pub(super) work: Mutex<()>,
    pub(super) view: Mutex<View>,
    /// Files on disk that nobody needs, with when that was first seen.
    pub(super) unneeded: Mutex<BTreeMap<(Table, String), Duration>>,
    /// The version of each table in which small files were looked for last, and the day.
    pub(super) joined: Mutex<BTreeMap<Table, (u64, String)>>,
}

/// What a reader sees at one moment.
pub(super) struct View {
    pub(super) tables: Tables,
    pub(super) hot: Hot,
    /// The `runs` table, by run id.
    pub(super) rows: BTreeMap<String, Arc<RunRow>>,
    /// Ids in `rows` by trace.
    run_ids: HashMap<TraceId, BTreeSet<String>>,
    /// Links of the runs in `rows`.
    pub(super) stored: Links,
    /// What lists and queries took last, until something changes.
    pub(super) listed: Option<Arc<Listed>>,
    /// The run that was read last.
    pub(super) opened: Option<Opened>,
    /// Counts changes of what a reader would see.
    pub(super) generation: u64,
}

/// A run as a reader got it.
pub(super) struct Opened {
    pub(super) run: Arc<Run>,
    /// That of the view before its records were taken.
    pub(super) generation: u64,
    pub(super) until: Duration,
}

/// All of a tenant at one moment: what the tables hold, and what is assembled for the reader. No run is in both.
#[cfg_attr(not(feature = "sql"), expect(dead_code, reason = "a query takes the tables with it"))]
pub(super) struct Listed {
    pub(super) generation: u64,
    pub(super) until: Duration,
    /// Runs whose newest state is not in the tables.
    pub(super) runs: Vec<Arc<Run>>,
    /// Rows of all other runs.
    pub(super) rows: Vec<Arc<RunRow>>,
    /// Ids under which the tables may hold what `runs` replaces.
    pub(super) replaced: BTreeSet<String>,
    pub(super) tables: Tables,
    /// Records that `spans` does not have.
    pub(super) hot: Vec<Arc<Record>>,
}

/// The five tables.
#[derive(Clone, Debug)]
pub(super) struct Tables {
    pub(super) spans: TenantTable,
    pub(super) messages: TenantTable,
    pub(super) checkpoints: TenantTable,
    pub(super) run_steps: TenantTable,
    pub(super) runs: TenantTable,
}

impl Tables {
    pub(super) fn all(&self) -> [&TenantTable; 5] {
        [&self.spans, &self.messages, &self.checkpoints, &self.run_steps, &self.runs]
    }

    pub(super) fn get(&self, table: Table) -> &TenantTable {
        match table {
            Table::Spans => &self.spans,
            Table::Messages => &self.messages,
            Table::Checkpoints => &self.checkpoints,
            Table::RunSteps => &self.run_steps,
            Table::Runs => &self.runs,
        }
    }

    pub(super) fn get_mut(&mut self, table: Table) -> &mut TenantTable {
        match table {
            Table::Spans => &mut self.spans,
            Table::Messages => &mut self.messages,
            Table::Checkpoints => &mut self.checkpoints,
            Table::RunSteps => &mut self.run_steps,
            Table::Runs => &mut self.runs,
        }
    }
}

/// Records that are not in `spans` yet, and traces whose runs are not derived yet.
#[derive(Default)]
pub(super) struct Hot {
    pub(super) records: BTreeMap<TraceId, Vec<Arc<Record>>>,
    hashes: HashSet<RecordHash>,
    pub(super) bytes: usize,
    /// The last frame that was applied; `None` before the first.
    pub(super) seq: Option<u64>,
    /// When the oldest record came, on the monotonic clock.
    pub(super) oldest: Option<Duration>,
    /// Records waited past the age of a flush in a process that ended before it.
    pub(super) overdue: bool,
    /// Traces in `spans` whose runs are not derived yet.
    pub(super) pending: BTreeSet<TraceId>,
    links: Links,
    /// Traces whose links do not know their newest records yet.
    unlinked: BTreeSet<TraceId>,
}

impl Hot {
    /// Takes the records of a frame. A copy of a hot record is dropped here, one of a stored record at the flush.
    pub(super) fn take(&mut self, seq: u64, records: Vec<Record>, now: Duration) {
        self.seq = Some(seq);
        for record in records {
            if !self.hashes.insert(record.hash) {
                continue;
            }
            let _ = self.oldest.get_or_insert(now);
            let trace = record.place();
            self.bytes += size(&record);
            let _ = self.unlinked.insert(trace);
            self.records.entry(trace).or_default().push(Arc::new(record));
        }
    }

    /// Forgets records of frames up to `seq`; their traces wait for their derivation.
    fn flushed(&mut self, seq: u64, now: Duration) {
        // What they tie together must be known when they are derived.
        let _ = self.linked();
        let Self { records, hashes, bytes, pending, .. } = self;
        records.retain(|trace, of_trace| {
            of_trace.retain(|r| {
                let keep = r.seq > seq;
                if !keep {
                    let _ = hashes.remove(&r.hash);
                    *bytes = bytes.saturating_sub(size(r));
                    let _ = pending.insert(*trace);
                }
                keep
            });
            !of_trace.is_empty()
        });
        self.oldest = (!self.records.is_empty()).then_some(now);
        self.overdue = false;
    }

    /// Traces whose newest state is not in the derived tables.
    pub(super) fn live(&self) -> BTreeSet<TraceId> {
        self.records.keys().chain(&self.pending).copied().collect()
    }

    /// True for one of [`Hot::live`].
    fn is_live(&self, trace: TraceId) -> bool {
        self.records.contains_key(&trace) || self.pending.contains(&trace)
    }

    /// Links of live traces, with those of the newest records worked out.
    pub(super) fn linked(&mut self) -> &Links {
        for trace in std::mem::take(&mut self.unlinked) {
            let records = self.records.get(&trace).map(Vec::as_slice).unwrap_or_default();
            self.links.add(trace, run::join_keys(records));
        }
        &self.links
    }

    /// The same for a trace whose records, up to `newest`, were looked at without the lock.
    fn link(&mut self, trace: TraceId, newest: Option<RecordHash>, keys: BTreeSet<String>) {
        // Derived meanwhile, its links are those of its run.
        if !self.is_live(trace) {
            return;
        }
        self.links.add(trace, keys);
        if self.newest(trace) == newest {
            let _ = self.unlinked.remove(&trace);
        }
    }

    fn newest(&self, trace: TraceId) -> Option<RecordHash> {
        Some(self.records.get(&trace)?.last()?.hash)
    }

    /// The derived tables know these traces now.
    pub(super) fn derived(&mut self, traces: &BTreeSet<TraceId>) {
        for trace in traces {
            let _ = self.pending.remove(trace);
            if !self.records.contains_key(trace) {
                self.links.remove(*trace);
            }
        }
    }

    /// Traces that `spans` got before this process began, with their records.
    pub(super) fn recover_pending(&mut self, traces: BTreeSet<TraceId>, records: &[Arc<Record>]) {
        let mut by_trace: BTreeMap<TraceId, Vec<Arc<Record>>> = BTreeMap::new();
        for record in records {
            by_trace.entry(record.place()).or_default().push(record.clone());
        }
        for (trace, records) in by_trace {
            self.links.add(trace, run::join_keys(&records));
        }
        self.pending.extend(traces);
    }
}

fn size(record: &Record) -> usize {
    use crate::otlp::record::Body;
    use prost::Message;
    let content = match &record.body {
        Body::Span(span) => span.encoded_len(),
        Body::Log(log) => log.encoded_len(),
        // Its share is all of it.
        Body::Checkpoint(_) => 0,
    };
    content + record.share + RECORD_OVERHEAD_BYTES
}

impl View {
    /// Traces that belong together with `from`, stored and hot.
    pub(super) fn closure(&mut self, from: impl IntoIterator<Item = TraceId>) -> BTreeSet<TraceId> {
        let Self { hot, stored, .. } = self;
        closure(from, &[stored, hot.linked()])
    }

    /// What lists took last, if it is still so. Time may settle runs meanwhile.
    pub(super) fn fresh_list(&self, now: Duration) -> Option<Arc<Listed>> {
        self.listed.clone().filter(|listed| listed.generation == self.generation && listed.until > now)
    }

    /// The run `id` as it was read last, if nothing of it changed since: nothing at all did, or it is settled, as it was
    /// then, and nothing that belongs to it is on its way to the tables.
    pub(super) fn opened_run(&mut self, id: &str, now: Duration) -> Option<Arc<Run>> {
        let opened = self.opened.as_ref().filter(|opened| opened.run.run_id == id && opened.until > now)?;
        let run = opened.run.clone();
        if opened.generation == self.generation {
            return Some(run);
        }
        let is_stored = self.rows.get(id).is_some_and(|row| {
            row.settled && run.settled && row.record_digest == run.record_digest.to_string()
        });
        if !is_stored {
            return None;
        }
        // What joined it since: another trace, a checkpoint, a log outside any trace.
        let mut from: BTreeSet<TraceId> = run.trace_ids.iter().copied().collect();
        from.extend(self.named(id));
        let _ = from.insert(TraceId::of_checkpoints(id));
        let together = self.closure(from);
        (!together.iter().any(|trace| self.hot.is_live(*trace))).then_some(run)
    }

    /// The traces that name the run `id`.
    pub(super) fn named(&mut self, id: &str) -> BTreeSet<TraceId> {
        let key = format!("run:{id}");
        let mut traces: BTreeSet<TraceId> = self.stored.traces(&key).collect();
        traces.extend(self.hot.linked().traces(&key));
        // A run that no producer named has its trace's id.
        traces.extend(id.parse::<TraceId>().ok());
        traces
    }

    pub(super) fn changed(&mut self) {
        self.generation += 1;
        self.listed = None;
    }

    /// Puts a run's row in its place.
    pub(super) fn insert_row(&mut self, row: RunRow) {
        for trace in row.traces() {
            let _ = self.run_ids.entry(trace).or_default().insert(row.run_id.clone());
            self.stored.add(trace, row.join_keys.iter().cloned().chain([format!("run:{}", row.run_id)]));
        }
        let _ = self.rows.insert(row.run_id.clone(), Arc::new(row));
    }

    pub(super) fn remove_row(&mut self, run_id: &str) {
        if let Some(row) = self.rows.remove(run_id) {
            for trace in row.traces() {
                self.stored.remove(trace);
                if let Some(ids) = self.run_ids.get_mut(&trace) {
                    let _ = ids.remove(run_id);
                    if ids.is_empty() {
                        let _ = self.run_ids.remove(&trace);
                    }
                }
            }
        }
    }

    /// Ids of stored runs that have one of `traces`.
    pub(super) fn runs_of(&self, traces: &BTreeSet<TraceId>) -> BTreeSet<String> {
        traces.iter().filter_map(|trace| self.run_ids.get(trace)).flatten().cloned().collect()
    }

    /// True when the tables hold a run of `trace` as settled and nothing was added since.
    pub(super) fn is_settled(&self, trace: TraceId) -> bool {
        let mut rows = self.run_ids.get(&trace).into_iter().flatten().filter_map(|id| self.rows.get(id));
        !self.hot.is_live(trace) && rows.any(|row| row.settled)
    }
}

impl Tenant {
    pub(super) fn open(objects: &Objects, id: TenantId) -> Result<Self, table::Error> {
        let open = |table| TenantTable::open(objects.clone(), id.clone(), table);
        let tables = Tables {
            spans: open(Table::Spans)?,
            messages: open(Table::Messages)?,
            checkpoints: open(Table::Checkpoints)?,
            run_steps: open(Table::RunSteps)?,
            runs: open(Table::Runs)?,
        };
        let mut view = View {
            tables,
            hot: Hot::default(),
            rows: BTreeMap::new(),
            run_ids: HashMap::new(),
            stored: Links::default(),
            listed: None,
            opened: None,
            generation: 0,
        };
        for path in view.tables.runs.state.files.keys().cloned().collect::<Vec<_>>() {
            for row in view.tables.runs.read::<serde_json::Value>(&path, None)? {
                view.insert_row(RunRow::from_row(row)?);
            }
        }
        let (work, view) = (Mutex::new(()), Mutex::new(view));
        let tenant = Self { id, work, view, unneeded: Mutex::default(), joined: Mutex::default() };
        tenant.recover_pending()?;
        Ok(tenant)
    }

    /// Traces whose records were flushed and whose runs were not derived when the process ended.
    fn recover_pending(&self) -> Result<(), table::Error> {
        let mut view = self.view.lock();
        let derived = view.tables.runs.txn("derive").and_then(|v| u64::try_from(v).ok()).unwrap_or_default();
        let keys = view.tables.spans.keys_added_since(derived)?;
        let traces: BTreeSet<TraceId> = keys.iter().map(|k| trace_of(k)).collect();
        let records = stored_records(&view.tables.spans, &traces)?;
        view.hot.recover_pending(traces, &records);
        Ok(())
    }

    /// Works out what the newest records tie together. To read what they mean takes long, so it is done without the
    /// lock; what comes meanwhile is left to whoever asks.
    pub(super) fn link(&self) {
        let unlinked: Vec<(TraceId, Vec<Arc<Record>>)> = {
            let hot = &self.view.lock().hot;
            hot.unlinked
                .iter()
                .map(|trace| (*trace, hot.records.get(trace).cloned().unwrap_or_default()))
                .collect()
        };
        let newest = |records: &[Arc<Record>]| Some(records.last()?.hash);
        let keys: Vec<_> =
            unlinked.into_iter().map(|(trace, r)| (trace, newest(&r), run::join_keys(&r))).collect();
        let mut view = self.view.lock();
        for (trace, newest, keys) in keys {
            view.hot.link(trace, newest, keys);
        }
    }

    /// Writes the hot records to `spans`. Returns the last frame that the table holds now.
    ///
    /// Exactly once: the commit carries the frame's number, and what the table holds already is dropped before. One
    /// node writes a tenant's table, so nothing can come in between.
    pub(super) fn flush(&self, app: String, now_ms: i64, now: Duration) -> Result<Option<u64>, table::Error> {
        let _work = self.work.lock();
        self.link();
        let (spans, seq, mut records) = {
            let mut view = self.view.lock();
            let Some(seq) = view.hot.seq else { return Ok(None) };
            view.tables.spans.refresh()?;
            let records: Vec<Arc<Record>> = view.hot.records.values().flatten().cloned().collect();
            (view.tables.spans.clone(), seq, records)
        };
        let traces: BTreeSet<TraceId> = records.iter().map(|r| r.place()).collect();
        let there = stored_hashes(&spans, &traces)?;
        records.retain(|r| !there.contains(&r.hash.to_string()));
        let commit_id = row_id(&self.id, &app, &[&seq.to_string()]);
        let mut keys = BTreeSet::new();
        let records = ordered(records);
        let rows = records.iter().map(|record| {
            let row = SpanRow::new(&self.id, record);
            let _ = keys.insert(row.trace_id.clone());
            Ok(row)
        });
        let add = spans.write(rows, &commit_id, &table::day(now_ms), now_ms)?;
        let adds = add.into_iter().map(|add| (add, std::mem::take(&mut keys))).collect();
        // A table that is shared is copied when it changes.
        drop(spans);
        let mut view = self.view.lock();
        view.listed = None;
        let txns = [(app, i64::try_from(seq).unwrap_or(i64::MAX))];
        let _ = view.tables.spans.commit(&commit_id, &txns, adds, &BTreeSet::new(), now_ms)?;
        view.hot.flushed(seq, now);
        view.changed();
        Ok(Some(seq))
    }
}

/// The trace of a key of `spans`.
pub(super) fn trace_of(key: &str) -> TraceId {
    key.parse().unwrap_or_default()
}

/// By trace, start and id, so that an export does not depend on the way the records took.
pub(super) fn ordered(mut records: Vec<Arc<Record>>) -> Vec<Arc<Record>> {
    records.sort_by_cached_key(|r| {
        let start =
            r.as_span().map(|s| s.start_time_unix_nano).or_else(|| r.as_log().map(|l| l.time_unix_nano));
        (r.place(), r.as_span().is_none(), start, r.span_id(), r.hash)
    });
    records
}

/// The records of these traces in `spans`, each version once.
pub(super) fn stored_records(
    spans: &TenantTable,
    traces: &BTreeSet<TraceId>,
) -> Result<Vec<Arc<Record>>, table::Error> {
    let keys = keys_of(traces);
    let mut records = Vec::new();
    let mut seen = HashSet::new();
    for path in spans.files_with(&keys) {
        for row in spans.read::<SpanRow>(&path, Some(&keys))? {
            if !keys.contains(&row.trace_id) {
                continue;
            }
            // One damaged row is no reason to hide all others.
            let record = match row.to_record() {
                Ok(record) => record,
                Err(error) => {
                    tracing::error!(%error, trace_id = row.trace_id, span_id = row.span_id, path, "a damaged row");
                    continue;
                }
            };
            if seen.insert(record.hash) {
                records.push(Arc::new(record));
            }
        }
    }
    Ok(records)
}

/// The hashes of those records, as text.
fn stored_hashes(spans: &TenantTable, traces: &BTreeSet<TraceId>) -> Result<HashSet<String>, table::Error> {
    #[derive(serde::Deserialize)]
    struct Hash {
        record_hash: String,
    }
    let keys = keys_of(traces);
    let mut hashes = HashSet::new();
    for path in spans.files_with(&keys) {
        let rows: Vec<Hash> = spans.project(&path, &keys, &["record_hash"])?;
        hashes.extend(rows.into_iter().map(|row| row.record_hash));
    }
    Ok(hashes)
}

/// What `spans` is looked up by.
fn keys_of(traces: &BTreeSet<TraceId>) -> BTreeSet<String> {
    let mut keys: BTreeSet<String> = traces.iter().map(ToString::to_string).collect();
    if traces.contains(&TraceId::default()) {
        // Records outside any trace stand under the id as it was sent, which may be empty.
        let _ = keys.insert(String::new());
    }
    keys
}
