//! `spanreel runs`.

use std::io::Write;

use clap::Args;
use serde_json::Value;

use super::{
    Failure,
    failure::exit,
    source::Place,
    text::{member, seconds, table},
    write_json,
};
use crate::store::RunFilter;

#[derive(Args, Debug)]
pub(super) struct Arguments {
    #[command(flatten)]
    place: Place,
    /// Only runs with this filter, as in the API: NAME=VALUE (status, agent, model, tool, conversation, ...)
    #[arg(long = "filter", short = 'f', value_name = "NAME=VALUE")]
    filters: Vec<String>,
    /// At most this many
    #[arg(long, default_value_t = usize::MAX, hide_default_value = true)]
    limit: usize,
    /// A JSON array of rows
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: Arguments, out: &mut dyn Write) -> Result<u8, Failure> {
    let rows = arguments.place.open()?.runs(&filter(&arguments.filters)?, arguments.limit)?;
    if arguments.json {
        write_json(out, &Value::Array(rows))?;
        return Ok(exit::DONE);
    }
    let lines: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            vec![
                member(row, "run_id"),
                seconds(&member(row, "started_at")),
                member(row, "status"),
                member(row, "replayability"),
                step_count(row),
            ]
        })
        .collect();
    table(out, &["RUN", "STARTED", "STATUS", "REPLAY", "STEPS"], &[32, 19, 11, 8, 5], &lines)?;
    Ok(exit::DONE)
}

fn filter(given: &[String]) -> Result<RunFilter, Failure> {
    let mut members = serde_json::Map::new();
    for one in given {
        let usage = || Failure::new(exit::USAGE, format!("--filter {one:?} is not NAME=VALUE"));
        let (name, value) = one.split_once('=').ok_or_else(usage)?;
        let _ = members.insert(name.into(), value.into());
    }
    serde_json::from_value(Value::Object(members))
        .map_err(|error| Failure::new(exit::USAGE, format!("--filter: {error}")))
}

/// The number of steps: the sum over the kinds.
fn step_count(row: &Value) -> String {
    match row.get("steps").or_else(|| row.get("steps_by_kind")) {
        Some(Value::Object(kinds)) => kinds.values().filter_map(Value::as_u64).sum::<u64>().to_string(),
        Some(Value::Number(count)) => count.to_string(),
        _ => "-".into(),
    }
}
