//! What people answered: approvals and interrupts that only a part of a message tells.

use serde_json::json;

use super::*;
use crate::run::model::StepKind;

const ASKED: &str = r#"{"role":"user","parts":[{"type":"text","content":"pay"}]},{"role":"assistant","parts":[{"type":"tool_call","id":"c1","name":"pay","arguments":{"a":1}},{"type":"tool-approval-request","approvalId":"ap1","toolCallId":"c1"}]}"#;
const ALLOWED: &str =
    r#"{"role":"tool","parts":[{"type":"tool-approval-response","approvalId":"ap1","approved":true}]}"#;
const RESULT: &str = r#"{"role":"tool","parts":[{"type":"tool_call_response","id":"c1","response":"paid"}]}"#;

fn chat(id: u64, input: &str, output: &str) -> Sent {
    span(
        id,
        1,
        "chat m",
        json!({"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.input.messages": format!("[{input}]"), "gen_ai.output.messages": output}),
    )
}

fn agent() -> Sent {
    span(1, 0, "invoke_agent a", json!({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}))
        .lasts(0, 900)
}

/// AI SDK: the run that a person let go on runs the tool first, then asks the model.
#[test]
fn an_approval_is_lost() {
    let tool = span(
        2,
        1,
        "execute_tool pay",
        json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "pay", "gen_ai.tool.call.id": "c1", "gen_ai.tool.call.arguments": "{\"a\":1}", "gen_ai.tool.call.result": "paid"}),
    );
    let known = [ASKED, ALLOWED, RESULT].join(",");
    let read = run([agent(), tool, chat(3, &known, "done")]);
    assert_eq!(kinds(&read), ["human_input", "tool_call", "model_call"]);
    let answer = &read.steps[0];
    assert_eq!((answer.name.as_str(), answer.decision.as_deref()), ("pay", Some("approved")));
    assert_eq!((answer.inferred, answer.agent_path.clone()), (true, vec!["a".to_owned()]));
    assert!(reasons(&read).is_empty(), "{:?}", read.partial_reasons);
}

/// A refusal says why; a later call of the same run that repeats the history is no second answer.
#[test]
fn an_answer_that_is_repeated_is_a_second_one() {
    let refused = r#"{"role":"tool","parts":[{"type":"tool_approval_response","approval_id":"ap1","approved":false,"reason":"too much"}]}"#;
    let first = [ASKED, refused].join(",");
    let second = [&first, r#"{"role":"assistant","parts":[{"type":"text","content":"well"}]}"#].join(",");
    let read = run([agent(), chat(2, &first, "well"), chat(3, &second, "done")]);
    assert_eq!(kinds(&read), ["human_input", "model_call", "model_call"]);
    assert_eq!(
        (read.steps[0].decision.as_deref(), text_out(&read.steps[0])),
        (Some("denied"), "too much".into())
    );
}

/// What was answered in an earlier run stands before the last message of the model.
#[test]
fn an_answer_of_an_earlier_run_is_given_again() {
    let known = [
        ASKED,
        ALLOWED,
        RESULT,
        r#"{"role":"assistant","parts":[{"type":"text","content":"paid"}]}"#,
        r#"{"role":"user","parts":[{"type":"text","content":"thanks"}]}"#,
    ]
    .join(",");
    assert_eq!(kinds(&run([agent(), chat(2, &known, "bye")])), ["model_call"]);
}

/// Strands resumes an agent with the answer to its interrupt, in its own shape or in Bedrock's.
#[test]
fn the_answer_to_an_interrupt_is_lost() {
    for part in [
        r#"{"type":"interrupt_response","content":{"interruptId":"i1","response":"approve"}}"#,
        r#"{"interruptResponse":{"interruptId":"i1","response":"approve"}}"#,
    ] {
        let input = format!(r#"[{{"role":"user","parts":[{part}]}}]"#);
        let strands = |sent: Sent| sent.scope("strands.telemetry.tracer");
        let read =
            run([
                strands(agent().event(
                    "gen_ai.client.inference.operation.details",
                    json!({"gen_ai.input.messages": input}),
                )),
                strands(chat(2, r#"{"role":"user","parts":[{"type":"text","content":"go"}]}"#, "done")),
            ]);
        let answer = &read.steps[0];
        assert_eq!(
            (answer.kind, answer.decision.as_deref()),
            (StepKind::HumanInput, Some("approve")),
            "{part}"
        );
        assert_eq!(read.steps.len(), 2);
    }
}
