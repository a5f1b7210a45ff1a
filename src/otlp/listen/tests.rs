use std::time::Instant;

use axum::routing::get;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

async fn port(settings: Settings) -> (std::net::SocketAddr, CancellationToken) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
    let router = Router::new().route("/", get(|| async { "ok" }));
    drop(tokio::spawn(serve(listener, router, settings, stop.clone())));
    (address, stop)
}

/// Scenario: a peer connects and sends nothing, the start of a request, or the start of HTTP/2's preface.
/// Guarantee: its connection is closed within the header timeout, so that no peer can hold all places.
#[tokio::test]
async fn a_silent_peer_keeps_its_place() {
    let settings = Settings { header_timeout_s: 1, ..Settings::default() };
    let (address, _stop) = port(settings).await;
    let mut peers = Vec::new();
    for sent in ["", "P", "PRI * HTT", "GET / HTTP/1.1\r\nHo"] {
        let mut peer = TcpStream::connect(address).await.unwrap();
        peer.write_all(sent.as_bytes()).await.unwrap();
        peers.push((sent, peer));
    }
    let begun = Instant::now();
    for (sent, mut peer) in peers {
        let mut rest = Vec::new();
        let closed = tokio::time::timeout(Duration::from_secs(8), peer.read_to_end(&mut rest)).await;
        assert!(closed.is_ok(), "{sent:?} is still open after {:?}", begun.elapsed());
    }
}

/// Scenario: the bytes of a request come one by one, those of the preface in two pieces.
/// Guarantee: both are served.
#[tokio::test]
async fn a_slow_start_is_taken_for_the_other_version() {
    let (address, _stop) = port(Settings::default()).await;
    let mut peer = TcpStream::connect(address).await.unwrap();
    for byte in b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" {
        peer.write_all(&[*byte]).await.unwrap();
    }
    let mut answer = String::new();
    let _ = peer.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let mut peer = TcpStream::connect(address).await.unwrap();
    peer.write_all(&PREFACE[..9]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(30)).await;
    peer.write_all(&PREFACE[9..]).await.unwrap();
    // An empty SETTINGS frame is how each side begins; the server's is the first frame it sends.
    peer.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.unwrap();
    let mut frame = [0; 9];
    let _ = peer.read_exact(&mut frame).await.unwrap();
    assert_eq!(frame[3], 4);
}
