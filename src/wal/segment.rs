//! Segment files: names, the recovery scan, torn tails and damage, and which of them are still needed.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    Error, Recovered,
    files::{Files, LogFile},
    frame::{Frame, FrameKind, HEADER_BYTES, Header, MAGIC},
    marks::{self, Marks},
};
use crate::tenant::TenantId;

/// The first bytes of a segment: what it is, and the version of the format.
pub(super) const SEGMENT_HEADER: [u8; 8] = *b"SPANWAL\x01";

/// Where a frame stands; its bytes are not loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameRef {
    /// Its number.
    pub seq: u64,
    /// Whose it is.
    pub tenant: TenantId,
    /// When it was received, nanoseconds since the Unix epoch.
    pub received_at: u64,
    /// What it holds.
    pub kind: FrameKind,
    /// Bytes of its body.
    pub body_bytes: usize,
    path: Arc<PathBuf>,
    offset: u64,
}

#[derive(Debug)]
struct Segment {
    path: Arc<PathBuf>,
    first_seq: u64,
    bytes: u64,
    /// The greatest number of each tenant that has a frame here.
    last: BTreeMap<TenantId, u64>,
}

/// All segments, oldest first; the last one is being written.
#[derive(Debug)]
pub(super) struct Segments {
    folder: PathBuf,
    all: Vec<Segment>,
    marks: Marks,
}

impl Segments {
    /// Scans the folder: checks every frame, cuts a torn tail, sets damage aside.
    pub(super) fn recover(
        folder: &Path,
        marks: &Marks,
        files: &dyn Files,
    ) -> Result<(Self, Recovered), Error> {
        let mut segments = Self { folder: folder.to_owned(), all: Vec::new(), marks: marks.clone() };
        let mut recovered = Recovered::default();
        let paths = list(folder)?;
        let count = paths.len();
        for (place, (first_seq, path)) in paths.into_iter().enumerate() {
            let path = Arc::new(path);
            let scan = scan(&path)?;
            let torn = place + 1 == count;
            for damage in &scan.damage {
                if torn && damage.end == scan.bytes && damage.whole_frames_after == 0 {
                    recovered.torn_bytes += damage.end - damage.start;
                    cut(&path, damage.start).map_err(at(&path))?;
                    continue;
                }
                recovered.quarantined += 1;
                let bytes = read_range(&path, damage.start, damage.end - damage.start).map_err(at(&path))?;
                let name = format!("damage-{first_seq:020}-{}", damage.start);
                let kept = set_aside(folder, &name, &bytes, files)?;
                tracing::error!(segment = %path.display(), offset = damage.start, bytes = bytes.len(),
                    kept = %kept.display(), "damaged bytes in the log were set aside");
            }
            let mut last = BTreeMap::new();
            for frame in scan.frames {
                let seen = last.entry(frame.tenant.clone()).or_insert(frame.seq);
                *seen = frame.seq.max(*seen);
                recovered.next_seq = recovered.next_seq.max(frame.seq + 1);
                if marks.tenants.get(&frame.tenant).is_none_or(|mark| frame.seq > *mark) {
                    recovered.frames.push(frame);
                }
            }
            let bytes = std::fs::metadata(path.as_path()).map_err(at(&path))?.len();
            segments.all.push(Segment { path, first_seq, bytes, last });
        }
        recovered.frames.sort_by_key(|f| f.seq);
        Ok((segments, recovered))
    }

    /// The frames that no mark covers; nothing on disk is changed.
    pub(super) fn peek(folder: &Path, marks: &Marks) -> Result<Vec<FrameRef>, Error> {
        if !folder.exists() {
            return Ok(Vec::new());
        }
        let mut frames = Vec::new();
        for (_, path) in list(folder)? {
            frames.extend(scan(&Arc::new(path))?.frames);
        }
        frames.retain(|f| marks.tenants.get(&f.tenant).is_none_or(|mark| f.seq > *mark));
        frames.sort_by_key(|f| f.seq);
        Ok(frames)
    }

    /// Starts the segment that begins with `seq`. A segment without frames, left by a crash, gives way.
    pub(super) fn start(&mut self, seq: u64, files: &dyn Files) -> Result<Box<dyn LogFile>, Error> {
        let path = Arc::new(self.folder.join(format!("{seq:020}.seg")));
        let fail = at(&path);
        if self.all.last().is_some_and(|s| s.path == path) {
            let _ = self.all.pop();
            files.remove(&path).map_err(at(&path))?;
        }
        let mut file = files.create(&path).map_err(at(&path))?;
        let written = file.write(&SEGMENT_HEADER).and_then(|()| file.sync());
        written.and_then(|()| files.sync_folder(&self.folder)).map_err(fail)?;
        let bytes = SEGMENT_HEADER.len() as u64;
        self.all.push(Segment { path, first_seq: seq, bytes, last: BTreeMap::new() });
        Ok(file)
    }

    pub(super) fn appended(&mut self, tenant: &TenantId, seq: u64) {
        if let Some(segment) = self.all.last_mut() {
            let _ = segment.last.insert(tenant.clone(), seq);
        }
    }

    pub(super) fn grown(&mut self, bytes: u64) {
        if let Some(segment) = self.all.last_mut() {
            segment.bytes += bytes;
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.all.iter().map(|s| s.bytes).sum()
    }

    /// The number after the greatest that is known.
    pub(super) fn next_seq(&self) -> u64 {
        let last = self.all.iter().flat_map(|s| s.last.values()).max().map_or(0, |seq| seq + 1);
        last.max(self.marks.next_seq)
    }

    pub(super) fn raise(&mut self, marks: &BTreeMap<TenantId, u64>) {
        for (tenant, seq) in marks {
            let mark = self.marks.tenants.entry(tenant.clone()).or_insert(*seq);
            *mark = (*mark).max(*seq);
        }
    }

    pub(super) fn save_marks(&mut self, next_seq: u64, files: &dyn Files) -> Result<(), Error> {
        self.marks.next_seq = self.marks.next_seq.max(next_seq);
        marks::write(&self.folder, &self.marks, files).map_err(at(&self.folder))
    }

    /// Removes segments whose frames are all covered; never the one being written.
    pub(super) fn remove_covered(&mut self, files: &dyn Files) -> Result<(), Error> {
        let Some((current, older)) = self.all.split_last() else { return Ok(()) };
        let current = current.first_seq;
        let covered: Vec<_> =
            older.iter().filter(|s| self.is_covered(s)).map(|s| (s.first_seq, s.path.clone())).collect();
        for (first_seq, path) in &covered {
            files.remove(path).map_err(at(path))?;
            self.all.retain(|s| s.first_seq != *first_seq || s.first_seq == current);
        }
        if covered.is_empty() { Ok(()) } else { files.sync_folder(&self.folder).map_err(at(&self.folder)) }
    }

    pub(super) fn pins_oldest(&self) -> Option<TenantId> {
        let (_, older) = self.all.split_last()?;
        let oldest = older.first()?;
        oldest.last.iter().find(|(tenant, seq)| !self.covers(tenant, **seq)).map(|(tenant, _)| tenant.clone())
    }

    fn is_covered(&self, segment: &Segment) -> bool {
        segment.last.iter().all(|(tenant, seq)| self.covers(tenant, *seq))
    }

    fn covers(&self, tenant: &TenantId, seq: u64) -> bool {
        self.marks.tenants.get(tenant).is_some_and(|mark| *mark >= seq)
    }
}

/// Reads a frame back and checks it.
pub(super) fn read(frame: &FrameRef) -> Result<Frame, Error> {
    let unreadable = |problem: String| Error::Unreadable { seq: frame.seq, problem };
    let size = (HEADER_BYTES + frame.tenant.as_str().len() + frame.body_bytes) as u64;
    let bytes = read_range(&frame.path, frame.offset, size).map_err(|e| unreadable(e.to_string()))?;
    let header = Header::parse(&bytes).ok_or_else(|| unreadable("no frame stands there".into()))?;
    if header.seq != frame.seq || crc32c::crc32c(bytes.get(8..).unwrap_or_default()) != header.crc {
        return Err(unreadable("its checksum does not hold".into()));
    }
    let body = bytes::Bytes::from(bytes).split_off(header.bytes());
    Ok(Frame {
        seq: header.seq,
        tenant: header.tenant,
        received_at: header.received_at,
        kind: header.kind,
        bytes: body,
    })
}

/// Writes bytes into the quarantine folder, durably.
pub(super) fn set_aside(
    folder: &Path,
    name: &str,
    bytes: &[u8],
    files: &dyn Files,
) -> Result<PathBuf, Error> {
    let quarantine = folder.join("quarantine");
    std::fs::create_dir_all(&quarantine).map_err(at(&quarantine))?;
    files.sync_folder(folder).map_err(at(folder))?;
    let path = quarantine.join(name);
    files.replace(&path, bytes).map_err(at(&path))?;
    Ok(path)
}

fn at(path: &Path) -> impl Fn(io::Error) -> Error + use<> {
    let path = path.to_owned();
    move |source| Error::Folder { path: path.clone(), source }
}

/// Segment files by number; files with other names are not ours.
fn list(folder: &Path) -> Result<Vec<(u64, PathBuf)>, Error> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(at(folder))? {
        let path = entry.map_err(at(folder))?.path();
        let number =
            path.extension().filter(|e| *e == "seg").and_then(|_| path.file_stem()?.to_str()?.parse().ok());
        found.extend(number.map(|n| (n, path)));
    }
    found.sort();
    Ok(found)
}

#[derive(Debug)]
struct Damage {
    start: u64,
    end: u64,
    whole_frames_after: usize,
}

#[derive(Debug)]
struct Scan {
    frames: Vec<FrameRef>,
    damage: Vec<Damage>,
    bytes: u64,
}

/// Checks every frame of a segment, one body in memory at a time.
fn scan(path: &Arc<PathBuf>) -> Result<Scan, Error> {
    let fail = at(path);
    let mut file = File::open(path.as_path()).map_err(&fail)?;
    let bytes = file.metadata().map_err(&fail)?.len();
    let mut scan = Scan { frames: Vec::new(), damage: Vec::new(), bytes };
    let mut head = Vec::new();
    let _ = (&mut file).take(SEGMENT_HEADER.len() as u64).read_to_end(&mut head).map_err(&fail)?;
    if head != SEGMENT_HEADER {
        // A crash while the segment was made leaves a part of the header and nothing else.
        if SEGMENT_HEADER.starts_with(&head) {
            return Ok(scan);
        }
        return Err(Error::Format(path.as_path().to_owned()));
    }
    let mut offset = head.len() as u64;
    let mut bad_from = None;
    while offset < bytes {
        match frame_at(&mut file, path, offset, bytes).map_err(&fail)? {
            Some((frame, size)) => {
                if let Some(start) = bad_from.take() {
                    scan.damage.push(Damage { start, end: offset, whole_frames_after: 1 });
                }
                scan.frames.push(frame);
                offset += size;
            }
            None => {
                let start = *bad_from.get_or_insert(offset);
                offset = next_magic(&mut file, start.max(offset) + 1, bytes).map_err(&fail)?;
            }
        }
    }
    scan.damage.extend(bad_from.map(|start| Damage { start, end: bytes, whole_frames_after: 0 }));
    Ok(scan)
}

/// The good frame at `offset` and its size, or `None`.
fn frame_at(
    file: &mut File,
    path: &Arc<PathBuf>,
    offset: u64,
    end: u64,
) -> io::Result<Option<(FrameRef, u64)>> {
    let mut start = Vec::new();
    let _ = file.seek(SeekFrom::Start(offset))?;
    let _ = file.take((HEADER_BYTES + 64) as u64).read_to_end(&mut start)?;
    let Some(header) = Header::parse(&start) else { return Ok(None) };
    let size = (header.bytes() + header.body_bytes) as u64;
    // The length is checked against the file before anything is allocated for it.
    if offset + size > end {
        return Ok(None);
    }
    let mut rest = io::Read::take(&mut *file, 0);
    let _ = rest.get_mut().seek(SeekFrom::Start(offset + 8))?;
    rest.set_limit(size - 8);
    let (mut crc, mut buffer) = (0, vec![0; 1 << 16]);
    loop {
        let read = rest.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        crc = crc32c::crc32c_append(crc, buffer.get(..read).unwrap_or_default());
    }
    if crc != header.crc {
        return Ok(None);
    }
    let frame = FrameRef {
        seq: header.seq,
        tenant: header.tenant,
        received_at: header.received_at,
        kind: header.kind,
        body_bytes: header.body_bytes,
        path: path.clone(),
        offset,
    };
    Ok(Some((frame, size)))
}

/// The next place at or after `from` where a frame may start; `end` when there is none.
fn next_magic(file: &mut File, from: u64, end: u64) -> io::Result<u64> {
    const STRIDE: usize = 1 << 16;
    let mut at = from;
    while at < end {
        let mut window = Vec::with_capacity(STRIDE + MAGIC.len());
        let _ = file.seek(SeekFrom::Start(at))?;
        let _ = file.take((STRIDE + MAGIC.len() - 1) as u64).read_to_end(&mut window)?;
        if let Some(place) = window.windows(MAGIC.len()).position(|w| w == MAGIC) {
            return Ok(at + place as u64);
        }
        at += STRIDE as u64;
    }
    Ok(end)
}

/// Cuts a torn tail off, so that a later opening does not take it for damage.
fn cut(path: &Path, bytes: u64) -> io::Result<()> {
    let file = File::options().write(true).open(path)?;
    file.set_len(bytes)?;
    file.sync_all()
}

fn read_range(path: &Path, offset: u64, bytes: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let _ = file.seek(SeekFrom::Start(offset))?;
    let mut buffer = Vec::new();
    let _ = file.take(bytes).read_to_end(&mut buffer)?;
    Ok(buffer)
}
