//! The HTTP API: routes, and who may take them.

pub mod host;
pub mod problem;
mod body;
mod checkpoints;
mod runs;
#[cfg(feature = "sql")]
mod sql;

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::{
    Json, Router,
    extract::{FromRequestParts, Request, State},
    http::{StatusCode, header, request::Parts},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use serde::Serialize;

use crate::{
    access::{Access, Keys},
    config,
    store::Store,
    telemetry::Metrics,
};
use problem::{Code, Problem};

/// What the handlers share.
#[derive(Debug)]
pub struct Api {
    /// Where the records are.
    pub store: Arc<Store>,
    /// Who is let in.
    pub keys: Arc<Keys>,
    /// What `/metrics` shows.
    pub metrics: Arc<Metrics>,
    /// Where the server listens; `import` asks for the OTLP port of the server that holds a folder.
    pub addresses: Addresses,
    /// True while the server takes telemetry; `/readyz` tells it.
    pub ready: AtomicBool,
    /// Of bodies.
    pub limits: config::api::Settings,
    /// Answers queries.
    #[cfg(feature = "sql")]
    pub sql: crate::store::sql::Engine,
    /// True when the API listens on loopback: then only local names are taken.
    pub local_only: bool,
}

/// Where a server listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct Addresses {
    pub otlp_grpc: SocketAddr,
    pub otlp_http: SocketAddr,
    pub api: SocketAddr,
}

/// The routes of the API.
pub fn router(api: Arc<Api>) -> Router {
    let router = Router::new()
        .route("/v1/runs", get(runs::list))
        .route("/v1/runs/{id}", get(runs::row))
        .route("/v1/runs/{id}/steps", get(runs::steps))
        .route("/v1/runs/{id}/steps/{index}", get(runs::step))
        .route("/v1/runs/{id}/replay", get(runs::replay))
        .route("/v1/runs/{id}/tree", get(runs::tree))
        .route("/v1/runs/{id}/otlp", get(runs::otlp))
        .route("/v1/runs/{id}/diff/{other}", get(runs::diff))
        .route("/v1/runs/{id}/checkpoints", get(checkpoints::list).post(checkpoints::post))
        .route("/v1/traces/{id}/otlp", get(runs::trace_otlp))
        .route("/v1/otlp", get(runs::all_otlp))
        .route("/v1/server", get(server));
    #[cfg(feature = "sql")]
    let router = router.route("/v1/sql", axum::routing::post(sql::post));
    #[cfg(not(feature = "sql"))]
    let router = router.route("/v1/sql", axum::routing::post(|| async { Problem::new(Code::WithoutSql) }));
    router
        .route("/metrics", get(metrics))
        .route("/readyz", get(ready))
        .fallback(|| async { Problem::new(Code::NotFound) })
        .method_not_allowed_fallback(|| async { Problem::new(Code::MethodNotAllowed) })
        .layer(middleware::from_fn_with_state(api.clone(), check_host))
        // Health probes name the host as they like, and learn nothing.
        .route("/healthz", get(|| async { StatusCode::OK }))
        .layer(middleware::from_fn(problem::write_envelope))
        .with_state(api)
}

async fn check_host(State(api): State<Arc<Api>>, request: Request, next: Next) -> Response {
    if api.local_only && !host::is_local(request.uri(), request.headers()) {
        return Problem::new(Code::HostNotAllowed).into_response();
    }
    next.run(request).await
}

async fn server(_: Access, State(api): State<Arc<Api>>) -> Json<Addresses> {
    Json(api.addresses)
}

async fn metrics(State(api): State<Arc<Api>>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], api.metrics.encode()).into_response()
}

async fn ready(State(api): State<Arc<Api>>) -> StatusCode {
    if api.ready.load(Ordering::SeqCst) { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

impl FromRequestParts<Arc<Api>> for Access {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, Problem> {
        let header = parts.headers.get(header::AUTHORIZATION);
        Ok(api.keys.admit(header.and_then(|v| v.to_str().ok()))?)
    }
}

/// [`Access`] that may read what runs did.
struct Reader(Access);

/// [`Access`] that may read content.
struct ContentReader(Access);

/// [`Access`] that may send records.
struct Writer(Access);

macro_rules! extract_access {
    ($name:ident, $allowed:ident) => {
        impl FromRequestParts<Arc<Api>> for $name {
            type Rejection = Problem;

            async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, Problem> {
                let access = Access::from_request_parts(parts, api).await?;
                if access.$allowed() { Ok(Self(access)) } else { Err(Problem::new(Code::Forbidden)) }
            }
        }
    };
}

extract_access!(Reader, may_read);
extract_access!(ContentReader, may_read_content);
extract_access!(Writer, may_write);
