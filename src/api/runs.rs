//! Runs, and what is known of one.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, Query, State, rejection::QueryRejection},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Api, ContentReader, Reader,
    problem::{Code, Problem},
};
use crate::{
    access::Access,
    otlp::record::TraceId,
    replay::{diff::diff as compare, document, export},
    run::Run,
    store::{Found, RunFilter, RunRow},
};

/// Runs or steps on a page when the caller does not say.
const PAGE_DEFAULT: usize = 50;
/// The most that a page holds.
const PAGE_MAX: usize = 500;

/// What `GET /v1/runs` can be asked.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunsQuery {
    #[serde(flatten)]
    filter: RunFilter,
    cursor: Option<String>,
    limit: Option<usize>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PageQuery {
    cursor: Option<usize>,
    limit: Option<usize>,
}

type Answer<T> = Result<T, Problem>;

pub(super) async fn list(
    Reader(access): Reader,
    State(api): State<Arc<Api>>,
    query: Result<Query<RunsQuery>, QueryRejection>,
) -> Answer<Json<Value>> {
    let Query(query) = query.map_err(invalid_parameter)?;
    let limit = page_limit(query.limit)?;
    let may_read_content = access.may_read_content();
    let page = blocking(move || {
        api.store.runs(&access.tenant, &query.filter, query.cursor.as_deref(), limit).map_err(Problem::from)
    })
    .await?;
    let items: Vec<RunRow> = page.items.into_iter().map(|row| shown(row, may_read_content)).collect();
    Ok(Json(json!({"items": items, "next_cursor": page.next_cursor})))
}

pub(super) async fn row(
    Reader(access): Reader,
    State(api): State<Arc<Api>>,
    Path(id): Path<String>,
) -> Answer<Response> {
    with_run(api, access, id, "", |access, run| Ok(json!(shown(RunRow::of(run), access.may_read_content()))))
        .await
}

/// A failure's message is often what a tool answered.
fn shown(mut row: RunRow, may_read_content: bool) -> RunRow {
    if let Some(error) = row.error.as_mut().filter(|_| !may_read_content) {
        error.message = None;
    }
    row
}

pub(super) async fn replay(
    ContentReader(access): ContentReader,
    State(api): State<Arc<Api>>,
    Path(id): Path<String>,
) -> Answer<Response> {
    with_run(api, access, id, "/replay", |access, run| Ok(document::replay(&access.tenant, run))).await
}

pub(super) async fn tree(
    Reader(access): Reader,
    State(api): State<Arc<Api>>,
    Path(id): Path<String>,
) -> Answer<Response> {
    with_run(api, access, id, "/tree", |_, run| Ok(document::tree(run))).await
}

pub(super) async fn steps(
    ContentReader(access): ContentReader,
    State(api): State<Arc<Api>>,
    Path(id): Path<String>,
    query: Result<Query<PageQuery>, QueryRejection>,
) -> Answer<Response> {
    let Query(query) = query.map_err(invalid_parameter)?;
    let limit = page_limit(query.limit)?;
    let from = query.cursor.unwrap_or_default();
    with_run(api, access, id, "/steps", move |_, run| Ok(document::steps(run, from, limit))).await
}

pub(super) async fn step(
    ContentReader(access): ContentReader,
    State(api): State<Arc<Api>>,
    Path((id, index)): Path<(String, String)>,
) -> Answer<Response> {
    let suffix = format!("/steps/{}", encode(&index));
    with_run(api, access, id, &suffix, move |_, run| {
        let at = index.parse::<usize>().ok().and_then(|index| run.steps.get(index));
        at.map(|step| document::step(run, step)).ok_or(Problem::new(Code::StepNotFound))
    })
    .await
}

/// What leads from one run to another; an alias of the other is taken for its run.
pub(super) async fn diff(
    ContentReader(access): ContentReader,
    State(api): State<Arc<Api>>,
    Path((id, other)): Path<(String, String)>,
) -> Answer<Response> {
    let suffix = format!("/diff/{}", encode(&other));
    let store = Arc::clone(&api.store);
    with_run(api, access, id, &suffix, move |access, run| {
        let found = match store.run(&access.tenant, &other)? {
            Some(Found::Alias(target)) => store.run(&access.tenant, &target)?,
            found => found,
        };
        match found {
            Some(Found::Run(other)) => Ok(json!(compare(run, &other))),
            _ => Err(Problem::new(Code::RunNotFound)),
        }
    })
    .await
}

/// The records of a run as one OTLP/JSON object: `resourceSpans` and `resourceLogs`.
pub(super) async fn otlp(
    ContentReader(access): ContentReader,
    State(api): State<Arc<Api>>,
    Path(id): Path<String>,
) -> Answer<Response> {
    blocking(move || match api.store.run_records(&access.tenant, &id)? {
        Some((found, records)) => answer(found, "/otlp", |_| Ok(export::object(&records))),
        None => Err(Problem::new(Code::RunNotFound)),
    })
    .await
}

/// The records of a trace, whether or not it holds a run.
pub(super) async fn trace_otlp(
    ContentReader(access): ContentReader,
    State(api): State<Arc<Api>>,
    Path(id): Path<String>,
) -> Answer<Json<Value>> {
    let trace: TraceId = id.parse().map_err(|_| Problem::new(Code::TraceNotFound))?;
    blocking(move || {
        let records = api.store.trace_records(&access.tenant, trace)?;
        if records.is_empty() {
            Err(Problem::new(Code::TraceNotFound))
        } else {
            Ok(Json(export::object(&records)))
        }
    })
    .await
}

/// Every record of the tenant: one OTLP/JSON request a line.
pub(super) async fn all_otlp(
    ContentReader(access): ContentReader,
    State(api): State<Arc<Api>>,
) -> Answer<Response> {
    let body = blocking(move || Ok(export::lines(&api.store.all_records(&access.tenant)?))).await?;
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response())
}

/// Answers with what `document` makes of a run; an alias is answered by a redirect to `suffix` under its run.
pub(super) async fn with_run<F>(
    api: Arc<Api>,
    access: Access,
    id: String,
    suffix: &str,
    document: F,
) -> Answer<Response>
where
    F: FnOnce(&Access, &Run) -> Answer<Value> + Send + 'static,
{
    let suffix = suffix.to_owned();
    blocking(move || match api.store.run(&access.tenant, &id)? {
        Some(found) => answer(found, &suffix, |run| document(&access, run)),
        None => Err(Problem::new(Code::RunNotFound)),
    })
    .await
}

/// An alias is answered by a redirect to `suffix` under its run.
pub(super) fn answer(
    found: Found,
    suffix: &str,
    document: impl FnOnce(&Run) -> Answer<Value>,
) -> Answer<Response> {
    match found {
        Found::Run(run) => Ok(Json(document(&run)?).into_response()),
        Found::Alias(target) => {
            let location = format!("/v1/runs/{}{suffix}", encode(&target));
            Ok((StatusCode::PERMANENT_REDIRECT, [(header::LOCATION, location)]).into_response())
        }
        Found::Checkpoints(_) => Err(Problem::new(Code::RunNotFound)),
    }
}

/// Runs what reads files off the threads that serve sockets.
pub(super) async fn blocking<T, F>(work: F) -> Answer<T>
where
    T: Send + 'static,
    F: FnOnce() -> Answer<T> + Send + 'static,
{
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        tracing::error!(%error, "a reader ended early");
        Problem::new(Code::Internal)
    })?
}

fn page_limit(asked: Option<usize>) -> Answer<usize> {
    match asked {
        Some(0) => Err(Problem::because(Code::InvalidParameter, "limit is at least 1")),
        asked => Ok(asked.unwrap_or(PAGE_DEFAULT).min(PAGE_MAX)),
    }
}

fn invalid_parameter(rejection: QueryRejection) -> Problem {
    Problem::because(Code::InvalidParameter, rejection.body_text())
}

fn encode(segment: &str) -> String {
    utf8_percent_encode(segment, NON_ALPHANUMERIC).to_string()
}
