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
    let new = || blocks(input.iter().skip(spoken)).filter(|block| is_answer(block));
    if new().next().is_none() {
        return Vec::new();
    }
    let asked = Asked::of(input);
    new().filter_map(|block| answer(block, &asked)).collect()
}

fn is_answer(block: &Map<String, Value>) -> bool {
    matches!(
        kind(block).as_deref(),
        Some("tool_approval_response" | "interrupt_response" | "interruptresponse")
    )
}

fn answer(block: &Map<String, Value>, asked: &Asked<'_>) -> Option<Answer> {
    if kind(block)? == "tool_approval_response" {
        let id = text(block, &["approval_id", "approvalId"])?;
        let approved = block.get("approved")?.as_bool()?;
        return Some(Answer {
            decision: if approved { "approved" } else { "denied" }.to_owned(),
            reason: text(block, &["reason"]).map(str::to_owned),
            call: asked.call(id),
            id: id.to_owned(),
        });
    }
    let inner = ["content", "interruptResponse"].iter().find_map(|key| block.get(*key)?.as_object());
    let inner = inner.unwrap_or(block);
    let response = inner.get("response")?;
    Some(Answer {
        id: text(inner, &["interrupt_id", "interruptId", "id"])?.to_owned(),
        decision: response.as_str().map_or_else(|| canonical(response), str::to_owned),
        reason: None,
        call: None,
    })
}

/// What an input shows of the calls that approval was asked for.
struct Asked<'a> {
    /// Call ids by approval id.
    calls: HashMap<&'a str, &'a str>,
    /// Names of tools by call id.
    tools: HashMap<&'a str, &'a str>,
}

impl<'a> Asked<'a> {
    fn of(input: &'a [Arc<Message>]) -> Self {
        let mut asked = Self { calls: HashMap::new(), tools: HashMap::new() };
        for part in input.iter().flat_map(|message| &message.parts) {
            if let Part::ToolCall { id: Some(id), name, .. } = part {
                let _ = asked.tools.entry(id).or_insert(name);
            }
        }
        for block in blocks(input.iter()).filter(|b| kind(b).as_deref() == Some("tool_approval_request")) {
            let ids = [&["approval_id", "approvalId"], &["tool_call_id", "toolCallId"]]
                .map(|keys| text(block, keys));
            if let [Some(approval), Some(call)] = ids {
                let _ = asked.calls.entry(approval).or_insert(call);
            }
        }
        asked
    }

    /// The call that waits for this approval, and its tool.
    fn call(&self, approval: &str) -> Option<(String, String)> {
        let call = *self.calls.get(approval)?;
        Some((call.to_owned(), (*self.tools.get(call)?).to_owned()))
    }
}

fn blocks<'a>(
    messages: impl Iterator<Item = &'a Arc<Message>>,
) -> impl Iterator<Item = &'a Map<String, Value>> {
    let parts = messages.flat_map(|message| &message.parts);
    parts.filter_map(|part| if let Part::Other(block) = part { Some(block) } else { None })
}

fn kind(block: &Map<String, Value>) -> Option<String> {
    Some(block.get("type")?.as_str()?.replace('-', "_").to_ascii_lowercase())
}

fn text<'a>(block: &'a Map<String, Value>, keys: &[&str]) -> Option<&'a str> {
    keys.iter().find_map(|key| block.get(*key)?.as_str())
}
