//! Where a command reads: a data folder, or a server. Both give the same documents.

mod local;
mod remote;

use std::path::PathBuf;

use clap::Args;
use serde_json::Value;

use super::failure::{Failure, exit};
use crate::store::RunFilter;
pub(crate) use local::{Local, Opened, open_store};
pub(crate) use remote::Remote;

/// Which records a command works on.
#[derive(Args, Clone, Debug)]
pub(crate) struct Place {
    /// Data folder; a server that holds it is asked instead
    #[arg(long, value_name = "DIR", env = "SPANREEL_DATA", default_value = "./spanreel-data")]
    pub data: PathBuf,
    /// API of a server, such as http://127.0.0.1:4319
    #[arg(long, value_name = "URL", env = "SPANREEL_URL")]
    pub url: Option<String>,
    /// Key for that server
    #[arg(long, value_name = "KEY", env = "SPANREEL_KEY", hide_env_values = true)]
    pub key: Option<String>,
    /// Tenant to read in a data folder; a server takes it from the key
    #[arg(long, value_name = "T", default_value = "default")]
    pub tenant: String,
}

/// What `export` gives.
#[derive(Clone, Debug)]
pub(crate) enum Selection {
    Run(String),
    Trace(String),
    All,
}

/// Documents of one tenant.
pub(crate) trait Source {
    /// Rows of all runs that pass the filter, newest first, at most `limit`.
    fn runs(&self, filter: &RunFilter, limit: usize) -> Result<Vec<Value>, Failure>;
    /// The replay document.
    fn replay(&self, id: &str) -> Result<Value, Failure>;
    /// The tree document.
    fn tree(&self, id: &str) -> Result<Value, Failure>;
    /// What leads from one run to another.
    fn diff(&self, a: &str, b: &str) -> Result<Value, Failure>;
    /// OTLP/JSON, one request a line.
    fn otlp(&self, selection: &Selection) -> Result<String, Failure>;
    /// `{columns, rows, truncated}` of a read-only query.
    fn sql(&self, query: &str) -> Result<Value, Failure>;
}

impl Place {
    /// Opens the folder to read, or finds the server that holds it.
    pub(crate) fn open(&self) -> Result<Box<dyn Source>, Failure> {
        if let Some(url) = &self.url {
            return Ok(Box::new(Remote::new(url, self.key.clone())?));
        }
        if !self.data.is_dir() {
            return Err(Failure::not_found(format!(
                "there is no data folder {}; give one with --data, or fill it with `spanreel import`",
                self.data.display()
            )));
        }
        match Local::open(self)? {
            Opened::Folder(local) => Ok(Box::new(local)),
            Opened::Held(_) if self.tenant != "default" => Err(Failure::new(
                exit::USAGE,
                "a server holds this folder; it takes the tenant from --key, not from --tenant",
            )),
            Opened::Held(api) => Ok(Box::new(Remote::new(&format!("http://{api}"), self.key.clone())?)),
        }
    }

    pub(crate) fn tenant(&self) -> Result<crate::tenant::TenantId, Failure> {
        self.tenant
            .parse()
            .map_err(|error| Failure::new(exit::USAGE, format!("--tenant {:?}: {error}", self.tenant)))
    }
}
