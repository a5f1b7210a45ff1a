//! `spanreel steps RUN`: the ordered steps, with the verdict.

use std::io::{self, Write};

use clap::Args;
use serde_json::Value;

use super::{
    Failure,
    failure::exit,
    source::Place,
    text::{clean, duration, member, table, wrap},
    write_json,
};

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// Run id, or an alias of it
    run: String,
    #[command(flatten)]
    place: Place,
    /// A JSON array of steps
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: Arguments, out: &mut dyn Write) -> Result<u8, Failure> {
    let mut document = arguments.place.open()?.replay(&arguments.run)?;
    if arguments.json {
        write_json(out, &document.get_mut("steps").map(Value::take).unwrap_or_default())?;
    } else {
        show(&document, out)?;
    }
    Ok(exit::DONE)
}

/// Writes a replay document as a table of steps, and the verdict below it.
pub(super) fn show(document: &Value, out: &mut dyn Write) -> io::Result<()> {
    let time = duration(document.get("duration_ms").and_then(Value::as_f64));
    writeln!(out, "run {}  {}  {time}", member(document, "run_id"), member(document, "status"))?;
    let steps = document.get("steps").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let rows: Vec<Vec<String>> = steps.iter().map(row).collect();
    table(
        out,
        &["#", "KIND", "NAME", "TIME", "STATUS", "TOKENS", "AGENT"],
        &[4, 11, 26, 10, 11, 11, 30],
        &rows,
    )?;
    verdict(document, out)
}

fn verdict(document: &Value, out: &mut dyn Write) -> io::Result<()> {
    let so_far =
        if member(document, "status") == "running" { " so far; the run has not settled" } else { "" };
    writeln!(out, "replayability: {}{so_far}", member(document, "replayability"))?;
    for (name, mark) in [("partial_reasons", "reason"), ("notes", "note")] {
        for item in document.get(name).and_then(Value::as_array).into_iter().flatten() {
            let at = item.get("step_index").and_then(Value::as_u64);
            let at = at.map(|index| format!(" (step {index})")).unwrap_or_default();
            let line = format!("{mark} {}{at}: {}", member(item, "code"), member(item, "detail"));
            writeln!(out, "  {}", wrap(&line, 4))?;
        }
    }
    Ok(())
}

fn row(step: &Value) -> Vec<String> {
    let tokens = |name: &str| step.pointer(&format!("/usage/{name}")).and_then(Value::as_u64);
    let tokens = match (tokens("input_tokens"), tokens("output_tokens")) {
        (None, None) => String::new(),
        (input, output) => format!("{}+{}", input.unwrap_or_default(), output.unwrap_or_default()),
    };
    let agent = step.get("agent_path").and_then(Value::as_array).and_then(|path| path.last());
    let mark = if step.get("inferred") == Some(&Value::Bool(true)) { " (inferred)" } else { "" };
    vec![
        member(step, "index"),
        member(step, "kind"),
        format!("{}{mark}", member(step, "name")),
        duration(step.get("duration_ms").and_then(Value::as_f64)),
        member(step, "status"),
        tokens,
        agent.and_then(Value::as_str).map(clean).unwrap_or_default(),
    ]
}
