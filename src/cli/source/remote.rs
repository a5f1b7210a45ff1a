//! A server, asked through its API.

use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};
use ureq::{Agent, config::RedirectAuthHeaders, http::StatusCode};

use super::{Failure, Selection, Source, exit};
use crate::store::RunFilter;

/// The longest that one answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(300);
/// The longest answer that is read, in bytes.
const ANSWER_BYTES_MAX: u64 = 4 << 30;

pub(crate) struct Remote {
    agent: Agent,
    url: String,
    key: Option<String>,
}

impl Remote {
    pub(crate) fn new(url: &str, key: Option<String>) -> Result<Self, Failure> {
        if !url.starts_with("http://") {
            return Err(Failure::new(exit::USAGE, format!("--url {url:?} does not start with http://")));
        }
        let config = Agent::config_builder()
            .timeout_global(Some(ANSWER_TIMEOUT))
            .http_status_as_error(false)
            // An alias of a run is answered by a redirect.
            .redirect_auth_headers(RedirectAuthHeaders::SameHost);
        Ok(Self { agent: config.build().into(), url: url.trim_end_matches('/').to_owned(), key })
    }

    /// The body at `path`, or `None` when the server says that there is no such thing.
    pub(crate) fn get(&self, path: &str) -> Result<Option<String>, Failure> {
        let mut request = self.agent.get(format!("{}{path}", self.url));
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let mut answer = request.call().map_err(|error| self.unreachable(&error))?;
        let status = answer.status();
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string();
        let body = body.map_err(|error| self.unreachable(&error))?;
        match status {
            StatusCode::OK => Ok(Some(body)),
            StatusCode::NOT_FOUND if is_ours(&body) => Ok(None),
            StatusCode::NOT_FOUND => Err(self.not_ours()),
            status => Err(self.refused(status, &body)),
        }
    }

    fn refused(&self, status: StatusCode, body: &str) -> Failure {
        let problem: Value = serde_json::from_str(body).unwrap_or_default();
        let text = |at: &str| problem.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (message, reason) = (text("/error/message"), text("/error/details/reason"));
        let remedy = match status {
            StatusCode::UNAUTHORIZED => "; give a key with --key or SPANREEL_KEY",
            StatusCode::FORBIDDEN => "; use a key of another role",
            _ => "",
        };
        let said = format!("the server at {} answered {status}: {message} {reason}", self.url);
        let code = if status == StatusCode::BAD_REQUEST { exit::USAGE } else { exit::UNREACHABLE };
        Failure::new(code, super::super::text::clean(said.trim()) + remedy)
    }

    pub(crate) fn get_json(&self, path: &str) -> Result<Option<Value>, Failure> {
        let Some(body) = self.get(path)? else { return Ok(None) };
        let parsed = serde_json::from_str(&body);
        parsed.map(Some).map_err(|_| self.not_ours())
    }

    fn not_ours(&self) -> Failure {
        let message = format!("{} is not the API of spanreel (port 4319 by default)", self.url);
        Failure::new(exit::UNREACHABLE, message)
    }

    fn unreachable(&self, error: &dyn std::fmt::Display) -> Failure {
        let message = format!("cannot reach the server at {}: {error}; is it running?", self.url);
        Failure::new(exit::UNREACHABLE, message)
    }

    fn of_run(&self, id: &str, what: &str) -> Result<Value, Failure> {
        let path = format!("/v1/runs/{}{what}", encode(id));
        self.get_json(&path)?.ok_or_else(|| Failure::run_not_found(id))
    }
}

impl Source for Remote {
    fn runs(&self, filter: &RunFilter, limit: usize) -> Result<Vec<Value>, Failure> {
        let mut query = String::new();
        if let Ok(Value::Object(members)) = serde_json::to_value(filter) {
            for (name, value) in members.iter().filter(|(_, value)| !value.is_null()) {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                query.push_str(&format!("&{name}={}", encode(&text)));
            }
        }
        let mut rows = Vec::new();
        let mut cursor = String::new();
        while rows.len() < limit {
            let path = format!("/v1/runs?limit={}{query}{cursor}", (limit - rows.len()).min(500));
            let mut page = self.get_json(&path)?.unwrap_or_default();
            if let Some(Value::Array(items)) = page.get_mut("items").map(Value::take) {
                rows.extend(items);
            }
            match page.get("next_cursor").and_then(Value::as_str) {
                Some(next) => cursor = format!("&cursor={}", encode(next)),
                None => break,
            }
        }
        Ok(rows)
    }

    fn replay(&self, id: &str) -> Result<Value, Failure> {
        self.of_run(id, "/replay")
    }

    fn tree(&self, id: &str) -> Result<Value, Failure> {
        self.of_run(id, "/tree")
    }

    fn diff(&self, a: &str, b: &str) -> Result<Value, Failure> {
        let path = |id: &str, what: &str| format!("/v1/runs/{}{what}", encode(id));
        if let Some(diff) = self.get_json(&path(a, &format!("/diff/{}", encode(b))))? {
            return Ok(diff);
        }
        // The server does not say which of the two it does not have.
        let missing = if self.get(&path(a, ""))?.is_none() { a } else { b };
        Err(Failure::run_not_found(missing))
    }

    fn sql(&self, query: &str) -> Result<Value, Failure> {
        let mut request = self.agent.post(format!("{}/v1/sql", self.url));
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let answer = request.send_json(serde_json::json!({ "query": query }));
        let mut answer = answer.map_err(|error| self.unreachable(&error))?;
        let status = answer.status();
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string();
        let body = body.map_err(|error| self.unreachable(&error))?;
        if status != StatusCode::OK {
            return Err(self.refused(status, &body));
        }
        serde_json::from_str(&body).map_err(|_| self.not_ours())
    }

    fn otlp(&self, selection: &Selection) -> Result<String, Failure> {
        match selection {
            Selection::All => Ok(self.get("/v1/otlp")?.unwrap_or_default()),
            Selection::Run(id) => Ok(lines_of(self.of_run(id, "/otlp")?)),
            Selection::Trace(id) => {
                let found = self.get_json(&format!("/v1/traces/{}/otlp", encode(id)))?;
                let missing =
                    || Failure::not_found(format!("no trace {} here", super::super::text::clean(id)));
                found.map(lines_of).ok_or_else(missing)
            }
        }
    }
}

/// Spans and logs of one object as the requests that OTLP knows.
fn lines_of(object: Value) -> String {
    let Value::Object(members) = object else { return String::new() };
    let full =
        members.into_iter().filter(|(_, items)| items.as_array().is_some_and(|items| !items.is_empty()));
    full.map(|(name, items)| format!("{}\n", Value::Object(Map::from_iter([(name, items)])))).collect()
}

/// The envelope of our own API, which a 404 of another server lacks.
fn is_ours(body: &str) -> bool {
    serde_json::from_str::<Value>(body).is_ok_and(|body| body.pointer("/error/code").is_some())
}

fn encode(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}
