//! `POST /v1/sql`: a read-only query over the tenant's tables.

use std::sync::Arc;

use arrow::json::ArrayWriter;
use axum::{Json, extract::State};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Api, ContentReader,
    problem::{Code, Problem},
    runs::blocking,
};
use crate::store::sql::Error;

/// Rows of one answer; more are cut, and the answer says so.
const ROWS_MAX: usize = 10_000;

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
    Json(query): Json<Query>,
) -> Result<Json<Value>, Problem> {
    let store = api.store.clone();
    let relations = blocking(move || Ok(store.relations(&access.tenant)?)).await?;
    let answer = api.sql.collect(relations, &query.query, ROWS_MAX + 1).await;
    let (schema, batches) = answer.map_err(|error| match error {
        Error::Failed(_) => Problem::because(Code::Internal, error),
        error => Problem::because(Code::InvalidBody, error),
    })?;
    let internal = |error: &dyn std::fmt::Display| Problem::because(Code::Internal, error.to_string());
    let mut writer = ArrayWriter::new(Vec::new());
    for batch in &batches {
        writer.write(batch).map_err(|e| internal(&e))?;
    }
    writer.finish().map_err(|e| internal(&e))?;
    let bytes = writer.into_inner();
    let mut rows: Vec<Value> = if bytes.is_empty() {
        Vec::new()
    } else {
        serde_json::from_slice(&bytes).map_err(|e| internal(&e))?
    };
    let truncated = rows.len() > ROWS_MAX;
    rows.truncate(ROWS_MAX);
    let columns: Vec<&String> = schema.fields().iter().map(|f| f.name()).collect();
    Ok(Json(json!({"columns": columns, "rows": rows, "truncated": truncated})))
}
