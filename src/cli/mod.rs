//! The commands: one file each. Answers go to standard output, everything else to standard error.

mod check_config;
mod demo;
mod diff;
mod export;
mod failure;
mod import;
mod keys;
mod quarantine;
mod replay;
mod runs;
mod serve;
mod source;
mod sql;
mod steps;
mod text;
mod tree;

use std::io::{self, Write};

use clap::{Parser, Subcommand};
use serde_json::Value;

pub use failure::Failure;

/// Turns OpenTelemetry GenAI spans into ordered, replayable runs.
#[derive(Debug, Parser)]
#[command(name = "spanreel", version, about)]
pub struct Cli {
    /// Write logs as JSON, one object a line
    #[arg(long, global = true)]
    pub log_json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Receive telemetry and answer for it
    Serve(serve::Arguments),
    /// Start a server, send it the telemetry of a real agent, show the run
    Demo(demo::Arguments),
    /// Take what was saved: .pb, OTLP/JSON, collector files, .gz, .zst, folders, - for stdin
    Import(import::Arguments),
    /// List runs, newest first
    Runs(runs::Arguments),
    /// Show the ordered steps of a run, with the verdict
    Steps(steps::Arguments),
    /// Show every span of a run, frames included
    Tree(tree::Arguments),
    /// Show a run with its content; --json gives the replay document
    Replay(replay::Arguments),
    /// Show what differs between two runs; exit code 1 when something does
    Diff(diff::Arguments),
    /// Give back what was received, or the steps
    Export(export::Arguments),
    /// Ask the tables in SQL
    Sql(sql::Arguments),
    /// Check a configuration, and say what was checked
    CheckConfig(check_config::Arguments),
    /// Make keys for the configuration
    Keys(keys::Arguments),
    /// Show what the log set aside, or take it again
    Quarantine(quarantine::Arguments),
}

impl Cli {
    /// The log level when the environment does not say.
    pub fn log_level(&self) -> &'static str {
        if matches!(self.command, Command::Serve(_)) { "info" } else { "warn" }
    }
}

/// Runs the command, and returns the exit code.
pub fn run(cli: Cli) -> Result<u8, Failure> {
    let out = &mut io::stdout().lock();
    match cli.command {
        Command::Serve(arguments) => serve::run(arguments, out),
        Command::Demo(arguments) => demo::run(arguments, out),
        Command::Import(arguments) => import::run(arguments, out),
        Command::Runs(arguments) => runs::run(arguments, out),
        Command::Steps(arguments) => steps::run(arguments, out),
        Command::Tree(arguments) => tree::run(arguments, out),
        Command::Replay(arguments) => replay::run(arguments, out),
        Command::Diff(arguments) => diff::run(arguments, out),
        Command::Export(arguments) => export::run(arguments, out),
        Command::Sql(arguments) => sql::run(arguments, out),
        Command::CheckConfig(arguments) => check_config::run(arguments, out),
        Command::Keys(arguments) => keys::run(arguments, out),
        Command::Quarantine(arguments) => quarantine::run(arguments, out),
    }
}

fn write_json(out: &mut dyn Write, value: &Value) -> Result<(), Failure> {
    // Standard output writes line by line, and a document has millions of them.
    let mut out = io::BufWriter::new(out);
    serde_json::to_writer_pretty(&mut out, value).map_err(io::Error::from)?;
    writeln!(out)?;
    Ok(out.flush()?)
}
