//! The accept loop of every port: header timeout, connection cap, HTTP/2 limits, drain.

use std::{io, sync::Arc, time::Duration};

use axum::Router;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulShutdown},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_util::sync::CancellationToken;

use crate::config::otlp::Settings;

/// Requests that one HTTP/2 connection may have under way.
const STREAMS_MAX: u32 = 128;
/// Bytes of the headers of one request.
const HEADERS_BYTES_MAX: u32 = 64 << 10;
/// What an HTTP/2 client sends first (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// An HTTP/2 connection that answers no ping for this long is closed.
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// Serves `router` on `listener` until `stop`; then requests that were begun are ended, and it returns.
pub async fn serve(listener: TcpListener, router: Router, settings: Settings, stop: CancellationToken) {
    let places = Arc::new(Semaphore::new(settings.connections_max));
    let graceful = GracefulShutdown::new();
    let server = server(&settings);
    let wait = Duration::from_secs(settings.header_timeout_s);
    loop {
        let place = tokio::select! {
            () = stop.cancelled() => break,
            place = places.clone().acquire_owned() => place,
        };
        // The semaphore is never closed.
        let Ok(place) = place else { break };
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
        let service = TowerToHyperService::new(router.clone());
        let (server, watcher, stopped) = (server.clone(), graceful.watcher(), stop.clone());
        drop(tokio::spawn(async move {
            // Which HTTP version it is cannot be told before the first bytes, and no timer of hyper runs until then.
            let version = tokio::select! {
                () = stopped.cancelled() => return,
                version = tokio::time::timeout(wait, version(&stream)) => version,
            };
            let server = match version {
                Ok(Ok(Some(Version::Http1))) => server.http1_only(),
                Ok(Ok(Some(Version::Http2))) => server.http2_only(),
                Ok(Ok(None) | Err(_)) | Err(_) => return,
            };
            let connection = server.serve_connection(TokioIo::new(stream), service).into_owned();
            let connection = watcher.watch(connection);
            if let Err(error) = connection.await {
                tracing::debug!(%error, "connection ended");
            }
            drop(place);
        }));
    }
    drop(listener);
    graceful.shutdown().await;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Http1,
    Http2,
}

/// Which HTTP version the peer speaks, as soon as its bytes tell; `None` when it closed before. Reads nothing away.
async fn version(stream: &TcpStream) -> io::Result<Option<Version>> {
    let mut bytes = [0; PREFACE.len()];
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
        // Bytes that were peeked at stay readable, so that waiting for more is waiting for time.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn server(settings: &Settings) -> auto::Builder<TokioExecutor> {
    let mut server = auto::Builder::new(TokioExecutor::new());
    let _ = server
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(settings.header_timeout_s))
        .max_headers(100);
    let _ = server
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADERS_BYTES_MAX)
        .max_pending_accept_reset_streams(20)
        .keep_alive_interval(Some(PING_TIMEOUT))
        .keep_alive_timeout(PING_TIMEOUT)
        .adaptive_window(true);
    server
}

#[cfg(test)]
mod tests;
