//! The `spanreel` binary: arguments, tracing, one command, an exit code.

use std::{
    io::{self, IsTerminal},
    process::ExitCode,
};

use clap::Parser;
use spanreel::cli::{self, Cli};
use tracing_subscriber::EnvFilter;

/// Assembly makes many small pieces on one thread and frees them on another; the system's allocator keeps their pages.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    start_tracing(&cli);
    match cli::run(cli) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            if let Some(message) = failure.message() {
                eprintln!("spanreel: {message}");
            }
            ExitCode::from(failure.code())
        }
    }
}

/// Logs go to standard error, so that standard output holds answers only. `SPANREEL_LOG` sets the filter.
fn start_tracing(cli: &Cli) {
    let filter = EnvFilter::try_from_env("SPANREEL_LOG").unwrap_or_else(|_| EnvFilter::new(cli.log_level()));
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(io::stderr().is_terminal())
        .with_writer(io::stderr)
        .with_target(false);
    if cli.log_json { subscriber.json().init() } else { subscriber.init() }
}
