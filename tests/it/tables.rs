//! The tables, as foreign engines see them.

use crate::harness::{Server, captures, json, output, readers};

/// Scenario: captures are imported; the folder is then opened by DuckDB, Polars, pandas and deltalake.
/// Guarantee: each engine opens all five tables and counts the same rows as the API tells.
#[test]
fn a_foreign_reader_cannot_open_a_table() {
    let data = tempfile::tempdir().unwrap();
    let path = data.path().to_str().unwrap();
    for capture in captures().iter().filter(|c| c.to_str().unwrap().contains("py-genai")) {
        let import = output(&["import", capture.to_str().unwrap(), "--data", path]);
        assert!(import.status.success(), "{}", String::from_utf8_lossy(&import.stderr));
    }
    let Some(seen) = readers(&data.path().join("tables/default")) else {
        println!("skipped: no foreign readers (pip install -r tests/requirements.txt into .venv)");
        return;
    };
    assert_eq!(seen["duckdb"], seen["polars"]);
    assert_eq!(seen["duckdb"], seen["pandas"]);
    let runs = json(&["runs", "--json", "--data", path]);
    let runs = runs.as_array().unwrap();
    assert_eq!(seen["duckdb"]["runs"].as_u64(), Some(runs.len() as u64));
    let steps: usize = runs
        .iter()
        .map(|r| {
            let document = json(&["replay", r["run_id"].as_str().unwrap(), "--json", "--data", path]);
            document["steps"].as_array().unwrap().len()
        })
        .sum();
    assert_eq!(seen["duckdb"]["run_steps"].as_u64(), Some(steps as u64));
    let model = &seen["model"];
    assert!(model.as_array().is_some_and(|m| !m.is_empty()), "attributes can be asked for: {model}");
}

/// Scenario: the same capture is imported twice, once into an unheld folder and once through its server.
/// Guarantee: the second import changes nothing, and both ways give the same answer.
#[test]
fn a_second_import_doubles_a_run() {
    let data = tempfile::tempdir().unwrap();
    let path = data.path().to_str().unwrap();
    let capture = captures().into_iter().find(|c| c.ends_with("py-genai-openai")).unwrap();
    let import = || output(&["import", capture.to_str().unwrap(), "--data", path]);
    assert!(import().status.success());
    let before = json(&["runs", "--json", "--data", path]);
    let server = Server::start(data.path());
    assert!(import().status.success());
    let held = json(&["runs", "--json", "--data", path]);
    assert!(server.terminate().success());
    let after = json(&["runs", "--json", "--data", path]);
    let digests = |runs: &serde_json::Value| -> Vec<(String, String)> {
        let rows = runs.as_array().unwrap();
        rows.iter().map(|r| (r["run_id"].to_string(), r["record_digest"].to_string())).collect()
    };
    assert_eq!(digests(&before), digests(&held));
    assert_eq!(digests(&before), digests(&after));
}
