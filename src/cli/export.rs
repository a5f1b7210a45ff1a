//! `spanreel export`: what was received, as OTLP/JSON; or the steps, one a line.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use clap::{Args, ValueEnum};
use serde_json::Value;

use super::{
    Failure,
    failure::exit,
    source::{Place, Selection, Source},
};
use crate::store::RunFilter;

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// Run ids
    #[arg(required_unless_present_any = ["all", "trace"])]
    runs: Vec<String>,
    /// Everything of the tenant
    #[arg(long, conflicts_with_all = ["runs", "trace"])]
    all: bool,
    /// One trace, whether or not it holds a run
    #[arg(long, value_name = "T", conflicts_with = "runs")]
    trace: Option<String>,
    /// What to write
    #[arg(long, value_enum, default_value = "otlp")]
    format: Format,
    /// File to write; - is standard output
    #[arg(short, long, value_name = "PATH", default_value = "-")]
    output: PathBuf,
    #[command(flatten)]
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One OTLP/JSON request a line, as it was received
    Otlp,
    /// One step a line
    Jsonl,
}

pub(super) fn run(arguments: Arguments, out: &mut dyn Write) -> Result<u8, Failure> {
    let source = arguments.place.open()?;
    let text = match arguments.format {
        Format::Otlp => otlp(&arguments, &*source)?,
        Format::Jsonl => steps(&arguments, &*source)?,
    };
    if arguments.output == Path::new("-") {
        out.write_all(text.as_bytes())?;
    } else {
        let failed = |error| {
            Failure::new(exit::INTERNAL, format!("cannot write {}: {error}", arguments.output.display()))
        };
        fs::write(&arguments.output, text).map_err(failed)?;
    }
    Ok(exit::DONE)
}

fn otlp(arguments: &Arguments, source: &dyn Source) -> Result<String, Failure> {
    if arguments.all {
        return source.otlp(&Selection::All);
    }
    if let Some(trace) = &arguments.trace {
        return source.otlp(&Selection::Trace(trace.clone()));
    }
    arguments.runs.iter().map(|run| source.otlp(&Selection::Run(run.clone()))).collect()
}

fn steps(arguments: &Arguments, source: &dyn Source) -> Result<String, Failure> {
    if arguments.trace.is_some() {
        return Err(Failure::new(exit::USAGE, "--trace goes with --format otlp; steps belong to a run"));
    }
    let runs = if arguments.all {
        let rows = source.runs(&RunFilter::default(), usize::MAX)?;
        rows.iter().filter_map(|row| row.get("run_id")?.as_str().map(str::to_owned)).collect()
    } else {
        arguments.runs.clone()
    };
    let mut text = String::new();
    for id in runs {
        let mut document = source.replay(&id)?;
        let Some(Value::Array(steps)) = document.get_mut("steps").map(Value::take) else { continue };
        for mut step in steps {
            if let Value::Object(members) = &mut step {
                let _ = members.insert("run_id".into(), document.get("run_id").cloned().unwrap_or_default());
            }
            text.push_str(&format!("{step}\n"));
        }
    }
    Ok(text)
}
