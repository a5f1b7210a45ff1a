//! The HTTP API over real sockets.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::harness::{Server, new_key};

/// Scenario: an auditor's key asks for the list and the rows of runs, one of which ended with what its tool answered.
/// Guarantee: it is told that the run failed, and not the tool's words; content is refused. A developer reads both.
#[test]
fn an_auditor_reads_what_a_tool_answered() {
    let data = tempfile::tempdir().unwrap();
    let keys = ["auditor", "developer"].map(|role| new_key("acme", role));
    let entries = keys.each_ref().map(|(_, entry)| entry.clone());
    let config = data.path().join("spanreel.yaml");
    std::fs::write(&config, json!({"access": {"keys": entries}, "store": {"settle_after_s": 0}}).to_string())
        .unwrap();
    let server = Server::start_with(&data.path().join("data"), &["--config", config.to_str().unwrap()]);
    let attribute = |key: &str, value: &str| json!({"key": key, "value": {"stringValue": value}});
    let span = json!({
        "traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "00f067aa0ba902b7", "name": "execute_tool t",
        "startTimeUnixNano": "1790000000000000000", "endTimeUnixNano": "1790000000500000000",
        "status": {"code": 2, "message": "the account of Ada is locked"},
        "attributes": [attribute("gen_ai.operation.name", "execute_tool"), attribute("gen_ai.tool.name", "t"),
            attribute("error.type", "Locked")],
    });
    let request = json!({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).to_string();
    let [(auditor, _), (developer, _)] = &keys;
    let sent = ureq::post(&format!("{}/v1/traces", server.otlp_http()))
        .header("authorization", &format!("Bearer {developer}"))
        .header("content-type", "application/json")
        .send(&request);
    assert_eq!(sent.unwrap().status(), 200);
    let get = |key: &str, path: &str| {
        let request =
            ureq::get(&format!("{}{path}", server.api())).config().http_status_as_error(false).build();
        let mut answer = request.header("authorization", &format!("Bearer {key}")).call().unwrap();
        (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap())
    };
    for path in ["/v1/runs", "/v1/runs/0af7651916cd43dd8448eb211c80319c"] {
        let (status, text) = get(auditor, path);
        assert!(status == 200 && text.contains("Locked") && !text.contains("Ada"), "{path}: {status} {text}");
        let (status, text) = get(developer, path);
        assert!(status == 200 && text.contains("Ada"), "{path}: {status} {text}");
    }
    let itself = "diff/0af7651916cd43dd8448eb211c80319c";
    for what in ["replay", "steps", "steps/0", "otlp", "checkpoints", itself] {
        let path = format!("/v1/runs/0af7651916cd43dd8448eb211c80319c/{what}");
        assert_eq!((get(auditor, &path).0, get(developer, &path).0), (403, 200), "{what}");
    }
}

/// Scenario: a checkpoint is posted twice with other contents, before and after the first span of its run.
/// Guarantee: one version speaks, whole, and it is the same one before and after.
#[test]
fn versions_of_a_checkpoint_are_mixed() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path());
    let url = format!("{}/v1/runs/r/checkpoints", server.api());
    for body in [
        r#"{"checkpoint_id":"c","state":{"n":1},"namespace":"a"}"#,
        r#"{"checkpoint_id":"c","state":{"n":2},"step_index":0,"parent_checkpoint_id":"b"}"#,
    ] {
        assert_eq!(ureq::post(&url).send(body).unwrap().status(), 201);
    }
    let listed = || -> Value {
        let mut answer = ureq::get(&url).call().unwrap();
        answer.body_mut().read_json::<Value>().unwrap()["checkpoints"].clone()
    };
    let before = listed();
    assert_eq!(before.as_array().map(Vec::len), Some(1));
    assert_eq!((&before[0]["state"], &before[0]["namespace"]), (&json!({"n": 2}), &Value::Null), "{before}");
    let span = json!({
        "traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "00f067aa0ba902b7", "name": "chat m",
        "startTimeUnixNano": "1790000000000000000", "endTimeUnixNano": "1790000000500000000",
        "attributes": [{"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
            {"key": "eai.run_id", "value": {"stringValue": "r"}}],
    });
    let request = json!({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).to_string();
    let sent = ureq::post(&format!("{}/v1/traces", server.otlp_http()))
        .header("content-type", "application/json")
        .send(&request);
    assert_eq!(sent.unwrap().status(), 200);
    assert_eq!(listed(), before);
}

/// Scenario: a checkpoint is posted for a run of which no span came yet; the server is killed and started again.
/// Guarantee: it is listed, before and after.
#[test]
fn a_checkpoint_without_spans_is_hidden() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path());
    let listed = |server: &Server| -> Value {
        let mut answer = ureq::get(&format!("{}/v1/runs/early/checkpoints", server.api())).call().unwrap();
        answer.body_mut().read_json().unwrap()
    };
    let url = format!("{}/v1/runs/early/checkpoints", server.api());
    let body = r#"{"checkpoint_id":"chk_1","state":{"n":1}}"#;
    assert_eq!(ureq::post(&url).send(body).unwrap().status(), 201);
    let seen = listed(&server);
    assert_eq!(
        (&seen["run_id"], &seen["checkpoints"][0]["checkpoint_id"]),
        (&"early".into(), &"chk_1".into())
    );
    assert_eq!(seen["checkpoints"].as_array().map(Vec::len), Some(1));
    server.kill();
    assert_eq!(listed(&Server::start(data.path())), seen);
}

/// Scenario: a body is promised and never sent; another is larger than the limit.
/// Guarantee: 408 within the time that is set, and 413; each is named in the envelope.
#[test]
fn a_body_that_never_comes_holds_its_connection() {
    let data = tempfile::tempdir().unwrap();
    let config = data.path().join("spanreel.yaml");
    std::fs::write(&config, "api:\n  body_timeout_s: 1\n  body_bytes_max: 100\n").unwrap();
    let server = Server::start_with(&data.path().join("data"), &["--config", config.to_str().unwrap()]);
    let answer = |head: &str, body: &str| {
        let address = server.api().replace("http://", "");
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        write!(stream, "POST /v1/runs/r/checkpoints HTTP/1.1\r\nHost: {address}\r\n{head}\r\n\r\n{body}")
            .unwrap();
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text).unwrap();
        text
    };
    let begun = Instant::now();
    let slow = answer("Content-Length: 100", "{");
    assert!(slow.starts_with("HTTP/1.1 408 ") && slow.contains("body_timeout"), "{slow}");
    assert!(begun.elapsed() < Duration::from_secs(10));
    let large = answer("Content-Length: 101\r\nConnection: close", &" ".repeat(101));
    assert!(large.starts_with("HTTP/1.1 413 ") && large.contains("api.body_bytes_max"), "{large}");
}
