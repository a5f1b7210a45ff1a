//! `spanreel runs`.

use std::io::Write;

use clap::Args;
use serde_json::Value;

use super::{
    Failure,
    failure::exit,
    source::Place,
    text::{member, minutes, table},
    write_json,
};
use crate::store::RunFilter;

#[derive(Args, Debug)]
pub(super) struct Arguments {
    #[command(flatten)]
    place: Place,
    /// Only runs with this filter, as in the API: NAME=VALUE; names are status, replayability, agent, model, tool,
    /// conversation, from, to (2026-11-30 or 2026-11-30T09:00:00Z), q (part of an id or a name)
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
                minutes(&member(row, "started_at")),
                member(row, "status"),
                member(row, "replayability"),
                step_count(row),
                words(row),
            ]
        })
        .collect();
    if lines.is_empty() {
        eprintln!("no runs match; `spanreel import PATH` or an OpenTelemetry exporter brings some");
    }
    // A run id is never cut: it is what the next command needs.
    table(out, &["RUN", "STARTED UTC", "STATUS", "REPLAY", "N", "AGENTS"], &[256, 11, 11, 8, 5, 40], &lines)?;
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

/// What tells a run from others: its agents, else its services.
fn words(row: &Value) -> String {
    let list = |name: &str| -> Vec<&str> {
        row.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
    };
    let (agents, services) = (list("agents"), list("service_names"));
    if agents.is_empty() { services.join(", ") } else { agents.join(", ") }
}

/// The number of steps: the sum over the kinds.
fn step_count(row: &Value) -> String {
    match row.get("steps").or_else(|| row.get("steps_by_kind")) {
        Some(Value::Object(kinds)) => kinds.values().filter_map(Value::as_u64).sum::<u64>().to_string(),
        Some(Value::Number(count)) => count.to_string(),
        _ => "-".into(),
    }
}
