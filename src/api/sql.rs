//! `POST /v1/sql`: a read-only query over the tenant's tables.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::Deserialize;

use super::{
    Api, ContentReader,
    body::Whole,
    problem::{Code, Problem},
    runs::blocking,
};
use crate::store::sql::{Answer, Error};

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
) -> Result<Json<Answer>, Problem> {
    let query: Query =
        serde_json::from_slice(&body).map_err(|error| Problem::because(Code::InvalidBody, error))?;
    let store = api.store.clone();
    let relations = blocking(move || Ok(store.relations(&access.tenant)?)).await?;
    let answer = api.sql.rows(relations, &query.query).await;
    answer.map(Json).map_err(|error| match error {
        Error::Refused(_) => Problem::because(Code::InvalidBody, error),
        Error::TooLong(_) | Error::TooLarge(_) => Problem::because(Code::Unavailable, error),
        Error::Failed(_) => {
            tracing::warn!(%error, "a query failed");
            Problem::because(Code::Internal, error)
        }
    })
}
