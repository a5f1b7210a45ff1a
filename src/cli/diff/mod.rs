//! `spanreel diff RUN_A RUN_B`: what differs, step by step and word by word.

mod words;

use std::io::{self, Write};

use clap::Args;
use serde_json::Value;

use super::{
    Failure,
    failure::exit,
    source::Place,
    text::{WIDTH, clean, count, cut, duration, member, table, wrap},
    write_json,
};
use words::Paint;

/// Blanks before what belongs to a step.
const INDENT: usize = 4;

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// First run: its id, or an alias of it
    run_a: String,
    /// Second run
    run_b: String,
    #[command(flatten)]
    place: Place,
    /// The document that the API gives
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: Arguments, out: &mut dyn Write) -> Result<u8, Failure> {
    let document = arguments.place.open()?.diff(&arguments.run_a, &arguments.run_b)?;
    if arguments.json {
        write_json(out, &document)?;
    } else {
        show(&document, Paint::of_terminal(), out)?;
    }
    let same = document.get("same") == Some(&Value::Bool(true));
    Ok(if same { exit::DONE } else { exit::REFUSED })
}

fn show(document: &Value, paint: Paint, out: &mut dyn Write) -> io::Result<()> {
    let sides = ["a", "b"].map(|name| side(name, document.get(name).unwrap_or(&Value::Null)));
    table(out, &["", "STATUS", "STEPS", "TIME", "TOKENS", "RUN"], &[1, 11, 6, 12, 15, WIDTH], &sides)?;
    writeln!(out, "{}", wrap(&glance(document), 2))?;
    if let Some(changes) = list(document, "changes").filter(|changes| !changes.is_empty()) {
        writeln!(out, "\nthe run")?;
        changes.iter().try_for_each(|change| show_change(change, paint, out))?;
    }
    let steps = list(document, "steps").unwrap_or_default();
    writeln!(out)?;
    for group in steps.chunk_by(|one, next| is_same(one) && is_same(next)) {
        match group {
            [first, ..] if is_same(first) => writeln!(out, "  {}", collapsed(group))?,
            group => group.iter().try_for_each(|step| show_step(step, paint, out))?,
        }
    }
    Ok(())
}

fn side(name: &str, side: &Value) -> Vec<String> {
    vec![
        name.to_owned(),
        member(side, "status"),
        member(side, "steps"),
        duration(side.get("duration_ms").and_then(Value::as_f64)),
        tokens(side.get("usage")),
        member(side, "run_id"),
    ]
}

/// `812+96`: input and output.
fn tokens(usage: Option<&Value>) -> String {
    let count = |name: &str| usage?.get(name)?.as_u64();
    match (count("input_tokens"), count("output_tokens")) {
        (None, None) => "-".into(),
        (input, output) => format!("{}+{}", input.unwrap_or_default(), output.unwrap_or_default()),
    }
}

fn glance(document: &Value) -> String {
    let number = |name: &str| {
        document.pointer(&format!("/summary/{name}")).and_then(Value::as_u64).unwrap_or_default()
    };
    let same = count(number("same"), "step");
    if document.get("same") == Some(&Value::Bool(true)) {
        return format!("nothing differs but ids and times; {same} the same");
    }
    let mut all = Vec::new();
    if list(document, "changes").is_some_and(|changes| !changes.is_empty()) {
        all.push("the run ended otherwise".to_owned());
    }
    let areas = document.pointer("/summary/areas").and_then(Value::as_object);
    let areas: Vec<String> =
        areas.into_iter().flatten().map(|(area, steps)| format!("{area} {steps}")).collect();
    for (name, what) in [("changed", "changed"), ("only_in_a", "only in a"), ("only_in_b", "only in b")] {
        let areas = if name == "changed" { format!(" ({})", areas.join(", ")) } else { String::new() };
        if number(name) > 0 {
            all.push(format!("{} {what}{areas}", count(number(name), "step")));
        }
    }
    format!("differs: {}; {same} the same", all.join(", "))
}

fn collapsed(steps: &[Value]) -> String {
    let repeats = steps.iter().any(|step| step.get("inherited").is_some());
    let but = if repeats { ", but for changes above that they repeat" } else { "" };
    format!("{} the same{but}", count(steps.len() as u64, "step"))
}

fn show_step(step: &Value, paint: Paint, out: &mut dyn Write) -> io::Result<()> {
    let index = |side: &str| step.get(side).and_then(Value::as_u64);
    let what = format!("{} {}", member(step, "kind"), member(step, "name"));
    let line = match (index("a"), index("b")) {
        (Some(a), Some(b)) if a == b => format!("#{a} {what}"),
        (Some(a), Some(b)) => format!("#{a} in a, #{b} in b: {what}"),
        (Some(a), None) => format!("- #{a} only in a: {what}"),
        (None, b) => format!("+ #{} only in b: {what}", b.unwrap_or_default()),
    };
    writeln!(out, "{}", paint.line(&cut(&line, WIDTH)))?;
    for change in list(step, "changes").unwrap_or_default() {
        show_change(change, paint, out)?;
    }
    if let Some(sides) = step.get("tokens") {
        let both = [sides.get("before"), sides.get("after")].map(tokens);
        let [before, after] = &both;
        let line = if before == after { cost(sides) } else { format!("tokens: {before} -> {after}") };
        writeln!(out, "{:INDENT$}{}", "", cut(&line, WIDTH - INDENT))?;
    }
    if let Some(sides) = step.get("duration_ms") {
        let [before, after] =
            ["before", "after"].map(|side| duration(sides.get(side).and_then(Value::as_f64)));
        if before != after {
            writeln!(out, "{:INDENT$}time: {before} -> {after}", "")?;
        }
    }
    if let Some(inherited) = step.get("inherited").and_then(Value::as_u64) {
        writeln!(out, "{:INDENT$}repeats {} of steps above", "", count(inherited, "change"))?;
    }
    Ok(())
}

/// Counts beside input and output, and cost.
fn cost(sides: &Value) -> String {
    let members = |side: &str| sides.get(side).and_then(Value::as_object);
    let differs = |name: &&String| {
        members("before").and_then(|m| m.get(*name)) != members("after").and_then(|m| m.get(*name))
    };
    let names = members("before").or(members("after")).into_iter().flat_map(|m| m.keys());
    let side = |side: &str, name: &str| member(sides.get(side).unwrap_or(&Value::Null), name);
    let all = names.filter(differs).map(|name| {
        format!("{}: {} -> {}", name.replace('_', " "), side("before", name), side("after", name))
    });
    all.collect::<Vec<_>>().join(", ")
}

fn show_change(change: &Value, paint: Paint, out: &mut dyn Write) -> io::Result<()> {
    let path = change.get("path").and_then(Value::as_str).unwrap_or_default();
    writeln!(out, "{:INDENT$}{}", "", cut(path.trim_start_matches('/'), WIDTH - INDENT))?;
    if let Some(words) = list(change, "words") {
        return words::show(words, paint, out);
    }
    for (side, op) in [("before", words::DELETE), ("after", words::INSERT)] {
        if let Some(value) = change.get(side) {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            words::show_whole(op, &clean(&text), paint, out)?;
        }
    }
    Ok(())
}

fn is_same(step: &Value) -> bool {
    step.get("op").and_then(Value::as_str) == Some("same")
}

fn list<'a>(value: &'a Value, name: &str) -> Option<&'a [Value]> {
    value.get(name).and_then(Value::as_array).map(Vec::as_slice)
}

#[cfg(test)]
mod tests;
