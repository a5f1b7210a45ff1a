//! Producers whose own attributes differ from the convention in names alone: one row each (`dialects.md` 9).

use super::{Dialect, Facts, fill, fill_arguments, fill_messages, fill_result};
use crate::genai::{
    attrs::Attrs,
    operation::{Kind, Operation},
    parse,
};

/// The row of this dialect.
pub(super) const DIALECT: Dialect = Dialect { name: "vendor", detect, kind, read };

/// A producer: which attributes say what.
#[derive(Debug, Default)]
struct Vendor {
    /// A span is its own when an attribute starts so.
    prefix: &'static str,
    /// Attributes that say the kind, in its words.
    kind: &'static [&'static str],
    words: &'static [(&'static str, Kind)],
    /// Words of model calls that a newer version splits into calls of their own.
    wrappers: &'static [&'static str],
    input: &'static [&'static str],
    output: &'static [&'static str],
    name: &'static [&'static str],
    call_id: &'static [&'static str],
    agent: &'static [&'static str],
    model: &'static [&'static str],
}

const VENDORS: &[Vendor] = &[
    Vendor {
        prefix: "lmnr.",
        kind: &["lmnr.span.type"],
        words: &[("LLM", Kind::ModelCall), ("TOOL", Kind::ToolCall), ("EVALUATOR", Kind::Evaluation)],
        input: &["lmnr.span.input"],
        output: &["lmnr.span.output"],
        ..NONE
    },
    Vendor {
        prefix: "mastra.",
        kind: &["mastra.span.type"],
        words: &[
            ("agent_run", Kind::Agent),
            ("model_generation", Kind::ModelCall),
            ("llm_generation", Kind::ModelCall),
            ("tool_call", Kind::ToolCall),
            ("mcp_tool_call", Kind::ToolCall),
            ("workflow_run", Kind::Workflow),
        ],
        wrappers: &["model_generation", "llm_generation"],
        input: &[
            "mastra.agent_run.input",
            "mastra.model_generation.input",
            "mastra.tool_call.input",
            "mastra.mcp_tool_call.input",
            "mastra.workflow_run.input",
        ],
        output: &[
            "mastra.agent_run.output",
            "mastra.model_generation.output",
            "mastra.tool_call.output",
            "mastra.mcp_tool_call.output",
            "mastra.workflow_run.output",
        ],
        ..NONE
    },
    Vendor {
        prefix: "genkit:",
        kind: &["genkit:metadata:subtype", "genkit:type"],
        words: &[
            ("model", Kind::ModelCall),
            ("background-model", Kind::ModelCall),
            ("embedder", Kind::Embedding),
            ("tool", Kind::ToolCall),
            ("tool.v2", Kind::ToolCall),
            ("retriever", Kind::Retrieval),
            ("evaluator", Kind::Evaluation),
            ("flow", Kind::Workflow),
        ],
        input: &["genkit:input"],
        output: &["genkit:output"],
        name: &["genkit:name"],
        model: &["genkit:name"],
        ..NONE
    },
    Vendor {
        prefix: "flue.",
        kind: &["flue.span.kind"],
        words: &[("tool", Kind::ToolCall), ("turn", Kind::ModelCall), ("task", Kind::Task)],
        input: &["flue.tool.arguments", "flue.turn.input", "flue.task.prompt", "flue.workflow.payload"],
        output: &["flue.tool.result", "flue.turn.output", "flue.task.result", "flue.workflow.result"],
        name: &["flue.tool.name"],
        call_id: &["flue.tool.call_id"],
        agent: &["flue.task.agent"],
        ..NONE
    },
    Vendor {
        prefix: "agentops.",
        kind: &["agentops.span.kind"],
        words: &[
            ("agent", Kind::Agent),
            ("workflow", Kind::Workflow),
            ("task", Kind::Task),
            ("llm", Kind::ModelCall),
            ("tool", Kind::ToolCall),
            ("guardrail", Kind::Guardrail),
        ],
        input: &["agentops.entity.input", "tool.parameters"],
        output: &["agentops.entity.output", "tool.result"],
        name: &["tool.name", "agentops.entity.name"],
        agent: &["agentops.entity.name"],
        ..NONE
    },
    Vendor {
        prefix: "ag2.",
        kind: &["ag2.span.type"],
        words: &[
            ("conversation", Kind::Workflow),
            ("agent", Kind::Agent),
            ("tool", Kind::ToolCall),
            ("llm", Kind::ModelCall),
            ("handoff", Kind::Handoff),
            ("human_input", Kind::HumanInput),
            ("code_execution", Kind::ToolCall),
        ],
        ..NONE
    },
    Vendor {
        prefix: "voltagent.",
        kind: &["span.type", "entity.type"],
        words: &[
            ("agent", Kind::Agent),
            ("llm", Kind::ModelCall),
            ("tool", Kind::ToolCall),
            ("retriever", Kind::Retrieval),
            ("memory", Kind::Memory),
            ("workflow", Kind::Workflow),
        ],
        input: &["llm.messages", "agent.messages", "input"],
        output: &["output"],
        name: &["tool.name", "entity.name"],
        ..NONE
    },
    Vendor {
        prefix: "spring.ai.",
        kind: &["spring.ai.kind"],
        words: &[("tool_call", Kind::ToolCall), ("vector_store", Kind::Retrieval)],
        input: &["spring.ai.tool.call.arguments", "db.vector.query.content"],
        output: &["spring.ai.tool.call.result"],
        name: &["spring.ai.tool.definition.name"],
        ..NONE
    },
    Vendor {
        prefix: "weave.",
        kind: &["weave.span.kind"],
        words: &[("agent", Kind::Agent), ("llm", Kind::ModelCall), ("tool", Kind::ToolCall)],
        ..NONE
    },
    Vendor {
        prefix: "lk.",
        input: &["lk.function_tool.arguments", "lk.chat_ctx", "lk.input_text", "lk.user_transcript"],
        output: &["lk.function_tool.output", "lk.response.text"],
        name: &["lk.function_tool.name"],
        call_id: &["lk.function_tool.id"],
        ..NONE
    },
    Vendor {
        prefix: "haystack.",
        input: &["haystack.component.input", "haystack.pipeline.input_data"],
        output: &["haystack.component.output", "haystack.pipeline.output_data"],
        ..NONE
    },
];
const NONE: Vendor = Vendor {
    prefix: "",
    kind: &[],
    words: &[],
    wrappers: &[],
    input: &[],
    output: &[],
    name: &[],
    call_id: &[],
    agent: &[],
    model: &[],
};
/// LiveKit tells the kind by the span's name alone.
const LIVEKIT: &[(&str, Kind)] =
    &[("llm_request", Kind::ModelCall), ("function_tool", Kind::ToolCall), ("agent_turn", Kind::Agent)];

fn of(attrs: &Attrs) -> impl Iterator<Item = &'static Vendor> {
    VENDORS.iter().filter(|vendor| attrs.any_with_prefix(vendor.prefix))
}

fn detect(facts: &Facts<'_>) -> bool {
    of(facts.attrs).next().is_some() || facts.scope == "livekit-agents"
}

fn kind(facts: &Facts<'_>) -> Option<Kind> {
    if facts.scope == "livekit-agents" {
        return LIVEKIT.iter().find(|(name, _)| *name == facts.span.name).map(|(_, kind)| *kind);
    }
    of(facts.attrs).find_map(|vendor| {
        let word = facts.attrs.text(vendor.kind)?;
        vendor.words.iter().find(|(w, _)| *w == word).map(|(_, kind)| *kind)
    })
}

fn read(facts: &Facts<'_>, operation: &mut Operation) {
    let attrs = facts.attrs;
    for vendor in of(attrs) {
        let (input, output) = (attrs.first(vendor.input), attrs.first(vendor.output));
        match operation.kind {
            Kind::ToolCall => {
                fill(&mut operation.tool.name, || attrs.text(vendor.name));
                fill(&mut operation.tool.call_id, || parse::call_id(attrs.first(vendor.call_id)));
                fill_arguments(operation, input);
                fill_result(operation, output);
            }
            Kind::Agent => {
                operation.declared = true;
                fill(&mut operation.agent_name, || attrs.text(vendor.agent));
                fill_messages(operation, input, output);
            }
            Kind::ModelCall | Kind::Embedding => {
                let word = attrs.text(vendor.kind).unwrap_or_default();
                operation.is_wrapper = vendor.wrappers.contains(&word.as_str());
                fill(&mut operation.request_model, || attrs.text(vendor.model));
                fill_messages(operation, input, output);
            }
            _ => fill_messages(operation, input, output),
        }
    }
}
