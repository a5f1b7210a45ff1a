use std::{
    io::BufReader,
    net::{TcpListener, TcpStream},
    thread,
};

use super::*;

/// A server that gives `answers`, one a connection; it returns what was asked.
fn server(answers: Vec<String>) -> (String, thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/sim/s3cret/mcp", listener.local_addr().unwrap());
    let serve = move || answers.iter().map(|answer| one(listener.accept().unwrap().0, answer)).collect();
    (url, thread::spawn(serve))
}

fn one(stream: TcpStream, answer: &str) -> String {
    let mut reader = BufReader::new(&stream);
    let mut asked = String::new();
    while !asked.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut asked).unwrap() > 0);
    }
    let length =
        asked.lines().find_map(|l| l.to_lowercase().strip_prefix("content-length: ").map(str::to_owned));
    let mut body = vec![0; length.unwrap().parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    (&stream).write_all(answer.as_bytes()).unwrap();
    asked.to_lowercase() + std::str::from_utf8(&body).unwrap()
}

fn http(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n{headers}\r\n{body}", body.len())
}

fn lines(url: String, input: &str) -> Vec<Value> {
    let mut out = Vec::new();
    serve(&mut input.as_bytes(), &mut out, Bridge::new(url)).unwrap();
    String::from_utf8(out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Scenario: a handshake, a notification, a call of a tool whose name no header can carry.
/// Guarantee: the answers one a line, nothing for the notification; the session and the version go with what follows.
#[test]
fn a_message_loses_its_session_or_gets_a_line_too_many() {
    let settled = json!({"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": "2025-06-18"}});
    let pretty = format!("{:#}", json!({"jsonrpc": "2.0", "id": 2, "result": {"content": []}}));
    let (url, asked) = server(vec![
        http("200 OK", "mcp-session-id: abc\r\n", &settled.to_string()),
        http("202 Accepted", "", ""),
        http("200 OK", "", &pretty),
    ]);
    let answers = lines(
        url,
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{}}\n\n\
         {\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n\
         {\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"wétter\"}}",
    );
    assert_eq!(answers, [settled, json!({"jsonrpc": "2.0", "id": 2, "result": {"content": []}})]);
    let asked = asked.join().unwrap();
    assert!(asked[0].starts_with("post /sim/s3cret/mcp ") && !asked[0].contains("mcp-session-id"));
    for later in &asked[1..] {
        assert!(
            later.contains("mcp-session-id: abc\r\n")
                && later.contains("mcp-protocol-version: 2025-06-18\r\n")
        );
    }
    assert!(asked[2].contains("mcp-method: tools/call\r\n"), "{}", asked[2]);
    assert!(asked[2].contains("mcp-name: =?base64?d8opdhrlcg==?=\r\n"), "{}", asked[2]);
}

#[test]
fn the_version_of_a_message_is_not_the_header_of_it() {
    let message = json!({"method": "tools/call", "params": {"name": "f",
        "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}});
    let expected = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "f")];
    assert_eq!(headers(&message, Some("2025-06-18")), expected.map(|(name, value)| (name, value.to_owned())));
    assert_eq!(header_value("a\r\nb"), "=?base64?YQ0KYg==?=");
}

/// Guarantee: each request is told what to do, a notification gets no line, and the session is not told.
#[test]
fn a_server_that_is_not_there_leaves_the_client_waiting() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let input = "{\"id\":1,\"method\":\"ping\"}\n{\"method\":\"notifications/x\"}\n\
         [{\"id\":2,\"method\":\"ping\"},{\"method\":\"n\"}]\n{\"a\n";
    let answers = lines(format!("http://{free}/sim/s3cret/mcp"), input);
    assert_eq!(answers.len(), 3);
    assert_eq!((&answers[0]["id"], &answers[0]["error"]["code"]), (&json!(1), &json!(UNREACHABLE)));
    let message = answers[0]["error"]["message"].as_str().unwrap();
    assert!(message.contains("is `spanreel serve` running") && !message.contains("s3cret"), "{message}");
    assert_eq!(answers[1][0]["id"], 2);
    assert_eq!((&answers[2]["id"], &answers[2]["error"]["code"]), (&Value::Null, &json!(PARSE_ERROR)));
}

#[test]
fn an_answer_that_is_none_of_mcp_is_passed_on() {
    let body = r#"{"error":{"code":404,"message":"no such session"}}"#;
    let (url, asked) = server(vec![http("404 Not Found", "", body), http("200 OK", "", "<html>")]);
    let input = "{\"id\":1,\"method\":\"ping\"}\n{\"id\":2,\"method\":\"ping\"}\n";
    let answers = lines(url, input);
    let message = |at: usize| answers[at]["error"]["message"].as_str().unwrap();
    assert!(message(0).contains("no such session; the session is over"), "{}", message(0));
    assert!(message(1).contains("answered 200"), "{}", message(1));
    let _ = asked.join().unwrap();
}

/// Guarantee: no more than the limit is kept of a line, and the next one is read whole.
#[test]
fn a_line_without_an_end_fills_the_memory() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let long = format!("\"{}\"\n{{\"id\":1,\"method\":\"ping\"}}\n", "x".repeat(LINE_BYTES_MAX));
    let answers = lines(format!("http://{free}/"), &long);
    assert_eq!(answers.len(), 2);
    assert!(answers[0]["error"]["message"].as_str().unwrap().contains("longer than"));
    assert_eq!(answers[1]["id"], 1);
}
