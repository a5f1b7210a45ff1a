//! What becomes of the tables when the machine stops, answers get lost, or the disk refuses.

use std::fs;

use serde_json::Value;

use super::*;
use crate::store::object::Fault;

/// Spans of three runs, then late ones of two of them and a new run.
fn requests() -> [Vec<Span>; 2] {
    [vec![span(1, 1), span(1, 2), span(2, 1)], vec![span(1, 3), span(2, 2), span(3, 1), span(3, 2)]]
}

fn open_on(objects: Objects, path: &Path) -> Result<Arc<Store>, Error> {
    // Few enough that files are joined as well.
    let settings = config::store::Settings { small_files_max: 2, ..Default::default() };
    let wal = Default::default();
    Store::open_on(objects, path, settings, wal, clock(), Arc::default(), Mode::ReadWrite)
}

fn objects(path: &Path) -> Objects {
    Objects::new(path.join("tables"))
}

/// A folder whose first request is in the tables and whose second is in the log.
fn prepared() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let store = open_on(objects(dir.path()), dir.path()).unwrap();
    let [first, second] = requests();
    send(&store, &first);
    store.settle_and_flush().unwrap();
    send(&store, &second);
    crash(&store);
    dir
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

/// Rows of a table as a reader finds them that knows the Delta protocol and nothing else: (key, place).
fn plain(path: &Path, table: schema::Table) -> Vec<(String, String)> {
    let folder = path.join("tables").join(TenantId::embedded().as_str()).join(table.name());
    let mut log: Vec<_> =
        fs::read_dir(folder.join("_delta_log")).unwrap().map(|e| e.unwrap().path()).collect();
    let is_commit = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with(".json") && !name.starts_with('.')
    };
    log.retain(is_commit);
    log.sort();
    let mut live = BTreeSet::new();
    for (version, path) in log.iter().enumerate() {
        assert!(path.ends_with(format!("{version:020}.json")), "a hole in the log: {}", path.display());
        for line in fs::read_to_string(path).unwrap().lines() {
            let action: Value = serde_json::from_str(line).unwrap();
            if let Some(add) = action.pointer("/add/path") {
                assert!(live.insert(add.as_str().unwrap().to_owned()), "added twice: {add}");
            }
            if let Some(remove) = action.pointer("/remove/path") {
                assert!(live.remove(remove.as_str().unwrap()), "removed and not there: {remove}");
            }
        }
    }
    let mut all = Vec::new();
    for file in live {
        let bytes = bytes::Bytes::from(fs::read(folder.join(file)).unwrap());
        for row in parquet::read::<Value>(bytes, table.key(), None).unwrap() {
            all.push(place(&row, table));
        }
    }
    all.sort();
    all
}

fn all_tables(path: &Path) -> [Vec<(String, String)>; 5] {
    schema::Table::ALL.map(|table| plain(path, table))
}

/// What the tables hold when nothing goes wrong.
fn calm() -> [Vec<(String, String)>; 5] {
    let dir = prepared();
    let store = open_on(objects(dir.path()), dir.path()).unwrap();
    store.settle_and_flush().unwrap();
    crash(&store);
    let calm = all_tables(dir.path());
    assert_eq!(calm[0].len(), 7, "records in spans");
    calm
}

/// By the API, by SQL, and by the files.
fn census(store: &Store, path: &Path, calm: &[Vec<(String, String)>; 5], what: &str) {
    let tenant = TenantId::embedded();
    assert_eq!(hashes(store).len(), 7, "{what}: records by the API");
    let runs = store.runs(&tenant, &RunFilter::default(), None, 100).unwrap().items;
    assert_eq!(runs.len(), 3, "{what}: runs by the API");
    #[cfg(feature = "sql")]
    {
        let relations = store.relations(&tenant).unwrap();
        let engine = sql::Engine::new(&Default::default()).unwrap();
        let text = "SELECT (SELECT count(*) FROM spans) AS s, (SELECT count(*) FROM run_steps) AS t, \
            (SELECT count(DISTINCT run_id || '/' || step_index) FROM run_steps) AS d, (SELECT count(*) FROM runs) AS r";
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let answer = runtime.block_on(engine.rows(relations, text)).unwrap();
        let counts: Value = serde_json::from_str(answer.rows.get()).unwrap();
        let steps = calm[3].len();
        assert_eq!(counts, serde_json::json!([{"s": 7, "t": steps, "d": steps, "r": 3}]), "{what}: by SQL");
    }
    assert_eq!(&all_tables(path), calm, "{what}: by the files");
}

/// Everything is sent again and settled; then counted.
fn settled(path: &Path, calm: &[Vec<(String, String)>; 5], what: &str) {
    let store = open_on(objects(path), path).unwrap();
    assert_eq!(hashes(&store).len(), 7, "{what}: readable at once, each record once");
    requests().iter().for_each(|request| send(&store, request));
    store.settle_and_flush().unwrap();
    census(&store, path, calm, what);
    crash(&store);
}

/// The machine stops at the change to the disk after `changes`, of a process that recovers and writes its tables.
/// True when it got to the end.
fn stopped_after(changes: u64, path: &Path) -> bool {
    let objects = self::objects(path);
    objects.inject(move |n| if n > changes { Fault::Refused } else { Fault::None });
    match open_on(objects, path) {
        Ok(store) => {
            let whole = store.settle_and_flush().is_ok();
            crash(&store);
            whole
        }
        Err(_) => false,
    }
}

/// Scenario: the machine stops at the Nth change to the disk of a flush and a derivation, for every N; some records of
/// a run are in the tables, late ones are among those under way. Then everything is sent again.
/// Guarantee: after the restart each record and each derived row is there once, and the tables are what a store that
/// never crashed has: by the API, by SQL, and by a reader that knows the Delta protocol alone.
#[test]
fn a_crash_in_a_flush_loses_or_doubles_a_row() {
    let (before, calm) = (prepared(), calm());
    for n in 0.. {
        let dir = tempfile::tempdir().unwrap();
        copy(before.path(), dir.path());
        let whole = stopped_after(n, dir.path());
        settled(dir.path(), &calm, &format!("stopped after {n} changes"));
        if whole {
            assert!(n > 15, "{n} changes are too few");
            break;
        }
    }
}

/// Scenario: the machine stops, and the one that recovers stops too, for every pair of changes. `SPANREEL_CRASH_PAIRS=all`
/// tries each; else each seventh, from another one in each row.
/// Guarantee: as above.
#[test]
fn a_crash_in_a_recovery_loses_or_doubles_a_row() {
    let every: u64 = if std::env::var("SPANREEL_CRASH_PAIRS").is_ok_and(|v| v == "all") { 1 } else { 7 };
    let step = usize::try_from(every).unwrap();
    let (before, calm) = (prepared(), calm());
    let mut pairs = 0;
    for first in (0_u64..).step_by(step) {
        let mut end = false;
        for second in (first % every..).step_by(step) {
            let dir = tempfile::tempdir().unwrap();
            copy(before.path(), dir.path());
            end = stopped_after(first, dir.path());
            let whole = stopped_after(second, dir.path());
            settled(dir.path(), &calm, &format!("stopped after {first}, then after {second} changes"));
            pairs += 1;
            if whole || end {
                break;
            }
        }
        if end {
            break;
        }
    }
    println!("scorecard: 15 crash matrix: {pairs} pairs of changes, 0 lost, 0 double");
}

/// Scenario: the Nth change to the disk is made, and its answer is lost; the same process goes on.
/// Guarantee: nothing is lost or doubled, and no file that is live is deleted.
#[test]
fn an_answer_that_is_lost_doubles_a_commit() {
    let (before, calm) = (prepared(), calm());
    let mut changes = 0;
    for lost in 1.. {
        let dir = tempfile::tempdir().unwrap();
        copy(before.path(), dir.path());
        let objects = self::objects(dir.path());
        objects.inject(move |n| if n == lost { Fault::AnswerLost } else { Fault::None });
        // An opening that fails is tried again, as a supervisor does.
        let store =
            open_on(objects.clone(), dir.path()).or_else(|_| open_on(objects.clone(), dir.path())).unwrap();
        let tries = (0..5).take_while(|_| store.settle_and_flush().is_err()).count();
        assert!(tries < 5, "it never recovers from the loss of answer {lost}");
        store.inner.all_tenants().iter().for_each(|tenant| store.inner.vacuum(tenant).unwrap());
        census(&store, dir.path(), &calm, &format!("answer {lost} lost"));
        crash(&store);
        changes = objects.changes();
        if changes < lost {
            break;
        }
    }
    println!("scorecard: 14 lost answers: each of {changes} changes, 0 lost, 0 double");
}

/// Scenario: the Nth change to the disk is refused once, for every N, to a process that derives runs of which one has
/// settled; it tries again when the others have settled as well.
/// Guarantee: the tables are one revision, of one moment, and hold each row once.
#[test]
fn a_derivation_that_is_tried_again_is_of_two_moments() {
    for refused in 1.. {
        let dir = tempfile::tempdir().unwrap();
        let (objects, clock) = (objects(dir.path()), clock());
        let (settings, wal, metrics) = (Default::default(), Default::default(), Arc::default());
        let mode = Mode::ReadWrite;
        let store =
            Store::open_on(objects.clone(), dir.path(), settings, wal, clock.clone(), metrics, mode).unwrap();
        send(&store, &[span(1, 1), span(1, 2)]);
        store.inner.catch_up();
        clock.advance(Duration::from_secs(6));
        send(&store, &[span(2, 1), span(2, 2)]);
        store.inner.catch_up();
        let before = objects.changes();
        objects.inject(move |n| if n == before + refused { Fault::Refused } else { Fault::None });
        // The upkeep thread may have met the fault.
        let _ = store.inner.write_tables(true, false);
        let met = objects.changes() >= before + refused;
        clock.advance(Duration::from_secs(6));
        store.inner.write_tables(true, false).unwrap();
        let tenant = store.inner.all_tenants().remove(0);
        let moments: BTreeSet<_> = {
            let view = tenant.view.lock();
            view.tables.all().iter().skip(1).map(|t| (t.txn("derive"), t.txn("derive_now"))).collect()
        };
        assert_eq!(moments.len(), 1, "change {refused} refused: {moments:?}");
        crash(&store);
        assert_eq!(plain(dir.path(), schema::Table::Runs).len(), 2, "change {refused} refused");
        assert_eq!(plain(dir.path(), schema::Table::RunSteps).len(), 2, "change {refused} refused");
        if !met {
            assert!(refused > 15, "{refused} changes are too few");
            break;
        }
    }
}

/// Scenario: one in twenty changes to the disk fails, half of them after they were made, while requests come.
/// Guarantee: each is acknowledged; once the faults end the tables are what they are on a disk without faults.
#[test]
fn a_disk_that_fails_now_and_then_loses_or_doubles_a_row() {
    let (dir, still) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let objects = self::objects(dir.path());
    let mut state = 7_u64;
    objects.inject(move |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        match state >> 59 {
            0 => Fault::Refused,
            1 => Fault::AnswerLost,
            _ => Fault::None,
        }
    });
    let store = (0..50).find_map(|_| open_on(objects.clone(), dir.path()).ok()).unwrap();
    let calm = open_on(self::objects(still.path()), still.path()).unwrap();
    let mut failures = 0;
    for t in 1..=20 {
        for s in 1..=4 {
            for store in [&store, &calm] {
                send(store, &[span(t, s)]);
            }
        }
        failures += u32::from(store.settle_and_flush().is_err());
        calm.settle_and_flush().unwrap();
    }
    objects.inject(|_| Fault::None);
    store.settle_and_flush().unwrap();
    crash(&store);
    crash(&calm);
    assert!(failures > 0, "no fault was met");
    let calm = all_tables(still.path());
    assert_eq!(calm[0].len(), 80);
    assert_eq!(all_tables(dir.path()), calm);
    println!("scorecard: 16 store faults: 80 requests, {failures} failed rounds, 0 lost, 0 double");
}

/// Scenario: the tables cannot be written for long, until the log has its share of the disk; then they can.
/// Guarantee: until then every request is acknowledged, then refused as one to try again; afterwards all that was
/// acknowledged is in the tables, once, and requests are taken again.
#[test]
fn tables_that_cannot_be_written_lose_what_was_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let objects = self::objects(dir.path());
    let wal = config::wal::Settings { disk_bytes_max: 400_000, segment_bytes: 50_000, ..Default::default() };
    let (settings, clock) = (Default::default(), clock());
    let open = |objects| {
        Store::open_on(
            objects,
            dir.path(),
            settings,
            wal.clone(),
            clock.clone(),
            Arc::default(),
            Mode::ReadWrite,
        )
    };
    let store = open(objects.clone()).unwrap();
    send(&store, &[span(1, 1)]);
    objects.inject(|_| Fault::Refused);
    let mut sent = 1;
    let refused = loop {
        let spans: Vec<Span> =
            (1..=20).map(|s| Span { trace_id: (sent as u128).to_be_bytes().into(), ..span(1, s) }).collect();
        let scope_spans = vec![ScopeSpans { spans, ..ScopeSpans::default() }];
        let resource_spans = vec![ResourceSpans { scope_spans, ..ResourceSpans::default() }];
        let bytes = ExportTraceServiceRequest { resource_spans }.encode_to_vec();
        match store.append(&TenantId::embedded(), FrameKind::Traces, bytes.into()).map(Appended::wait) {
            Ok(Ok(_)) => sent += 1,
            Ok(Err(error)) => break Error::from(error),
            Err(error) => break error,
        }
        clock.advance(Duration::from_secs(60));
        assert!(sent < 10_000, "the log has no end");
    };
    assert!(sent > 20 && refused.retry_after().is_some(), "{sent}: {refused:?}");
    assert!(store.settle_and_flush().is_err());
    assert_eq!(hashes(&store).len(), 1 + (sent - 1) * 20, "readers see all of it meanwhile");
    objects.inject(|_| Fault::None);
    store.settle_and_flush().unwrap();
    send(&store, &[span(2, 1)]);
    store.settle_and_flush().unwrap();
    crash(&store);
    assert_eq!(plain(dir.path(), schema::Table::Spans).len(), 2 + (sent - 1) * 20);
    println!("scorecard: 17 store down: {sent} requests held by the log, then refused; 0 lost");
}
