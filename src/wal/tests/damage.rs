//! What recovery makes of files that are not as they were left.

use super::*;

const HEADER: usize = header::BYTES;

/// A log of `count` frames of one size in one segment. Returns the segment's name and bytes.
fn one_segment(count: u8) -> (std::ffi::OsString, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { segment_bytes: 1 << 20, ..small() };
    let (wal, _, _frames) =
        Wal::open_with(folder.path(), settings, 0, Arc::new(TestDisk::default())).unwrap();
    for i in 0..count {
        let _ = append(&wal, "t", &[i; 9]).unwrap();
    }
    drop(wal);
    let path = segment_files(folder.path()).remove(0);
    (path.file_name().unwrap().into(), std::fs::read(&path).unwrap())
}

/// Scenario: a crash cut the log at any byte.
/// Guarantee: it opens, the frames before the cut are whole, and an append after it survives the next opening.
#[test]
fn a_cut_at_any_byte_loses_a_whole_frame() {
    let (name, bytes) = one_segment(12);
    let frame = (bytes.len() - HEADER) / 12;
    for cut in 0..=bytes.len() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(&name), &bytes[..cut]).unwrap();
        let whole = cut.saturating_sub(HEADER) / frame;
        let (wal, recovered, _frames) = open(folder.path());
        assert_eq!(recovered.frames.len(), whole, "cut at {cut}");
        assert_eq!(recovered.next_seq, whole as u64);
        assert_eq!(recovered.torn_bytes, (cut.saturating_sub(HEADER) % frame) as u64);
        assert_eq!(append(&wal, "t", b"later").unwrap(), whole as u64);
        drop(wal);
        assert_eq!(found(folder.path()).last().unwrap().1, b"later", "cut at {cut}");
        assert!(!folder.path().join("quarantine").exists(), "a torn tail is no damage");
    }
    println!("scorecard: 3 cut: at each of {} bytes, 0 whole frames lost", bytes.len() + 1);
}

/// Scenario: one bit of the log is wrong, be it in the header.
/// Guarantee: no wrong byte is ever given out, and the frames that the bit is not in are all there.
#[test]
fn a_flipped_bit_is_given_out_or_takes_its_neighbours_along() {
    let (name, bytes) = one_segment(20);
    let frame = (bytes.len() - HEADER) / 20;
    let folder = tempfile::tempdir().unwrap();
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(folder.path().join(&name), &damaged).unwrap();
        let hit = (bit / 8).checked_sub(HEADER).map(|at| (at / frame) as u64);
        let (_, recovered) = Segments::recover(&TestDisk::default(), folder.path()).unwrap();
        let want: Vec<_> =
            (0..20_u8).map(|i| (u64::from(i), vec![i; 9])).filter(|(i, _)| Some(*i) != hit).collect();
        assert_eq!(bodies(&recovered), want, "bit {bit}");
        let counted = hit.is_some_and(|hit| hit != 19);
        assert_eq!(recovered.quarantined, u64::from(counted), "bit {bit}: the last frame looks torn");
    }
    println!("scorecard: 4 flipped bits: each of {}, 0 given out, 0 other frames lost", bytes.len() * 8);
}

/// Scenario: the damaged frame was there at the last opening too.
/// Guarantee: its bytes are in quarantine once, as they were.
#[test]
fn damage_is_copied_at_every_opening_or_not_at_all() {
    let (name, mut bytes) = one_segment(3);
    let frame = (bytes.len() - HEADER) / 3;
    bytes[HEADER + frame + 20] ^= 1;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(&name), &bytes).unwrap();
    for _ in 0..3 {
        assert_eq!(open(folder.path()).1.quarantined, 1);
    }
    let kept: Vec<_> = std::fs::read_dir(folder.path().join("quarantine")).unwrap().flatten().collect();
    assert_eq!(kept.len(), 1);
    assert_eq!(std::fs::read(kept[0].path()).unwrap(), bytes[HEADER + frame..HEADER + 2 * frame]);
}

/// Scenario: a sender puts a whole frame of another tenant in a body, and the frame around it is torn or damaged.
/// Guarantee: what is in a body is never taken for a frame.
#[test]
fn a_frame_within_a_body_gets_in() {
    let folder = tempfile::tempdir().unwrap();
    let (wal, _, _frames) = open(folder.path());
    let mut forged = b"padding".to_vec();
    let inner = Frame {
        seq: 900,
        tenant: tenant("victim"),
        received_at: 1,
        kind: FrameKind::Traces,
        bytes: Bytes::from_static(b"planted"),
    };
    // All that a sender can know is the salt of a log of its own.
    let own = tempfile::tempdir().unwrap();
    let _ = open(own.path());
    let head = header::read(&segment_files(own.path())[0]).unwrap();
    let header::Head::Known(salt) = head else { panic!("{head:?}") };
    frame::encode(&inner, salt, &mut forged);
    let _ = append(&wal, "sender", &forged).unwrap();
    drop(wal);
    let path = segment_files(folder.path()).remove(0);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[HEADER + 9] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let (_, recovered, _) = open(folder.path());
    assert!(recovered.frames.is_empty());
    assert_eq!(recovered.next_seq, 0);
}

/// Scenario: a wrong digit in the marks.
/// Guarantee: no frame is taken for stored; the damaged file is kept.
#[test]
fn damaged_marks_hide_frames() {
    let folder = tempfile::tempdir().unwrap();
    let (wal, _, _frames) = open(folder.path());
    for i in 0..4 {
        let _ = append(&wal, "t", &[i; 9]).unwrap();
    }
    wal.release(&BTreeMap::from([(tenant("t"), 1)])).unwrap();
    drop(wal);
    let marks = folder.path().join(marks::FILE);
    let whole = std::fs::read(&marks).unwrap();
    for bit in 0..whole.len() * 8 {
        let mut damaged = whole.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&marks, damaged).unwrap();
        let (_, recovered) = Segments::recover(&TestDisk::default(), folder.path()).unwrap();
        assert_eq!((recovered.frames.len(), recovered.quarantined, recovered.next_seq), (4, 1, 0));
        assert!(!marks.exists(), "it was moved");
    }
    let (_, recovered, _) = open(folder.path());
    assert_eq!((recovered.frames.len(), recovered.next_seq), (4, 4));
}

/// Scenario: neither copy of a segment's header can be read.
/// Guarantee: the file is kept aside, the log opens, and the other segments are there.
#[test]
fn an_unreadable_header_stops_the_opening() {
    let folder = tempfile::tempdir().unwrap();
    let (wal, _, _frames) = open(folder.path());
    for i in 0..20 {
        let _ = append(&wal, "t", &[i; 50]).unwrap();
    }
    drop(wal);
    let first = segment_files(folder.path()).remove(0);
    let mut bytes = std::fs::read(&first).unwrap();
    bytes[..HEADER].fill(0);
    std::fs::write(&first, &bytes).unwrap();
    let (_, recovered, _) = open(folder.path());
    assert_eq!(recovered.quarantined, 1);
    assert!(recovered.frames.first().unwrap().seq > 0);
    assert_eq!((recovered.frames.last().unwrap().seq, recovered.next_seq), (19, 20));
    let kept = folder.path().join("quarantine").join(first.file_name().unwrap());
    assert_eq!(std::fs::read(kept).unwrap(), bytes);
}

/// Scenario: a frame changes on disk after it was indexed.
/// Guarantee: reading it is an error, never wrong bytes.
#[test]
fn a_frame_that_changed_since_is_given_out() {
    let folder = tempfile::tempdir().unwrap();
    let (wal, _, _frames) = open(folder.path());
    let _ = append(&wal, "t", b"body").unwrap();
    drop(wal);
    let (_wal, recovered, _frames) = open(folder.path());
    let path = segment_files(folder.path()).remove(0);
    let whole = std::fs::read(&path).unwrap();
    for byte in HEADER..whole.len() {
        let mut damaged = whole.clone();
        damaged[byte] ^= 0x10;
        std::fs::write(&path, damaged).unwrap();
        let read = Wal::read(&recovered.frames[0]);
        assert!(matches!(read, Err(Error::Unreadable { seq: 0, .. })), "byte {byte}: {read:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// Scenario: any bytes in the place of a segment.
    /// Guarantee: the log opens or says that the format is another; it does not panic.
    #[test]
    fn any_bytes_stop_the_opening(start in 0..3_usize, bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let folder = tempfile::tempdir().unwrap();
        let head = header::encode(*b"saltsalt");
        let content = [[b"".as_slice(), &head[..20], &head][start], &bytes].concat();
        std::fs::write(folder.path().join("00000000000000000000.seg"), content).unwrap();
        let opened = Segments::recover(&TestDisk::default(), folder.path());
        prop_assert!(matches!(opened, Ok(_) | Err(Error::Format(_))), "{:?}", opened.err());
    }
}
