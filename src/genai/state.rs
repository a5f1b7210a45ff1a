//! What can be trusted of a recorded value: markers of redaction, of cuts, and repair of cut JSON.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde_json::Value;

use super::message::ContentState;

const REDACTED: &[&str] =
    &["[REDACTED]", "<REDACTED>", "REDACTED", "redacted-by-litellm", "[Filtered]", "***"];
/// Searchers that are built once: every text of every message is looked through.
static REDACTED_WITHIN: LazyLock<[Finder<'static>; 2]> =
    LazyLock::new(|| [Finder::new("__REDACTED__"), Finder::new("[Scrubbed due to ")]);
const UNSERIALIZABLE: &[&str] =
    &["<not serializable>", "<not specified>", "[object Object]", "<circular reference>", "undefined"];
const CUT_SUFFIXES: &[&str] = &["[truncated]", "<truncated>", "(truncated)", "[TRUNCATED]"];

/// A text value, its JSON opened once.
#[derive(Debug, Default, PartialEq)]
pub struct Opened {
    /// The JSON value, or the text itself where it is none.
    pub value: Value,
    /// `Truncated` when the JSON had to be repaired or could not be.
    pub state: ContentState,
    /// True when the text is cut JSON that repair could not read.
    pub unparsable: bool,
}

/// Opens `value` when it is JSON text of an object, an array or a string; every other value stays as it is.
pub fn open(value: &Value) -> Opened {
    let Value::String(text) = value else {
        return Opened { value: value.clone(), state: of_value(value), unparsable: false };
    };
    let plain = || Opened { value: value.clone(), state: of_text(text), unparsable: false };
    if !is_json_like(text) {
        return plain();
    }
    match serde_json::from_str::<Value>(text) {
        Ok(value) => Opened { state: of_value(&value), value, unparsable: false },
        Err(e)
            if (e.is_eof() || is_cut(text))
                && text.trim_start().starts_with(['{', '['])
                && !text.starts_with("{'") =>
        {
            match repair(without_cut_marker(text)) {
                Some(value) => Opened { value, state: ContentState::Truncated, unparsable: false },
                None => Opened { value: value.clone(), state: ContentState::Truncated, unparsable: true },
            }
        }
        Err(_) => match super::parse::python::literal(text) {
            Some(value) => Opened { state: of_value(&value), value, unparsable: false },
            None => plain(),
        },
    }
}

/// True when `text` may be JSON text of an object, an array or a string.
pub fn is_json_like(text: &str) -> bool {
    text.trim_start().starts_with(['{', '[', '"'])
}

/// True when `text` is nothing but a marker that stands for what was withheld or could not be written.
pub fn is_marker(text: &str) -> bool {
    let text = text.trim();
    REDACTED.contains(&text) || UNSERIALIZABLE.contains(&text) || text == "__REDACTED__"
}

/// The state that the markers in `text` tell.
pub fn of_text(text: &str) -> ContentState {
    let trimmed = text.trim();
    if REDACTED.contains(&trimmed) || REDACTED_WITHIN.iter().any(|m| m.find(trimmed.as_bytes()).is_some()) {
        ContentState::Redacted
    } else if UNSERIALIZABLE.contains(&trimmed) || trimmed.starts_with("Unable to serialize: ") {
        ContentState::Unserializable
    } else if trimmed.starts_with("@@@langfuseMedia:") {
        ContentState::External
    } else if is_cut(trimmed) {
        ContentState::Truncated
    } else {
        ContentState::Captured
    }
}

/// The worst state found in the texts of `value`.
pub fn of_value(value: &Value) -> ContentState {
    let mut worst = ContentState::Captured;
    let mut todo = vec![value];
    while let Some(value) = todo.pop() {
        match value {
            Value::String(text) => worst = worse(worst, of_text(text)),
            Value::Array(items) => todo.extend(items),
            Value::Object(members) => todo.extend(members.values()),
            _ => {}
        }
    }
    worst
}

/// The less trustworthy of two states of parts of one value.
pub fn worse(a: ContentState, b: ContentState) -> ContentState {
    let rank = |s| match s {
        ContentState::Captured => 0,
        ContentState::Inferred => 1,
        ContentState::Redacted => 2,
        ContentState::Truncated => 3,
        ContentState::Unserializable => 4,
        ContentState::External => 5,
        ContentState::NotCaptured => 6,
    };
    if rank(b) > rank(a) { b } else { a }
}

fn is_cut(text: &str) -> bool {
    let text = text.trim_end();
    CUT_SUFFIXES.iter().any(|s| text.ends_with(s))
        || text.ends_with(']')
            && text.rfind("[TRUNCATED: original length ").is_some_and(|at| text.len() - at < 60)
}

fn without_cut_marker(text: &str) -> &str {
    let text = text.trim_end();
    if let Some((head, _)) = text.rsplit_once("[TRUNCATED: original length ") {
        return head.trim_end_matches('.');
    }
    CUT_SUFFIXES
        .iter()
        .find_map(|s| text.strip_suffix(s))
        .map_or(text, |t| t.trim_end().trim_end_matches('.'))
}

/// What is left of JSON that was cut: open strings and brackets are closed, else the cut goes back to the last whole
/// value. One pass, then at most three parses.
pub fn repair(text: &str) -> Option<Value> {
    let (mut in_string, mut escaped) = (false, false);
    let mut closers = String::new();
    // The end of the last whole value, and how many brackets were open there.
    let mut whole = None;
    let mut escape_at = text.len();
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if in_string => (escaped, escape_at) = (true, at),
            '"' => in_string = !in_string,
            _ if in_string => {}
            '{' => closers.push('}'),
            '[' => closers.push(']'),
            '}' | ']' => {
                let _ = closers.pop();
                whole = Some((at + 1, closers.len()));
            }
            ',' => whole = Some((at, closers.len())),
            _ => {}
        }
    }
    let close = |head: &str, quote: &str, open: usize| {
        let tail: String = closers.chars().take(open).collect::<Vec<_>>().into_iter().rev().collect();
        serde_json::from_str(&format!("{head}{quote}{tail}")).ok()
    };
    let quote = if in_string { "\"" } else { "" };
    // A cut inside an escape leaves at most `\u` and three digits.
    let escape_cut = in_string && text.len() - escape_at < 6;
    let head = if escaped { text.get(..escape_at)? } else { text };
    close(head, quote, closers.len())
        .or_else(|| close(text.get(..escape_at).filter(|_| escape_cut)?, quote, closers.len()))
        .or_else(|| whole.and_then(|(end, open)| close(text.get(..end)?, "", open)))
}
