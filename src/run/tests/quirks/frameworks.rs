//! Frameworks with words of their own, each with what was misread of it.

use serde_json::json;

use super::*;
use crate::{genai::message::Part, run::model::StepKind};

/// livekit/agents#4116 (62): the content stands on the node around the request.
#[test]
fn a_voice_agent_loses_its_words() {
    let chat = json!({"items": [{"type": "message", "role": "system", "content": ["be kind"]}, {"type": "message", "role": "user", "content": ["hello"]}]}).to_string();
    let calls = json!([{"id": "c1", "name": "w", "arguments": "{}"}]).to_string();
    let read = run([
        span(1, 0, "agent_turn", json!({"lk.speech_id": "s"})).lasts(0, 90).scope("livekit-agents"),
        span(2, 1, "llm_node", json!({"lk.chat_ctx": chat, "lk.response.text": "hi", "lk.response.function_calls": calls, "gen_ai.request.model": "m"})).lasts(5, 40).scope("livekit-agents"),
        span(3, 2, "llm_request", json!({"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 10})).lasts(6, 39).scope("livekit-agents"),
        span(5, 1, "function_tool", json!({"lk.function_tool.id": "c1", "lk.function_tool.name": "w", "lk.function_tool.arguments": "{}", "lk.function_tool.output": "5"})).scope("livekit-agents"),
    ]);
    assert_eq!(
        (kinds(&read), read.usage.input_tokens),
        (vec!["model_call".into(), "tool_call".into()], Some(10))
    );
    assert_eq!((text_in(&read, &read.steps[0]), text_out(&read.steps[0])), ("hello".into(), "hi".into()));
    assert_eq!((read.steps[1].tool_arguments.clone(), reasons(&read)), (Some(json!({})), vec![]));
    // The node may stand beside the request instead of around it.
    let node = json!({"lk.chat_ctx": chat, "lk.response.text": "hi"});
    let request = json!({"gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 10});
    let beside = run([
        span(1, 0, "agent_turn", json!({"lk.speech_id": "s"})).lasts(0, 90).scope("livekit-agents"),
        span(2, 1, "llm_node", node).lasts(5, 40).scope("livekit-agents"),
        span(3, 1, "llm_request", request).lasts(6, 39).scope("livekit-agents"),
    ]);
    let call = &beside.steps[0];
    assert_eq!((beside.steps.len(), call.name.as_str(), text_in(&beside, call)), (1, "m", "hello".into()));
}

/// Genkit: `toolRequest` and `toolResponse` parts, its own words for usage, an empty input.
#[test]
fn genkit_speaks_to_nobody() {
    let input = json!({"messages": [{"role": "user", "content": [{"text": "ask"}]}, {"role": "tool", "content": [{"toolResponse": {"ref": "c0", "name": "t", "output": {"r": 1}}}]}], "config": {"temperature": 0.5, "maxOutputTokens": 9}});
    let output = json!({"message": {"role": "model", "content": [{"toolRequest": {"ref": "c1", "name": "t", "input": {"a": 1}}}]}, "usage": {"inputTokens": 7, "outputTokens": 2}});
    let model = json!({"genkit:metadata:subtype": "model", "genkit:name": "gemini", "genkit:input": input.to_string(), "genkit:output": output.to_string(), "genkit:sessionId": "s"});
    let tool = json!({"genkit:metadata:subtype": "tool", "genkit:name": "t", "genkit:input": "{}", "genkit:output": "1"});
    let read = run([
        span(1, 0, "flow", json!({"genkit:metadata:subtype": "flow", "genkit:name": "f"}))
            .lasts(0, 90)
            .scope("genkit-tracer"),
        span(2, 1, "gemini", model).scope("genkit-tracer"),
        span(3, 1, "t", tool).scope("genkit-tracer"),
    ]);
    let call = &read.steps[0];
    assert!(
        matches!(&call.output_messages[0].parts[0], Part::ToolCall { id: Some(id), arguments: Some(a), .. } if id == "c1" && *a == json!({"a": 1}))
    );
    assert!(
        read.messages
            .iter()
            .flat_map(|m| &m.message.parts)
            .any(|p| matches!(p, Part::ToolCallResponse { id: Some(id), .. } if id == "c0"))
    );
    assert_eq!(
        (call.usage.input_tokens, call.usage.output_tokens, call.request.temperature),
        (Some(7), Some(2), Some(0.5))
    );
    assert_eq!(
        (read.steps[1].tool_arguments.clone(), read.conversation.as_deref()),
        (Some(json!({})), Some("s"))
    );
}

/// Haystack's own tracing: the kind stands in the component's class.
#[test]
fn a_pipeline_is_no_run() {
    let replies = json!({"replies": [{"role": "assistant", "content": [{"text": "answer"}], "meta": {"model": "gpt-4o-1", "usage": {"prompt_tokens": 3}}}]});
    let part = |id: u64, class: &str, input: Value, output: Value| {
        span(id, 1, "haystack.component.run", json!({"haystack.component.name": class, "haystack.component.type": class, "haystack.component.input": input.to_string(), "haystack.component.output": output.to_string()})).scope("haystack")
    };
    let read = run([
        span(1, 0, "haystack.pipeline.run", json!({"haystack.pipeline.input_data": "{}"}))
            .lasts(0, 90)
            .scope("haystack"),
        part(2, "InMemoryBM25Retriever", json!({"query": "q"}), json!({"documents": [{"content": "d"}]})),
        part(3, "ChatPromptBuilder", json!({}), json!({})),
        part(
            4,
            "OpenAIChatGenerator",
            json!({"messages": [{"role": "user", "content": [{"text": "ask"}]}]}),
            replies,
        ),
    ]);
    assert_eq!(kinds(&read), ["retrieval", "model_call"]);
    assert_eq!(
        (read.steps[0].retrieval_query.as_deref(), read.steps[0].retrieval_documents.clone()),
        (Some("q"), Some(json!([{"content": "d"}])))
    );
    assert_eq!((text_in(&read, &read.steps[1]), text_out(&read.steps[1])), ("ask".into(), "answer".into()));
}

/// Haystack's agent: calls and counts stand in its replies, and one component runs the tools.
#[test]
fn the_component_that_runs_tools_is_the_tool() {
    let call = |id: &str| json!({"tool_call": {"tool_name": "f", "arguments": {"x": 1}, "id": id}});
    let result = |id: &str| json!({"role": "tool", "content": [{"tool_call_result": {"result": "5", "origin": {"tool_name": "f", "id": id}}}]});
    let part = |id: u64, class: &str, input: Value, output: Value| {
        span(id, 1, "haystack.component.run", json!({"haystack.component.name": "c", "haystack.component.type": class, "haystack.component.input": input.to_string(), "haystack.component.output": output.to_string()})).scope("haystack")
    };
    let read = |calls: &[&str]| {
        let asked = json!({"role": "assistant", "content": calls.iter().map(|id| call(id)).collect::<Vec<_>>(), "meta": {"model": "m-1", "finish_reason": "tool_calls", "usage": {"prompt_tokens": 3, "completion_tokens": 1}}});
        let answered: Vec<_> = calls.iter().map(|id| result(id)).collect();
        let mut history = vec![asked.clone()];
        history.extend(answered.clone());
        run([
            span(1, 0, "haystack.agent.run", json!({"haystack.agent.max_steps": 10}))
                .lasts(0, 90)
                .scope("haystack"),
            part(
                2,
                "OpenAIChatGenerator",
                json!({"messages": [{"role": "user", "content": [{"text": "ask"}]}]}),
                json!({"replies": [asked]}),
            ),
            part(3, "ToolInvoker", json!({"messages": [asked]}), json!({"tool_messages": answered})),
            part(
                4,
                "OpenAIChatGenerator",
                json!({"messages": history}),
                json!({"replies": [{"role": "assistant", "content": [{"text": "done"}]}]}),
            ),
        ])
    };
    let one = read(&["c1"]);
    assert_eq!(kinds(&one), ["model_call", "tool_call", "model_call"]);
    assert_eq!(
        (one.usage.input_tokens, one.steps[0].finish_reasons.as_slice()),
        (Some(3), &["tool_call".to_owned()][..])
    );
    let tool = &one.steps[1];
    assert_eq!((tool.name.as_str(), tool.tool_call_id.as_deref(), tool.inferred), ("f", Some("c1"), false));
    assert_eq!(
        (tool.tool_arguments.clone(), tool.tool_result.clone()),
        (Some(json!({"x": 1})), Some(json!("5")))
    );
    assert_eq!(one.agents, ["haystack.agent.run"]);
    // Two calls in one component: each is told by the model calls around it.
    let two = read(&["c1", "c2"]);
    assert_eq!(kinds(&two), ["model_call", "tool_call", "tool_call", "model_call"]);
    assert!(two.steps[1].inferred && reasons(&two).is_empty(), "{:?}", two.partial_reasons);
}

/// VoltAgent's own counts and reasons; LangChain4j's tools have a name and nothing else.
#[test]
fn what_only_a_name_or_a_bare_key_tells_is_lost() {
    let volt = step(span(1, 0, "llm:generateText", json!({"span.type": "llm", "llm.model": "m", "llm.usage.prompt_tokens": 10, "llm.usage.cached_tokens": 2, "llm.finish_reason": "stop"})).scope("@voltagent/core"));
    assert_eq!(
        (volt.usage.cache_read_tokens, volt.finish_reasons.as_slice()),
        (Some(2), &["stop".to_owned()][..])
    );
    let tool = step(span(1, 0, "langchain4j.tools.getWeather", json!({})));
    assert_eq!((tool.kind, tool.name.as_str()), (StepKind::ToolCall, "getWeather"));
}

/// Only the outer span of the AI SDK came: it is all there is of the call.
#[test]
fn a_wrapper_without_its_call_is_nothing() {
    let outer = json!({"ai.operationId": "ai.generateText", "ai.telemetry.functionId": "fn", "ai.prompt": "{\"prompt\":\"ask\"}", "ai.response.text": "answer"});
    let read = step(span(1, 0, "ai.generateText", outer).scope("ai"));
    assert_eq!((read.kind, text_out(&read)), (StepKind::AgentCall, "answer".into()));
}

/// Semantic Kernel's names, counts and reasons; OpenLIT's seconds where Strands has milliseconds.
#[test]
fn a_dialect_of_the_convention_is_half_read() {
    let kernel = step(span(
        1,
        0,
        "text.completions m",
        json!({"gen_ai.operation.name": "text.completions", "gen_ai.response.prompt_tokens": 4, "gen_ai.response.completion_tokens": 2, "gen_ai.response.finish_reason": "ToolCalls"}),
    ));
    assert_eq!(
        (kernel.usage.input_tokens, kernel.usage.output_tokens, kernel.finish_reasons),
        (Some(4), Some(2), vec!["tool_call".to_owned()])
    );
    let first_token = |attributes: Value| step(span(1, 0, "chat", attributes)).ttft_ns;
    assert_eq!(
        first_token(json!({"gen_ai.operation.name": "chat", "gen_ai.server.time_to_first_token": 0.4})),
        Some(400_000_000)
    );
    assert_eq!(
        first_token(
            json!({"gen_ai.operation.name": "chat", "gen_ai.system": "strands-agents", "gen_ai.server.time_to_first_token": 400})
        ),
        Some(400_000_000)
    );
}

/// CrewAI, LiteLLM and OpenAI side by side (24): model names with a provider before and a date behind.
#[test]
fn names_of_one_model_make_two_calls() {
    let model = |id: u64, name: &str| {
        span(id, 1, "llm", json!({"openinference.span.kind": "LLM", "llm.model_name": name, "llm.token_count.prompt": 580, "llm.output_messages.0.message.role": "assistant", "llm.output_messages.0.message.content": "x"})).lasts(20, 60)
    };
    let read = run([
        span(1, 0, "crew", json!({"openinference.span.kind": "CHAIN", "input.value": "q"})).lasts(0, 90),
        model(2, "openai/gpt-4o").scope("openinference.instrumentation.litellm"),
        model(3, "gpt-4o-2024-08-06").scope("openinference.instrumentation.openai"),
    ]);
    assert_eq!((read.steps.len(), read.usage.input_tokens), (1, Some(580)));
}

/// Names that differ alone: AgentOps, VoltAgent, Flue, Laminar, AG2, Spring AI, any-agent.
#[test]
fn a_vendors_own_names_are_unknown() {
    let of = |scope: &'static str, attributes: Value| step(span(1, 0, "x", attributes).scope(scope));
    let task = of(
        "agentops",
        json!({"agentops.span.kind": "operation", "agentops.entity.name": "plan", "agentops.entity.input": "a", "agentops.entity.output": "b"}),
    );
    assert_eq!((task.kind, task.name.as_str()), (StepKind::Task, "plan"));
    let llm = of(
        "@voltagent/core",
        json!({"span.type": "llm", "entity.type": "agent", "llm.model": "gpt-4o", "llm.messages": "[{\"role\":\"user\",\"content\":\"q\"}]", "output": "yo"}),
    );
    assert_eq!((llm.kind, llm.model.as_deref()), (StepKind::ModelCall, Some("gpt-4o")));
    let guard = of(
        "@voltagent/core",
        json!({"span.type": "guardrail", "entity.type": "agent", "guardrail.name": "pii", "guardrail.action": "block"}),
    );
    assert_eq!((guard.kind, guard.decision.as_deref()), (StepKind::Guardrail, Some("block")));
    let flue = of(
        "@flue/opentelemetry",
        json!({"flue.tool.name": "t", "flue.tool.call_id": "c", "flue.tool.arguments": "{}", "flue.tool.result": "r"}),
    );
    assert_eq!(
        (flue.kind, flue.tool_call_id.as_deref(), flue.tool_result),
        (StepKind::ToolCall, Some("c"), Some(json!("r")))
    );
    let laminar = of(
        "lmnr",
        json!({"lmnr.span.type": "TOOL", "lmnr.span.input": "{\"a\":1}", "lmnr.span.output": "2"}),
    );
    assert_eq!((laminar.tool_arguments, laminar.tool_result), (Some(json!({"a": 1})), Some(json!("2"))));
    let human = of(
        "ag2",
        json!({"ag2.span.type": "human_input", "ag2.human_input.prompt": "ok?", "ag2.human_input.response": "yes"}),
    );
    assert_eq!((human.kind, human.decision.as_deref()), (StepKind::HumanInput, Some("yes")));
    let store = of(
        "spring",
        json!({"spring.ai.kind": "vector_store", "db.vector.query.content": "q", "db.vector.query.response.documents": "[{\"id\":\"d\"}]"}),
    );
    assert_eq!(
        (store.retrieval_query.as_deref(), store.retrieval_documents),
        (Some("q"), Some(json!([{"id": "d"}])))
    );
    let any_agent = of(
        "any_agent",
        json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t", "gen_ai.tool.args": "{\"a\":1}", "gen_ai.output": "r"}),
    );
    assert_eq!((any_agent.tool_arguments, any_agent.tool_result), (Some(json!({"a": 1})), Some(json!("r"))));
    let renamed = run([span(
        1,
        0,
        "stream",
        json!({"aisdk.model.id": "m", "stream.prompt.messages": "[{\"role\":\"user\",\"content\":\"ask\"}]", "stream.response.text": "answer", "stream.usage.inputTokens": 3}),
    )]);
    assert_eq!(
        (text_in(&renamed, &renamed.steps[0]), text_out(&renamed.steps[0]), renamed.usage.input_tokens),
        ("ask".into(), "answer".into(), Some(3))
    );
}
