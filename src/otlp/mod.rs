//! Bytes in, bytes acknowledged: bytes first, counts second, structs last (invariant 9).
//!
//! A request is admitted (memory and permits), inflated under a limit, scanned without allocation for counts, depth,
//! ids and wire validity, handed to a [`Sink`] as protobuf bytes, and acknowledged when the sink says that they are
//! durable. Structs are built later, under the store's budget. JSON is turned into protobuf first.
//!
//! | file | what it knows |
//! |---|---|
//! | `error` | why a request is refused; the one table of status codes |
//! | `admit` | permits and the memory budget |
//! | `inflate` | the only decompressor |
//! | `scan`, `splice` | the wire format: counts, limits; cutting out what can never be stored |
//! | `json` | the OTLP/JSON mapping, both ways |
//! | `decode`, `record` | protobuf bytes -> records |
//! | `http`, `grpc`, `listen` | the two transports, and the accept loop with its timeouts |

pub mod admit;
pub mod decode;
pub mod error;
#[cfg(test)]
pub(crate) mod fixtures;
pub mod grpc;
pub mod http;
pub mod inflate;
pub mod json;
pub mod listen;
pub mod record;
pub mod scan;
pub(crate) mod splice;

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use ::http::HeaderMap;
use bytes::Bytes;

use crate::{config::otlp::Settings, telemetry::Metrics, tenant::TenantId};
use admit::{Admission, Permit};
pub use error::Error;
use scan::Limits;

/// The signals of OTLP that are received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Signal {
    /// Spans.
    Traces,
    /// Log records.
    Logs,
    /// Metrics: accepted, counted, discarded.
    Metrics,
}

/// Takes the bytes of an export request and says when they are durable.
pub trait Sink: Send + Sync + 'static {
    /// Resolves when `bytes`, a protobuf export request of `signal`, are durable.
    fn append(
        &self,
        tenant: &TenantId,
        signal: Signal,
        bytes: Bytes,
    ) -> Pin<Box<dyn Future<Output = Result<(), SinkError>> + Send>>;
}

/// Why a sink did not take bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkError {
    /// What to tell the sender; no path, no content.
    pub message: String,
    /// When it may be tried again; `None` for never.
    pub retry_after: Option<Duration>,
}

/// Says who sends, from the headers of a request.
pub trait Authenticate: Send + Sync + 'static {
    /// The tenant that may write with these credentials.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`] without a known key, [`Error::Forbidden`] when the key may not write.
    fn writer(&self, headers: &HeaderMap) -> Result<TenantId, Error>;
}

/// What became of a request that was taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Spans or log records that can never be stored, and were left out.
    pub rejected: i64,
    /// Why, or a warning; empty on full success.
    pub message: String,
}

/// The receiver behind both transports; clones share it.
#[derive(Clone)]
pub struct Receiver {
    pub(crate) settings: Arc<Settings>,
    sink: Arc<dyn Sink>,
    auth: Arc<dyn Authenticate>,
    pub(crate) metrics: Arc<Metrics>,
    admission: Admission,
}

impl std::fmt::Debug for Receiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Receiver").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// How the bytes of a request are written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `application/x-protobuf`.
    Protobuf,
    /// `application/json`.
    Json,
}

impl Receiver {
    /// A receiver that hands what it takes to `sink`.
    pub fn new(
        settings: Settings,
        sink: Arc<dyn Sink>,
        auth: Arc<dyn Authenticate>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let admission = Admission::new(settings.memory_bytes_max, settings.requests_max);
        Self { settings: Arc::new(settings), sink, auth, metrics, admission }
    }

    /// Who sends; checked before the body is read.
    pub(crate) fn tenant(&self, headers: &HeaderMap) -> Result<TenantId, Error> {
        self.auth.writer(headers)
    }

    /// Lets a request send its body; refused here, none of it is waited for.
    pub(crate) fn admit(&self, headers: &HeaderMap) -> Result<Permit, Error> {
        let length =
            headers.get(::http::header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<usize>().ok());
        let bytes_max = self.settings.request_bytes_max;
        // Said in advance, it is refused in advance: a slow or large body would end as something that is retried.
        if length.is_some_and(|length| length > bytes_max.saturating_add(grpc::PREFIX_BYTES)) {
            return Err(Error::TooLarge { limit: "otlp.request_bytes_max", value: bytes_max });
        }
        self.admission.admit(length.unwrap_or_default().min(bytes_max))
    }

    /// Inflates, scans and appends one request. A success means that what was not rejected is durable.
    ///
    /// # Errors
    /// Whatever [`Error`] names; nothing of the request was stored then.
    pub(crate) async fn receive(
        &self,
        permit: Permit,
        tenant: TenantId,
        signal: Signal,
        format: Format,
        encoding: inflate::Encoding,
        body: Bytes,
    ) -> Result<Outcome, Error> {
        let answer = self.take(permit, tenant, signal, format, encoding, body).await;
        let _ = self.metrics.requests.inc();
        if let Err(error) = &answer {
            let _ = self.metrics.requests_refused.inc();
            tracing::debug!(%error, ?signal, "request refused");
        }
        answer
    }

    async fn take(
        &self,
        mut permit: Permit,
        tenant: TenantId,
        signal: Signal,
        format: Format,
        encoding: inflate::Encoding,
        body: Bytes,
    ) -> Result<Outcome, Error> {
        permit.take_place()?;
        let settings = self.settings.clone();
        let owner = tenant.clone();
        // Inflating and scanning can take milliseconds: not on the threads that serve connections.
        let work = move || -> Result<_, Error> {
            // A body that is inflated is held twice.
            let came = body.len();
            let grow = |held| permit.grow_to(came.saturating_add(held));
            let bytes = inflate::inflate(encoding, body, settings.request_bytes_max, grow)?;
            let limits = Limits::from(&*settings);
            let (bytes, points) = match format {
                Format::Protobuf => (bytes, 0),
                Format::Json => {
                    permit.grow_to(came.saturating_add(json::memory_bytes(bytes.len(), &limits)))?;
                    json::to_protobuf(signal, &bytes, &limits)?
                }
            };
            let (bytes, mut counts) = scan::admit(signal, bytes, &limits, &owner)?;
            counts.points += points;
            Ok((permit, bytes, counts))
        };
        let (permit, bytes, counts) =
            tokio::task::spawn_blocking(work).await.map_err(|_| Error::Internal)??;
        if signal == Signal::Metrics {
            let _ = self.metrics.metric_points_discarded.inc_by(counts.points);
            return Ok(Outcome::default());
        }
        if counts.kept() > 0 {
            self.sink.append(&tenant, signal, bytes).await?;
        }
        drop(permit);
        let _ = match signal {
            Signal::Traces => self.metrics.spans_accepted.inc_by(counts.kept()),
            Signal::Logs | Signal::Metrics => self.metrics.logs_accepted.inc_by(counts.kept()),
        };
        let _ = self.metrics.spans_rejected.inc_by(counts.rejected);
        Ok(Outcome {
            rejected: i64::try_from(counts.rejected).unwrap_or(i64::MAX),
            message: counts.message(signal),
        })
    }
}
