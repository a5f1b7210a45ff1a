//! Bodies of requests, within a size and a time.

use std::{sync::Arc, time::Duration};

use axum::{
    body::Bytes,
    extract::{FromRequest, Request},
};
use http_body_util::{BodyExt, LengthLimitError, Limited};

use super::{
    Api,
    problem::{Code, Problem},
};

/// The whole body. It comes last among a handler's arguments: who is not let in sends none.
pub(super) struct Whole(pub(super) Bytes);

impl FromRequest<Arc<Api>> for Whole {
    type Rejection = Problem;

    async fn from_request(request: Request, api: &Arc<Api>) -> Result<Self, Problem> {
        let limits = &api.limits;
        let whole = Limited::new(request.into_body(), limits.body_bytes_max).collect();
        match tokio::time::timeout(Duration::from_secs(limits.body_timeout_s), whole).await {
            Err(_) => Err(Problem::because(Code::BodyTimeout, "api.body_timeout_s")),
            Ok(Ok(body)) => Ok(Self(body.to_bytes())),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                Err(Problem::because(Code::BodyTooLarge, "api.body_bytes_max"))
            }
            Ok(Err(_)) => Err(Problem::because(Code::InvalidBody, "the body broke off")),
        }
    }
}
