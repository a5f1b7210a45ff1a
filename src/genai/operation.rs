//! What one record means: an operation, in the words of the OTel GenAI conventions.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::message::{Content, ContentState, Messages, Part};

/// What an operation is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Kind {
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
    /// An agent invocation. A step (`agent_call`) only when declared, without a step below it, and with content.
    Agent,
    /// A workflow or pipeline that a user declared. A step (`task`) under the same rule.
    Workflow,
    /// A task that a user declared. A step (`task`) under the same rule.
    Task,
    /// A part of a framework (chain, prompt, parser, loop cycle, agent creation, ...): always a frame.
    Internal,
    /// Nothing that a GenAI convention knows (an HTTP span, a database call): always a frame.
    #[default]
    Foreign,
}

impl Kind {
    /// True for kinds that are a step wherever they stand.
    pub fn is_step(self) -> bool {
        self <= Self::Checkpoint
    }

    /// True when the span belongs to a GenAI convention at all.
    pub fn is_genai(self) -> bool {
        self != Self::Foreign
    }
}

/// Token counts, inclusive: input includes cached tokens, output includes reasoning (`dialects.md` B3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Usage {
    pub input_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
    pub cache_read_tokens: Option<u64>,
    pub cache_write_tokens: Option<u64>,
    pub reasoning_tokens: Option<u64>,
    /// Cost in US dollars, only where the producer gave one.
    pub cost_usd: Option<f64>,
}

impl Usage {
    /// True when the producer gave no count and no cost.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A producer's explicit name for a run, and the rule that found it; the order is the precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// `eai.run_id`.
    EaiRunId,
    /// `spanreel.run_id`, or an attribute named in the configuration.
    Configured,
    /// The producer's own run id (the table in `genai::identity`).
    Producer,
    /// Traces of one operation each, joined by conversation and prompt (Gemini CLI).
    ConversationPrompt,
    /// Traces of one producer tied by span links (AutoGen).
    Links,
    /// The trace id: no producer named the run.
    TraceId,
}

/// What an operation says of where it belongs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Identity {
    /// Explicit run ids on this very record, strongest rule first.
    pub run_ids: Vec<(Rule, String)>,
    /// Conversation or session (`dialects.md` C).
    pub conversation: Option<String>,
    /// The end user.
    pub user: Option<String>,
    /// LangGraph's thread and its like, when it differs from the conversation.
    pub thread: Option<String>,
    /// `spanreel.simulation_id` of the resource: a recorded run was executed again.
    pub simulation_id: Option<String>,
    /// `spanreel.parent_run_id` of the resource: that run.
    pub parent_run_id: Option<String>,
    /// What ties a log record outside any trace to the spans of the same work: the ids of calls, with their session.
    pub ties: Vec<String>,
    /// True when span links of this producer tie traces into one run (AutoGen).
    pub links_join: bool,
    /// True for the root of an agent whose links may point to the run that it goes on with.
    pub links_resume: bool,
}

/// A place in an explicit order that the producer wrote down; compared only within equal `series`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sequence {
    /// Which order it is (`langgraph_step`, `event.sequence`), with the scope and thread it runs in.
    pub series: String,
    /// The place in it.
    pub position: i64,
}

/// A checkpoint that an operation wrote or refers to.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct CheckpointRef {
    pub checkpoint_id: String,
    pub namespace: Option<String>,
    pub thread_id: Option<String>,
    pub parent_checkpoint_id: Option<String>,
    /// Where it was read (`langgraph`, `gen_ai.checkpoint.id`, ...).
    pub source: String,
    /// True when the record shows the checkpoint being made; false when it is only referred to (a resume).
    pub recorded: bool,
}

/// Why an operation failed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// `error.type` or the exception's type.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// What it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Status code of the provider's HTTP answer, 400 to 599.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_code: Option<u16>,
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum OpStatus {
    #[default]
    Ok,
    Error,
    /// Paused for a human or a resume: not an error.
    Interrupted,
    Cancelled,
}

/// Parameters of a model request.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Request {
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub max_tokens: Option<i64>,
    pub seed: Option<i64>,
    pub streamed: Option<bool>,
}

/// A tool call as its own span tells it.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Tool {
    pub name: Option<String>,
    pub call_id: Option<String>,
    /// JSON text is opened once; raw text when it does not parse. `Value::Null` when not captured.
    pub arguments: Content<Value>,
    pub result: Content<Value>,
    /// Response id of the model call that asked for it, where the producer says so.
    pub asked_by: Option<String>,
    /// A structured-output tool (`final_result` and its like): the model's answer, not a call.
    pub is_output: bool,
}

/// What of the order of its input a record does not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unordered {
    /// Which turn of the model comes first; what each asked for and was answered is known.
    Turns,
    /// Which message comes first.
    Messages,
}

/// Something odd that was seen while reading a record; becomes a note or a reason of the run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Issue {
    /// A note code (`status_conflict`, `value_inferred`, ...) or a reason code (`unparsable_content`, ...).
    pub code: &'static str,
    /// What was seen, in words; never content.
    pub detail: String,
}

/// One record, normalized.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Operation {
    pub kind: Kind,
    /// True for an agent, workflow or task that a user declared (design section 4, Steps).
    pub declared: bool,
    /// The dialect that decided the kind (`otel`, `openinference`, ...); `""` when none.
    pub dialect: &'static str,
    /// `gen_ai.operation.name` or the dialect's word for it, raw.
    pub operation: Option<String>,
    pub agent_name: Option<String>,
    pub agent_id: Option<String>,
    pub workflow_name: Option<String>,
    pub provider: Option<String>,
    pub request_model: Option<String>,
    pub response_model: Option<String>,
    pub response_id: Option<String>,
    pub request: Request,
    pub ttft_ns: Option<u64>,
    /// Normalized: `stop`, `length`, `tool_call`, `content_filter`, or what the producer says.
    pub finish_reasons: Vec<String>,
    pub usage: Usage,
    /// True for usage that sums what stands below (agent, workflow, wrapper): never counted with it.
    pub usage_is_aggregate: bool,
    pub cost_source: Option<String>,
    /// System instructions, told once. Their state counts for that of the input.
    pub system_instructions: Vec<Part>,
    pub system_state: ContentState,
    /// Tool definitions as sent, JSON opened.
    pub tool_definitions: Option<Value>,
    /// Input messages of a model call or an agent; system messages are moved to `system_instructions`.
    pub input: Content<Messages>,
    pub output: Content<Messages>,
    /// Set when the order of `input` is partly a guess.
    pub unordered: Option<Unordered>,
    pub tool: Tool,
    pub retrieval_query: Option<String>,
    pub retrieval_documents: Option<Value>,
    /// Verdict of a guardrail, answer of a human, target of a hand-off.
    pub decision: Option<String>,
    pub status: OpStatus,
    pub failure: Option<Failure>,
    /// True for a model call that may only stand for the calls below it: it counts where there is none.
    pub is_wrapper: bool,
    /// True for a detail of the operation above (the run of a tool, the wait for a permission): how it ended is how that ended.
    pub completes_parent: bool,
    /// True for a log record that tells of the very span that it points to: it is an operation only where that is missing.
    pub is_of_span: bool,
    /// True for a log record that is written when a call begins: the call that ends next is the one that it tells of.
    pub opens: bool,
    /// A placeholder that says that its parent has begun (Logfire): the id of that span's own parent, empty for a root.
    pub begins: Option<String>,
    /// How long it took, where a log record that marks the end says so.
    pub duration_ns: Option<u64>,
    pub identity: Identity,
    pub sequence: Option<Sequence>,
    pub checkpoints: Vec<CheckpointRef>,
    pub issues: Vec<Issue>,
}
