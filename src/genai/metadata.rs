//! What users and frameworks put into metadata, wherever a producer carries it (`dialects.md` section 6, C).
//!
//! LangGraph writes thread, step and checkpoint there; users write session and user ids.

use serde_json::{Map, Value};

use super::{attrs::Attrs, operation::CheckpointRef, state};

/// Prefixes under which producers flatten metadata.
const PREFIXES: &[&str] = &[
    "langsmith.metadata.",
    "traceloop.association.properties.",
    "langfuse.observation.metadata.",
    "langfuse.trace.metadata.",
    "ai.telemetry.metadata.",
    "ai.settings.context.",
    "lmnr.association.properties.",
    "metadata.",
];
/// Attributes that hold metadata as one JSON object.
const OBJECTS: &[&str] =
    &["metadata", "langfuse.observation.metadata", "langfuse.trace.metadata", "run_metadata"];
const SESSION: &[&str] = &[
    "langfuse_session_id",
    "session_id",
    "sessionId",
    "conversation_id",
    "conversationId",
    "chat_id",
    "thread_id",
    "threadId",
];
const USER: &[&str] = &["langfuse_user_id", "user_id", "userId"];
const THREAD: &[&str] = &["thread_id", "threadId"];
/// Values under one of these count as ours to read.
const KNOWN: &[&[&str]] = &[
    SESSION,
    USER,
    THREAD,
    &[
        "langgraph_step",
        "langgraph_node",
        "langgraph_checkpoint_ns",
        "checkpoint_ns",
        "checkpoint_id",
        "parent_checkpoint_id",
    ],
];

/// The metadata of a record that anyone reads, by bare name; the first carrier wins.
#[derive(Debug, Default)]
pub(super) struct Metadata {
    values: Map<String, Value>,
    /// What the strongest carrier that names a session calls it.
    session: Option<String>,
}

impl Metadata {
    /// Reads every carrier.
    pub(super) fn read(attrs: &Attrs) -> Self {
        let mut metadata = Self::default();
        for prefix in PREFIXES {
            let bare = |key: &str| key.get(prefix.len()..).unwrap_or_default().to_owned();
            metadata.take(attrs.with_prefix(prefix).map(|(key, value)| (bare(key), value.clone())).collect());
        }
        for key in OBJECTS {
            if let Some(Value::Object(members)) = attrs.get(key).map(|v| state::open(v).value) {
                metadata.take(members);
            }
        }
        metadata
    }

    /// Session before conversation before thread, as the callbacks of the frameworks have it.
    pub(super) fn session(&self) -> Option<String> {
        self.session.clone()
    }

    pub(super) fn user(&self) -> Option<String> {
        self.text(USER)
    }

    pub(super) fn thread(&self) -> Option<String> {
        self.text(THREAD)
    }

    /// The node of a graph that a record belongs to.
    pub(super) fn node(&self) -> Option<String> {
        self.text(&["langgraph_node"])
    }

    /// The superstep of a graph, with the thread and the graph that it counts in.
    pub(super) fn step(&self) -> Option<(String, i64)> {
        let step = self.values.get("langgraph_step")?;
        let step = step.as_i64().or_else(|| step.as_str()?.trim().parse().ok())?;
        // Each graph counts its own steps; a subgraph is named by all but the last segment of its namespace.
        let space = self.text(&["langgraph_checkpoint_ns", "checkpoint_ns"]).unwrap_or_default();
        let graph = space.rsplit_once('|').map_or("", |(outer, _)| outer);
        Some((format!("langgraph_step {} {graph}", self.thread().unwrap_or_default()), step))
    }

    /// The checkpoint that a run was resumed from.
    pub(super) fn checkpoint(&self) -> Option<CheckpointRef> {
        Some(CheckpointRef {
            checkpoint_id: self.text(&["checkpoint_id"])?,
            namespace: self.text(&["langgraph_checkpoint_ns", "checkpoint_ns"]),
            thread_id: self.thread(),
            parent_checkpoint_id: self.text(&["parent_checkpoint_id"]),
            source: "langgraph".to_owned(),
            recorded: false,
        })
    }

    /// Takes what one carrier holds, where no stronger one did.
    fn take(&mut self, carried: Map<String, Value>) {
        self.session = self.session.take().or_else(|| text(&carried, SESSION));
        for (key, value) in carried {
            if KNOWN.iter().any(|keys| keys.contains(&key.as_str())) && !self.values.contains_key(&key) {
                let _ = self.values.insert(key, value);
            }
        }
    }

    fn text(&self, keys: &[&str]) -> Option<String> {
        text(&self.values, keys)
    }
}

fn text(values: &Map<String, Value>, keys: &[&str]) -> Option<String> {
    keys.iter().find_map(|key| match values.get(*key)? {
        // Langfuse writes every value as JSON.
        Value::String(text) => Some(text.trim().trim_matches('"').to_owned()).filter(|t| !t.is_empty()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    })
}
