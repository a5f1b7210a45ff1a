//! The whole configuration tree: YAML over defaults, unknown keys refused. One file a section.
//!
//! Each option can be set by an environment variable as well, which wins over the file: `SPANREEL_` and the path of
//! the option in capitals, joined by `_` (`listen.api` is `SPANREEL_LISTEN_API`).

pub mod access;
pub mod api;
pub mod otlp;
pub mod reference;
pub mod simulation;
pub mod sql;
pub mod store;
pub mod wal;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How the names of our environment variables begin.
const PREFIX: &str = "SPANREEL_";

/// Everything that can be configured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The data folder; made when absent.
    pub data: PathBuf,
    /// Where the server listens.
    pub listen: Listen,
    /// Who may use the server.
    pub access: access::Settings,
    /// The API: limits and timeouts.
    pub api: api::Settings,
    /// The receiver: limits and timeouts.
    pub otlp: otlp::Settings,
    /// The write-ahead log.
    pub wal: wal::Settings,
    /// The tables: when they are written, and how much memory stands before them.
    pub store: store::Settings,
    /// Queries: what they may use.
    pub sql: sql::Settings,
    /// Simulated replay: sessions and their limits.
    pub simulation: simulation::Settings,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data: "./spanreel-data".into(),
            listen: Listen::default(),
            access: access::Settings::default(),
            api: api::Settings::default(),
            otlp: otlp::Settings::default(),
            wal: wal::Settings::default(),
            store: store::Settings::default(),
            sql: sql::Settings::default(),
            simulation: simulation::Settings::default(),
        }
    }
}

/// Addresses to listen on; port 0 takes any free one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Listen {
    /// OTLP over gRPC.
    pub otlp_grpc: SocketAddr,
    /// OTLP over HTTP, protobuf and JSON.
    pub otlp_http: SocketAddr,
    /// API, metrics and health.
    pub api: SocketAddr,
}

impl Default for Listen {
    fn default() -> Self {
        let loopback = |port| SocketAddr::from(([127, 0, 0, 1], port));
        Self { otlp_grpc: loopback(4317), otlp_http: loopback(4318), api: loopback(4319) }
    }
}

/// Why a configuration was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read the configuration file {path}: {source}; give another with --config")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not what the option reference says.
    #[error("{path}: {problem}; `spanreel check-config --reference` lists the options")]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What and where, on one line.
        problem: String,
    },
    /// An environment variable has a value that its option does not take.
    #[error("{variable}: {problem}; correct it or unset it")]
    Variable {
        /// Its name.
        variable: String,
        /// What is wrong.
        problem: String,
    },
    /// An option is greater than what the program can work with.
    #[error("{option} is {value}; the most is {most}")]
    TooGreat {
        /// Its path.
        option: &'static str,
        /// What was asked for.
        value: usize,
        /// The greatest value.
        most: usize,
    },
    /// The defaults cannot be written down: a bug.
    #[error("the defaults cannot be serialized: {0}; please report this")]
    Defaults(#[from] serde_json::Error),
}

/// A configuration, with the environment variables that were laid over it.
#[derive(Debug)]
pub struct Loaded {
    /// What holds.
    pub config: Config,
    /// Names of the variables that set an option.
    pub variables: Vec<String>,
    /// Names of variables that begin with `SPANREEL_`, and that nothing reads.
    pub ignored: Vec<String>,
}

impl Config {
    /// Reads `file` over the defaults, then lays `variables` (of the environment) over it.
    ///
    /// Nothing is bound or opened. A key that is not an option is refused, with its place in the file, and so is a
    /// variable that names what only the file can set. One that names no option is told and left alone; those that
    /// container platforms set under the same prefix are not told.
    pub fn load(
        file: Option<&Path>,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Loaded, Error> {
        let config = match file {
            Some(path) => Self::read(path)?,
            None => Self::default(),
        };
        let mut tree = serde_json::to_value(&config)?;
        let (mut options, mut groups) = (Vec::new(), Vec::new());
        leaves(&tree, &mut Vec::new(), &mut options, &mut groups);
        let (mut laid, mut ignored) = (Vec::new(), Vec::new());
        for (variable, text) in variables {
            let Some(path) = options.iter().find(|path| variable_of(path) == variable) else {
                if let Some(path) = groups.iter().find(|path| variable_of(path) == variable) {
                    let problem =
                        format!("{} has no single value, and is set in the file only", path.join("."));
                    return Err(Error::Variable { variable, problem });
                }
                if variable.starts_with(PREFIX) && !is_known(&variable) {
                    ignored.push(variable);
                }
                continue;
            };
            let invalid = |problem: String| Error::Variable { variable: variable.clone(), problem };
            let value = scalar(&text);
            let trial = with(&tree, path, value);
            // A text that looks like a number may still be meant as text (a folder named `7`).
            let trial = match serde_json::from_value::<Self>(trial.clone()) {
                Ok(_) => trial,
                Err(error) => {
                    let as_text = with(&tree, path, Value::String(text));
                    let _ = serde_json::from_value::<Self>(as_text.clone())
                        .map_err(|_| invalid(error.to_string()))?;
                    as_text
                }
            };
            tree = trial;
            laid.push(variable);
        }
        laid.sort();
        ignored.sort();
        let config: Self = serde_json::from_value(tree)?;
        let (value, most) = (config.otlp.request_bytes_max, otlp::REQUEST_BYTES_CEILING);
        if value > most {
            return Err(Error::TooGreat { option: "otlp.request_bytes_max", value, most });
        }
        Ok(Loaded { config, variables: laid, ignored })
    }

    fn read(path: &Path) -> Result<Self, Error> {
        let text =
            std::fs::read_to_string(path).map_err(|source| Error::Read { path: path.into(), source })?;
        if text.lines().all(|l| l.trim().is_empty() || l.trim_start().starts_with('#')) {
            return Ok(Self::default());
        }
        serde_saphyr::from_str(&text).map_err(|error| {
            let message = error.to_string();
            let problem = message.lines().next().unwrap_or_default().trim().to_owned();
            Error::Invalid { path: path.into(), problem }
        })
    }
}

/// The environment variable that sets the option at `path`.
fn variable_of(path: &[String]) -> String {
    format!("{PREFIX}{}", path.join("_").to_uppercase())
}

/// True for a variable that a command or the log reads, and for one that a container platform sets for a service of
/// our name.
fn is_known(variable: &str) -> bool {
    const READ: [&str; 4] = ["CONFIG", "URL", "KEY", "LOG"];
    let name = variable.strip_prefix(PREFIX).unwrap_or_default();
    let of_platform = ["SERVICE_HOST", "SERVICE_PORT", "PORT"];
    READ.contains(&name) || of_platform.iter().any(|of| name == *of || name.starts_with(&format!("{of}_")))
}

/// Paths of all options that hold one value, and of what holds more: sections, and lists (the keys).
fn leaves(tree: &Value, path: &mut Vec<String>, into: &mut Vec<Vec<String>>, groups: &mut Vec<Vec<String>>) {
    match tree {
        Value::Object(members) => {
            if !path.is_empty() {
                groups.push(path.clone());
            }
            for (name, member) in members {
                path.push(name.clone());
                leaves(member, path, into, groups);
                let _ = path.pop();
            }
        }
        Value::Array(_) => groups.push(path.clone()),
        _ => into.push(path.clone()),
    }
}

fn with(tree: &Value, path: &[String], value: Value) -> Value {
    let mut tree = tree.clone();
    if let Some(option) = tree.pointer_mut(&format!("/{}", path.join("/"))) {
        *option = value;
    }
    tree
}

/// Numbers, booleans and null as such, everything else as text.
fn scalar(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(value @ (Value::Number(_) | Value::Bool(_) | Value::Null)) => value,
        _ => Value::String(text.to_owned()),
    }
}

#[cfg(test)]
mod tests;
