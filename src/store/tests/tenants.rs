//! Many tenants, late spans, clocks.

use super::*;

/// A span with an attribute more.
fn with(span: Span, key: &str, value: &str) -> Span {
    let value = Some(AnyValue { value: Some(Any::StringValue(value.into())) });
    let mut attributes = span.attributes;
    attributes.push(KeyValue { key: key.into(), value, ..KeyValue::default() });
    Span { attributes, ..span }
}

/// Scenario: the machine's clock jumps by a second, an hour and a year, forward and back, and stands still, while spans
/// of one run come and are flushed, and files are vacuumed.
/// Guarantee: nothing is lost, doubled or put in another order, and no file that a reader may hold goes early.
#[test]
fn a_clock_that_jumps_loses_or_deletes_something() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(crate::clock::SystemClock::default().unix_nanos()));
    let store = open(dir.path(), &clock).unwrap();
    let tenant = TenantId::embedded();
    let mut sent = 0;
    let mut held: BTreeSet<String> = BTreeSet::new();
    for by in [0, 1, -1, 3_600, -3_600, 31_536_000, -31_536_000, 0] {
        clock.jump(by);
        sent += 1;
        send(&store, &[span(1, sent)]);
        store.settle_and_flush().unwrap();
        let files = store.inner.all_tenants().remove(0);
        store.inner.vacuum(&files).unwrap();
        let view = files.view.lock();
        held.extend(view.tables.runs.state.files.keys().cloned());
        let on_disk: BTreeSet<String> = view.tables.runs.on_disk().unwrap().into_iter().collect();
        assert!(held.is_subset(&on_disk), "a file went early after a jump of {by} s");
    }
    let page = store.runs(&tenant, &RunFilter::default(), None, 10).unwrap();
    assert_eq!(page.items.len(), 1);
    let Some(Found::Run(run)) = store.run(&tenant, &page.items[0].run_id).unwrap() else { panic!("no run") };
    let order: Vec<_> = run.steps.iter().map(|step| step.span_id.unwrap().0[7]).collect();
    assert_eq!(order, (2..=sent).collect::<Vec<_>>());
    assert_eq!(hashes(&store).len(), usize::from(sent));
    crash(&store);
}

/// Scenario: children of a run arrive and are committed; hours and days later come their parent, another child, and the
/// root, which names the run. A reader looks all the while.
/// Guarantee: the reader sees one run at every moment, never fewer steps than before; at the end it has the name that
/// the root brought, its trace id leads to it, and the tables hold each step once.
#[test]
fn a_span_that_comes_days_late_is_lost_or_splits_its_run() {
    let dir = tempfile::tempdir().unwrap();
    let (clock, tenant) = (clock(), TenantId::embedded());
    let store = open(dir.path(), &clock).unwrap();
    let trace = hex::encode([1; 16]);
    send(&store, &[span(1, 3), span(1, 4)]);
    store.inner.catch_up();
    let done = Arc::new(AtomicBool::new(false));
    let reader = {
        let (store, done, tenant) = (store.clone(), done.clone(), tenant.clone());
        std::thread::spawn(move || {
            let mut steps = 0;
            while !done.load(Ordering::SeqCst) {
                let page = store.runs(&tenant, &RunFilter::default(), None, 10).unwrap();
                let ids: Vec<_> = page.items.iter().map(|row| row.run_id.as_str()).collect();
                assert_eq!(ids.len(), 1, "{ids:?}");
                let run = match store.run(&tenant, ids[0]).unwrap() {
                    Some(Found::Run(run)) => run,
                    // It got its name between the two questions.
                    Some(Found::Alias(name)) => match store.run(&tenant, &name).unwrap() {
                        Some(Found::Run(run)) => run,
                        other => panic!("{name}: {other:?}"),
                    },
                    other => panic!("{ids:?}: {other:?}"),
                };
                assert!(run.steps.len() >= steps, "{} after {steps} steps", run.steps.len());
                steps = run.steps.len();
            }
        })
    };
    let root = with(span(1, 1), "eai.run_id", "order-17");
    for (late_s, spans) in
        [(2, vec![]), (3_600, vec![span(1, 2)]), (86_400, vec![span(1, 5)]), (7 * 86_400, vec![root])]
    {
        store.settle_and_flush().unwrap();
        clock.advance(Duration::from_secs(late_s));
        if !spans.is_empty() {
            send(&store, &spans);
        }
    }
    store.settle_and_flush().unwrap();
    done.store(true, Ordering::SeqCst);
    reader.join().unwrap();
    let Some(Found::Alias(name)) = store.run(&tenant, &trace).unwrap() else { panic!("no alias {trace}") };
    let Some(Found::Run(run)) = store.run(&tenant, &name).unwrap() else { panic!("no run {name}") };
    assert_eq!((name.as_str(), run.steps.len()), ("order-17", 4));
    let stored = rows(&store, schema::Table::RunSteps);
    assert_eq!(stored.len(), 4);
    assert!(stored.iter().all(|(run, _)| run.contains("order-17")), "{stored:?}");
    assert_eq!(rows(&store, schema::Table::Runs).len(), 1);
    crash(&store);
}

/// Scenario: many tenants send a span each, round after round, and each round is written to the tables.
/// `SPANREEL_TENANTS=1000` is the long form.
/// Guarantee: a table never has more small files than `store.small_files_max`, nor more commits than three a round and
/// one for each join; nothing stays in memory; every run of every tenant is there once, also after a restart.
#[test]
fn a_tenant_that_trickles_gets_ever_more_files() {
    const ROUNDS: u8 = 12;
    let tenants: u32 = std::env::var("SPANREEL_TENANTS").ok().and_then(|n| n.parse().ok()).unwrap_or(12);
    let dir = tempfile::tempdir().unwrap();
    let clock = clock();
    let settings = config::store::Settings { small_files_max: 5, ..Default::default() };
    let open = || {
        let (wal, metrics) = (Default::default(), Arc::default());
        Store::open(dir.path(), settings.clone(), wal, clock.clone(), metrics, Mode::ReadWrite).unwrap()
    };
    let store = open();
    let ids: Vec<TenantId> = (0..tenants).map(|n| format!("tenant-{n}").parse().unwrap()).collect();
    let (mut files_max, mut commits_max) = (0, 0);
    for round in 1..=ROUNDS {
        ids.iter().for_each(|id| send_as(&store, id, &[span(round, 1), span(round, 2)]));
        store.settle_and_flush().unwrap();
        for tenant in store.inner.all_tenants() {
            let view = tenant.view.lock();
            assert_eq!((view.hot.bytes, view.hot.records.len()), (0, 0));
            for table in view.tables.all() {
                files_max = files_max.max(table.state.files.len());
                commits_max = commits_max.max(table.version());
            }
        }
    }
    assert!(files_max <= 5, "{files_max} live files");
    assert!(commits_max <= u64::from(ROUNDS) * 4, "{commits_max} commits");
    let census = |store: &Store| {
        for id in &ids {
            let page = store.runs(id, &RunFilter::default(), None, 1_000).unwrap();
            assert_eq!(page.items.len(), usize::from(ROUNDS), "{id}");
            assert_eq!(store.all_records(id).unwrap().len(), 2 * usize::from(ROUNDS), "{id}");
        }
    };
    census(&store);
    crash(&store);
    drop(store);
    let store = open();
    census(&store);
    let pending = store.inner.all_tenants().iter().map(|t| t.view.lock().hot.live().len()).sum::<usize>();
    assert_eq!(pending, 0, "what was joined is derived again");
    crash(&store);
    println!(
        "scorecard: tenants: {tenants} tenants, {ROUNDS} rounds: at most {files_max} live files and {commits_max} \
        commits a table, 0 lost, 0 double"
    );
}

/// Scenario: files of texts that repeat: small on disk, and large where they are read.
/// Guarantee: files are joined up to the size that is set, and no further; what is joined keeps no other file from it.
#[test]
fn files_that_are_large_in_memory_are_joined() {
    let dir = tempfile::tempdir().unwrap();
    let settings =
        config::store::Settings { small_files_max: 2, join_bytes_max: 100_000, ..Default::default() };
    let (wal, metrics) = (Default::default(), Arc::default());
    let store = Store::open(dir.path(), settings, wal, clock(), metrics, Mode::ReadWrite).unwrap();
    let text = "again and again ".repeat(2_500);
    for t in 1..=40 {
        send(&store, &[with(span(t, 2), "text", &text)]);
        store.settle_and_flush().unwrap();
    }
    let tenant = store.inner.all_tenants().remove(0);
    let spans = tenant.view.lock().tables.spans.clone();
    let sizes: Vec<u64> = spans.state.files.keys().map(|path| spans.bytes_in_memory(path).unwrap()).collect();
    assert!(sizes.iter().all(|size| *size < 110_000), "{sizes:?}");
    assert!(sizes.iter().filter(|size| **size < 50_000).count() <= 1, "{sizes:?}");
    assert_eq!(hashes(&store).len(), 40);
    crash(&store);
}

/// Scenario: small files of two days are joined.
/// Guarantee: every record stays in the partition of the day on which it came; a day that is over has one small file.
#[test]
fn a_record_moves_to_another_day() {
    let dir = tempfile::tempdir().unwrap();
    let clock = clock();
    let settings = config::store::Settings { small_files_max: 3, ..Default::default() };
    let (wal, metrics) = (Default::default(), Arc::default());
    let store = Store::open(dir.path(), settings, wal, clock.clone(), metrics, Mode::ReadWrite).unwrap();
    let mut sent = 0;
    for _ in 0..2 {
        for _ in 0..4 {
            sent += 1;
            send(&store, &[span(sent, 2)]);
            store.settle_and_flush().unwrap();
        }
        clock.advance(Duration::from_secs(86_400));
    }
    store.settle_and_flush().unwrap();
    let tenant = store.inner.all_tenants().remove(0);
    let spans = tenant.view.lock().tables.spans.clone();
    let days: Vec<(String, usize)> = spans
        .state
        .files
        .keys()
        .map(|path| {
            let rows = spans.read::<serde_json::Value>(path, None).unwrap().len();
            (path.split_once('/').unwrap().0.to_owned(), rows)
        })
        .collect();
    assert_eq!(days.iter().map(|(_, rows)| *rows).collect::<Vec<_>>(), [4, 4], "{days:?}");
    assert_ne!(days[0].0, days[1].0);
    crash(&store);
}
