//! Which run, conversation and user a span belongs to.

use serde_json::json;

use super::*;
use crate::run::model::RunStatus;

fn conversation(attributes: Value) -> Option<String> {
    let mut all = json!({"gen_ai.operation.name": "chat"});
    all.as_object_mut().unwrap().extend(attributes.as_object().unwrap().clone());
    run([span(1, 0, "chat", all)]).conversation
}

/// langfuse#7183, #7427 (19): a user's own session id beside LangGraph's thread.
#[test]
fn the_thread_hides_the_session_that_a_user_named() {
    let metadata = json!({"langfuse.observation.metadata.thread_id": "t", "langfuse.observation.metadata.langfuse_session_id": "s"});
    assert_eq!(conversation(metadata).as_deref(), Some("s"));
}

/// openinference PR#446 (30): session before conversation before thread.
#[test]
fn the_order_of_three_ids_in_metadata_is_chance() {
    let metadata = r#"{"thread_id":"t","conversation_id":"c","session_id":"s"}"#;
    assert_eq!(conversation(json!({"metadata": metadata})).as_deref(), Some("s"));
    assert_eq!(
        conversation(json!({"metadata": "{\"thread_id\":\"t\",\"conversation_id\":\"c\"}"})).as_deref(),
        Some("c")
    );
}

/// The order of the carriers goes before the order of the words in them.
#[test]
fn a_weaker_carrier_names_the_session() {
    let named =
        json!({"traceloop.association.properties.chat_id": "weak", "langsmith.metadata.thread_id": "strong"});
    assert_eq!(conversation(named).as_deref(), Some("strong"));
}

/// opik PR#8141 (34): an explicit conversation beside an SDK's `session.id`, in whatever order.
#[test]
fn the_last_attribute_decides_the_conversation() {
    for attributes in [
        json!({"gen_ai.conversation.id": "c", "session.id": "s"}),
        json!({"session.id": "s", "gen_ai.conversation.id": "c"}),
    ] {
        assert_eq!(conversation(attributes).as_deref(), Some("c"));
    }
    // Pydantic AI writes an empty one.
    assert_eq!(conversation(json!({"gen_ai.conversation.id": "", "session.id": "s"})).as_deref(), Some("s"));
}

/// mlflow#22119, #23524 (36).
#[test]
fn a_user_or_a_conversation_is_lost_although_the_session_is_not() {
    let read = run([span(
        1,
        0,
        "chat",
        json!({"gen_ai.operation.name": "chat", "user.id": "u", "gen_ai.conversation.id": "c"}),
    )]);
    assert_eq!((read.user.as_deref(), read.conversation.as_deref()), (Some("u"), Some("c")));
}

/// mlflow PR#19211 (37): the most frequent wins, and the root among equals.
#[test]
fn the_last_of_several_sessions_wins() {
    let chat = |id: u64, session: &str| {
        span(id, 1, "chat", json!({"gen_ai.operation.name": "chat", "session.id": session}))
    };
    let root = |session: &str| {
        span(1, 0, "invoke_agent a", json!({"gen_ai.operation.name": "invoke_agent", "session.id": session}))
            .lasts(0, 90)
    };
    assert_eq!(run([root("a"), chat(2, "a"), chat(3, "b")]).conversation.as_deref(), Some("a"));
    assert_eq!(run([root("z"), chat(2, "a")]).conversation.as_deref(), Some("z"));
    assert_eq!(run([root("a"), chat(2, "b")]).conversation.as_deref(), Some("a"));
}

/// A resource's session counts where the spans have none; a browser's own does not outweigh theirs.
#[test]
fn the_session_of_a_resource_is_lost_or_wins() {
    let chat = |attributes: Value| span(1, 0, "chat", attributes).resource(json!({"session.id": "r"}));
    assert_eq!(run([chat(json!({"gen_ai.operation.name": "chat"}))]).conversation.as_deref(), Some("r"));
    let own = json!({"gen_ai.operation.name": "chat", "session.id": "s"});
    assert_eq!(run([chat(own)]).conversation.as_deref(), Some("s"));
}

/// What looks like a session and is none: LangSmith's project, an MCP connection.
#[test]
fn a_project_or_a_connection_is_taken_for_a_conversation() {
    assert_eq!(
        conversation(
            json!({"langsmith.trace.session_name": "default", "langsmith.trace.session_id": "p", "mcp.session.id": "m"})
        ),
        None
    );
}

/// opentelemetry-python-genai#475 (56): the conversation stands on the agent alone.
#[test]
fn a_conversation_on_the_agent_alone_is_lost() {
    let read = run([
        span(
            1,
            0,
            "invoke_agent a",
            json!({"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "c"}),
        )
        .lasts(0, 50),
        span(2, 1, "chat", json!({"gen_ai.operation.name": "chat"})),
        span(3, 1, "chat", json!({"gen_ai.operation.name": "chat"})),
    ]);
    assert_eq!(read.conversation.as_deref(), Some("c"));
}

/// Design section 4: `eai.run_id` of any span holds for the trace; one further down names a sub-agent.
#[test]
fn a_run_id_below_another_makes_a_second_run() {
    let read = run([
        span(1, 0, "invoke_agent a", json!({"gen_ai.operation.name": "invoke_agent", "eai.run_id": "outer"}))
            .lasts(0, 50),
        span(2, 1, "invoke_agent b", json!({"gen_ai.operation.name": "invoke_agent", "eai.run_id": "inner"}))
            .lasts(5, 45),
        span(3, 2, "chat", json!({"gen_ai.operation.name": "chat"})),
    ]);
    assert_eq!(read.run_id, "outer");
    let on_a_leaf = run([
        span(1, 0, "invoke_agent a", json!({"gen_ai.operation.name": "invoke_agent"})).lasts(0, 50),
        span(2, 1, "chat", json!({"gen_ai.operation.name": "chat", "eai.run_id": "leaf"})),
    ]);
    assert_eq!((on_a_leaf.run_id.as_str(), on_a_leaf.aliases.len()), ("leaf", 1));
}

/// A resume in a second trace: one run where the id says so, two of one conversation where only that does.
#[test]
fn a_resume_is_cut_from_its_run_or_glued_to_another() {
    let part = |trace: u128, id: u64, attributes: Value| span(id, 0, "chat", attributes).trace(trace);
    let by_id = |id: u64, trace: u128| {
        part(
            trace,
            id,
            json!({"gen_ai.operation.name": "chat", "gen_ai.agent.call.id": "r", "gen_ai.conversation.id": "c"}),
        )
    };
    let joined = run([by_id(1, 1), by_id(2, 2)]);
    assert_eq!((joined.run_id.as_str(), joined.trace_ids.len()), ("r", 2));
    let alone = |id: u64, trace: u128| {
        part(trace, id, json!({"gen_ai.operation.name": "chat", "gen_ai.conversation.id": "c"}))
    };
    let apart = runs([alone(1, 1), alone(2, 2)]);
    assert_eq!(apart.iter().map(|r| r.conversation.as_deref()).collect::<Vec<_>>(), [Some("c"), Some("c")]);
}

/// A resume that only a link from root to root names (the convention's way), after an interrupt or from a checkpoint.
#[test]
fn a_resume_that_a_link_names_is_a_second_run() {
    let agent = |id: u64, trace: u128, scope: &'static str| {
        span(
            id,
            0,
            "invoke_agent a",
            json!({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}),
        )
        .trace(trace)
        .scope(scope)
        .lasts(id * 100, id * 100 + 90)
    };
    let chat = |id: u64, parent: u64, trace: u128| {
        span(id, parent, "chat", json!({"gen_ai.operation.name": "chat", "gen_ai.output.messages": "x"}))
            .trace(trace)
            .lasts(parent * 100 + 1, parent * 100 + 9)
    };
    let paused = |sent: Sent| sent.event("exception", json!({"exception.type": "GraphInterrupt"}));
    let linked = |sent: Sent| {
        sent.with(|s| {
            let link = opentelemetry_proto::tonic::trace::v1::span::Link {
                trace_id: 1_u128.to_be_bytes().to_vec(),
                span_id: 1_u64.to_be_bytes().to_vec(),
                ..Default::default()
            };
            s.links.push(link);
        })
    };
    let whole = |first: Sent, second: Sent| runs([first, chat(11, 1, 1), second, chat(12, 2, 2)]);
    let resumed = only(whole(paused(agent(1, 1, "x")), linked(agent(2, 2, "x"))));
    assert_eq!((resumed.trace_ids.len(), resumed.steps.len(), resumed.status), (2, 2, RunStatus::Completed));
    let checkpoint = |sent: Sent| {
        sent.with(|s| s.attributes.extend(attributes_of(&json!({"gen_ai.context.checkpoint_id": "k"}))))
    };
    assert_eq!(whole(agent(1, 1, "x"), linked(checkpoint(agent(2, 2, "x")))).len(), 1);
    // A link to what came before in a conversation, or to another producer's span, is no resume.
    assert_eq!(whole(agent(1, 1, "x"), linked(agent(2, 2, "x"))).len(), 2);
    assert_eq!(whole(paused(agent(1, 1, "y")), linked(agent(2, 2, "x"))).len(), 2);
    // Each half names what the other is found by.
    let key = |sent: Sent| crate::run::join_keys(&[sent.done()]);
    assert!(!key(agent(1, 1, "x")).is_disjoint(&key(linked(agent(2, 2, "x")))));
}

/// LangGraph's checkpoint of a resume, wherever a producer carries the metadata.
#[test]
fn a_checkpoint_in_metadata_is_lost() {
    for attributes in [
        json!({"openinference.span.kind": "LLM", "metadata": "{\"thread_id\":\"t\",\"checkpoint_id\":\"k1\",\"langgraph_checkpoint_ns\":\"agent:1\"}"}),
        json!({"langsmith.span.kind": "llm", "langsmith.metadata.thread_id": "t", "langsmith.metadata.checkpoint_id": "k1", "langsmith.metadata.langgraph_checkpoint_ns": "agent:1"}),
        json!({"traceloop.span.kind": "task", "gen_ai.operation.name": "chat", "traceloop.association.properties.thread_id": "t", "traceloop.association.properties.checkpoint_id": "k1", "traceloop.association.properties.langgraph_checkpoint_ns": "agent:1"}),
        json!({"langfuse.observation.type": "generation", "langfuse.observation.metadata.thread_id": "\"t\"", "langfuse.observation.metadata.checkpoint_id": "\"k1\"", "langfuse.observation.metadata.langgraph_checkpoint_ns": "\"agent:1\""}),
    ] {
        let read = run([span(1, 0, "llm", attributes.clone())]);
        let found = only(read.checkpoints.clone()).reference;
        assert_eq!(
            (found.checkpoint_id.as_str(), found.thread_id.as_deref(), found.namespace.as_deref()),
            ("k1", Some("t"), Some("agent:1")),
            "{attributes}"
        );
        assert!(reasons(&read).contains(&"missing_checkpoint".to_owned()));
    }
}

/// anthropics/claude-code#63074, #55269 (50): logs without a trace beside spans of the same calls.
#[test]
fn logs_without_a_trace_are_a_second_run() {
    let tool = json!({"span.type": "tool", "tool_name": "Bash", "tool_use_id": "toolu_1", "session.id": "s"});
    let result = json!({"event.name": "tool_result", "prompt.id": "p", "session.id": "s", "tool_name": "Bash", "tool_use_id": "toolu_1", "success": "true", "tool_input": "{\"command\":\"ls\"}"});
    let records = [
        span(1, 0, "claude_code.interaction", json!({"span.type": "interaction", "session.id": "s"}))
            .lasts(0, 90)
            .done(),
        span(2, 1, "claude_code.tool", tool).done(),
        log(0, 29, "claude_code.tool_result", result),
    ];
    let read = only(runs_of(&records));
    assert_eq!((read.run_id.as_str(), read.steps.len()), ("p", 1));
    assert_eq!(read.steps[0].tool_arguments, Some(json!({"command": "ls"})));
}
