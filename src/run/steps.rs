//! Which nodes of a run are steps, and what each step holds (design section 4, "Steps").

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    mem,
    sync::Arc,
};

use super::{
    duplicates::{Duplicates, usage_of, worth},
    forest::{Forest, Node},
    model::{Step, StepKind},
    order::Rank,
};
use crate::genai::{
    message::{Content, ContentState, Message},
    operation::{Kind, OpStatus, Operation, Unordered},
};

/// A step before it has a number.
#[derive(Debug)]
pub(super) struct Draft {
    /// The step; indexes into messages and other steps are filled in once the order is known.
    pub(super) step: Box<Step>,
    /// Its node; `None` when the step is inferred.
    pub(super) node: Option<usize>,
    /// The input messages, still in full.
    pub(super) input: Vec<Arc<Message>>,
    /// What decides among ready steps.
    pub(super) rank: Rank,
    /// The draft of the step that encloses it.
    pub(super) parent: Option<usize>,
    /// What [`super::calls`] found out.
    pub(super) calls: CallFindings,
}

/// What is known of the tool calls that touch a step.
#[derive(Debug, Default)]
pub(super) struct CallFindings {
    /// Response id of the model call that asked for this tool call, as the producer has it.
    pub(super) asked_by: Option<String>,
    /// Names of tools that this model call asked for and that nothing answers.
    pub(super) unanswered: Vec<String>,
    /// True when another record than its span says that it failed.
    pub(super) failed_below: bool,
    /// A tool call that nothing in the run asked for.
    pub(super) unasked: bool,
    /// What of the order of the input is a guess.
    pub(super) unordered: Option<Unordered>,
    /// Sides that were filled from model calls.
    pub(super) filled: Vec<&'static str>,
}

/// The drafts of a run, in depth-first order of their nodes.
pub(super) fn draft(forest: &Forest, nodes: &[usize], duplicates: &Duplicates) -> Vec<Draft> {
    let steps = choose(forest, nodes, duplicates);
    // Walk order gives parents first, so the enclosing step of a parent is known when its child comes.
    let mut enclosing: HashMap<usize, usize> = HashMap::new();
    let mut drafts = Vec::with_capacity(steps.len());
    let mut by_position = BTreeMap::new();
    for number in nodes {
        let parent = forest.nodes[*number].parent.and_then(|up| enclosing.get(&up).copied());
        if let Some(kind) = steps.get(number) {
            let _ = enclosing.insert(*number, *number);
            let _ = by_position.insert(*number, (drafts.len(), parent));
            drafts.push(build(forest, *number, *kind, duplicates));
        } else if let Some(parent) = parent {
            let _ = enclosing.insert(*number, parent);
        }
    }
    for (draft_number, parent) in by_position.values() {
        let parent = parent.and_then(|up| by_position.get(&up)).map(|(number, _)| *number);
        if let Some(draft) = drafts.get_mut(*draft_number) {
            draft.parent = parent;
        }
    }
    drafts
}

/// The step kind of every node that is a step.
fn choose(forest: &Forest, nodes: &[usize], duplicates: &Duplicates) -> BTreeMap<usize, StepKind> {
    let mut steps = BTreeMap::new();
    let mut has_step_below: BTreeSet<usize> = BTreeSet::new();
    for number in nodes.iter().rev() {
        let node = &forest.nodes[*number];
        let below = has_step_below.contains(number);
        let kind = if duplicates.hides(*number) { None } else { kind_of(&node.op, below) };
        if let Some(kind) = kind {
            let _ = steps.insert(*number, kind);
        }
        if let (true, Some(up)) = (below || kind.is_some(), node.parent) {
            let _ = has_step_below.insert(up);
        }
    }
    steps
}

fn kind_of(op: &Operation, has_step_below: bool) -> Option<StepKind> {
    let leaf = || op.declared && !has_step_below && has_content(op);
    match op.kind {
        Kind::ModelCall => Some(StepKind::ModelCall),
        // The model's answer in the shape of a call.
        Kind::ToolCall if op.tool.is_output => None,
        Kind::ToolCall => Some(StepKind::ToolCall),
        Kind::Retrieval => Some(StepKind::Retrieval),
        Kind::Embedding => Some(StepKind::Embedding),
        Kind::Rerank => Some(StepKind::Rerank),
        Kind::Guardrail => Some(StepKind::Guardrail),
        Kind::Handoff => Some(StepKind::Handoff),
        Kind::HumanInput => Some(StepKind::HumanInput),
        Kind::Evaluation => Some(StepKind::Evaluation),
        Kind::Memory => Some(StepKind::Memory),
        Kind::Checkpoint => Some(StepKind::Checkpoint),
        Kind::Agent => leaf().then_some(StepKind::AgentCall),
        // A node that paused the run for a person.
        Kind::Task if op.status == OpStatus::Interrupted && !has_step_below => Some(StepKind::HumanInput),
        Kind::Workflow | Kind::Task => leaf().then_some(StepKind::Task),
        Kind::Internal | Kind::Foreign => None,
    }
}

fn has_content(op: &Operation) -> bool {
    let states = [op.input.state, op.output.state, op.tool.arguments.state, op.tool.result.state];
    states.iter().any(|state| *state != ContentState::NotCaptured)
}

fn build(forest: &Forest, number: usize, kind: StepKind, duplicates: &Duplicates) -> Draft {
    let node = &forest.nodes[number];
    let reports = duplicates.reports.get(&number).map(Vec::as_slice).unwrap_or_default();
    let mut op = node.op.clone();
    let said_unset = op.status == OpStatus::Ok;
    let said_ok =
        node.record.as_span().and_then(|span| span.status.as_ref()).is_some_and(|status| status.code == 1);
    for other in reports {
        let report = &forest.nodes[*other].op;
        fill(&mut op, report);
        // A log record may know of a failure that the span leaves unset.
        if forest.nodes[*other].is_log && !said_ok {
            take_failure(&mut op, report);
        }
    }
    for below in node.children.iter().map(|child| &forest.nodes[*child].op).filter(|op| op.completes_parent) {
        if !said_ok {
            take_failure(&mut op, below);
        }
        op.decision = op.decision.or_else(|| below.decision.clone());
    }
    let failed_below = said_unset && op.status == OpStatus::Error;
    // A log record is written when something ends; the first of those on one call is nearest to its start.
    let logs = || reports.iter().map(|n| &forest.nodes[*n]).filter(|n| n.is_log && n.start_ns != 0);
    let start_ns =
        if node.is_log { logs().map(|n| n.start_ns).fold(node.start_ns, u64::min) } else { node.start_ns };
    let order_ns = if node.is_log { start_ns } else { node.order_ns };
    let (usage, cost_source) = usage_of(forest, number, reports);
    let (sides, arguments, result) = contents(kind, &mut op);
    let mut agent_path = node.agents_above.to_vec();
    // What a span says of its agent goes before what it inherits.
    if let (Some(agent), false) = (&op.agent_name, kind == StepKind::AgentCall)
        && !agent_path.contains(agent)
    {
        agent_path.push(agent.clone());
    }
    let name = name(kind, node, &op);
    let spans = |n: &&usize| !forest.nodes[**n].is_log;
    let step = Step {
        index: 0,
        kind,
        name,
        decision: op.decision,
        span_id: (!node.is_log).then_some(node.span),
        trace_id: node.trace.is_valid().then_some(node.trace),
        parent_index: None,
        depth: node.depth,
        agent_path,
        parallel_group: None,
        start_ns,
        end_ns: node.end_ns,
        status: op.status,
        error: op.failure,
        model: op.request_model.clone().or_else(|| op.response_model.clone()),
        response_model: op.response_model,
        provider: op.provider,
        response_id: op.response_id,
        finish_reasons: op.finish_reasons,
        request: op.request,
        ttft_ns: op.ttft_ns,
        system_instructions: op.system_instructions,
        tool_definitions: op.tool_definitions,
        input_messages: Vec::new(),
        input_state: sides.0,
        output_messages: op.output.value,
        output_state: sides.1,
        tool_call_id: op.tool.call_id,
        tool_arguments: arguments,
        tool_result: result,
        retrieval_query: op.retrieval_query,
        retrieval_documents: op.retrieval_documents,
        usage,
        cost_source,
        inferred: false,
        dialect: op.dialect.to_owned(),
        service_name: service_name(node),
        superseded_spans: reports.iter().filter(spans).map(|n| forest.nodes[*n].span).collect(),
    };
    Draft {
        step: Box::new(step),
        node: Some(number),
        input: op.input.value,
        rank: (order_ns, node.position, node.trace, node.span, 0),
        parent: None,
        calls: CallFindings {
            asked_by: op.tool.asked_by,
            failed_below,
            unordered: op.unordered,
            ..CallFindings::default()
        },
    }
}

/// States of both sides, tool arguments, tool result.
fn contents(
    kind: StepKind,
    op: &mut Operation,
) -> ((ContentState, ContentState), Option<serde_json::Value>, Option<serde_json::Value>) {
    let open = |content: &mut Content<serde_json::Value>| {
        let value = mem::take(&mut content.value);
        (!value.is_null() || content.state == ContentState::Captured).then_some(value)
    };
    let (arguments, result) = (open(&mut op.tool.arguments), open(&mut op.tool.result));
    let tool = (op.tool.arguments.state, op.tool.result.state);
    let spoken = (op.input.state, op.output.state);
    let better = |a: ContentState, b: ContentState| if worth(a) >= worth(b) { a } else { b };
    let known = |there: bool, state| if there { better(ContentState::Captured, state) } else { state };
    let sides = match kind {
        StepKind::ToolCall => tool,
        StepKind::ModelCall | StepKind::Embedding => spoken,
        StepKind::Retrieval | StepKind::Rerank => {
            let docs = op.retrieval_documents.is_some();
            let sides = (better(spoken.0, tool.0), better(spoken.1, tool.1));
            (known(op.retrieval_query.is_some(), sides.0), known(docs, sides.1))
        }
        _ => {
            let sides = (better(spoken.0, tool.0), better(spoken.1, tool.1));
            (sides.0, known(op.decision.is_some(), sides.1))
        }
    };
    (sides, arguments, result)
}

/// What the elected report lacks is taken from another report of the same call.
fn fill(op: &mut Operation, from: &Operation) {
    fn side<T: Clone>(to: &mut Content<T>, from: &Content<T>) {
        if to.state == ContentState::NotCaptured && from.state != ContentState::NotCaptured {
            to.clone_from(from);
        }
    }
    fn gap<T: Clone>(to: &mut Option<T>, from: &Option<T>) {
        if to.is_none() {
            to.clone_from(from);
        }
    }
    side(&mut op.input, &from.input);
    side(&mut op.output, &from.output);
    side(&mut op.tool.arguments, &from.tool.arguments);
    side(&mut op.tool.result, &from.tool.result);
    gap(&mut op.tool.call_id, &from.tool.call_id);
    gap(&mut op.tool.name, &from.tool.name);
    gap(&mut op.tool.asked_by, &from.tool.asked_by);
    gap(&mut op.request_model, &from.request_model);
    gap(&mut op.response_model, &from.response_model);
    gap(&mut op.response_id, &from.response_id);
    gap(&mut op.provider, &from.provider);
    gap(&mut op.ttft_ns, &from.ttft_ns);
    gap(&mut op.tool_definitions, &from.tool_definitions);
    gap(&mut op.retrieval_query, &from.retrieval_query);
    gap(&mut op.retrieval_documents, &from.retrieval_documents);
    gap(&mut op.failure, &from.failure.clone().filter(|_| op.status == from.status));
    gap(&mut op.request.temperature, &from.request.temperature);
    gap(&mut op.request.top_p, &from.request.top_p);
    gap(&mut op.request.max_tokens, &from.request.max_tokens);
    gap(&mut op.request.seed, &from.request.seed);
    gap(&mut op.request.streamed, &from.request.streamed);
    if op.finish_reasons.is_empty() {
        op.finish_reasons.clone_from(&from.finish_reasons);
    }
    if op.system_instructions.is_empty() {
        op.system_instructions.clone_from(&from.system_instructions);
    }
}

fn take_failure(op: &mut Operation, from: &Operation) {
    if op.status == OpStatus::Ok && from.status == OpStatus::Error {
        op.status = from.status;
    }
    if op.status == OpStatus::Error && op.failure.as_ref().is_none_or(|f| f.message.is_none()) {
        op.failure = from.failure.clone().or(op.failure.take());
    }
}

/// Tool name, else model, else agent or span name.
fn name(kind: StepKind, node: &Node, op: &Operation) -> String {
    let model = || op.request_model.as_ref().or(op.response_model.as_ref());
    let named = match kind {
        StepKind::ModelCall | StepKind::Embedding | StepKind::Rerank => model(),
        StepKind::AgentCall => op.agent_name.as_ref(),
        StepKind::Task => op.workflow_name.as_ref(),
        StepKind::HumanInput => op.tool.name.as_ref().or(op.workflow_name.as_ref()),
        _ => op.tool.name.as_ref(),
    };
    match named.filter(|name| !name.is_empty()) {
        Some(name) => name.clone(),
        None if node.name().is_empty() => op.operation.clone().unwrap_or_default(),
        None => node.name().to_owned(),
    }
}

/// `service.name` of the resource.
pub(super) fn service_name(node: &Node) -> Option<String> {
    use opentelemetry_proto::tonic::common::v1::any_value::Value::StringValue;
    let attributes = &node.record.origin.resource.attributes;
    let value = attributes.iter().find(|a| a.key == "service.name")?.value.as_ref()?.value.as_ref()?;
    if let StringValue(name) = value { Some(name.clone()) } else { None }
}
