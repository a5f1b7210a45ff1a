//! Messages, arguments and results: found wherever a producer puts them, and honest about what is missing.

use serde_json::json;

use super::*;
use crate::genai::message::{ContentState, Part};

const ASK: &str = r#"[{"role":"user","parts":[{"type":"text","content":"ask"}]}]"#;
const ANSWER: &str = r#"[{"role":"assistant","parts":[{"type":"text","content":"answer"}]}]"#;

/// A model call whose content is read from `attributes`.
fn chat(attributes: Value) -> (String, String) {
    let mut all = json!({"gen_ai.operation.name": "chat"});
    all.as_object_mut().unwrap().extend(attributes.as_object().unwrap().clone());
    let run = run([span(1, 0, "chat", all)]);
    (text_in(&run, &run.steps[0]), text_out(&run.steps[0]))
}

fn both() -> (String, String) {
    ("ask".into(), "answer".into())
}

/// langfuse#14633 (6): plain `gen_ai.*` attributes under the scope of a dialect that has its own.
#[test]
fn a_scope_ends_the_reading_of_the_convention() {
    let sent = span(
        1,
        0,
        "chat m",
        json!({"gen_ai.operation.name": "chat", "gen_ai.input.messages": ASK, "gen_ai.output.messages": ANSWER, "ai.operationId": "ai.generateText.doGenerate"}),
    );
    let read = run([sent.scope("ai")]);
    assert_eq!((text_in(&read, &read.steps[0]), text_out(&read.steps[0])), both());
    let tool = step(span(1, 0, "t", json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.arguments": {"a": 1}, "gen_ai.tool.call.result": "r"})).scope("ai"));
    assert_eq!((tool.tool_arguments, tool.tool_result), (Some(json!({"a": 1})), Some(json!("r"))));
}

/// langfuse#12657 (7), #11536 (8): content in a details event, or in generic events alone.
#[test]
fn content_that_only_events_carry_is_lost() {
    let details = span(1, 0, "chat", json!({"gen_ai.operation.name": "chat"})).event(
        "gen_ai.client.inference.operation.details",
        json!({"gen_ai.input.messages": ASK, "gen_ai.output.messages": ANSWER}),
    );
    let read = run([details]);
    assert_eq!((text_in(&read, &read.steps[0]), text_out(&read.steps[0])), both());
    let generic = span(1, 0, "chat", json!({"gen_ai.operation.name": "chat"}))
        .event("gen_ai.user.message", json!({"content": "ask"}))
        .event("gen_ai.choice", json!({"message": {"content": "answer"}, "finish_reason": "stop"}));
    let read = run([generic]);
    assert_eq!((text_in(&read, &read.steps[0]), text_out(&read.steps[0])), both());
}

/// langfuse#7038 (9): Semantic Kernel went from one kind of event to another.
#[test]
fn a_producer_that_changed_its_events_loses_its_content() {
    let old = span(
        1,
        0,
        "chat.completions m",
        json!({"gen_ai.operation.name": "chat.completions", "gen_ai.request.model": "m"}),
    )
    .event("gen_ai.content.prompt", json!({"gen_ai.prompt": "[{\"role\":\"user\",\"content\":\"ask\"}]"}))
    .event(
        "gen_ai.content.completion",
        json!({"gen_ai.completion": "[{\"role\":\"assistant\",\"content\":\"answer\"}]"}),
    );
    let new = span(1, 0, "chat m", json!({"gen_ai.operation.name": "chat"}))
        .event("gen_ai.user.message", json!({"gen_ai.event.content": "{\"role\":\"user\",\"content\":\"ask\"}"}))
        .event("gen_ai.choice", json!({"gen_ai.event.content": "{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"answer\"}}"}));
    for sent in [old, new] {
        let read = run([sent]);
        assert_eq!((text_in(&read, &read.steps[0]), text_out(&read.steps[0])), both());
    }
}

/// langfuse#5457 (10): inputs and outputs of workflows stand in `traceloop.entity.*` alone.
#[test]
fn an_entity_without_messages_is_empty() {
    let read = step(span(
        1,
        0,
        "plan.task",
        json!({"traceloop.span.kind": "task", "traceloop.entity.name": "plan", "traceloop.entity.input": "{\"args\":[\"ask\"],\"kwargs\":{}}", "traceloop.entity.output": "\"answer\""}),
    ));
    assert_eq!((read.name.as_str(), text_out(&read).as_str()), ("plan", "answer"));
    assert_eq!(read.input_state, ContentState::Captured);
}

/// langfuse#9002 (11): Pydantic AI's first version keeps all events in one attribute, the later ones do not.
#[test]
fn one_version_of_a_producer_is_read_and_the_next_is_not() {
    let events = r#"[{"event.name":"gen_ai.user.message","content":"ask","role":"user","gen_ai.message.index":0},
        {"event.name":"gen_ai.choice","index":0,"message":{"role":"assistant","content":"answer"}}]"#;
    let first =
        span(1, 0, "chat m", json!({"gen_ai.operation.name": "chat", "events": events})).scope("pydantic-ai");
    let later = span(1, 0, "chat m", json!({"gen_ai.operation.name": "chat", "gen_ai.input.messages": ASK, "gen_ai.output.messages": ANSWER})).scope("pydantic-ai");
    for sent in [first, later] {
        let read = run([sent]);
        assert_eq!((text_in(&read, &read.steps[0]), text_out(&read.steps[0])), both());
    }
}

/// langfuse#6517 (12), vscode#299952 (58), openllmetry PR#3212 (59): JSON cut by a limit on attributes.
#[test]
fn cut_json_is_thrown_away() {
    let long = format!(r#"[{{"role":"user","content":[{{"type":"text","text":"{}"#, "ask ".repeat(300));
    let cut = long.get(..1028).unwrap();
    let sent = span(
        1,
        0,
        "ai.generateText.doGenerate",
        json!({"ai.operationId": "ai.generateText.doGenerate", "ai.prompt.messages": cut}),
    )
    .scope("ai");
    let read = run([sent]);
    assert_eq!(read.steps[0].input_state, ContentState::Truncated);
    assert!(text_in(&read, &read.steps[0]).starts_with("ask ask"));
    assert!(reasons(&read).contains(&"truncated_content".to_owned()));
    let tool = step(span(
        1,
        0,
        "t.tool",
        json!({"traceloop.span.kind": "tool", "traceloop.entity.input": "{\"args\":[],\"kwargs\":{\"q\":\"par"}),
    ));
    assert_eq!((tool.input_state, tool.tool_arguments), (ContentState::Truncated, Some(json!({"q": "par"}))));
}

/// openinference#1984 (27): input and output stand only in what a person put there as JSON.
#[test]
fn raw_values_are_no_content() {
    let read = run([span(
        1,
        0,
        "llm",
        json!({"openinference.span.kind": "LLM", "input.value": "{\"messages\":[{\"role\":\"user\",\"content\":\"ask\"}]}", "output.value": "answer"}),
    )]);
    assert_eq!((text_in(&read, &read.steps[0]), text_out(&read.steps[0])), both());
}

/// openinference#2020 (29): ADK's roles.
#[test]
fn the_model_is_taken_for_the_user() {
    let request = r#"{"model":"g","contents":[{"role":"user","parts":[{"text":"ask"}]},{"role":"model","parts":[{"function_call":{"id":"c","name":"t","args":{}}}]},{"role":"user","parts":[{"function_response":{"id":"c","name":"t","response":{"r":1}}}]}]}"#;
    let read = run([span(1, 0, "call_llm", json!({"gcp.vertex.agent.llm_request": request, "gcp.vertex.agent.llm_response": "{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"answer\"}]}}"})).scope("gcp.vertex.agent")]);
    let roles: Vec<_> = read.messages.iter().map(|m| m.message.role.as_str()).collect();
    assert_eq!(roles, ["user", "assistant", "user"]);
    assert!(matches!(read.messages[2].message.parts[0], Part::ToolCallResponse { .. }));
    assert_eq!(
        (text_out(&read.steps[0]).as_str(), read.steps[0].output_messages[0].role.as_str()),
        ("answer", "assistant")
    );
}

/// opik#7150 (33): a tool's answer fell into its input; errors stood in events alone.
#[test]
fn a_tools_answer_is_its_input() {
    let sent = span(
        1,
        0,
        "running tool",
        json!({"gen_ai.tool.name": "t", "tool_arguments": "{\"a\":1}", "tool_response": "r"}),
    )
    .scope("pydantic-ai");
    let read = step(sent);
    assert_eq!((read.tool_arguments, read.tool_result), (Some(json!({"a": 1})), Some(json!("r"))));
}

/// weave#7066 (45): an agent without messages of its own.
#[test]
fn an_agent_without_messages_breaks_its_run() {
    let read = run([
        span(1, 0, "invoke_agent a", json!({"gen_ai.operation.name": "invoke_agent"})).lasts(0, 50),
        span(
            2,
            1,
            "chat",
            json!({"gen_ai.operation.name": "chat", "gen_ai.input.messages": ASK, "gen_ai.output.messages": ANSWER}),
        ),
    ]);
    assert_eq!((kinds(&read), reasons(&read)), (vec!["model_call".to_owned()], vec![]));
}

/// adk-python#4094, #4083 (46): content is off, and the attribute is `{}`, or is not there.
#[test]
fn an_empty_object_is_taken_for_content() {
    for attributes in
        [json!({"gcp.vertex.agent.llm_request": "{}", "gcp.vertex.agent.llm_response": "{}"}), json!({})]
    {
        let read = step(span(1, 0, "call_llm", attributes).scope("gcp.vertex.agent"));
        assert_eq!(
            (read.input_state, read.output_state),
            (ContentState::NotCaptured, ContentState::NotCaptured)
        );
    }
}

/// microsoft/agent-framework#5804 (55): line breaks in JSON, reasons in a string.
#[test]
fn pretty_printed_json_with_carriage_returns_is_text() {
    let pretty = "[\r\n  {\r\n    \"role\": \"user\",\r\n    \"parts\": [ { \"type\": \"text\", \"content\": \"ask\" } ]\r\n  }\r\n]";
    let read = run([span(
        1,
        0,
        "chat",
        json!({"gen_ai.operation.name": "chat", "gen_ai.input.messages": pretty, "gen_ai.response.finish_reasons": "[\"tool_calls\"]"}),
    )]);
    assert_eq!(
        (text_in(&read, &read.steps[0]).as_str(), read.steps[0].finish_reasons.as_slice()),
        ("ask", ["tool_call".to_owned()].as_slice())
    );
}

/// python-contrib#4038 (57): a log without an event name, with the observed time alone.
#[test]
fn a_log_without_a_name_or_a_time_is_lost() {
    let record = log(1, 0, "", json!({"event.name": "gen_ai.choice"}));
    let Body::Log(mut body) = record.body.clone() else { panic!() };
    body.time_unix_nano = 0;
    body.observed_time_unix_nano = 1_790_000_000_000_000_001;
    body.body = Some(any_value(
        &json!({"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "answer"}}),
    ));
    let record = Arc::new(Record::new(Body::Log(body), Arc::default(), 1, 0));
    let read = only(runs_of(&[span(1, 0, "chat", json!({"gen_ai.operation.name": "chat"})).done(), record]));
    assert_eq!(text_out(&read.steps[0]), "answer");
}

/// openllmetry-js#464 (60): the last chunk of a stream is all that was kept of the arguments.
#[test]
fn incomplete_arguments_are_taken_for_whole_ones() {
    let read = step(span(
        1,
        0,
        "openai.chat",
        json!({"llm.request.type": "chat", "gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.tool_calls.0.name": "t", "gen_ai.completion.0.tool_calls.0.arguments": "{\"city\": \"Par"}),
    ));
    assert_eq!(read.output_state, ContentState::Truncated);
    assert!(
        matches!(&read.output_messages[0].parts[0], Part::ToolCall { arguments: Some(a), .. } if *a == json!({"city": "Par"}))
    );
}

/// Extra: `gen_ai.system_instructions` as text, definitions as names, `result` for `response`, `thinking`, a result under role user.
#[test]
fn other_spellings_of_the_convention_are_lost() {
    let input =
        r#"[{"role":"user","parts":[{"type":"tool_call_response","id":"c","name":"t","result":"r"}]}]"#;
    let output = r#"[{"role":"assistant","parts":[{"type":"thinking","content":"hm"},{"type":"text","content":"answer"}]}]"#;
    let read = run([span(
        1,
        0,
        "chat",
        json!({"gen_ai.operation.name": "chat", "gen_ai.system_instructions": "be brief", "gen_ai.tool.definitions": "[\"a\",\"b\"]", "gen_ai.input.messages": input, "gen_ai.output.messages": output}),
    )]);
    let step = &read.steps[0];
    assert_eq!(step.system_instructions, [Part::text("be brief")]);
    assert_eq!(step.tool_definitions, Some(json!(["a", "b"])));
    assert!(
        matches!(&read.messages[0].message.parts[0], Part::ToolCallResponse { response: Some(r), .. } if r == "r")
    );
    assert!(
        matches!(&step.output_messages[0].parts[0], Part::Reasoning { content: Some(c), .. } if c == "hm")
    );
}

/// Extra: whole prompts under `gen_ai.prompt`, JSON in JSON, and MLflow's strings in quotes.
#[test]
fn doubly_encoded_content_stays_encoded() {
    assert_eq!(
        chat(
            json!({"gen_ai.prompt": "[{\"role\":\"user\",\"content\":\"ask\"}]", "gen_ai.completion": "\"answer\""})
        ),
        both()
    );
    let twice = serde_json::to_string(ASK).unwrap();
    assert_eq!(
        chat(
            json!({"gen_ai.input.messages": twice, "gen_ai.output.messages": [ANSWER.trim_matches(['[', ']'])]})
        ),
        both()
    );
    let read = run([span(
        1,
        0,
        "m",
        json!({"mlflow.spanType": "\"CHAT_MODEL\"", "mlflow.spanInputs": "\"ask\"", "mlflow.spanOutputs": "\"answer\""}),
    )]);
    assert_eq!((text_in(&read, &read.steps[0]), text_out(&read.steps[0])), both());
}

/// Section D: each marker gives its state.
#[test]
fn a_marker_is_taken_for_content() {
    let of = |text: &str| {
        step(span(1, 0, "t", json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.arguments": {"a": 1}, "gen_ai.tool.call.result": text}))).output_state
    };
    for (text, state) in [
        ("__REDACTED__", ContentState::Redacted),
        ("<REDACTED>", ContentState::Redacted),
        ("redacted-by-litellm", ContentState::Redacted),
        ("[Scrubbed due to 'password']", ContentState::Redacted),
        ("<not serializable>", ContentState::Unserializable),
        ("[object Object]", ContentState::Unserializable),
        ("@@@langfuseMedia:type=image/png|id=1|source=x@@@", ContentState::External),
        ("long text ...[TRUNCATED: original length 12000]", ContentState::Truncated),
        ("an honest answer", ContentState::Captured),
    ] {
        assert_eq!(of(text), state, "{text}");
    }
    let external = step(span(
        1,
        0,
        "chat",
        json!({"gen_ai.operation.name": "chat", "gen_ai.input.messages_ref": "s3://b/k", "gen_ai.output.messages_ref": "s3://b/l"}),
    ));
    assert_eq!(
        (external.input_state, external.output_state),
        (ContentState::External, ContentState::External)
    );
}

/// Clocks that count in milliseconds give many events one time.
#[test]
fn a_history_that_bears_one_time_is_shuffled() {
    let said = [("user", "one"), ("assistant", "two"), ("user", "three"), ("tool", "four"), ("user", "five")];
    let chat = || span(1, 0, "chat m", json!({"gen_ai.operation.name": "chat"}));
    let mut events = chat();
    let mut records = vec![chat().done()];
    for (place, (role, text)) in said.iter().enumerate() {
        let name = format!("gen_ai.{role}.message");
        events = events
            .event(&name, json!({"content": text, "id": "c1"}))
            .with(|s| s.events.iter_mut().for_each(|e| e.time_unix_nano = s.start_time_unix_nano));
        records.push(log_seen(10, place, &name, json!({"content": text, "id": "c1"})));
    }
    for (place, text) in ["first", "second"].iter().enumerate() {
        let choice = json!({"index": place, "finish_reason": "stop", "content": text});
        records.push(log_seen(12, 0, "gen_ai.choice", choice));
    }
    records.reverse();
    let read = run([events]);
    let order = |run: &Run| {
        let input = &run.steps[0].input_messages;
        input.iter().map(|n| run.messages[*n as usize].message.role.clone()).collect::<Vec<_>>()
    };
    let roles: Vec<_> = said.iter().map(|(role, _)| (*role).to_owned()).collect();
    assert_eq!(order(&read), roles);
    let read = only(runs_of(&records));
    assert_eq!(order(&read), roles);
    assert_eq!(text_out(&read.steps[0]), "firstsecond");
}

/// Several turns at one time and seen at one time: every answer stands behind its call, whatever order they came in.
#[test]
fn turns_of_one_time_lose_their_answers() {
    let assistant = |id: &str| json!({"tool_calls": [{"id": id, "type": "function", "function": {"name": "t", "arguments": "{}"}}]});
    let body = |event: &str, body: Value| {
        let Body::Log(mut record) = log(1, 0, event, json!({"gen_ai.system": "openai"})).body.clone() else {
            panic!()
        };
        record.body = Some(crate::otlp::fixtures::any_value(&body));
        Arc::new(Record::new(Body::Log(record), Arc::default(), 1, 0))
    };
    let mut records = vec![span(1, 0, "chat", json!({"gen_ai.operation.name": "chat"})).done()];
    records.push(body("gen_ai.user.message", json!({"content": "ask"})));
    records.push(body("gen_ai.choice", json!({"finish_reason": "stop", "message": {"content": "answer"}})));
    for id in ["c1", "c2", "c3", "c4"] {
        records.push(body("gen_ai.assistant.message", assistant(id)));
        records.push(body("gen_ai.tool.message", json!({"id": id, "content": id})));
    }
    let read = only(runs_of(&records));
    let history: Vec<_> =
        read.steps[0].input_messages.iter().map(|n| &read.messages[*n as usize].message).collect();
    assert_eq!((history.len(), history[0].role.as_str()), (9, "user"));
    for turn in history[1..].chunks(2) {
        let Part::ToolCall { id: asked, .. } = &turn[0].parts[0] else { panic!("{turn:?}") };
        assert!(matches!(&turn[1].parts[0], Part::ToolCallResponse { id, .. } if id == asked), "{turn:?}");
    }
    records.reverse();
    assert_eq!(runs_of(&records), vec![read]);
}

/// Two tools that one message asked for, all logged at one time: the results stand in the order of the calls.
#[test]
fn parallel_results_of_one_time_change_places() {
    let body = |event: &str, body: Value| {
        let Body::Log(mut record) = log(1, 0, event, json!({"gen_ai.system": "openai"})).body.clone() else {
            panic!()
        };
        record.body = Some(any_value(&body));
        Arc::new(Record::new(Body::Log(record), Arc::default(), 1, 0))
    };
    let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "t", "arguments": "{}"}});
    // Ids whose records hash in either order.
    for ids in [["c1", "c2", "c3"], ["z", "a", "m"], ["q7", "q1", "q4"]] {
        let mut records = vec![span(1, 0, "chat", json!({"gen_ai.operation.name": "chat"})).done()];
        records.push(body("gen_ai.user.message", json!({"content": "ask"})));
        records.push(body("gen_ai.assistant.message", json!({"tool_calls": ids.map(call)})));
        records.extend(ids.map(|id| body("gen_ai.tool.message", json!({"id": id, "content": id}))));
        let read = only(runs_of(&records));
        let history = read.steps[0].input_messages.iter().map(|n| &read.messages[*n as usize].message);
        let answered: Vec<_> = history
            .flat_map(|m| &m.parts)
            .filter_map(|p| if let Part::ToolCallResponse { id, .. } = p { id.clone() } else { None })
            .collect();
        assert_eq!(answered, ids);
    }
}

/// The JavaScript instrumentation of OpenAI logs a history at one time: the calls of the run tell the order of its turns.
#[test]
fn the_turns_of_a_history_are_shuffled() {
    let call = |id: &str| json!({"tool_calls": [{"id": id, "type": "function", "function": {"name": "t", "arguments": "{}"}}]});
    let of = |span: u64, event: &str, body: Value| {
        let Body::Log(mut record) =
            log(span, span * 10 + 1, event, json!({"gen_ai.system": "openai"})).body.clone()
        else {
            panic!()
        };
        record.body = Some(any_value(&body));
        Arc::new(Record::new(Body::Log(record), Arc::default(), 1, 0))
    };
    let ids = ["c9", "c1", "c5", "c3", "c7"];
    let mut records = Vec::new();
    for turn in 0..=ids.len() {
        let id = turn as u64 + 1;
        records.push(span(id, 0, "chat", json!({"gen_ai.operation.name": "chat"})).done());
        records.push(of(id, "gen_ai.user.message", json!({"content": "ask"})));
        for known in &ids[..turn] {
            records.push(of(id, "gen_ai.assistant.message", call(known)));
            records.push(of(id, "gen_ai.tool.message", json!({"id": known, "content": known})));
        }
        let answer = ids.get(turn).map_or(json!({"content": "done"}), |next| call(next));
        records.push(of(id, "gen_ai.choice", json!({"message": answer})));
    }
    let read = only(runs_of(&records));
    let last = read.steps.last().unwrap();
    let history = last.input_messages.iter().map(|n| &read.messages[*n as usize].message);
    let asked: Vec<_> = history
        .flat_map(|m| &m.parts)
        .filter_map(|p| if let Part::ToolCall { id, .. } = p { id.clone() } else { None })
        .collect();
    assert_eq!(
        (asked, read.notes.iter().any(|n| n.code == "order_conflict")),
        (ids.map(str::to_owned).to_vec(), false)
    );
    // Two questions at one time: nothing tells which came first.
    let read = only(runs_of(&[
        span(1, 0, "chat", json!({"gen_ai.operation.name": "chat"})).done(),
        of(1, "gen_ai.user.message", json!({"content": "one"})),
        of(1, "gen_ai.user.message", json!({"content": "two"})),
    ]));
    assert!(read.notes.iter().any(|n| n.code == "order_conflict"), "{:?}", read.notes);
}

/// A choice says which one it is: the order of the events does not.
#[test]
fn choices_stand_in_the_order_they_ended_in() {
    let choice = |index: u64, text: &str| json!({"index": index, "finish_reason": "stop", "message": format!(r#"{{"role":"assistant","content":"{text}"}}"#)});
    let read = step(
        span(1, 0, "chat", json!({"gen_ai.operation.name": "chat"}))
            .event("gen_ai.choice", choice(1, "B"))
            .event("gen_ai.choice", choice(0, "A")),
    );
    assert_eq!(read.output_messages.iter().map(|m| m.text()).collect::<Vec<_>>(), ["A", "B"]);
}

/// A log record of span 1 that was seen so many nanoseconds after the others of its time.
fn log_seen(ms: u64, seen_ns: usize, event: &str, attributes: Value) -> Arc<Record> {
    let record = log(1, ms, event, attributes);
    let Body::Log(mut made) = record.body.clone() else { return record };
    made.observed_time_unix_nano = made.time_unix_nano + seen_ns as u64;
    Arc::new(Record::new(Body::Log(made), Arc::default(), 1, 0))
}
