//! Which recorded step answers which call.

use super::*;

fn weather() -> Arc<Run> {
    let call = json!([{"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "w", "arguments": {"c": "Paris"}}]}]);
    run(
        json!([
            {"role": "system", "content": "Today is 2026-11-30. Be kind."},
            {"role": "user", "content": "Umbrella in Paris?"},
            {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "w", "arguments": {"c": "Paris"}}]},
            {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": {"rain": true}}]},
        ]),
        vec![
            model(&[0, 1], call),
            tool("w", json!({"c": "Paris"}), json!({"rain": true})),
            model(&[0, 1, 2, 3], json!([{"role": "assistant", "content": "Yes."}])),
        ],
    )
}

fn first_turn(system: &str, user: &str) -> Value {
    json!([{"role": "system", "content": system}, {"role": "user", "content": user}])
}

fn second_turn(system: &str, id: &str, result: Value) -> Value {
    json!([
        {"role": "system", "content": system},
        {"role": "user", "content": "Umbrella in Paris?"},
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": id, "type": "function", "function": {"name": "w", "arguments": "{\"c\":\"Paris\"}"}}]},
        {"role": "tool", "tool_call_id": id, "content": result.to_string()},
    ])
}

const SYSTEM: &str = "Today is 2026-11-30. Be kind.";

#[test]
fn an_id_or_a_day_makes_a_call_another() {
    let session = session(&weather(), Mode::Strict);
    let reply = session.answer(&ask(first_turn(SYSTEM, "Umbrella in Paris?")), false);
    assert_eq!((reply.rung, &reply.step), (Some(Rung::Exact), &Some(("run-1".into(), 0))));
    let Answer::Model(answer) = &reply.answer else { panic!("{reply:?}") };
    assert_eq!(answer.finish, "tool_call");
    assert!(matches!(&answer.parts[0], Part::ToolCall { id: Some(id), .. } if id == "c1"));
    let later = second_turn("Today is 2026-12-01. Be kind.", "call_other", json!({"rain": true}));
    let reply = session.answer(&ask(later), false);
    assert_eq!((reply.rung, said(&reply.answer)), (Some(Rung::Volatile), "Yes.".to_owned()));
    let report = session.report();
    assert_eq!(report.verdict, Verdict::Same);
    assert_eq!(report.matches[1].drift[0].path, "/instructions/0");
    assert!(report.unseen.is_empty(), "the tool ran in the agent: its result came back");
    assert_eq!((report.saved.model_calls, report.saved.duration_ms), (2, 4000.0));
}

#[test]
fn an_edited_prompt_is_not_named_with_its_step_and_words() {
    let session = session(&weather(), Mode::Strict);
    let _ = session.answer(&ask(first_turn(SYSTEM, "Umbrella in Paris?")), false);
    let reply = session.answer(&ask(second_turn(SYSTEM, "c1", json!({"rain": false}))), false);
    let Answer::Refused(refused) = reply.answer else { panic!("{reply:?}") };
    assert_eq!((refused.code, refused.step), (RefusedCode::Divergence, Some(2)));
    assert!(
        refused.message.contains("step 2") && refused.message.contains("/messages/2/result/rain"),
        "{}",
        refused.message
    );
    let report = session.report();
    let first = report.first_divergence.as_ref().unwrap();
    assert_eq!(
        (report.verdict, first.class, first.step_index),
        (Verdict::Diverged, Class::ToolResult, Some(2))
    );

    let session = super::session(&weather(), Mode::Strict);
    let reply = session.answer(&ask(first_turn(SYSTEM, "Umbrella in London?")), false);
    let Answer::Refused(refused) = reply.answer else { panic!("{reply:?}") };
    assert!(refused.message.contains("Paris") && refused.message.contains("London"), "{}", refused.message);
    assert_eq!(refused.step, Some(0));
}

#[test]
fn a_call_that_is_sent_again_uses_up_a_second_step() {
    let hello = json!([{"role": "user", "content": "hi"}]);
    let twice = run(
        hello.clone(),
        vec![
            model(&[0], json!([{"role": "assistant", "content": "one"}])),
            model(&[0], json!([{"role": "assistant", "content": "two"}])),
        ],
    );
    let session = session(&twice, Mode::Strict);
    let ask = ask(hello);
    let answers: Vec<String> =
        [false, true, true, false].iter().map(|again| said(&session.answer(&ask, *again).answer)).collect();
    assert_eq!(answers, ["one", "one", "one", "two"]);
    assert!(matches!(session.answer(&ask, false).answer, Answer::Refused(_)), "recorded twice");
    assert!(matches!(session.answer(&ask, false).answer, Answer::Refused(_)));
    let report = session.report();
    assert_eq!(report.matches.iter().map(|m| m.sends).collect::<Vec<_>>(), [3, 1]);
    assert_eq!((report.extra.len(), report.extra[0].sends, report.extra[0].class), (1, 2, Class::Extra));
}

#[test]
fn a_recorded_failure_is_an_answer_or_is_told_once_more() {
    let hello = json!([{"role": "user", "content": "hi"}]);
    let error = Failure {
        kind: Some("rate_limit".into()),
        message: Some("slow down".into()),
        status_code: Some(429),
    };
    let failing = Step { status: OpStatus::Error, error: Some(error), ..model(&[0], json!([])) };
    let after = model(&[0], json!([{"role": "assistant", "content": "now"}]));
    let session = session(&run(hello.clone(), vec![failing.clone(), after]), Mode::Strict);
    let ask = ask(hello.clone());
    let Answer::Failed(failed) = session.answer(&ask, false).answer else { panic!() };
    assert_eq!((failed.status, failed.message.as_str()), (429, "slow down"));
    assert_eq!(said(&session.answer(&ask, false).answer), "now");
    // The only one that was recorded failed: a client that tries again gets the same.
    let session = super::session(&run(hello, vec![failing]), Mode::Strict);
    for _ in 0..3 {
        assert!(matches!(session.answer(&ask, false).answer, Answer::Failed(_)));
    }
    assert_eq!((session.report().verdict, session.report().matches[0].sends), (Verdict::Same, 3));
}

#[test]
fn another_model_setting_or_tool_is_taken_for_the_recorded_call() {
    let recorded = Step {
        tool_definitions: Some(json!([{"name": "w", "description": "d", "parameters": {"type": "object"}}])),
        ..model(&[0], json!([{"role": "assistant", "content": "one"}]))
    };
    let recorded = Step {
        request: crate::genai::operation::Request { temperature: Some(0.2), ..Default::default() },
        ..recorded
    };
    let run = run(json!([{"role": "user", "content": "hi"}]), vec![recorded]);
    let call = |change: &dyn Fn(&mut ModelCall)| {
        let Call::Model(mut call) = ask(json!([{"role": "user", "content": "hi"}])) else { panic!() };
        call.tools = tools::read(
            &json!([{"type": "function", "function": {"name": "w", "description": "d", "parameters": {"type": "object"}}}]),
        );
        call.sampling.temperature = Some(0.2);
        change(&mut call);
        let session = session(&run, Mode::Strict);
        let rung = session.answer(&Call::Model(call), false).rung;
        (rung, session.report().extra.first().map(|miss| miss.class))
    };
    assert_eq!(call(&|_| ()), (Some(Rung::Exact), None));
    assert_eq!(call(&|c| c.tools[0].description = "e".into()), (Some(Rung::Volatile), None));
    assert_eq!(call(&|c| c.sampling.max_tokens = Some(5)), (Some(Rung::Exact), None));
    assert_eq!(call(&|c| c.model = "gpt-4o-2024-08-06".into()), (Some(Rung::Exact), None));
    assert_eq!(call(&|c| c.model = "gpt-4.1".into()), (None, Some(Class::Model)));
    assert_eq!(call(&|c| c.tools.clear()), (None, Some(Class::ToolSet)));
    assert_eq!(call(&|c| c.sampling.temperature = Some(0.9)), (None, Some(Class::Parameters)));
}

#[test]
fn a_lenient_session_is_strict_or_hides_a_rung() {
    let rung = |said: Value| {
        let session = session(&weather(), Mode::Lenient);
        let reply = session.answer(&ask(said), false);
        (reply.rung, reply.step.map(|(_, step)| step))
    };
    assert_eq!(rung(first_turn("Be rude.", "Umbrella in Paris?")), (Some(Rung::Instructions), Some(0)));
    assert_eq!(rung(first_turn(SYSTEM, "Umbrella in Rome?")), (Some(Rung::Shape), Some(0)));
    let history =
        json!([{"role": "user", "content": "before"}, {"role": "user", "content": "Umbrella in Paris?"}]);
    assert_eq!(rung(history), (Some(Rung::History), Some(0)));
    let other = json!([{"role": "user", "content": "Umbrella in Paris?"}, {"role": "assistant", "content": "No"},
        {"role": "user", "content": "Why?"}]);
    assert_eq!(rung(other).0, Some(Rung::Nearest));
    assert_eq!(rung(json!([{"role": "assistant", "content": "Zebras fly"}])).0, None);
}

#[test]
fn a_hole_is_told_as_a_divergence() {
    let hole =
        Step { output_state: ContentState::NotCaptured, output_messages: vec![], ..model(&[0], json!([])) };
    let unknown = Step {
        input_state: ContentState::NotCaptured,
        ..model(&[], json!([{"role": "assistant", "content": "x"}]))
    };
    let run = run(json!([{"role": "user", "content": "hi"}]), vec![hole, unknown]);
    let strict = session(&run, Mode::Strict);
    for said in ["hi", "other"] {
        let Answer::Refused(refused) =
            strict.answer(&ask(json!([{"role": "user", "content": said}])), false).answer
        else {
            panic!()
        };
        assert_eq!(refused.code, RefusedCode::Hole, "{said}");
    }
    assert_eq!(strict.report().verdict, Verdict::Hole);
    let lenient = session(&run, Mode::Lenient);
    let reply = lenient.answer(&ask(json!([{"role": "user", "content": "other"}])), false);
    assert_eq!((reply.rung, said(&reply.answer)), (Some(Rung::Position), "x".to_owned()));
}

#[test]
fn a_partial_record_is_taken_unasked() {
    let mut partial = Run::clone(&weather());
    partial.partial_reasons.push(crate::run::model::Reason {
        code: crate::run::model::ReasonCode::MissingOutput,
        class: crate::run::model::ReasonClass::Content,
        detail: String::new(),
        step_index: Some(2),
        span_id: None,
        trace_id: None,
    });
    let open =
        |settings: Settings| Session::new(vec![Arc::new(partial.clone())], settings, "s".into()).map(drop);
    assert!(matches!(open(Settings::default()), Err(Error::Partial(reasons)) if reasons.len() == 1));
    assert!(open(Settings { allow_partial: true, ..Settings::default() }).is_ok());
    assert!(open(Settings { mode: Mode::Lenient, ..Settings::default() }).is_ok());
    assert!(
        open(Settings { mode: Mode::Fork(2), ..Settings::default() }).is_ok(),
        "the hole is past the fork"
    );
    assert!(matches!(open(Settings { mode: Mode::Fork(3), ..Settings::default() }), Err(Error::Partial(_))));
}

#[test]
fn a_tool_is_answered_against_the_policy() {
    let policy: Policy = serde_json::from_value(json!({"tools": [
        {"name": "deny", "do": "deny"},
        {"name": "fixed", "do": "static", "value": {"a": 1}},
        {"name": "broken", "do": "error", "value": "no"},
        {"name": "own", "do": "live"},
        {"name": "w", "do": "record", "on_miss": "error_result"},
    ]}))
    .unwrap();
    let settings = Settings { policy, ..Settings::default() };
    let session = Session::new(vec![weather()], settings, "s".into()).unwrap();
    let call = |name: &str, arguments: Value| {
        session.answer(&Call::Tool(ToolCall { name: name.into(), arguments }), false).answer
    };
    let result = |answer: Answer| match answer {
        Answer::Tool(tool) => (tool.result, tool.is_error),
        other => panic!("{other:?}"),
    };
    assert_eq!(result(call("w", json!("{\"c\": \"Paris\"}"))), (json!({"rain": true}), false));
    assert!(result(call("w", json!({"c": "Rome"}))).1);
    assert_eq!(result(call("fixed", json!({}))), (json!({"a": 1}), false));
    assert_eq!(result(call("broken", json!({}))), (json!("no"), true));
    assert_eq!(call("own", json!({})), Answer::Live);
    assert!(matches!(call("deny", json!({})), Answer::Refused(r) if r.code == RefusedCode::Denied));
    assert_eq!(session.report().verdict, Verdict::Blocked);
}

#[test]
fn a_patch_or_a_fork_is_answered_from_the_record() {
    let patches = serde_json::from_value(json!({"0": {"output": "No idea."}, "1": {"result": 7}})).unwrap();
    let session =
        Session::new(vec![weather()], Settings { patches, ..Settings::default() }, "s".into()).unwrap();
    let reply = session.answer(&ask(first_turn(SYSTEM, "Umbrella in Paris?")), false);
    assert_eq!(said(&reply.answer), "No idea.");
    assert!(session.report().matches[0].patched);
    let unknown = serde_json::from_value(json!({"9": {"result": 7}})).unwrap();
    let wrong =
        Session::new(vec![weather()], Settings { patches: unknown, ..Settings::default() }, "s".into());
    assert!(matches!(wrong, Err(Error::Patch(9))));

    let fork = super::session(&weather(), Mode::Fork(2));
    assert_eq!(fork.answer(&ask(first_turn(SYSTEM, "Umbrella in Paris?")), false).rung, Some(Rung::Exact));
    let reply = fork.answer(&ask(second_turn(SYSTEM, "c1", json!({"rain": true}))), false);
    assert_eq!((reply.answer, reply.rung), (Answer::Live, Some(Rung::Live)));
    assert_eq!(fork.report().verdict, Verdict::Same);
}

#[test]
fn a_conversation_that_the_server_holds_is_cut_off() {
    let session = session(&weather(), Mode::Strict);
    let Answer::Model(first) = session.answer(&ask(first_turn(SYSTEM, "Umbrella in Paris?")), false).answer
    else {
        panic!()
    };
    let next = ModelCall {
        model: "gpt-4o".into(),
        system: vec![Part::text(SYSTEM)],
        messages: messages(
            json!([{"type": "function_call_output", "call_id": "c1", "output": "{\"rain\":true}"}]),
        ),
        previous_id: Some(format!("resp_{}", first.id)),
        ..ModelCall::default()
    };
    let reply = session.answer(&Call::Model(next), false);
    assert_eq!((reply.rung, said(&reply.answer)), (Some(Rung::Exact), "Yes.".to_owned()));
}

#[test]
fn a_record_of_what_is_new_alone_does_not_answer_the_whole_conversation() {
    let whole = weather();
    let mut tail = Run::clone(&whole);
    tail.steps[2].input_messages = vec![0, 3];
    let session = session(&Arc::new(tail), Mode::Strict);
    let _ = session.answer(&ask(first_turn(SYSTEM, "Umbrella in Paris?")), false);
    let reply = session.answer(&ask(second_turn(SYSTEM, "c1", json!({"rain": true}))), false);
    assert_eq!(reply.rung, Some(Rung::Exact));
}

/// Scenario: the producer logged a history in one moment, and the record says that it does not know the order of it.
/// Guarantee: the conversation matches in the order in which it was held; where the order is known it has to be that.
#[test]
fn an_order_that_was_not_recorded_makes_a_divergence() {
    let whole = weather();
    let mut shuffled = Run::clone(&whole);
    shuffled.steps[2].input_messages = vec![0, 2, 3, 1];
    let rung = |run: Run| {
        let session = session(&Arc::new(run), Mode::Strict);
        session.answer(&ask(second_turn(SYSTEM, "c1", json!({"rain": true}))), false).rung
    };
    assert_eq!(rung(shuffled.clone()), None);
    shuffled.notes.push(crate::run::model::Note {
        code: "order_conflict".into(),
        detail: String::new(),
        step_index: Some(2),
        span_id: None,
        trace_id: None,
    });
    assert_eq!(rung(shuffled), Some(Rung::Volatile));
}

/// Scenario: a failure was recorded; then another model is asked, and with other settings, as a fallback does.
/// Guarantee: they are other calls, and not the first one sent again.
#[test]
fn a_fallback_to_another_model_gets_the_recorded_failure() {
    let hello = json!([{"role": "user", "content": "hi"}]);
    let error = Failure { kind: None, message: Some("slow down".into()), status_code: Some(429) };
    let failing = Step { status: OpStatus::Error, error: Some(error), ..model(&[0], json!([])) };
    let session = session(&run(hello.clone(), vec![failing]), Mode::Strict);
    let Call::Model(first) = ask(hello) else { panic!() };
    assert!(matches!(session.answer(&Call::Model(first.clone()), false).answer, Answer::Failed(_)));
    let other = ModelCall { model: "claude-sonnet-4".into(), ..first.clone() };
    for is_resent in [false, true] {
        let answer = session.answer(&Call::Model(other.clone()), is_resent).answer;
        assert!(matches!(answer, Answer::Refused(_)), "{answer:?}");
    }
    assert!(matches!(session.answer(&Call::Model(first), true).answer, Answer::Failed(_)));
    assert_eq!(session.report().verdict, Verdict::Diverged);
}

/// Scenario: a tool is called with another id, and a tool's result says that it failed where the recorded one did not.
/// Guarantee: both are divergences in the strict mode.
#[test]
fn a_tool_acts_on_another_thing_or_its_failure_is_overlooked() {
    let deleted = tool("delete", json!({"id": "2f1c7c8e-9b0a-4d55-8a53-0d5b7a9f1c22"}), json!("gone"));
    let session = session(&run(json!([]), vec![deleted]), Mode::Strict);
    let call = |id: &str| Call::Tool(ToolCall { name: "delete".into(), arguments: json!({"id": id}) });
    assert!(matches!(
        session.answer(&call("00000000-9b0a-4d55-8a53-0d5b7a9f1c22"), false).answer,
        Answer::Refused(_)
    ));
    assert!(matches!(
        session.answer(&call("2f1c7c8e-9b0a-4d55-8a53-0d5b7a9f1c22"), false).answer,
        Answer::Tool(_)
    ));
    let failed = json!([
        {"role": "user", "content": "Umbrella in Paris?"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "w", "input": {"c": "Paris"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "is_error": true, "content": "{\"rain\":true}"}]},
    ]);
    let session = super::session(&weather(), Mode::Strict);
    let Call::Model(call) = ask(failed) else { panic!() };
    let call = ModelCall { system: vec![Part::text(SYSTEM)], ..call };
    assert_ne!(session.answer(&Call::Model(call), false).rung, Some(Rung::Exact));
}

/// Scenario: an agent sends large calls that were never recorded, again and again.
/// Guarantee: what is kept of them is bounded, and the report tells each.
#[test]
fn calls_that_were_refused_fill_the_memory() {
    let session = session(&weather(), Mode::Strict);
    for n in 0..12 {
        let text = format!("{n} {}", "x".repeat(1 << 20));
        let _ = session.answer(&ask(first_turn(SYSTEM, &text)), false);
    }
    assert!(session.state.lock().kept_bytes <= 4 << 20);
    let report = session.report();
    assert_eq!(report.extra.len(), 12);
    assert!(serde_json::to_string(&report).unwrap().len() < 1 << 20);
}

#[test]
fn one_answer_of_vectors_fills_the_memory() {
    let step =
        Step { kind: StepKind::Embedding, input_state: ContentState::NotCaptured, ..model(&[], json!([])) };
    let session = session(&run(json!([]), vec![step]), Mode::Strict);
    let call =
        EmbeddingCall { model: "gpt-4o".into(), inputs: vec!["x".into(); 30_000], dimensions: Some(16_384) };
    let answer = session.answer(&Call::Embedding(call), false).answer;
    assert!(matches!(&answer, Answer::Failed(failed) if failed.status == 400), "{answer:?}");
}
