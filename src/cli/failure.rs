//! Why a command failed: one line with a remedy, and the exit code that scripts read.

use std::io;

use crate::{access, config, server, store, wal};

/// Exit codes (design, section 6).
pub(crate) mod exit {
    pub(crate) const DONE: u8 = 0;
    /// Something was refused, or differs.
    pub(crate) const REFUSED: u8 = 1;
    pub(crate) const USAGE: u8 = 2;
    /// Refused, because the run is partial.
    pub(crate) const PARTIAL: u8 = 3;
    /// A live call was blocked.
    pub(crate) const BLOCKED: u8 = 4;
    /// The budget for live calls is spent.
    pub(crate) const BUDGET: u8 = 5;
    /// The command given to `simulate` failed, and nothing diverged.
    pub(crate) const COMMAND_FAILED: u8 = 6;
    /// No such run, file or folder.
    pub(crate) const NOT_FOUND: u8 = 66;
    /// Server or store not reachable.
    pub(crate) const UNREACHABLE: u8 = 69;
    pub(crate) const INTERNAL: u8 = 70;
    /// The data folder is in use, or of another version.
    pub(crate) const FOLDER: u8 = 73;
    pub(crate) const CONFIGURATION: u8 = 78;
}

/// Why a command did not do what was asked.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    message: Option<String>,
}

impl Failure {
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: Some(message.into()) }
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(exit::NOT_FOUND, message)
    }

    pub(crate) fn run_not_found(id: &str) -> Self {
        Self::not_found(format!("no run {}; `spanreel runs` lists them", super::text::clean(id)))
    }

    /// A server's answer that is no success: what it refuses another try will not change; else it is not to be reached.
    pub(crate) fn answered(status: u16, said: impl Into<String>) -> Self {
        let (code, remedy) = match status {
            400 => (exit::USAGE, ""),
            401 => (exit::REFUSED, "; give a key with --key or SPANREEL_KEY"),
            403 => (exit::REFUSED, "; use a key of another role"),
            409 => (exit::PARTIAL, ""),
            408 | 429 => (exit::UNREACHABLE, "; try again later"),
            status if status < 500 => (exit::REFUSED, ""),
            _ => (exit::UNREACHABLE, ""),
        };
        Self::new(code, said.into() + remedy)
    }

    /// The exit code of the process.
    pub fn code(&self) -> u8 {
        self.code
    }

    /// What to tell the user; `None` when the reader of the output went away, which is no failure.
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self { code: exit::DONE, message: None },
            _ => Self::new(exit::INTERNAL, format!("writing the output failed: {error}")),
        }
    }
}

impl From<config::Error> for Failure {
    fn from(error: config::Error) -> Self {
        Self::new(exit::CONFIGURATION, error.to_string())
    }
}

impl From<access::Error> for Failure {
    fn from(error: access::Error) -> Self {
        Self::new(exit::CONFIGURATION, error.to_string())
    }
}

impl From<store::Error> for Failure {
    fn from(error: store::Error) -> Self {
        let code = match &error {
            store::Error::InUse { .. } | store::Error::OtherVersion { .. } => exit::FOLDER,
            store::Error::NotThere(_) => exit::NOT_FOUND,
            store::Error::Io { .. } | store::Error::Table(_) | store::Error::Wal(_) => exit::UNREACHABLE,
            _ => exit::INTERNAL,
        };
        Self::new(code, error.to_string())
    }
}

impl From<wal::Error> for Failure {
    fn from(error: wal::Error) -> Self {
        Self::new(exit::UNREACHABLE, error.to_string())
    }
}

impl From<server::Error> for Failure {
    fn from(error: server::Error) -> Self {
        match error {
            server::Error::Access(error) => error.into(),
            server::Error::Store(error) => error.into(),
            server::Error::Bind { .. } => Self::new(exit::UNREACHABLE, error.to_string()),
            error => Self::new(exit::INTERNAL, error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a server answers with each status that it has.
    /// Guarantee: what it refuses is 1, a bad question 2, a partial run 3, and only what may be otherwise later counts as not reachable.
    #[test]
    fn a_refusal_reads_like_a_server_that_is_down() {
        let code = |status| Failure::answered(status, "").code();
        let codes = [400, 401, 403, 409, 413, 415, 429, 500, 503].map(code);
        assert_eq!(codes, [2, 1, 1, 3, 1, 1, 69, 69, 69]);
    }
}
