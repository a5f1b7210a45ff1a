//! What errors of all model providers have in common.

use axum::http::StatusCode;
use serde_json::Value;

use super::ErrorResponse;
use crate::replay::sim::call::Failed;

/// An error that the clients of OpenAI and Anthropic, and all that ride on them, send once: the answer would be the same
/// again.
pub(super) fn once(status: StatusCode, body: Value) -> ErrorResponse {
    ErrorResponse { status, headers: vec![("x-should-retry", "false".to_owned())], body }
}

/// The status of a recorded failure; 500 when what was recorded is no failure's.
pub(super) fn recorded_status(failed: &Failed) -> StatusCode {
    let status = StatusCode::from_u16(failed.status).ok();
    status.filter(|s| (400..600).contains(&s.as_u16())).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// What clients show. The rest of a body reaches nobody, so that it is never empty.
pub(super) fn message(recorded: &str, status: StatusCode) -> String {
    if !recorded.is_empty() {
        return recorded.to_owned();
    }
    format!("the recorded call failed with status {}; its message was not recorded", status.as_u16())
}
