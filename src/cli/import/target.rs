//! Where an import goes: into a folder, or to the server that holds it, over its OTLP port.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use prost::Message;
use ureq::{Agent, http::StatusCode};

use super::{
    super::{
        Failure,
        failure::exit,
        source::{Place, Remote, open_store},
        text::clean,
    },
    LIMITS,
};
use crate::{
    genai,
    otlp::{
        self, Signal, json,
        record::{RecordHash, TraceId},
    },
    store::{self, Mode, Store},
    tenant::TenantId,
    wal::FrameKind,
};

/// Traces whose known records are remembered; then they are asked for anew.
const TRACES_REMEMBERED_MAX: usize = 10_000;
/// The longest that a server may take for one request.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// How often a request is sent again when a server asks for it.
const TRIES_MAX: u32 = 8;

/// Takes requests, and knows which records were there before.
pub(in crate::cli) struct Target {
    into: Into,
    known: HashMap<TraceId, HashSet<RecordHash>>,
}

enum Into {
    Folder { store: Arc<Store>, tenant: TenantId },
    Server { agent: Agent, otlp: String, key: Option<String>, api: Remote },
}

/// What became of a request.
#[derive(Debug, Default)]
pub(in crate::cli) struct Taken {
    /// Records that were not there before.
    pub(super) new: u64,
    /// Records that were.
    pub(super) known: u64,
    /// Log records without GenAI content: they are acknowledged, and not kept.
    pub(super) discarded: u64,
    /// Why some were refused.
    pub(super) rejected: Option<String>,
    rejected_by_server: u64,
}

impl Taken {
    /// Why not every record of the request is in the target now.
    pub(in crate::cli) fn refused(self) -> Option<String> {
        self.rejected
    }
}

/// Why nothing of a request was taken.
pub(in crate::cli) enum Refusal {
    /// It is no request, or no fit one.
    Request(String),
    /// The target failed: no other request can be taken either.
    Target(Failure),
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self::Target(failure)
    }
}

/// Why an export was refused.
#[derive(Clone, PartialEq, prost::Message)]
struct Refused {
    #[prost(string, tag = "2")]
    message: String,
}

/// The answers to both exports, which differ in names alone.
#[derive(Clone, PartialEq, prost::Message)]
struct Partial {
    #[prost(message, optional, tag = "1")]
    partial_success: Option<PartialSuccess>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct PartialSuccess {
    #[prost(int64, tag = "1")]
    rejected: i64,
    #[prost(string, tag = "2")]
    error_message: String,
}

impl Target {
    /// The data folder itself: a server that holds it would take what comes for the tenant of a key.
    pub(in crate::cli) fn folder(data: &Path, tenant: TenantId) -> Result<Self, Failure> {
        let store = open_store(data, Mode::ReadWrite)?;
        Ok(Self { into: Into::Folder { store, tenant }, known: HashMap::new() })
    }

    pub(in crate::cli) fn open(place: &Place) -> Result<Self, Failure> {
        let tenant = place.tenant()?;
        let into = match place.server()? {
            Some(url) => Into::server(url, place.key.clone())?,
            None => match open_store(&place.data, Mode::ReadWrite) {
                Ok(store) => Into::Folder { store, tenant },
                Err(store::Error::InUse { .. }) if !place.is_default_tenant() => return Err(Place::held()),
                Err(store::Error::InUse { api: Some(api), .. }) => {
                    Into::server(&format!("http://{api}"), place.key.clone())?
                }
                Err(error) => return Err(error.into()),
            },
        };
        Ok(Self { into, known: HashMap::new() })
    }

    /// Takes a request, and what of it is fit to be taken. Durable on return.
    ///
    /// # Errors
    /// [`Refusal::Request`] when nothing of it can be taken; [`Refusal::Target`] when the target failed.
    pub(in crate::cli) fn take(&mut self, signal: Signal, bytes: Bytes) -> Result<Taken, Refusal> {
        let (bytes, mut taken) = self.into.check(signal, bytes)?;
        let records = otlp::decode::records(signal, &bytes, 0, 0)
            .map_err(|error| Refusal::Request(format!("not a whole export request: {error}")))?;
        let mut fresh = Vec::new();
        for record in &records {
            if !self.known(record.trace_id())?.contains(&record.hash) {
                fresh.push((record.trace_id(), record.hash));
            }
        }
        taken.known = (records.len() - fresh.len()) as u64;
        if !fresh.is_empty() {
            self.into.send(signal, bytes, &mut taken)?;
        }
        for (trace, hash) in &fresh {
            let _ = self.known.entry(*trace).or_default().insert(*hash);
        }
        taken.discarded = records.iter().filter(|record| !genai::is_kept(record)).count() as u64;
        taken.new = (fresh.len() as u64).saturating_sub(taken.rejected_by_server + taken.discarded);
        Ok(taken)
    }

    /// Brings everything into the tables.
    pub(in crate::cli) fn finish(self) -> Result<(), Failure> {
        match self.into {
            Into::Folder { store, .. } => {
                store.settle_and_flush()?;
                Ok(store.drain()?)
            }
            // The server flushes by its own rules; what it acknowledged can be read at once.
            Into::Server { .. } => Ok(()),
        }
    }

    fn known(&mut self, trace: TraceId) -> Result<&HashSet<RecordHash>, Failure> {
        if !self.known.contains_key(&trace) {
            if self.known.len() >= TRACES_REMEMBERED_MAX {
                self.known.clear();
            }
            let there = self.into.records(trace)?;
            let _ = self.known.insert(trace, there);
        }
        Ok(self.known.entry(trace).or_default())
    }
}

impl Into {
    fn server(url: &str, key: Option<String>) -> Result<Self, Failure> {
        let api = Remote::new(url, key.clone())?;
        let at = api.get_json("/v1/server")?.unwrap_or_default();
        let otlp = at.get("otlp_http").and_then(serde_json::Value::as_str).map(|at| format!("http://{at}/"));
        let otlp =
            otlp.ok_or_else(|| Failure::new(exit::UNREACHABLE, format!("{url} is not the API of spanreel")))?;
        let config = Agent::config_builder().timeout_global(Some(ANSWER_TIMEOUT)).http_status_as_error(false);
        Ok(Self::Server { agent: config.build().into(), otlp, key, api })
    }

    /// What the receiver would let through. A server checks by itself: it alone knows the tenant of the key.
    fn check(&self, signal: Signal, bytes: Bytes) -> Result<(Bytes, Taken), Refusal> {
        let Self::Folder { tenant, .. } = self else { return Ok((bytes, Taken::default())) };
        let (bytes, counts) = otlp::scan::admit(signal, bytes, &LIMITS, tenant)
            .map_err(|error| Refusal::Request(error.to_string()))?;
        let mut taken = Taken::default();
        if counts.rejected > 0 {
            taken.rejected = Some(counts.message(signal));
        }
        Ok((bytes, taken))
    }

    fn send(&self, signal: Signal, bytes: Bytes, taken: &mut Taken) -> Result<(), Refusal> {
        let (kind, path) = match signal {
            Signal::Traces => (FrameKind::Traces, "/v1/traces"),
            Signal::Logs => (FrameKind::Logs, "/v1/logs"),
            Signal::Metrics => return Ok(()),
        };
        match self {
            Self::Folder { store, tenant } => {
                let appended = store.append_when_caught_up(tenant, kind, bytes).map_err(Failure::from)?;
                let _ = appended.wait().map_err(Failure::from)?;
            }
            Self::Server { agent, otlp, key, .. } => {
                let answer = post(agent, otlp, key.as_deref(), path, &bytes)?;
                let refused =
                    Partial::decode(&*answer).unwrap_or_default().partial_success.unwrap_or_default();
                if refused.rejected > 0 {
                    taken.rejected_by_server = refused.rejected.unsigned_abs();
                    taken.rejected = Some(refused.error_message);
                }
            }
        }
        Ok(())
    }

    /// Hashes of the records that are there under a trace.
    fn records(&self, trace: TraceId) -> Result<HashSet<RecordHash>, Failure> {
        match self {
            Self::Folder { store, tenant } => {
                Ok(store.trace_records(tenant, trace)?.iter().map(|record| record.hash).collect())
            }
            Self::Server { api, .. } => {
                let Some(text) = api.get(&format!("/v1/traces/{trace}/otlp"))? else {
                    return Ok(HashSet::new());
                };
                let bad = |error: otlp::Error| {
                    Failure::new(exit::UNREACHABLE, format!("the server's export: {error}"))
                };
                let mut hashes = HashSet::new();
                for signal in [Signal::Traces, Signal::Logs] {
                    let (bytes, _) = json::to_protobuf(signal, text.as_bytes(), &LIMITS).map_err(bad)?;
                    let records = otlp::decode::records(signal, &bytes, 0, 0).unwrap_or_default();
                    hashes.extend(records.iter().map(|record| record.hash));
                }
                Ok(hashes)
            }
        }
    }
}

/// Posts a request, and returns the answer's body; an overloaded server is given time.
fn post(agent: &Agent, otlp: &str, key: Option<&str>, path: &str, bytes: &[u8]) -> Result<Vec<u8>, Refusal> {
    let url = format!("{}{path}", otlp.trim_end_matches('/'));
    let failed = |said: String| Failure::new(exit::UNREACHABLE, format!("sending to {url} failed: {said}"));
    for attempt in 0..TRIES_MAX {
        let mut request = agent.post(&url).content_type("application/x-protobuf");
        if let Some(key) = key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let mut answer = request.send(bytes).map_err(|error| failed(error.to_string()))?;
        match answer.status() {
            StatusCode::OK => {
                return Ok(answer.body_mut().read_to_vec().map_err(|error| failed(error.to_string()))?);
            }
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                std::thread::sleep(Duration::from_millis(100 << attempt));
            }
            status => {
                let body = answer.body_mut().read_to_vec().unwrap_or_default();
                let why = clean(&Refused::decode(&*body).unwrap_or_default().message);
                let said = format!("the server answered {status}: {why}");
                return Err(match status {
                    // Others may be smaller, or better.
                    StatusCode::PAYLOAD_TOO_LARGE | StatusCode::BAD_REQUEST => Refusal::Request(said),
                    status => {
                        Failure::answered(status.as_u16(), format!("sending to {url} failed: {said}")).into()
                    }
                });
            }
        }
    }
    Err(failed("the server stayed overloaded".into()).into())
}
