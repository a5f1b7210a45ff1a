//! The rows: which attributes of a producer say what.

use super::{NONE, Vendor};
use crate::genai::operation::Kind;

pub(super) const VENDORS: &[Vendor] = &[
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
        scope: "genkit-tracer",
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
        query: &["genkit:input"],
        documents: &["genkit:output"],
        ..NONE
    },
    Vendor {
        prefix: "flue.",
        scope: "@flue/opentelemetry",
        present: &[
            ("flue.tool.", Kind::ToolCall),
            ("flue.turn.", Kind::ModelCall),
            ("flue.task.", Kind::Agent),
            ("flue.workflow.", Kind::Workflow),
        ],
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
            ("operation", Kind::Task),
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
        input: &["ag2.human_input.prompt"],
        output: &["ag2.human_input.response"],
        decision: &["ag2.human_input.response", "ag2.handoff.target"],
        ..NONE
    },
    Vendor {
        prefix: "voltagent.",
        scope: "@voltagent/core",
        kind: &["span.type", "entity.type"],
        words: &[
            ("agent", Kind::Agent),
            ("llm", Kind::ModelCall),
            ("tool", Kind::ToolCall),
            ("retriever", Kind::Retrieval),
            ("vector", Kind::Retrieval),
            ("embedding", Kind::Embedding),
            ("memory", Kind::Memory),
            ("guardrail", Kind::Guardrail),
            ("workflow", Kind::Workflow),
        ],
        input: &["llm.messages", "agent.messages", "tool.arguments", "input"],
        output: &["tool.result", "output"],
        name: &["tool.name", "retriever.name", "guardrail.name", "entity.name"],
        call_id: &["tool.call.id"],
        agent: &["entity.name"],
        model: &["llm.model", "embedding.model"],
        query: &["input"],
        documents: &["output"],
        decision: &["guardrail.action"],
        ..NONE
    },
    Vendor {
        prefix: "spring.ai.",
        kind: &["spring.ai.kind"],
        words: &[("tool_call", Kind::ToolCall), ("vector_store", Kind::Retrieval)],
        input: &["spring.ai.tool.call.arguments"],
        output: &["spring.ai.tool.call.result"],
        name: &["spring.ai.tool.definition.name"],
        query: &["db.vector.query.content"],
        documents: &["db.vector.query.response.documents"],
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
        scope: "livekit-agents",
        present: &[("lk.function_tool.", Kind::ToolCall)],
        input: &["lk.function_tool.arguments", "lk.chat_ctx", "lk.input_text", "lk.user_transcript"],
        output: &["lk.function_tool.output", "lk.response.text"],
        name: &["lk.function_tool.name"],
        call_id: &["lk.function_tool.id"],
        calls: &["lk.response.function_calls"],
        agent: &["lk.agent_name"],
        ..NONE
    },
    Vendor {
        prefix: "haystack.",
        kind: &["haystack.component.type"],
        suffixes: &[
            ("Generator", Kind::ModelCall),
            ("Retriever", Kind::Retrieval),
            ("Ranker", Kind::Rerank),
            ("Embedder", Kind::Embedding),
            ("ToolInvoker", Kind::ToolCall),
            ("Agent", Kind::Agent),
        ],
        present: &[
            ("haystack.pipeline.", Kind::Workflow),
            ("haystack.agent.", Kind::Agent),
            ("haystack.", Kind::Internal),
        ],
        name: &["haystack.component.name"],
        input: &["haystack.component.input", "haystack.agent.input", "haystack.pipeline.input_data"],
        output: &["haystack.component.output", "haystack.agent.output", "haystack.pipeline.output_data"],
        query: &["haystack.component.input"],
        documents: &["haystack.component.output"],
        ..NONE
    },
];
