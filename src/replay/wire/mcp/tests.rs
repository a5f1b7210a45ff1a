use serde_json::json;

use super::*;
use crate::replay::sim::call::RefusedCode;

fn modern(method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({META_VERSION: MODERN});
    json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
}

fn handshake(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
}

fn one(body: &Value, version: Option<&str>) -> Message {
    let mut posted = read(body, version);
    assert_eq!(posted.messages.len(), 1);
    posted.messages.remove(0)
}

fn answered(result: Value, is_error: bool, version: &str) -> Value {
    let message = one(&handshake("tools/call", json!({"name": "f"})), Some(version));
    message.answered(&ToolAnswer { step: Some(1), result, is_error })["result"].clone()
}

#[test]
fn a_handshake_settles_on_a_version_that_is_not_spoken() {
    let version = |asked: &str| {
        let message = one(&handshake("initialize", json!({"protocolVersion": asked})), None);
        let response = message.response(&[]).unwrap();
        assert_eq!(response["result"]["capabilities"], json!({"tools": {}}));
        assert_eq!(response["result"]["serverInfo"]["name"], "spanreel");
        response["result"]["protocolVersion"].as_str().unwrap().to_owned()
    };
    for known in HANDSHAKE {
        assert_eq!(version(known), *known);
    }
    assert_eq!(version("2026-07-28"), "2025-11-25");
    assert_eq!(version(""), "2025-11-25");
}

/// Guarantee: the newer era gets what its clients refuse a result without; the older one does not see it.
#[test]
fn a_list_lacks_what_its_era_demands() {
    let schema = json!({"properties": {"city": {"type": "string"}}});
    let tools = [
        ToolDefinition { name: "a".into(), description: "first".into(), parameters: schema },
        ToolDefinition { name: "b".into(), ..ToolDefinition::default() },
    ];
    let of = |body: &Value, version| one(body, version).response(&tools).unwrap()["result"].clone();
    let expected = json!([
        {"name": "a", "description": "first",
            "inputSchema": {"properties": {"city": {"type": "string"}}, "type": "object"}},
        {"name": "b", "inputSchema": {"type": "object"}},
    ]);
    let older = of(&handshake("tools/list", json!({})), Some("2025-06-18"));
    assert_eq!(older, json!({"tools": expected}));
    let newer = of(&modern("tools/list", json!({})), Some(MODERN));
    assert_eq!(
        newer,
        json!({"tools": expected, "ttlMs": 0, "cacheScope": "private", "resultType": "complete"})
    );
    let discovered = of(&modern("server/discover", json!({})), None);
    assert_eq!(discovered["supportedVersions"], json!([MODERN]));
    assert_eq!(discovered["resultType"], "complete");
    assert_eq!(of(&handshake("prompts/list", json!({})), None), json!({"prompts": []}));
    assert_eq!(of(&handshake("ping", json!({})), None), json!({}));
}

#[test]
fn a_call_is_read_as_another() {
    let body = modern("tools/call", json!({"name": "search", "arguments": {"q": "x"}}));
    let call = ToolCall { name: "search".into(), arguments: json!({"q": "x"}) };
    assert_eq!(one(&body, None).request, Request::CallTool(call));
    let bare = one(&handshake("tools/call", json!({"name": "now"})), None);
    assert_eq!(bare.request, Request::CallTool(ToolCall { name: "now".into(), arguments: json!({}) }));
    let nameless = one(&handshake("tools/call", json!({})), None);
    assert_eq!(nameless.response(&[]).unwrap()["error"]["code"], INVALID_PARAMS);
    let unknown = one(&handshake("resources/read", json!({})), None).response(&[]).unwrap();
    assert_eq!((&unknown["id"], &unknown["error"]["code"]), (&json!(7), &json!(METHOD_NOT_FOUND)));
}

/// Guarantee: text stays text, JSON stands beside it where the version knows of it, a result of MCP is what it was.
#[test]
fn a_result_changes_on_its_way() {
    let text = |text: &str| json!([{"type": "text", "text": text}]);
    assert_eq!(
        answered("sunny".into(), false, "2025-11-25"),
        json!({"content": text("sunny"), "isError": false})
    );
    let sky = json!({"sky": "blue"});
    let expected = json!({"content": text("{\"sky\":\"blue\"}"), "structuredContent": sky, "isError": false});
    assert_eq!(answered(sky.clone(), false, "2025-06-18"), expected);
    let old = answered(sky.clone(), false, "2025-03-26");
    assert_eq!(old, json!({"content": text("{\"sky\":\"blue\"}"), "isError": false}));
    assert_eq!(answered(json!([1, 2]), true, MODERN)["content"], text("[1,2]"));
    assert_eq!(answered(json!([1, 2]), true, MODERN)["isError"], true);
    assert_eq!(answered(Value::Null, false, MODERN)["content"], json!([]));
    // As Python's client dumps it.
    let recorded = json!({"meta": null, "content": [{"type": "text", "text": "9", "annotations": null}],
        "structuredContent": {"result": 9}, "isError": true});
    let expected = json!({"content": text("9"), "structuredContent": {"result": 9}, "isError": true});
    assert_eq!(answered(recorded, false, "2025-11-25"), expected);
    assert_eq!(answered(text("9"), false, "2025-11-25"), json!({"content": text("9"), "isError": false}));
    // What has a member of that name and is no result of MCP.
    assert_eq!(
        answered(json!({"content": ["a"]}), false, "2025-03-26")["content"],
        text("{\"content\":[\"a\"]}")
    );
    assert_eq!(answered(json!({"content": []}), false, "2025-03-26")["content"], text("{\"content\":[]}"));
    assert_eq!(answered(json!({"content": [], "isError": true}), false, "2025-03-26")["content"], json!([]));
}

#[test]
fn a_refusal_reads_as_a_result() {
    let message = one(&handshake("tools/call", json!({"name": "f"})), None);
    let refused = Refused { code: RefusedCode::Denied, step: None, message: "the policy denies f".into() };
    let made = message.refused(&refused);
    assert_eq!(made["error"]["code"], REFUSED);
    assert_eq!(made["error"]["message"], "the policy denies f");
    assert_eq!(made["error"]["data"]["code"], "spanreel_denied");
    let failed =
        message.failed(&Failed { status: 500, message: "no such order".into(), ..Failed::default() });
    assert_eq!(
        failed["result"],
        json!({"content": [{"type": "text", "text": "no such order"}], "isError": true})
    );
}

/// Scenario: the batches of 2025-03-26, notifications, answers that nobody asked for, and what is no message.
#[test]
fn a_batch_gets_one_answer_for_all() {
    let batch = json!([
        handshake("ping", json!({})),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        5,
        {"jsonrpc": "2.0", "id": 1, "result": {}},
    ]);
    let posted = read(&batch, None);
    let responses: Vec<Value> = posted.messages.iter().filter_map(|m| m.response(&[])).collect();
    let body = posted.body(responses).unwrap();
    assert_eq!(body[0], json!({"jsonrpc": "2.0", "id": 7, "result": {}}));
    assert_eq!((&body[1]["id"], &body[1]["error"]["code"]), (&Value::Null, &json!(INVALID_REQUEST)));
    assert_eq!(body.as_array().unwrap().len(), 2);
    let notified = read(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}), None);
    assert_eq!(notified.body(Vec::new()), None);
    for wrong in [json!([]), json!("x"), json!({"id": 1}), json!(vec![1; BATCH_MAX + 1])] {
        let posted = read(&wrong, None);
        let response = posted.messages[0].response(&[]).unwrap();
        assert_eq!(response["error"]["code"], INVALID_REQUEST);
        assert!(posted.body(vec![response]).unwrap().is_object());
    }
}
