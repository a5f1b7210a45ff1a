//! Producers that differ from the convention, each with what was misread of it.

use serde_json::json;

use super::*;
use crate::{
    genai::operation::OpStatus,
    run::model::{RunStatus, StepKind},
};

/// phoenix#10622 (21): spans of the plain convention without a vendor's mark.
#[test]
fn a_plain_span_of_the_convention_has_no_kind() {
    let read = run([
        span(1, 0, "invoke_workflow w", json!({"gen_ai.operation.name": "invoke_workflow"})).lasts(0, 90),
        span(2, 1, "chat m", json!({"gen_ai.operation.name": "chat"})),
        span(3, 1, "execute_tool t", json!({"gen_ai.operation.name": "execute_tool"})),
        span(4, 1, "retrieval d", json!({"gen_ai.operation.name": "retrieval"})),
        span(
            5,
            1,
            "apply_guardrail g",
            json!({"gen_ai.operation.name": "apply_guardrail", "gen_ai.guardrail.result.type": "deny"}),
        ),
        span(6, 1, "search_memory", json!({"gen_ai.operation.name": "search_memory"})),
        span(7, 1, "fetch_response", json!({"gen_ai.operation.name": "fetch_response"})),
    ]);
    assert_eq!(kinds(&read), ["model_call", "tool_call", "retrieval", "guardrail", "retrieval"]);
    assert_eq!(read.steps[3].decision.as_deref(), Some("deny"));
}

/// langfuse#8682 (15), litellm#30249 (48), langfuse#9893 (20): the SDK says `span`, the attributes say generation.
#[test]
fn a_generation_that_is_called_a_span_is_none() {
    let early = step(span(
        1,
        0,
        "g",
        json!({"langfuse.observation.type": "span", "langfuse.observation.model.name": "gpt-4o", "langfuse.observation.output": "x"}),
    ));
    assert_eq!((early.kind, early.model.as_deref()), (StepKind::ModelCall, Some("gpt-4o")));
    let proxied = step(span(
        1,
        0,
        "litellm_request",
        json!({"gen_ai.request.model": "gpt-4o", "gen_ai.system": "openai"}),
    ));
    assert_eq!(proxied.kind, StepKind::ModelCall);
    let mixed = json!({"langfuse.observation.prompt.version": 3, "openinference.span.kind": "LLM", "llm.model_name": "m"});
    assert_eq!(step(span(1, 0, "g", mixed)).kind, StepKind::ModelCall);
}

/// litellm#36759 (47): a provider that is nobody.
#[test]
fn none_is_taken_for_a_provider() {
    for system in ["None", "Unknown", "langchain", "strands-agents"] {
        let read = step(span(
            1,
            0,
            "chat",
            json!({"gen_ai.operation.name": "chat", "gen_ai.system": system, "gen_ai.request.model": "claude-sonnet-4-5"}),
        ));
        assert_eq!(read.provider.as_deref(), Some("anthropic"), "{system}");
    }
    let by_host = step(span(
        1,
        0,
        "chat",
        json!({"gen_ai.operation.name": "chat", "server.address": "api.mistral.ai"}),
    ));
    assert_eq!(by_host.provider.as_deref(), Some("mistral_ai"));
    let by_prefix = step(span(
        1,
        0,
        "call_llm",
        json!({"gen_ai.operation.name": "call_llm", "gen_ai.request.model": "openai:x-1"}),
    ));
    assert_eq!(by_prefix.provider.as_deref(), Some("openai"));
}

/// Strands beside Langfuse: the same in attributes and events, and why the model stopped in events alone.
#[test]
fn a_reason_that_only_an_event_tells_is_lost() {
    let read = run([span(
        1,
        0,
        "chat",
        json!({"gen_ai.operation.name": "chat", "gen_ai.system": "strands-agents", "gen_ai.request.model": "us.anthropic.claude-x", "gen_ai.input.messages": "ask", "gen_ai.output.messages": "answer", "langfuse.observation.type": "span"}),
    )
    .event("gen_ai.user.message", json!({"content": "[{\"text\":\"ask\"}]"}))
    .event("gen_ai.choice", json!({"message": "[{\"text\":\"answer\"}]", "finish_reason": "end_turn"}))]);
    let step = &read.steps[0];
    assert_eq!((text_in(&read, step), text_out(step)), ("ask".into(), "answer".into()));
    assert_eq!(
        (step.finish_reasons.as_slice(), step.provider.as_deref()),
        (&["stop".to_owned()][..], Some("aws.bedrock"))
    );
}

/// litellm v1.81 (49): the proxy's own span carries what the model's span did.
#[test]
fn the_span_of_a_proxy_hides_the_call() {
    let attributes = json!({"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 5, "gen_ai.usage.output_tokens": 1, "gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "ask"});
    let read = run([
        span(1, 0, "Received Proxy Server Request", attributes.clone()).lasts(0, 90),
        span(2, 1, "litellm_request", attributes).lasts(5, 80),
        span(3, 2, "raw_gen_ai_request", json!({"llm.openai.messages": "x"})).lasts(6, 70),
    ]);
    assert_eq!((read.steps.len(), read.usage.input_tokens), (1, Some(5)));
}

/// gh-aw-firewall PR#3492 (63) renames keys; opentelemetry-dotnet#2547 (64) repeats them.
#[test]
fn keys_that_a_collector_changed_are_lost() {
    let repeated = span(1, 0, "chat", json!({"gen_ai.operation.name": "chat"})).with(|s| {
        for reason in ["stop", "length"] {
            s.attributes.extend(attributes_of(&json!({"gen_ai.response.finish_reasons": reason})));
        }
    });
    assert_eq!(step(repeated).finish_reasons, ["stop", "length"]);
}

/// python-contrib#4038 and AgentCore: records that only their bodies tell apart, all at one time.
#[test]
fn message_logs_without_names_or_times_lose_their_order() {
    let with = |body: Value| {
        let Body::Log(mut record) = log(1, 0, "", json!({"gen_ai.system": "openai"})).body.clone() else {
            panic!()
        };
        record.body = Some(any_value(&body));
        Arc::new(Record::new(Body::Log(record), Arc::default(), 1, 0))
    };
    let read = only(runs_of(&[
        span(1, 0, "chat", json!({"gen_ai.operation.name": "chat"})).done(),
        with(json!({"role": "tool", "id": "c", "content": "5"})),
        with(
            json!({"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "t", "arguments": "{}"}}]}),
        ),
        with(json!({"role": "user", "content": "ask"})),
        with(
            json!({"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "answer"}}),
        ),
    ]));
    let roles: Vec<_> = read.steps[0]
        .input_messages
        .iter()
        .map(|n| read.messages[*n as usize].message.role.as_str())
        .collect();
    assert_eq!((roles, text_out(&read.steps[0]).as_str()), (vec!["user", "assistant", "tool"], "answer"));
    let core = json!({"input": {"messages": [{"role": "user", "content": "ask"}]}, "output": {"messages": [{"role": "assistant", "content": "answer"}]}});
    let read =
        only(runs_of(&[span(1, 0, "chat", json!({"gen_ai.operation.name": "chat"})).done(), with(core)]));
    assert_eq!((text_in(&read, &read.steps[0]), text_out(&read.steps[0])), ("ask".into(), "answer".into()));
}

/// ADK's first versions: agent and usage in places of their own; thoughts counted beside the answer.
#[test]
fn the_first_versions_of_adk_have_no_agent_and_no_usage() {
    let response = json!({"content": {"role": "model", "parts": [{"text": "x"}]}, "usage_metadata": {"prompt_token_count": 10, "candidates_token_count": 4, "thoughts_token_count": 6, "cached_content_token_count": 3, "total_token_count": 20}});
    let read = run([
        span(1, 0, "agent_run [bot]", json!({})).lasts(0, 90).scope("gcp.vertex.agent"),
        span(2, 1, "call_llm", json!({"gcp.vertex.agent.llm_request": "{\"model\":\"g\",\"config\":{\"temperature\":0.2},\"contents\":[]}", "gcp.vertex.agent.llm_response": response.to_string()})).scope("gcp.vertex.agent"),
    ]);
    assert_eq!(
        (read.agents.clone(), read.steps[0].agent_path.clone()),
        (vec!["bot".to_owned()], vec!["bot".to_owned()])
    );
    let usage = read.steps[0].usage;
    assert_eq!(
        (usage.input_tokens, usage.output_tokens, usage.reasoning_tokens),
        (Some(10), Some(10), Some(6))
    );
}

/// Checkpoints and interrupts that an agent writes as spans.
#[test]
fn an_interrupt_ends_a_run_as_completed() {
    let read = run([
        span(1, 0, "invoke_agent a", json!({"gen_ai.operation.name": "invoke_agent"})).lasts(0, 90),
        span(2, 1, "checkpoint", json!({"checkpoint.operation": "save", "checkpoint.id": "k1"})),
        span(
            3,
            1,
            "interrupt",
            json!({"interrupt.operation": "request", "interrupt.id": "i1", "interrupt.type": "approval", "interrupt.status": "pending", "interrupt.message": "may I?"}),
        ),
    ]);
    assert_eq!(
        (kinds(&read), read.status),
        (vec!["checkpoint".into(), "human_input".into()], RunStatus::Interrupted)
    );
    assert_eq!(read.checkpoints[0].reference.checkpoint_id, "k1");
    let answered = run([
        span(1, 0, "invoke_agent a", json!({"gen_ai.operation.name": "invoke_agent"})).lasts(0, 90),
        span(
            2,
            1,
            "elicitation/create",
            json!({"mcp.method.name": "elicitation/create", "mcp.response.value": "{\"action\":\"accept\"}"}),
        ),
        span(3, 1, "chat", json!({"gen_ai.operation.name": "chat", "gen_ai.output.messages": "done"})),
    ]);
    assert_eq!(
        (answered.steps[0].decision.as_deref(), answered.status),
        (Some("accept"), RunStatus::Completed)
    );
}

/// Pydantic AI: a deferral pauses the run.
#[test]
fn a_deferred_tool_ends_a_run_as_completed() {
    let read = run([
        span(1, 0, "invoke_agent a", json!({"gen_ai.operation.name": "invoke_agent"})).lasts(0, 90),
        span(
            2,
            1,
            "chat",
            json!({"gen_ai.operation.name": "chat", "gen_ai.output.messages": "[{\"role\":\"assistant\",\"parts\":[{\"type\":\"tool_call\",\"id\":\"c\",\"name\":\"t\",\"arguments\":{}}]}]"}),
        ),
        span(
            3,
            1,
            "execute_tool t",
            json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t", "gen_ai.tool.call.id": "c", "pydantic_ai.tool.deferral.name": "ApprovalRequired"}),
        ),
    ]);
    assert_eq!((read.steps[1].status, read.status), (OpStatus::Interrupted, RunStatus::Interrupted));
}

/// Logfire: the start of a span whose end never came.
#[test]
fn a_start_without_its_span_is_a_success_without_a_parent() {
    let agent = span(
        1,
        0,
        "invoke_agent a",
        json!({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}),
    )
    .lasts(0, 90)
    .scope("pydantic-ai");
    let started = |id: u64| {
        span(id, 5, "execute_tool t", json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t", "logfire.span_type": "pending_span", "logfire.pending_parent_id": "0000000000000001"})).scope("pydantic-ai")
    };
    let killed = run([agent.lasts(0, 90), started(3)]);
    assert_eq!(killed.steps[0].agent_path, ["a"]);
    assert!(
        reasons(&killed).contains(&"unfinished".to_owned())
            && !reasons(&killed).contains(&"missing_parent".to_owned())
    );
    let ended = span(5, 0, "execute_tool t", json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t", "gen_ai.tool.call.arguments": "{}", "gen_ai.tool.call.result": "r"})).scope("pydantic-ai");
    let whole = run([ended, started(6)]);
    assert_eq!((whole.steps.len(), reasons(&whole)), (1, vec![]));
}

/// github/copilot-cli#4858 (53): a span's own agent goes before the one that it stands under.
#[test]
fn an_agent_is_inherited_over_the_one_that_is_told() {
    let read = run([
        span(
            1,
            0,
            "invoke_agent main",
            json!({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "main"}),
        )
        .lasts(0, 90),
        span(2, 1, "chat", json!({"gen_ai.operation.name": "chat", "gen_ai.agent.name": "sub"})),
    ]);
    assert_eq!(read.steps[0].agent_path, ["main", "sub"]);
}

/// PostHog PR#76148 (43): a trace without a GenAI operation is no run.
#[test]
fn a_web_request_is_a_run() {
    assert!(runs([span(1, 0, "GET /", json!({"http.request.method": "GET"}))]).is_empty());
}
