//! What the tests share: the real binary, run as its users run it, on free loopback ports.

use std::{
    io::Write,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
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
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// Says that a test did not run for want of a privilege. That is no failure, with `SPANREEL_ALL_TESTS` neither: what is
/// missing cannot be installed.
pub(crate) fn not_permitted(what: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {what} is not permitted here");
}

/// What foreign engines need.
pub(crate) const NO_READERS: &str = "no foreign readers (pip install -r tests/requirements.txt into .venv)";

/// A running server; killed when dropped.
pub(crate) struct Server {
    child: Child,
    ports: [u16; 3],
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
        let child = command.stdout(Stdio::null()).stderr(Stdio::inherit()).spawn().unwrap();
        let mut server = Self { child, ports };
        let begun = Instant::now();
        while !ureq::get(&format!("{}/readyz", server.api())).call().is_ok_and(|r| r.status().is_success()) {
            if let Some(status) = server.child.try_wait().unwrap() {
                panic!("the server ended at once: {status}");
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "the server is not ready after 30 s");
            std::thread::sleep(Duration::from_millis(10));
        }
        server
    }

    /// Those of OTLP over gRPC and HTTP, and of the API.
    pub(crate) fn ports(&self) -> [u16; 3] {
        self.ports
    }

    /// Of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
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
        let mut answer = ureq::get(&format!("{}{path}", self.api())).call().unwrap();
        let text = answer.body_mut().with_config().limit(u64::MAX).read_to_string().unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// SIGKILL.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        let _ = self.child.wait().unwrap();
    }

    /// SIGTERM, and waits for the end.
    pub(crate) fn terminate(mut self) -> ExitStatus {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        self.child.wait().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
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

/// Three free loopback ports, held together so that they differ.
fn free_ports() -> [u16; 3] {
    let held = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    held.map(|l| l.local_addr().unwrap().port())
}
