//! A data folder that no server holds, opened shared and read only.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Failure, Place, Selection, Source, exit};
use crate::{
    clock::SystemClock,
    config::Config,
    otlp::record::{Record, TraceId},
    replay::{diff, document, export},
    run::Run,
    store::{self, Found, Mode, RunFilter, Store},
    telemetry::Metrics,
    tenant::TenantId,
};

/// Runs read at once.
const PAGE: usize = 500;

pub(crate) struct Local {
    store: Arc<Store>,
    tenant: TenantId,
}

/// What became of opening a folder.
pub(crate) enum Opened {
    Folder(Local),
    /// A server holds it; its API listens there.
    Held(std::net::SocketAddr),
}

impl Local {
    pub(crate) fn open(place: &Place) -> Result<Opened, Failure> {
        let tenant = place.tenant()?;
        match open_store(place, Mode::ReadOnly) {
            Ok(store) => Ok(Opened::Folder(Self { store, tenant })),
            Err(store::Error::InUse { api: Some(api), .. }) => Ok(Opened::Held(api)),
            Err(error) => Err(error.into()),
        }
    }

    fn find(&self, id: &str) -> Result<Arc<Run>, Failure> {
        Ok(self.find_records(id)?.0)
    }

    /// The run, and its records.
    fn find_records(&self, id: &str) -> Result<(Arc<Run>, Vec<Arc<Record>>), Failure> {
        let found = match self.store.run_records(&self.tenant, id)? {
            Some((Found::Alias(target), _)) => self.store.run_records(&self.tenant, &target)?,
            found => found,
        };
        match found {
            Some((Found::Run(run), records)) => Ok((run, records)),
            _ => Err(Failure::run_not_found(id)),
        }
    }
}

/// The settings of the environment. A bad variable is told by `serve` and `check-config`; a reader needs none of them.
fn settings() -> Config {
    Config::load(None, std::env::vars()).map(|loaded| loaded.config).unwrap_or_default()
}

/// Opens the folder of `place` with the settings of the environment.
pub(crate) fn open_store(place: &Place, mode: Mode) -> Result<Arc<Store>, store::Error> {
    let config = settings();
    let clock = Arc::new(SystemClock::default());
    Store::open(&place.data, config.store, config.wal, clock, Arc::new(Metrics::default()), mode)
}

impl Source for Local {
    fn runs(&self, filter: &RunFilter, limit: usize) -> Result<Vec<Value>, Failure> {
        let mut rows = Vec::new();
        let mut cursor = None;
        while rows.len() < limit {
            let page =
                self.store.runs(&self.tenant, filter, cursor.as_deref(), PAGE.min(limit - rows.len()))?;
            rows.extend(page.items.iter().map(|row| json!(row)));
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        Ok(rows)
    }

    fn replay(&self, id: &str) -> Result<Value, Failure> {
        Ok(document::replay(&self.tenant, &*self.find(id)?))
    }

    fn tree(&self, id: &str) -> Result<Value, Failure> {
        Ok(document::tree(&*self.find(id)?))
    }

    fn diff(&self, a: &str, b: &str) -> Result<Value, Failure> {
        Ok(json!(diff::diff(&*self.find(a)?, &*self.find(b)?)))
    }

    #[cfg(feature = "sql")]
    fn sql(&self, query: &str) -> Result<Value, Failure> {
        use crate::store::sql::{Engine, Error};
        let failed = |error: Error| {
            let code = if matches!(error, Error::Refused(_)) { exit::USAGE } else { exit::INTERNAL };
            Failure::new(code, error.to_string())
        };
        let engine = Engine::new(&settings().sql).map_err(failed)?;
        let relations = self.store.relations(&self.tenant)?;
        let runtime = tokio::runtime::Runtime::new()?;
        Ok(json!(runtime.block_on(engine.rows(relations, query)).map_err(failed)?))
    }

    #[cfg(not(feature = "sql"))]
    fn sql(&self, _: &str) -> Result<Value, Failure> {
        let said = "this program was built without SQL; build it with its default features";
        Err(Failure::new(exit::USAGE, said))
    }

    fn otlp(&self, selection: &Selection) -> Result<String, Failure> {
        let records = match selection {
            Selection::All => self.store.all_records(&self.tenant)?,
            Selection::Run(id) => self.find_records(id)?.1,
            Selection::Trace(id) => {
                let trace: TraceId = id
                    .parse()
                    .map_err(|_| Failure::new(exit::USAGE, "--trace needs a trace id of 32 hex digits"))?;
                let records = self.store.trace_records(&self.tenant, trace)?;
                if records.is_empty() {
                    return Err(Failure::not_found(format!("no trace {trace} here")));
                }
                records
            }
        };
        Ok(export::lines(&records))
    }
}
