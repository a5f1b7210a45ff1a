//! Sessions over real records and over small ones.

use std::{fs, path::Path, sync::Arc};

use serde_json::{Value, json};

use super::{
    call::{Answer, Call, EmbeddingCall, ModelAnswer, ModelCall, RefusedCode, Sampling, ToolCall},
    policy::Policy,
    report::{Class, Report, Rung, Verdict},
    session::{Error, Mode, Session, Settings},
    tools,
};
use crate::{
    genai::{
        message::{ContentState, Message, Part},
        operation::{Failure, OpStatus},
    },
    otlp::fixtures::capture,
    run::{
        Run, Settled, assemble,
        model::{RunMessage, Step, StepKind},
    },
};

mod ladder;
mod records;

fn messages(value: Value) -> Vec<Message> {
    let read = crate::genai::parse::messages(&value, "user", &mut Vec::new());
    read.value.iter().map(|message| Message::clone(message)).collect()
}

/// The runs of all captures.
fn captured() -> Vec<(String, Vec<Arc<Run>>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures");
    let mut folders: Vec<_> = fs::read_dir(root).unwrap().map(|e| e.unwrap().path()).collect();
    folders.retain(|folder| folder.is_dir());
    folders.sort();
    let name = |folder: &Path| folder.file_name().unwrap().to_string_lossy().into_owned();
    let runs = |folder: &Path| assemble(&capture(folder), Settled::All).into_iter().map(Arc::new).collect();
    folders.iter().map(|folder| (name(folder), runs(folder))).collect()
}

/// The call that a recorded step made, as a client would make it.
fn call_of(run: &Run, step: &Step) -> Option<Call> {
    let said = || {
        let at = step.input_messages.iter().filter_map(|at| run.messages.get(*at as usize));
        at.map(|m| Message::clone(&m.message)).collect::<Vec<_>>()
    };
    Some(match step.kind {
        StepKind::ModelCall => Call::Model(ModelCall {
            model: step.model.clone().unwrap_or_default(),
            system: step.system_instructions.clone(),
            messages: said(),
            tools: step.tool_definitions.as_ref().map(tools::read).unwrap_or_default(),
            sampling: Sampling { temperature: step.request.temperature, ..Sampling::default() },
            ..ModelCall::default()
        }),
        StepKind::ToolCall => Call::Tool(ToolCall {
            name: step.name.clone(),
            arguments: step.tool_arguments.clone().unwrap_or_default(),
        }),
        StepKind::Embedding => Call::Embedding(EmbeddingCall {
            model: step.model.clone().unwrap_or_default(),
            inputs: said().iter().flat_map(texts).collect(),
            dimensions: Some(4),
        }),
        _ => return None,
    })
}

fn texts(message: &Message) -> Vec<String> {
    let text = |part: &Part| match part {
        Part::Text { content, .. } => content.clone(),
        _ => None,
    };
    message.parts.iter().filter_map(text).collect()
}

/// A run of `steps` over `said`; each step's input is a list of indexes into it.
fn run(said: Value, steps: Vec<Step>) -> Arc<Run> {
    let runs = captured_run();
    let mut run = Run::clone(&runs);
    run.run_id = "run-1".into();
    run.partial_reasons.clear();
    let message = |message| RunMessage { hash: [0; 32], message: Arc::new(message), first_step_index: 0 };
    run.messages = messages(said).into_iter().map(message).collect();
    run.steps = steps;
    for (step, index) in run.steps.iter_mut().zip(0..) {
        step.index = index;
    }
    Arc::new(run)
}

/// Any run: what a test does not set it does not look at.
fn captured_run() -> Arc<Run> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures/py-strands");
    Arc::new(assemble(&capture(&folder), Settled::All).remove(0))
}

fn model(input: &[u32], output: Value) -> Step {
    let output_messages: Vec<Arc<Message>> = messages(output).into_iter().map(Arc::new).collect();
    Step {
        kind: StepKind::ModelCall,
        name: "gpt-4o".into(),
        model: Some("gpt-4o".into()),
        input_messages: input.to_vec(),
        input_state: ContentState::Captured,
        output_state: ContentState::Captured,
        output_messages,
        status: OpStatus::Ok,
        start_ns: 1_000_000_000,
        end_ns: 3_000_000_000,
        ..Step::default()
    }
}

fn tool(name: &str, arguments: Value, result: Value) -> Step {
    Step {
        kind: StepKind::ToolCall,
        name: name.into(),
        tool_arguments: Some(arguments),
        tool_result: Some(result),
        input_state: ContentState::Captured,
        output_state: ContentState::Captured,
        status: OpStatus::Ok,
        ..Step::default()
    }
}

fn session(run: &Arc<Run>, mode: Mode) -> Session {
    let settings = Settings { mode, ..Settings::default() };
    Session::new(vec![Arc::clone(run)], settings, "seed".into()).unwrap()
}

fn ask(said: Value) -> Call {
    Call::Model(ModelCall { model: "gpt-4o".into(), messages: messages(said), ..ModelCall::default() })
}

fn said(answer: &Answer) -> String {
    match answer {
        Answer::Model(ModelAnswer { parts, .. }) => {
            Message { parts: parts.clone(), ..Message::default() }.text()
        }
        other => panic!("{other:?}"),
    }
}
