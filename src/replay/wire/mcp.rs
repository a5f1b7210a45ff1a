//! MCP over Streamable HTTP: JSON-RPC messages -> what they ask, and the answers. No session is kept: every message says
//! enough.
//!
//! Two eras are spoken. In the older one a handshake (`initialize`) settles the version and later requests name it in a
//! header; since 2026-07-28 every request holds it in `params._meta`, and results say more of themselves.

use serde_json::{Map, Value, json};

use super::members::{list, member, text};
use crate::replay::sim::call::{Failed, Refused, ToolAnswer, ToolCall, ToolDefinition};

/// Versions that begin with a handshake, oldest first.
const HANDSHAKE: &[&str] = &["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
const HANDSHAKE_NEWEST: &str = "2025-11-25";
/// The first version without a handshake.
const MODERN: &str = "2026-07-28";
/// What a request without a version speaks, by the specification.
const UNSAID: &str = "2025-03-26";
/// The first version whose results may hold JSON beside text.
const STRUCTURED: &str = "2025-06-18";
const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// Messages of one batch.
const BATCH_MAX: usize = 256;

const INVALID_REQUEST: i64 = -32600;
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
/// Of the range that is free for implementations. Clients take -32000 and -32001 for their own trouble.
const REFUSED: i64 = -32010;

/// What one POST brought.
#[derive(Clone, Debug, PartialEq)]
pub struct Posted {
    /// In the order of the body.
    pub messages: Vec<Message>,
    is_batch: bool,
}

/// One JSON-RPC message.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// What it asks.
    pub request: Request,
    id: Value,
    version: String,
}

/// What a message asks.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// The handshake of the older era, with the version that the client would speak.
    Initialize(String),
    /// What the server can do, of the newer era.
    Discover,
    /// The tools.
    ListTools,
    /// Something else that a server may offer and this one has none of, by the member that lists it.
    ListNone(&'static str),
    /// A tool is called.
    CallTool(ToolCall),
    /// Is the server there?
    Ping,
    /// Nothing that is answered: a notification, or the answer to a request that was never made.
    Notification,
    /// What cannot be answered: the code of the error, and what it says.
    Wrong(i64, String),
}

/// Reads the body of a POST. `version` is the header `mcp-protocol-version`.
pub fn read(body: &Value, version: Option<&str>) -> Posted {
    let wrong = |why: &str| Message {
        request: Request::Wrong(INVALID_REQUEST, why.to_owned()),
        id: Value::Null,
        version: UNSAID.to_owned(),
    };
    match body {
        Value::Array(items) if items.is_empty() || items.len() > BATCH_MAX => {
            let why = format!("a batch holds 1 to {BATCH_MAX} messages");
            Posted { messages: vec![wrong(&why)], is_batch: false }
        }
        Value::Array(items) => {
            let messages = items.iter().map(|item| message(item, version));
            let messages = messages.map(|m| m.unwrap_or_else(|| wrong("not a JSON-RPC message"))).collect();
            Posted { messages, is_batch: true }
        }
        one => {
            let message = message(one, version).unwrap_or_else(|| wrong("not a JSON-RPC message"));
            Posted { messages: vec![message], is_batch: false }
        }
    }
}

fn message(body: &Value, header: Option<&str>) -> Option<Message> {
    let object = body.as_object()?;
    let params = object.get("params").unwrap_or(&Value::Null);
    let named = params.get("_meta").and_then(|meta| text(meta, &[META_VERSION]));
    let version = named.or(header).unwrap_or(UNSAID).to_owned();
    let id = object.get("id").filter(|id| id.is_string() || id.is_number());
    let request = match (object.get("method").and_then(Value::as_str), id) {
        (Some(method), Some(_)) => request(method, params),
        (Some(_), None) => Request::Notification,
        (None, _) if object.contains_key("result") || object.contains_key("error") => Request::Notification,
        (None, _) => Request::Wrong(INVALID_REQUEST, "the message names no method".into()),
    };
    Some(Message { request, id: id.cloned().unwrap_or_default(), version })
}

fn request(method: &str, params: &Value) -> Request {
    match method {
        "initialize" => {
            Request::Initialize(text(params, &["protocolVersion"]).unwrap_or_default().to_owned())
        }
        "server/discover" => Request::Discover,
        "ping" => Request::Ping,
        "tools/list" => Request::ListTools,
        "prompts/list" => Request::ListNone("prompts"),
        "resources/list" => Request::ListNone("resources"),
        "resources/templates/list" => Request::ListNone("resourceTemplates"),
        "tools/call" => match text(params, &["name"]) {
            Some(name) => {
                let arguments = member(params, &["arguments"]).cloned().unwrap_or_else(|| json!({}));
                Request::CallTool(ToolCall { name: name.to_owned(), arguments })
            }
            None => Request::Wrong(INVALID_PARAMS, "`params.name` is missing: name the tool".into()),
        },
        other => Request::Wrong(METHOD_NOT_FOUND, format!("a replayed server has no method {other:?}")),
    }
}

impl Posted {
    /// The body that holds `responses`; `None` when there is nothing to say (202, without a body).
    pub fn body(&self, mut responses: Vec<Value>) -> Option<Value> {
        if self.is_batch && !responses.is_empty() { Some(responses.into()) } else { responses.pop() }
    }
}

impl Message {
    /// The response to all but calls of tools; `None` for those, and for what gets none.
    pub fn response(&self, tools: &[ToolDefinition]) -> Option<Value> {
        Some(match &self.request {
            Request::CallTool(_) | Request::Notification => return None,
            Request::Wrong(code, why) => self.error(*code, why, None),
            Request::Ping => self.result(Map::new()),
            Request::Initialize(version) => {
                let version = HANDSHAKE.iter().find(|known| *known == version).unwrap_or(&HANDSHAKE_NEWEST);
                let mut made = members([("protocolVersion", json!(version))]);
                made.extend(about());
                self.result(made)
            }
            Request::Discover => {
                let mut made = members([("supportedVersions", json!([MODERN]))]);
                made.extend(about());
                self.listed(made)
            }
            Request::ListTools => {
                let tools: Vec<Value> = tools.iter().map(tool).collect();
                self.listed(members([("tools", tools.into())]))
            }
            Request::ListNone(what) => self.listed(members([(*what, json!([]))])),
        })
    }

    /// What the tool gave.
    pub fn answered(&self, answer: &ToolAnswer) -> Value {
        let mut made = recorded(&answer.result).unwrap_or_else(|| self.worded(&answer.result));
        let is_error = answer.is_error || made.get("isError").and_then(Value::as_bool) == Some(true);
        let _ = made.insert("isError".into(), is_error.into());
        self.result(made)
    }

    /// A failure that was recorded: the model reads it and may go on, as then.
    pub fn failed(&self, failed: &Failed) -> Value {
        let said = [&failed.message, &failed.kind].into_iter().find(|said| !said.is_empty());
        let said = said.map_or("the tool failed, and the record does not tell why", String::as_str);
        self.answered(&ToolAnswer { step: Some(failed.step), result: said.into(), is_error: true })
    }

    /// A refusal. The only form that every client raises with its message, and asks once: an error with status 200.
    pub fn refused(&self, refused: &Refused) -> Value {
        let data = json!({"code": refused.code.name(), "step": refused.step});
        self.error(REFUSED, &refused.message, Some(data))
    }

    /// A result of a tool that was no MCP result: text, and JSON beside it where the version has a place for it.
    fn worded(&self, result: &Value) -> Map<String, Value> {
        let text = match result {
            Value::Null => return members([("content", json!([]))]),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let mut made = members([("content", json!([{"type": "text", "text": text}]))]);
        if result.is_object() && self.version.as_str() >= STRUCTURED {
            let _ = made.insert("structuredContent".into(), result.clone());
        }
        made
    }

    fn is_modern(&self) -> bool {
        self.version.as_str() >= MODERN
    }

    /// A result that clients may keep for a while. A list of this session is for its client alone, and not for long.
    fn listed(&self, mut result: Map<String, Value>) -> Value {
        if self.is_modern() {
            result.extend(members([("ttlMs", json!(0)), ("cacheScope", json!("private"))]));
        }
        self.result(result)
    }

    fn result(&self, mut result: Map<String, Value>) -> Value {
        if self.is_modern() {
            let _ = result.entry("resultType").or_insert_with(|| json!("complete"));
        }
        json!({"jsonrpc": "2.0", "id": self.id, "result": result})
    }

    fn error(&self, code: i64, message: &str, data: Option<Value>) -> Value {
        let mut error = members([("code", json!(code)), ("message", json!(message))]);
        error.extend(data.map(|data| ("data".to_owned(), data)));
        json!({"jsonrpc": "2.0", "id": self.id, "error": error})
    }
}

fn members<const N: usize>(of: [(&str, Value); N]) -> Map<String, Value> {
    of.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn about() -> Map<String, Value> {
    let server = json!({"name": "spanreel", "version": env!("CARGO_PKG_VERSION")});
    members([("capabilities", json!({"tools": {}})), ("serverInfo", server)])
}

/// Clients refuse a whole list for one schema that is none of an object.
fn tool(definition: &ToolDefinition) -> Value {
    let mut schema = definition.parameters.as_object().cloned().unwrap_or_default();
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        let _ = schema.insert("type".into(), "object".into());
    }
    let mut made = members([("name", json!(definition.name)), ("inputSchema", schema.into())]);
    if !definition.description.is_empty() {
        let _ = made.insert("description".into(), definition.description.as_str().into());
    }
    made.into()
}

/// A result that was recorded as MCP gave it, whole or its blocks alone. `null` stands for what was not there: clients
/// refuse it.
fn recorded(result: &Value) -> Option<Map<String, Value>> {
    let is_block = |block: &Value| {
        const BLOCKS: &[&str] = &["text", "image", "audio", "resource", "resource_link"];
        text(block, &["type"]).is_some_and(|kind| BLOCKS.contains(&kind))
    };
    let content = match result {
        Value::Array(blocks) => blocks.as_slice(),
        other => list(other, &["content"]),
    };
    let says_so = ["isError", "is_error", "structuredContent", "structured_content"];
    let says_so = content.is_empty()
        && result.get("content").is_some_and(Value::is_array)
        && says_so.iter().any(|name| result.get(name).is_some());
    if !content.iter().all(is_block) || content.is_empty() && !says_so {
        return None;
    }
    let mut made = members([("content", content.iter().map(without_null).collect())]);
    if let Some(structured) = member(result, &["structuredContent", "structured_content"]) {
        let _ = made.insert("structuredContent".into(), structured.clone());
    }
    if let Some(is_error) = member(result, &["isError", "is_error"]) {
        let _ = made.insert("isError".into(), is_error.clone());
    }
    made.extend(member(result, &["_meta"]).map(|meta| ("_meta".to_owned(), meta.clone())));
    Some(made)
}

fn without_null(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let kept = object.iter().filter(|(_, value)| !value.is_null());
            kept.map(|(name, value)| (name.clone(), without_null(value))).collect()
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests;
