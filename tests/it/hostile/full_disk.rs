//! A disk that fills up under the server, and is freed again.

use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use prost::Message;

use crate::{
    client::{Client, Wire},
    harness::{Server, not_permitted},
    load::{Ledger, Random, ids, request, run_spans},
    watch::{SLOWER, quantile},
};

/// A file system of its own, in memory; gone when dropped.
struct Disk(tempfile::TempDir);

impl Disk {
    /// `None` where mounting is not permitted.
    fn of_mib(size: u64) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}m"), "tmpfs"])
            .arg(folder.path())
            .output();
        mounted.is_ok_and(|out| out.status.success()).then_some(Self(folder))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// A file that takes all but so many bytes.
    fn fill(&self, leave: usize) {
        let file = std::fs::File::create(self.path().join("filler")).unwrap();
        let chunk = vec![0; 64 << 10];
        while std::io::Write::write_all(&mut &file, &chunk).is_ok() {}
        let full = file.metadata().unwrap().len();
        file.set_len(full.saturating_sub(leave as u64)).unwrap();
    }

    fn free(&self) {
        std::fs::remove_file(self.path().join("filler")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// Scenario: the data folder's disk fills up to `wal.free_bytes_min`, or, where that is 0, to its last byte; then space
/// is freed.
/// Guarantee: requests are refused in 100 ms, with advice to come again; reads go on; within 5 s of the space being
/// there requests are taken again, without a restart; nothing that was acknowledged is lost.
#[test]
fn a_full_disk_loses_spans_or_needs_a_restart() {
    for (name, free_bytes_min) in [("a share that is kept", 8 << 20), ("to the last byte", 0)] {
        // Mounting needs a privilege that a CI runner may not have; that is no failure of what is tested.
        let Some(disk) = Disk::of_mib(64) else { return not_permitted("mounting a small disk") };
        fills(name, &disk, free_bytes_min);
    }
}

fn fills(name: &str, disk: &Disk, free_bytes_min: u64) {
    let settings = [
        ("wal.free_bytes_min", free_bytes_min),
        ("wal.segment_bytes", 1 << 20),
        ("store.flush_age_max_s", 1),
        ("store.settle_after_s", 1),
    ];
    let server = Server::start_set(&disk.path().join("data"), &settings);
    let (mut client, mut random, mut ledger) = (Client::new(&server), Random(7), Ledger::default());
    for _ in 0..20 {
        let answer = send(&mut client, &mut random, &mut ledger);
        assert!(answer.is_success(), "{name}: {answer:?}");
    }
    let first = ledger.sent.first().unwrap().0.clone();
    disk.fill(0);
    let (mut refusals, begun) = (Vec::new(), Instant::now());
    // Longer than a look at the free space holds, and than the tables wait.
    while begun.elapsed() < Duration::from_secs(6) {
        let answer = send(&mut client, &mut random, &mut ledger);
        if answer.is_success() {
            // A look at the free space holds for a second, and the segment may have a page left.
            assert!(begun.elapsed() < Duration::from_secs(4), "{name}: still takes requests");
        } else {
            assert!(answer.is_retryable() && answer.advice.is_some(), "{name}: {answer:?}");
            refusals.push(answer.took);
        }
        for path in [format!("/v1/runs/{first}"), format!("/v1/runs/{first}/otlp"), "/v1/runs".into()] {
            let read = ureq::get(&format!("{}{path}", server.api())).call();
            assert!(read.as_ref().is_ok_and(|a| a.status().is_success()), "{name}: {path}: {read:?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(refusals.len() > 10, "{name}: {} refusals", refusals.len());
    let p99 = quantile(refusals.clone(), 0.99);
    disk.free();
    let freed = Instant::now();
    while !send(&mut client, &mut random, &mut ledger).is_success() {
        assert!(freed.elapsed() < Duration::from_secs(20), "{name}: takes nothing");
        std::thread::sleep(Duration::from_millis(20));
    }
    let again = freed.elapsed();
    let lost = ledger.lost_by_api(&server);
    println!(
        "scorecard: 7 full disk, {name}: {} refusals, p99 {p99:.1?}; taken again {again:.1?} after space was there; {} spans acknowledged, {lost} lost",
        refusals.len(),
        ledger.acknowledged.len()
    );
    assert_eq!(lost, 0, "{name}");
    assert!(p99 < Duration::from_millis(100) * SLOWER, "{name}: {p99:?}");
    assert!(again < Duration::from_secs(5), "{name}: {again:?}");
    // What was refused left nothing behind that the next start stumbles over.
    assert!(server.terminate().success(), "{name}");
    let server = Server::start_set(&disk.path().join("data"), &settings);
    assert_eq!(ledger.lost_by_api(&server), 0, "{name}, after a restart");
}

fn send(client: &mut Client, random: &mut Random, ledger: &mut Ledger) -> crate::client::Answer {
    let spans = run_spans(random);
    ledger.sent.extend(spans.iter().map(ids));
    let answer = client.send(Wire::Protobuf, "", &request(&spans).encode_to_vec()).unwrap();
    if answer.is_success() {
        ledger.acknowledged.extend(spans.iter().map(ids));
    }
    answer
}
