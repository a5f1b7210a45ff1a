//! `spanreel sql QUERY`: a read-only query over the tables of a tenant.

use std::io::{self, Write};

use clap::{Args, ValueEnum};
use serde_json::Value;

use super::{
    Failure,
    failure::exit,
    source::Place,
    text::{count, fitted, member, width},
    write_json,
};

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// One SELECT over spans, run_steps, messages, runs, checkpoints
    query: String,
    #[command(flatten)]
    place: Place,
    /// How to write the rows
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Table,
    Csv,
    /// A JSON array of objects
    Json,
}

pub(super) fn run(arguments: Arguments, out: &mut dyn Write) -> Result<u8, Failure> {
    let mut answer = arguments.place.open()?.sql(&arguments.query)?;
    let truncated = answer.get("truncated") == Some(&Value::Bool(true));
    let columns: Vec<String> =
        serde_json::from_value(answer.get("columns").cloned().unwrap_or_default()).unwrap_or_default();
    let rows = answer.get_mut("rows").map(Value::take).unwrap_or_default();
    match arguments.format {
        Format::Json => write_json(out, &rows)?,
        Format::Csv => csv(&columns, &rows, out)?,
        Format::Table => {
            let head: Vec<&str> = columns.iter().map(String::as_str).collect();
            let rows = rows.as_array().map(Vec::as_slice).unwrap_or_default();
            let cells: Vec<Vec<String>> =
                rows.iter().map(|row| columns.iter().map(|c| member(row, c)).collect()).collect();
            fitted(out, &head, &cells, width())?;
            writeln!(out, "({})", count(rows.len() as u64, "row"))?;
        }
    }
    if truncated {
        eprintln!("the answer was cut; narrow the query, or read the tables with an engine of your own");
    }
    Ok(exit::DONE)
}

/// RFC 4180; what is absent is empty.
fn csv(columns: &[String], rows: &Value, out: &mut dyn Write) -> io::Result<()> {
    let quoted = |text: &str| {
        if text.contains(['"', ',', '\n', '\r']) {
            format!("\"{}\"", text.replace('"', "\"\""))
        } else {
            text.to_owned()
        }
    };
    let line = |cells: Vec<String>| cells.iter().map(|cell| quoted(cell)).collect::<Vec<_>>().join(",");
    writeln!(out, "{}", line(columns.to_vec()))?;
    for row in rows.as_array().into_iter().flatten() {
        let text = |column: &String| match row.get(column) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        writeln!(out, "{}", line(columns.iter().map(text).collect()))?;
    }
    Ok(())
}
