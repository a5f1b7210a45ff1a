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

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use opentelemetry_proto::tonic::collector::{
    logs::v1::ExportLogsServiceRequest, metrics::v1::ExportMetricsServiceRequest,
    trace::v1::ExportTraceServiceRequest,
};
use prost::Message;

use super::{Failure, failure::exit, source::Place};
use crate::otlp::{json, scan::Limits};
use format::Request;
use target::Target;
use wire::Signal;

/// A file is read whole before it is decoded, so its size bounds what it holds; the log still bounds a frame.
pub(super) const LIMITS: Limits = Limits {
    request_bytes_max: usize::MAX,
    spans_max: usize::MAX,
    attributes_max: usize::MAX,
    events_max: usize::MAX,
};

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// Files and folders; - is standard input
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    place: Place,
}

/// A request, decoded.
#[derive(Debug)]
pub(super) enum Decoded {
    Traces(ExportTraceServiceRequest),
    Logs(ExportLogsServiceRequest),
    Metrics(ExportMetricsServiceRequest),
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
        let mut parts = vec![format!("{} spans and {} log records taken", self.spans, self.logs)];
        for (count, what) in [
            (self.known, "already known"),
            (self.metrics, "metrics counted and discarded"),
            (self.refused, "files refused"),
            (self.left_out, "other files left out"),
        ] {
            if count > 0 {
                parts.push(format!("{count} {what}"));
            }
        }
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
        match decode(request) {
            Ok(decoded) => {
                good += 1;
                add(decoded, target, summary)?;
            }
            Err(why) => bad.push((number + 1, why)),
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

fn add(decoded: Decoded, target: &mut Target, summary: &mut Summary) -> Result<(), Failure> {
    let (taken, known) = target.take(&decoded)?;
    match decoded {
        Decoded::Traces(_) => summary.spans += taken,
        Decoded::Logs(_) => summary.logs += taken,
        Decoded::Metrics(request) => summary.metrics += metrics(&request),
    }
    summary.known += known;
    Ok(())
}

fn metrics(request: &ExportMetricsServiceRequest) -> u64 {
    let scopes = request.resource_metrics.iter().flat_map(|resource| &resource.scope_metrics);
    scopes.map(|scope| scope.metrics.len() as u64).sum()
}

fn decode(request: &Request<'_>) -> Result<Decoded, String> {
    let protobuf = |error: prost::DecodeError| format!("is not a whole export request: {error}");
    match request {
        Request::Protobuf(Signal::Traces, bytes) => {
            ExportTraceServiceRequest::decode(*bytes).map(Decoded::Traces).map_err(protobuf)
        }
        Request::Protobuf(Signal::Logs, bytes) => {
            ExportLogsServiceRequest::decode(*bytes).map(Decoded::Logs).map_err(protobuf)
        }
        Request::Protobuf(Signal::Metrics, bytes) => {
            ExportMetricsServiceRequest::decode(*bytes).map(Decoded::Metrics).map_err(protobuf)
        }
        Request::Json(text) => decode_json(text),
    }
}

/// The signal of an OTLP/JSON object is the name of its one list.
fn decode_json(text: &[u8]) -> Result<Decoded, String> {
    let object: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(text).map_err(|error| format!("is not JSON: {error}"))?;
    let has = |names: [&str; 2]| names.iter().any(|name| object.contains_key(*name));
    if has(["resourceSpans", "resource_spans"]) {
        json::decode_traces(text, &LIMITS).map(Decoded::Traces).map_err(|error| error.to_string())
    } else if has(["resourceLogs", "resource_logs"]) {
        json::decode_logs(text, &LIMITS).map(Decoded::Logs).map_err(|error| error.to_string())
    } else if has(["resourceMetrics", "resource_metrics"]) {
        Ok(Decoded::Metrics(ExportMetricsServiceRequest::default()))
    } else {
        Err("is not OTLP: a JSON object without resourceSpans, resourceLogs or resourceMetrics".into())
    }
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
