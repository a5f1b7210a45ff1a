//! An OpenTelemetry Collector before the server, with the configurations of `config/collector` as they are.
//!
//! `SPANREEL_RESTARTS` sets the number of restarts (3 by default; 20 before a release).

use std::{
    collections::BTreeMap,
    fs::File,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    harness::{Process, Server, built_by_go, captures, free_ports, json, new_key, output, restarts},
    load::Load,
};

/// Between two restarts, and how long the server is away.
const UP: Duration = Duration::from_millis(1_500);
const AWAY: Duration = Duration::from_millis(500);

/// How long the queues may take to empty after the last restart.
const DRAINED: Duration = Duration::from_secs(300);

/// Scenario: collectors send over gRPC and HTTP, with gzip and zstd, from queues on disk. The server is killed and
/// stopped in turn under them; each collector is killed once while the server is away.
/// Guarantee: what a collector accepted is there once; nothing is there that was never sent; no batch is dropped.
#[test]
fn a_restart_loses_what_a_collector_accepted() {
    let Some(program) = program() else { return };
    let world = World::new();
    let mut server = world.server();
    let collector = |file: &str, compression: &str| {
        let settings = world.settings(&server, &[("SPANREEL_COMPRESSION", compression)]);
        Collector::start(&program, file, settings)
    };
    let ways = [("grpc.yaml", "gzip"), ("grpc.yaml", "zstd"), ("http.yaml", "gzip"), ("http.yaml", "zstd")];
    let mut collectors = ways.map(|(file, compression)| collector(file, compression));
    let load = Load::start(collectors.iter().map(Collector::http).collect());
    let restarts = restarts();
    for restart in 0..restarts {
        std::thread::sleep(UP);
        server = world.restarted(server, restart, || {
            if restart == restarts / 2 {
                collectors.iter_mut().for_each(Collector::kill_and_start);
            }
        });
    }
    world.all_is_there(server, load, &collectors, restarts, "gRPC and HTTP, gzip and zstd");
}

/// Scenario: a collector chooses between two others by trace id; those send to the server, which is restarted. Each of
/// the three is killed once, one of the two while the server is there.
/// Guarantee: as above, and both had a part.
#[test]
fn a_balancer_loses_what_it_accepted() {
    let Some(program) = program() else { return };
    let world = World::new();
    let mut server = world.server();
    let behind = || Collector::start(&program, "grpc.yaml", world.settings(&server, &[]));
    let (first, second) = (behind(), behind());
    let chosen = [("COLLECTOR_1", &*first.grpc()), ("COLLECTOR_2", &*second.grpc())];
    let balancer = Collector::start(&program, "load-balancing.yaml", world.settings(&server, &chosen));
    let load = Load::start(vec![balancer.http()]);
    let mut collectors = [balancer, first, second];
    let restarts = restarts();
    for restart in 0..restarts {
        std::thread::sleep(UP);
        if restart == 0 {
            collectors[1].kill_and_start();
        }
        server = world.restarted(server, restart, || {
            if restart == restarts / 2 {
                collectors[0].kill_and_start();
                collectors[2].kill_and_start();
            }
        });
    }
    world.all_is_there(server, load, &collectors, restarts, "load balancing by trace id");
}

/// Scenario: every capture is sent to a collector that writes files, which is killed once; the files are imported.
/// Guarantee: the same runs as from the captures themselves, word for word.
#[test]
fn a_file_of_the_collector_gives_other_runs() {
    let Some(program) = program() else { return };
    let folder = tempfile::tempdir().unwrap();
    let files = folder.path().join("files");
    let settings = vec![("COLLECTOR_FILES".to_owned(), files.to_str().unwrap().to_owned())];
    let mut collector = Collector::start(&program, "file.yaml", settings);
    let captures = captures();
    for (number, capture) in captures.iter().enumerate() {
        if number == captures.len() / 2 {
            collector.kill_and_start();
        }
        for (signal, json, body) in requests(capture) {
            let url = format!("{}/v1/{signal}", collector.http());
            let kind = if json { "application/json" } else { "application/x-protobuf" };
            assert!(ureq::post(&url).content_type(kind).send(&body).is_ok(), "{capture:?}");
        }
    }
    drop(collector);
    let import = |name: &str, from: &[&Path]| {
        let data = folder.path().join(name).to_str().unwrap().to_owned();
        let paths = from.iter().map(|p| p.to_str().unwrap());
        let arguments: Vec<_> = ["import", "--data", &data].into_iter().chain(paths).collect();
        let out = output(&arguments);
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        data
    };
    let direct = import("direct", &captures.iter().map(PathBuf::as_path).collect::<Vec<_>>());
    let by_file = import("by-file", &[&files]);
    // A row has the digest of its run's records: what they hold, to the last attribute.
    let rows = |data: &str| -> BTreeMap<String, Value> {
        let Value::Array(rows) = json(&["runs", "--json", "--data", data]) else { panic!("no list") };
        let of = |mut row: Value| {
            let _ = row.as_object_mut().unwrap().remove("last_received_unix_nano");
            (row["run_id"].as_str().unwrap().to_owned(), row)
        };
        rows.into_iter().map(of).collect()
    };
    let (direct, by_file) = (rows(&direct), rows(&by_file));
    let differ: Vec<_> =
        direct.keys().chain(by_file.keys()).filter(|id| direct.get(*id) != by_file.get(*id)).collect();
    println!(
        "scorecard: 29 interop, file of a collector: {} runs imported, {} differ",
        by_file.len(),
        differ.len()
    );
    assert!(!direct.is_empty() && differ.is_empty(), "{differ:?}");
}

/// The requests of a capture: signal, whether JSON, body. Metrics are none of a run's.
fn requests(capture: &Path) -> Vec<(String, bool, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(capture).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    let read = |path: PathBuf| {
        let name = path.file_name()?.to_str()?;
        let [_, signal @ ("traces" | "logs"), end @ ("json" | "pb")] =
            name.split('.').collect::<Vec<_>>()[..]
        else {
            return None;
        };
        Some((signal.to_owned(), end == "json", std::fs::read(&path).unwrap()))
    };
    files.into_iter().filter_map(read).collect()
}

/// The collector that the tests run, when it was built.
fn program() -> Option<PathBuf> {
    let program = root().join("tests/collector/collector");
    let why = "no collector (go build -o collector . in tests/collector)";
    built_by_go(&program, why).then_some(program)
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// A server with keys: its folder, a key that writes, and one that reads.
struct World {
    folder: tempfile::TempDir,
    writer: String,
    reader: String,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let [(writer, first), (reader, second)] = ["writer", "developer"].map(|role| new_key("acme", role));
        // Flushes every few seconds, so that restarts fall into flushes and derivations too.
        let settings = serde_json::json!({
            "access": {"keys": [first, second]}, "store": {"flush_age_max_s": 3, "settle_after_s": 1},
        });
        std::fs::write(folder.path().join("spanreel.yaml"), settings.to_string()).unwrap();
        Self { folder, writer, reader }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn server(&self) -> Server {
        self.server_on(free_ports())
    }

    fn server_on(&self, ports: [u16; 3]) -> Server {
        let config = self.folder.path().join("spanreel.yaml");
        Server::start_on(&self.data(), ports, &["--config", config.to_str().unwrap()]).with_key(&self.reader)
    }

    /// Kills or stops the server, and starts the next one on its ports. Does `meanwhile` while there is none.
    fn restarted(&self, server: Server, restart: u32, meanwhile: impl FnOnce()) -> Server {
        let ports = server.ports();
        if restart.is_multiple_of(2) {
            server.kill();
        } else {
            assert!(server.terminate().success());
        }
        std::thread::sleep(AWAY);
        meanwhile();
        self.server_on(ports)
    }

    /// What a collector before `server` is told.
    fn settings(&self, server: &Server, more: &[(&str, &str)]) -> Vec<(String, String)> {
        let [grpc, http, _] = server.ports();
        let mut all = vec![
            ("SPANREEL_GRPC".to_owned(), format!("127.0.0.1:{grpc}")),
            ("SPANREEL_HTTP".to_owned(), format!("http://127.0.0.1:{http}")),
            ("SPANREEL_KEY".to_owned(), self.writer.clone()),
        ];
        all.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        all
    }

    /// Ends the load, waits for the queues, and counts.
    fn all_is_there(self, server: Server, load: Load, collectors: &[Collector], restarts: u32, how: &str) {
        let ledger = load.stop();
        let begun = Instant::now();
        // A queue says nothing of what is under way to the server; the count does, and costs more.
        let waiting = |c: &Collector| c.metric("otelcol_exporter_queue_size") > 0.0;
        while collectors.iter().any(waiting) && begun.elapsed() < DRAINED {
            std::thread::sleep(Duration::from_millis(500));
        }
        let mut lost = ledger.lost_by_api(&server);
        while lost > 0 && begun.elapsed() < DRAINED {
            std::thread::sleep(Duration::from_secs(1));
            lost = ledger.lost_by_api(&server);
        }
        let drained = begun.elapsed().as_secs_f64();
        let dropped: f64 = collectors.iter().map(Collector::dropped).sum();
        let idle = collectors.iter().filter(|c| c.metric("otelcol_receiver_accepted_spans") == 0.0);
        println!(
            "scorecard: 29 interop, collector over {how}: {restarts} restarts, {} collectors each killed once, {} spans \
             accepted, {lost} lost, {dropped} dropped, 0 double, 0 invented; all there after {drained:.1} s",
            collectors.len(),
            ledger.acknowledged.len(),
        );
        let left: Vec<f64> = collectors.iter().map(|c| c.metric("otelcol_exporter_queue_size")).collect();
        assert_eq!((lost, dropped, idle.count()), (0, 0.0, 0), "left in queues: {left:?}");
        assert!(server.terminate().success());
        ledger.check_tables(&self.data().join("tables/acme"));
    }
}

/// A running collector; killed when dropped.
struct Collector {
    process: Process,
    command: Command,
    ports: [u16; 4],
    /// Spans that those killed before it dropped.
    dropped: f64,
    _queue: tempfile::TempDir,
}

impl Collector {
    /// Starts a collector with a file of `config/collector` and a queue of its own on free ports.
    fn start(program: &Path, file: &str, settings: Vec<(String, String)>) -> Self {
        let queue = tempfile::tempdir().unwrap();
        let ports: [u16; 4] = free_ports();
        let [grpc, http, health, metrics] = ports;
        let mut command = Command::new(program);
        let _ = command
            .arg("--config")
            .arg(root().join("config/collector").join(file))
            .env("COLLECTOR_QUEUE", queue.path())
            .env("COLLECTOR_GRPC", format!("127.0.0.1:{grpc}"))
            .env("COLLECTOR_HTTP", format!("127.0.0.1:{http}"))
            .env("COLLECTOR_HEALTH", format!("127.0.0.1:{health}"))
            .env("COLLECTOR_METRICS", metrics.to_string())
            .envs(settings)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(queue.path().join("log")).unwrap());
        let process = Process::spawn(&mut command);
        let mut collector = Self { process, command, ports, dropped: 0.0, _queue: queue };
        collector.wait_until_ready();
        collector
    }

    /// SIGKILL, and the next one on the same queue.
    fn kill_and_start(&mut self) {
        self.dropped = self.dropped();
        self.process.kill();
        self.process = Process::spawn(&mut self.command);
        self.wait_until_ready();
    }

    fn wait_until_ready(&mut self) {
        self.process.wait_until_ready(&format!("http://127.0.0.1:{}", self.ports[2]));
    }

    fn grpc(&self) -> String {
        format!("127.0.0.1:{}", self.ports[0])
    }

    fn http(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[1])
    }

    /// Spans that were accepted and given up.
    fn dropped(&self) -> f64 {
        self.dropped + self.metric("otelcol_exporter_send_failed_spans")
    }

    /// The sum of a metric over its labels.
    fn metric(&self, name: &str) -> f64 {
        let url = format!("http://127.0.0.1:{}/metrics", self.ports[3]);
        let text = ureq::get(&url).call().unwrap().body_mut().read_to_string().unwrap();
        let values = text.lines().filter(|line| line.starts_with(name)).filter_map(|l| l.rsplit(' ').next());
        values.map(|value| value.parse::<f64>().unwrap()).sum()
    }
}
