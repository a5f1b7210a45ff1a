//! `POST /v1/sql`: a read-only query over the tenant's tables.

use std::sync::Arc;

use axum::{
    Json,
    extract::{State, rejection::JsonRejection},
};
use serde::Deserialize;
use serde_json::Value;

use super::{
    Api, ContentReader,
    problem::{Code, Problem},
    runs::blocking,
};
use crate::store::sql::Error;

/// The body of a query.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Query {
    query: String,
}

/// `{columns, rows, truncated}`; a row is an object.
pub(super) async fn post(
    ContentReader(access): ContentReader,
    State(api): State<Arc<Api>>,
    query: Result<Json<Query>, JsonRejection>,
) -> Result<Json<Value>, Problem> {
    let Json(query) = query.map_err(|error| Problem::because(Code::InvalidBody, error.body_text()))?;
    let store = api.store.clone();
    let relations = blocking(move || Ok(store.relations(&access.tenant)?)).await?;
    let answer = api.sql.rows(relations, &query.query).await;
    answer.map(Json).map_err(|error| match error {
        Error::Failed(_) => Problem::because(Code::Internal, error),
        error => Problem::because(Code::InvalidBody, error),
    })
}
