//! A session that a test runner leads an agent to: `simulate` without a command.

use std::{
    io::{BufRead, BufReader, Write},
    process::Stdio,
};

use serde_json::Value;

use crate::harness::{captures, json, output, spanreel};

/// Scenario: a test runner opens a session on a data folder, asks for the report twice, and closes the input.
/// Guarantee: a line for the session, one for each time it asks, one at the end; the exit code is that of the verdict.
#[test]
fn a_report_is_there_only_when_the_session_is_over() {
    let data = tempfile::tempdir().unwrap();
    let path = data.path().to_str().unwrap();
    let capture = captures().into_iter().find(|c| c.ends_with("py-oinf-openai")).unwrap();
    assert!(output(&["import", capture.to_str().unwrap(), "--data", path]).status.success());
    let runs = json(&["runs", "--json", "--data", path]);
    let run = runs[0]["run_id"].as_str().unwrap();
    let mut command = spanreel(&["simulate", run, "--allow-partial", "--json", "--data", path]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    assert!(next()["env"]["OPENAI_BASE_URL"].is_string());
    for ask in ["report\n", "\n"] {
        input.write_all(ask.as_bytes()).unwrap();
        let so_far = next();
        assert_eq!((&so_far["run_id"], &so_far["verdict"]), (&Value::from(run), &Value::from("diverged")));
    }
    drop(input);
    assert_eq!(next()["matches"], serde_json::json!([]));
    assert_eq!(child.wait().unwrap().code(), Some(1));
}
