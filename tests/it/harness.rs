//! What the tests share: the real binary, run as its users run it, on free loopback ports.

use std::{
    io::Write,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use serde_json::Value;

/// A command of the binary under test, without the environment's settings.
pub(crate) fn spanreel(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spanreel"));
    let _ = command.args(arguments).stdin(Stdio::null());
    for (name, _) in std::env::vars().filter(|(n, _)| n.starts_with("SPANREEL_") || n.starts_with("OTEL_")) {
        let _ = command.env_remove(name);
    }
    command
}

/// Runs a command to its end.
pub(crate) fn output(arguments: &[&str]) -> Output {
    spanreel(arguments).output().unwrap()
}

/// Runs a command that must succeed, and reads its standard output as JSON.
pub(crate) fn json(arguments: &[&str]) -> Value {
    let out = output(arguments);
    assert!(out.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

/// The scenarios under `tests/captures`.
pub(crate) fn captures() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures");
    let mut all: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).filter(|p| p.is_dir()).collect();
    all.sort();
    all
}

/// What foreign engines see in a tenant's tables, or `None` when they are not installed.
pub(crate) fn readers(tenant: &Path) -> Option<Value> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = root.join(".venv/bin/python");
    if !python.exists() {
        return None;
    }
    let out = Command::new(python).arg(root.join("tests/readers.py")).arg(tenant).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    Some(serde_json::from_slice(&out.stdout).unwrap())
}

/// Says that a test, or a part of it, did not run, whether or not output is captured. With `SPANREEL_ALL_TESTS` that is
/// a failure.
pub(crate) fn skipped(why: &str) {
    assert!(std::env::var_os("SPANREEL_ALL_TESTS").is_none(), "not run: {why}");
    left_out(why);
}

fn left_out(why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// Whether a program of the tests that is written in Go is there. `SPANREEL_WITHOUT_GO` says that the machine has no Go
/// that could build it, and that this is known.
pub(crate) fn built_by_go(program: &Path, why: &str) -> bool {
    let built = program.exists();
    match std::env::var_os("SPANREEL_WITHOUT_GO") {
        _ if built => {}
        Some(_) => left_out(why),
        None => skipped(why),
    }
    built
}

/// Says that a test did not run for want of a privilege. That is no failure, with `SPANREEL_ALL_TESTS` neither: what is
/// missing cannot be installed.
pub(crate) fn not_permitted(what: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {what} is not permitted here");
}

/// What foreign engines need.
pub(crate) const NO_READERS: &str = "no foreign readers (pip install -r tests/requirements.txt into .venv)";

/// A child process; killed when dropped.
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn spawn(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }

    /// Asks a URL until it answers with success; fails when the process ends or takes too long.
    pub(crate) fn wait_until_ready(&mut self, url: &str) {
        let begun = Instant::now();
        while !ureq::get(url).call().is_ok_and(|r| r.status().is_success()) {
            if let Some(status) = self.0.try_wait().unwrap() {
                panic!("the process ended at once: {status}");
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "{url} is not ready after 30 s");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.0.kill().unwrap();
        let _ = self.0.wait().unwrap();
    }

    /// SIGTERM, and waits for the end.
    pub(crate) fn terminate(&mut self) -> ExitStatus {
        let id = self.0.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        self.0.wait().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running server; killed when dropped.
pub(crate) struct Server {
    process: Process,
    ports: [u16; 3],
    key: Option<String>,
}

impl Server {
    /// Starts a server on free ports and waits until it is ready.
    pub(crate) fn start(data: &Path) -> Self {
        Self::start_with(data, &[])
    }

    /// The same with options that are numbers, by their path in the configuration.
    pub(crate) fn start_set(data: &Path, settings: &[(&str, u64)]) -> Self {
        Self::spawn(data, free_ports(), &[], settings)
    }

    /// The same with further arguments of `serve`.
    pub(crate) fn start_with(data: &Path, arguments: &[&str]) -> Self {
        Self::start_on(data, free_ports(), arguments)
    }

    /// The same after a command of the shell that limits what the process may use.
    pub(crate) fn start_limited(data: &Path, limit: &str) -> Self {
        let ports = free_ports();
        let mut shell = Command::new("sh");
        let serve = serve(data, ports);
        let _ = shell.arg("-c").arg(format!("{limit} && exec \"$0\" \"$@\"")).arg(serve.get_program());
        let _ = shell.args(serve.get_args());
        for (name, value) in serve.get_envs() {
            let _ = match value {
                None => shell.env_remove(name),
                Some(value) => shell.env(name, value),
            };
        }
        Self::ready(shell, ports)
    }

    /// The same on the ports of one that ended.
    pub(crate) fn start_on(data: &Path, ports: [u16; 3], arguments: &[&str]) -> Self {
        Self::spawn(data, ports, arguments, &[])
    }

    fn spawn(data: &Path, ports: [u16; 3], arguments: &[&str], settings: &[(&str, u64)]) -> Self {
        let variable = |path: &str| format!("SPANREEL_{}", path.replace('.', "_").to_uppercase());
        let mut command = serve(data, ports);
        let _ = command
            .args(arguments)
            .envs(settings.iter().map(|(path, value)| (variable(path), value.to_string())));
        Self::ready(command, ports)
    }

    fn ready(mut command: Command, ports: [u16; 3]) -> Self {
        let mut process = Process::spawn(command.stdout(Stdio::null()).stderr(Stdio::inherit()));
        process.wait_until_ready(&format!("http://127.0.0.1:{}/readyz", ports[2]));
        Self { process, ports, key: None }
    }

    /// From now on the API is asked with this key.
    pub(crate) fn with_key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    /// Those of OTLP over gRPC and HTTP, and of the API.
    pub(crate) fn ports(&self) -> [u16; 3] {
        self.ports
    }

    /// Of the process.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn otlp_grpc(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[0])
    }

    pub(crate) fn otlp_http(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[1])
    }

    pub(crate) fn api(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[2])
    }

    /// The lines of an NDJSON answer.
    pub(crate) fn get_lines(&self, path: &str) -> Vec<Value> {
        let mut request = ureq::get(&format!("{}{path}", self.api()));
        if let Some(key) = &self.key {
            request = request.header("authorization", &format!("Bearer {key}"));
        }
        let mut answer = request.call().unwrap();
        let text = answer.body_mut().with_config().limit(u64::MAX).read_to_string().unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// SIGKILL.
    pub(crate) fn kill(mut self) {
        self.process.kill();
    }

    /// SIGTERM, and waits for the end.
    pub(crate) fn terminate(mut self) -> ExitStatus {
        self.process.terminate()
    }
}

/// A new key of a tenant, and its entry for `access.keys`.
pub(crate) fn new_key(tenant: &str, role: &str) -> (String, Value) {
    let printed = output(&["keys", "new", "--name", role, "--tenant", tenant, "--role", role]);
    let text = String::from_utf8(printed.stdout).unwrap();
    let (head, entry) = text.split_once("\n\n").unwrap();
    let entry: Value = serde_json::from_str(entry.split_once('\n').unwrap().1).unwrap();
    (head.strip_prefix("key: ").unwrap().to_owned(), entry["access"]["keys"][0].clone())
}

/// How often a server is restarted under those who send to it.
pub(crate) fn restarts() -> u32 {
    std::env::var("SPANREEL_RESTARTS").ok().and_then(|n| n.parse().ok()).unwrap_or(3)
}

/// Waits until something holds; fails after 20 s.
pub(crate) fn wait_for(mut holds: impl FnMut() -> bool, otherwise: &str) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{otherwise}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The command of a server.
fn serve(data: &Path, [grpc, http, api]: [u16; 3]) -> Command {
    let listen = |port: u16| format!("127.0.0.1:{port}");
    let mut command = spanreel(&["serve", "--data"]);
    let _ = command
        .arg(data)
        .args(["--listen-otlp-grpc", &listen(grpc), "--listen-otlp-http", &listen(http)])
        .args(["--listen-api", &listen(api)]);
    command
}

/// Free loopback ports, each given out once. They lie below those that the system gives to clients, so that nobody takes
/// one while a process is restarted on it.
pub(crate) fn free_ports<const N: usize>() -> [u16; N] {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    let next =
        || std::process::id().wrapping_mul(97).wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed)) % 12_000;
    [(); N].map(|()| {
        loop {
            let port = 20_000 + next() as u16;
            if TcpListener::bind(("127.0.0.1", port)).is_ok() {
                return port;
            }
        }
    })
}
