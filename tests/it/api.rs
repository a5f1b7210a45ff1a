//! The HTTP API over real sockets.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::harness::Server;

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
    let slow = answer("Content-Length: 100\r\nConnection: close", "{");
    assert!(slow.starts_with("HTTP/1.1 408 ") && slow.contains("body_timeout"), "{slow}");
    assert!(begun.elapsed() < Duration::from_secs(10));
    let large = answer("Content-Length: 101\r\nConnection: close", &" ".repeat(101));
    assert!(large.starts_with("HTTP/1.1 413 ") && large.contains("api.body_bytes_max"), "{large}");
}
