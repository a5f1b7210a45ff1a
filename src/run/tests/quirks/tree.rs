//! Parents that never come, orphans, order, and what counts as a step.

use serde_json::json;

use super::*;

fn agent(id: u64, parent: u64) -> Sent {
    span(
        id,
        parent,
        "invoke_agent a",
        json!({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}),
    )
}

fn chat(id: u64, parent: u64) -> Sent {
    let said = r#"[{"role":"assistant","parts":[{"type":"text","content":"x"}]}]"#;
    span(
        id,
        parent,
        "chat",
        json!({"gen_ai.operation.name": "chat", "gen_ai.input.messages": said, "gen_ai.output.messages": said}),
    )
}

/// langfuse#15860 (18): a root of the application below a parent that another process keeps.
#[test]
fn a_root_of_an_application_needs_its_parent() {
    let root = span(
        2,
        99,
        "handle",
        json!({"langfuse.observation.type": "agent", "langfuse.internal.as_root": true}),
    )
    .lasts(0, 90);
    let read = run([root, chat(3, 2)]);
    assert_eq!((read.steps.len(), reasons(&read)), (1, vec![]));
    assert!(read.notes.iter().any(|n| n.code == "parent_outside"));
}

/// opik#7497 (31), opik PR#5963 (32), langwatch/tasks#457 (52), smolagents#1961 (54).
#[test]
fn spans_below_a_parent_that_never_came_are_lost() {
    let below_nothing = run([chat(2, 99), chat(3, 99)]);
    assert_eq!((below_nothing.steps.len(), reasons(&below_nothing)), (2, vec!["missing_root".to_owned()]));
    let one_branch = run([agent(1, 0).lasts(0, 90), chat(2, 1), chat(3, 99)]);
    assert_eq!((one_branch.steps.len(), reasons(&one_branch)), (2, vec!["missing_parent".to_owned()]));
    // The parent of the root is the trace's id, cut to a span's.
    let own_trace =
        run([agent(1, 0).lasts(0, 90).with(|s| s.parent_span_id = s.trace_id[8..].to_vec()), chat(2, 1)]);
    assert_eq!(own_trace.steps.len(), 1);
}

/// anthropics/claude-code#53972 (51): a sub-process that was not told of its caller's trace is a run of its own.
#[test]
fn a_detached_sub_process_joins_whatever_is_near() {
    let read =
        runs([agent(1, 0).lasts(0, 90), chat(2, 1), agent(3, 0).trace(2).lasts(20, 60), chat(4, 3).trace(2)]);
    assert_eq!(read.iter().map(|r| r.steps.len()).collect::<Vec<_>>(), [1, 1]);
}

/// github/copilot-cli#4858 (53): calls of a sub-agent under the wrong parent, interleaved.
#[test]
fn interleaved_calls_lose_their_order() {
    let read = run([
        agent(1, 0).lasts(0, 200),
        agent(2, 1).lasts(10, 100),
        chat(3, 1),
        chat(4, 2),
        chat(5, 1),
        chat(6, 2),
    ]);
    let starts: Vec<_> = read.steps.iter().map(|s| s.start_ns).collect();
    assert!(starts.is_sorted() && starts.len() == 4);
}

/// PostHog#63135 (42), opik#7150 (33): an error in the status, in an event, in a tool's own word.
#[test]
fn a_failure_is_shown_as_a_success() {
    let by_status = step(chat(1, 0).failed("down"));
    assert_eq!(by_status.error.unwrap().message.as_deref(), Some("down"));
    let by_event =
        step(chat(1, 0).event("exception", json!({"exception.type": "E", "exception.message": "broke"})));
    assert_eq!(
        (by_event.status, by_event.error.unwrap().message.as_deref()),
        (OpStatus::Error, Some("broke"))
    );
    let by_word = step(span(
        1,
        0,
        "t",
        json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.status": "error", "gen_ai.tool.call.result": "no such file"}),
    ));
    assert_eq!(by_word.error.unwrap().message.as_deref(), Some("no such file"));
}

use crate::genai::operation::OpStatus;

/// Interrupts, deferrals and cancellations are no failures.
#[test]
fn a_pause_is_a_failure() {
    for (exception, status) in [
        ("langgraph.errors.GraphInterrupt", OpStatus::Interrupted),
        ("pydantic_ai.exceptions.CallDeferred", OpStatus::Interrupted),
        ("asyncio.exceptions.CancelledError", OpStatus::Cancelled),
        ("ValueError", OpStatus::Error),
    ] {
        let read = step(
            chat(1, 0).event("exception", json!({"exception.type": exception, "exception.message": "x"})),
        );
        assert_eq!(read.status, status, "{exception}");
    }
    let deferred = step(span(1, 0, "execute_tool t", json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t", "pydantic_ai.tool.deferral.name": "ApprovalRequired"})).failed("x"));
    assert_eq!(deferred.status, OpStatus::Interrupted);
}

/// Logfire's placeholder of a span that has begun is replaced by the span.
#[test]
fn a_placeholder_stands_beside_its_span() {
    let pending = chat(1, 0).with(|s| s.end_time_unix_nano = s.start_time_unix_nano);
    let read = run([pending, chat(1, 0)]);
    assert_eq!(read.steps.len(), 1);
    assert!(read.steps[0].end_ns > read.steps[0].start_ns);
}

/// Extra: no start, an end before the start, a child that starts before its parent.
#[test]
fn impossible_times_lose_or_misplace_a_span() {
    let read = run([
        agent(1, 0).lasts(50, 90),
        chat(2, 1).lasts(45, 60),
        chat(3, 1).lasts(80, 70),
        chat(4, 1).with(|s| s.start_time_unix_nano = 0),
    ]);
    assert_eq!(read.steps.len(), 3);
    assert!(read.notes.iter().any(|n| n.code == "clock_skew"));
    assert_eq!(reasons(&read), ["invalid_time"]);
}

/// ADK reports parallel tools once more as one (`(merged tools)`).
#[test]
fn merged_tools_are_one_more_call() {
    let tool = |id: u64, name: &str| {
        span(id, 1, "execute_tool", json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name, "gcp.vertex.agent.tool_call_args": "N/A"})).scope("gcp.vertex.agent")
    };
    let read = run([agent(1, 0).lasts(0, 90), tool(2, "a"), tool(3, "b"), tool(4, "(merged tools)")]);
    assert_eq!(read.tools, ["a", "b"]);
}

/// A tool call, the MCP client's span below it and the MCP server's span are one action.
#[test]
fn a_tool_over_mcp_is_three_calls() {
    let read = run([
        span(1, 0, "execute_tool search", json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search"})).lasts(0, 90),
        span(2, 1, "tools/call search", json!({"mcp.method.name": "tools/call", "gen_ai.tool.name": "search"})).lasts(10, 80),
        span(3, 2, "tools/call search", json!({"mcp.method.name": "tools/call", "gen_ai.tool.name": "search", "gen_ai.tool.call.result": "r"})).lasts(20, 70),
        span(4, 0, "tools/list", json!({"mcp.method.name": "tools/list"})),
    ]);
    assert_eq!((read.steps.len(), read.steps[0].tool_result.clone()), (1, Some(json!("r"))));
}

/// An MCP server's own span is well, its answer says that the tool failed.
#[test]
fn an_error_in_an_answer_of_mcp_is_a_success() {
    let call = |id: u64, parent: u64, mut attributes: Value| {
        attributes["mcp.method.name"] = json!("tools/call");
        attributes["gen_ai.tool.name"] = json!("add");
        span(id, parent, "tools/call add", attributes)
    };
    let failed = r#"{"isError":true,"content":[{"type":"text","text":"bad"}]}"#;
    let read = run([
        call(1, 0, json!({"gen_ai.tool.call.arguments": "{\"a\":1}", "error.type": "tool_error"}))
            .lasts(0, 50)
            .failed(""),
        call(2, 1, json!({"gen_ai.tool.call.result": failed})).scope("server"),
    ]);
    let tool = only(read.steps);
    assert_eq!((tool.status, tool.error.unwrap().message.as_deref()), (OpStatus::Error, Some("bad")));
}

/// A tool that the provider ran stands in the answer of the model, and may have a span beside it.
#[test]
fn a_tool_of_the_provider_was_asked_for_by_nobody() {
    let output = r#"[{"role":"assistant","parts":[{"type":"server_tool_call","id":"s1","name":"web_search","server_tool_call":{"type":"web_search"}},{"type":"text","content":"found"}]}]"#;
    let read = run([
        agent(1, 0).lasts(0, 90),
        span(
            2,
            1,
            "chat",
            json!({"gen_ai.operation.name": "chat", "gen_ai.input.messages": "ask", "gen_ai.output.messages": output}),
        ),
        span(
            3,
            1,
            "execute_tool web_search",
            json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "web_search", "gen_ai.tool.call.id": "s1", "gen_ai.tool.type": "extension", "gen_ai.tool.call.arguments": "{}", "gen_ai.tool.call.result": "[]"}),
        ),
    ]);
    assert_eq!((read.steps.len(), reasons(&read)), (2, vec![]));
}

/// Two equal calls one after the other are two calls.
#[test]
fn a_call_that_is_made_again_is_a_duplicate() {
    let call = |id: u64| {
        span(
            id,
            1,
            "t",
            json!({"openinference.span.kind": "TOOL", "tool.name": "t", "input.value": "{\"a\":1}", "output.value": "r"}),
        )
    };
    assert_eq!(run([agent(1, 0).lasts(0, 90), call(2), call(3)]).steps.len(), 2);
}
