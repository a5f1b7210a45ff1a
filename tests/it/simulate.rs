//! Real agents, executed again from their records alone: `tests/agents/run.py` does it, and says what is not the same.
//!
//! `SPANREEL_REPLAYS` sets how often one of them is repeated (20 by default).

use std::process::Command;

use parking_lot::Mutex;

use crate::harness::skipped;

/// Scenario: agents of many SDKs run against a model server with their telemetry coming here; then the model server is
/// stopped, and each runs again from its record.
/// Guarantee: in `strict` they make the same calls, do the same and end with the same answer; the second execution is
/// stored as a child of the first; no key that a client sends is stored or logged.
#[test]
fn an_agent_does_something_else_from_its_record() {
    agents(&[]);
}

/// Scenario: the same from captures of such agents, in a folder that no server holds.
/// Guarantee: as above.
#[test]
fn an_agent_does_something_else_from_a_capture() {
    agents(&["--captures"]);
}

/// Scenario: one agent runs many times from its record; it is edited; it runs where there is no way out.
/// Guarantee: the reports are the same byte for byte; the edit is found, with its step and its words; spanreel connects to
/// nothing.
#[test]
fn a_report_changes_or_an_edit_is_missed_or_a_socket_goes_out() {
    agents(&["--checks"]);
}

/// The programs take all cores there are.
static TURN: Mutex<()> = Mutex::new(());

fn agents(arguments: &[&str]) {
    let driver = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/agents/run.py");
    let run = |arguments: &[&str]| Command::new("python3").arg(driver).args(arguments).output();
    match run(&[arguments, &["--missing"]].concat()) {
        Err(_) => return skipped("no Python 3"),
        Ok(missing) if !missing.status.success() => {
            let homes = String::from_utf8_lossy(&missing.stdout).trim().to_owned();
            return skipped(&format!(
                "no packages for the agents {homes} (python3 tests/agents/run.py --install)"
            ));
        }
        Ok(_) => {}
    }
    let _turn = TURN.lock();
    let told = run(&[arguments, &["--spanreel", env!("CARGO_BIN_EXE_spanreel")]].concat()).unwrap();
    print!("{}", String::from_utf8_lossy(&told.stdout));
    eprint!("{}", String::from_utf8_lossy(&told.stderr));
    assert!(told.status.success());
}
