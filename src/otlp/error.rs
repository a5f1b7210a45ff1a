//! Why a request is refused, and the one table from that to status codes.

use std::time::Duration;

use http::StatusCode;
use tonic::Code;

use super::SinkError;

/// A refusal; nothing of the request was stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Over a limit that more memory would not change.
    #[error("the request is over {limit} = {value}; send smaller batches")]
    TooLarge {
        /// The setting.
        limit: &'static str,
        /// Its value.
        value: usize,
    },
    /// Not what it says it is.
    #[error("the request cannot be decoded: {0}")]
    Invalid(String),
    /// A content type that is not OTLP.
    #[error("content type {0:?} is not OTLP; use application/x-protobuf or application/json")]
    ContentType(String),
    /// A compression that is not known.
    #[error("content encoding {0:?} is not supported; use gzip, zstd or identity")]
    Encoding(String),
    /// Another method than POST.
    #[error("use POST")]
    Method,
    /// No such path or method.
    #[error("{0} is not served here; use /v1/traces or /v1/logs, or the OTLP gRPC services")]
    NotFound(String),
    /// No key, or an unknown one.
    #[error("{0}")]
    Unauthenticated(String),
    /// A key that may not write.
    #[error("{0}")]
    Forbidden(String),
    /// Too much is under way.
    #[error("the receiver is busy ({limit}); retry after {} s", retry_after.as_secs())]
    Busy {
        /// The setting that is exhausted.
        limit: &'static str,
        /// When to come back.
        retry_after: Duration,
    },
    /// The body did not come in time.
    #[error("the request's body did not arrive in time")]
    Slow,
    /// The log cannot take it now, or never.
    #[error("{}", .0.message)]
    Sink(SinkError),
    /// A bug.
    #[error("the receiver failed; the request was not stored")]
    Internal,
}

impl From<SinkError> for Error {
    fn from(error: SinkError) -> Self {
        Self::Sink(error)
    }
}

/// What a sender is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Over HTTP.
    pub http: StatusCode,
    /// Over gRPC, and in the body over HTTP.
    pub grpc: Code,
    /// When to send the same again; `None` for never.
    pub retry_after: Option<Duration>,
}

impl Error {
    /// The codes of this refusal. Retryable ones map only to codes that OTLP calls retryable, and the others never do.
    pub fn verdict(&self) -> Verdict {
        let never = |http, grpc| Verdict { http, grpc, retry_after: None };
        let later = |retry_after| Verdict {
            http: StatusCode::SERVICE_UNAVAILABLE,
            grpc: Code::Unavailable,
            retry_after: Some(retry_after),
        };
        match self {
            Self::TooLarge { .. } => never(StatusCode::PAYLOAD_TOO_LARGE, Code::ResourceExhausted),
            Self::Invalid(_) => never(StatusCode::BAD_REQUEST, Code::InvalidArgument),
            Self::ContentType(_) => never(StatusCode::UNSUPPORTED_MEDIA_TYPE, Code::InvalidArgument),
            Self::Encoding(_) => never(StatusCode::UNSUPPORTED_MEDIA_TYPE, Code::Unimplemented),
            Self::Method => never(StatusCode::METHOD_NOT_ALLOWED, Code::Unimplemented),
            Self::NotFound(_) => never(StatusCode::NOT_FOUND, Code::Unimplemented),
            Self::Unauthenticated(_) => never(StatusCode::UNAUTHORIZED, Code::Unauthenticated),
            Self::Forbidden(_) => never(StatusCode::FORBIDDEN, Code::PermissionDenied),
            Self::Busy { retry_after, .. } => later(*retry_after),
            Self::Slow => later(Duration::from_secs(1)),
            Self::Sink(SinkError { retry_after: Some(after), .. }) => later(*after),
            Self::Sink(SinkError { retry_after: None, .. }) => {
                never(StatusCode::PAYLOAD_TOO_LARGE, Code::ResourceExhausted)
            }
            // A bug fails the same way again.
            Self::Internal => never(StatusCode::INTERNAL_SERVER_ERROR, Code::Internal),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Error> {
        let sink = |retry_after| Error::Sink(SinkError { message: "m".into(), retry_after });
        vec![
            Error::TooLarge { limit: "l", value: 1 },
            Error::Invalid("i".into()),
            Error::ContentType("c".into()),
            Error::Encoding("e".into()),
            Error::Method,
            Error::NotFound("n".into()),
            Error::Unauthenticated("u".into()),
            Error::Forbidden("f".into()),
            Error::Busy { limit: "l", retry_after: Duration::from_secs(1) },
            Error::Slow,
            sink(Some(Duration::from_secs(2))),
            sink(None),
            Error::Internal,
        ]
    }

    /// Scenario: every refusal there is.
    /// Guarantee: a transient one is retried by a client that follows OTLP, a permanent one never is.
    #[test]
    fn a_permanent_refusal_is_retried_or_a_transient_one_is_not() {
        for error in all() {
            let verdict = error.verdict();
            let http_retries = matches!(verdict.http.as_u16(), 429 | 502 | 503 | 504);
            let grpc_retries = matches!(
                verdict.grpc,
                Code::Cancelled
                    | Code::DeadlineExceeded
                    | Code::Aborted
                    | Code::OutOfRange
                    | Code::Unavailable
                    | Code::DataLoss
            );
            assert_eq!(http_retries, verdict.retry_after.is_some(), "{error}");
            assert_eq!(grpc_retries, verdict.retry_after.is_some(), "{error}");
            assert!(verdict.retry_after.is_none_or(|d| d.as_secs() >= 1), "{error}");
        }
    }
}
