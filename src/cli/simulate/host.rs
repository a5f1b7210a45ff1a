//! Who answers: the server that has the run, or this process for a folder that no server holds.

use std::{net::Ipv4Addr, path::Path, sync::Arc};

use axum::{Router, middleware};
use serde_json::Value;
use tokio::{net::TcpListener, runtime::Runtime};
use tokio_util::sync::CancellationToken;

use super::{
    super::{
        Failure,
        failure::exit,
        source::{Local, Opened, Place, Remote, encode},
    },
    Order, Report,
};
use crate::{
    api::{
        host::refuse_foreign,
        sim::{
            self,
            sessions::{self, Sessions, Simulation},
        },
    },
    config::Config,
    otlp::listen,
    replay::{
        fixture::{self, MANIFEST},
        redact,
        sim::session,
    },
    run::Run,
    tenant::TenantId,
};

/// A session, and where it is.
pub(super) struct Host {
    document: Value,
    at: At,
}

enum At {
    Server { remote: Remote, id: String },
    Here { sessions: Arc<Sessions>, simulation: Arc<Simulation>, stop: CancellationToken, runtime: Runtime },
}

impl Host {
    /// Opens a session over runs.
    pub(super) fn open(place: &Place, runs: &[String], order: Order) -> Result<Self, Failure> {
        let at_server = |remote: Remote| {
            let first = runs.first().map(String::as_str).unwrap_or_default();
            let order = serde_json::to_value(&order).map_err(std::io::Error::from)?;
            let document = remote.post(&format!("/v1/runs/{}/simulations", encode(first)), &order)?;
            let document = document.ok_or_else(|| Failure::run_not_found(first))?;
            let id = document.get("simulation_id").and_then(Value::as_str).unwrap_or_default().to_owned();
            Ok(Self { document, at: At::Server { remote, id } })
        };
        let fixtures: Vec<&Path> =
            runs.iter().map(Path::new).filter(|p| p.join(MANIFEST).is_file()).collect();
        if !fixtures.is_empty() {
            return Self::of_fixtures(&fixtures, runs.len(), order);
        }
        if let Some(url) = &place.url {
            return at_server(Remote::new(url, place.key.clone())?);
        }
        match Local::open(place)? {
            Opened::Held(api) => at_server(Remote::new(&format!("http://{api}"), place.key.clone())?),
            Opened::Folder(local) => {
                let found = runs.iter().map(|id| local.find(id)).collect::<Result<Vec<_>, _>>()?;
                Self::here(place.tenant()?, found, order)
            }
        }
    }

    /// Answers from fixtures, which need neither server nor folder.
    fn of_fixtures(fixtures: &[&Path], asked: usize, order: Order) -> Result<Self, Failure> {
        if fixtures.len() != asked {
            return Err(Failure::new(exit::USAGE, "give fixtures or run ids, not both"));
        }
        let read = |folder: &&Path| {
            fixture::read(folder)
                .map_err(|error| Failure::not_found(format!("{}: {error}", folder.display())))
        };
        let read = fixtures.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let is_redacted = read.iter().any(|(manifest, _)| manifest.redaction.is_some());
        if let Some(other) = read
            .iter()
            .find_map(|(manifest, _)| manifest.redaction.as_ref().filter(|rules| *rules != redact::RULE_SET))
        {
            let said =
                format!("the fixture was redacted by {other}, and this program has {}", redact::RULE_SET);
            return Err(Failure::new(exit::USAGE, said + "; export it again"));
        }
        let runs = read.into_iter().map(|(_, run)| Arc::new(run)).collect();
        Self::here(TenantId::embedded(), runs, Order { is_redacted, ..order })
    }

    /// Answers in this process, on a loopback port of its own.
    fn here(tenant: TenantId, runs: Vec<Arc<Run>>, order: Order) -> Result<Self, Failure> {
        let config = Config::default();
        let sessions = Arc::new(Sessions::new(config.simulation));
        let (secret, simulation) = sessions.open(tenant, runs, order)?;
        let runtime = super::super::serve::runtime()?;
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
        let document = simulation.document(&format!("http://{}", listener.local_addr()?), &secret);
        let router: Router = sim::router(Arc::clone(&sessions)).layer(middleware::from_fn(refuse_foreign));
        let stop = CancellationToken::new();
        drop(runtime.spawn(listen::serve(listener, router, config.api.listener(config.otlp), stop.clone())));
        Ok(Self { document, at: At::Here { sessions, simulation, stop, runtime } })
    }

    /// The session, as the API tells of it.
    pub(super) fn document(&self) -> &Value {
        &self.document
    }

    /// The call that is held, or null.
    pub(super) fn held(&self) -> Result<Value, Failure> {
        let status = match &self.at {
            At::Server { remote, id } => {
                remote.get_json(&format!("/v1/simulations/{id}"))?.ok_or_else(gone)?
            }
            At::Here { simulation, .. } => simulation.status(),
        };
        Ok(status.get("waiting").cloned().unwrap_or_default())
    }

    /// Lets go of the call that is held.
    pub(super) fn go_on(&self) -> Result<(), Failure> {
        match &self.at {
            At::Server { remote, id } => {
                let path = format!("/v1/simulations/{id}/continue");
                remote.post(&path, &Value::Null)?.map(drop).ok_or_else(gone)
            }
            At::Here { simulation, .. } => {
                let _ = simulation.go_on();
                Ok(())
            }
        }
    }

    /// What was found so far.
    pub(super) fn report(&self) -> Result<Report, Failure> {
        match &self.at {
            At::Server { remote, id } => {
                read(remote.get_json(&format!("/v1/simulations/{id}/report"))?.ok_or_else(gone)?)
            }
            At::Here { simulation, .. } => Ok(simulation.report()),
        }
    }

    /// Ends the session, with what was found.
    pub(super) fn end(self) -> Result<Report, Failure> {
        match self.at {
            At::Server { remote, id } => {
                read(remote.delete(&format!("/v1/simulations/{id}"))?.ok_or_else(gone)?)
            }
            At::Here { sessions, simulation, stop, runtime } => {
                let report = simulation.report();
                let _ = sessions.close(&simulation.tenant, &simulation.id);
                stop.cancel();
                runtime.shutdown_background();
                Ok(report)
            }
        }
    }
}

fn read(report: Value) -> Result<Report, Failure> {
    serde_json::from_value(report).map_err(|error| {
        Failure::new(exit::UNREACHABLE, format!("the server's report cannot be read: {error}"))
    })
}

fn gone() -> Failure {
    Failure::new(exit::UNREACHABLE, "the session has ended on the server; its time may be over")
}

impl From<sessions::Error> for Failure {
    fn from(error: sessions::Error) -> Self {
        let code = match &error {
            sessions::Error::Session(session::Error::Partial(_) | session::Error::Nothing) => exit::PARTIAL,
            sessions::Error::Random(_) => exit::INTERNAL,
            _ => exit::USAGE,
        };
        let mut message = error.to_string();
        if let sessions::Error::Session(session::Error::Partial(reasons)) = &error {
            for reason in reasons.iter().take(5) {
                message.push_str(&format!("\n  {}", super::super::text::clean(&reason.detail)));
            }
        }
        Self::new(code, message)
    }
}
