//! The exporters of real SDKs against a server that is stopped and killed under them.
//!
//! `SPANREEL_RESTARTS` sets the number of restarts for each SDK (3 by default; 20 before a release).

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::Value;

use crate::harness::{Server, built_by_go, restarts, skipped};

/// Between two restarts.
const UP: Duration = Duration::from_millis(1_500);

/// Those that give a batch up when no connection can be made: what they sent last may be lost to them.
const NEVER_RETRIES: &[&str] = &["js-grpc", "go-http", "go-http-gzip"];

/// Scenario: the exporters of the Python SDK send over HTTP and gRPC, plain and gzip, while the server is restarted.
/// Guarantee: what an exporter saw acknowledged is there once; nothing is there that was never sent; each exporter goes
/// on with the next server. How often an exporter tries again is its own affair, and is printed.
#[test]
fn a_restart_loses_what_the_python_sdk_sent() {
    let python = root().join(".venv/bin/python");
    let has = |python: &Path| {
        let import =
            Command::new(python).args(["-c", "import opentelemetry.exporter.otlp.proto.grpc"]).output();
        import.is_ok_and(|out| out.status.success())
    };
    if !has(&python) {
        return skipped("no OpenTelemetry SDK for Python (pip install -r tests/requirements.txt into .venv)");
    }
    let mut sender = Command::new(python);
    let _ = sender.arg(root().join("tests/senders/send.py"));
    survives_restarts(sender, &["py-http", "py-http-gzip", "py-grpc", "py-grpc-gzip"]);
}

/// Scenario: the exporters of the JavaScript SDK send JSON, protobuf and gRPC while the server is restarted.
/// Guarantee: as above.
#[test]
fn a_restart_loses_what_the_javascript_sdk_sent() {
    let folder = root().join("tests/senders");
    let has_node = Command::new("node").arg("--version").output().is_ok_and(|out| out.status.success());
    if !has_node || !folder.join("node_modules").exists() {
        return skipped("no OpenTelemetry SDK for JavaScript (npm install in tests/senders)");
    }
    let mut sender = Command::new("node");
    let _ = sender.arg(folder.join("send.mjs"));
    survives_restarts(sender, &["js-http-json", "js-http-json-gzip", "js-http-proto", "js-grpc"]);
}

/// Scenario: the exporters of the Go SDK send over HTTP and gRPC, plain and gzip, while the server is restarted.
/// Guarantee: as above.
#[test]
fn a_restart_loses_what_the_go_sdk_sent() {
    let sender = root().join("tests/senders/go/send");
    let why = "no OpenTelemetry SDK for Go (go build -o send . in tests/senders/go)";
    if built_by_go(&sender, why) {
        survives_restarts(Command::new(sender), &["go-http", "go-http-gzip", "go-grpc", "go-grpc-gzip"]);
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn survives_restarts(mut sender: Command, services: &[&str]) {
    let restarts = restarts();
    let data = tempfile::tempdir().unwrap();
    let mut server = Server::start(data.path());
    let seconds = (UP * (restarts + 1)).as_secs_f64();
    let sender = sender
        .args([server.otlp_http(), server.otlp_grpc(), seconds.to_string()])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    for restart in 0..restarts {
        std::thread::sleep(UP);
        let ports = server.ports();
        if restart % 2 == 0 {
            server.kill();
        } else {
            assert!(server.terminate().success());
        }
        server = Server::start_on(data.path(), ports, &[]);
    }
    let told = sender.wait_with_output().unwrap();
    assert!(told.status.success());
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    let ids = |service: &str, what: &str| -> BTreeSet<String> {
        told[service][what].as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect()
    };
    let all = |what: &str| -> BTreeSet<String> { services.iter().flat_map(|s| ids(s, what)).collect() };
    let (sent, acknowledged) = (all("sent"), all("acknowledged"));
    let mut stored: BTreeMap<String, usize> = BTreeMap::new();
    let mut seen: BTreeSet<String> = BTreeSet::new();
    for line in server.get_lines("/v1/otlp") {
        for resource in line["resourceSpans"].as_array().unwrap() {
            let attributes = resource["resource"]["attributes"].as_array().unwrap();
            let name = attributes.iter().find(|a| a["key"] == "service.name").unwrap();
            let _ = seen.insert(name["value"]["stringValue"].as_str().unwrap().to_owned());
            let scopes = resource["scopeSpans"].as_array().unwrap();
            for span in scopes.iter().flat_map(|s| s["spans"].as_array().unwrap()) {
                *stored.entry(span["spanId"].as_str().unwrap().to_owned()).or_default() += 1;
            }
        }
    }
    let lost = acknowledged.iter().filter(|id| !stored.contains_key(*id)).count();
    let doubled = stored.values().filter(|n| **n > 1).count();
    let invented = stored.keys().filter(|id| !sent.contains(*id)).count();
    let given_up: Vec<_> = services
        .iter()
        .map(|service| format!("{service} {}", ids(service, "sent").difference(&acknowledged).count()))
        .collect();
    println!(
        "scorecard: 29 interop, {}: {restarts} restarts, {} spans sent, {} acknowledged, {lost} lost, {doubled} double, {invented} invented; given up by {}",
        services.first().map_or("", |s| s.split('-').next().unwrap_or_default()),
        sent.len(),
        acknowledged.len(),
        given_up.join(", ")
    );
    assert!(!sent.is_empty() && seen == services.iter().map(|s| (*s).to_owned()).collect());
    assert_eq!((lost, doubled, invented), (0, 0, 0));
    for service in services.iter().filter(|service| !NEVER_RETRIES.contains(service)) {
        let last = told[service]["acknowledged"].as_array().and_then(|all| all.last()?.as_str());
        let late = told[service]["sent"]
            .as_array()
            .map(|all| all.iter().rev().take(400).any(|id| id.as_str() == last));
        assert_eq!(late, Some(true), "{service} never came back");
    }
}
