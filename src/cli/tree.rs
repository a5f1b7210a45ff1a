//! `spanreel tree RUN`: every span, frames and superseded spans included.

use std::{
    collections::HashMap,
    io::{self, Write},
};

use clap::Args;
use serde_json::Value;

use super::{
    Failure,
    failure::exit,
    source::Place,
    text::{WIDTH, clean, cut, member},
    write_json,
};

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// Run id, or an alias of it
    run: String,
    #[command(flatten)]
    place: Place,
    /// The tree document
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: Arguments, out: &mut dyn Write) -> Result<u8, Failure> {
    let document = arguments.place.open()?.tree(&arguments.run)?;
    if arguments.json {
        write_json(out, &document)?;
        return Ok(exit::DONE);
    }
    let roots = document.get("spans").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let walk = walk(roots);
    let steps: HashMap<String, u64> = walk
        .iter()
        .filter_map(|(_, span)| Some((member(span, "span_id"), span.get("step_index")?.as_u64()?)))
        .collect();
    writeln!(out, "run {}  {} spans", member(&document, "run_id"), walk.len())?;
    for (depth, span) in walk {
        line(depth, span, &steps, out)?;
    }
    Ok(exit::DONE)
}

/// All spans with their depth, parents first. A stack, not recursion: spans may be nested as deep as a sender likes.
fn walk(roots: &[Value]) -> Vec<(usize, &Value)> {
    let mut stack: Vec<(usize, &Value)> = roots.iter().rev().map(|span| (0, span)).collect();
    let mut walk = Vec::new();
    while let Some((depth, span)) = stack.pop() {
        walk.push((depth, span));
        let children = span.get("children").and_then(Value::as_array).into_iter().flatten();
        stack.extend(children.rev().map(|child| (depth + 1, child)));
    }
    walk
}

fn line(depth: usize, span: &Value, steps: &HashMap<String, u64>, out: &mut dyn Write) -> io::Result<()> {
    let step = span.get("step_index").and_then(Value::as_u64);
    let mark = match (step, span.get("superseded_by").and_then(Value::as_str)) {
        (Some(index), _) => format!(" #{index}"),
        (None, Some(by)) => match steps.get(by) {
            Some(index) => format!(" (same call as #{index})"),
            None => format!(" (same call as {})", clean(by)),
        },
        (None, None) => String::new(),
    };
    let indent = "  ".repeat(depth.min(20));
    writeln!(
        out,
        "{}",
        cut(&format!("{indent}{}{mark}  {}", member(span, "kind"), member(span, "name")), WIDTH)
    )
}
