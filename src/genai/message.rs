//! The normalized vocabulary of content: messages, parts, and the state of what was captured.
//!
//! Shapes and names are those of the OTel GenAI message schema, so a message serializes to what the
//! convention's `gen_ai.input.messages` would hold.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One message of a model call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// `system`, `user`, `assistant`, `tool`, or what the producer says.
    pub role: String,
    /// The participant's name, when given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The message's content, in order.
    pub parts: Vec<Part>,
    /// Why the model stopped; output messages only. Not part of the message's identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
}

/// A piece of a message. Members that the schema does not name are kept in `extra`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// Plain text.
    Text {
        /// The text; `None` when the producer kept it back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<String>,
        #[allow(missing_docs)]
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
    /// The model asks for a tool.
    ToolCall {
        /// The call id; `None` when absent or a sentinel.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        /// The tool's name.
        name: String,
        /// Parsed when they were JSON text; the raw text when it does not parse; `None` when kept back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<Value>,
        #[allow(missing_docs)]
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
    /// A tool's answer, given back to the model.
    ToolCallResponse {
        /// The id of the call it answers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        /// The answer; `None` when kept back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        response: Option<Value>,
        #[allow(missing_docs)]
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
    /// The model's reasoning.
    Reasoning {
        /// The text; `None` when kept back or encrypted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<String>,
        #[allow(missing_docs)]
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
    /// Everything else (`blob`, `uri`, `file`, `server_tool_call`, `compaction`, ...), as sent, `type` included.
    #[serde(untagged)]
    Other(Map<String, Value>),
}

impl Part {
    /// A text part.
    pub fn text(content: impl Into<String>) -> Self {
        Self::Text { content: Some(content.into()), extra: Map::new() }
    }

    /// A tool call part.
    pub fn tool_call(id: Option<String>, name: impl Into<String>, arguments: Option<Value>) -> Self {
        Self::ToolCall { id, name: name.into(), arguments, extra: Map::new() }
    }

    /// A tool result part.
    pub fn tool_call_response(id: Option<String>, response: Option<Value>) -> Self {
        Self::ToolCallResponse { id, response, extra: Map::new() }
    }
}

impl Message {
    /// The text of its text parts, joined.
    pub fn text(&self) -> String {
        self.parts
            .iter()
            .filter_map(|p| if let Part::Text { content, .. } = p { content.as_deref() } else { None })
            .collect()
    }
}

/// Messages, shared: a history that every call repeats is read and held once.
pub type Messages = Vec<Arc<Message>>;

/// What is known of one side (input or output) of an operation (`dialects.md` section D).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContentState {
    /// Recorded whole.
    Captured,
    /// The producer recorded nothing, or only structure without content.
    #[default]
    NotCaptured,
    /// Cut by a length limit; what is left was repaired as far as it goes.
    Truncated,
    /// Holds a redaction marker.
    Redacted,
    /// Stored elsewhere; a reference is all there is.
    External,
    /// Taken from another operation of the run.
    Inferred,
    /// The producer could not write it down.
    Unserializable,
}

/// A value with its state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Content<T> {
    /// What was recorded; empty or `None`-like when nothing was.
    pub value: T,
    /// How far it can be trusted.
    pub state: ContentState,
}

impl<T> Content<T> {
    /// A value that was recorded whole.
    pub fn captured(value: T) -> Self {
        Self { value, state: ContentState::Captured }
    }
}
