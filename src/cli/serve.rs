//! `spanreel serve`.

use std::{
    io::Write,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use clap::Args;
use tokio::runtime::Runtime;

use super::{Failure, failure::exit};
use crate::{
    api::Addresses,
    config::Config,
    server::{Server, stop_signal},
};

#[derive(Args, Debug, Default)]
pub(super) struct Arguments {
    /// Configuration file; `check-config --reference` prints one
    #[arg(long, value_name = "FILE", env = "SPANREEL_CONFIG")]
    config: Option<PathBuf>,
    /// Data folder [default: ./spanreel-data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// OTLP/gRPC [default: 127.0.0.1:4317]
    #[arg(long, value_name = "ADDRESS")]
    listen_otlp_grpc: Option<SocketAddr>,
    /// OTLP/HTTP [default: 127.0.0.1:4318]
    #[arg(long, value_name = "ADDRESS")]
    listen_otlp_http: Option<SocketAddr>,
    /// API, metrics, health [default: 127.0.0.1:4319]
    #[arg(long, value_name = "ADDRESS")]
    listen_api: Option<SocketAddr>,
}

pub(super) fn run(arguments: Arguments, out: &mut dyn Write) -> Result<u8, Failure> {
    let config = arguments.load()?;
    runtime()?.block_on(async {
        let stop = stop_signal()?;
        let data = config.data.clone();
        let server = Server::start(config).await?;
        announce(&server.addresses(), &data, out)?;
        server.run_until(stop).await?;
        Ok(exit::DONE)
    })
}

impl Arguments {
    /// The configuration that holds: defaults, file, environment, flags; the later wins.
    fn load(self) -> Result<Config, Failure> {
        let loaded = Config::load(self.config.as_deref(), std::env::vars())?;
        for variable in &loaded.ignored {
            tracing::warn!(variable, "names no option, and is ignored");
        }
        let mut config = loaded.config;
        let set = |option: &mut SocketAddr, flag: Option<SocketAddr>| *option = flag.unwrap_or(*option);
        set(&mut config.listen.otlp_grpc, self.listen_otlp_grpc);
        set(&mut config.listen.otlp_http, self.listen_otlp_http);
        set(&mut config.listen.api, self.listen_api);
        config.data = self.data.unwrap_or(config.data);
        Ok(config)
    }
}

pub(super) fn runtime() -> Result<Runtime, Failure> {
    Runtime::new().map_err(|error| Failure::new(exit::INTERNAL, format!("cannot start threads: {error}")))
}

/// Says where the server listens.
pub(super) fn announce(at: &Addresses, data: &Path, out: &mut dyn Write) -> Result<(), Failure> {
    writeln!(out, "OTLP/gRPC  {}", at.otlp_grpc)?;
    writeln!(out, "OTLP/HTTP  http://{}", at.otlp_http)?;
    writeln!(out, "API        http://{}", at.api)?;
    writeln!(out, "data       {}", data.display())?;
    out.flush()?;
    Ok(())
}
