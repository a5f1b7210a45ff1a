//! What is seen of a server from outside while others attack it: memory, file descriptors, and what a well-behaved
//! client gets.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use prost::Message;

use crate::{
    client::{Client, Wire},
    harness::Server,
    load::{Random, request, span},
};

/// Times are given this often: a build without optimizations is slow, and no machine is quiet.
pub(crate) const SLOWER: u32 = if cfg!(debug_assertions) { 10 } else { 2 };

/// True for the longer forms of the tests of hostile and heavy senders.
pub(crate) fn is_full() -> bool {
    std::env::var("SPANREEL_HOSTILE").is_ok_and(|form| form == "full")
}

/// A server's process, by `/proc`.
pub(crate) struct Process(PathBuf);

impl Process {
    pub(crate) fn of(server: &Server) -> Self {
        Self(format!("/proc/{}", server.id()).into())
    }

    /// From here on [`Self::peak_bytes`] counts anew.
    pub(crate) fn reset_peak(&self) {
        std::fs::write(self.0.join("clear_refs"), "5").unwrap();
    }

    pub(crate) fn peak_bytes(&self) -> u64 {
        self.status("VmHWM:")
    }

    pub(crate) fn resident_bytes(&self) -> u64 {
        self.status("VmRSS:")
    }

    pub(crate) fn fds(&self) -> usize {
        std::fs::read_dir(self.0.join("fd")).unwrap().count()
    }

    fn status(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(self.0.join("status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() << 10
    }
}

/// A client that sends one span at a time and waits for the answer, over HTTP and gRPC, on kept and new connections.
pub(crate) struct Neighbour {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

/// What a [`Neighbour`] got.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    times: Vec<Duration>,
    pub(crate) refused: usize,
}

impl Neighbour {
    pub(crate) fn of(server: &Server) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (mut kept, mut new, asked) = (Client::new(server), Client::new(server), stop.clone());
        let thread = std::thread::spawn(move || {
            let (mut random, mut seen) = (Random(7), Seen::default());
            while !asked.load(Ordering::SeqCst) {
                for (wire, again) in
                    [(Wire::Protobuf, false), (Wire::Grpc, false), (Wire::Protobuf, true), (Wire::Grpc, true)]
                {
                    let trace = [random.next().to_be_bytes(), random.next().to_be_bytes()].concat();
                    let body = request(&[span(&mut random, &trace, &[], "beside", 5, &[])]).encode_to_vec();
                    let client = if again { &mut new } else { &mut kept };
                    let begun = Instant::now();
                    // Where places are few, a connection that idles may be closed as its next request begins. Every
                    // client sends that again; the time of both counts.
                    let answer = client.send(wire, "", &body).or_else(|_| {
                        client.forget_connections();
                        client.send(wire, "", &body)
                    });
                    seen.times.push(begun.elapsed());
                    seen.refused += usize::from(!answer.is_ok_and(|a| a.is_success()));
                    new.forget_connections();
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
            seen
        });
        Self { stop, thread }
    }

    /// What one gets in so much time while nothing else happens.
    pub(crate) fn alone(server: &Server, time: Duration) -> Seen {
        let neighbour = Self::of(server);
        std::thread::sleep(time);
        neighbour.end()
    }

    pub(crate) fn end(self) -> Seen {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().unwrap()
    }
}

impl Seen {
    pub(crate) fn p99(&self) -> Duration {
        quantile(self.times.clone(), 0.99)
    }
}

impl std::fmt::Display for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [p50, p99] = [0.5, 0.99].map(|q| quantile(self.times.clone(), q));
        write!(f, "{} requests, {} refused, p50 {p50:.1?}, p99 {p99:.1?}", self.times.len(), self.refused)
    }
}

/// The time that a share `q` of all is not above.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
pub(crate) fn quantile(mut times: Vec<Duration>, q: f64) -> Duration {
    times.sort_unstable();
    let place = ((times.len() as f64 * q).ceil() as usize).clamp(1, times.len().max(1));
    times.get(place - 1).copied().unwrap_or_default()
}

pub(crate) fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}
