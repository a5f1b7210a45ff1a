//! `spanreel quarantine`: what the log set aside because it ended or stopped the process, and a second try for it.

use std::{collections::BTreeMap, io::Write, path::PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;

use super::{
    Failure,
    failure::exit,
    import::{Refusal, Target},
    text,
};
use crate::{
    otlp::Signal,
    tenant::TenantId,
    wal::{Quarantine, Quarantined, quarantined},
};

#[derive(Args, Debug)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the frames that were set aside
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        folder: Folder,
    },
    /// Take frames again, after an upgrade that can read them; what is taken leaves the quarantine. No server may hold
    /// the folder: it could not tell whose they are
    Retry {
        /// Numbers of frames; all when none is given
        seq: Vec<u64>,
        #[command(flatten)]
        folder: Folder,
    },
}

/// Whose quarantine: it is of a folder, and no server shows it.
#[derive(Args, Debug)]
struct Folder {
    /// Data folder
    #[arg(long, value_name = "DIR", env = "SPANREEL_DATA", default_value = "./spanreel-data")]
    data: PathBuf,
}

pub(super) fn run(arguments: Arguments, out: &mut dyn Write) -> Result<u8, Failure> {
    match arguments.command {
        Command::List { json, folder } => list(&quarantine(&folder)?, json, out),
        Command::Retry { seq, folder } => retry(&chosen(quarantine(&folder)?.frames, &seq)?, &folder, out),
    }
}

fn quarantine(folder: &Folder) -> Result<Quarantine, Failure> {
    if !folder.data.is_dir() {
        let text = format!("there is no data folder {}; give one with --data", folder.data.display());
        return Err(Failure::not_found(text));
    }
    let found = quarantined(&folder.data.join("wal"))?;
    if let Some(first) = found.unreadable.first() {
        let notes = text::count(found.unreadable.len() as u64, "note");
        let first = text::clean(&first.display().to_string());
        eprintln!("{notes} in quarantine cannot be read, the first is {first}; the bytes beside it are kept");
    }
    Ok(found)
}

fn chosen(frames: Vec<Quarantined>, wanted: &[u64]) -> Result<Vec<Quarantined>, Failure> {
    let is_there = |seq: &u64| frames.iter().any(|frame| frame.note.seq == *seq);
    if let Some(absent) = wanted.iter().find(|seq| !is_there(seq)) {
        return Err(Failure::not_found(format!("no frame {absent} in quarantine; see `quarantine list`")));
    }
    Ok(frames.into_iter().filter(|f| wanted.is_empty() || wanted.contains(&f.note.seq)).collect())
}

fn list(found: &Quarantine, as_json: bool, out: &mut dyn Write) -> Result<u8, Failure> {
    let frames = &found.frames;
    if as_json {
        let notes: Vec<_> = frames.iter().map(|frame| json!(frame.note)).collect();
        super::write_json(out, &json!(notes))?;
    } else if frames.is_empty() && found.unreadable.is_empty() {
        writeln!(out, "nothing is in quarantine")?;
    } else if frames.is_empty() {
        writeln!(out, "no frame in quarantine can be told")?;
    } else {
        let received = |nanos: u64| {
            let at = chrono::DateTime::from_timestamp_nanos(i64::try_from(nanos).unwrap_or(i64::MAX));
            at.format("%m-%d %H:%M:%S").to_string()
        };
        let row = |f: &Quarantined| {
            let note = &f.note;
            let (seq, at) = (note.seq.to_string(), received(note.received_at));
            vec![seq, at, note.tenant.clone(), note.kind.clone(), note.reason.clone()]
        };
        let rows: Vec<_> = frames.iter().map(row).collect();
        text::table(out, &["SEQ", "RECEIVED UTC", "TENANT", "KIND", "REASON"], &[20, 14, 20, 10, 60], &rows)?;
    }
    Ok(exit::DONE)
}

fn retry(frames: &[Quarantined], folder: &Folder, out: &mut dyn Write) -> Result<u8, Failure> {
    let mut by_tenant: BTreeMap<TenantId, Vec<&Quarantined>> = BTreeMap::new();
    for frame in frames {
        let tenant = frame.note.tenant.parse::<TenantId>();
        let tenant = tenant.map_err(|error| Failure::new(exit::INTERNAL, error.to_string()))?;
        by_tenant.entry(tenant).or_default().push(frame);
    }
    let (mut taken, mut refused) = (0, 0);
    for (tenant, frames) in by_tenant {
        let mut target = Target::folder(&folder.data, tenant)?;
        let mut done = Vec::new();
        for frame in frames {
            match take(frame, &mut target) {
                Ok(()) => done.push(frame),
                Err(Refusal::Request(reason)) => {
                    refused += 1;
                    writeln!(out, "frame {} stays: {reason}", frame.note.seq)?;
                }
                Err(Refusal::Target(failure)) => return Err(failure),
            }
        }
        // A frame leaves only when the tables have it, or the log of the server that took it.
        target.finish()?;
        for frame in done {
            frame.remove()?;
            taken += 1;
        }
    }
    writeln!(out, "{} taken, {refused} left", text::count(taken, "frame"))?;
    Ok(if refused == 0 { exit::DONE } else { exit::REFUSED })
}

fn take(frame: &Quarantined, target: &mut Target) -> Result<(), Refusal> {
    let signal = match frame.note.kind.as_str() {
        "traces" => Signal::Traces,
        "logs" => Signal::Logs,
        other => return Err(Refusal::Request(format!("no telemetry but {other}; post it to the API"))),
    };
    let bytes = frame.read().map_err(|error| Refusal::Request(format!("cannot be read: {error}")))?;
    match target.take(signal, bytes)?.refused() {
        None => Ok(()),
        Some(reason) => Err(Refusal::Request(format!("refused in part: {reason}"))),
    }
}
