//! `spanreel keys`: entries for `access.keys` of the configuration.

use std::{
    fs::File,
    io::{self, Read, Write},
};

use clap::{Args, Subcommand};

use super::{Failure, failure::exit};
use crate::access::key_hash;

#[derive(Args, Debug)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a random key; it is shown once
    New,
    /// The hash of the key on standard input
    Hash,
}

pub(super) fn run(arguments: Arguments, out: &mut dyn Write) -> Result<u8, Failure> {
    match arguments.command {
        Command::New => {
            let mut random = [0; 32];
            let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut random));
            read.map_err(|error| {
                Failure::new(exit::INTERNAL, format!("no random bytes from the system: {error}"))
            })?;
            let key = format!("sr_{}", hex::encode(random));
            writeln!(out, "key:  {key}\nhash: {}", key_hash(&key))?;
        }
        Command::Hash => {
            let mut key = String::new();
            let _ = io::stdin().read_line(&mut key)?;
            if key.trim().is_empty() {
                return Err(Failure::new(exit::USAGE, "give the key on standard input"));
            }
            writeln!(out, "{}", key_hash(key.trim()))?;
        }
    }
    Ok(exit::DONE)
}
