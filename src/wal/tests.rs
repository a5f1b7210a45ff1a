//! What the log promises, by the failures that it forbids. `disk` is a disk that fails on demand.

mod damage;
mod disk;
mod faults;
mod model;

use proptest::prelude::*;

use super::*;
use disk::TestDisk;

fn tenant(name: &str) -> TenantId {
    name.parse().unwrap()
}

/// Small segments, so that a few frames make several.
fn small() -> Settings {
    Settings { segment_bytes: 400, free_bytes_min: 0, ..Settings::default() }
}

fn open(folder: &Path) -> (Wal, Recovered, DurableFrames) {
    Wal::open_with(folder, small(), 0, Arc::new(TestDisk::default())).unwrap()
}

fn append(wal: &Wal, name: &str, body: &[u8]) -> Result<u64, Error> {
    wal.append(tenant(name), 7, FrameKind::Traces, Bytes::copy_from_slice(body))?.wait()
}

fn bodies(recovered: &Recovered) -> Vec<(u64, Vec<u8>)> {
    recovered.frames.iter().map(|f| (f.seq, Wal::read(f).unwrap().bytes.to_vec())).collect()
}

/// (number, body) of every frame that a fresh opening finds.
fn found(folder: &Path) -> Vec<(u64, Vec<u8>)> {
    bodies(&open(folder).1)
}

fn segment_files(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    all.retain(|p| p.extension().is_some_and(|e| e == "seg"));
    all.sort();
    all
}

/// Scenario: the process appends from many threads.
/// Guarantee: numbers have no gap and no double, and the reader sees the frames in their order.
#[test]
fn two_frames_get_one_number() {
    let folder = tempfile::tempdir().unwrap();
    let (wal, _, frames) = open(folder.path());
    let threads: Vec<_> = (0..8)
        .map(|t| {
            let wal = wal.clone();
            std::thread::spawn(move || (0..20).map(|_| append(&wal, "t", &[t]).unwrap()).collect::<Vec<_>>())
        })
        .collect();
    let reader = std::thread::spawn(move || frames.iter().flatten().map(|f| f.seq).collect::<Vec<_>>());
    let mut given: Vec<u64> = threads.into_iter().flat_map(|t| t.join().unwrap()).collect();
    given.sort_unstable();
    assert_eq!(given, (0..160).collect::<Vec<_>>());
    wal.close();
    assert_eq!(reader.join().unwrap(), (0..160).collect::<Vec<_>>());
}

#[test]
fn a_caller_that_goes_away_takes_its_frame_along() {
    let folder = tempfile::tempdir().unwrap();
    let (wal, _, _frames) = open(folder.path());
    drop(wal.append(tenant("t"), 7, FrameKind::Logs, Bytes::from_static(b"kept")).unwrap());
    drop(wal);
    assert_eq!(found(folder.path()), vec![(0, b"kept".to_vec())]);
}

#[test]
fn a_released_segment_stays_or_its_number_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let (wal, _, _frames) = open(folder.path());
    for i in 0..30 {
        let name = if i % 2 == 0 { "a" } else { "b" };
        let _ = append(&wal, name, &[0; 50]).unwrap();
    }
    // What the thread does after its last answer is done then.
    wal.close();
    let many = segment_files(folder.path()).len();
    assert!(many > 3);
    wal.release(&BTreeMap::from([(tenant("a"), 28)])).unwrap();
    assert_eq!(segment_files(folder.path()).len(), many, "the other tenant still needs them");
    assert_eq!(wal.pins_oldest_segment(), Some(tenant("b")));
    wal.release(&BTreeMap::from([(tenant("b"), 29)])).unwrap();
    assert_eq!(segment_files(folder.path()).len(), 1);
    assert_eq!(wal.disk_bytes(), std::fs::metadata(&segment_files(folder.path())[0]).unwrap().len());
    drop(wal);
    for file in segment_files(folder.path()) {
        std::fs::remove_file(file).unwrap();
    }
    let (_, recovered, _) = open(folder.path());
    assert_eq!((recovered.next_seq, recovered.frames.len()), (30, 0), "though no segment is left");
    let (_, recovered, _) = Wal::open(folder.path(), small(), 77).unwrap();
    assert_eq!(recovered.next_seq, 77, "the tables know of more");
}

#[test]
fn a_mark_above_all_frames_swallows_those_to_come() {
    let folder = tempfile::tempdir().unwrap();
    let (wal, _, _frames) = open(folder.path());
    wal.release(&BTreeMap::from([(tenant("t"), u64::MAX)])).unwrap();
    let _ = append(&wal, "t", b"first").unwrap();
    wal.release(&BTreeMap::from([(tenant("t"), u64::MAX)])).unwrap();
    let _ = append(&wal, "t", b"second").unwrap();
    drop(wal);
    assert_eq!(found(folder.path()), vec![(1, b"second".to_vec())]);
}

#[test]
fn a_foreign_file_stops_the_opening() {
    let folder = tempfile::tempdir().unwrap();
    let (wal, _, _frames) = open(folder.path());
    let _ = append(&wal, "t", b"x").unwrap();
    drop(wal);
    let foreign = [".DS_Store", "notes.seg", "7.seg", "marks.tmp"];
    for name in foreign {
        std::fs::write(folder.path().join(name), b"not ours").unwrap();
    }
    std::fs::write(folder.path().join("00000000000000000009.seg"), b"").unwrap();
    assert_eq!(found(folder.path()).len(), 1);
    assert!(foreign[..3].iter().all(|name| folder.path().join(name).is_file()));
}

/// Scenario: an older binary opens the folder of a newer one.
/// Guarantee: it refuses, says which file, and changes nothing.
#[test]
fn a_segment_of_another_version_is_changed() {
    let folder = tempfile::tempdir().unwrap();
    let older = folder.path().join("00000000000000000000.seg");
    std::fs::write(&older, b"").unwrap();
    let later = folder.path().join("00000000000000000010.seg");
    std::fs::write(&later, b"SPANWAL\x09 later").unwrap();
    let refused = Wal::open(folder.path(), small(), 0).unwrap_err();
    assert!(matches!(&refused, Error::Format(path) if *path == later), "{refused:?}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn a_frame_that_kills_the_process_is_tried_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let begin = |seq| open(folder.path()).0.begin_attempt(seq).unwrap();
    assert_eq!([begin(5), begin(5), begin(5), begin(5)], [0, 1, 2, ATTEMPTS_MAX]);
    let (wal, _, _frames) = open(folder.path());
    assert_eq!(wal.begin_attempt(6).unwrap(), 0, "another frame is not blamed");
    wal.end_attempt().unwrap();
    drop(wal);
    assert_eq!(begin(6), 0);
}

#[test]
fn a_quarantined_frame_cannot_be_told_whose_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let (wal, _, frames) = open(folder.path());
    let _ = append(&wal, "acme", b"poison").unwrap();
    let frame = frames.recv().unwrap().remove(0);
    let path = wal.quarantine(&frame, "no dialect survives it").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"poison");
    let note: serde_json::Value =
        serde_json::from_slice(&std::fs::read(path.with_extension("json")).unwrap()).unwrap();
    let want = serde_json::json!({"seq": 0, "tenant": "acme", "received_at": 7, "kind": "traces",
        "reason": "no dialect survives it"});
    assert_eq!(note, want);
    let listed = quarantined(folder.path()).unwrap().frames;
    let [frame] = listed.as_slice() else { panic!("{listed:?}") };
    assert_eq!((frame.note.seq, &frame.read().unwrap()[..]), (0, &b"poison"[..]));
    frame.remove().unwrap();
    assert_eq!(quarantined(folder.path()).unwrap(), Quarantine::default());
}

#[test]
fn a_full_queue_or_disk_is_not_refused() {
    let folder = tempfile::tempdir().unwrap();
    let disk = TestDisk::default();
    let settings = Settings {
        disk_bytes_max: 1500,
        frame_bytes_max: 100,
        queue_bytes_max: 900,
        free_bytes_min: 5000,
        ..small()
    };
    let (wal, _, frames) = Wal::open_with(folder.path(), settings, 0, Arc::new(disk.clone())).unwrap();
    assert!(matches!(append(&wal, "t", &[0; 101]), Err(Error::TooLarge(101))));
    disk.set_free(5000);
    let refused = append(&wal, "t", &[0; 60]).unwrap_err();
    assert!(matches!(refused, Error::LowSpace { free_bytes: 5000 }), "{refused:?}");
    assert!(refused.retry_after().is_some());
    disk.set_free(50_000);
    wal.release(&BTreeMap::new()).unwrap();
    // Frames without a body wait as well.
    disk.hold(true);
    let waiting: Vec<_> = (0..9).map(|_| wal.append(tenant("t"), 7, FrameKind::Logs, Bytes::new())).collect();
    assert!(matches!(waiting[8], Err(Error::Full("queue_bytes_max"))), "{:?}", waiting[8]);
    disk.hold(false);
    for waits in waiting.into_iter().flatten() {
        let _ = waits.wait().unwrap();
    }
    // A reader that is gone holds nothing.
    drop(frames);
    let refused = (0..30).map(|_| append(&wal, "t", &[0; 60])).find_map(Result::err).unwrap();
    assert!(matches!(refused, Error::Full("disk_bytes_max")), "{refused:?}");
    assert!(wal.disk_bytes() <= 1500);
    // Released, the log takes frames again: the segment that is being written never holds the whole share.
    wal.release(&BTreeMap::from([(tenant("t"), u64::MAX)])).unwrap();
    let _ = append(&wal, "t", &[0; 60]).unwrap();
}

/// Scenario: nobody takes the durable frames; more come than may wait.
/// Guarantee: what is let in is answered at once, the rest refused at once; closing does not wait for the reader, which
/// finds what was acknowledged.
#[test]
fn a_reader_that_stands_still_keeps_answers_back_or_the_log_from_closing() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { queue_bytes_max: 64 << 20, free_bytes_min: 0, ..Settings::default() };
    let (wal, _, frames) = Wal::open_with(folder.path(), settings, 0, Arc::new(TestDisk::default())).unwrap();
    let body = vec![1; 24 << 20];
    let answers: Vec<_> = (0..5).map(|_| append(&wal, "t", &body)).collect();
    assert!(matches!(answers[..2], [Ok(0), Ok(1)]), "{answers:?}");
    assert!(answers[2..].iter().all(|a| matches!(a, Err(Error::Full("queue_bytes_max")))), "{answers:?}");
    wal.close();
    assert_eq!(frames.iter().flatten().map(|f| f.seq).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(open(folder.path()).1.frames.len(), 2);
    assert!(matches!(append(&wal, "t", b"late"), Err(Error::Closed)));
}

/// Scenario: a caller awaits its answer in an async task.
/// Guarantee: it is woken with the number.
#[tokio::test]
async fn an_async_caller_is_not_woken() {
    let folder = tempfile::tempdir().unwrap();
    let (wal, _, frames) = open(folder.path());
    let answer = wal.append(tenant("t"), 7, FrameKind::Erase, Bytes::from_static(b"x")).unwrap();
    assert_eq!(answer.await.unwrap(), 0);
    assert_eq!(frames.recv_timeout(Duration::from_secs(5)).unwrap()[0].kind, FrameKind::Erase);
    assert!(frames.recv_timeout(Duration::ZERO).is_err());
}
