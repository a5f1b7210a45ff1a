//! Each operation on the disk fails in turn.

use super::{
    disk::{Op, Unsynced},
    *,
};

fn open_on(disk: &TestDisk, folder: &Path) -> Result<(Wal, Recovered, DurableFrames), Error> {
    Wal::open_with(folder, small(), 0, Arc::new(disk.clone()))
}

/// Scenario: the Nth sync after opening fails with EIO, for every N, and so do all after it.
/// Guarantee: nothing is acknowledged after it, every refusal is fast, and a restart finds all that was acknowledged.
#[test]
fn a_failed_sync_is_followed_by_an_ack() {
    for n in 1..=50 {
        let folder = tempfile::tempdir().unwrap();
        let disk = TestDisk::default();
        let (wal, _, _frames) = open_on(&disk, folder.path()).unwrap();
        disk.fail(Some(Op::Sync), n, true);
        let mut acked = Vec::new();
        let mut failed = false;
        for i in 0..60_u8 {
            match append(&wal, "t", &[i; 30]) {
                Ok(seq) => {
                    assert!(!failed, "an ack after the failure");
                    acked.push((seq, vec![i; 30]));
                }
                Err(error) => {
                    assert!(matches!(error, Error::Poisoned) && error.retry_after().is_some(), "{error:?}");
                    failed = true;
                }
            }
        }
        assert!(failed && wal.is_poisoned(), "sync {n}");
        drop(wal);
        let _ = disk.heal();
        disk.lose_power(Unsynced::Lost);
        assert_eq!(bodies(&open_on(&disk, folder.path()).unwrap().1), acked, "sync {n}");
    }
    println!("scorecard: 5 failed sync: each of the first 50, 0 acknowledged after it, 0 lost");
}

/// Scenario: one sync fails, and the system calls all later ones good (as Linux does).
/// Guarantee: the log does not believe it.
#[test]
fn a_sync_that_works_again_heals_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let disk = TestDisk::default();
    let (wal, _, _frames) = open_on(&disk, folder.path()).unwrap();
    disk.fail(Some(Op::Sync), 1, false);
    assert!(matches!(append(&wal, "t", b"lost"), Err(Error::Poisoned)));
    assert!(matches!(append(&wal, "t", b"refused"), Err(Error::Poisoned)));
}

/// Scenario: any one operation fails, from the first opening to the last release; then the power goes.
/// Guarantee: nothing panics or hangs, what was acknowledged and not released is there after a restart, whatever
/// became of bytes that were not synced.
#[test]
fn a_single_fault_loses_what_was_acknowledged() {
    let endings = [Unsynced::Lost, Unsynced::Torn(100), Unsynced::Zeros, Unsynced::Holes];
    for (n, ending) in (1..).zip(endings.into_iter().cycle()) {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("data").join("wal");
        let disk = TestDisk::default();
        disk.fail(None, n, false);
        let mut acked = BTreeMap::new();
        let mut released = None;
        // The second opening recovers what the first one left, under the same fault.
        for round in 0..2_u8 {
            let Ok((wal, _, _frames)) = open_on(&disk, &at) else { continue };
            for i in 0..12_u8 {
                let body = vec![round * 100 + i; 60];
                if let Ok(seq) = append(&wal, "t", &body) {
                    assert_eq!(acked.insert(seq, body), None, "a number came back");
                }
            }
            // A release that fails may have raised the mark before.
            released = acked.keys().nth(acked.len() / 2).copied().max(released);
            if let Some(mark) = released {
                let _ = wal.release(&BTreeMap::from([(tenant("t"), mark)]));
            }
        }
        let happened = disk.heal();
        disk.lose_power(ending);
        let (_, recovered, _) = open_on(&disk, &at).unwrap();
        let held: BTreeMap<_, _> = bodies(&recovered).into_iter().collect();
        for (seq, body) in acked.iter().filter(|(seq, _)| released.is_none_or(|mark| **seq > mark)) {
            assert_eq!(held.get(seq), Some(body), "operation {n}, frame {seq}");
        }
        assert!(acked.keys().all(|seq| *seq < recovered.next_seq));
        if !happened {
            assert!(n > 60, "the faults were hardly used: {n}");
            println!(
                "scorecard: 6 single faults: each of {} operations, then power loss; 0 lost, 0 hangs",
                n - 1
            );
            break;
        }
    }
}

/// Scenario: the disk fills up in the middle of a frame, and later has room again.
/// Guarantee: the frame is refused with retry advice, nothing of it stays, and appends go on without a restart.
#[test]
fn a_full_disk_ends_the_log() {
    for room in 0..60 {
        let folder = tempfile::tempdir().unwrap();
        let disk = TestDisk::default();
        let (wal, _, _frames) = open_on(&disk, folder.path()).unwrap();
        let _ = append(&wal, "t", b"first").unwrap();
        disk.set_room(Some(room));
        let refused = append(&wal, "t", &[0; 30]).unwrap_err();
        assert!(matches!(refused, Error::Write(_)) && refused.retry_after().is_some(), "{refused:?}");
        disk.set_room(None);
        assert_eq!(append(&wal, "t", b"second").unwrap(), 1);
        drop(wal);
        let want = vec![(0, b"first".to_vec()), (1, b"second".to_vec())];
        let (_, recovered, _) = open_on(&disk, folder.path()).unwrap();
        assert_eq!((bodies(&recovered), recovered.quarantined), (want, 0));
    }
}

/// Scenario: the disk is so full that not even the marks can be written.
/// Guarantee: releasing frees the segments all the same, else nothing ever made room.
#[test]
fn a_full_disk_keeps_segments_from_being_released() {
    let folder = tempfile::tempdir().unwrap();
    let disk = TestDisk::default();
    let (wal, _, _frames) = open_on(&disk, folder.path()).unwrap();
    for i in 0..20 {
        let _ = append(&wal, "t", &[i; 60]).unwrap();
    }
    disk.set_room(Some(0));
    let marks = BTreeMap::from([(tenant("t"), 19)]);
    assert!(matches!(wal.release(&marks), Err(Error::Folder { .. })), "the marks are not written");
    assert_eq!(segment_files(folder.path()).len(), 1);
    disk.set_room(None);
    wal.release(&marks).unwrap();
    drop(wal);
    let (_, recovered, _) = open_on(&disk, folder.path()).unwrap();
    assert_eq!((recovered.frames.len(), recovered.next_seq), (0, 20));
}

/// Scenario: a new segment cannot be made because files are short.
/// Guarantee: the present one grows on, frames are taken, and a later commit rotates.
#[test]
fn a_failed_rotation_refuses_frames() {
    let folder = tempfile::tempdir().unwrap();
    let disk = TestDisk::default();
    let (wal, _, _frames) = open_on(&disk, folder.path()).unwrap();
    disk.fail(Some(Op::Other), 1, true);
    for i in 0..12 {
        assert_eq!(append(&wal, "t", &[i; 60]).unwrap(), u64::from(i));
    }
    assert_eq!(segment_files(folder.path()).len(), 1);
    assert!(disk.heal());
    let _ = append(&wal, "t", b"x").unwrap();
    wal.close();
    assert_eq!(segment_files(folder.path()).len(), 2);
    disk.lose_power(Unsynced::Lost);
    assert_eq!(open_on(&disk, folder.path()).unwrap().1.frames.len(), 13);
}
