//! `spanreel mcp-stdio --url URL`: a session's MCP server for clients that start one and talk over its standard streams.
//!
//! One JSON message a line each way. Each is posted before the next is read, so that calls reach the record in the
//! client's order. Clients hand no environment on: the URL is an argument.

use std::{
    io::{self, BufRead, Read, Write},
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use clap::Args;
use serde_json::{Value, json};
use ureq::{Agent, http::StatusCode};

use super::{Failure, failure::exit};

/// The longest line that is taken from the client, in bytes.
const LINE_BYTES_MAX: usize = 8 << 20;
/// The longest answer that is taken from the server, in bytes.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// An answer may be held for as long as somebody looks at it; a server that is there takes a connection at once.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

const PARSE_ERROR: i64 = -32700;
/// Of the range that is free for implementations.
const UNREACHABLE: i64 = -32011;

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// The session's MCP address: http://HOST:PORT/sim/SESSION/mcp
    #[arg(long, value_name = "URL")]
    url: String,
}

pub(super) fn run(arguments: Arguments, out: &mut dyn Write) -> Result<u8, Failure> {
    let url = arguments.url;
    if !url.starts_with("http://") {
        return Err(Failure::new(exit::USAGE, format!("--url {url:?} does not start with http://")));
    }
    serve(&mut io::stdin().lock(), out, Bridge::new(url))?;
    Ok(exit::DONE)
}

/// Until the client closes its end.
fn serve(input: &mut dyn BufRead, out: &mut dyn Write, mut bridge: Bridge) -> io::Result<()> {
    while let Some(line) = next_line(input)? {
        let answer = match line {
            Line::Whole(line) if line.trim_ascii().is_empty() => None,
            Line::Whole(line) => match serde_json::from_slice(&line) {
                Ok(message) => bridge.forward(&message),
                Err(error) => Some(self::error(&Value::Null, PARSE_ERROR, &format!("not JSON: {error}"))),
            },
            Line::TooLong => {
                let why = format!("a line is longer than {LINE_BYTES_MAX} bytes: send less at once");
                Some(error(&Value::Null, PARSE_ERROR, &why))
            }
        };
        if let Some(answer) = answer {
            writeln!(out, "{answer}")?;
            out.flush()?;
        }
    }
    Ok(())
}

enum Line {
    Whole(Vec<u8>),
    TooLong,
}

/// The next line; one that is too long is read to its end and not kept.
fn next_line(input: &mut dyn BufRead) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    let limit = u64::try_from(LINE_BYTES_MAX).unwrap_or(u64::MAX);
    if (&mut *input).take(limit + 1).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.len() <= LINE_BYTES_MAX || line.ends_with(b"\n") {
        return Ok(Some(Line::Whole(line)));
    }
    let _ = input.skip_until(b'\n')?;
    Ok(Some(Line::TooLong))
}

/// What is kept between messages.
struct Bridge {
    agent: Agent,
    url: String,
    session: Option<String>,
    /// The version that the handshake settled on.
    version: Option<String>,
}

impl Bridge {
    fn new(url: String) -> Self {
        let config = Agent::config_builder().timeout_connect(Some(CONNECT_TIMEOUT));
        let agent = config.http_status_as_error(false).build().into();
        Self { agent, url, session: None, version: None }
    }

    /// The answer to `message`; `None` for what gets none.
    fn forward(&mut self, message: &Value) -> Option<Value> {
        match self.post(message) {
            Ok(Some(answer)) => {
                let settled = answer.pointer("/result/protocolVersion").and_then(Value::as_str);
                self.version = settled.map(str::to_owned).or_else(|| self.version.take());
                Some(answer)
            }
            Ok(None) => None,
            Err(why) => {
                tracing::warn!("{why}");
                failed(message, &why)
            }
        }
    }

    fn post(&mut self, message: &Value) -> Result<Option<Value>, String> {
        let mut request = self.agent.post(&self.url).content_type("application/json");
        request = request.header("accept", "application/json, text/event-stream");
        for (name, value) in headers(message, self.version.as_deref()) {
            request = request.header(name, value);
        }
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session);
        }
        let server = self.server().to_owned();
        let unreachable =
            |error| format!("cannot reach {server}: {error}; is `spanreel serve` running there?");
        let mut answer = request.send(message.to_string()).map_err(unreachable)?;
        let session = answer.headers().get("mcp-session-id").and_then(|id| id.to_str().ok());
        self.session = session.map(str::to_owned).or_else(|| self.session.take());
        let status = answer.status();
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
        let body = body.map_err(unreachable)?;
        match serde_json::from_slice::<Value>(&body) {
            Ok(answer) if answer.is_array() || answer.get("jsonrpc").is_some() => Ok(Some(answer)),
            _ if status.is_success() && body.is_empty() => Ok(None),
            said => Err(unexpected(&server, status, &said.unwrap_or_default())),
        }
    }

    /// The server without the path: that holds the session, which opens it.
    fn server(&self) -> &str {
        let end = self.url.match_indices('/').nth(2).map_or(self.url.len(), |(at, _)| at);
        self.url.get(..end).unwrap_or_default()
    }
}

/// Headers that a server of the newer era compares with the body.
fn headers(message: &Value, version: Option<&str>) -> Vec<(&'static str, String)> {
    let text = |at: &str| message.pointer(at).and_then(Value::as_str);
    let method = text("/method");
    let name = match method {
        Some("tools/call" | "prompts/get") => text("/params/name"),
        Some("resources/read") => text("/params/uri"),
        _ => None,
    };
    let version = text("/params/_meta/io.modelcontextprotocol~1protocolVersion").or(version);
    let of = [("mcp-protocol-version", version), ("mcp-method", method), ("mcp-name", name)];
    of.into_iter().filter_map(|(header, value)| Some((header, header_value(value?)))).collect()
}

/// Text as a header carries it: what it cannot carry goes in base64, in the brackets that the protocol has for it.
fn header_value(text: &str) -> String {
    let is_plain = text.bytes().all(|b| (b' '..=b'~').contains(&b)) && text.trim() == text;
    if is_plain && !text.starts_with("=?base64?") {
        return text.to_owned();
    }
    format!("=?base64?{}?=", BASE64_STANDARD.encode(text))
}

fn unexpected(server: &str, status: StatusCode, said: &Value) -> String {
    let message = said.pointer("/error/message").and_then(Value::as_str).unwrap_or("no message of MCP");
    let remedy = match status {
        StatusCode::NOT_FOUND => {
            "; the session is over or --url names none: make one and give its MCP address"
        }
        _ => "; does --url name the MCP address of a session?",
    };
    format!("{server} answered {status}: {}{remedy}", super::text::clean(message))
}

/// An error for each request in `message`; notifications get none.
fn failed(message: &Value, why: &str) -> Option<Value> {
    let of = |message: &Value| {
        let id = message.get("id").filter(|id| !id.is_null() && message.get("method").is_some())?;
        Some(error(id, UNREACHABLE, why))
    };
    match message {
        Value::Array(batch) => {
            let errors: Vec<Value> = batch.iter().filter_map(of).collect();
            (!errors.is_empty()).then(|| errors.into())
        }
        one => of(one),
    }
}

fn error(id: &Value, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

#[cfg(test)]
mod tests;
