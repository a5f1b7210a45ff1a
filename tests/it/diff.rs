//! Two runs compared: exit codes, and one answer from folder and server.

use std::path::Path;

use serde_json::{Value, json};

use crate::harness::{Server, new_key, output};

/// An agent that asks a tool once: a model call, the tool, a model call. The names of its ids end in `n`.
fn request(n: u8, run: &str, sky: &str, answer: &str) -> Value {
    let messages = |all: Value| all.to_string();
    let question = json!({"role": "user", "parts": [{"type": "text", "content": "Weather in Paris?"}]});
    let call = json!({"role": "assistant", "parts": [{"type": "tool_call", "id": format!("call_{n}"),
        "name": "weather", "arguments": {"city": "Paris"}}]});
    let result = json!({"role": "tool", "parts": [{"type": "tool_call_response", "id": format!("call_{n}"),
        "response": {"sky": sky}}]});
    let said = json!({"role": "assistant", "parts": [{"type": "text", "content": answer}]});
    let text = |key: &str, value: String| json!({"key": key, "value": {"stringValue": value}});
    let span = |id: u64, operation: &str, attributes: Vec<Value>| {
        let parent = if id == 1 { String::new() } else { format!("{:016x}", u64::from(n) * 16 + 1) };
        let start = 1_790_000_000_000_000_000 + u64::from(n) * 1_000_000_000 + id * 1_000_000;
        let own = [
            text("gen_ai.operation.name", operation.into()),
            text("eai.run_id", run.into()),
            text("gen_ai.request.model", "m".into()),
        ];
        json!({"traceId": format!("{n:032x}"), "spanId": format!("{:016x}", u64::from(n) * 16 + id),
            "parentSpanId": parent, "name": operation, "startTimeUnixNano": start.to_string(),
            "endTimeUnixNano": (start + if id == 1 { 9_000_000 } else { 500_000 }).to_string(),
            "attributes": own.into_iter().chain(attributes).collect::<Vec<_>>()})
    };
    let chat = |id: u64, input: Value, output: Value| {
        let content = [("gen_ai.input.messages", input), ("gen_ai.output.messages", output)];
        span(id, "chat", content.map(|(key, all)| text(key, messages(all))).into())
    };
    let tool = [
        ("gen_ai.tool.name", json!("weather")),
        ("gen_ai.tool.call.id", json!(format!("call_{n}"))),
        ("gen_ai.tool.call.arguments", json!(json!({"city": "Paris"}).to_string())),
        ("gen_ai.tool.call.result", json!(json!({"sky": sky}).to_string())),
    ];
    let tool = tool.map(|(key, value)| text(key, value.as_str().unwrap().to_owned()));
    let spans = [
        span(1, "invoke_agent", vec![text("gen_ai.agent.name", "helper".into())]),
        chat(2, json!([question]), json!([call])),
        span(3, "execute_tool", tool.into()),
        chat(4, json!([question, call, result]), json!([said])),
    ];
    json!({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})
}

/// Writes runs `same-1` and `same-2`, which differ by ids and times alone, and `other`.
fn saved(folder: &Path) -> String {
    let all = [
        request(1, "same-1", "clear", "It is sunny today."),
        request(2, "same-2", "clear", "It is sunny today."),
        request(3, "other", "grey", "It is rainy today."),
    ];
    let path = folder.join("saved.jsonl");
    std::fs::write(&path, all.map(|request| format!("{request}\n")).concat()).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The exit code, what was answered and what was said.
fn diff(arguments: &[&str]) -> (i32, String, String) {
    let out = output(&[&["diff"], arguments].concat());
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (out.status.code().unwrap(), text(out.stdout), text(out.stderr))
}

/// Scenario: runs that differ by nothing but ids and times, by a result and an answer, and one that is not there are
/// compared in a folder.
/// Guarantee: exit codes 0, 1, 66; what differs is named with its words, once.
#[test]
fn a_difference_ends_like_none() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let place = ["--data", data.to_str().unwrap()];
    assert!(output(&["import", &saved(dir.path()), place[0], place[1]]).status.success());
    let (code, text, _) = diff(&["same-1", "same-2", place[0], place[1]]);
    assert!(code == 0 && text.contains("3 steps the same"), "{code} {text}");
    let (code, text, _) = diff(&["same-1", "other", place[0], place[1]]);
    assert_eq!(code, 1, "{text}");
    for part in [
        "[-clear-]{+grey+}",
        "It is [-sunny-]{+rainy+} today.",
        "\n  1 step the same\n",
        "#1 tool_call weather",
    ] {
        assert_eq!(text.matches(part).count(), 1, "{part}: {text}");
    }
    assert!(!text.contains('\u{1b}') && text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let (code, json, _) = diff(&["same-1", "other", "--json", place[0], place[1]]);
    let document: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, &document["same"], &document["steps"][2]["inherited"]), (1, &json!(false), &json!(1)));
    // An id that the run also goes by.
    let (code, by_alias, _) =
        diff(&[&format!("{:032x}", 1), &format!("{:032x}", 3), "--json", place[0], place[1]]);
    assert_eq!((code, by_alias), (1, json));
    for runs in [["same-1", "none"], ["none", "same-1"]] {
        let (code, text, said) = diff(&[runs[0], runs[1], place[0], place[1]]);
        assert!(code == 66 && text.is_empty() && said.contains("no run none"), "{code} {text} {said}");
    }
}

/// Scenario: the same comparisons are asked of a server that lets in keys, also by other ids of the runs.
/// Guarantee: the route, the command through the server and the folder give one document; a run that is not there is
/// a problem of the API and the same exit code.
#[test]
fn a_server_compares_otherwise_than_a_folder() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let (key, entry) = new_key("default", "developer");
    let config = dir.path().join("spanreel.yaml");
    let settings = json!({"access": {"keys": [entry]}, "store": {"settle_after_s": 0}});
    std::fs::write(&config, settings.to_string()).unwrap();
    assert!(output(&["import", &saved(dir.path()), "--data", data.to_str().unwrap()]).status.success());
    let folder = |a: &str, b: &str| diff(&[a, b, "--json", "--data", data.to_str().unwrap()]);
    let from_folder = [folder("same-1", "same-2"), folder("other", "same-1"), folder("none", "same-1")];
    let server = Server::start_with(&data, &["--config", config.to_str().unwrap()]);
    let remote = |a: &str, b: &str| diff(&[a, b, "--json", "--url", &server.api(), "--key", &key]);
    assert_eq!(
        [remote("same-1", "same-2"), remote("other", "same-1"), remote("none", "same-1")],
        from_folder
    );
    let alias = |n: u8| format!("{n:032x}");
    assert_eq!(remote(&alias(3), &alias(1)), from_folder[1]);
    assert_eq!(remote("same-1", "none").0, 66);
    let get = |path: &str| {
        let agent: ureq::Agent =
            ureq::Agent::config_builder().max_redirects(0).http_status_as_error(false).build().into();
        let request = agent.get(format!("{}/v1/runs/{path}", server.api()));
        let mut answer = request.header("authorization", format!("Bearer {key}")).call().unwrap();
        let location = answer.headers().get("location").map(|value| value.to_str().unwrap().to_owned());
        (answer.status().as_u16(), location, answer.body_mut().read_to_string().unwrap())
    };
    let parsed = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    for path in ["other/diff/same-1".to_owned(), format!("other/diff/{}", alias(1))] {
        let (status, _, body) = get(&path);
        assert_eq!((status, parsed(&body)), (200, parsed(&from_folder[1].1)), "{path}");
    }
    let (status, location, _) = get(&format!("{}/diff/same-1", alias(3)));
    assert_eq!((status, location.as_deref()), (308, Some("/v1/runs/other/diff/same%2D1")));
    for path in ["other/diff/none", "none/diff/other"] {
        let (status, _, body) = get(path);
        assert_eq!((status, &parsed(&body)["error"]["code"]), (404, &json!("run_not_found")), "{path}");
    }
}
