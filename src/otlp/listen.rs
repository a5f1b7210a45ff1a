//! The accept loop of every port: timeouts of headers and of idle connections, connection cap, HTTP/2 limits, drain.

mod places;

use std::{io, pin::pin, sync::Arc, time::Duration};

use axum::Router;
use hyper::service::{Service, service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
    service::TowerToHyperService,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::config::otlp::Settings;
use places::{Place, Places};

/// Requests that one HTTP/2 connection may have under way.
const STREAMS_MAX: u32 = 128;
/// Bytes of the headers of one request.
const HEADERS_BYTES_MAX: u32 = 64 << 10;
/// What an HTTP/2 client sends first (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Serves `router` on `listener` until `stop`; then requests that were begun are ended, and it returns.
pub async fn serve(listener: TcpListener, router: Router, settings: Settings, stop: CancellationToken) {
    let (places, connections) = (Places::new(settings.connections_max), TaskTracker::new());
    let server = server(&settings);
    let settings = Arc::new(settings);
    loop {
        let stream = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Out of file descriptors, or a peer that left early: neither ends the loop.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        let _ = stream.set_nodelay(true);
        let connection = Connection { stream, place: places.take(), server: server.clone() };
        drop(connections.spawn(connection.attend(router.clone(), settings.clone(), stop.clone())));
    }
    drop(listener);
    let _ = connections.close();
    connections.wait().await;
}

/// A connection that was accepted.
struct Connection {
    stream: TcpStream,
    place: Place,
    server: auto::Builder<TokioExecutor>,
}

impl Connection {
    /// Serves it until it ends, its place goes to another, or `stop`.
    async fn attend(self, router: Router, settings: Arc<Settings>, stop: CancellationToken) {
        let Self { stream, place, server } = self;
        // Which HTTP version it is cannot be told before the first bytes, and no timer of hyper runs until then.
        let wait = Duration::from_secs(settings.header_timeout_s);
        let version = tokio::select! {
            () = stop.cancelled() => return,
            () = place.evicted() => return,
            version = tokio::time::timeout(wait, version(&stream)) => version,
        };
        let server = match version {
            Ok(Ok(Some(Version::Http1))) => server.http1_only(),
            Ok(Ok(Some(Version::Http2))) => server.http2_only(),
            Ok(Ok(None) | Err(_)) | Err(_) => return,
        };
        let (service, activity) = (TowerToHyperService::new(router), place.activity());
        let counted = activity.clone();
        let service = service_fn(move |request| {
            let (under_way, answer) = (counted.begin(), service.call(request));
            async move {
                let answer = answer.await;
                drop(under_way);
                answer
            }
        });
        let mut connection = pin!(server.serve_connection(TokioIo::new(stream), service).into_owned());
        let idle = Duration::from_secs(settings.idle_timeout_s);
        let mut ending = false;
        loop {
            tokio::select! {
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        tracing::debug!(%error, "connection ended");
                    }
                    return;
                }
                () = place.evicted() => return,
                () = stop.cancelled(), if !ending => ending = true,
                () = tokio::time::sleep(activity.idle_left(idle)), if !ending => {
                    ending = activity.idle_left(idle).is_zero();
                }
            }
            if ending {
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

/// How many connections each of so many listeners may have, of `wanted`: half of the files that the process may open,
/// or all but 512, whichever is more. The log and the tables need the others. Raises the process's own limit as far as it may.
pub fn connections_max(wanted: usize, listeners: usize) -> usize {
    let allowed = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: allowed.maximum, ..allowed };
    let files = if setrlimit(Resource::Nofile, raised).is_ok() { raised.current } else { allowed.current };
    let Some(files) = files.and_then(|files| usize::try_from(files).ok()) else { return wanted };
    let places = (files / 2).max(files.saturating_sub(512)) / listeners.max(1);
    if places < wanted {
        tracing::warn!(
            files,
            places,
            "fewer connections than otlp.connections_max: the limit of open files is low"
        );
    }
    places.min(wanted)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Http1,
    Http2,
}

/// Which HTTP version the peer speaks, as soon as its bytes tell; `None` when it closed before. Reads nothing away.
async fn version(stream: &TcpStream) -> io::Result<Option<Version>> {
    let (mut bytes, mut wait) = ([0; PREFACE.len()], Duration::from_millis(1));
    loop {
        let count = stream.peek(&mut bytes).await?;
        let seen = bytes.get(..count).unwrap_or_default();
        if seen.is_empty() {
            return Ok(None);
        }
        if !PREFACE.starts_with(seen) {
            return Ok(Some(Version::Http1));
        }
        if seen == PREFACE {
            return Ok(Some(Version::Http2));
        }
        // Bytes that were peeked at stay readable, so that waiting for more is waiting for time: as long again as it
        // was waited, since thousands of peers may dawdle.
        tokio::time::sleep(wait).await;
        wait = (2 * wait).min(Duration::from_secs(1));
    }
}

fn server(settings: &Settings) -> auto::Builder<TokioExecutor> {
    let mut server = auto::Builder::new(TokioExecutor::new());
    let wait = Duration::from_secs(settings.header_timeout_s);
    let _ = server.http1().timer(TokioTimer::new()).header_read_timeout(wait).max_headers(100);
    let _ = server
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADERS_BYTES_MAX)
        .max_pending_accept_reset_streams(20)
        .keep_alive_interval(Some(wait))
        .keep_alive_timeout(wait)
        .adaptive_window(true);
    server
}

#[cfg(test)]
mod tests;
