//! Verdicts of guardrails and evaluations, wherever a producer puts them.

use serde_json::json;

use super::*;
use crate::run::model::{RunStatus, StepKind};

fn answered(id: u64) -> Sent {
    span(
        id,
        0,
        "chat m",
        json!({"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.response.id": format!("resp-{id}"), "gen_ai.input.messages": "ask", "gen_ai.output.messages": "answer"}),
    )
}

fn told(step: &Step) -> (StepKind, &str, Option<&str>, Option<u32>) {
    (step.kind, step.name.as_str(), step.decision.as_deref(), step.parent_index)
}

/// Evaluations and guardrails that come as log records.
#[test]
fn a_verdict_in_a_log_is_lost() {
    let read = only(runs_of(&[
        span(1, 0, "chat", json!({"gen_ai.operation.name": "chat"})).done(),
        log(
            1,
            30,
            "gen_ai.evaluation.result",
            json!({"gen_ai.evaluation.name": "relevance", "gen_ai.evaluation.score.label": "pass", "gen_ai.evaluation.score.value": 0.9}),
        ),
        log(
            1,
            31,
            "gen_ai.guardrail.result",
            json!({"gen_ai.guardrail.component.name": "pii", "gen_ai.guardrail.result.type": "allow"}),
        ),
    ]));
    let told: Vec<_> =
        read.steps.iter().skip(1).map(|s| (s.kind, s.name.as_str(), s.decision.as_deref())).collect();
    assert_eq!(
        told,
        [(StepKind::Evaluation, "relevance", Some("pass")), (StepKind::Guardrail, "pii", Some("allow"))]
    );
}

/// Evaluations and guardrails that come as events of the span that they judge.
#[test]
fn a_verdict_in_a_span_event_is_lost() {
    let judged = || {
        answered(1)
            .event(
                "gen_ai.evaluation.result",
                json!({"gen_ai.evaluation.name": "relevance", "gen_ai.evaluation.score.value": 0.9, "gen_ai.evaluation.explanation": "to the point"}),
            )
            .event(
                "gen_ai.guardrail.result",
                json!({"gen_ai.guardrail.component.name": "pii", "gen_ai.guardrail.result.type": "allow"}),
            )
    };
    let read = run([judged()]);
    let checks: Vec<_> = read.steps.iter().skip(1).map(told).collect();
    assert_eq!(
        checks,
        [
            (StepKind::Evaluation, "relevance", Some("0.9"), Some(0)),
            (StepKind::Guardrail, "pii", Some("allow"), Some(0))
        ]
    );
    assert_eq!(text_out(&read.steps[1]), "to the point");
    assert_eq!((read.source, read.span_count), ("spans", 1));
    // Two deliveries of the span are one span with the same events.
    assert_eq!(runs_of(&[judged().done(), judged().done()]), vec![read]);
}

/// The event of a guardrail's own span says how that came out; it is not a second check.
#[test]
fn the_event_of_a_check_is_one_more_check() {
    let read = run([span(1, 0, "apply_guardrail g", json!({"gen_ai.operation.name": "apply_guardrail"})).event(
        "gen_ai.guardrail.result",
        json!({"gen_ai.guardrail.component.name": "g", "gen_ai.guardrail.result.value": "deny", "gen_ai.guardrail.result.reason": "secret"}),
    )]);
    let check = only(read.steps);
    assert_eq!(
        (told(&check), text_out(&check)),
        ((StepKind::Guardrail, "g", Some("deny"), None), "secret".into())
    );
}

/// An evaluation that runs later, outside any trace, and names the response that it judges.
#[test]
fn an_evaluation_that_names_a_response_is_a_run_of_its_own() {
    let of = |response: &str| {
        log(
            0,
            900,
            "gen_ai.evaluation.result",
            json!({"gen_ai.evaluation.name": "truth", "gen_ai.evaluation.score.label": "fail", "gen_ai.response.id": response}),
        )
    };
    let read = runs_of(&[answered(1).done(), answered(2).trace(2).done(), of("resp-2")]);
    assert_eq!(read.iter().map(|run| run.steps.len()).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(told(&read[1].steps[1]), (StepKind::Evaluation, "truth", Some("fail"), Some(0)));
    // The evaluator's own spans hide no verdict that a record tells of another span.
    let evaluator = span(3, 1, "eval", json!({"openinference.span.kind": "EVALUATOR", "input.value": "x"}));
    let read = only(runs_of(&[answered(1).done(), evaluator.done(), of("resp-1")]));
    assert_eq!(kinds(&read), ["model_call", "evaluation", "evaluation"]);
    assert_eq!(runs_of(&[of("resp-9")]).len(), 1);
}

/// LiteLLM, Bedrock and the draft on threats name their guardrails by attributes alone.
#[test]
fn a_guardrail_without_an_operation_is_none() {
    let of = |name: &str, attributes: Value| step(span(1, 0, name, attributes));
    let litellm = of(
        "guardrail",
        json!({"openinference.span.kind": "GUARDRAIL", "guardrail_name": "presidio", "guardrail_mode": "pre_call", "guardrail_response": "blocked"}),
    );
    assert_eq!(told(&litellm), (StepKind::Guardrail, "presidio", Some("blocked"), None));
    let bedrock = of(
        "ApplyGuardrail",
        json!({"rpc.method": "ApplyGuardrail", "aws.bedrock.guardrail.id": "g1", "gen_ai.system": "aws.bedrock"}),
    );
    assert_eq!(told(&bedrock), (StepKind::Guardrail, "g1", None, None));
    let threat =
        of("scan", json!({"agent.threat.detection.rule_id": "r1", "agent.threat.detection.action": "ask"}));
    assert_eq!(told(&threat), (StepKind::Guardrail, "r1", Some("ask"), None));
    // A call that names the guardrail which watches it stays a call.
    let watched = of(
        "chat m",
        json!({"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "aws.bedrock.guardrail.id": "g1"}),
    );
    assert_eq!(watched.kind, StepKind::ModelCall);
}

/// While an interrupt is open its action is what is asked for, not what was answered.
#[test]
fn what_is_asked_for_is_taken_for_the_answer() {
    let read = |status: &str| {
        run([
            span(1, 0, "invoke_agent a", json!({"gen_ai.operation.name": "invoke_agent"})).lasts(0, 90),
            span(
                2,
                1,
                "interrupt",
                json!({"interrupt.operation": "request", "interrupt.action": "approve", "interrupt.status": status}),
            ),
        ])
    };
    let (open, closed) = (read("pending"), read("resolved"));
    assert_eq!((open.steps[0].decision.as_deref(), open.status), (None, RunStatus::Interrupted));
    assert_eq!((closed.steps[0].decision.as_deref(), closed.status), (Some("approve"), RunStatus::Completed));
}
