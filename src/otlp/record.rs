//! A record: one span, one log record, or one checkpoint, with the resource and scope it came under.
//!
//! Records are the truth (invariant 1); everything else is derived from them.

mod hash;

use std::{fmt, str::FromStr, sync::Arc};

use opentelemetry_proto::tonic::{
    common::v1::InstrumentationScope, logs::v1::LogRecord, resource::v1::Resource, trace::v1::Span,
};
use serde::{Deserialize, Serialize};

macro_rules! hex_id {
    ($(#[$doc:meta])* $name:ident, $len:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; $len]);

        impl $name {
            /// The id in `bytes`; all zeros (no id) when the length is not the one OTLP asks for.
            pub fn from_slice(bytes: &[u8]) -> Self {
                Self(bytes.try_into().unwrap_or_default())
            }

            /// False for the all-zero id, which OTLP calls invalid.
            pub fn is_valid(self) -> bool {
                self != Self::default()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&hex::encode(self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{self}")
            }
        }

        impl FromStr for $name {
            type Err = hex::FromHexError;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let mut id = [0; $len];
                hex::decode_to_slice(text, &mut id)?;
                Ok(Self(id))
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }
    };
}

hex_id!(
    /// A trace id; written as 32 hex digits.
    TraceId, 16
);
impl TraceId {
    /// Where the checkpoints that are posted for a run stand: an id like that of a trace, made of the run's.
    pub fn of_checkpoints(run_id: &str) -> Self {
        let mut id = [0; 16];
        let hasher = blake3::Hasher::new_derive_key("spanreel checkpoints of a run");
        { hasher }.update(run_id.as_bytes()).finalize_xof().fill(&mut id);
        Self(id)
    }
}

hex_id!(
    /// A span id; written as 16 hex digits.
    SpanId, 8
);
hex_id!(
    /// BLAKE3 over the canonical resource, scope and record; written as 64 hex digits.
    RecordHash, 32
);

/// What a record came under: resource and instrumentation scope, with their schema URLs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Origin {
    /// The resource as sent; shared by its scopes.
    pub resource: Arc<Resource>,
    /// `ResourceSpans.schema_url`.
    pub resource_schema_url: String,
    /// The scope as sent; `None` when the sender gave none.
    pub scope: Option<InstrumentationScope>,
    /// `ScopeSpans.schema_url`.
    pub scope_schema_url: String,
}

impl Origin {
    /// The scope's name, empty when there is no scope.
    pub fn scope_name(&self) -> &str {
        self.scope.as_ref().map_or("", |s| s.name.as_str())
    }
}

/// An agent's checkpoint, as posted to the API.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// The run it belongs to.
    pub run_id: String,
    /// Its id, unique in the run.
    pub checkpoint_id: String,
    /// The step after which it was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_index: Option<u32>,
    /// LangGraph's `checkpoint_ns` and its like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The thread that the checkpoint belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    /// The checkpoint it follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_checkpoint_id: Option<String>,
    /// Who took it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The state itself, when the sender gives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<serde_json::Value>,
}

/// The three kinds of record.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// A span.
    Span(Span),
    /// A log record.
    Log(LogRecord),
    /// A checkpoint posted to the API.
    Checkpoint(Checkpoint),
}

/// Names a record across its versions (design, section 4).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A span: versions share it.
    Span(TraceId, SpanId),
    /// A log record: every distinct record is its own.
    Log(TraceId, SpanId, RecordHash),
    /// A checkpoint of a run.
    Checkpoint(String, String),
}

/// One accepted record.
#[derive(Clone, Debug)]
pub struct Record {
    /// The span, log record or checkpoint, as sent.
    pub body: Body,
    /// Resource and scope; shared by the records of a request.
    pub origin: Arc<Origin>,
    /// Content hash; two records with equal hashes are the same version of the same thing.
    pub hash: RecordHash,
    /// When the receiver took it, nanoseconds since the Unix epoch.
    pub received_at: u64,
    /// Its frame's sequence number in the WAL of the node that took it.
    pub seq: u64,
    /// Bytes of its origin that it is charged with: the records of one origin share it.
    pub share: usize,
}

impl Record {
    /// Builds a record and computes its hash.
    pub fn new(body: Body, origin: Arc<Origin>, received_at: u64, seq: u64) -> Self {
        let seed = Seed::of(&origin);
        Self::seeded(body, origin, &seed, received_at, seq)
    }

    /// As [`Self::new`], with the part of the hash that all records of `origin` share.
    pub fn seeded(mut body: Body, origin: Arc<Origin>, seed: &Seed, received_at: u64, seq: u64) -> Self {
        let hash = hash::of(&mut body, seed.0.clone());
        Self { body, origin, hash, received_at, seq, share: 0 }
    }

    /// The trace it belongs to; all zeros for a checkpoint and for a log record outside any trace.
    pub fn trace_id(&self) -> TraceId {
        match &self.body {
            Body::Span(s) => TraceId::from_slice(&s.trace_id),
            Body::Log(l) => TraceId::from_slice(&l.trace_id),
            Body::Checkpoint(_) => TraceId::default(),
        }
    }

    /// What it is looked up by: its trace, or for a checkpoint the place of those of its run.
    pub fn place(&self) -> TraceId {
        match &self.body {
            Body::Checkpoint(checkpoint) => TraceId::of_checkpoints(&checkpoint.run_id),
            _ => self.trace_id(),
        }
    }

    /// The span it is, or the span that a log record points to.
    pub fn span_id(&self) -> SpanId {
        match &self.body {
            Body::Span(s) => SpanId::from_slice(&s.span_id),
            Body::Log(l) => SpanId::from_slice(&l.span_id),
            Body::Checkpoint(_) => SpanId::default(),
        }
    }

    /// The key that all versions of this record share.
    pub fn key(&self) -> Key {
        match &self.body {
            Body::Span(_) => Key::Span(self.trace_id(), self.span_id()),
            Body::Log(_) => Key::Log(self.trace_id(), self.span_id(), self.hash),
            Body::Checkpoint(c) => Key::Checkpoint(c.run_id.clone(), c.checkpoint_id.clone()),
        }
    }

    /// The span, if it is one.
    pub fn as_span(&self) -> Option<&Span> {
        if let Body::Span(s) = &self.body { Some(s) } else { None }
    }

    /// The log record, if it is one.
    pub fn as_log(&self) -> Option<&LogRecord> {
        if let Body::Log(l) = &self.body { Some(l) } else { None }
    }
}

/// The start of the hashes of all records of one origin: a large resource is hashed once, not once a record.
#[derive(Clone, Debug)]
pub struct Seed(blake3::Hasher);

impl Seed {
    /// The start for `origin`.
    pub fn of(origin: &Origin) -> Self {
        Self(hash::seed(origin))
    }
}

#[cfg(test)]
mod tests;
