//! Peers that connect and send next to nothing.

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{
    harness::Server,
    watch::{Neighbour, Process, SLOWER, is_full, mib},
};

/// Bytes come this often.
const PACE: Duration = Duration::from_secs(10);

/// What a peer sends at once, and whether more follows byte by byte.
struct Slow {
    name: &'static str,
    /// Of the ports of gRPC, HTTP and the API.
    port: usize,
    start: &'static [u8],
    more: &'static [u8],
}

const PEERS: &[Slow] = &[
    Slow { name: "silent", port: 1, start: b"", more: b"" },
    Slow { name: "silent on gRPC", port: 0, start: b"", more: b"" },
    Slow { name: "first byte of either version", port: 1, start: b"P", more: b"" },
    Slow { name: "headers", port: 1, start: b"POST /v1/traces HTTP/1.1\r\nhost: x\r\n", more: b"a: b\r\n" },
    Slow {
        name: "body",
        port: 1,
        start: b"POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-protobuf\r\ncontent-length: 67108864\r\n\r\n",
        more: b"\x0a\x80\x80\x80\x20",
    },
    Slow {
        name: "chunked body",
        port: 1,
        start: b"POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-protobuf\r\ntransfer-encoding: chunked\r\n\r\n",
        more: b"1\r\n\x0a\r\n",
    },
    Slow { name: "idle after an answer", port: 1, start: b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", more: b"" },
    Slow {
        name: "preface and settings",
        port: 0,
        start: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
        more: b"",
    },
    Slow { name: "preface", port: 0, start: b"PRI * HTTP/2.0\r\n\r\n", more: b"SM\r\n\r\n" },
    Slow {
        name: "headers frame that does not end",
        port: 0,
        // HEADERS of stream 1 that announces 100 bytes.
        start: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x64\x01\x04\0\0\0\x01",
        more: b"\x83\x86",
    },
];

/// Scenario: more peers than a listener has places send a byte now and then, or nothing.
/// Guarantee: a client beside them is served all the time; all slow ones are closed within the time that the settings
/// give (60 s by default); their file descriptors come back.
#[test]
fn slow_peers_keep_others_out_or_stay() {
    let data = tempfile::tempdir().unwrap();
    // The longer form is that of the defaults; the shorter one has a third of the time and of the places.
    let short = [
        ("otlp.header_timeout_s", 4),
        ("otlp.body_timeout_s", 8),
        ("otlp.idle_timeout_s", 10),
        ("otlp.connections_max", 200),
    ];
    raise_limit_of_files();
    let (count, bound, settings) = if is_full() { (5000, 65, &[][..]) } else { (500, 20, &short[..]) };
    let server = Server::start_set(data.path(), settings);
    let process = Process::of(&server);
    let quiet = Neighbour::alone(&server, Duration::from_secs(2));
    let (fds, memory) = (process.fds(), process.resident_bytes());
    process.reset_peak();
    let neighbour = Neighbour::of(&server);
    let begun = Instant::now();
    let peers: Vec<_> = (0..count).map(|n| open(&server, &PEERS[n % PEERS.len()])).collect();
    let opened = begun.elapsed();
    let stop = Arc::new(AtomicBool::new(false));
    let (asked, mut left) = (stop.clone(), peers);
    let closer = std::thread::spawn(move || {
        let mut last_byte = Instant::now();
        let mut place = 0;
        let mut closed_at = vec![];
        while !left.is_empty() && !asked.load(Ordering::SeqCst) {
            let write = (last_byte.elapsed() > PACE).then(|| {
                last_byte = Instant::now();
                place += 1;
                place - 1
            });
            left.retain_mut(|(slow, stream)| {
                let open = is_open(stream, slow, write);
                if !open {
                    closed_at.push((begun.elapsed(), slow.name));
                }
                open
            });
            std::thread::sleep(Duration::from_millis(50));
        }
        (closed_at, left.iter().map(|(slow, _)| slow.name).collect::<Vec<_>>())
    });
    let deadline = opened + Duration::from_secs(bound);
    while !closer.is_finished() && begun.elapsed() < deadline {
        std::thread::sleep(Duration::from_millis(50));
    }
    stop.store(true, Ordering::SeqCst);
    let (closed, open) = closer.join().unwrap();
    let beside = neighbour.end();
    let last = closed.iter().max().copied().unwrap_or_default();
    let rise = process.peak_bytes().saturating_sub(memory);
    // The neighbour's own connections end a moment after it.
    std::thread::sleep(Duration::from_millis(500));
    let after = process.fds();
    println!(
        "scorecard: 34 slow clients: {count} peers opened in {opened:.1?}, last closed after {:.1?} ({}), file descriptors {fds} before and {after} after, {} more; beside them {beside}; before them {quiet}",
        last.0,
        last.1,
        mib(rise)
    );
    assert!(open.is_empty(), "{} are still open, among them {:?}", open.len(), open.first());
    assert!(after <= fds + 5, "{fds} before, {after} after");
    assert_eq!(beside.refused, 0, "{beside}");
    assert!(beside.p99() < Duration::from_millis(500) * SLOWER, "{beside}; before {quiet}");
}

/// The peers' ends are files of this process.
fn raise_limit_of_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let allowed = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: allowed.maximum, ..allowed }).unwrap();
}

fn open(server: &Server, slow: &'static Slow) -> (&'static Slow, TcpStream) {
    let mut stream = TcpStream::connect(("127.0.0.1", server.ports()[slow.port])).unwrap();
    // It may be gone already, for those that came after it.
    let _ = stream.write_all(slow.start);
    stream.set_nonblocking(true).unwrap();
    (slow, stream)
}

/// Reads what came, and writes the next byte when it is time.
fn is_open(stream: &mut TcpStream, slow: &Slow, write: Option<usize>) -> bool {
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
            Err(_) => return false,
        }
    }
    match write {
        Some(place) if !slow.more.is_empty() => {
            stream.write(&[slow.more[place % slow.more.len()]]).is_ok_and(|written| written == 1)
        }
        _ => true,
    }
}

/// Scenario: a peer keeps a connection of HTTP/2, answers every ping, and asks for nothing.
/// Guarantee: it is closed after the time that an idle connection has.
#[test]
fn a_peer_that_answers_pings_stays() {
    let data = tempfile::tempdir().unwrap();
    let settings = [("otlp.header_timeout_s", 1), ("otlp.idle_timeout_s", 3)];
    let server = Server::start_set(data.path(), &settings);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let begun = Instant::now();
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(("127.0.0.1", server.ports()[0])).await.unwrap();
        let (_channel, connection) = h2::client::handshake(stream).await.unwrap();
        let ended = tokio::time::timeout(Duration::from_secs(20), connection).await;
        assert!(ended.is_ok(), "still open after {:?}", begun.elapsed());
    });
    assert!(begun.elapsed() >= Duration::from_secs(2), "closed after {:?}", begun.elapsed());
}

/// Scenario: a server that may open 300 files gets 500 silent connections.
/// Guarantee: it goes on: requests are taken, and their files are written.
#[test]
fn silent_peers_take_all_file_descriptors() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start_limited(data.path(), "ulimit -n 300");
    let peers: Vec<_> =
        (0..500).map(|n| TcpStream::connect(("127.0.0.1", server.ports()[n % 3])).unwrap()).collect();
    let beside = Neighbour::alone(&server, Duration::from_secs(3));
    let fds = Process::of(&server).fds();
    println!("{} silent peers, {fds} of 300 file descriptors; beside them {beside}", peers.len());
    assert_eq!(beside.refused, 0, "{beside}");
    assert!(fds < 250, "{fds}");
    assert!(beside.p99() < Duration::from_secs(1) * SLOWER, "{beside}");
    drop(peers);
    assert!(server.terminate().success());
}
