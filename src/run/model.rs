//! What assembly yields: runs, steps, the tree, the verdict. Plain data; every collection is in its final order.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    genai::{
        message::{ContentState, Message, Part},
        operation::{CheckpointRef, Failure, OpStatus, Request, Rule, Usage},
    },
    otlp::record::{RecordHash, SpanId, TraceId},
};

/// What a step is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum StepKind {
    ModelCall,
    ToolCall,
    Retrieval,
    Embedding,
    Rerank,
    Guardrail,
    Handoff,
    HumanInput,
    Evaluation,
    Memory,
    Checkpoint,
    AgentCall,
    /// The kind that says least.
    #[default]
    Task,
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum RunStatus {
    Running,
    Completed,
    Failed,
    Interrupted,
    Abandoned,
}

/// How far a run can be answered from its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Replayability {
    Complete,
    Partial,
    None,
}

/// Which part of the record a reason speaks of; `simulate` refuses for content reasons only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum ReasonClass {
    Content,
    Structure,
}

/// Why a run is not complete; the table in section 4 of the design.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum ReasonCode {
    MissingInput,
    MissingOutput,
    MissingToolResult,
    MissingToolCall,
    TruncatedContent,
    RedactedContent,
    ExternalContent,
    UnparsableContent,
    MissingCheckpoint,
    DroppedAttributes,
    DroppedEvents,
    DroppedLinks,
    MissingRoot,
    MissingParent,
    Unfinished,
    InvalidTime,
    DuplicateConflict,
    Cycle,
}

impl ReasonCode {
    /// The class that the design's table puts it in.
    pub fn class(self) -> ReasonClass {
        if self < Self::MissingRoot { ReasonClass::Content } else { ReasonClass::Structure }
    }
}

/// One entry of `partial_reasons`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Reason {
    pub code: ReasonCode,
    pub class: ReasonClass,
    pub detail: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_index: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
}

/// Something worth knowing that does not stop a replay.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Note {
    /// `clock_skew`, `duplicate_elected`, `value_inferred`, `status_conflict`, `order_conflict`, `awaiting_input`,
    /// `parent_outside`, `deep_value`, `deep_tree`, `uncorrelated_content`, or of a frame's content a reason's code.
    /// That a record came late is no note: a run does not depend on when its records came (invariant 2).
    pub code: String,
    pub detail: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_index: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
}

/// One step of a run, in full but for its input messages, which are indexes into [`Run::messages`].
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Step {
    pub index: u32,
    pub kind: StepKind,
    pub name: String,
    pub decision: Option<String>,
    /// `None` only for a step that comes from a log record or was inferred.
    pub span_id: Option<SpanId>,
    pub trace_id: Option<TraceId>,
    /// The step that encloses it.
    pub parent_index: Option<u32>,
    /// Number of spans above it in its trace.
    pub depth: u32,
    /// Agents above it, outermost first.
    pub agent_path: Vec<String>,
    pub parallel_group: Option<u32>,
    /// Nanoseconds since the Unix epoch; 0 when unknown.
    pub start_ns: u64,
    pub end_ns: u64,
    pub status: OpStatus,
    pub error: Option<Failure>,
    pub model: Option<String>,
    pub response_model: Option<String>,
    pub provider: Option<String>,
    pub response_id: Option<String>,
    pub finish_reasons: Vec<String>,
    pub request: Request,
    pub ttft_ns: Option<u64>,
    pub system_instructions: Vec<Part>,
    pub tool_definitions: Option<Value>,
    /// Indexes into [`Run::messages`]; one may stand twice.
    pub input_messages: Vec<u32>,
    pub input_state: ContentState,
    pub output_messages: Vec<Arc<Message>>,
    pub output_state: ContentState,
    pub tool_call_id: Option<String>,
    pub tool_arguments: Option<Value>,
    pub tool_result: Option<Value>,
    pub retrieval_query: Option<String>,
    pub retrieval_documents: Option<Value>,
    pub usage: Usage,
    pub cost_source: Option<String>,
    /// True when no span shows it: a later model call did.
    pub inferred: bool,
    pub dialect: String,
    pub service_name: Option<String>,
    /// Spans that report the same call again.
    pub superseded_spans: Vec<SpanId>,
}

/// A message of a run, stored once however often the history repeats it.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct RunMessage {
    /// BLAKE3 over role, name and parts in canonical JSON.
    pub hash: [u8; 32],
    pub message: Arc<Message>,
    pub first_step_index: u32,
}

/// A checkpoint of a run: posted, or shown by a span.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct RunCheckpoint {
    pub reference: CheckpointRef,
    pub step_index: Option<u32>,
    pub state: Option<Value>,
}

/// A span in the tree of a run, frames and superseded spans included.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct TreeNode {
    pub span_id: SpanId,
    pub trace_id: TraceId,
    pub parent_span_id: Option<SpanId>,
    pub name: String,
    /// The step kind, or `agent`, `workflow`, `task`, `internal`, `foreign` for a frame.
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_index: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<SpanId>,
    /// Hashes of versions of this span that were not elected.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_versions: Vec<RecordHash>,
    pub children: Vec<TreeNode>,
}

/// One assembled run.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Run {
    pub run_id: String,
    pub rule: Rule,
    /// Ids under which the run can also be found (the trace id of a run that was named later, ...).
    pub aliases: Vec<String>,
    pub status: RunStatus,
    pub settled: bool,
    pub start_ns: u64,
    pub end_ns: u64,
    pub steps: Vec<Step>,
    pub messages: Vec<RunMessage>,
    pub checkpoints: Vec<RunCheckpoint>,
    pub tree: Vec<TreeNode>,
    pub steps_by_kind: BTreeMap<StepKind, u32>,
    pub usage: Usage,
    pub cost_source: Option<String>,
    pub models: Vec<String>,
    pub tools: Vec<String>,
    pub agents: Vec<String>,
    pub conversation: Option<String>,
    pub user: Option<String>,
    pub thread: Option<String>,
    pub trace_ids: Vec<TraceId>,
    pub root_span_id: Option<SpanId>,
    pub span_count: u32,
    pub service_names: Vec<String>,
    pub replayability: Replayability,
    pub partial_reasons: Vec<Reason>,
    pub notes: Vec<Note>,
    pub error: Option<Failure>,
    pub parent_run_id: Option<String>,
    /// BLAKE3 over the sorted record hashes.
    pub record_digest: RecordHash,
    /// What ties this run to other traces; equal keys are assembled together.
    pub join_keys: Vec<String>,
    /// `spans`, `logs` or `mixed`.
    pub source: &'static str,
    /// Least and greatest receive time of its records, nanoseconds since the Unix epoch.
    pub first_received_at: u64,
    pub last_received_at: u64,
}
