//! `spanreel simulate RUN -- CMD...`: executes an agent again, every call answered from the record.

mod host;
mod report;

use std::{
    collections::BTreeMap,
    io::{self, BufRead, IsTerminal, Write},
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
};

use clap::Args;
use serde_json::Value;

use super::{Failure, failure::exit, source::Place, write_json};
use crate::{
    api::sim::sessions::{Breakpoint, Order},
    replay::sim::{
        policy::{Patch, Patches, Policy},
        report::{Report, Verdict},
        session::Mode,
    },
};
use host::Host;

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// Run ids or fixture folders, in the order in which the program made them
    #[arg(required = true, value_name = "RUN|FIXTURE")]
    runs: Vec<String>,
    #[command(flatten)]
    place: Place,
    /// strict, lenient, or fork@N (steps from N on are live)
    #[arg(long, default_value = "strict")]
    mode: Mode,
    /// What is done about tools (YAML)
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Replaces what a step answered: JSON with `output` or `result`, or plain text
    #[arg(long, value_name = "STEP=FILE", value_parser = step_and_file)]
    patch: Vec<(u32, PathBuf)>,
    /// Take a record that has holes
    #[arg(long)]
    allow_partial: bool,
    /// Hold every answer until Enter is pressed
    #[arg(long)]
    step: bool,
    /// Hold the answer of a step, or of a model or tool by its name
    #[arg(long = "break", value_name = "STEP|NAME")]
    breakpoints: Vec<String>,
    /// 0 answers at once, 1 as fast as was recorded, 4x four times as fast
    #[arg(long, value_name = "0|1|Nx", default_value = "0", value_parser = speed)]
    speed: f64,
    /// Write the report there, as JSON
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write a JUnit report there, a test case a step
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// The report as JSON on standard output
    #[arg(long)]
    json: bool,
    /// The agent. Without one, the session is shown and lasts until standard input ends
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

pub(super) fn run(arguments: Arguments, out: &mut dyn Write) -> Result<u8, Failure> {
    let holds = arguments.step || !arguments.breakpoints.is_empty();
    if holds && arguments.command.is_empty() {
        return Err(Failure::new(
            exit::USAGE,
            "--step and --break hold the calls of a command; give one behind --",
        ));
    }
    // What cannot be written is told before the agent runs, not after.
    for path in arguments.report.iter().chain(&arguments.junit) {
        write_file(path, "")?;
    }
    let mut host = Host::open(&arguments.place, &arguments.runs, order(&arguments)?)?;
    let ended = match execute_or_attend(&mut host, &arguments, holds, out) {
        Ok(ended) => ended,
        Err(failure) => {
            // The session is of no use to anyone.
            drop(host.end());
            return Err(failure);
        }
    };
    let found = host.end()?;
    match (arguments.json, ended) {
        (true, None) => writeln!(out, "{}", serde_json::to_string(&found).map_err(io::Error::from)?)?,
        (true, Some(_)) => write_json(out, &serde_json::to_value(&found).map_err(io::Error::from)?)?,
        (false, _) => report::show(&found, &mut io::stderr().lock())?,
    }
    if let Some(status) = ended.filter(|status| !status.success()) {
        eprintln!("the command failed: {status}");
    }
    if let Some(path) = &arguments.report {
        write_file(path, &serde_json::to_string_pretty(&found).map_err(io::Error::from)?)?;
    }
    if let Some(path) = &arguments.junit {
        write_file(path, &report::junit(&found))?;
    }
    Ok(code_of(&found, ended))
}

/// How the command ended; `None` when there is none, and whoever started this has had enough.
fn execute_or_attend(
    host: &mut Host,
    arguments: &Arguments,
    holds: bool,
    out: &mut dyn Write,
) -> Result<Option<ExitStatus>, Failure> {
    if let Some((program, rest)) = arguments.command.split_first() {
        say_partial(host.document());
        return execute(host, program, rest, holds, arguments.json).map(Some);
    }
    show_session(host.document(), arguments.json, out)?;
    attend(host, io::stdin().lock(), arguments.json, out)?;
    Ok(None)
}

/// 0 the same, 1 diverged, 3 a hole, 4 blocked, 5 budget, 6 the command failed and nothing diverged.
fn code_of(found: &Report, ended: Option<ExitStatus>) -> u8 {
    match found.verdict {
        Verdict::Same if ended.is_some_and(|status| !status.success()) => exit::COMMAND_FAILED,
        Verdict::Same => exit::DONE,
        Verdict::Diverged => exit::REFUSED,
        Verdict::Hole => exit::PARTIAL,
        Verdict::Blocked => exit::BLOCKED,
        Verdict::Budget => exit::BUDGET,
    }
}

fn order(arguments: &Arguments) -> Result<Order, Failure> {
    let breakpoints = arguments.breakpoints.iter().map(|text| match text.parse() {
        Ok(step) => Breakpoint::Step(step),
        Err(_) => Breakpoint::Name(text.clone()),
    });
    Ok(Order {
        mode: arguments.mode,
        with: arguments.runs.iter().skip(1).cloned().collect(),
        allow_partial: arguments.allow_partial,
        policy: arguments.policy.as_deref().map(policy).transpose()?.unwrap_or_default(),
        patch: patches(&arguments.patch)?,
        step: arguments.step,
        breakpoints: breakpoints.collect(),
        speed: arguments.speed,
        is_redacted: false,
    })
}

fn policy(path: &Path) -> Result<Policy, Failure> {
    let text = read_file(path)?;
    serde_saphyr::from_str(&text)
        .map_err(|error| Failure::new(exit::USAGE, format!("--policy {}: {error}", path.display())))
}

fn patches(given: &[(u32, PathBuf)]) -> Result<Patches, Failure> {
    let mut all = BTreeMap::new();
    for (step, path) in given {
        let text = read_file(path)?;
        // A JSON object with our members is a patch; everything else is what is answered.
        let patch = serde_json::from_str::<Patch>(&text).unwrap_or_else(|_| {
            let value = serde_json::from_str(&text).unwrap_or_else(|_| Value::from(text.trim_end()));
            Patch { output: Some(value.clone()), result: Some(value) }
        });
        let _ = all.insert(*step, patch);
    }
    Ok(all)
}

fn read_file(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .map_err(|error| Failure::not_found(format!("cannot read {}: {error}", path.display())))
}

fn write_file(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text)
        .map_err(|error| Failure::new(exit::INTERNAL, format!("cannot write {}: {error}", path.display())))
}

fn step_and_file(text: &str) -> Result<(u32, PathBuf), String> {
    let (step, path) = text.split_once('=').ok_or("STEP=FILE is needed, such as 3=answer.json")?;
    Ok((step.parse().map_err(|_| format!("{step:?} is no index of a step"))?, path.into()))
}

fn speed(text: &str) -> Result<f64, String> {
    let number: f64 = text.trim_end_matches('x').parse().map_err(|_| "0, 1 or such as 4x is needed")?;
    if number.is_finite() && number >= 0.0 { Ok(number) } else { Err("0 or more is needed".into()) }
}

/// Runs the agent with the environment of the session. With `--json` its output goes to standard error.
fn execute(
    host: &mut Host,
    program: &str,
    rest: &[String],
    holds: bool,
    quiet: bool,
) -> Result<ExitStatus, Failure> {
    let mut command = Command::new(program);
    let _ = command.args(rest).envs(environment(host.document()));
    if quiet {
        let _ = command.stdout(io::stderr());
    }
    if holds {
        // Enter is for us.
        let _ = command.stdin(std::process::Stdio::null());
    }
    let child = command.spawn();
    let mut child = child
        .map_err(|error| Failure::new(exit::COMMAND_FAILED, format!("cannot run {program}: {error}")))?;
    if holds {
        pause(host, &mut child)?;
    }
    Ok(child.wait()?)
}

/// Lets go of one answer at each line of standard input, until the agent ends.
fn pause(host: &Host, child: &mut std::process::Child) -> Result<(), Failure> {
    let (send, lines) = std::sync::mpsc::channel();
    let _ = std::thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            if line.is_err() || send.send(()).is_err() {
                break;
            }
        }
    });
    let mut shown = Value::Null;
    while child.try_wait()?.is_none() {
        let held = host.held()?;
        if !held.is_null() && held != shown {
            let text = |name: &str| super::text::member(&held, name);
            eprintln!("step {} {} {} is held; Enter lets go", text("step_index"), text("kind"), text("name"));
            shown = held;
        }
        match lines.recv_timeout(std::time::Duration::from_millis(50)) {
            Ok(()) => {
                host.go_on()?;
                shown = Value::Null;
            }
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
            // No more lines: nobody is there to wait for.
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => {
                std::thread::sleep(std::time::Duration::from_millis(50));
                host.go_on()?;
            }
        }
    }
    Ok(())
}

/// The variables of the session; resource attributes that are set already are kept.
fn environment(document: &Value) -> Vec<(String, String)> {
    const ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";
    let given = document.get("env").and_then(Value::as_object).into_iter().flatten();
    let mut all: Vec<(String, String)> =
        given.map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned())).collect();
    if let Some(own) = std::env::var(ATTRIBUTES).ok().filter(|own| !own.trim().is_empty()) {
        for (_, value) in all.iter_mut().filter(|(name, _)| name == ATTRIBUTES) {
            *value = format!("{own},{value}");
        }
    }
    all
}

fn say_partial(document: &Value) {
    let reasons = document.get("partial_reasons").and_then(Value::as_array).map_or(0, Vec::len);
    if reasons > 0 {
        let verdict = super::text::member(document, "replayability");
        eprintln!("the record is {verdict}: {}", super::text::count(reasons as u64, "reason"));
    }
}

/// Waits until whoever started this closes `input`. A line of it asks for the report so far.
fn attend(host: &Host, mut input: impl BufRead, json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    while input.skip_until(b'\n')? > 0 {
        if json {
            writeln!(out, "{}", serde_json::to_string(&host.report()?).map_err(io::Error::from)?)?;
            out.flush()?;
        } else {
            report::show(&host.report()?, &mut io::stderr().lock())?;
        }
    }
    Ok(())
}

/// The session, for whoever leads an agent to it by hand.
fn show_session(document: &Value, json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    if json {
        writeln!(out, "{document}")?;
    } else {
        for (name, value) in environment(document) {
            writeln!(out, "export {name}='{}'", value.replace('\'', r"'\''"))?;
        }
        if io::stdin().is_terminal() {
            eprintln!("the session lasts until Ctrl-D");
        }
    }
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_or_a_patch_is_read_as_another() {
        assert_eq!((speed("0"), speed("4x"), speed("0.5")), (Ok(0.0), Ok(4.0), Ok(0.5)));
        assert!(speed("-1").is_err() && speed("fast").is_err() && speed("inf").is_err());
        assert_eq!(step_and_file("3=a=b.json"), Ok((3, "a=b.json".into())));
        assert!(step_and_file("a.json").is_err() && step_and_file("x=a").is_err());
    }
}
