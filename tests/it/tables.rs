//! The tables, as foreign engines see them.

use crate::harness::{NO_READERS, Server, captures, json, output, readers, skipped};

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
        return skipped(NO_READERS);
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

/// Scenario: records are in the tables, and others of the same run are in memory only; SQL counts them.
/// Guarantee: every record and every step once; a statement that writes is refused.
#[test]
#[cfg(feature = "sql")]
fn sql_counts_a_record_twice_or_writes() {
    let data = tempfile::tempdir().unwrap();
    let path = data.path().to_str().unwrap();
    let capture = captures().into_iter().find(|c| c.ends_with("py-genai-openai-agents")).unwrap();
    let mut files: Vec<_> = std::fs::read_dir(capture).unwrap().map(|e| e.unwrap().path()).collect();
    files.retain(|f| f.to_str().unwrap().ends_with(".traces.pb"));
    files.sort();
    let (first, rest) = files.split_at(4);
    let import = |files: &[std::path::PathBuf]| {
        let mut arguments = vec!["import", "--data", path];
        arguments.extend(files.iter().map(|f| f.to_str().unwrap()));
        assert!(output(&arguments).status.success());
    };
    import(first);
    let server = Server::start(data.path());
    import(rest);
    let ask = |query: &str| {
        let body = serde_json::json!({ "query": query });
        let request =
            ureq::post(&format!("{}/v1/sql", server.api())).config().http_status_as_error(false).build();
        let mut answer = request.send_json(body).unwrap();
        (answer.status().as_u16(), answer.body_mut().read_json::<serde_json::Value>().unwrap())
    };
    let (_, spans) = ask("SELECT count(*) AS n, count(DISTINCT span_id) AS d FROM spans");
    assert_eq!(spans["rows"][0], serde_json::json!({"n": 14, "d": 14}));
    let runs = json(&["runs", "--json", "--data", path]);
    let steps: u64 = runs
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|r| r["steps"].as_object().unwrap().values().filter_map(serde_json::Value::as_u64))
        .sum();
    let (_, counted) = ask("SELECT count(*) AS n FROM run_steps");
    assert_eq!(counted["rows"][0]["n"].as_u64(), Some(steps));
    assert_eq!(ask("DROP TABLE spans").0, 400);
}
