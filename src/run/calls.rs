//! Tool calls as model calls tell them: asked for in an output, answered in a later input.
//!
//! A call is tied to its tool step by call id, else by name, arguments and order. A call without a step of its own whose
//! answer shows becomes an inferred step; a step whose content is missing is filled from what the model calls show.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use serde_json::Value;

use super::{
    duplicates::same_tool,
    messages::canonical,
    model::{Step, StepKind},
    order::{Class, Edge},
    steps::{CallFindings, Draft},
};
use crate::genai::{
    message::{ContentState, Message, Part},
    operation::{Failure, OpStatus},
};

/// Tools that frameworks make up to get an answer in a given shape: asked for, never executed.
const OUTPUT_TOOLS: [&str; 2] = ["final_result", "structured_output"];

/// A model call and the answers in its input, in order.
type Answers = (usize, Vec<Option<Value>>);

/// Name and canonical arguments of a call.
type CallKey = (String, String);

/// A call that a model asked for.
#[derive(Debug)]
struct Asked {
    by: usize,
    id: Option<String>,
    name: String,
    arguments: Option<Value>,
    /// The steps that executed it.
    tools: Vec<usize>,
    /// False when a step was only tied by name although its arguments differ: nothing is filled from that.
    sure: bool,
    /// The first later model call that shows its answer, and the answer.
    answer: Option<(usize, Option<Value>)>,
}

/// Answers as the inputs of model calls show them.
#[derive(Debug, Default)]
struct Shown {
    /// By call id: model calls in time order with what they show.
    by_id: HashMap<String, Vec<(usize, Option<Value>)>>,
    /// By name and arguments, for calls without an id: each model call with its answers in order.
    by_call: HashMap<CallKey, Vec<Answers>>,
    /// Ids of calls that stand in some input, so were asked for by someone.
    asked_before: BTreeSet<String>,
}

/// Ties calls, steps and answers together; adds inferred steps to `drafts`; returns the edges of order that follow.
pub(super) fn tie(drafts: &mut Vec<Draft>, output_tools: &BTreeSet<String>) -> Vec<Edge> {
    restore_calls(drafts);
    let shown = shown(drafts);
    let mut asked = asked(drafts, output_tools);
    match_steps(drafts, &mut asked, &shown);
    find_answers(drafts, &mut asked, &shown);
    let mut edges = edges(drafts, &asked, &shown);
    find_unasked(drafts, &asked, &shown);
    for call in &asked {
        fill(drafts, call);
        if call.tools.is_empty() {
            match &call.answer {
                Some((shows, answer)) => {
                    let inferred = infer(drafts, call, *shows, answer.clone());
                    edges.push(Edge { class: Class::Asked, before: call.by, after: drafts.len() });
                    edges.push(Edge { class: Class::Result, before: drafts.len(), after: *shows });
                    drafts.extend(inferred);
                }
                None => note_unanswered(drafts, call),
            }
        }
    }
    edges
}

/// True when a model call stopped to have tools called and only text of it is recorded.
pub(super) fn lost_calls(step: &Step) -> bool {
    let spoken = |part: &Part| matches!(part, Part::Text { .. } | Part::Reasoning { .. });
    step.kind == StepKind::ModelCall
        && step.finish_reasons.iter().any(|reason| reason == "tool_call")
        && parts(&step.output_messages).all(spoken)
}

/// Puts into the output of a model call the calls that its tools say it asked for, where it shows none itself.
fn restore_calls(drafts: &mut [Draft]) {
    let mut by_response: HashMap<String, Vec<usize>> = HashMap::new();
    for (number, draft) in drafts.iter().enumerate() {
        if let Some(response) = draft.calls.asked_by.clone() {
            by_response.entry(response).or_default().push(number);
        }
    }
    for number in 0..drafts.len() {
        let Some(draft) = drafts.get(number).filter(|draft| draft.step.kind == StepKind::ModelCall) else {
            continue;
        };
        let shows_calls =
            parts(&draft.step.output_messages).any(|part| matches!(part, Part::ToolCall { .. }));
        let Some(tools) = draft.step.response_id.as_ref().and_then(|id| by_response.get(id)) else {
            continue;
        };
        let mut tools: Vec<&Draft> = tools.iter().filter_map(|tool| drafts.get(*tool)).collect();
        // A call whose arguments nobody recorded is no call that could be answered again.
        tools.retain(|tool| tool.step.tool_arguments.is_some());
        if shows_calls || tools.is_empty() {
            continue;
        }
        tools.sort_by_key(|tool| tool.rank);
        let calls: Vec<Part> = tools
            .iter()
            .map(|tool| {
                Part::tool_call(
                    tool.step.tool_call_id.clone(),
                    &tool.step.name,
                    tool.step.tool_arguments.clone(),
                )
            })
            .collect();
        let Some(draft) = drafts.get_mut(number) else { continue };
        match draft.step.output_messages.last_mut() {
            Some(message) => message.parts.extend(calls),
            None => draft.step.output_messages.push(Message {
                role: "assistant".into(),
                parts: calls,
                ..Message::default()
            }),
        }
        if draft.step.output_state == ContentState::NotCaptured {
            draft.step.output_state = ContentState::Inferred;
        }
        draft.calls.filled.push("tool calls");
    }
}

fn models(drafts: &[Draft]) -> Vec<usize> {
    let model = |draft: &Draft| draft.step.kind == StepKind::ModelCall;
    let mut models: Vec<_> =
        drafts.iter().enumerate().filter(|(_, d)| model(d)).map(|(n, d)| (d.rank, n)).collect();
    models.sort();
    models.into_iter().map(|(_, n)| n).collect()
}

fn parts(messages: &[Message]) -> impl Iterator<Item = &Part> {
    messages.iter().flat_map(|message| &message.parts)
}

fn call_key(name: &str, arguments: Option<&Value>) -> CallKey {
    (name.to_owned(), canonical(arguments.unwrap_or(&Value::Null)))
}

fn shown(drafts: &[Draft]) -> Shown {
    let mut shown = Shown::default();
    for model in models(drafts) {
        let Some(draft) = drafts.get(model) else { continue };
        // Calls of this input that have not been answered yet: an answer without an id answers the first.
        let mut waiting: VecDeque<(Option<&str>, CallKey)> = VecDeque::new();
        let mut here: BTreeMap<CallKey, Vec<Option<Value>>> = BTreeMap::new();
        for part in parts(&draft.input) {
            match part {
                Part::ToolCall { id, name, arguments, .. } => {
                    shown.asked_before.extend(id.clone());
                    waiting.push_back((id.as_deref(), call_key(name, arguments.as_ref())));
                }
                Part::ToolCallResponse { id: Some(id), response, .. } => {
                    shown.by_id.entry(id.clone()).or_default().push((model, response.clone()));
                    if let Some(at) = waiting.iter().position(|(waits, _)| *waits == Some(id)) {
                        let _ = waiting.remove(at);
                    }
                }
                Part::ToolCallResponse { id: None, response, .. } => {
                    if let Some((_, key)) = waiting.pop_front() {
                        here.entry(key).or_default().push(response.clone());
                    }
                }
                _ => {}
            }
        }
        for (key, answers) in here {
            shown.by_call.entry(key).or_default().push((model, answers));
        }
    }
    shown
}

/// The calls of all model outputs in time order, each id once.
fn asked(drafts: &[Draft], output_tools: &BTreeSet<String>) -> Vec<Asked> {
    let mut seen = BTreeSet::new();
    let mut asked = Vec::new();
    for by in models(drafts) {
        let Some(draft) = drafts.get(by) else { continue };
        for part in parts(&draft.step.output_messages) {
            let Part::ToolCall { id, name, arguments, extra } = part else { continue };
            // Executed by the provider, inside the model call.
            let builtin = extra.get("builtin").and_then(Value::as_bool).unwrap_or(false);
            if builtin || is_output_tool(name, output_tools) || id.clone().is_some_and(|id| !seen.insert(id))
            {
                continue;
            }
            asked.push(Asked {
                by,
                id: id.clone(),
                name: name.clone(),
                arguments: arguments.clone(),
                tools: Vec::new(),
                sure: true,
                answer: None,
            });
        }
    }
    asked
}

fn is_output_tool(name: &str, output_tools: &BTreeSet<String>) -> bool {
    let made_up =
        |tool: &str| name.strip_prefix(tool).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'));
    output_tools.contains(name) || OUTPUT_TOOLS.into_iter().any(made_up)
}

/// Steps that may be the execution of a call.
fn executes(step: &Step) -> bool {
    !matches!(step.kind, StepKind::ModelCall | StepKind::Embedding | StepKind::Rerank | StepKind::Checkpoint)
}

fn match_steps(drafts: &[Draft], asked: &mut [Asked], shown: &Shown) {
    let mut by_id: HashMap<&str, Vec<usize>> = HashMap::new();
    let mut free: Vec<(usize, &Draft)> = Vec::new();
    let ids: BTreeSet<String> = asked.iter().filter_map(|call| call.id.clone()).collect();
    for (number, draft) in drafts.iter().enumerate().filter(|(_, draft)| executes(&draft.step)) {
        match &draft.step.tool_call_id {
            Some(id) if ids.contains(id) => by_id.entry(id).or_default().push(number),
            Some(id) if shown.asked_before.contains(id) => {}
            // Some frameworks tell the model one id and their tool another.
            _ => free.push((number, draft)),
        }
    }
    for call in asked.iter_mut() {
        call.tools = call.id.as_deref().and_then(|id| by_id.get(id).cloned()).unwrap_or_default();
    }
    free.sort_by_key(|(_, draft)| draft.rank);
    match_in_order(drafts, asked, &free, true, |call, step| {
        let told = call.arguments.as_ref().zip(step.tool_arguments.as_ref());
        same_tool(&call.name, &step.name) && told.is_some_and(|(call, step)| same_arguments(call, step))
    });
    match_in_order(drafts, asked, &free, true, |call, step| {
        let unknown = step.tool_arguments.is_none() || call.arguments.is_none();
        same_tool(&call.name, &step.name) && (unknown || step.input_state != ContentState::Captured)
    });
    match_in_order(drafts, asked, &free, false, |call, step| same_tool(&call.name, &step.name));
    // A function may be offered under another name than its own.
    match_in_order(drafts, asked, &free, true, |call, step| {
        let told = call.arguments.as_ref().zip(step.tool_arguments.as_ref());
        step.kind == StepKind::ToolCall && told.is_some_and(|(call, step)| call == step && is_telling(call))
    });
    // A hand-off is asked for through a tool that each framework names its own way.
    match_in_order(drafts, asked, &free, true, |call, step| {
        let target = step.decision.as_deref().unwrap_or(&step.name).to_lowercase().replace([' ', '-'], "_");
        step.kind == StepKind::Handoff
            && (call.name.starts_with("transfer_to") || call.name.contains(&target))
    });
}

/// Equal, or the bare value of the only argument.
fn same_arguments(asked: &Value, executed: &Value) -> bool {
    let only = asked.as_object().filter(|map| map.len() == 1).and_then(|map| map.values().next());
    asked == executed || only == Some(executed)
}

/// Arguments that two calls of different tools hardly share.
fn is_telling(arguments: &Value) -> bool {
    arguments.as_object().is_some_and(|members| !members.is_empty())
}

/// Gives each unmatched call the first free step at or after it that `fits`. Looks at a bounded number of steps a call.
fn match_in_order(
    drafts: &[Draft],
    asked: &mut [Asked],
    free: &[(usize, &Draft)],
    sure: bool,
    fits: impl Fn(&Asked, &Step) -> bool,
) {
    /// Free steps that are looked at for one call.
    const LOOK_AHEAD_MAX: usize = 256;
    let mut taken: BTreeSet<usize> = asked.iter().flat_map(|call| call.tools.iter().copied()).collect();
    let mut open: Vec<(usize, &Draft)> = free.iter().filter(|(n, _)| !taken.contains(n)).copied().collect();
    let mut first = 0;
    for call in asked.iter_mut().filter(|call| call.tools.is_empty()) {
        let Some(asker) = drafts.get(call.by) else { continue };
        // Calls come in time order: what is before this one is before all that follow.
        while open.get(first).is_some_and(|(n, d)| d.rank.0 < asker.rank.0 || taken.contains(n)) {
            first += 1;
        }
        let candidates = open.iter().skip(first).take(LOOK_AHEAD_MAX);
        let hit =
            candidates.into_iter().find(|(n, d)| !taken.contains(n) && fits(call, &d.step)).map(|(n, _)| *n);
        if let Some(step) = hit {
            let _ = taken.insert(step);
            call.tools.push(step);
            call.sure = sure;
        }
        if taken.len().is_multiple_of(LOOK_AHEAD_MAX) {
            open.retain(|(n, _)| !taken.contains(n));
            first = 0;
        }
    }
}

fn find_answers(drafts: &[Draft], asked: &mut [Asked], shown: &Shown) {
    let mut times_asked: HashMap<CallKey, usize> = HashMap::new();
    let after = |by: usize, shows: usize| {
        let rank = |n: usize| drafts.get(n).map(|draft| draft.rank);
        rank(by) < rank(shows)
    };
    for call in asked {
        let key = call_key(&call.name, call.arguments.as_ref());
        let nth = times_asked.entry(key.clone()).and_modify(|n| *n += 1).or_insert(0);
        let by_id = call.id.as_ref().and_then(|id| shown.by_id.get(id));
        let by_id = by_id.and_then(|shown| shown.iter().find(|(shows, _)| after(call.by, *shows))).cloned();
        let by_call = || {
            let shown = shown.by_call.get(&key)?;
            let later = shown.iter().filter(|(shows, _)| after(call.by, *shows));
            later.into_iter().find_map(|(shows, answers)| Some((*shows, answers.get(*nth)?.clone())))
        };
        call.answer = by_id.or_else(by_call);
    }
}

fn edges(drafts: &[Draft], asked: &[Asked], shown: &Shown) -> Vec<Edge> {
    let mut edges = Vec::new();
    for call in asked.iter().filter(|call| call.id.is_some()) {
        for tool in &call.tools {
            let by_id = drafts.get(*tool).is_some_and(|draft| draft.step.tool_call_id == call.id);
            edges.extend(by_id.then_some(Edge { class: Class::Asked, before: call.by, after: *tool }));
        }
    }
    for (number, draft) in drafts.iter().enumerate().filter(|(_, draft)| executes(&draft.step)) {
        let shows = draft.step.tool_call_id.as_ref().and_then(|id| shown.by_id.get(id));
        for (model, _) in shows.into_iter().flatten() {
            edges.push(Edge { class: Class::Result, before: number, after: *model });
        }
    }
    edges
}

/// Tool calls that nothing asked for. Where a model call did not record its output, it may have asked; and a result in
/// an input without its call is no loss: the provider may keep the history.
fn find_unasked(drafts: &mut [Draft], asked: &[Asked], shown: &Shown) {
    let told = |draft: &Draft| {
        let captured = draft.step.output_state == ContentState::Captured && !lost_calls(&draft.step);
        captured || draft.step.status != OpStatus::Ok
    };
    if !drafts.iter().filter(|draft| draft.step.kind == StepKind::ModelCall).all(told) {
        return;
    }
    let matched: BTreeSet<usize> = asked.iter().flat_map(|call| call.tools.iter().copied()).collect();
    let outputs: BTreeSet<String> = drafts
        .iter()
        .flat_map(|draft| parts(&draft.step.output_messages))
        .filter_map(|part| if let Part::ToolCall { id, .. } = part { id.clone() } else { None })
        .collect();
    for (number, draft) in drafts.iter_mut().enumerate() {
        let id = draft.step.tool_call_id.as_ref().filter(|_| draft.step.kind == StepKind::ToolCall);
        let nobody = |id: &String| !outputs.contains(id) && !shown.asked_before.contains(id);
        draft.calls.unasked = !matched.contains(&number) && id.is_some_and(nobody);
    }
}

/// Gives a tool step what only the model calls recorded of it.
fn fill(drafts: &mut [Draft], call: &Asked) {
    for tool in &call.tools {
        let Some(draft) = drafts.get_mut(*tool) else { continue };
        if !call.sure || draft.step.kind == StepKind::AgentCall {
            continue;
        }
        let step = &mut draft.step;
        if step.tool_call_id.is_none() {
            step.tool_call_id.clone_from(&call.id);
        }
        if step.input_state == ContentState::NotCaptured && call.arguments.is_some() {
            step.tool_arguments.clone_from(&call.arguments);
            step.input_state = ContentState::Inferred;
            draft.calls.filled.push("arguments");
        }
        // Some record only the value of the only argument.
        let bare = step.tool_arguments.as_ref().is_some_and(|a| !a.is_object());
        if bare && call.arguments.as_ref().is_some_and(Value::is_object) {
            step.tool_arguments.clone_from(&call.arguments);
            draft.calls.filled.push("arguments");
        }
        let answer = call.answer.as_ref().and_then(|(_, answer)| answer.clone());
        if let (Some(Value::String(told)), Some(failure), true) =
            (&answer, &mut step.error, draft.calls.failed_below)
        {
            failure.message = Some(told.clone());
        }
        let handed = step.kind == StepKind::Handoff && step.tool_result.is_none();
        let open = (step.output_state == ContentState::NotCaptured || handed)
            && matches!(step.status, OpStatus::Ok | OpStatus::Error);
        if let (true, Some(answer)) = (open, answer) {
            step.tool_result = Some(answer);
            step.output_state = ContentState::Inferred;
            draft.calls.filled.push("result");
        }
    }
}

fn note_unanswered(drafts: &mut [Draft], call: &Asked) {
    if let Some(draft) = drafts.get_mut(call.by) {
        draft.calls.unanswered.push(call.name.clone());
    }
}

/// A step for a call that has no record of its own.
fn infer(drafts: &[Draft], call: &Asked, shows: usize, answer: Option<Value>) -> Option<Draft> {
    let (asker, shows) = (drafts.get(call.by)?, drafts.get(shows)?);
    let state = |there: bool| if there { ContentState::Inferred } else { ContentState::NotCaptured };
    // An answer that is nothing but an error says how the call ended.
    let error = answer
        .as_ref()
        .and_then(Value::as_object)
        .filter(|o| o.len() == 1)
        .and_then(|o| o.get("error")?.as_str());
    let error = error.map(|message| Failure { message: Some(message.to_owned()), ..Failure::default() });
    let step = Step {
        kind: StepKind::ToolCall,
        name: call.name.clone(),
        span_id: None,
        start_ns: asker.step.end_ns,
        end_ns: shows.step.start_ns.max(asker.step.end_ns),
        status: if error.is_some() { OpStatus::Error } else { OpStatus::Ok },
        error,
        input_state: state(call.arguments.is_some()),
        output_state: state(answer.is_some()),
        tool_call_id: call.id.clone(),
        tool_arguments: call.arguments.clone(),
        tool_result: answer,
        inferred: true,
        ..bare(&asker.step)
    };
    // Ready with its model call's end; siblings keep the order they were asked in.
    let (_, position, trace, span, _) = asker.rank;
    Some(Draft {
        node: None,
        input: Vec::new(),
        rank: (step.start_ns.max(asker.rank.0), position, trace, span, drafts.len()),
        parent: asker.parent,
        calls: CallFindings { filled: vec!["arguments", "result"], ..CallFindings::default() },
        step,
    })
}

/// Where a step stands, without what it is.
fn bare(step: &Step) -> Step {
    Step {
        index: 0,
        kind: step.kind,
        name: String::new(),
        decision: None,
        span_id: None,
        trace_id: step.trace_id,
        parent_index: None,
        depth: step.depth,
        agent_path: step.agent_path.clone(),
        parallel_group: None,
        start_ns: 0,
        end_ns: 0,
        status: OpStatus::Ok,
        error: None,
        model: None,
        response_model: None,
        provider: None,
        response_id: None,
        finish_reasons: Vec::new(),
        request: Default::default(),
        ttft_ns: None,
        system_instructions: Vec::new(),
        tool_definitions: None,
        input_messages: Vec::new(),
        input_state: ContentState::NotCaptured,
        output_messages: Vec::new(),
        output_state: ContentState::NotCaptured,
        tool_call_id: None,
        tool_arguments: None,
        tool_result: None,
        retrieval_query: None,
        retrieval_documents: None,
        usage: Default::default(),
        cost_source: None,
        inferred: false,
        dialect: step.dialect.clone(),
        service_name: step.service_name.clone(),
        superseded_spans: Vec::new(),
    }
}
