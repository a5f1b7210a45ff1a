//! `POST /v1/sql`: a read-only query over the tenant's tables.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::Deserialize;
use serde_json::Value;

use super::{
    Api, ContentReader,
    body::Whole,
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
    Whole(body): Whole,
) -> Result<Json<Value>, Problem> {
    let query: Query =
        serde_json::from_slice(&body).map_err(|error| Problem::because(Code::InvalidBody, error))?;
    let store = api.store.clone();
    let relations = blocking(move || Ok(store.relations(&access.tenant)?)).await?;
    let answer = api.sql.rows(relations, &query.query).await;
    answer.map(Json).map_err(|error| match error {
        Error::Failed(_) => Problem::because(Code::Internal, error),
        error => Problem::because(Code::InvalidBody, error),
    })
}
