//! `spanreel tree RUN`: every span, frames and superseded spans included.

use std::io::{self, Write};

use clap::Args;
use serde_json::Value;

use super::{
    Failure,
    failure::exit,
    source::Place,
    text::{cut, member},
    write_json,
};

/// Characters of a line.
const WIDTH: usize = 80;

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
    // A stack, not recursion: spans may be nested as deep as a sender likes.
    let roots = document.get("spans").and_then(Value::as_array).into_iter().flatten();
    let mut stack: Vec<(usize, &Value)> = roots.rev().map(|span| (0, span)).collect();
    while let Some((depth, span)) = stack.pop() {
        line(depth, span, out)?;
        let children = span.get("children").and_then(Value::as_array).into_iter().flatten();
        stack.extend(children.rev().map(|child| (depth + 1, child)));
    }
    Ok(exit::DONE)
}

fn line(depth: usize, span: &Value, out: &mut dyn Write) -> io::Result<()> {
    let step = span.get("step_index").and_then(Value::as_u64);
    let mark = match (step, span.get("superseded_by").and_then(Value::as_str)) {
        (Some(index), _) => format!(" #{index}"),
        (None, Some(by)) => format!(" (same call as {by})"),
        (None, None) => String::new(),
    };
    let indent = "  ".repeat(depth.min(20));
    writeln!(
        out,
        "{}",
        cut(&format!("{indent}{}{mark}  {}", member(span, "kind"), member(span, "name")), WIDTH)
    )
}
