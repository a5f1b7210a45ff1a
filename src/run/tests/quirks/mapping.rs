//! Rows of the unified mapping (`dialects.md` A): sources that nobody read.

use serde_json::json;

use super::*;
use crate::{genai::message::Part, genai::operation::OpStatus, run::model::RunStatus};

fn chat(mut attributes: Value) -> Step {
    attributes["gen_ai.operation.name"] = json!("chat");
    step(span(1, 0, "chat m", attributes))
}

/// The agent's whole history; what is new of it begins at an index.
#[test]
fn an_agents_old_messages_are_its_input() {
    let all = json!([
        {"role": "user", "parts": [{"type": "text", "content": "old"}]},
        {"role": "assistant", "parts": [{"type": "text", "content": "then"}]},
        {"role": "user", "parts": [{"type": "text", "content": "new"}]},
        {"role": "assistant", "parts": [{"type": "text", "content": "now"}]},
    ]);
    let read = run([span(
        1,
        0,
        "invoke_agent a",
        json!({"gen_ai.operation.name": "invoke_agent", "pydantic_ai.all_messages": all.to_string(), "pydantic_ai.new_message_index": 2}),
    )
    .scope("pydantic-ai")]);
    assert_eq!((text_in(&read, &read.steps[0]), text_out(&read.steps[0])), ("new".into(), "now".into()));
}

#[test]
fn a_system_prompt_under_its_bare_name_is_lost() {
    assert_eq!(chat(json!({"system_prompt": "be brief"})).system_instructions, [Part::text("be brief")]);
}

#[test]
fn tools_that_a_request_offers_are_unknown() {
    let offered = json!([{"name": "f"}]);
    let of = |attributes: Value| chat(attributes).tool_definitions;
    let parameters = json!({"function_tools": offered, "output_tools": []}).to_string();
    assert_eq!(of(json!({"model_request_parameters": parameters})), Some(offered.clone()));
    let functions = json!({"functions": offered}).to_string();
    assert_eq!(
        of(json!({"openinference.span.kind": "LLM", "llm.invocation_parameters": functions})),
        Some(offered)
    );
    assert_eq!(of(json!({"gen_ai.agent.tools": "[\"f\",\"g\"]"})), Some(json!(["f", "g"])));
    let claude = step(span(1, 0, "claude_code.llm_request", json!({"model": "m", "tools": "[\"Bash\"]"})));
    assert_eq!(claude.tool_definitions, Some(json!(["Bash"])));
}

/// Anthropic's cache by how long it is kept.
#[test]
fn a_cache_in_two_parts_is_no_cache() {
    let read = chat(
        json!({"gen_ai.usage.input_tokens": 100, "gen_ai.usage.cache_creation.input_tokens.ephemeral_5m": 10, "gen_ai.usage.cache_creation.input_tokens.ephemeral_1h": 5}),
    );
    assert_eq!((read.usage.input_tokens, read.usage.cache_write_tokens), (Some(100), Some(15)));
}

/// The exporter of LangSmith for Python writes a dictionary as Python prints it.
#[test]
fn details_in_the_words_of_python_are_lost() {
    let details = json!({"langsmith.span.kind": "llm", "gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 20, "gen_ai.usage.input_token_details": "{'cache_read': 40, 'audio': None}", "gen_ai.usage.output_token_details": "{'reasoning': 7}"});
    let usage = step(span(1, 0, "ChatOpenAI", details).scope("langsmith")).usage;
    assert_eq!(
        (usage.input_tokens, usage.cache_read_tokens, usage.reasoning_tokens),
        (Some(100), Some(40), Some(7))
    );
}

/// The time of the first chunk, where no attribute tells it.
#[test]
fn a_first_chunk_tells_no_time() {
    for event in [
        "gen_ai.content.completion.chunk",
        "llm.content.completion.chunk",
        "ai.stream.firstChunk",
        "mlflow.chunk.item.0",
    ] {
        let sent = span(1, 0, "chat m", json!({"gen_ai.operation.name": "chat"}))
            .event(event, json!({}))
            .with(|s| s.events[0].time_unix_nano += 3_000_000);
        assert_eq!(step(sent).ttft_ns, Some(3_000_000), "{event}");
    }
}

/// LangGraph marks a pause in what the graph gives back; the callbacks of LangChain set its status to ok.
#[test]
fn a_pause_in_the_output_of_a_graph_is_a_success() {
    let output = r#"{"messages":[],"__interrupt__":[{"value":"may I?","id":"i1"}]}"#;
    for graph in [
        json!({"openinference.span.kind": "CHAIN", "output.value": output}),
        json!({"traceloop.span.kind": "workflow", "traceloop.entity.output": format!(r#"{{"outputs":{output},"kwargs":{{}}}}"#)}),
        json!({"langsmith.span.kind": "chain", "gen_ai.completion": output}),
    ] {
        let asks =
            r#"[{"role":"assistant","parts":[{"type":"tool_call","id":"c1","name":"pay","arguments":{}}]}]"#;
        let read = run([
            span(1, 0, "LangGraph", graph.clone()).lasts(0, 90),
            span(
                2,
                1,
                "chat m",
                json!({"gen_ai.operation.name": "chat", "gen_ai.input.messages": "pay", "gen_ai.output.messages": asks}),
            ),
        ]);
        assert_eq!((read.status, reasons(&read)), (RunStatus::Interrupted, vec![]), "{graph}");
        assert!(read.notes.iter().any(|note| note.code == "awaiting_input"), "{graph}");
    }
    // A tool that speaks of it has not paused.
    let tool = step(span(
        1,
        0,
        "t",
        json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.result": output}),
    ));
    assert_eq!(tool.status, OpStatus::Ok);
}

/// The AI SDK's files, OpenLIT's calls and thoughts, the oldest prompts of OpenInference, CrewAI's tasks.
#[test]
fn content_under_a_name_of_its_own_is_lost() {
    let files = r#"[{"type":"file","mediaType":"image/png","data":"QUJD"}]"#;
    let read = step(
        span(
            1,
            0,
            "ai.generateText.doGenerate",
            json!({"ai.operationId": "ai.generateText.doGenerate", "ai.response.files": files}),
        )
        .scope("ai"),
    );
    let Part::Other(blob) = &read.output_messages[0].parts[0] else { panic!("{read:?}") };
    assert_eq!(
        Value::from(blob.clone()),
        json!({"type": "blob", "modality": "image", "mime_type": "image/png", "content": "QUJD"})
    );
    let calls = r#"[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]"#;
    let openlit = chat(
        json!({"gen_ai.completion": "hm", "gen_ai.response.tool_calls": calls, "gen_ai.content.reasoning": "thought"}),
    );
    let kinds: Vec<_> = openlit.output_messages[0]
        .parts
        .iter()
        .map(|p| serde_json::to_value(p).unwrap()["type"].clone())
        .collect();
    assert_eq!(kinds, ["reasoning", "text", "tool_call"]);
    let prompts = run([span(
        1,
        0,
        "llm",
        json!({"openinference.span.kind": "LLM", "llm.prompts": ["first ", "second"]}),
    )]);
    assert_eq!(text_in(&prompts, &prompts.steps[0]), "first second");
    let task = run([span(
        1,
        0,
        "execute_task",
        json!({"gen_ai.operation.name": "execute_task", "gen_ai.task.name": "plan", "gen_ai.task.input": "ask", "gen_ai.task.output": "answer"}),
    )]);
    let told = &task.steps[0];
    assert_eq!(
        (told.name.as_str(), text_in(&task, told), text_out(told)),
        ("plan", "ask".into(), "answer".into())
    );
}

/// An agent that only a checkpoint names.
#[test]
fn an_agent_that_a_checkpoint_names_is_nobody() {
    let read = step(span(
        1,
        0,
        "checkpoint",
        json!({"checkpoint.operation": "save", "checkpoint.id": "k", "checkpoint.agent_name": "bot"}),
    ));
    assert_eq!(read.agent_path, ["bot"]);
}
