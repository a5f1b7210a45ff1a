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
use crate::{
    replay::{fixture, redact},
    store::RunFilter,
};

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
    /// Leave content in a fixture as it was recorded; without it, secrets and personal data are masked
    #[arg(long)]
    raw: bool,
    /// File or folder to write; - is standard output
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
    /// A folder for a repository, which `simulate` takes in place of a run
    Fixture,
}

pub(super) fn run(arguments: Arguments, out: &mut dyn Write) -> Result<u8, Failure> {
    let source = arguments.place.open()?;
    let text = match arguments.format {
        Format::Fixture => return fixture(&arguments, &*source),
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

/// One run, in a folder of its own.
fn fixture(arguments: &Arguments, source: &dyn Source) -> Result<u8, Failure> {
    let [run] = &*arguments.runs else {
        return Err(Failure::new(exit::USAGE, "--format fixture takes one run; a folder holds one"));
    };
    let folder = &arguments.output;
    if folder == Path::new("-") {
        return Err(Failure::new(exit::USAGE, "--format fixture writes a folder; give one with -o"));
    }
    let is_ours = fs::read_to_string(folder.join(fixture::MANIFEST))
        .is_ok_and(|text| serde_json::from_str::<fixture::Manifest>(&text).is_ok());
    if !is_ours && fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
        let said = format!("{} holds something else than a fixture; give an empty folder", folder.display());
        return Err(Failure::new(exit::USAGE, said));
    }
    let document = source.replay(run)?;
    let failed = |error| Failure::new(exit::INTERNAL, format!("cannot write {}: {error}", folder.display()));
    fs::create_dir_all(folder).map_err(failed)?;
    for (name, text) in fixture::files(&document, !arguments.raw) {
        fs::write(folder.join(name), text).map_err(failed)?;
    }
    eprintln!(
        "{}: {}",
        folder.display(),
        if arguments.raw {
            "content as recorded".to_owned()
        } else {
            format!("redacted by {}", redact::RULE_SET)
        }
    );
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
