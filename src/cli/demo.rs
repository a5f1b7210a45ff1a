//! `spanreel demo`: a server on its embedded defaults, a real agent's telemetry, and the run that it makes.

use std::{
    io::Write,
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    time::{Duration, Instant},
};

use clap::Args;
use serde_json::Value;

use super::{
    Failure,
    failure::exit,
    serve::{announce, runtime},
    source::{Remote, Source},
    steps::show,
};
use crate::{
    api::Addresses,
    config::Config,
    server::{Server, flags, stop_signal},
};

/// Export requests of one agent's run, as its instrumentation sent them.
const TELEMETRY: &[&[u8]] = &[
    include_bytes!("../../examples/agent/001.traces.pb"),
    include_bytes!("../../examples/agent/002.traces.pb"),
    include_bytes!("../../examples/agent/003.traces.pb"),
    include_bytes!("../../examples/agent/004.traces.pb"),
    include_bytes!("../../examples/agent/005.traces.pb"),
];
/// A run that has not settled by then is shown as it is.
const SETTLE_MAX: Duration = Duration::from_secs(20);
/// The trace that they are of: its id finds the run, whatever the run is called.
const TRACE: &str = "c552826261261fbccbece4577c4cfa62";

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// Data folder
    #[arg(long, value_name = "DIR", default_value = "./spanreel-data")]
    data: PathBuf,
    /// End after the run was shown
    #[arg(long)]
    once: bool,
}

pub(super) fn run(arguments: Arguments, out: &mut dyn Write) -> Result<u8, Failure> {
    let mut config = Config { data: arguments.data.clone(), ..Config::default() };
    use_free_ports(&mut config, out)?;
    runtime()?.block_on(async {
        let stop = stop_signal()?;
        let server = Server::start(config).await?;
        let at = server.addresses();
        announce(&at, &arguments.data, out)?;
        let sent = tokio::task::spawn_blocking(move || send_and_read(&at)).await;
        let document =
            sent.map_err(|error| Failure::new(exit::INTERNAL, format!("the sender ended early: {error}")))??;
        writeln!(out, "\nsent {} export requests of a real agent; its run:\n", TELEMETRY.len())?;
        show(&document, out)?;
        let (data, id) = (arguments.data.display(), super::text::member(&document, "run_id"));
        writeln!(out, "\nnext: spanreel replay {id}\n      --data {data}   (target/debug/spanreel where it is not installed)")?;
        if arguments.once {
            server.run_until(std::future::ready(())).await?;
            return Ok(exit::DONE);
        }
        writeln!(out, "send your own: OTEL_EXPORTER_OTLP_ENDPOINT=http://{}   (Ctrl-C ends)", at.otlp_http)?;
        out.flush()?;
        server.run_until(stop).await?;
        Ok(exit::DONE)
    })
}

/// A default port that is taken is replaced by any free one, and it is said.
fn use_free_ports(config: &mut Config, out: &mut dyn Write) -> Result<(), Failure> {
    let taken = flags(&config.listen).map(|(_, address)| TcpListener::bind(address).is_err());
    let addresses = [&mut config.listen.otlp_grpc, &mut config.listen.otlp_http, &mut config.listen.api];
    for (address, taken) in addresses.into_iter().zip(taken) {
        if taken {
            writeln!(out, "{address} is taken: using a free port")?;
            *address = SocketAddr::new(address.ip(), 0);
        }
    }
    Ok(())
}

/// Sends the telemetry over the wire; what is acknowledged can be read at once.
fn send_and_read(at: &Addresses) -> Result<Value, Failure> {
    for body in TELEMETRY {
        let request = ureq::post(format!("http://{}/v1/traces", at.otlp_http));
        let sent = request.content_type("application/x-protobuf").send(*body);
        let _ = sent.map_err(|error| Failure::new(exit::UNREACHABLE, format!("sending failed: {error}")))?;
    }
    let api = Remote::new(&format!("http://{}", at.api), None)?;
    // The verdict is final when the run has settled, some seconds after its root.
    let begun = Instant::now();
    loop {
        let document = api.replay(TRACE)?;
        if document.get("status").and_then(Value::as_str) != Some("running") || begun.elapsed() > SETTLE_MAX {
            return Ok(document);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}
