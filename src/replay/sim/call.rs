//! A call that an agent makes and the answer it gets, in no provider's shape: what matching compares, and what the wire
//! formats read and write.

use serde::Serialize;
use serde_json::Value;

use crate::{
    genai::message::{Message, Part},
    replay::redact,
};

/// A call that an agent makes.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// A model is asked.
    Model(ModelCall),
    /// A tool is called.
    Tool(ToolCall),
    /// Texts are embedded.
    Embedding(EmbeddingCall),
}

impl Call {
    /// The call as a redacted record would have it.
    pub(super) fn redacted(&self) -> Self {
        let mut call = self.clone();
        match &mut call {
            Self::Model(call) => {
                call.system.iter_mut().for_each(redact::part);
                call.messages.iter_mut().flat_map(|m| &mut m.parts).for_each(redact::part);
                call.tools =
                    std::mem::take(&mut call.tools).into_iter().map(ToolDefinition::redacted).collect();
            }
            Self::Tool(call) => redact::value(&mut call.arguments),
            Self::Embedding(call) => {
                call.inputs.iter_mut().for_each(|text| *text = redact::text(text).into_owned());
            }
        }
        call
    }
}

/// What a model is asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelCall {
    /// The model's name, as asked for.
    pub model: String,
    /// System and developer instructions that stand outside of the messages.
    pub system: Vec<Part>,
    /// The conversation, oldest first; system messages may stand among them.
    pub messages: Vec<Message>,
    /// The tools that the model may ask for.
    pub tools: Vec<ToolDefinition>,
    /// How the model is to choose; `None` where the request says nothing.
    pub sampling: Sampling,
    /// The JSON schema or type that the answer must have.
    pub response_format: Option<Value>,
    /// The answer is wanted as a stream.
    pub stream: bool,
    /// A stream is to end with the token counts (chat completions only).
    pub stream_usage: bool,
    /// The id of an earlier answer whose conversation this one goes on with (`previous_response_id`).
    pub previous_id: Option<String>,
}

/// Settings of a model call that change what it answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Sampling {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
}

/// A tool that a model may ask for.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ToolDefinition {
    /// Its name.
    pub name: String,
    /// What it is for; empty when not said.
    pub description: String,
    /// The JSON schema of its arguments; `null` when not said.
    pub parameters: Value,
}

impl ToolDefinition {
    /// What it is for, and its schema, masked; its name stays.
    pub(in crate::replay) fn redacted(mut self) -> Self {
        self.description = redact::text(&self.description).into_owned();
        redact::value(&mut self.parameters);
        self
    }
}

/// A tool that is called.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolCall {
    /// Its name.
    pub name: String,
    /// A JSON object, as a rule.
    pub arguments: Value,
}

/// Texts that are embedded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EmbeddingCall {
    /// The model's name, as asked for.
    pub model: String,
    /// The texts, or lists of token numbers as JSON.
    pub inputs: Vec<String>,
    /// The length of a vector that is asked for.
    pub dimensions: Option<usize>,
}

/// What a call is answered with.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// What the model said.
    Model(ModelAnswer),
    /// What the tool gave.
    Tool(ToolAnswer),
    /// A vector for each text.
    Embedding(EmbeddingAnswer),
    /// The provider or the tool failed then, and does so again.
    Failed(Failed),
    /// The caller is to make the call itself.
    Live,
    /// The record has no answer.
    Refused(Refused),
}

/// What a model said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelAnswer {
    /// The recorded step that answers.
    pub step: u32,
    /// Twenty-four hex digits, unique in the session: the wire formats make the ids of responses and items of it. Not
    /// the recorded id: two traces with one response id would be one run.
    pub id: String,
    /// The model that answered.
    pub model: String,
    /// Text, reasoning and tool calls, in order. Every tool call has an id.
    pub parts: Vec<Part>,
    /// `stop`, `length`, `tool_call`, `content_filter`, or the provider's own word.
    pub finish: String,
    /// Tokens of the recorded call.
    pub usage: Tokens,
    /// When the recorded call began, seconds since the Unix epoch.
    pub created_s: u64,
}

/// Tokens as recorded; 0 where the record does not tell. Input includes cached tokens, output includes reasoning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Tokens {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    pub reasoning: u64,
}

/// What a tool gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolAnswer {
    /// The recorded step that answers; `None` when a policy does.
    pub step: Option<u32>,
    /// Text, or any JSON.
    pub result: Value,
    /// The tool says that it failed.
    pub is_error: bool,
}

/// A vector for each text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EmbeddingAnswer {
    /// The recorded step that answers.
    pub step: u32,
    /// The model that answered.
    pub model: String,
    /// In the order of the inputs.
    pub vectors: Vec<Vec<f32>>,
    /// False when the vectors were made up.
    pub is_recorded: bool,
    /// Tokens of the recorded call.
    pub usage: Tokens,
}

/// A failure that was recorded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Failed {
    /// The recorded step that answers.
    pub step: u32,
    /// The status of the provider's answer, 400 to 599; 500 when the record does not tell.
    pub status: u16,
    /// The provider's word for it (`rate_limit_error`, `ThrottlingException`); empty when not recorded.
    pub kind: String,
    /// What it said.
    pub message: String,
}

/// Why the record has no answer. It reaches the user through the exception of the provider's client, so that the message
/// says all that is needed.
#[derive(Clone, Debug, PartialEq)]
pub struct Refused {
    /// What is in the way.
    pub code: RefusedCode,
    /// The recorded step that is nearest, or the hole.
    pub step: Option<u32>,
    /// What differs, and what can be done.
    pub message: String,
}

/// What is in the way of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusedCode {
    /// Nothing like it was recorded.
    Divergence,
    /// It was made then, and the record lacks its answer.
    Hole,
    /// The policy forbids it.
    Denied,
    /// A live call was needed and is not allowed, or failed.
    LiveBlocked,
    /// The budget for live calls is spent.
    Budget,
}

impl RefusedCode {
    /// The code as clients see it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Divergence => "spanreel_divergence",
            Self::Hole => "spanreel_hole",
            Self::Denied => "spanreel_denied",
            Self::LiveBlocked => "spanreel_live_blocked",
            Self::Budget => "spanreel_budget",
        }
    }

    /// The code with that name.
    pub(super) fn of_name(name: &str) -> Option<Self> {
        [Self::Divergence, Self::Hole, Self::Denied, Self::LiveBlocked, Self::Budget]
            .into_iter()
            .find(|code| code.name() == name)
    }
}
