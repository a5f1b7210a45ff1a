//! Simulations of a run: made, watched and ended by those who may read its content.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header},
};
use serde_json::{Value, json};

use super::{
    Api, ContentReader,
    body::Whole,
    problem::{Code, Problem},
    runs::blocking,
    sim::sessions::{Error, Order, Simulation},
};
use crate::{
    replay::sim::{report::Report, session},
    run::Run,
    store::{Found, Store},
    tenant::TenantId,
};

/// Runs of one simulation.
const RUNS_MAX: usize = 100;

type Answer<T> = Result<T, Problem>;

pub(super) async fn create(
    ContentReader(access): ContentReader,
    State(api): State<Arc<Api>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Whole(body): Whole,
) -> Answer<(StatusCode, Json<Value>)> {
    let order: Order = match &*body {
        b"" => Order::default(),
        body => serde_json::from_slice(body).map_err(|e| Problem::because(Code::InvalidBody, e))?,
    };
    if order.with.len() >= RUNS_MAX {
        return Err(Problem::because(
            Code::InvalidBody,
            format!("a simulation takes at most {RUNS_MAX} runs"),
        ));
    }
    // Agents reach the server under the name that whoever made the simulation used.
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let origin = format!("http://{}", host.map_or_else(|| api.addresses.api.to_string(), str::to_owned));
    blocking(move || {
        let ids = std::iter::once(&id).chain(&order.with);
        let runs = ids.map(|id| find(&api.store, &access.tenant, id)).collect::<Answer<Vec<_>>>()?;
        let (secret, simulation) = api.sessions.open(access.tenant, runs, order).map_err(refused)?;
        Ok((StatusCode::CREATED, Json(simulation.document(&origin, &secret))))
    })
    .await
}

pub(super) async fn status(
    ContentReader(access): ContentReader,
    State(api): State<Arc<Api>>,
    Path(id): Path<String>,
) -> Answer<Json<Value>> {
    Ok(Json(known(&api, &access.tenant, &id)?.status()))
}

/// Lets go of the call that is held; the answer says which it was.
pub(super) async fn go_on(
    ContentReader(access): ContentReader,
    State(api): State<Arc<Api>>,
    Path(id): Path<String>,
) -> Answer<Json<Value>> {
    let simulation = known(&api, &access.tenant, &id)?;
    let released = simulation.go_on();
    let mut status = simulation.status();
    if let Some(members) = status.as_object_mut() {
        let _ = members.insert("released".into(), json!(released));
    }
    Ok(Json(status))
}

pub(super) async fn report(
    ContentReader(access): ContentReader,
    State(api): State<Arc<Api>>,
    Path(id): Path<String>,
) -> Answer<Json<Report>> {
    let simulation = known(&api, &access.tenant, &id)?;
    blocking(move || Ok(Json(simulation.report()))).await
}

/// Ends it, with the report.
pub(super) async fn end(
    ContentReader(access): ContentReader,
    State(api): State<Arc<Api>>,
    Path(id): Path<String>,
) -> Answer<Json<Report>> {
    let ended = api.sessions.close(&access.tenant, &id).ok_or(Problem::new(Code::SimulationNotFound))?;
    blocking(move || Ok(Json(ended.report()))).await
}

fn known(api: &Api, tenant: &TenantId, id: &str) -> Answer<Arc<Simulation>> {
    api.sessions.find(tenant, id).ok_or(Problem::new(Code::SimulationNotFound))
}

/// The run of that id or alias.
fn find(store: &Store, tenant: &TenantId, id: &str) -> Answer<Arc<Run>> {
    let found = store.run(tenant, id)?;
    let found = match found {
        Some(Found::Alias(target)) => store.run(tenant, &target)?,
        other => other,
    };
    match found {
        Some(Found::Run(run)) => Ok(run),
        _ => Err(Problem::because(Code::RunNotFound, format!("no run {id:?}"))),
    }
}

fn refused(error: Error) -> Problem {
    match &error {
        Error::Session(session::Error::Partial(reasons)) => {
            Problem::with(Code::PartialRun, json!({"reason": error.to_string(), "partial_reasons": reasons}))
        }
        Error::Session(session::Error::Nothing) => Problem::because(Code::PartialRun, error),
        Error::TooMany(_) => Problem::because(Code::TooManySimulations, error),
        Error::Random(_) => Problem::because(Code::Internal, error),
        _ => Problem::because(Code::InvalidBody, error),
    }
}
