//! Checkpoints of a run: listed, and posted by agents that take them.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use super::{
    Api, ContentReader, Writer,
    body::Whole,
    problem::{Code, Problem},
    runs::{answer, blocking},
};
use crate::{otlp::record::Checkpoint, replay::document, store::Found, wal::FrameKind};

/// Longest run or checkpoint id, in bytes (design, section 4).
const ID_BYTES_MAX: usize = 256;

pub(super) async fn list(
    ContentReader(access): ContentReader,
    State(api): State<Arc<Api>>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    blocking(move || match api.store.run(&access.tenant, &id)? {
        // What was posted shows, even before the first span of its run.
        Some(Found::Checkpoints(posted)) => Ok(Json(document::checkpoints(&id, &posted)).into_response()),
        Some(found) => {
            answer(found, "/checkpoints", |run| Ok(document::checkpoints(&run.run_id, &run.checkpoints)))
        }
        None => Err(Problem::new(Code::RunNotFound)),
    })
    .await
}

/// Takes a checkpoint; 201 means that it is on disk. Its run need not be known yet: its spans may come later.
pub(super) async fn post(
    Writer(access): Writer,
    State(api): State<Arc<Api>>,
    Path(id): Path<String>,
    Whole(body): Whole,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let checkpoint = parse(&id, &body).map_err(|reason| Problem::because(Code::InvalidBody, reason))?;
    let frame = serde_json::to_vec(&checkpoint).map_err(|e| Problem::because(Code::InvalidBody, e))?;
    let appended =
        api.store.append(&access.tenant, FrameKind::Checkpoint, frame.into()).map_err(unavailable)?;
    let _ = appended.await.map_err(unavailable)?;
    let answer = json!({"run_id": checkpoint.run_id, "checkpoint_id": checkpoint.checkpoint_id});
    Ok((StatusCode::CREATED, Json(answer)))
}

fn unavailable(error: impl std::fmt::Display) -> Problem {
    tracing::warn!(%error, "a checkpoint was not taken");
    Problem::new(Code::Unavailable)
}

/// The body is a checkpoint; its run is that of the path, which the body may repeat.
fn parse(run_id: &str, body: &[u8]) -> Result<Checkpoint, String> {
    let mut value: Value = serde_json::from_slice(body).map_err(|e| e.to_string())?;
    let members = value.as_object_mut().ok_or("a JSON object is needed")?;
    let given = members.insert("run_id".into(), json!(run_id));
    if given.is_some_and(|given| given != json!(run_id)) {
        return Err("run_id differs from that of the path".into());
    }
    let checkpoint: Checkpoint = serde_json::from_value(value).map_err(|e| e.to_string())?;
    for (name, id) in [("run_id", &checkpoint.run_id), ("checkpoint_id", &checkpoint.checkpoint_id)] {
        if id.is_empty() || id.len() > ID_BYTES_MAX || id.chars().any(char::is_control) {
            return Err(format!("{name} is not 1 to {ID_BYTES_MAX} bytes without control characters"));
        }
    }
    Ok(checkpoint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_goes_to_another_run_than_the_path_says() {
        assert!(parse("r", br#"{"run_id":"other","checkpoint_id":"c"}"#).is_err());
        let taken = parse("r", br#"{"run_id":"r","checkpoint_id":"c","state":{"n":1}}"#).unwrap();
        assert_eq!((taken.run_id.as_str(), taken.checkpoint_id.as_str()), ("r", "c"));
    }

    #[test]
    fn a_body_that_is_no_checkpoint_is_stored() {
        let control = r#"{"checkpoint_id":"\u0007"}"#;
        let long = format!(r#"{{"checkpoint_id":"{}"}}"#, "c".repeat(257));
        for bad in
            ["", "[]", "{}", r#"{"checkpoint_id":""}"#, r#"{"checkpoint_id":"c","x":1}"#, control, &long]
        {
            assert!(parse("r", bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
