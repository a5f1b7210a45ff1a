//! What model calls and tool steps lend each other: calls that were not recorded where they were asked for, arguments and
//! answers that were not recorded where they were executed, steps that were not recorded at all.

use std::{collections::HashMap, sync::Arc};

use serde_json::Value;

use super::{
    super::{
        model::{Step, StepKind},
        steps::{CallFindings, Draft},
    },
    Asked, parts,
};
use crate::genai::{
    message::{ContentState, Message, Part},
    operation::{Failure, OpStatus},
};

/// Puts into the output of a model call the calls that its tools say it asked for, where it shows none itself.
pub(super) fn restore_calls(drafts: &mut [Draft]) {
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
            Some(message) => Arc::make_mut(message).parts.extend(calls),
            None => {
                let message = Message { role: "assistant".into(), parts: calls, ..Message::default() };
                draft.step.output_messages.push(Arc::new(message));
            }
        }
        if draft.step.output_state == ContentState::NotCaptured {
            draft.step.output_state = ContentState::Inferred;
        }
        draft.calls.filled.push("tool calls");
    }
}

/// Gives a tool step what only the model calls recorded of it.
pub(super) fn fill(drafts: &mut [Draft], call: &Asked) {
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

pub(super) fn note_unanswered(drafts: &mut [Draft], call: &Asked) {
    if let Some(draft) = drafts.get_mut(call.by) {
        draft.calls.unanswered.push(call.name.clone());
    }
}

/// A step for a call that has no record of its own.
pub(super) fn infer(drafts: &[Draft], call: &Asked, shows: usize, answer: Option<Value>) -> Option<Draft> {
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
        trace_id: asker.step.trace_id,
        depth: asker.step.depth,
        agent_path: asker.step.agent_path.clone(),
        dialect: asker.step.dialect.clone(),
        service_name: asker.step.service_name.clone(),
        ..Step::default()
    };
    // Ready with its model call's end; siblings keep the order they were asked in.
    let (_, position, trace, span, _) = asker.rank;
    Some(Draft {
        node: None,
        input: Vec::new(),
        rank: (step.start_ns.max(asker.rank.0), position, trace, span, drafts.len()),
        parent: asker.parent,
        calls: CallFindings { filled: vec!["arguments", "result"], ..CallFindings::default() },
        step: Box::new(step),
    })
}
