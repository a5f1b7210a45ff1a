use std::{io, path::Path, time::Duration};

use parking_lot::Mutex;
use proptest::prelude::*;

use super::{files::LogFile, *};

fn tenant(name: &str) -> TenantId {
    name.parse().unwrap()
}

fn small() -> Settings {
    Settings { segment_bytes: 400, ..Settings::default() }
}

fn open(folder: &Path) -> (Wal, Recovered, DurableFrames) {
    Wal::open(folder, small(), 0).unwrap()
}

fn append(wal: &Wal, name: &str, body: &[u8]) -> Result<u64, Error> {
    wal.append(tenant(name), 7, FrameKind::Traces, Bytes::copy_from_slice(body))?.wait()
}

/// (number, body) of every frame that a fresh opening finds.
fn found(folder: &Path) -> Vec<(u64, Vec<u8>)> {
    let (wal, recovered, _frames) = open(folder);
    let all = recovered.frames.iter().map(|f| (f.seq, Wal::read(f).unwrap().bytes.to_vec())).collect();
    wal.close();
    all
}

fn segment_files(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    all.retain(|p| p.extension().is_some_and(|e| e == "seg"));
    all.sort();
    all
}

/// A log of `count` frames in one segment, closed. Returns the segment's bytes.
fn one_segment(folder: &Path, count: u8) -> (PathBuf, Vec<u8>) {
    let (wal, _, _frames) = Wal::open(folder, Settings::default(), 0).unwrap();
    for i in 0..count {
        let _ = append(&wal, "t", &[i; 9]).unwrap();
    }
    wal.close();
    let path = segment_files(folder).remove(0);
    let bytes = std::fs::read(&path).unwrap();
    (path, bytes)
}

/// Scenario: a crash cut the log at any byte.
/// Guarantee: it opens, the frames before the cut are whole, and an append after it survives the next opening.
#[test]
fn a_cut_at_any_byte_loses_a_whole_frame() {
    let folder = tempfile::tempdir().unwrap();
    let (path, bytes) = one_segment(folder.path(), 12);
    let frame = (bytes.len() - 8) / 12;
    for cut in 0..=bytes.len() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(path.file_name().unwrap()), &bytes[..cut]).unwrap();
        let whole = cut.saturating_sub(8) / frame;
        let (wal, recovered, _frames) = open(folder.path());
        assert_eq!(recovered.frames.len(), whole, "cut at {cut}");
        assert_eq!(recovered.next_seq, whole as u64);
        assert_eq!(append(&wal, "t", b"later").unwrap(), whole as u64);
        wal.close();
        assert_eq!(found(folder.path()).last().unwrap().1, b"later", "cut at {cut}");
        assert!(!folder.path().join("quarantine").exists(), "a torn tail is no damage");
    }
}

/// Scenario: one bit of the log is wrong.
/// Guarantee: no wrong byte is ever given out, and the frames that the bit is not in are all there.
#[test]
fn a_flipped_bit_is_given_out_or_takes_its_neighbours_along() {
    let folder = tempfile::tempdir().unwrap();
    let (path, bytes) = one_segment(folder.path(), 6);
    let frame = (bytes.len() - 8) / 6;
    // Past the file's header, which is checked as a whole.
    for bit in 64..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(path.file_name().unwrap()), &damaged).unwrap();
        let hit = ((bit / 8 - 8) / frame) as u64;
        let (wal, recovered, _frames) = open(folder.path());
        let seen: Vec<_> =
            recovered.frames.iter().map(|f| Wal::read(f).unwrap()).map(|f| (f.seq, f.bytes)).collect();
        let want: Vec<_> = (0..6_u8)
            .filter(|i| u64::from(*i) != hit)
            .map(|i| (u64::from(i), Bytes::from(vec![i; 9])))
            .collect();
        assert_eq!(seen, want, "bit {bit}");
        assert_eq!(recovered.quarantined, u64::from(hit != 5), "bit {bit}: the last frame looks torn");
        wal.close();
    }
}

/// Scenario: the process appends from many threads.
/// Guarantee: numbers have no gap and no double, and the receiver sees the frames in their order.
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
    drop(wal);
    assert_eq!(reader.join().unwrap(), (0..160).collect::<Vec<_>>());
}

#[test]
fn a_caller_that_goes_away_takes_its_frame_along() {
    let folder = tempfile::tempdir().unwrap();
    let (wal, _, _frames) = open(folder.path());
    drop(wal.append(tenant("t"), 7, FrameKind::Logs, Bytes::from_static(b"kept")).unwrap());
    wal.close();
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
    let many = segment_files(folder.path()).len();
    assert!(many > 3);
    wal.release(&BTreeMap::from([(tenant("a"), 28)])).unwrap();
    assert_eq!(segment_files(folder.path()).len(), many, "the other tenant still needs them");
    assert_eq!(wal.pins_oldest_segment(), Some(tenant("b")));
    wal.release(&BTreeMap::from([(tenant("b"), 29)])).unwrap();
    assert_eq!(segment_files(folder.path()).len(), 1);
    wal.close();
    for file in segment_files(folder.path()) {
        std::fs::remove_file(file).unwrap();
    }
    let (wal, recovered, _frames) = open(folder.path());
    assert_eq!(recovered.next_seq, 30, "though no segment is left");
    assert!(recovered.frames.is_empty());
    wal.close();
}

#[test]
fn a_foreign_file_stops_the_opening() {
    let folder = tempfile::tempdir().unwrap();
    let _ = one_segment(folder.path(), 3);
    std::fs::write(folder.path().join(".DS_Store"), b"x").unwrap();
    std::fs::write(folder.path().join("notes.seg"), b"not a number").unwrap();
    std::fs::write(folder.path().join("00000000000000000009.seg"), b"").unwrap();
    assert_eq!(found(folder.path()).len(), 3);
    std::fs::write(folder.path().join("00000000000000000010.seg"), b"SPANWAL\x09 later").unwrap();
    assert!(matches!(Wal::open(folder.path(), small(), 0), Err(Error::Format(_))));
}

#[test]
fn a_frame_that_kills_the_process_is_tried_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let counts: Vec<u32> = (0..4)
        .map(|_| {
            let (wal, _, _frames) = open(folder.path());
            let before = wal.begin_attempt(5).unwrap();
            wal.close();
            before
        })
        .collect();
    assert_eq!(counts, [0, 1, 2, ATTEMPTS_MAX]);
    let (wal, _, _frames) = open(folder.path());
    assert_eq!(wal.begin_attempt(6).unwrap(), 0, "another frame is not blamed");
    wal.end_attempt().unwrap();
    assert_eq!(wal.begin_attempt(6).unwrap(), 0);
}

#[test]
fn a_full_queue_or_disk_is_not_refused() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { disk_bytes_max: 200, frame_bytes_max: 100, ..small() };
    let (wal, _, _frames) = Wal::open(folder.path(), settings, 0).unwrap();
    assert!(matches!(append(&wal, "t", &[0; 101]), Err(Error::TooLarge(101))));
    let refused = (0..9).map(|_| append(&wal, "t", &[0; 60])).find_map(Result::err).unwrap();
    assert!(matches!(refused, Error::Full("disk_bytes_max")), "{refused:?}");
    assert!(refused.retry_after().is_some());
}

/// A disk that fails on demand, and forgets what was not synced when it "loses power".
#[derive(Default)]
struct Faults {
    calls: u64,
    fail_sync_at: Option<u64>,
    space: Option<usize>,
    /// Length of each file that would survive a power loss.
    synced: BTreeMap<PathBuf, u64>,
}

#[derive(Clone, Default)]
struct Faulty(Arc<Mutex<Faults>>);

struct FaultyFile {
    disk: Faulty,
    path: PathBuf,
    file: Box<dyn LogFile>,
    length: u64,
}

impl Files for Faulty {
    fn create(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        let file = files::Disk.create(path)?;
        let _ = self.0.lock().synced.insert(path.into(), 0);
        Ok(Box::new(FaultyFile { disk: self.clone(), path: path.into(), file, length: 0 }))
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        files::Disk.sync_folder(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        files::Disk.remove(path)
    }
}

impl LogFile for FaultyFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let room = self.disk.0.lock().space.unwrap_or(usize::MAX);
        let part = bytes.len().min(room);
        self.file.write(&bytes[..part])?;
        self.length += part as u64;
        if part < bytes.len() { Err(io::Error::from(io::ErrorKind::StorageFull)) } else { Ok(()) }
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut disk = self.disk.0.lock();
        disk.calls += 1;
        if disk.fail_sync_at.is_some_and(|n| disk.calls >= n) {
            return Err(io::Error::other("EIO"));
        }
        let _ = disk.synced.insert(self.path.clone(), self.length);
        Ok(())
    }

    fn truncate(&mut self, bytes: u64) -> io::Result<()> {
        self.length = bytes;
        self.file.truncate(bytes)
    }
}

impl Faulty {
    /// What was not synced is gone.
    fn lose_power(&self) {
        for (path, length) in &self.0.lock().synced {
            if let Ok(file) = std::fs::File::options().write(true).open(path) {
                file.set_len(*length).unwrap();
            }
        }
    }
}

/// Scenario: the Nth sync fails with EIO, for every N.
/// Guarantee: nothing is acknowledged after it, and a restart finds everything that was.
#[test]
fn a_failed_sync_is_followed_by_an_ack() {
    for n in 3..23 {
        let folder = tempfile::tempdir().unwrap();
        let disk = Faulty::default();
        disk.0.lock().fail_sync_at = Some(n);
        let opened = Wal::open_with(folder.path(), small(), 0, Arc::new(disk.clone()));
        let (wal, _, _frames) = opened.unwrap();
        let mut acked = Vec::new();
        let mut failed = false;
        for i in 0..30_u8 {
            match append(&wal, "t", &[i; 30]) {
                Ok(seq) => {
                    assert!(!failed, "an ack after the failure");
                    acked.push((seq, vec![i; 30]));
                }
                // A failed sync of a new segment's header is not poison: the present one grows on.
                Err(error) => {
                    assert!(matches!(error, Error::Poisoned), "{error:?}");
                    failed = true;
                }
            }
        }
        assert!(failed && wal.is_poisoned());
        wal.close();
        disk.lose_power();
        assert_eq!(found(folder.path()), acked, "sync {n} failed");
    }
}

/// Scenario: the disk fills up in the middle of a frame, and later has room again.
/// Guarantee: the frame is refused with retry advice, nothing of it stays, and appends go on without a restart.
#[test]
fn a_full_disk_ends_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Faulty::default();
    let (wal, _, _frames) = Wal::open_with(folder.path(), small(), 0, Arc::new(disk.clone())).unwrap();
    let _ = append(&wal, "t", b"first").unwrap();
    disk.0.lock().space = Some(10);
    let refused = append(&wal, "t", b"refused").unwrap_err();
    assert!(matches!(refused, Error::Write(_)) && refused.retry_after().is_some(), "{refused:?}");
    disk.0.lock().space = None;
    assert_eq!(append(&wal, "t", b"second").unwrap(), 1);
    wal.close();
    assert_eq!(found(folder.path()), vec![(0, b"first".to_vec()), (1, b"second".to_vec())]);
}

#[derive(Clone, Debug)]
enum Action {
    Append { tenant: u8, bytes: usize },
    Release { tenant: u8, back: u64 },
    Reopen,
    LosePower,
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        6 => (0..3_u8, 0..200_usize).prop_map(|(tenant, bytes)| Action::Append { tenant, bytes }),
        2 => (0..3_u8, 0..5_u64).prop_map(|(tenant, back)| Action::Release { tenant, back }),
        1 => Just(Action::Reopen),
        1 => Just(Action::LosePower),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Scenario: any mix of appends, releases, restarts and power losses.
    /// Guarantee: the log holds what a list of acknowledged frames above the marks holds; numbers never come back.
    #[test]
    fn the_log_differs_from_its_model(actions in prop::collection::vec(action(), 1..40)) {
        let folder = tempfile::tempdir().unwrap();
        let disk = Faulty::default();
        let names = ["a", "b", "c"];
        let (mut wal, _, mut _frames) = Wal::open_with(folder.path(), small(), 0, Arc::new(disk.clone())).unwrap();
        let mut model: Vec<(u64, usize, Vec<u8>)> = Vec::new();
        let mut marks = [None::<u64>; 3];
        let mut next = 0;
        for action in actions {
            match action {
                Action::Append { tenant, bytes } => {
                    let body = vec![tenant; bytes];
                    prop_assert_eq!(append(&wal, names[tenant as usize], &body).unwrap(), next);
                    model.push((next, tenant as usize, body));
                    next += 1;
                }
                Action::Release { tenant: t, back } => {
                    let mark = next.saturating_sub(back + 1);
                    if next > 0 {
                        wal.release(&BTreeMap::from([(tenant(names[t as usize]), mark)])).unwrap();
                        marks[t as usize] = marks[t as usize].max(Some(mark));
                    }
                }
                Action::Reopen | Action::LosePower => {
                    wal.close();
                    if matches!(action, Action::LosePower) {
                        disk.lose_power();
                    }
                    let (again, recovered, frames) =
                        Wal::open_with(folder.path(), small(), 0, Arc::new(disk.clone())).unwrap();
                    let held: Vec<_> =
                        recovered.frames.iter().map(|f| (f.seq, Wal::read(f).unwrap().bytes.to_vec())).collect();
                    let want: Vec<_> = model
                        .iter()
                        .filter(|(seq, t, _)| marks[*t].is_none_or(|m| *seq > m))
                        .map(|(seq, _, body)| (*seq, body.clone()))
                        .collect();
                    prop_assert_eq!(held, want);
                    prop_assert_eq!(recovered.next_seq, next);
                    (wal, _frames) = (again, frames);
                }
            }
        }
        wal.close();
    }
}

#[test]
fn an_answer_waits_for_other_work() {
    let folder = tempfile::tempdir().unwrap();
    let (wal, _, frames) = open(folder.path());
    // Nobody takes the frames: answers come all the same until the queue to the reader is full.
    for _ in 0..40 {
        let _ = append(&wal, "t", b"x").unwrap();
    }
    assert_eq!(frames.recv_timeout(Duration::from_secs(5)).unwrap().len(), 1);
}
