//! What a round of writing costs when ever more is stored.

use super::*;

/// Bytes of the data files that commits of `table` have added so far.
fn written(path: &Path, table: schema::Table) -> u64 {
    let log = path.join("tables").join(TenantId::embedded().as_str()).join(table.name()).join("_delta_log");
    let mut bytes = 0;
    for entry in std::fs::read_dir(log).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        for action in text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()) {
            bytes += action.pointer("/add/size").and_then(serde_json::Value::as_u64).unwrap_or_default();
        }
    }
    bytes
}

/// A model call of trace `t` with text that does not compress.
fn call(t: u8) -> Span {
    let text: String = (0..200_u8).map(|n| blake3::hash(&[t, n]).to_hex().to_string()).collect();
    let said =
        serde_json::json!([{"role": "user", "parts": [{"type": "text", "content": text}]}]).to_string();
    let value = Some(AnyValue { value: Some(Any::StringValue(said)) });
    let mut span = span(t, 1);
    span.attributes[0].value = Some(AnyValue { value: Some(Any::StringValue("chat".into())) });
    span.attributes.push(KeyValue { key: "gen_ai.input.messages".into(), value, ..KeyValue::default() });
    span
}

/// Scenario: a run comes each round, and is in the tables before it has settled; the next round it has.
/// Guarantee: what a round writes does not grow with what is stored: with thirty runs it is what it was with ten.
#[test]
fn a_round_rewrites_runs_that_it_has_nothing_of() {
    let dir = tempfile::tempdir().unwrap();
    let clock = clock();
    let settings = config::store::Settings { small_files_max: 1_000, ..Default::default() };
    let (wal, metrics) = (Default::default(), Arc::default());
    let store = Store::open(dir.path(), settings, wal, clock.clone(), metrics, Mode::ReadWrite).unwrap();
    let tables = [schema::Table::Messages, schema::Table::RunSteps, schema::Table::Runs];
    let mut after = Vec::new();
    for t in 1..=30 {
        send(&store, &[call(t)]);
        store.inner.catch_up();
        store.inner.write_tables(true, false).unwrap();
        clock.advance(Duration::from_secs(6));
        if t % 10 == 0 {
            after.push(tables.map(|table| written(dir.path(), table)));
        }
    }
    store.inner.write_tables(true, false).unwrap();
    for (n, table) in tables.iter().enumerate() {
        let (first, last) = (after[0][n], after[2][n] - after[1][n]);
        assert!(
            last < first * 3 / 2,
            "{}: {last} bytes in ten rounds, {first} in the first ten",
            table.name()
        );
        assert_eq!(rows(&store, *table).len(), 30, "{}", table.name());
    }
    crash(&store);
}

/// Scenario: as above, and four files are joined to one that is small no more.
/// Guarantee: a row is written three times: open, settled, joined.
#[test]
fn a_file_is_joined_with_one_that_is_replaced_soon() {
    let dir = tempfile::tempdir().unwrap();
    let clock = clock();
    let settings =
        config::store::Settings { small_files_max: 4, small_file_bytes: 30_000, ..Default::default() };
    let (wal, metrics) = (Default::default(), Arc::default());
    let store = Store::open(dir.path(), settings, wal, clock.clone(), metrics, Mode::ReadWrite).unwrap();
    for t in 1..=24 {
        send(&store, &[call(t)]);
        store.inner.catch_up();
        store.inner.write_tables(true, false).unwrap();
        clock.advance(Duration::from_secs(6));
    }
    store.inner.write_tables(true, false).unwrap();
    let tenant = store.inner.all_tenants().remove(0);
    let table = tenant.view.lock().tables.messages.clone();
    let live: i64 = table.state.files.values().map(|file| file.size).sum();
    let written = written(dir.path(), schema::Table::Messages);
    let live = u64::try_from(live).unwrap();
    // A file has bytes of its own, which joined ones share.
    assert!(written < live * 4, "{written} bytes written, {live} live");
    assert_eq!(rows(&store, schema::Table::Messages).len(), 24);
    crash(&store);
}
