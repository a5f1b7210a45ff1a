//! Runs, step by step.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    genai::{
        message::{ContentState, Message, Part},
        operation::{Rule, Usage},
    },
    otlp::record::{RecordHash, SpanId, TraceId},
    run::model::{Replayability, Run, RunMessage, RunStatus, Step, StepKind},
};

pub(super) fn says(role: &str, text: &str) -> Message {
    Message { role: role.into(), parts: vec![Part::text(text)], ..Message::default() }
}

pub(super) fn asks(id: &str, name: &str, arguments: Value) -> Message {
    let parts = vec![Part::tool_call(Some(id.into()), name, Some(arguments))];
    Message { role: "assistant".into(), parts, ..Message::default() }
}

pub(super) fn answers(id: &str, result: Value) -> Message {
    let parts = vec![Part::tool_call_response(Some(id.into()), Some(result))];
    Message { role: "tool".into(), parts, ..Message::default() }
}

/// A run in the making. `salt` changes every id and time, which must make no difference.
#[derive(Clone)]
pub(super) struct Build {
    salt: u64,
    messages: Vec<RunMessage>,
    pub(super) steps: Vec<Step>,
}

pub(super) fn build(salt: u64) -> Build {
    Build { salt, messages: Vec::new(), steps: Vec::new() }
}

impl Build {
    /// A call id of this run.
    pub(super) fn id(&self, n: u32) -> String {
        format!("call_{}_{n}", self.salt)
    }

    fn next(&self, kind: StepKind, name: &str) -> Step {
        let at = self.steps.len() as u64;
        let start_ns = 1_796_004_000_000_000_000 + self.salt * 1_000_003 + at * 1_000_000;
        Step {
            index: u32::try_from(at).unwrap(),
            kind,
            name: name.into(),
            span_id: Some(SpanId((self.salt * 1_000 + at + 1).to_be_bytes())),
            trace_id: Some(TraceId([7; 16])),
            start_ns,
            end_ns: start_ns + (self.salt + 1) * 1_000,
            input_state: ContentState::Captured,
            output_state: ContentState::Captured,
            response_id: Some(format!("resp_{}_{at}", self.salt)),
            dialect: "otel".into(),
            ..Step::default()
        }
    }

    pub(super) fn chat(mut self, input: &[Message], output: Message) -> Self {
        let mut step = self.next(StepKind::ModelCall, "m");
        step.model = Some("m".into());
        step.finish_reasons = vec!["stop".into()];
        step.usage = Usage { input_tokens: Some(10), output_tokens: Some(2), ..Usage::default() };
        for message in input {
            let known = self.messages.iter().position(|m| *m.message == *message);
            let index = known.unwrap_or(self.messages.len());
            if known.is_none() {
                let first_step_index = step.index;
                let message = Arc::new(message.clone());
                self.messages.push(RunMessage { hash: [0; 32], message, first_step_index });
            }
            step.input_messages.push(u32::try_from(index).unwrap());
        }
        step.output_messages = vec![Arc::new(output)];
        self.steps.push(step);
        self
    }

    pub(super) fn tool(mut self, name: &str, arguments: Value, result: Value) -> Self {
        let mut step = self.next(StepKind::ToolCall, name);
        step.tool_call_id = Some(self.id(step.index));
        (step.tool_arguments, step.tool_result) = (Some(arguments), Some(result));
        self.steps.push(step);
        self
    }

    /// Changes the last step.
    pub(super) fn with(mut self, change: impl FnOnce(&mut Step)) -> Self {
        change(self.steps.last_mut().unwrap());
        self
    }

    /// Puts the last steps into one parallel group.
    pub(super) fn parallel(mut self, count: usize, group: u32) -> Self {
        let from = self.steps.len() - count;
        self.steps[from..].iter_mut().for_each(|step| step.parallel_group = Some(group));
        self
    }

    /// Numbers the steps as they stand.
    pub(super) fn done(mut self) -> Run {
        for (step, index) in self.steps.iter_mut().zip(0..) {
            step.index = index;
        }
        let start_ns = self.steps.first().map_or(0, |step| step.start_ns);
        Run {
            run_id: format!("run_{}", self.salt),
            rule: Rule::EaiRunId,
            aliases: vec![],
            status: RunStatus::Completed,
            settled: true,
            start_ns,
            end_ns: start_ns + self.salt + 1,
            steps: self.steps,
            messages: self.messages,
            checkpoints: vec![],
            tree: vec![],
            steps_by_kind: [].into(),
            usage: Usage::default(),
            cost_source: None,
            models: vec![],
            tools: vec![],
            agents: vec![],
            conversation: None,
            user: None,
            thread: None,
            trace_ids: vec![TraceId([7; 16])],
            root_span_id: None,
            span_count: 0,
            service_names: vec![],
            replayability: Replayability::Complete,
            partial_reasons: vec![],
            notes: vec![],
            error: None,
            parent_run_id: None,
            record_digest: RecordHash([3; 32]),
            join_keys: vec![],
            source: "spans",
            first_received_at: 0,
            last_received_at: 0,
        }
    }
}
