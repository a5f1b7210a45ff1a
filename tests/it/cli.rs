//! The command line: what it answers, and how it refuses.

use std::{net::TcpListener, path::Path};

use crate::harness::{Server, captures, json, new_key, output, spanreel};

fn capture(name: &str) -> String {
    captures().into_iter().find(|c| c.ends_with(name)).unwrap().to_str().unwrap().to_owned()
}

fn stderr(arguments: &[&str], code: i32) -> String {
    let out = output(arguments);
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(code), "{arguments:?}: {said}");
    said
}

/// Scenario: a capture is imported; a run that it does not hold, and a folder that is not there, are asked for.
/// Guarantee: exit code 66 and one line that says what to do.
#[test]
fn an_unknown_run_or_folder_ends_like_a_bug() {
    let data = tempfile::tempdir().unwrap();
    let path = data.path().to_str().unwrap();
    assert!(output(&["import", &capture("py-pydantic-v2"), "--data", path]).status.success());
    let said = stderr(&["replay", "no-such-run", "--json", "--data", path], 66);
    assert!(said.contains("spanreel runs") && said.lines().count() == 1, "{said}");
    let none = data.path().join("none");
    assert!(stderr(&["runs", "--data", none.to_str().unwrap()], 66).contains("--data"));
}

/// Scenario: files that are no telemetry are named; half a request lies in a folder.
/// Guarantee: each is named with a reason, exit code 1, and what is good is taken.
#[test]
fn a_bad_file_is_taken_or_stops_the_good_ones() {
    let data = tempfile::tempdir().unwrap();
    let path = data.path().join("data");
    let path = path.to_str().unwrap();
    let notes = Path::new(&capture("py-pydantic-v2")).join("NOTES.md");
    assert!(stderr(&["import", notes.to_str().unwrap(), "--data", path], 1).contains("not OTLP"));
    let folder = data.path().join("saved");
    std::fs::create_dir(&folder).unwrap();
    let good = std::fs::read(Path::new(&capture("py-pydantic-v2")).join("001.traces.pb")).unwrap();
    std::fs::write(folder.join("1.pb"), &good[..good.len() / 2]).unwrap();
    std::fs::write(folder.join("2.pb"), &good).unwrap();
    assert!(stderr(&["import", folder.to_str().unwrap(), "--data", path], 1).contains("1.pb"));
    assert_eq!(json(&["runs", "--json", "--data", path]).as_array().unwrap().len(), 1);
}

/// Scenario: a frame was set aside by a version that could not read it; another can.
/// Guarantee: it is listed with whose it is and why, taken into its tenant, and gone from the list; bytes that are no
/// request stay, and the exit code says so.
#[test]
fn what_was_set_aside_cannot_be_taken_again() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().to_str().unwrap();
    assert!(output(&["import", &capture("py-pydantic-v2"), "--data", data]).status.success());
    let good = std::fs::read(Path::new(&capture("py-pydantic-v2")).join("001.traces.pb")).unwrap();
    let folder = dir.path().join("wal/quarantine");
    std::fs::create_dir_all(&folder).unwrap();
    for (seq, bytes) in [(7, good), (8, b"no request".to_vec())] {
        let name = format!("frame-{seq:020}");
        std::fs::write(folder.join(format!("{name}.traces")), bytes).unwrap();
        let note = serde_json::json!({"seq": seq, "tenant": "acme", "received_at": 1_790_000_000_000_000_000_u64,
            "kind": "traces", "reason": "it panics"});
        std::fs::write(folder.join(format!("{name}.json")), note.to_string()).unwrap();
    }
    let listed = |data: &str| json(&["quarantine", "list", "--json", "--data", data]);
    let before = listed(data);
    assert_eq!(
        (&before[0]["seq"], &before[0]["tenant"], &before[1]["reason"]),
        (&7.into(), &"acme".into(), &"it panics".into())
    );
    assert!(stderr(&["quarantine", "retry", "9", "--data", data], 66).contains("quarantine list"));
    // A note that names a place, and one that is none, hide nothing.
    std::fs::write(folder.join("frame-1.json"), before[0].to_string().replace("traces", "../../x")).unwrap();
    std::fs::write(folder.join("frame-2.json"), "{").unwrap();
    assert_eq!(listed(data), before);
    assert!(
        stderr(&["quarantine", "list", "--data", data], 0).contains("2 notes in quarantine cannot be read")
    );
    // A server would take it for the tenant of a key.
    let server = Server::start(dir.path());
    let held = stderr(&["quarantine", "retry", "--data", data], 73);
    assert!(held.contains("in use") && held.contains("stop it") && !held.contains("--url"), "{held}");
    for ignored in [["--url", "http://127.0.0.1:1"], ["--tenant", "acme"], ["--key", "k"]] {
        let _ = stderr(&[&["quarantine", "list", "--data", data][..], &ignored].concat(), 2);
    }
    let other = ["import", &capture("py-pydantic-v2"), "--data", data, "--tenant", "acme"];
    assert!(stderr(&other, 2).contains("--key"));
    assert!(server.terminate().success());
    assert_eq!(listed(data), before);
    let retried = output(&["quarantine", "retry", "--data", data]);
    let said = String::from_utf8(retried.stdout).unwrap();
    assert!(retried.status.code() == Some(1) && said.contains("frame 8 stays: the request"), "{said}");
    assert_eq!(listed(data).as_array().map(Vec::len), Some(1));
    let runs = json(&["runs", "--json", "--data", data, "--tenant", "acme"]);
    assert_eq!(runs.as_array().map(Vec::len), Some(1));
}

/// Scenario: a tenant is named beside the URL of a server, to read and to import.
/// Guarantee: exit code 2, and how to choose a tenant there; nothing is asked or sent.
#[test]
fn a_tenant_that_a_server_cannot_be_told_is_ignored() {
    let url = ["--url", "http://127.0.0.1:1", "--tenant", "acme"];
    for command in [&["runs"][..], &["import", &capture("py-pydantic-v2")], &["sql", "SELECT 1"]] {
        assert!(stderr(&[command, &url].concat(), 2).contains("--key"));
    }
}

/// Scenario: a server with keys is read and sent to without one, and with one that may only send; one that takes small
/// requests gets a large one.
/// Guarantee: exit code 1, as for all that is refused, and what to do; 69 is left for a server that is not there.
#[test]
fn a_refusal_by_a_server_looks_like_a_server_that_is_down() {
    let dir = tempfile::tempdir().unwrap();
    let (key, entry) = new_key("acme", "writer");
    let config = dir.path().join("keys.yaml");
    std::fs::write(&config, serde_json::json!({"access": {"keys": [entry]}}).to_string()).unwrap();
    let data = dir.path().join("data");
    let server = Server::start_with(&data, &["--config", config.to_str().unwrap()]);
    let api = server.api();
    assert!(stderr(&["runs", "--url", &api], 1).contains("--key"));
    assert!(stderr(&["runs", "--url", &api, "--key", &key], 1).contains("another role"));
    assert!(stderr(&["import", &capture("py-pydantic-v2"), "--url", &api], 1).contains("--key"));
    assert!(server.terminate().success());
    let small = Server::start_set(&data, &[("otlp.request_bytes_max", 1000)]);
    let said = stderr(&["import", &capture("py-pydantic-v2"), "--url", &small.api()], 1);
    assert!(said.contains("001.traces.pb") && said.contains("413"), "{said}");
    assert!(small.terminate().success());
    let _ = stderr(&["runs", "--url", &api], 69);
}

/// Scenario: a port is taken; the server is told to use it.
/// Guarantee: exit code 69, the flag is named.
#[test]
fn a_taken_port_is_not_named() {
    let data = tempfile::tempdir().unwrap();
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = held.local_addr().unwrap().to_string();
    let path = data.path().to_str().unwrap();
    let free = "127.0.0.1:0";
    let said = stderr(
        &[
            "serve",
            "--data",
            path,
            "--listen-api",
            &address,
            "--listen-otlp-http",
            free,
            "--listen-otlp-grpc",
            free,
        ],
        69,
    );
    assert!(said.contains("--listen-api"), "{said}");
}

/// Scenario: a server holds a folder; another is started on it. The first is asked, then stopped by SIGTERM.
/// Guarantee: the second exits with 73; reads through the folder and the URL agree; the stop is clean.
#[test]
fn a_folder_is_held_twice_or_answers_differ() {
    let data = tempfile::tempdir().unwrap();
    let path = data.path().to_str().unwrap();
    let server = Server::start(data.path());
    let free = "127.0.0.1:0";
    let second = [
        "serve",
        "--data",
        path,
        "--listen-api",
        free,
        "--listen-otlp-http",
        free,
        "--listen-otlp-grpc",
        free,
    ];
    let _ = stderr(&second, 73);
    assert!(output(&["import", &capture("py-pydantic-v2"), "--data", path]).status.success());
    let runs = json(&["runs", "--json", "--data", path]);
    assert_eq!(runs, json(&["runs", "--json", "--url", &server.api()]));
    let id = runs[0]["run_id"].as_str().unwrap();
    // While more may arrive the held run is open; a folder that nobody holds has no such runs.
    for _ in 0..100 {
        if json(&["replay", id, "--json", "--data", path])["settled"] == true {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    let held = json(&["replay", id, "--json", "--data", path]);
    assert!(server.terminate().success());
    assert_eq!(held, json(&["replay", id, "--json", "--data", path]));
}

/// Scenario: a configuration with a key that is no option; an address that others can reach, without keys.
/// Guarantee: exit code 78, and the message names the key or the flag.
#[test]
fn a_configuration_that_cannot_hold_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("spanreel.yaml");
    let check = ["check-config", "--config", file.to_str().unwrap()];
    std::fs::write(&file, "lisen: {}\n").unwrap();
    assert!(stderr(&check, 78).contains("lisen"));
    std::fs::write(&file, "listen: {api: \"0.0.0.0:4319\"}\n").unwrap();
    assert!(stderr(&check, 78).contains("--listen-api"));
    std::fs::write(&file, "listen: {api: \"127.0.0.1:4319\"}\n").unwrap();
    let out = spanreel(&check).output().unwrap();
    assert!(out.status.success());
    assert!(String::from_utf8(out.stdout).unwrap().contains("may be bound"));
}
