//! Where an import goes: into a folder, or to the server that holds it, over its OTLP port.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use opentelemetry_proto::tonic::collector::{
    logs::v1::ExportLogsServiceRequest, trace::v1::ExportTraceServiceRequest,
};
use prost::Message;
use ureq::{Agent, http::StatusCode};

use super::{
    super::{
        Failure,
        failure::exit,
        source::{Place, Remote, open_store},
    },
    Decoded, LIMITS,
};
use crate::{
    otlp::{
        self, json,
        record::{Body, Origin, Record, RecordHash, TraceId},
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
pub(super) struct Target {
    into: Into,
    known: HashMap<TraceId, HashSet<RecordHash>>,
}

enum Into {
    Folder { store: Arc<Store>, tenant: TenantId },
    Server { agent: Agent, otlp: String, key: Option<String>, api: Remote },
}

impl Target {
    pub(super) fn open(place: &Place) -> Result<Self, Failure> {
        let tenant = place.tenant()?;
        let into = match &place.url {
            Some(url) => Into::server(url, place.key.clone())?,
            None => match open_store(place, Mode::ReadWrite) {
                Ok(store) => Into::Folder { store, tenant },
                Err(store::Error::InUse { api: Some(api), .. }) => {
                    Into::server(&format!("http://{api}"), place.key.clone())?
                }
                Err(error) => return Err(error.into()),
            },
        };
        Ok(Self { into, known: HashMap::new() })
    }

    /// Takes a request; returns the number of new records, and of those that were there already. Durable on return.
    pub(super) fn take(&mut self, request: &Decoded) -> Result<(u64, u64), Failure> {
        let (records, kind, path, bytes) = match request {
            Decoded::Traces(r) => (span_records(r), FrameKind::Traces, "/v1/traces", r.encode_to_vec()),
            Decoded::Logs(r) => (log_records(r), FrameKind::Logs, "/v1/logs", r.encode_to_vec()),
            Decoded::Metrics(_) => return Ok((0, 0)),
        };
        let mut fresh = Vec::new();
        for record in &records {
            if !self.known(record.trace_id())?.contains(&record.hash) {
                fresh.push((record.trace_id(), record.hash));
            }
        }
        if !fresh.is_empty() {
            self.into.send(kind, path, bytes)?;
        }
        for (trace, hash) in &fresh {
            let _ = self.known.entry(*trace).or_default().insert(*hash);
        }
        Ok((fresh.len() as u64, (records.len() - fresh.len()) as u64))
    }

    /// Brings everything into the tables.
    pub(super) fn finish(self) -> Result<(), Failure> {
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

    fn send(&self, kind: FrameKind, path: &str, bytes: Vec<u8>) -> Result<(), Failure> {
        match self {
            Self::Folder { store, tenant } => {
                let _ = store.append(tenant, kind, bytes.into())?.wait()?;
                Ok(())
            }
            Self::Server { agent, otlp, key, .. } => post(agent, otlp, key.as_deref(), path, &bytes),
        }
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
                let spans = span_records(&json::decode_traces(text.as_bytes(), &LIMITS).map_err(bad)?);
                let logs = log_records(&json::decode_logs(text.as_bytes(), &LIMITS).map_err(bad)?);
                Ok(spans.iter().chain(&logs).map(|record| record.hash).collect())
            }
        }
    }
}

/// Posts a request; an overloaded server is given time.
fn post(agent: &Agent, otlp: &str, key: Option<&str>, path: &str, bytes: &[u8]) -> Result<(), Failure> {
    let url = format!("{}{path}", otlp.trim_end_matches('/'));
    let failed = |said: String| Failure::new(exit::UNREACHABLE, format!("sending to {url} failed: {said}"));
    for attempt in 0..TRIES_MAX {
        let mut request = agent.post(&url).content_type("application/x-protobuf");
        if let Some(key) = key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let answer = request.send(bytes).map_err(|error| failed(error.to_string()))?;
        match answer.status() {
            StatusCode::OK => return Ok(()),
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                std::thread::sleep(Duration::from_millis(100 << attempt));
            }
            status => return Err(failed(format!("the server answered {status}"))),
        }
    }
    Err(failed("the server stayed overloaded".into()))
}

fn span_records(request: &ExportTraceServiceRequest) -> Vec<Record> {
    let mut records = Vec::new();
    for resource in &request.resource_spans {
        for scope in &resource.scope_spans {
            let origin = Arc::new(Origin {
                resource: resource.resource.clone().unwrap_or_default().into(),
                resource_schema_url: resource.schema_url.clone(),
                scope: scope.scope.clone(),
                scope_schema_url: scope.schema_url.clone(),
            });
            let of = |span: &_| Record::new(Body::Span(Clone::clone(span)), origin.clone(), 0, 0);
            records.extend(scope.spans.iter().map(of));
        }
    }
    records
}

fn log_records(request: &ExportLogsServiceRequest) -> Vec<Record> {
    let mut records = Vec::new();
    for resource in &request.resource_logs {
        for scope in &resource.scope_logs {
            let origin = Arc::new(Origin {
                resource: resource.resource.clone().unwrap_or_default().into(),
                resource_schema_url: resource.schema_url.clone(),
                scope: scope.scope.clone(),
                scope_schema_url: scope.schema_url.clone(),
            });
            let of = |log: &_| Record::new(Body::Log(Clone::clone(log)), origin.clone(), 0, 0);
            records.extend(scope.log_records.iter().map(of));
        }
    }
    records
}
