//! `spanreel import`: takes what was saved.
//!
//! In a folder (read in the order of names) a file that is no telemetry is left out, and a line says so; it is a
//! refusal, and exit code 1, when the file was named on the command line or is called like telemetry (`.pb`,
//! `.jsonl`, `.otlp`). A file that is partly telemetry is a refusal too; its good requests are taken.

mod format;
mod target;
mod wire;

use std::{
    fs,
    io::{self, IsTerminal, Read, Write},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use prost::Message;

use super::{Failure, failure::exit, source::Place, text::count};
use crate::otlp::{Signal, json, scan::Limits};
use format::Request;
pub(super) use target::{Refusal, Target};

/// No count of what one file holds comes near.
const COUNT_MAX: usize = usize::MAX >> 1;
/// A file is read whole before it is decoded, so its size bounds what it holds; the log still bounds a frame.
pub(super) const LIMITS: Limits = Limits {
    request_bytes_max: COUNT_MAX,
    spans_max: COUNT_MAX,
    attributes_max: COUNT_MAX,
    events_max: COUNT_MAX,
};

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// Files and folders; - is standard input
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    place: Place,
}

/// A file to read.
struct File {
    path: PathBuf,
    /// It must be telemetry: it was named, or its name says so.
    wanted: bool,
}

#[derive(Default)]
struct Summary {
    spans: u64,
    logs: u64,
    known: u64,
    metrics: u64,
    refused: u64,
    left_out: u64,
    discarded: u64,
}

pub(super) fn run(arguments: Arguments, out: &mut dyn Write) -> Result<u8, Failure> {
    let files = files(&arguments.paths)?;
    let mut target = Target::open(&arguments.place)?;
    let bar = progress(files.len());
    let mut summary = Summary::default();
    for file in &files {
        bar.set_message(super::text::cut(&file.path.to_string_lossy(), 40));
        let taken = read(&file.path).and_then(|bytes| take(&bytes, &mut target, &mut summary));
        if let Err(problem) = taken {
            let line = format!("{}: {}", super::text::clean(&file.path.to_string_lossy()), problem.text);
            if file.wanted || problem.partly {
                summary.refused += 1;
                bar.suspend(|| eprintln!("refused {line}"));
            } else {
                summary.left_out += 1;
                bar.suspend(|| eprintln!("left out {line}"));
            }
            if let Some(failure) = problem.fatal {
                return Err(failure);
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    target.finish()?;
    writeln!(out, "{}", summary.line())?;
    Ok(if summary.refused == 0 { exit::DONE } else { exit::REFUSED })
}

impl Summary {
    fn line(&self) -> String {
        let taken = format!("{} and {} taken", count(self.spans, "span"), count(self.logs, "log record"));
        let mut parts = vec![taken];
        let mut add = |number: u64, said: String| parts.extend((number > 0).then_some(said));
        add(self.known, format!("{} already known", self.known));
        add(
            self.discarded,
            format!("{} without GenAI content discarded", count(self.discarded, "log record")),
        );
        add(self.metrics, format!("{} counted and discarded", count(self.metrics, "metric")));
        add(self.refused, format!("{} refused", count(self.refused, "file")));
        add(self.left_out, format!("{} left out", count(self.left_out, "other file")));
        parts.join(", ")
    }
}

/// Why a file was not taken whole.
struct Problem {
    text: String,
    /// Some of it is telemetry.
    partly: bool,
    /// The target failed: nothing more can be taken.
    fatal: Option<Failure>,
}

impl Problem {
    fn not_telemetry(text: impl Into<String>) -> Self {
        Self { text: text.into(), partly: false, fatal: None }
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        let text = failure.message().unwrap_or_default().to_owned();
        Self { text, partly: true, fatal: Some(failure) }
    }
}

/// Takes the requests of one file. A bad one among good ones is named, and the good ones are taken.
fn take(bytes: &[u8], target: &mut Target, summary: &mut Summary) -> Result<(), Problem> {
    let requests = format::requests(bytes).map_err(Problem::not_telemetry)?;
    let (mut good, mut bad) = (0_u64, Vec::new());
    for (number, request) in requests.iter().enumerate() {
        match add(request, target, summary) {
            Ok(None) => good += 1,
            Ok(Some(partly)) => {
                good += 1;
                bad.push((number + 1, partly));
            }
            Err(Refusal::Request(why)) => bad.push((number + 1, why)),
            Err(Refusal::Target(failure)) => return Err(failure.into()),
        }
    }
    match bad.first() {
        None => Ok(()),
        Some((_, why)) if good == 0 => Err(Problem::not_telemetry(why.clone())),
        Some((number, why)) => {
            let text =
                format!("{} of {} requests, the first is number {number}: {why}", bad.len(), requests.len());
            Err(Problem { text, partly: true, fatal: None })
        }
    }
}

fn add(request: &Request<'_>, target: &mut Target, summary: &mut Summary) -> Result<Option<String>, Refusal> {
    let (signal, bytes) = decode(request).map_err(Refusal::Request)?;
    if signal == Signal::Metrics {
        let request = ExportMetricsServiceRequest::decode(bytes)
            .map_err(|error| Refusal::Request(format!("not a whole export request: {error}")))?;
        summary.metrics += metrics(&request);
        return Ok(None);
    }
    let taken = target.take(signal, bytes)?;
    *(if signal == Signal::Traces { &mut summary.spans } else { &mut summary.logs }) += taken.new;
    summary.known += taken.known;
    summary.discarded += taken.discarded;
    Ok(taken.rejected)
}

fn metrics(request: &ExportMetricsServiceRequest) -> u64 {
    let scopes = request.resource_metrics.iter().flat_map(|resource| &resource.scope_metrics);
    scopes.map(|scope| scope.metrics.len() as u64).sum()
}

/// The signal of a request, and its bytes as protobuf. That of an OTLP/JSON object is the name of its one list.
fn decode(request: &Request<'_>) -> Result<(Signal, Bytes), String> {
    let text = match request {
        Request::Protobuf(signal, bytes) => return Ok((*signal, Bytes::copy_from_slice(bytes))),
        Request::Json(text) => text,
    };
    let object: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(text).map_err(|error| format!("is not JSON: {error}"))?;
    let has = |names: [&str; 2]| names.iter().any(|name| object.contains_key(*name));
    let signal = if has(["resourceSpans", "resource_spans"]) {
        Signal::Traces
    } else if has(["resourceLogs", "resource_logs"]) {
        Signal::Logs
    } else if has(["resourceMetrics", "resource_metrics"]) {
        return Ok((Signal::Metrics, Bytes::new()));
    } else {
        return Err(
            "is not OTLP: a JSON object without resourceSpans, resourceLogs or resourceMetrics".into()
        );
    };
    let (bytes, _) = json::to_protobuf(signal, text, &LIMITS).map_err(|error| error.to_string())?;
    Ok((signal, bytes))
}

fn read(path: &Path) -> Result<Vec<u8>, Problem> {
    let bytes = if path == Path::new("-") {
        let mut bytes = Vec::new();
        io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        fs::read(path)
    };
    let bytes = bytes.map_err(|error| Problem {
        partly: true,
        ..Problem::not_telemetry(format!("cannot be read: {error}"))
    })?;
    format::open(bytes).map_err(|text| Problem { partly: true, ..Problem::not_telemetry(text) })
}

/// The files at `paths`; those of a folder, and of folders in it, in the order of their names. Links are not followed
/// out of a folder.
fn files(paths: &[PathBuf]) -> Result<Vec<File>, Failure> {
    let mut all = Vec::new();
    for path in paths {
        if path == Path::new("-") || path.is_file() {
            all.push(File { path: path.clone(), wanted: true });
        } else if path.is_dir() {
            walk(path, &mut all)?;
        } else {
            return Err(Failure::not_found(format!("there is no file or folder {}", path.display())));
        }
    }
    Ok(all)
}

fn walk(folder: &Path, all: &mut Vec<File>) -> Result<(), Failure> {
    let unreadable =
        |error: io::Error| Failure::not_found(format!("cannot list {}: {error}", folder.display()));
    let entries: Result<Vec<_>, _> = fs::read_dir(folder).map_err(unreadable)?.collect();
    let mut entries = entries.map_err(unreadable)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let kind = entry.file_type().map_err(unreadable)?;
        let path = entry.path();
        if kind.is_dir() {
            walk(&path, all)?;
        } else if kind.is_file() {
            let wanted = is_called_like_telemetry(&path);
            all.push(File { path, wanted });
        }
    }
    Ok(())
}

fn is_called_like_telemetry(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let name = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(&name);
    [".pb", ".jsonl", ".otlp"].iter().any(|end| name.ends_with(end))
}

/// A bar on a terminal, nothing elsewhere.
fn progress(files: usize) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} files  {msg}");
    ProgressBar::new(files as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
