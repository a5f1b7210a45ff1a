//! The server: load -> build -> spawn -> drain, in that order.

use std::{
    future::Future,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::{
    access::{self, Keys},
    api::{self, Addresses, Api, sim::sessions::Sessions},
    clock::SystemClock,
    config::{self, Config, Listen},
    otlp::{Receiver, grpc, http, listen},
    store::{self, Mode, Store},
    telemetry::Metrics,
};

/// How long requests that were begun may take after a stop was asked for; below the 30 s that orchestrators wait.
const DRAIN_DEADLINE: Duration = Duration::from_secs(20);

/// Ports that a server listens on.
const LISTENERS: usize = 3;

/// Why the server did not start, or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The keys, or an address that they do not protect.
    #[error(transparent)]
    Access(#[from] access::Error),
    /// The data folder.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {source}; choose another with {flag}, port 0 takes any free one")]
    Bind {
        /// The flag that sets it.
        flag: &'static str,
        /// The address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The query engine.
    #[cfg(feature = "sql")]
    #[error(transparent)]
    Sql(#[from] store::sql::Error),
    /// The write-ahead log takes no more frames.
    #[error(
        "the write-ahead log failed, nothing can be acknowledged; see the log, repair the disk, start again"
    )]
    Poisoned,
    /// A signal handler or a socket failed.
    #[error("the system refused what a server needs: {0}")]
    System(#[from] std::io::Error),
}

/// Each address of the configuration with the flag that sets it.
pub fn flags(listen: &Listen) -> [(&'static str, SocketAddr); 3] {
    [
        ("--listen-otlp-grpc", listen.otlp_grpc),
        ("--listen-otlp-http", listen.otlp_http),
        ("--listen-api", listen.api),
    ]
}

/// A server that takes requests.
#[derive(Debug)]
pub struct Server {
    addresses: Addresses,
    store: Arc<Store>,
    api: Arc<Api>,
    stop: CancellationToken,
    listeners: JoinSet<()>,
}

impl Server {
    /// Starts a server. When it returns, the folder is recovered and all three ports take requests.
    pub async fn start(config: Config) -> Result<Self, Error> {
        // Load: everything that can be refused without touching a port or the disk.
        let keys = Arc::new(Keys::new(&config.access)?);
        for (flag, address) in flags(&config.listen) {
            keys.allow_bind(flag, address)?;
        }

        // Build: ports before the folder, so that a taken port leaves the folder alone.
        let [otlp_grpc, otlp_http, api_listener] = bind(&config.listen).await?;
        let addresses = Addresses {
            otlp_grpc: otlp_grpc.local_addr()?,
            otlp_http: otlp_http.local_addr()?,
            api: api_listener.local_addr()?,
        };
        let metrics = Arc::new(Metrics::default());
        let clock = Arc::new(SystemClock::default());
        let store =
            Store::open(&config.data, config.store, config.wal, clock, metrics.clone(), Mode::ReadWrite)?;
        store.announce(addresses.api)?;
        let receiver = Receiver::new(config.otlp.clone(), store.clone(), keys.clone(), metrics.clone());
        let api = Arc::new(Api {
            store: store.clone(),
            keys,
            metrics,
            addresses,
            ready: AtomicBool::new(true),
            sessions: Arc::new(Sessions::new(config.simulation.clone())),
            limits: config.api.clone(),
            #[cfg(feature = "sql")]
            sql: store::sql::Engine::new(&config.sql)?,
            local_only: addresses.api.ip().is_loopback(),
        });

        // Spawn.
        let stop = CancellationToken::new();
        let mut listeners = JoinSet::new();
        let connections_max = listen::connections_max(config.otlp.connections_max, LISTENERS);
        let settings = config::otlp::Settings { connections_max, ..config.otlp };
        let routers: [_; LISTENERS] = [
            (otlp_grpc, grpc::router(receiver.clone()), settings.clone()),
            (otlp_http, http::router(receiver), settings.clone()),
            (api_listener, api::router(api.clone()), config.api.listener(settings)),
        ];
        for (listener, router, settings) in routers {
            let _ = listeners.spawn(listen::serve(listener, router, settings, stop.clone()));
        }
        tracing::info!(otlp_grpc = %addresses.otlp_grpc, otlp_http = %addresses.otlp_http, api = %addresses.api, "listening");
        Ok(Self { addresses, store, api, stop, listeners })
    }

    /// Where it listens; the ports that were found for port 0.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Serves until `stop` resolves or the log fails, then drains. A second signal ends the process at once.
    pub async fn run_until(self, stop: impl Future<Output = ()>) -> Result<(), Error> {
        let failed = self.store.poisoned();
        let poisoned = tokio::select! {
            () = stop => false,
            () = failed => true,
        };
        self.drain().await?;
        if poisoned { Err(Error::Poisoned) } else { Ok(()) }
    }

    /// No new requests; those that were begun end, or the deadline does; what is in memory goes to the tables. What
    /// does not get there is in the write-ahead log, so nothing acknowledged depends on this.
    async fn drain(mut self) -> Result<(), Error> {
        tracing::info!("draining");
        self.api.ready.store(false, Ordering::SeqCst);
        self.stop.cancel();
        let all = async { while self.listeners.join_next().await.is_some() {} };
        if timeout(DRAIN_DEADLINE, all).await.is_err() {
            tracing::warn!(deadline_s = DRAIN_DEADLINE.as_secs(), "requests were cut at the deadline");
        }
        let store = self.store;
        match tokio::task::spawn_blocking(move || store.drain()).await {
            Ok(result) => Ok(result?),
            Err(error) => Err(Error::System(std::io::Error::other(error))),
        }
    }
}

/// Resolves at SIGTERM or SIGINT. From then on a second one ends the process at once, with exit code 130.
pub fn stop_signal() -> Result<impl Future<Output = ()>, Error> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        let mut next = async || {
            tokio::select! {
                _ = terminate.recv() => (),
                _ = interrupt.recv() => (),
            }
        };
        next().await;
        drop(tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => (),
                _ = interrupt.recv() => (),
            }
            std::process::exit(130);
        }));
    })
}

async fn bind(listen: &Listen) -> Result<[TcpListener; 3], Error> {
    let bind = async |(flag, address): (&'static str, SocketAddr)| {
        TcpListener::bind(address).await.map_err(|source| Error::Bind { flag, address, source })
    };
    let [grpc, http, api] = flags(listen);
    Ok([bind(grpc).await?, bind(http).await?, bind(api).await?])
}
