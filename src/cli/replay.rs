//! `spanreel replay RUN`: what was said and done, in order.

use std::io::{self, Write};

use clap::Args;
use serde_json::Value;

use super::{Failure, failure::exit, source::Place, steps, text::clean, write_json};

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// Run id, or an alias of it
    run: String,
    #[command(flatten)]
    place: Place,
    /// The replay document
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: Arguments, out: &mut dyn Write) -> Result<u8, Failure> {
    let document = arguments.place.open()?.replay(&arguments.run)?;
    if arguments.json {
        write_json(out, &document)?;
        return Ok(exit::DONE);
    }
    for step in document.get("steps").and_then(Value::as_array).into_iter().flatten() {
        content(step, out)?;
    }
    steps::show(&document, out)?;
    Ok(exit::DONE)
}

/// What is new in a step: output of a model, arguments and result of a tool.
fn content(step: &Value, out: &mut dyn Write) -> io::Result<()> {
    let text = |name: &str| step.get(name).and_then(Value::as_str).map(clean).unwrap_or_default();
    writeln!(out, "#{} {} {}", step.get("index").unwrap_or(&Value::Null), text("kind"), text("name"))?;
    let mut say = |what: &str, value: &Value| -> io::Result<()> {
        match value {
            Value::Null => Ok(()),
            Value::String(said) => writeln!(out, "   {what}: {}", clean(said)),
            other => writeln!(out, "   {what}: {}", clean(&other.to_string())),
        }
    };
    let parts = step.pointer("/output/messages").and_then(Value::as_array).into_iter().flatten();
    for part in parts.flat_map(|m| m.get("parts").and_then(Value::as_array).into_iter().flatten()) {
        let kind = part.get("type").and_then(Value::as_str).unwrap_or_default();
        match kind {
            "text" | "reasoning" => say(kind, part.get("content").unwrap_or(&Value::Null))?,
            "tool_call" => {
                let name = part.get("name").and_then(Value::as_str).unwrap_or_default();
                say(&format!("calls {}", clean(name)), part.get("arguments").unwrap_or(&Value::Null))?;
            }
            _ => say(&clean(kind), part)?,
        }
    }
    for (at, what) in [("/tool/arguments", "arguments"), ("/tool/result", "result"), ("/error", "error")] {
        say(what, step.pointer(at).unwrap_or(&Value::Null))?;
    }
    Ok(())
}
