//! What a person answered, where only a part of a message says so: to a tool that waits for approval, to an interrupt.
//!
//! Such an answer starts a run, or a turn of it. So it counts only behind the last message of the model: what stands
//! before that was answered in an earlier run, or shows in an earlier call of this one.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use serde_json::{Map, Value};

use super::{
    forest::{Forest, Node},
    messages::canonical,
    model::{Step, StepKind},
    order::{Class, Edge},
    steps::{CallFindings, Draft},
};
use crate::{
    genai::{
        message::{ContentState, Message, Part},
        operation::Kind,
    },
    otlp::record::TraceId,
};

/// Answers that are read of one input: each looks through all of it.
const ANSWERS_MAX: usize = 256;

/// Tools that one answer is put before, of those that share its call id.
const WAITED_MAX: usize = 64;

/// An answer of a person.
#[derive(Debug)]
struct Answer {
    id: String,
    decision: String,
    reason: Option<String>,
    /// The call that was waiting, and its tool.
    call: Option<(String, String)>,
}

/// Adds a step for every answer that the inputs of agents and model calls show; returns the edges of order that follow.
pub(super) fn infer(forest: &Forest, nodes: &[usize], drafts: &mut Vec<Draft>) -> Vec<Edge> {
    let draft_of: HashMap<usize, usize> =
        drafts.iter().enumerate().filter_map(|(number, draft)| Some((draft.node?, number))).collect();
    let tools = tools(drafts);
    let mut seen = BTreeSet::new();
    let mut edges = Vec::new();
    for number in nodes {
        let node = &forest.nodes[*number];
        let shows = draft_of.get(number).copied();
        let input = match shows.and_then(|shows| drafts.get(shows)) {
            Some(draft) if draft.step.kind == StepKind::ModelCall => &draft.input,
            _ if node.op.kind == Kind::Agent => &node.op.input.value,
            _ => continue,
        };
        for answer in answers(input) {
            if !seen.insert(answer.id.clone()) {
                continue;
            }
            let above = || forest.above(*number).find_map(|up| draft_of.get(&up).copied());
            let parent = shows.map_or_else(above, |shows| drafts.get(shows).and_then(|draft| draft.parent));
            let before = drafts.len();
            edges.extend(shows.map(|after| Edge { class: Class::Result, before, after }));
            // The tool that was let run ran in the trace that shows the answer, before the model was told.
            let waited = answer.call.as_ref().and_then(|(id, _)| tools.get(&(node.trace, id.clone())));
            let waited = waited.map(Vec::as_slice).unwrap_or_default();
            edges.extend(waited.iter().take(WAITED_MAX).map(|(after, _)| Edge {
                class: Class::Asked,
                before,
                after: *after,
            }));
            let start = waited.iter().map(|(_, start)| *start).fold(node.order_ns, u64::min);
            drafts.push(step(node, answer, start, parent, before));
        }
    }
    edges
}

/// The tool calls of each trace by call id, with when they start.
fn tools(drafts: &[Draft]) -> HashMap<(TraceId, String), Vec<(usize, u64)>> {
    let mut tools: HashMap<_, Vec<_>> = HashMap::new();
    for (number, draft) in drafts.iter().enumerate().filter(|(_, d)| d.step.kind == StepKind::ToolCall) {
        if let (Some(id), Some(trace)) = (draft.step.tool_call_id.clone(), draft.step.trace_id) {
            tools.entry((trace, id)).or_default().push((number, draft.rank.0));
        }
    }
    tools
}

fn step(node: &Node, answer: Answer, start: u64, parent: Option<usize>, number: usize) -> Draft {
    let reason = answer.reason.map(|reason| Message {
        role: "user".into(),
        parts: vec![Part::text(reason)],
        ..Message::default()
    });
    let mut agent_path = node.agents_above.to_vec();
    if let Some(agent) = node.op.agent_name.as_ref().filter(|agent| !agent_path.contains(agent)) {
        agent_path.push(agent.clone());
    }
    let step = Step {
        kind: StepKind::HumanInput,
        name: answer.call.map_or_else(|| "human_input".to_owned(), |(_, tool)| tool),
        decision: Some(answer.decision),
        start_ns: start,
        end_ns: start,
        trace_id: node.trace.is_valid().then_some(node.trace),
        depth: node.depth,
        agent_path,
        output_messages: reason.map(Arc::new).into_iter().collect(),
        output_state: ContentState::Inferred,
        inferred: true,
        dialect: node.op.dialect.to_owned(),
        service_name: super::steps::service_name(node),
        ..Step::default()
    };
    Draft {
        step: Box::new(step),
        node: None,
        input: Vec::new(),
        rank: (start, node.position, node.trace, node.span, number),
        parent,
        calls: CallFindings { filled: vec!["decision"], ..CallFindings::default() },
    }
}

fn answers(input: &[Arc<Message>]) -> Vec<Answer> {
    let spoken = input.iter().rposition(|message| message.role == "assistant").map_or(0, |last| last + 1);
    let new = input.iter().skip(spoken).flat_map(|message| &message.parts);
    let told = new.filter_map(|part| if let Part::Other(block) = part { answer(block, input) } else { None });
    told.take(ANSWERS_MAX).collect()
}

fn answer(block: &Map<String, Value>, input: &[Arc<Message>]) -> Option<Answer> {
    match kind(block)?.as_str() {
        "tool_approval_response" => {
            let id = text(block, &["approval_id", "approvalId"])?;
            let approved = block.get("approved")?.as_bool()?;
            Some(Answer {
                decision: if approved { "approved" } else { "denied" }.to_owned(),
                reason: text(block, &["reason"]),
                call: waiting(&id, input),
                id,
            })
        }
        "interrupt_response" | "interruptresponse" => {
            let inner = ["content", "interruptResponse"].iter().find_map(|key| block.get(*key)?.as_object());
            let inner = inner.unwrap_or(block);
            let response = inner.get("response")?;
            Some(Answer {
                id: text(inner, &["interrupt_id", "interruptId", "id"])?,
                decision: response.as_str().map_or_else(|| canonical(response), str::to_owned),
                reason: None,
                call: None,
            })
        }
        _ => None,
    }
}

/// The call that an approval was asked for, told by the request before it.
fn waiting(approval: &str, input: &[Arc<Message>]) -> Option<(String, String)> {
    let parts = || input.iter().flat_map(|message| &message.parts);
    let call = parts().find_map(|part| match part {
        Part::Other(block) if kind(block)? == "tool_approval_request" => {
            text(block, &["approval_id", "approvalId"]).filter(|id| id == approval)?;
            text(block, &["tool_call_id", "toolCallId"])
        }
        _ => None,
    })?;
    parts().find_map(|part| match part {
        Part::ToolCall { id: Some(id), name, .. } if *id == call => Some((call.clone(), name.clone())),
        _ => None,
    })
}

fn kind(block: &Map<String, Value>) -> Option<String> {
    Some(block.get("type")?.as_str()?.replace('-', "_").to_ascii_lowercase())
}

fn text(block: &Map<String, Value>, keys: &[&str]) -> Option<String> {
    keys.iter().find_map(|key| block.get(*key)?.as_str()).map(str::to_owned)
}
