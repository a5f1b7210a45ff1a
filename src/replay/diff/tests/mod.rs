mod build;
mod properties;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::*;
use crate::{
    genai::{
        message::{Message, Part},
        operation::{Failure, OpStatus},
    },
    replay::document,
    run::model::Step,
};
use build::{Build, answers, asks, build, says};

/// What an agent does that asks a tool once: `question`, the tool's `arguments` and `result`, the `answer`.
fn agent(salt: u64, question: &str, arguments: &Value, result: &Value, answer: &str) -> Build {
    let built = build(salt);
    let id = built.id(0);
    let user = says("user", question);
    let ask = asks(&id, "search", arguments.clone());
    built
        .chat(std::slice::from_ref(&user), ask.clone())
        .tool("search", arguments.clone(), result.clone())
        .chat(&[user, ask, answers(&id, result.clone())], says("assistant", answer))
}

fn weather(salt: u64) -> Build {
    agent(salt, "weather in Paris?", &json!({"q": "Paris"}), &json!({"sky": "clear"}), "It is sunny today.")
}

/// Operation and places of each step.
fn steps(diff: &Diff) -> Vec<(StepOp, Option<u32>, Option<u32>)> {
    diff.steps.iter().map(|step| (step.op, step.a, step.b)).collect()
}

/// Step of the first run, pointer, before and after of every change; each is looked up in the documents.
fn told(a: &Run, b: &Run) -> Vec<(u32, String, Value, Value)> {
    let diff = diff(a, b);
    let mut all = Vec::new();
    for step in &diff.steps {
        for change in &step.changes {
            let look = |run: &Run, at: Option<u32>, path: &str| {
                document::step(run, &run.steps[at.unwrap() as usize]).pointer(path).cloned()
            };
            let at = change.path_before.as_ref().unwrap_or(&change.path);
            let absent = |value: &Option<Value>| value.clone().unwrap_or(json!("(absent)"));
            if let (Some(before), true) = (&change.before, !absent(&change.before).is_object()) {
                assert_eq!(look(a, step.a, at).as_ref(), Some(before), "{change:?}");
            }
            if let (Some(after), true) = (&change.after, !absent(&change.after).is_object()) {
                assert_eq!(look(b, step.b, &change.path).as_ref(), Some(after), "{change:?}");
            }
            all.push((step.a.unwrap(), change.path.clone(), absent(&change.before), absent(&change.after)));
        }
    }
    all
}

fn one(at: u32, path: &str, before: Value, after: Value) -> Vec<(u32, String, Value, Value)> {
    vec![(at, path.to_owned(), before, after)]
}

#[test]
fn other_ids_and_times_make_a_difference() {
    let diff = diff(&weather(0).done(), &weather(5).done());
    assert!(diff.same, "{diff:#?}");
    assert_eq!(diff.summary, Summary { same: 3, ..Summary::default() });
    // Times are shown all the same.
    assert!(diff.steps.iter().all(|step| step.duration_ms.is_some_and(|ms| ms.before < ms.after)));
}

#[test]
fn a_change_of_one_step_is_told_in_another_place() {
    let a = weather(0).done();
    let changed = |change: &dyn Fn(&mut Step)| told(&a, &weather(1).with(change).done());
    assert_eq!(changed(&|s| s.model = Some("n".into())), one(2, "/model", json!("m"), json!("n")));
    assert_eq!(
        changed(&|s| s.request.temperature = Some(0.5)),
        one(2, "/request/temperature", Value::Null, json!(0.5))
    );
    assert_eq!(
        changed(&|s| s.finish_reasons = vec!["length".into()]),
        one(2, "/finish_reasons/0", json!("stop"), json!("length"))
    );
    assert_eq!(
        changed(&|s| s.system_instructions = vec![Part::text("Be brief.")]),
        one(
            2,
            "/input/system_instructions/0",
            json!("(absent)"),
            json!({"type": "text", "content": "Be brief."})
        )
    );
    let failed = changed(&|s| {
        s.status = OpStatus::Error;
        s.error = Some(Failure { kind: Some("Timeout".into()), ..Failure::default() });
    });
    assert_eq!(
        failed,
        [
            (2, "/error".into(), Value::Null, json!({"type": "Timeout"})),
            (2, "/status".into(), json!("ok"), json!("error"))
        ]
    );
    let output = "/output/messages/0/parts/0/content";
    let answer =
        |text: &str| agent(2, "weather in Paris?", &json!({"q": "Paris"}), &json!({"sky": "clear"}), text);
    assert_eq!(
        told(&a, &answer("It is rainy today.").done()),
        one(2, output, json!("It is sunny today."), json!("It is rainy today."))
    );
}

#[test]
fn words_of_an_answer_are_not_told() {
    let b =
        agent(1, "weather in Paris?", &json!({"q": "Paris"}), &json!({"sky": "clear"}), "It is rainy today.");
    let diff = diff(&weather(0).done(), &b.done());
    let words = serde_json::to_value(&diff.steps[2].changes[0].words).unwrap();
    let (equal, delete, insert) = ("equal", "delete", "insert");
    assert_eq!(
        words,
        json!([
            {"op": equal, "text": "It is "}, {"op": delete, "text": "sunny"},
            {"op": insert, "text": "rainy"}, {"op": equal, "text": " today."},
        ])
    );
}

#[test]
fn tokens_alone_are_no_difference() {
    let b = weather(1).with(|step| step.usage.output_tokens = Some(3)).done();
    let diff = diff(&weather(0).done(), &b);
    assert!(!diff.same);
    let tokens = diff.steps[2].tokens.as_ref().unwrap();
    assert_eq!((tokens.before.output_tokens, tokens.after.output_tokens), (Some(2), Some(3)));
    assert_eq!(diff.summary.areas, [("tokens", 1)].into());
}

#[test]
fn a_run_that_failed_outside_its_steps_is_the_same() {
    let mut b = weather(1).done();
    (b.status, b.error) =
        (RunStatus::Failed, Some(Failure { message: Some("no".into()), ..Failure::default() }));
    let diff = diff(&weather(0).done(), &b);
    let paths: Vec<&str> = diff.changes.iter().map(|change| change.path.as_str()).collect();
    assert_eq!((diff.same, paths), (false, vec!["/error", "/status"]));
}

/// Scenario: a question, the arguments of a call, its result and the answer change; every later call repeats them.
/// Guarantee: each is told once, by the step where it shows first.
#[test]
fn a_change_is_told_by_every_step_that_repeats_it() {
    let a = weather(0).done();
    let b =
        agent(1, "weather in Rome?", &json!({"q": "Rome"}), &json!({"sky": "grey"}), "It is rainy today.");
    let told = told(&a, &b.clone().done());
    assert_eq!(
        told.into_iter().map(|(at, path, ..)| (at, path)).collect::<Vec<_>>(),
        [
            (0, "/input/messages/0/parts/0/content".to_owned()),
            (0, "/output/messages/0/parts/0/arguments/q".to_owned()),
            (1, "/tool/arguments/q".to_owned()),
            (1, "/tool/result/sky".to_owned()),
            (2, "/output/messages/0/parts/0/content".to_owned()),
        ]
    );
    let diff = diff(&a, &b.done());
    assert_eq!(diff.steps.iter().map(|step| step.inherited).collect::<Vec<_>>(), [0, 0, 3]);
}

#[test]
fn a_message_that_came_in_is_told_by_every_later_step() {
    let talk = |salt: u64, extra: bool| {
        let mut history = vec![says("user", "hello there")];
        let mut built = build(salt);
        for n in 0..6 {
            let answer = says("assistant", &format!("answer number {n}"));
            built = built.chat(&history, answer.clone());
            history.extend([answer, says("user", &format!("question number {n}"))]);
            if n == 2 && extra {
                history.push(says("user", "and be quick"));
            }
        }
        built.done()
    };
    let diff = diff(&talk(0, false), &talk(1, true));
    let changed: Vec<_> = diff.steps.iter().map(|step| (step.changes.len(), step.inherited)).collect();
    assert_eq!(changed, [(0, 0), (0, 0), (0, 0), (1, 0), (0, 1), (0, 1)]);
    assert_eq!(diff.steps[3].changes[0].path, "/input/messages/7");
    assert_eq!(steps(&diff)[4].0, StepOp::Same);
}

#[test]
fn the_same_instructions_are_told_by_every_step() {
    let run = |salt: u64, system: &str| {
        let ask = |built: Build, n: u32| {
            built
                .chat(&[says("user", &format!("question {n}"))], says("assistant", &format!("answer {n}")))
                .with(|step| step.system_instructions = vec![Part::text(system)])
        };
        (0..4).fold(build(salt), ask).done()
    };
    let diff = diff(&run(0, "Be kind."), &run(1, "Be brief."));
    let changed: Vec<_> = diff.steps.iter().map(|step| (step.changes.len(), step.inherited)).collect();
    assert_eq!(changed, [(1, 0), (0, 1), (0, 1), (0, 1)]);
}

#[test]
fn an_id_in_a_result_makes_a_difference() {
    let run = |salt: u64| {
        let built = build(salt);
        let id = format!("call_0123456789_{salt}");
        let said = json!({"tool_call_id": id, "text": format!("answers {id}"), "n": 1});
        let result = answers(&id, said.clone());
        built
            .chat(&[says("user", "go")], asks(&id, "t", json!({})))
            .tool("t", json!({}), said)
            .with(|step| step.tool_call_id = Some(id.clone()))
            .chat(&[says("user", "go"), result], says("assistant", &format!("done, see {id}")))
            .done()
    };
    let diff = diff(&run(1), &run(2));
    assert!(diff.same, "{:#?}", diff.steps);
}

#[test]
fn a_part_of_another_type_is_told_by_its_members() {
    let run = |salt: u64, parts: Vec<Part>| {
        let output = Message { role: "assistant".into(), parts, ..Message::default() };
        build(salt).chat(&[says("user", "go")], output).done()
    };
    let (text, call) = (Part::text("a"), Part::tool_call(None, "t", Some(json!({}))));
    let told = told(&run(0, vec![text]), &run(1, vec![call]));
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].1, "/output/messages/0/parts/0");
}

#[test]
fn a_step_that_one_run_has_shifts_all_others() {
    let call = |built: Build, n: u32| built.tool("search", json!({"q": n}), json!({"hits": n}));
    let a = (0..6).fold(build(0), call).done();
    let b = (0..6).fold(build(1), |built, n| {
        let built = call(built, n);
        if n == 2 { built.tool("fetch", json!({"url": "x"}), json!("page")) } else { built }
    });
    let diff = diff(&a, &b.done());
    assert_eq!(diff.summary, Summary { same: 6, only_in_b: 1, ..Summary::default() });
    assert_eq!(steps(&diff)[3], (StepOp::OnlyInB, None, Some(3)));
}

#[test]
fn a_renamed_tool_is_a_step_less_and_a_step_more() {
    let run = |salt, name: &str, query: &str| {
        build(salt).tool("first", json!(1), json!(1)).tool(name, json!({"q": query}), json!([query])).done()
    };
    let renamed = diff(&run(0, "search", "shoes"), &run(1, "find", "shoes"));
    assert_eq!(renamed.summary.areas, [("name", 1)].into());
    let other = diff(&run(0, "search", "shoes"), &run(1, "pay", "now"));
    assert_eq!((other.summary.only_in_a, other.summary.only_in_b), (1, 1));
}

/// Scenario: three calls at once, in another order, one of them with another result; then the same calls one by one.
/// Guarantee: their order is no difference as long as one of the runs had none.
#[test]
fn calls_at_the_same_time_differ_by_their_order() {
    let calls = |salt: u64, order: [u32; 3], third: &str| {
        order.iter().fold(weather(salt), |built, n| {
            let result = if *n == 2 { third } else { "fine" };
            built.tool("book", json!({"day": n}), json!({"said": result, "day": n}))
        })
    };
    let a = calls(0, [0, 1, 2], "fine").parallel(3, 0).done();
    assert!(diff(&a, &calls(1, [2, 0, 1], "fine").parallel(3, 0).done()).same);
    assert!(diff(&a, &calls(1, [2, 0, 1], "fine").done()).same);
    assert!(diff(&calls(1, [1, 0, 2], "fine").done(), &a).same);
    let changed = told(&a, &calls(1, [2, 0, 1], "full").parallel(3, 4).done());
    assert_eq!(changed, one(5, "/tool/result/said", json!("fine"), json!("full")));
    // One by one in both, the order is what the agent chose.
    assert!(!diff(&calls(0, [0, 1, 2], "fine").done(), &calls(1, [2, 0, 1], "fine").done()).same);
}

#[test]
fn an_empty_run_has_no_difference() {
    let (empty, full) = (build(0).done(), weather(1).done());
    assert!(diff(&empty, &empty).same);
    assert_eq!(diff(&empty, &full).summary.only_in_b, 3);
    assert_eq!(diff(&full, &empty).summary.only_in_a, 3);
}

#[test]
fn a_place_is_called_by_no_word() {
    for path in ["/model", "/input/messages/0", "/input/state", "/tool/result/x", "/finish_reasons/0"] {
        assert_ne!(area(path), "step");
    }
    assert_eq!(area("/input/system_instructions/0"), "instructions");
}

/// Scenario: runs of 2,100 steps that share nothing, little, all in another order, or all but a shift.
/// Guarantee: the comparison ends soon, and tells every step once.
#[test]
fn long_runs_hang_the_comparison() {
    const STEPS: u32 = 2_100;
    let run = |salt: u64, content: &dyn Fn(u32) -> u32| {
        let call = |built: Build, n: u32| {
            built.tool(["search", "fetch", "pay"][n as usize % 3], json!({"q": content(n)}), json!(n % 7))
        };
        (0..STEPS).fold(build(salt), call)
    };
    let all = [
        run(0, &|n| n),
        run(1, &|n| n + STEPS),
        run(2, &|n| STEPS - n),
        run(3, &|n| n % 5),
        run(4, &|n| n.wrapping_mul(7_919) % STEPS),
        run(5, &|n| n % 11).parallel(STEPS as usize, 0),
        run(6, &|n| n).parallel(STEPS as usize, 0),
    ]
    .map(Build::done);
    assert!(diff(&all[0], &all[6]).same);
    let begun = Instant::now();
    for b in &all {
        let diff = diff(&all[0], b);
        let told = |side: &dyn Fn(&StepDiff) -> Option<u32>| {
            let mut told: Vec<u32> = diff.steps.iter().filter_map(side).collect();
            told.sort_unstable();
            told
        };
        assert!(
            told(&|step| step.a).into_iter().eq(0..STEPS) && told(&|step| step.b).into_iter().eq(0..STEPS)
        );
    }
    assert!(begun.elapsed() < Duration::from_secs(120), "{:?}", begun.elapsed());
}
