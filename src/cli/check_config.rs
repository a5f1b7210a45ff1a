//! `spanreel check-config`: reads a configuration as `serve` would, binds and opens nothing.

use std::{io::Write, path::PathBuf};

use clap::Args;

use super::{Failure, failure::exit, text::clean};
use crate::{
    access::Keys,
    config::{Config, reference::reference},
};

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// The file to check; the defaults and the environment without it
    #[arg(long, value_name = "FILE", env = "SPANREEL_CONFIG")]
    config: Option<PathBuf>,
    /// Print every option with its default and what it does
    #[arg(long)]
    reference: bool,
}

pub(super) fn run(arguments: Arguments, out: &mut dyn Write) -> Result<u8, Failure> {
    if arguments.reference {
        out.write_all(reference().as_bytes())?;
        return Ok(exit::DONE);
    }
    let loaded = Config::load(arguments.config.as_deref(), std::env::vars())?;
    let config = &loaded.config;
    match &arguments.config {
        Some(file) => {
            writeln!(out, "ok  {}: all keys are options, all values fit", clean(&file.to_string_lossy()))?
        }
        None => writeln!(out, "ok  no file: the embedded defaults")?,
    }
    writeln!(
        out,
        "ok  environment: {}",
        if loaded.variables.is_empty() { "sets nothing".into() } else { loaded.variables.join(", ") }
    )?;
    for variable in &loaded.ignored {
        writeln!(out, "??  {}: names no option, and is ignored", clean(variable))?;
    }
    let keys = Keys::new(&config.access)?;
    writeln!(out, "ok  access.keys: {} keys, hashes and tenants are valid", config.access.keys.len())?;
    for (flag, address) in crate::server::flags(&config.listen) {
        keys.allow_bind(flag, address)?;
        writeln!(out, "ok  {flag} {address}: may be bound")?;
    }
    writeln!(out, "not checked: that the ports are free, that {} can be written", config.data.display())?;
    Ok(exit::DONE)
}
