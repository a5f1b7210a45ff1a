//! Content that comes in events: span events and log records of every era (`dialects.md` 1.6).

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{
    attrs::{Attrs, to_json},
    message::{Content, ContentState, Messages, Part},
    operation::{Issue, Unordered},
    parse,
};
use crate::otlp::record::Record;

/// The convention's event that carries a whole operation.
pub const DETAILS: &str = "gen_ai.client.inference.operation.details";

/// The event of an answer: one a choice.
const CHOICE: &str = "gen_ai.choice";
/// Events that tell of an operation of their own: a check of the span that they stand on.
pub const CHECKS: &[&str] = &["gen_ai.evaluation.result", "gen_ai.guardrail.result"];

/// One event of a span, wherever it was carried.
#[derive(Clone, Debug)]
pub struct Event {
    /// `gen_ai.user.message` and its like.
    pub name: String,
    /// Its attributes.
    pub attrs: Attrs,
    /// The log record's body; null for a span event.
    pub body: Value,
    /// What puts logs in order: time, when it was seen, role, place among messages or choices, hash. Only the time
    /// counts for span events, which stand in their order.
    place: (u64, u64, u8, u64, [u8; 32]),
    from_log: bool,
}

impl Event {
    /// When it was recorded, nanoseconds since the Unix epoch; 0 when unknown.
    pub fn time(&self) -> u64 {
        self.place.0
    }
}

/// What the events of one operation say.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// Messages before the answer.
    pub input: Content<Messages>,
    /// The answer: one message a choice.
    pub output: Content<Messages>,
    /// System instructions of the details events.
    pub system: Content<Vec<Part>>,
}

/// The events of `span` in their own order, then those of `logs` by time; the order of `logs` does not matter.
pub fn collect(span: &Record, logs: &[&Record]) -> Vec<Event> {
    let of_span = span.as_span().into_iter().flat_map(|s| &s.events).map(|e| {
        let attrs = Attrs::new(&e.attributes);
        let index = if e.name == CHOICE { index(&attrs, &Value::Null) } else { 0 };
        let place = (e.time_unix_nano, 0, 0, index, [0; 32]);
        Event { name: e.name.clone(), attrs, body: Value::Null, place, from_log: false }
    });
    let mut events: Vec<_> = of_span.chain(logs.iter().filter_map(|l| of_log(l))).collect();
    events.sort_by_key(|e| (e.from_log, e.place));
    events.dedup_by(|a, b| a.from_log && b.from_log && a.place == b.place);
    put_answers_behind_calls(&mut events);
    events
}

/// Messages that were logged at one time stand by role. There a tool's answer goes behind the message that asked for it,
/// so that a history of several turns stays one that a model would take.
fn put_answers_behind_calls(events: &mut [Event]) {
    let at_one_time = |a: &Event, b: &Event| {
        let time = |e: &Event| (e.from_log, e.place.0, e.place.1);
        a.from_log && time(a) == time(b)
    };
    for group in events.chunk_by_mut(at_one_time) {
        let named = |name: &str| group.iter().filter(|e| e.name == name).count();
        if named("gen_ai.tool.message") == 0 || named("gen_ai.assistant.message") == 0 {
            continue;
        }
        // Where each call stands: the message, and its place among the calls of that message, counted from 1.
        let mut asked_at: HashMap<String, (usize, usize)> = HashMap::new();
        let mut keyed: Vec<(u8, (usize, usize), usize, Event)> = Vec::with_capacity(group.len());
        for (at, event) in group.iter().enumerate() {
            let (calls, answers) = call_ids(event);
            for (place, id) in calls.into_iter().enumerate() {
                let _ = asked_at.entry(id).or_insert((at, place + 1));
            }
            let asked = answers.iter().find_map(|id| asked_at.get(id).copied());
            // What nobody asked for stays behind all messages of the model.
            let rank = if asked.is_some() { rank("gen_ai.assistant.message") } else { rank(&event.name) };
            keyed.push((rank, asked.unwrap_or((at, 0)), at, event.clone()));
        }
        keyed.sort_by_key(|(rank, behind, at, _)| (*rank, *behind, *at));
        for (place, (.., event)) in group.iter_mut().zip(keyed) {
            *place = event;
        }
    }
}

/// What of the order of messages `events` do not tell: logs of one time that no index tells apart.
pub fn unordered(events: &[Event]) -> Option<Unordered> {
    let mut at: HashMap<(u64, u64, u64, &str), usize> = HashMap::new();
    for event in events.iter().filter(|event| event.from_log) {
        let (time, seen, _, index, _) = event.place;
        *at.entry((time, seen, index, &event.name)).or_default() += 1;
    }
    let several = |name: &str| at.iter().any(|((.., of), count)| *of == name && *count > 1);
    if several("gen_ai.user.message") {
        Some(Unordered::Messages)
    } else if several("gen_ai.assistant.message") {
        Some(Unordered::Turns)
    } else {
        None
    }
}

/// The ids of the calls that a message event asks for, and of those that it answers.
fn call_ids(event: &Event) -> (Vec<String>, Vec<String>) {
    let (mut calls, mut answers) = (Vec::new(), Vec::new());
    for message in read_carrier(std::iter::once(event), &mut Vec::new()).input.value {
        for part in &message.parts {
            match part {
                Part::ToolCall { id, .. } => calls.extend(id.clone()),
                Part::ToolCallResponse { id, .. } => answers.extend(id.clone()),
                _ => {}
            }
        }
    }
    (calls, answers)
}

/// The event that a log record is; `None` when it has no name that the convention knows.
pub fn of_log(record: &Record) -> Option<Event> {
    let log = record.as_log()?;
    let attrs = Attrs::new(&log.attributes);
    let body = log.body.as_ref().map_or(Value::Null, |b| to_json(b, 0));
    // Some producers write where the record was made into the name's own field.
    let names = [Some(log.event_name.clone()), attrs.text(&["event.name"]), body.as_str().map(str::to_owned)];
    let name = names.into_iter().flatten().find(|n| is_claimed(n, &attrs));
    let name = name.or_else(|| Some(unnamed(record, &attrs, &body)?.to_owned()))?;
    let time = if log.time_unix_nano > 0 { log.time_unix_nano } else { log.observed_time_unix_nano };
    let place = (time, log.observed_time_unix_nano, rank(&name), index(&attrs, &body), record.hash.0);
    Some(Event { name, attrs, body, place, from_log: true })
}

/// The place among messages or choices that an event names; the first where it names none.
fn index(attrs: &Attrs, body: &Value) -> u64 {
    let named = ["gen_ai.message.index", "index"].iter().find_map(|key| {
        let value = attrs.get(key).or_else(|| body.get(key))?;
        value.as_u64().or_else(|| value.as_str()?.parse().ok())
    });
    named.unwrap_or_default()
}

/// The event that a record without a name is, told by its body. It must belong to a span.
fn unnamed(record: &Record, attrs: &Attrs, body: &Value) -> Option<&'static str> {
    let body = body.as_object().filter(|_| record.span_id().is_valid())?;
    let messages = |side: &str| body.get(side).is_some_and(|side| side.get("messages").is_some());
    if messages("input") || messages("output") {
        return Some(DETAILS);
    }
    let known = ["gen_ai.system", "gen_ai.provider.name"].iter().any(|key| attrs.has(key));
    if !known {
        return None;
    }
    if body.contains_key("finish_reason") || body.contains_key("message") {
        return Some(CHOICE);
    }
    match body.get("role").and_then(Value::as_str) {
        Some("system" | "developer") => Some("gen_ai.system.message"),
        Some("assistant") => Some("gen_ai.assistant.message"),
        Some("tool") => Some("gen_ai.tool.message"),
        Some("user") => Some("gen_ai.user.message"),
        _ if body.contains_key("tool_calls") => Some("gen_ai.assistant.message"),
        _ if body.contains_key("id") => Some("gen_ai.tool.message"),
        _ => body.contains_key("content").then_some("gen_ai.user.message"),
    }
}

/// Events of coding agents that say what was done; all others count what the agent does for itself.
const AGENT_EVENTS: &[&str] = &[
    "claude_code.user_prompt",
    "claude_code.api_request",
    "claude_code.api_request_body",
    "claude_code.api_response_body",
    "claude_code.api_error",
    "claude_code.assistant_response",
    "claude_code.tool_result",
    "claude_code.tool_decision",
    "codex.conversation_starts",
    "codex.user_prompt",
    "codex.api_request",
    "codex.tool_decision",
    "codex.tool_result",
    "gemini_cli.user_prompt",
    "gemini_cli.api_request",
    "gemini_cli.api_response",
    "gemini_cli.api_error",
    "gemini_cli.tool_call",
];
/// Of these only the one that counts tokens tells of a whole call.
const STREAM_EVENTS: &[&str] = &["codex.sse_event", "codex.websocket_event"];

fn is_claimed(name: &str, attrs: &Attrs) -> bool {
    name.starts_with("gen_ai.")
        || AGENT_EVENTS.contains(&name)
        || STREAM_EVENTS.contains(&name) && attrs.has("input_token_count")
}

/// What `events` tell of the messages. Span events win; logs fill the sides that they left empty.
pub fn read(events: &[Event], issues: &mut Vec<Issue>) -> Told {
    let mut told = Told::default();
    for from_log in [false, true] {
        let one = read_carrier(events.iter().filter(|e| e.from_log == from_log), issues);
        prefer(&mut told.input, one.input);
        prefer(&mut told.output, one.output);
        if told.system.value.is_empty() {
            told.system = one.system;
        }
    }
    told
}

/// Takes `other` when `content` is missing, or is less than whole and `other` is whole.
pub fn prefer(content: &mut Content<Messages>, other: Content<Messages>) {
    let damaged = content.state != ContentState::Captured && other.state == ContentState::Captured;
    let says_more = !other.value.is_empty() || content.state == ContentState::NotCaptured;
    if content.value.is_empty() && says_more || damaged && !other.value.is_empty() {
        *content = other;
    }
}

/// Takes `other` when it tells more: more messages, or more calls with an id (`dialects.md` B1).
pub fn prefer_richer(content: &mut Content<Messages>, other: Content<Messages>) {
    let wealth = |content: &Content<Messages>| {
        let calls = content.value.iter().flat_map(|m| &m.parts).filter(|p| {
            matches!(p, Part::ToolCall { id: Some(_), .. } | Part::ToolCallResponse { id: Some(_), .. })
        });
        (content.value.len(), calls.count())
    };
    if other.state == content.state && wealth(&other) > wealth(content) {
        *content = other;
    } else {
        prefer(content, other);
    }
}

fn read_carrier<'a>(events: impl Iterator<Item = &'a Event>, issues: &mut Vec<Issue>) -> Told {
    let mut told = Told::default();
    let mut details = Told::default();
    let mut choices = Vec::new();
    for event in events {
        match event.name.as_str() {
            DETAILS => {
                let side = |key: &str, role: &str, issues: &mut Vec<Issue>| {
                    // Bedrock AgentCore: `{input: {messages}, output: {messages}}`.
                    let side = if key.contains("input") { "/input/messages" } else { "/output/messages" };
                    let in_body = || event.body.get(key).or_else(|| event.body.pointer(side));
                    let value = event.attrs.get(key).or_else(in_body);
                    value.map(|v| parse::messages(v, role, issues)).filter(|c| !c.value.is_empty())
                };
                if let Some(input) = side("gen_ai.input.messages", "user", issues) {
                    details.input = input;
                }
                if let Some(output) = side("gen_ai.output.messages", "assistant", issues) {
                    details.output = output;
                }
                let key = "gen_ai.system_instructions";
                if let Some(system) = event.attrs.get(key).or_else(|| event.body.get(key)) {
                    details.system = parse::parts(system, issues);
                }
            }
            CHOICE => choices.push(event),
            "gen_ai.system.message" => append(&mut told.input, event, "system", issues),
            "gen_ai.user.message" => append(&mut told.input, event, "user", issues),
            "gen_ai.assistant.message" => append(&mut told.input, event, "assistant", issues),
            "gen_ai.tool.message" => append(&mut told.input, event, "tool", issues),
            "gen_ai.content.prompt" => append_text(&mut told.input, event, "gen_ai.prompt", "user", issues),
            "gen_ai.content.completion" => {
                append_text(&mut told.output, event, "gen_ai.completion", "assistant", issues);
            }
            _ => {}
        }
    }
    choices.sort_by_key(|event| event.place.3);
    for event in choices {
        append(&mut told.output, event, "assistant", issues);
    }
    prefer(&mut details.input, told.input);
    prefer(&mut details.output, told.output);
    details
}

fn append_text(side: &mut Content<Messages>, event: &Event, key: &str, role: &str, issues: &mut Vec<Issue>) {
    if let Some(value) = event.attrs.get(key) {
        join(side, parse::messages(value, role, issues));
    }
}

/// The message that one message event is. Body and attributes are read alike: some SDKs flatten one into the other.
fn append(side: &mut Content<Messages>, event: &Event, role: &str, issues: &mut Vec<Issue>) {
    let mut object = match &event.body {
        Value::Object(body) => body.clone(),
        Value::String(text) => match super::state::open(&event.body).value {
            Value::Object(body) => body,
            _ if text.starts_with("gen_ai.") => Map::new(),
            _ => Map::from_iter([("content".to_owned(), event.body.clone())]),
        },
        _ => Map::new(),
    };
    for key in ["role", "content", "message", "tool_calls", "id", "finish_reason", "parts"] {
        if let Some(value) = event.attrs.get(key)
            && !object.contains_key(key)
        {
            let opened = super::state::open(value).value;
            let told = ["role", "parts", "tool_calls"].iter().any(|member| opened.get(*member).is_some());
            // An answer in JSON is text, unless it is a message.
            let opens = key == "tool_calls" || key == "message" && told;
            let opened = if opens { opened } else { value.clone() };
            let _ = object.insert(key.to_owned(), opened);
        }
    }
    if let Some(content) = event.attrs.get("gen_ai.event.content") {
        return join(side, parse::messages(content, role, issues));
    }
    if object.is_empty() {
        return;
    }
    // The event's name says the role; a tool's answer may come under the role of the one who sends it.
    if role != "assistant" || !object.contains_key("role") {
        let _ = object.insert("role".to_owned(), Value::from(role));
    }
    let has_content = ["content", "message", "tool_calls", "parts"].iter().any(|k| object.contains_key(*k));
    if !has_content {
        let _ = object.insert("parts".to_owned(), serde_json::json!([{"type": "text"}]));
    }
    join(side, parse::messages(&Value::Object(object), role, issues));
}

fn join(side: &mut Content<Messages>, more: Content<Messages>) {
    if more.value.is_empty() {
        return;
    }
    side.state = if side.value.is_empty() { more.state } else { super::state::worse(side.state, more.state) };
    side.value.extend(more.value);
}

/// The order of events that bear one time: an answer of a tool after the message that asked for it.
fn rank(name: &str) -> u8 {
    match name {
        "gen_ai.system.message" => 0,
        "gen_ai.user.message" => 1,
        "gen_ai.tool.message" => 3,
        CHOICE => 4,
        _ => 2,
    }
}
