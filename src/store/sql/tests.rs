use arrow::{
    array::{AsArray, Int64Array, StringArray},
    datatypes::{DataType, Field, Int64Type, Schema},
};
use parquet::arrow::ArrowWriter;

use super::*;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("run_id", DataType::Utf8, false),
        Field::new("step_index", DataType::Int64, false),
    ]))
}

fn batch(rows: &[(&str, i64)]) -> RecordBatch {
    let runs = StringArray::from_iter_values(rows.iter().map(|r| r.0));
    let steps = Int64Array::from_iter_values(rows.iter().map(|r| r.1));
    RecordBatch::try_new(schema(), vec![Arc::new(runs), Arc::new(steps)]).unwrap()
}

fn file(folder: &std::path::Path, name: &str, rows: &[(&str, i64)]) -> PathBuf {
    let path = folder.join(name);
    let mut writer = ArrowWriter::try_new(std::fs::File::create(&path).unwrap(), schema(), None).unwrap();
    writer.write(&batch(rows)).unwrap();
    let _ = writer.close().unwrap();
    path
}

pub(super) fn relation(files: Vec<PathBuf>, replaced: &[&str], hot: &[(&str, i64)]) -> Relation {
    let replaced = Some(("run_id", replaced.iter().map(|r| (*r).to_owned()).collect()));
    Relation { name: "run_steps", schema: schema(), files, replaced, hot: vec![batch(hot)] }
}

async fn count(relations: Vec<Relation>, text: &str) -> i64 {
    let engine = Engine::new(&Settings::default()).unwrap();
    let collected = engine.planner.collect(relations, text).await.unwrap();
    collected.batches[0].column(0).as_primitive::<Int64Type>().value(0)
}

/// Scenario: a run has rows in a file, and new ones in memory.
/// Guarantee: its rows come from memory alone; other runs keep theirs.
#[tokio::test]
async fn a_run_in_memory_is_counted_twice() {
    let folder = tempfile::tempdir().unwrap();
    let files = vec![
        file(folder.path(), "a.parquet", &[("a", 0), ("b", 0)]),
        file(folder.path(), "b.parquet", &[("a", 1)]),
    ];
    let relations = vec![relation(files, &["a"], &[("a", 0), ("a", 1), ("a", 2)])];
    assert_eq!(count(relations, "SELECT count(*) FROM run_steps").await, 4);
}

#[tokio::test]
async fn an_empty_table_cannot_be_asked() {
    assert_eq!(count(vec![relation(vec![], &[], &[])], "SELECT count(*) FROM run_steps").await, 0);
}

#[tokio::test]
async fn a_statement_leaves_the_tables() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), "secret.parquet", &[("a", 0)]);
    let path = path.to_str().unwrap();
    let engine = Engine::new(&Settings::default()).unwrap();
    for text in [
        format!("SELECT * FROM '{path}'"),
        format!("SELECT * FROM \"{path}\""),
        format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{path}'"),
        format!("COPY (SELECT 1) TO '{path}'"),
        format!("EXPLAIN ANALYZE COPY (SELECT 1) TO '{path}'"),
        format!("SELECT * FROM read_parquet('{path}')"),
        "SET datafusion.execution.batch_size = 1".into(),
        "INSERT INTO run_steps VALUES ('x', 1)".into(),
        "DELETE FROM run_steps".into(),
        "DROP TABLE run_steps".into(),
        "CREATE TABLE t AS SELECT 1".into(),
        "SELECT * FROM information_schema.tables".into(),
        "PREPARE p AS SELECT 1".into(),
        "SELECT 1; DROP TABLE run_steps".into(),
        "not sql at all".into(),
    ] {
        let answer = engine.rows(vec![relation(vec![], &[], &[])], &text).await;
        assert!(answer.is_err(), "{text}");
    }
    assert!(std::fs::metadata(path).unwrap().len() > 0, "the file is as it was");
}

/// Scenario: an answer has more rows, then more bytes, than may be given; another is just as long as the limit.
/// Guarantee: what fits is given, and the answer says whether something was left out.
#[tokio::test]
async fn more_than_the_limit_is_kept_or_left_out_in_silence() {
    let rows: Vec<(&str, i64)> = (0..50).map(|i| ("a", i)).collect();
    let ask = async |settings: Settings| {
        let engine = Engine::new(&settings).unwrap();
        let answer =
            engine.rows(vec![relation(vec![], &[], &rows)], "SELECT * FROM run_steps").await.unwrap();
        let rows: Vec<serde_json::Value> = serde_json::from_str(answer.rows.get()).unwrap();
        (rows.len(), answer.truncated)
    };
    assert_eq!(ask(Settings { rows_max: 7, ..Settings::default() }).await, (7, true));
    assert_eq!(ask(Settings { rows_max: 50, ..Settings::default() }).await, (50, false));
    let (some, truncated) = ask(Settings { answer_bytes_max: 800, ..Settings::default() }).await;
    assert!((1..50).contains(&some) && truncated, "{some} rows");
}

/// Scenario: a query would run for hours.
/// Guarantee: it is ended in its time, and says so.
#[tokio::test]
async fn a_query_without_end_is_waited_for() {
    let rows: Vec<(&str, i64)> = (0..2_000).map(|i| ("a", i)).collect();
    let engine = Engine::new(&Settings { query_timeout_s: 1, ..Settings::default() }).unwrap();
    for text in [
        "SELECT count(*) FROM run_steps a, run_steps b, run_steps c, run_steps d \
            WHERE a.step_index + b.step_index > c.step_index * d.step_index",
        "SELECT sum(a.step_index * b.step_index) FROM run_steps a, run_steps b, run_steps c, run_steps d, \
            run_steps e, run_steps f, run_steps g",
    ] {
        let begun = std::time::Instant::now();
        let answer = engine.rows(vec![relation(vec![], &[], &rows)], text).await;
        assert!(matches!(answer, Err(Error::TooLong(_))), "{answer:?}");
        assert!(begun.elapsed() < Duration::from_secs(10));
        // The threads are free again: an ended query does not go on for itself.
        let answer = engine.rows(vec![relation(vec![], &[], &rows)], "SELECT count(*) FROM run_steps").await;
        assert!(answer.is_ok(), "{answer:?}");
    }
}
