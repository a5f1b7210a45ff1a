//! What can be told of a span that no dialect knows: words and values that many producers share.

use serde_json::{Value, json};

use super::{
    Dialect, Facts, checks, fill, fill_arguments, fill_messages, fill_request, fill_result, fill_system,
};
use crate::genai::{
    attrs::{self, Attrs},
    events::Event,
    finish,
    operation::{Kind, OpStatus, Operation},
    parse, state,
};

/// The row of this dialect; the last, and on every span.
pub(super) const DIALECT: Dialect = Dialect { name: "generic", detect: |_| true, kind, read };

/// Operation names that were seen beside the convention's (`dialects.md` 1.8), in lower case.
const OPERATIONS: &[(&str, Kind)] = &[
    ("chat", Kind::ModelCall),
    ("completion", Kind::ModelCall),
    ("chat.completions", Kind::ModelCall),
    ("text.completions", Kind::ModelCall),
    ("message", Kind::ModelCall),
    ("messages.create", Kind::ModelCall),
    ("generate", Kind::ModelCall),
    ("response", Kind::ModelCall),
    ("responses", Kind::ModelCall),
    ("llm_call", Kind::ModelCall),
    ("llm_request", Kind::ModelCall),
    ("call_llm", Kind::ModelCall),
    ("model_request", Kind::ModelCall),
    ("image", Kind::ModelCall),
    ("audio", Kind::ModelCall),
    ("tool", Kind::ToolCall),
    ("tool_call", Kind::ToolCall),
    ("call_tool", Kind::ToolCall),
    ("function", Kind::ToolCall),
    ("embed", Kind::Embedding),
    ("embedding", Kind::Embedding),
    ("retrieve", Kind::Retrieval),
    ("vector_db_retrieve", Kind::Retrieval),
    ("vectordb", Kind::Retrieval),
    ("rerank", Kind::Rerank),
    ("handoff", Kind::Handoff),
    ("guardrail", Kind::Guardrail),
    ("human_input", Kind::HumanInput),
    ("evaluate", Kind::Evaluation),
    ("evaluation", Kind::Evaluation),
    ("checkpoint_write", Kind::Checkpoint),
    ("checkpoint_read", Kind::Checkpoint),
    ("agent_call", Kind::Agent),
    ("workflow", Kind::Workflow),
    ("execute_task", Kind::Task),
    // Parts of frameworks that bear what the calls below them bear.
    ("agent_step", Kind::Internal),
    ("chain", Kind::Internal),
    ("execute_event_loop_cycle", Kind::Internal),
    ("framework", Kind::Internal),
    ("model_step", Kind::Internal),
    ("model_chunk", Kind::Internal),
    ("schedule_tool_calls", Kind::Internal),
];
const TOOL: &[&str] = &[
    "gen_ai.tool.name",
    "gen_ai.tool.call.id",
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.call.result",
    "tool.name",
    "tool_name",
];
const RETRIEVAL: &[&str] =
    &["gen_ai.retrieval.documents", "gen_ai.retrieval.query.text", "gen_ai.retrieval.query"];
/// Only a model call carries one of these.
const MODEL_CALL: &[&str] =
    &["gen_ai.response.id", "gen_ai.response.model", "gen_ai.response.finish_reasons"];
const MODEL: &[&str] = &[
    "gen_ai.request.model",
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "llm.model_name",
    "llm.request.model_name",
];
const AGENT: &[&str] = &["agent_name", "gen_ai.agent.name"];
const INPUT: &[&str] = &[
    "input.value",
    "traceloop.entity.input",
    "gen_ai.task.input",
    "gen_ai.workflow.input",
    "request_data",
    "input",
    "inputs",
    "prompt",
];
const OUTPUT: &[&str] = &[
    "output.value",
    "traceloop.entity.output",
    "gen_ai.task.output",
    "gen_ai.workflow.output",
    "response_data",
    "gen_ai.output",
    "output",
    "outputs",
];
const FINISH: &[&str] =
    &["llm.finish_reason", "llm.response.finish_reason", "llm.response.stop_reason", "stop_reason"];
/// Events of the first chunk of a stream.
const CHUNKS: &[&str] =
    &["gen_ai.content.completion.chunk", "llm.content.completion.chunk", "ai.stream.firstChunk"];
/// As [`CHUNKS`], with a number behind.
const CHUNK_ITEMS: &str = "mlflow.chunk.item.";
/// The member of a LangGraph state that holds what a person is asked.
const INTERRUPT: &str = "__interrupt__";
/// Attributes without a producer's name that make a span a part of a framework.
const FRAMEWORK: &[&str] = &["input.value", "traceloop.entity.input", "langfuse.observation.type"];
const SUFFIXES: &[(&str, Kind)] = &[
    (".tool", Kind::ToolCall),
    (".agent", Kind::Agent),
    (".workflow", Kind::Workflow),
    (".task", Kind::Internal),
];
/// Names that say a kind by how they begin; what follows is the tool.
const PREFIXES: &[(&str, Kind)] = &[("langchain4j.tools.", Kind::ToolCall)];
/// Names that say a kind by themselves.
const NAMES: &[(&str, Kind)] =
    &[("litellm_request", Kind::ModelCall), ("raw_gen_ai_request", Kind::ModelCall)];

fn kind(facts: &Facts<'_>) -> Option<Kind> {
    let attrs = facts.attrs;
    let name = facts.span.name.as_str();
    // Checkpoints and interrupts of agents that write them down (ADK's newest, and others).
    if ["checkpoint.operation", "resume.operation"].iter().any(|k| attrs.has(k)) {
        return Some(Kind::Checkpoint);
    }
    if attrs.has("interrupt.operation") || attrs.has("interrupt.id") {
        return Some(Kind::HumanInput);
    }
    let word = attrs.text(&["gen_ai.operation.name"]);
    if let Some(word) = word.as_ref().map(|word| word.to_ascii_lowercase())
        && let Some((_, kind)) = OPERATIONS.iter().find(|(w, _)| *w == word)
    {
        return Some(*kind);
    }
    let any = |keys: &[&str]| keys.iter().any(|k| attrs.has(k));
    let known = if checks::is_guardrail(attrs) {
        Some(Kind::Guardrail)
    } else if any(TOOL) {
        Some(Kind::ToolCall)
    } else if any(RETRIEVAL) {
        Some(Kind::Retrieval)
    } else if any(&["gen_ai.embeddings.dimension.count", "embedding.model_name"]) {
        Some(Kind::Embedding)
    } else if any(AGENT) && !any(MODEL_CALL) {
        Some(Kind::Internal)
    } else if any(MODEL_CALL) || any(MODEL) && word.is_none() {
        // A word that nobody knows needs more than a model to be a call.
        Some(Kind::ModelCall)
    } else if attrs.has("aws.bedrock.guardrail.id") && word.is_none() {
        // A call that a guardrail watches names it too, and its model.
        Some(Kind::Guardrail)
    } else {
        let by_start = || PREFIXES.iter().find(|(p, _)| name.starts_with(p)).map(|(_, kind)| *kind);
        NAMES.iter().find(|(n, _)| *n == name).map(|(_, kind)| *kind).or_else(by_start)
    };
    let has_io = any(FRAMEWORK);
    let by_name =
        || SUFFIXES.iter().find(|(s, _)| name.ends_with(s)).map(|(_, kind)| *kind).filter(|_| has_io);
    known.or_else(by_name).or_else(|| (has_io || is_genai(facts)).then_some(Kind::Internal))
}

/// True when any attribute or event is of the convention.
fn is_genai(facts: &Facts<'_>) -> bool {
    facts.attrs.any_with_prefix("gen_ai.") || facts.events.iter().any(|e| e.name.starts_with("gen_ai."))
}

fn read(facts: &Facts<'_>, operation: &mut Operation) {
    let attrs = facts.attrs;
    if !operation.kind.is_genai() {
        return;
    }
    let (input, output) = (attrs.first(INPUT), attrs.first(OUTPUT));
    checks::read(facts, operation);
    if operation.kind == Kind::ModelCall && operation.finish_reasons.is_empty() {
        operation.finish_reasons = attrs.words(FINISH).iter().map(|r| finish::normalize(r)).collect();
    }
    fill(&mut operation.ttft_ns, || first_chunk(facts));
    pause(attrs, operation);
    fill(&mut operation.agent_name, || attrs.text(&["checkpoint.agent_name"]));
    if operation.kind == Kind::HumanInput {
        interrupt(facts, operation);
    }
    if operation.kind == Kind::Checkpoint {
        fill(&mut operation.tool.name, || {
            attrs.text(&["checkpoint.id", "resume.checkpoint_id", "gen_ai.checkpoint.id"])
        });
    }
    if operation.kind == Kind::ToolCall {
        fill(&mut operation.tool.name, || attrs.text(&["tool.name", "tool_name"]));
        let bare = PREFIXES.iter().find_map(|(start, _)| facts.span.name.strip_prefix(start));
        let named = bare.unwrap_or(&facts.span.name);
        fill(&mut operation.tool.name, || Some(named.to_owned()).filter(|n| !n.is_empty()));
        fill(&mut operation.tool.call_id, || {
            parse::call_id(attrs.first(&["tool.id", "tool_call.id", "tool_call_id", "call_id"]))
        });
        fill_arguments(
            operation,
            attrs.arguments(&["tool_arguments", "arguments"]).or_else(|| attrs.arguments(INPUT)),
        );
        fill_result(operation, attrs.first(&["tool_response"]).or(output));
    } else {
        if let Some(request) = attrs.get("request_data").map(|v| state::open(v).value) {
            fill_request(operation, &request);
        }
        fill_system(operation, attrs.get("system_prompt"));
        fill(&mut operation.tool_definitions, || {
            attrs.get("gen_ai.agent.tools").map(|tools| state::open(tools).value)
        });
        if operation.kind == Kind::Task {
            fill(&mut operation.workflow_name, || attrs.text(&["gen_ai.task.name"]));
        }
        if operation.kind == Kind::ModelCall {
            fill_messages(operation, None, answer(attrs).as_ref());
        }
        // Whole prompts as one value, where nobody says more of them.
        fill_messages(operation, attrs.get("gen_ai.prompt"), attrs.get("gen_ai.completion"));
        fill_messages(operation, input, output);
    }
}

/// An answer whose calls or thoughts stand beside its text (OpenLIT).
fn answer(attrs: &Attrs) -> Option<Value> {
    let calls = attrs.get("gen_ai.response.tool_calls").map(|calls| state::open(calls).value);
    let reasoning = attrs.text(&["gen_ai.content.reasoning"]);
    if calls.is_none() && reasoning.is_none() {
        return None;
    }
    let text = attrs.get("gen_ai.completion");
    Some(json!([{"role": "assistant", "reasoning": reasoning, "content": text, "tool_calls": calls}]))
}

/// The time to the first chunk of a stream, where only its event tells it.
fn first_chunk(facts: &Facts<'_>) -> Option<u64> {
    let is_chunk =
        |name: &str| CHUNKS.contains(&name) || name.strip_prefix(CHUNK_ITEMS).is_some_and(|n| !n.is_empty());
    let first = facts.events.iter().filter(|e| is_chunk(&e.name)).map(Event::time).min()?;
    first.checked_sub(facts.span.start_time_unix_nano).filter(|_| facts.span.start_time_unix_nano != 0)
}

/// A graph that waits for a person says so in what it gives back.
fn pause(attrs: &Attrs, operation: &mut Operation) {
    let graph = matches!(operation.kind, Kind::Agent | Kind::Workflow | Kind::Task | Kind::Internal);
    if !graph || operation.status != OpStatus::Ok {
        return;
    }
    let told = [attrs.first(OUTPUT), attrs.get("gen_ai.completion")].into_iter().flatten();
    let paused = |value: &Value| {
        // Only text that speaks of it is opened: states of graphs are long.
        value.as_str().is_none_or(|text| text.contains(INTERRUPT)) && {
            let opened = state::open(value).value;
            let inside = ["", "/outputs", "/output"].iter().filter_map(|at| opened.pointer(at));
            inside.into_iter().any(|state| state.get(INTERRUPT).is_some_and(attrs::is_meaningful))
        }
    };
    if told.into_iter().any(paused) {
        operation.status = OpStatus::Interrupted;
    }
}

/// A question to a person: answered unless its status says that it is open.
fn interrupt(facts: &Facts<'_>, operation: &mut Operation) {
    let attrs = facts.attrs;
    fill(&mut operation.tool.name, || attrs.text(&["interrupt.type", "interrupt.id"]));
    fill_messages(operation, attrs.get("interrupt.message"), None);
    let open = attrs
        .text(&["interrupt.status"])
        .is_some_and(|s| matches!(s.as_str(), "pending" | "requested" | "waiting"));
    // While nobody has answered, the action is what is asked for.
    if open && operation.decision.is_none() {
        operation.status = OpStatus::Interrupted;
    } else {
        fill(&mut operation.decision, || attrs.text(&["interrupt.action"]));
    }
}
