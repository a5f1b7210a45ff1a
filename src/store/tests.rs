use std::collections::BTreeSet;

use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{AnyValue, KeyValue, any_value::Value as Any},
    trace::v1::{ResourceSpans, ScopeSpans, Span},
};
use prost::Message;

use super::*;
use crate::{
    clock::ManualClock,
    otlp::record::{RecordHash, TraceId},
};

mod crash;
mod growth;
mod tenants;

fn open(path: &Path, clock: &Arc<ManualClock>) -> Result<Arc<Store>, Error> {
    Store::open(path, Default::default(), Default::default(), clock.clone(), Arc::default(), Mode::ReadWrite)
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(1_800_000_000_000_000_000))
}

/// A span of trace `t`: the root agent for 1, a model call for others.
fn span(t: u8, s: u8) -> Span {
    let text = |value: &str| Some(AnyValue { value: Some(Any::StringValue(value.into())) });
    let pair =
        |key: &str, value: &str| KeyValue { key: key.into(), value: text(value), ..KeyValue::default() };
    let root = s == 1;
    Span {
        trace_id: vec![t; 16],
        span_id: vec![s; 8],
        parent_span_id: if root { Vec::new() } else { vec![1; 8] },
        name: "s".into(),
        start_time_unix_nano: 1_790_000_000_000_000_000 + u64::from(s) * 1000,
        end_time_unix_nano: 1_790_000_000_000_000_500 + u64::from(s) * 1000,
        attributes: vec![
            pair("gen_ai.operation.name", if root { "invoke_agent" } else { "chat" }),
            pair("gen_ai.request.model", "m"),
            pair(
                "gen_ai.output.messages",
                r#"[{"role":"assistant","parts":[{"type":"text","content":"hi"}]}]"#,
            ),
        ],
        ..Span::default()
    }
}

fn send(store: &Store, spans: &[Span]) {
    send_as(store, &TenantId::embedded(), spans);
}

fn send_as(store: &Store, tenant: &TenantId, spans: &[Span]) {
    let scope_spans = vec![ScopeSpans { spans: spans.to_vec(), ..ScopeSpans::default() }];
    let resource_spans = vec![ResourceSpans { scope_spans, ..ResourceSpans::default() }];
    let bytes = ExportTraceServiceRequest { resource_spans }.encode_to_vec();
    let _ = store.append(tenant, FrameKind::Traces, bytes.into()).unwrap().wait().unwrap();
}

/// Ends a store as a crash does: what is in memory is gone.
fn crash(store: &Store) {
    store.inner.stop.store(true, Ordering::SeqCst);
    store.inner.wal.as_ref().unwrap().close();
    for thread in store.threads.lock().drain(..) {
        thread.join().unwrap();
    }
}

/// Rows of a table, straight from its live files: (key, place).
fn rows(store: &Store, table: schema::Table) -> Vec<(String, String)> {
    let tenant = store.inner.known_tenant(&TenantId::embedded()).unwrap();
    let table = tenant.view.lock().tables.get(table).clone();
    let mut all = Vec::new();
    for path in table.state.files.keys() {
        for row in table.read::<serde_json::Value>(path, None).unwrap() {
            all.push(place(&row, table.table));
        }
    }
    all.sort();
    all
}

/// The key of a row, and what tells it from others of that key.
fn place(row: &serde_json::Value, table: schema::Table) -> (String, String) {
    let text = |name: &str| row.get(name).map(ToString::to_string).unwrap_or_default();
    (text(table.key()), format!("{}{}{}", text("span_id"), text("step_index"), text("message_index")))
}

fn hashes(store: &Store) -> Vec<RecordHash> {
    store.all_records(&TenantId::embedded()).unwrap().iter().map(|r| r.hash).collect()
}

/// Scenario: the folder of the log is lost with its disk while the tables are kept; then more arrives.
/// Guarantee: what is acknowledged from then on is in the tables, and there after another crash.
#[test]
fn a_log_that_was_lost_gives_numbers_again_that_a_table_has() {
    let dir = tempfile::tempdir().unwrap();
    let clock = clock();
    let store = open(dir.path(), &clock).unwrap();
    for t in 1..=3 {
        send(&store, &[span(t, 1)]);
    }
    store.settle_and_flush().unwrap();
    crash(&store);
    drop(store);
    std::fs::remove_dir_all(dir.path().join("wal")).unwrap();
    let store = open(dir.path(), &clock).unwrap();
    send(&store, &[span(4, 1)]);
    crash(&store);
    drop(store);
    let store = open(dir.path(), &clock).unwrap();
    assert_eq!(hashes(&store).len(), 4);
    store.settle_and_flush().unwrap();
    crash(&store);
    drop(store);
    let store = open(dir.path(), &clock).unwrap();
    assert_eq!(hashes(&store).len(), 4, "flushed");
    crash(&store);
}

/// Scenario: a run is committed, then its late spans arrive; readers ask at every moment.
/// Guarantee: hot, flushed or derived, the reader sees one run with all that was acknowledged.
#[test]
fn a_late_span_is_hidden_or_makes_a_second_run() {
    let dir = tempfile::tempdir().unwrap();
    let (clock, tenant) = (clock(), TenantId::embedded());
    let store = open(dir.path(), &clock).unwrap();
    let steps = |store: &Store| {
        let page = store.runs(&tenant, &RunFilter::default(), None, 10).unwrap();
        assert_eq!(page.items.len(), 1);
        let id = &page.items[0].run_id;
        let Some(Found::Run(run)) = store.run(&tenant, id).unwrap() else { panic!("no run {id}") };
        assert_eq!(page.items[0], RunRow::of(&run), "the list and the run agree");
        run.steps.len()
    };
    send(&store, &[span(1, 1), span(1, 2)]);
    store.inner.catch_up();
    assert_eq!(steps(&store), 1, "hot");
    store.settle_and_flush().unwrap();
    assert_eq!(steps(&store), 1, "derived");
    send(&store, &[span(1, 3)]);
    store.inner.catch_up();
    assert_eq!(steps(&store), 2, "late and hot");
    let all = store.inner.all_tenants();
    let _ = all[0].flush("wal/n".into(), 0, Duration::ZERO).unwrap();
    assert_eq!(steps(&store), 2, "flushed, not derived");
    store.settle_and_flush().unwrap();
    assert_eq!(steps(&store), 2, "derived again");
    assert_eq!(rows(&store, schema::Table::RunSteps).len(), 2);
    crash(&store);
}

/// Scenario: the pages of a settled run are read while other runs arrive; then a late span of it comes.
/// Guarantee: it is assembled once for all its pages, and anew when it changed.
#[test]
fn a_page_of_a_run_costs_all_of_it_or_is_old() {
    let dir = tempfile::tempdir().unwrap();
    let (clock, tenant) = (clock(), TenantId::embedded());
    let store = open(dir.path(), &clock).unwrap();
    let read = |id: u8| match store.run(&tenant, &hex::encode([id; 16])).unwrap() {
        Some(Found::Run(run)) => run,
        other => panic!("{other:?}"),
    };
    send(&store, &[span(1, 1), span(1, 2)]);
    store.settle_and_flush().unwrap();
    let first = read(1);
    send(&store, &[span(2, 1)]);
    store.inner.catch_up();
    assert!(Arc::ptr_eq(&first, &read(1)), "another run arrived");
    send(&store, &[span(1, 3)]);
    store.inner.catch_up();
    assert_eq!((first.steps.len(), read(1).steps.len()), (1, 2), "late and hot");
    store.settle_and_flush().unwrap();
    let late = read(1);
    assert_eq!(late.steps.len(), 2);
    clock.advance(Duration::from_secs(60));
    assert!(!Arc::ptr_eq(&late, &read(1)), "held for ever");
    let checkpoint = serde_json::json!({"run_id": hex::encode([1; 16]), "checkpoint_id": "c"}).to_string();
    let _ = store.append(&tenant, FrameKind::Checkpoint, checkpoint.into()).unwrap().wait().unwrap();
    store.inner.catch_up();
    assert_eq!(read(1).checkpoints.len(), 1, "posted since");
    crash(&store);
}

/// Scenario: a checkpoint is posted for a run that has settled, and one for a run of which no span came yet; both are
/// written to the tables; the server starts again; then a late span of each comes.
/// Guarantee: the run, the list and the tables have the checkpoint all the while.
#[test]
fn a_checkpoint_leaves_its_run() {
    let dir = tempfile::tempdir().unwrap();
    let (clock, tenant) = (clock(), TenantId::embedded());
    let store = open(dir.path(), &clock).unwrap();
    let id = |t: u8| hex::encode([t; 16]);
    let post = |t: u8| {
        let checkpoint = serde_json::json!({"run_id": id(t), "checkpoint_id": "c"}).to_string();
        let _ = store.append(&tenant, FrameKind::Checkpoint, checkpoint.into()).unwrap().wait().unwrap();
    };
    let checkpoints = |store: &Store, t: u8| match store.run(&tenant, &id(t)).unwrap() {
        Some(Found::Run(run)) => run.checkpoints.len(),
        Some(Found::Checkpoints(posted)) => posted.len(),
        other => panic!("{other:?}"),
    };
    send(&store, &[span(1, 1), span(1, 2)]);
    store.settle_and_flush().unwrap();
    post(1);
    post(2);
    store.inner.catch_up();
    assert_eq!([1, 2].map(|t| checkpoints(&store, t)), [1, 1], "hot");
    store.settle_and_flush().unwrap();
    assert_eq!([1, 2].map(|t| checkpoints(&store, t)), [1, 1], "in the tables");
    crash(&store);
    drop(store);
    let store = open(dir.path(), &clock).unwrap();
    assert_eq!([1, 2].map(|t| checkpoints(&store, t)), [1, 1], "started again");
    send(&store, &[span(1, 3), span(2, 1), span(2, 2)]);
    store.settle_and_flush().unwrap();
    assert_eq!([1, 2].map(|t| checkpoints(&store, t)), [1, 1], "derived again");
    let page = store.runs(&tenant, &RunFilter::default(), None, 10).unwrap();
    assert!(page.items.len() == 2 && page.items.iter().all(|row| row.checkpoints == ["c"]), "{page:?}");
    assert_eq!(rows(&store, schema::Table::Checkpoints).len(), 2);
    crash(&store);
}

/// Scenario: runs arrive, are flushed, derived and get late spans, while readers list them and query the tables.
/// Guarantee: at every moment each run that was acknowledged is there, and each run and step once.
#[test]
fn a_list_or_a_query_under_load_has_a_run_twice_or_not_at_all() {
    const TRACES: u8 = 60;
    let dir = tempfile::tempdir().unwrap();
    let tenant = TenantId::embedded();
    let store = open(dir.path(), &clock()).unwrap();
    let acknowledged = Arc::new(AtomicU64::new(0));
    let writer = {
        let (store, acknowledged) = (store.clone(), acknowledged.clone());
        std::thread::spawn(move || {
            for t in 1..=TRACES {
                send(&store, &[span(t, 1), span(t, 2)]);
                acknowledged.store(t.into(), Ordering::SeqCst);
                if t % 3 == 0 {
                    store.settle_and_flush().unwrap();
                    send(&store, &[span(t - 1, 3)]);
                }
            }
        })
    };
    let mut rounds = 0;
    while !writer.is_finished() || rounds == 0 {
        let before = acknowledged.load(Ordering::SeqCst);
        let page = store.runs(&tenant, &RunFilter::default(), None, 1_000).unwrap();
        let ids: BTreeSet<_> = page.items.iter().map(|row| row.run_id.clone()).collect();
        assert_eq!(ids.len(), page.items.len(), "a run twice");
        assert!(ids.len() as u64 >= before, "{} of {before} runs", ids.len());
        #[cfg(feature = "sql")]
        {
            let before = acknowledged.load(Ordering::SeqCst);
            let steps = steps_of_query(&store, &tenant);
            let distinct: BTreeSet<_> = steps.iter().collect();
            assert_eq!(distinct.len(), steps.len(), "a step twice");
            let runs: BTreeSet<_> = steps.iter().map(|(run, _)| run).collect();
            assert!(runs.len() as u64 >= before, "{} of {before} runs have steps", runs.len());
        }
        rounds += 1;
    }
    writer.join().unwrap();
    assert_eq!(
        store.runs(&tenant, &RunFilter::default(), None, 1_000).unwrap().items.len(),
        usize::from(TRACES)
    );
    crash(&store);
}

/// Run and index of each row of `run_steps` as a query sees them.
#[cfg(feature = "sql")]
fn steps_of_query(store: &Store, tenant: &TenantId) -> Vec<(String, String)> {
    use arrow::array::AsArray;
    let relations = store.relations(tenant).unwrap();
    let steps = relations.into_iter().find(|relation| relation.name == "run_steps").unwrap();
    // Nothing was applied yet.
    let Some((key, replaced)) = steps.replaced else { return Vec::new() };
    let mut found = Vec::new();
    for file in &steps.files {
        let bytes = bytes::Bytes::from(std::fs::read(file).unwrap());
        for row in parquet::read::<serde_json::Value>(bytes, key, None).unwrap() {
            let run = row[key].as_str().unwrap().to_owned();
            if !replaced.contains(&run) {
                found.push((run, row["step_index"].to_string()));
            }
        }
    }
    for batch in &steps.hot {
        let runs = batch.column_by_name(key).unwrap().as_string::<i32>();
        let indexes = batch.column_by_name("step_index").unwrap();
        for row in 0..batch.num_rows() {
            let index = arrow::util::display::array_value_to_string(indexes, row).unwrap();
            found.push((runs.value(row).to_owned(), index));
        }
    }
    found
}

/// Scenario: a run's second trace arrives and is flushed before anyone asks, long after the first was derived.
/// Guarantee: the run that is derived then holds both, and holds them after a restart.
#[test]
fn a_second_trace_replaces_the_first_of_its_run() {
    let dir = tempfile::tempdir().unwrap();
    let (clock, tenant) = (clock(), TenantId::embedded());
    let of_run = |t: u8| {
        let mut span = span(t, 2);
        let value = Some(AnyValue { value: Some(Any::StringValue("r".into())) });
        span.attributes.push(KeyValue { key: "eai.run_id".into(), value, ..KeyValue::default() });
        span.parent_span_id.clear();
        span
    };
    let steps = |store: &Store| {
        let Some(Found::Run(run)) = store.run(&tenant, "r").unwrap() else { panic!("no run") };
        let page = store.runs(&tenant, &RunFilter::default(), None, 10).unwrap();
        assert_eq!(page.items.len(), 1);
        (run.steps.len(), page.items[0].trace_ids.len())
    };
    let store = open(dir.path(), &clock).unwrap();
    send(&store, &[of_run(1)]);
    store.settle_and_flush().unwrap();
    send(&store, &[of_run(2)]);
    store.settle_and_flush().unwrap();
    assert_eq!(steps(&store), (2, 2));
    assert_eq!(rows(&store, schema::Table::RunSteps).len(), 2);
    crash(&store);
    drop(store);
    let store = open(dir.path(), &clock).unwrap();
    assert_eq!(steps(&store), (2, 2), "after a restart");
    crash(&store);
}

/// Scenario: replaced files are older than `file_keep`.
/// Guarantee: vacuum deletes them, and nothing that a table still names.
#[test]
fn vacuum_deletes_a_live_file_or_keeps_a_replaced_one() {
    let dir = tempfile::tempdir().unwrap();
    // Files carry the machine's time; the clock must start there.
    let clock = Arc::new(ManualClock::new(crate::clock::SystemClock::default().unix_nanos()));
    let store = open(dir.path(), &clock).unwrap();
    for s in 1..5 {
        send(&store, &[span(1, s)]);
        store.settle_and_flush().unwrap();
    }
    let tenant = store.inner.all_tenants().remove(0);
    let on_disk = || tenant.view.lock().tables.runs.on_disk().unwrap().len();
    // The upkeep thread may have derived in between.
    let young = on_disk();
    store.inner.vacuum(&tenant).unwrap();
    assert!(young >= 4 && on_disk() == young, "young files stay");
    clock.advance(Duration::from_secs(7300));
    send(&store, &[span(1, 5)]);
    store.settle_and_flush().unwrap();
    // First it is seen that nobody needs them, then they are deleted.
    for _ in 0..2 {
        clock.advance(Duration::from_secs(7300));
        store.inner.vacuum(&tenant).unwrap();
    }
    assert_eq!(on_disk(), 1);
    assert_eq!(rows(&store, schema::Table::RunSteps).len(), 4);
    let traces = BTreeSet::from([TraceId([1; 16])]);
    assert_eq!(tenant::stored_records(&tenant.view.lock().tables.spans, &traces).unwrap().len(), 5);
    crash(&store);
}

#[test]
fn a_foreign_folder_is_taken_or_a_held_one_shared() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("notes.txt"), "mine").unwrap();
    assert!(matches!(open(dir.path(), &clock()), Err(Error::OtherVersion { .. })));
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), &clock()).unwrap();
    store.announce("127.0.0.1:4319".parse().unwrap()).unwrap();
    let api = match open(dir.path(), &clock()) {
        Err(Error::InUse { api, .. }) => api,
        other => panic!("{other:?}"),
    };
    assert_eq!(api, Some("127.0.0.1:4319".parse().unwrap()));
    crash(&store);
    drop(store);
    std::fs::write(dir.path().join("format"), "spanreel data 99\n").unwrap();
    assert!(matches!(open(dir.path(), &clock()), Err(Error::OtherVersion { .. })));
}
