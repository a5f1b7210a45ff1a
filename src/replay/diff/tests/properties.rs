//! What holds of any two runs.

use proptest::{collection::vec, prelude::*};

use super::*;

/// What a step is made of; few values, so that much is alike.
#[derive(Clone, Debug)]
struct Any {
    chat: bool,
    name: u8,
    text: String,
    history: u8,
    tokens: u64,
    group: Option<u32>,
    /// How many steps up its parent is, 0 for none.
    parent: u32,
}

fn any_step() -> impl Strategy<Value = Any> {
    let text = prop_oneof![4 => "[ab]{0,2}", 2 => "[ab ]{0,12}", 1 => "\\PC{0,20}", 1 => ".{0,20}"];
    let place = (prop::option::weighted(0.5, 0_u32..3), prop_oneof![3 => Just(0_u32), 1 => 1_u32..4]);
    (any::<bool>(), 0_u8..3, text, 0_u8..5, prop_oneof![4 => Just(1_u64), 1 => 1_u64..4], place).prop_map(
        |(chat, name, text, history, tokens, (group, parent))| Any {
            chat,
            name,
            text,
            history,
            tokens,
            group,
            parent,
        },
    )
}

fn run(salt: u64, steps: &[Any]) -> Run {
    let mut history: Vec<Message> = Vec::new();
    let mut built = build(salt);
    for step in steps {
        built = if step.chat {
            let from = history.len().saturating_sub(usize::from(step.history));
            let answer = says("assistant", &step.text);
            let built = built.chat(&history[from..], answer.clone());
            history.extend([answer, says("user", &step.text)]);
            built
        } else {
            let name = ["search", "fetch", "pay"][usize::from(step.name)];
            let result = json!({"said": step.text, "n": step.tokens});
            history.push(answers(&built.id(0), result.clone()));
            built.tool(name, json!({"q": step.text, "n": step.name}), result)
        };
        built = built.with(|made| {
            made.usage.output_tokens = Some(step.tokens);
            made.parallel_group = step.group;
            made.parent_index = (step.parent > 0).then(|| made.index.checked_sub(step.parent)).flatten();
        });
    }
    built.done()
}

/// The run, which has no nested steps, with the steps of each parallel group that stand beside each other in another
/// order.
fn shuffled(run: &Run, turns: usize) -> Run {
    let mut shuffled = run.clone();
    let beside = |a: &Step, b: &Step| a.parallel_group.is_some() && a.parallel_group == b.parallel_group;
    for beside in shuffled.steps.chunk_by_mut(beside) {
        let by = turns % beside.len();
        beside.rotate_left(by);
    }
    for (step, index) in shuffled.steps.iter_mut().zip(0..) {
        step.index = index;
    }
    shuffled
}

fn mirrored(diff: Diff) -> Diff {
    let (a, b) = (diff.b, diff.a);
    let steps = reversed(diff.steps);
    let summary = Summary::of(&steps);
    Diff { a, b, steps, summary, changes: json::reversed(diff.changes), ..diff }
}

/// Without the places of steps and the names that the second run gives.
fn placeless(mut diff: Diff) -> Value {
    for step in &mut diff.steps {
        (step.a, step.b, step.duration_ms) = (None, None, None);
        step.name.clear();
    }
    json!(diff)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_run_differs_from_itself(steps in vec(any_step(), 0..30)) {
        let all = diff(&run(0, &steps), &run(3, &steps));
        assert!(all.same, "{all:#?}");
        assert_eq!(all.summary.same as usize, steps.len());
        assert!(all.steps.iter().all(|step| step.inherited == 0));
    }

    #[test]
    fn the_way_back_is_another(a in vec(any_step(), 0..25), b in vec(any_step(), 0..25)) {
        let (a, b) = (run(0, &a), run(1, &b));
        let (there, back) = (diff(&a, &b), diff(&b, &a));
        let mut mirrored = mirrored(back);
        for (step, there) in mirrored.steps.iter_mut().zip(&there.steps) {
            step.name.clone_from(&there.name);
        }
        assert_eq!(mirrored, there);
    }

    #[test]
    fn the_order_of_a_parallel_group_makes_a_difference(
        mut a in vec(any_step(), 0..25), mut b in vec(any_step(), 0..25), turns in 1_usize..5,
    ) {
        a.iter_mut().chain(&mut b).for_each(|step| step.parent = 0);
        let (a, b) = (run(0, &a), run(1, &b));
        assert!(diff(&a, &shuffled(&a, turns)).same);
        assert_eq!(placeless(diff(&a, &b)), placeless(diff(&a, &shuffled(&b, turns))));
    }

    #[test]
    fn a_step_is_told_twice_or_not_at_all(a in vec(any_step(), 0..25), b in vec(any_step(), 0..25)) {
        let (a, b) = (run(0, &a), run(1, &b));
        let diff = diff(&a, &b);
        let places = |side: &dyn Fn(&StepDiff) -> Option<u32>| {
            let mut all: Vec<u32> = diff.steps.iter().filter_map(side).collect();
            all.sort_unstable();
            all
        };
        let indexes = |run: &Run| run.steps.iter().map(|step| step.index).collect::<Vec<_>>();
        assert_eq!(places(&|step| step.a), indexes(&a));
        assert_eq!(places(&|step| step.b), indexes(&b));
        assert!(!diff.same || diff.steps.iter().all(|step| step.inherited == 0));
        // Every change is what the documents say.
        let _ = told(&a, &b);
    }
}
