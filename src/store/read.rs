//! Reading: a run, a list of runs, records. Always current: what is hot or pending is assembled for the reader.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use super::{
    Error, Mode, RunRow, Store,
    derive::{Now, settled},
    table::TenantTable,
    tenant::{Listed, Opened, Tenant, View, ordered, stored_records, trace_of},
};
use crate::{
    otlp::record::{Body, Record, TraceId},
    run::{
        self, Run, Settled,
        model::{Replayability, RunCheckpoint, RunStatus},
    },
    tenant::TenantId,
};

/// Assembled runs of a list are used again for this long when nothing arrived; time may settle a run meanwhile.
const LIST_AGE_MAX: Duration = Duration::from_secs(1);

/// How long the run that was read last is held: readers turn its pages.
const OPENED_AGE_MAX: Duration = Duration::from_secs(10);

/// How long a reader waits for what was acknowledged before it asked.
const CATCH_UP_MAX: Duration = Duration::from_secs(2);

/// What was found, and the records that it comes from.
pub(crate) type FoundFrom = (Found, Vec<Arc<Record>>);

/// A run, or where it is now.
#[derive(Clone, Debug)]
pub enum Found {
    /// The run itself.
    Run(Arc<Run>),
    /// The id is an old one; the run has this one.
    Alias(String),
    /// No span of the run came yet; these checkpoints were posted for it.
    Checkpoints(Vec<RunCheckpoint>),
}

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Page<T> {
    /// In the list's order.
    pub items: Vec<T>,
    /// Gives the next page; `None` on the last one.
    pub next_cursor: Option<String>,
}

/// Which runs to list; every member that is given must hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunFilter {
    /// `running`, `completed`, `failed`, `interrupted` or `abandoned`.
    pub status: Option<RunStatus>,
    /// An agent of the run, by its whole name.
    pub agent: Option<String>,
    /// A model of the run, by its whole name.
    pub model: Option<String>,
    /// A tool of the run, by its whole name.
    pub tool: Option<String>,
    /// Its conversation.
    pub conversation: Option<String>,
    /// Started at or after this moment.
    pub from: Option<Moment>,
    /// Started before this moment.
    pub to: Option<Moment>,
    /// `complete`, `partial` or `none`.
    pub replayability: Option<Replayability>,
    /// A part of the id, of an agent's, tool's or model's name, or of the conversation; case does not matter.
    pub q: Option<String>,
}

/// A moment, nanoseconds since the Unix epoch. Read from RFC 3339; a time without a zone is UTC, a date its first moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Moment(i64);

impl TryFrom<String> for Moment {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let zoned = chrono::DateTime::parse_from_rfc3339(&text).ok().map(|at| at.to_utc());
        let bare = || text.parse::<chrono::NaiveDateTime>().ok().map(|at| at.and_utc());
        let date = || text.parse::<chrono::NaiveDate>().ok()?.and_hms_opt(0, 0, 0).map(|at| at.and_utc());
        let at = zoned.or_else(bare).or_else(date).and_then(|at| at.timestamp_nanos_opt());
        at.map(Self).ok_or_else(|| format!("{text:?} is no time; write 2026-11-30 or 2026-11-30T09:00:00Z"))
    }
}

impl From<Moment> for String {
    fn from(moment: Moment) -> Self {
        chrono::DateTime::from_timestamp_nanos(moment.0).to_rfc3339_opts(chrono::SecondsFormat::Nanos, true)
    }
}

impl Store {
    /// What has this run id; `None` when no record names it.
    ///
    /// # Errors
    /// When a table cannot be read.
    pub fn run(&self, tenant: &TenantId, id: &str) -> Result<Option<Found>, Error> {
        let Some(known) = self.current(tenant) else { return Ok(None) };
        let now = self.inner.clock.monotonic();
        let (opened, generation) = {
            let mut view = known.view.lock();
            (view.opened_run(id, now), view.generation)
        };
        if let Some(run) = opened {
            return Ok(Some(Found::Run(run)));
        }
        let found = self.run_records(tenant, id)?.map(|(found, _)| found);
        if let Some(Found::Run(run)) = &found {
            let until = now + if run.settled { OPENED_AGE_MAX } else { LIST_AGE_MAX };
            known.view.lock().opened = Some(Opened { run: run.clone(), generation, until });
        }
        Ok(found)
    }

    /// The same with the records of the run: those of its traces, and the checkpoints posted for it.
    ///
    /// # Errors
    /// When a table cannot be read.
    pub fn run_records(&self, tenant: &TenantId, id: &str) -> Result<Option<FoundFrom>, Error> {
        let Some((mut records, runs)) = self.runs_with(tenant, id)? else { return Ok(None) };
        let run = runs.iter().find(|r| r.run_id == id || r.aliases.iter().any(|a| a == id));
        let Some(run) = run else {
            let posted = run::posted(&records, id);
            return Ok((!posted.is_empty()).then(|| (Found::Checkpoints(posted), records)));
        };
        let traces: BTreeSet<TraceId> = run.trace_ids.iter().copied().collect();
        records.retain(|r| traces.is_empty() || traces.contains(&r.trace_id()) || is_checkpoint_of(r, run));
        let found = if run.run_id == id { Found::Run(run.clone()) } else { Found::Alias(run.run_id.clone()) };
        Ok(Some((found, ordered(records))))
    }

    /// The records of a trace; none when nothing arrived under it.
    ///
    /// # Errors
    /// When a table cannot be read.
    pub fn trace_records(&self, tenant: &TenantId, trace: TraceId) -> Result<Vec<Arc<Record>>, Error> {
        let Some(tenant) = self.current(tenant) else { return Ok(Vec::new()) };
        Ok(ordered(records_of(&tenant, |_| BTreeSet::from([trace]))?.all))
    }

    /// All records of the tenant, by trace. Holds them in memory.
    ///
    /// # Errors
    /// When a table cannot be read.
    pub fn all_records(&self, tenant: &TenantId) -> Result<Vec<Arc<Record>>, Error> {
        let Some(tenant) = self.current(tenant) else { return Ok(Vec::new()) };
        let all = |view: &mut View| {
            let stored = view.tables.spans.all_keys().map(|k| trace_of(k));
            stored.chain(view.hot.records.keys().copied()).collect()
        };
        Ok(ordered(records_of(&tenant, all)?.all))
    }

    /// Runs that match, newest first.
    ///
    /// # Errors
    /// [`Error::Cursor`], or when a table cannot be read.
    pub fn runs(
        &self,
        tenant: &TenantId,
        filter: &RunFilter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<RunRow>, Error> {
        let after = cursor.map(place_of_cursor).transpose()?;
        let Some(tenant) = self.current(tenant) else {
            return Ok(Page { items: Vec::new(), next_cursor: None });
        };
        let listed = self.listed(&tenant)?;
        let live: Vec<RunRow> = listed.runs.iter().map(|run| RunRow::of(run)).collect();
        let all = live.iter().chain(listed.rows.iter().map(Arc::as_ref));
        let mut rows: Vec<&RunRow> = all.filter(|row| matches(row, filter)).collect();
        rows.sort_by_cached_key(|row| std::cmp::Reverse(row.place()));
        let start = after.map_or(0, |after| rows.partition_point(|row| row.place() >= after));
        let page = rows.into_iter().skip(start).take(limit.saturating_add(1));
        let mut items: Vec<RunRow> = page.cloned().collect();
        let more = items.len() > limit;
        items.truncate(limit);
        let next_cursor = items.last().filter(|_| more).map(|row| cursor_of(&row.place()));
        Ok(Page { items, next_cursor })
    }

    /// Records and runs of everything that belongs together with the run `id`.
    #[allow(clippy::type_complexity)]
    fn runs_with(
        &self,
        tenant: &TenantId,
        id: &str,
    ) -> Result<Option<(Vec<Arc<Record>>, Vec<Arc<Run>>)>, Error> {
        let Some(tenant) = self.current(tenant) else { return Ok(None) };
        let together = |view: &mut View| {
            let mut from = view.named(id);
            // A run of loose logs is found among them.
            if from.is_empty() {
                let _ = from.insert(TraceId::default());
            }
            let _ = from.insert(TraceId::of_checkpoints(id));
            view.closure(from)
        };
        let Records { all, settled, .. } = records_of(&tenant, together)?;
        if all.is_empty() {
            return Ok(None);
        }
        Ok(Some(self.assemble(all, settled)))
    }

    /// `known` are traces that the tables hold as settled; time may have settled others since.
    fn assemble(
        &self,
        records: Vec<Arc<Record>>,
        known: BTreeSet<TraceId>,
    ) -> (Vec<Arc<Record>>, Vec<Arc<Run>>) {
        let runs = match self.inner.mode {
            Mode::ReadOnly => run::assemble(&records, Settled::All),
            Mode::ReadWrite => {
                let mut settled = settled(&records, self.inner.now(), &self.inner.settings);
                settled.extend(known);
                run::assemble(&records, Settled::Traces(&settled))
            }
        };
        let _ = self.inner.metrics.runs_assembled.inc_by(runs.len() as u64);
        (records, runs.into_iter().map(Arc::new).collect())
    }

    /// The tenant at one moment, with the runs assembled whose newest state is not in the tables: of hot and pending
    /// traces, and of runs that time has settled.
    pub(super) fn listed(&self, tenant: &Tenant) -> Result<Arc<Listed>, Error> {
        let now = self.inner.clock.monotonic();
        let at = if self.inner.mode == Mode::ReadOnly { Now::ALL_SETTLED } else { self.inner.now() };
        let (generation, taken, tables, rows, mut replaced) = {
            let mut view = tenant.view.lock();
            if let Some(listed) = view.fresh_list(now) {
                return Ok(listed);
            }
            let mut from = view.hot.live();
            from.extend(self.inner.due(view.rows.values().map(Arc::as_ref), at));
            let traces = view.closure(from);
            let replaced = view.runs_of(&traces);
            let others = view.rows.iter().filter(|(id, _)| !replaced.contains(*id));
            let rows: Vec<Arc<RunRow>> = others.map(|(_, row)| row.clone()).collect();
            (view.generation, Taken::new(&view, traces), view.tables.clone(), rows, replaced)
        };
        let Records { all, hot, settled } = taken.read()?;
        let (_, runs) = self.assemble(all, settled);
        // A derivation under way may have put rows of these into some tables already.
        replaced.extend(runs.iter().map(|run| run.run_id.clone()));
        let until = now + LIST_AGE_MAX;
        let listed = Arc::new(Listed { generation, until, runs, rows, replaced, tables, hot });
        tenant.view.lock().listed = Some(listed.clone());
        Ok(listed)
    }

    /// The tenant, with everything that was acknowledged by now, unless the intake is far behind.
    pub(super) fn current(&self, id: &TenantId) -> Option<Arc<Tenant>> {
        let _ = self.inner.caught_up(CATCH_UP_MAX);
        let tenant = self.inner.known_tenant(id)?;
        tenant.link();
        Some(tenant)
    }
}

/// What a reader took of some traces at one moment, under the lock: hot records and the list of files together, so that
/// a flush in between hides nothing.
struct Taken {
    traces: BTreeSet<TraceId>,
    hot: Vec<Arc<Record>>,
    spans: TenantTable,
    settled: BTreeSet<TraceId>,
}

/// The records of some traces, each version once.
struct Records {
    all: Vec<Arc<Record>>,
    /// Those of them that the tables do not have.
    hot: Vec<Arc<Record>>,
    /// Of the traces, those that the tables hold as settled and that nothing was added to since.
    settled: BTreeSet<TraceId>,
}

impl Taken {
    fn new(view: &View, traces: BTreeSet<TraceId>) -> Self {
        let hot = traces.iter().filter_map(|t| view.hot.records.get(t)).flatten().cloned().collect();
        let settled = traces.iter().copied().filter(|trace| view.is_settled(*trace)).collect();
        Self { traces, hot, spans: view.tables.spans.clone(), settled }
    }

    /// Reads the files; without the lock.
    fn read(self) -> Result<Records, Error> {
        let mut all = stored_records(&self.spans, &self.traces)?;
        let there: BTreeSet<_> = all.iter().map(|r| r.hash).collect();
        let hot: Vec<_> = self.hot.into_iter().filter(|r| !there.contains(&r.hash)).collect();
        all.extend(hot.iter().cloned());
        Ok(Records { all, hot, settled: self.settled })
    }
}

/// The records of the traces that `choose` names.
fn records_of(
    tenant: &Tenant,
    choose: impl FnOnce(&mut View) -> BTreeSet<TraceId>,
) -> Result<Records, Error> {
    let taken = {
        let mut view = tenant.view.lock();
        let traces = choose(&mut view);
        Taken::new(&view, traces)
    };
    taken.read()
}

fn matches(row: &RunRow, filter: &RunFilter) -> bool {
    let among = |want: &Option<String>, have: &[String]| want.as_ref().is_none_or(|w| have.contains(w));
    let started = row.start_ns();
    let words = || {
        let names = row.agents.iter().chain(&row.tools).chain(&row.models).chain(&row.conversation);
        names
            .chain([&row.run_id])
            .any(|n| filter.q.as_ref().is_none_or(|q| n.to_lowercase().contains(&q.to_lowercase())))
    };
    filter.status.is_none_or(|status| is_word(status, &row.status))
        && filter.replayability.is_none_or(|verdict| is_word(verdict, &row.replayability))
        && among(&filter.agent, &row.agents)
        && among(&filter.model, &row.models)
        && among(&filter.tool, &row.tools)
        && filter.conversation.as_ref().is_none_or(|c| row.conversation.as_ref() == Some(c))
        && filter.from.is_none_or(|moment| started >= moment.0)
        && filter.to.is_none_or(|moment| started < moment.0)
        && (filter.q.is_none() || words())
}

/// True when `word` is how `value` is written down.
fn is_word(value: impl Serialize, word: &str) -> bool {
    serde_json::to_value(value).is_ok_and(|value| value.as_str() == Some(word))
}

fn cursor_of((start, id): &(i64, String)) -> String {
    hex::encode(format!("{start}:{id}"))
}

fn place_of_cursor(cursor: &str) -> Result<(i64, String), Error> {
    let text = hex::decode(cursor).ok().and_then(|b| String::from_utf8(b).ok()).ok_or(Error::Cursor)?;
    let (start, id) = text.split_once(':').ok_or(Error::Cursor)?;
    Ok((start.parse().map_err(|_| Error::Cursor)?, id.to_owned()))
}

fn is_checkpoint_of(record: &Record, run: &Run) -> bool {
    match &record.body {
        Body::Checkpoint(checkpoint) => {
            checkpoint.run_id == run.run_id || run.aliases.contains(&checkpoint.run_id)
        }
        _ => false,
    }
}
