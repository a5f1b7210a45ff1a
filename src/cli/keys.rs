//! `spanreel keys`: entries for `access.keys` of the configuration.

use std::{
    fs::File,
    io::{self, Read, Write},
};

use clap::{Args, Subcommand};

use super::{Failure, failure::exit};
use crate::{
    access::key_hash,
    config::access::{KeyEntry, Role},
    tenant::TenantId,
};

#[derive(Args, Debug)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a random key, shown once, and the entry of `access.keys` for it
    New {
        /// A name for people
        #[arg(long, default_value = "my-key")]
        name: String,
        /// The tenant whose records it writes and reads
        #[arg(long, default_value = "default")]
        tenant: TenantId,
        /// What it may do: writer, developer, auditor or admin
        #[arg(long, default_value = "developer", value_parser = role)]
        role: Role,
    },
    /// The hash of the key on standard input
    Hash,
}

pub(super) fn run(arguments: Arguments, out: &mut dyn Write) -> Result<u8, Failure> {
    match arguments.command {
        Command::New { name, tenant, role } => {
            let mut random = [0; 32];
            let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut random));
            read.map_err(|error| {
                Failure::new(exit::INTERNAL, format!("no random bytes from the system: {error}"))
            })?;
            let key = format!("sr_{}", hex::encode(random));
            let entry = KeyEntry { name, hash: key_hash(&key), tenant: tenant.as_str().to_owned(), role };
            let entry = serde_json::json!({ "access": { "keys": [entry] } });
            writeln!(out, "key: {key}\n\n# for the configuration; JSON is YAML")?;
            super::write_json(out, &entry)?;
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

fn role(text: &str) -> Result<Role, String> {
    serde_json::from_value(text.into()).map_err(|error| error.to_string())
}
