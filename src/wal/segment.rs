//! The set of segment files: opening it after whatever happened, and which of them are still needed.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    Error, Recovered,
    error::at,
    files::{self, Failure, Files, LogFile},
    frame::{self, Salt},
    header::{self, Head},
    marks::{self, Marks},
    quarantine,
    reader::{self, FrameRef, Scan},
};
use crate::tenant::TenantId;

/// The segment that is being written.
pub(super) struct Current {
    pub(super) file: Box<dyn LogFile>,
    pub(super) salt: Salt,
}

#[derive(Debug)]
struct Segment {
    path: Arc<PathBuf>,
    bytes: u64,
    /// The greatest number of each tenant that has a frame here.
    last: BTreeMap<TenantId, u64>,
}

/// All segments, oldest first; once the log is open, the last one is being written.
#[derive(Debug)]
pub(super) struct Segments {
    folder: PathBuf,
    all: Vec<Segment>,
    marks: Marks,
    /// The number after the greatest that was given out.
    next_seq: u64,
}

impl Segments {
    /// Checks every frame in the folder, cuts a torn tail, sets damage aside.
    pub(super) fn recover(files: &dyn Files, folder: &Path) -> Result<(Self, Recovered), Error> {
        let found = list(folder)?;
        let mut recovered = Recovered::default();
        let marks = match marks::read(folder).map_err(at(folder))? {
            Some(marks) => marks,
            None => {
                recovered.quarantined += 1;
                quarantine::keep_file(files, folder, &folder.join(marks::FILE))?;
                Marks::default()
            }
        };
        let next_seq = marks.next_seq;
        let mut segments = Self { folder: folder.to_owned(), all: Vec::new(), marks, next_seq };
        let count = found.len();
        for (place, Found { first_seq, path, head }) in found.into_iter().enumerate() {
            let is_last = place + 1 == count;
            let salt = match head {
                Head::Known(salt) => salt,
                Head::Unborn if is_last || length(&path)? == 0 => {
                    files::remove(files, [path.as_path()]).map_err(at(&path))?;
                    continue;
                }
                Head::Unborn | Head::Unreadable | Head::Foreign => {
                    recovered.quarantined += 1;
                    quarantine::keep_file(files, folder, &path)?;
                    segments.next_seq = segments.next_seq.max(first_seq);
                    continue;
                }
            };
            let mut scan = reader::scan(&path, salt, first_seq).map_err(at(&path))?;
            if let Some(torn) = scan.damage.pop_if(|d| is_last && d.end == scan.bytes) {
                tracing::warn!(segment = %path.display(), bytes = torn.end - torn.start, "torn tail cut off");
                recovered.torn_bytes += torn.end - torn.start;
                files::cut(files, &path, torn.start).map_err(at(&path))?;
                scan.bytes = torn.start;
            }
            recovered.quarantined += scan.damage.len() as u64;
            for damage in &scan.damage {
                quarantine::keep_damage(files, folder, &path, damage.clone())?;
            }
            segments.next_seq = segments.next_seq.max(first_seq);
            segments.add(path, scan, &mut recovered.frames);
        }
        Ok((segments, recovered))
    }

    fn add(&mut self, path: Arc<PathBuf>, scan: Scan, into: &mut Vec<FrameRef>) {
        let mut last = BTreeMap::new();
        for frame in scan.frames {
            self.next_seq = self.next_seq.max(frame.seq + 1);
            if last.get(&frame.tenant).is_none_or(|seq| *seq < frame.seq) {
                let _ = last.insert(frame.tenant.clone(), frame.seq);
            }
            if !self.marks.cover(&frame.tenant, frame.seq) {
                into.push(frame);
            }
        }
        self.all.push(Segment { path, bytes: scan.bytes, last });
    }

    /// Begins to write: the next number, a new segment for it, and nothing left that the marks cover.
    pub(super) fn begin(&mut self, files: &dyn Files, min_next_seq: u64) -> Result<(u64, Current), Error> {
        let next_seq = self.next_seq.max(min_next_seq);
        let path = self.path(next_seq);
        // A segment of this name has no frame, else the next number were greater.
        self.all.retain(|s| *s.path != path);
        files::remove(files, [path.as_path()]).map_err(at(&path))?;
        let current = self.start(files, next_seq).map_err(|failure| at(&path)(failure.into()))?;
        self.save_marks(files)?;
        self.remove_covered(files)?;
        Ok((next_seq, current))
    }

    /// Starts the segment that begins with `seq`, durably.
    pub(super) fn start(&mut self, files: &dyn Files, seq: u64) -> Result<Current, Failure> {
        let path = self.path(seq);
        let salt = frame::random_salt().map_err(Failure::Write)?;
        let file = files::create(files, &path, &header::encode(salt))?;
        self.next_seq = seq;
        self.all.push(Segment { path: Arc::new(path), bytes: header::BYTES as u64, last: BTreeMap::new() });
        Ok(Current { file, salt })
    }

    /// Takes note of frames that were written to the last segment.
    pub(super) fn appended<'a>(&mut self, frames: impl Iterator<Item = (&'a TenantId, u64)>, bytes: u64) {
        let Some(segment) = self.all.last_mut() else { return };
        segment.bytes += bytes;
        for (tenant, seq) in frames {
            self.next_seq = self.next_seq.max(seq + 1);
            match segment.last.get_mut(tenant) {
                Some(last) => *last = seq,
                None => {
                    let _ = segment.last.insert(tenant.clone(), seq);
                }
            }
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.all.iter().map(|s| s.bytes).sum()
    }

    /// Raises the marks, durably, and removes what they cover. Numbers from `next_seq` on were not given out yet.
    pub(super) fn release(
        &mut self,
        files: &dyn Files,
        marks: &BTreeMap<TenantId, u64>,
        next_seq: u64,
    ) -> Result<(), Error> {
        self.next_seq = self.next_seq.max(next_seq);
        // A mark above every number given out would swallow frames that are yet to come.
        let Some(greatest) = self.next_seq.checked_sub(1) else { return Ok(()) };
        for (tenant, seq) in marks {
            let seq = (*seq).min(greatest);
            let mark = self.marks.tenants.entry(tenant.clone()).or_insert(seq);
            *mark = seq.max(*mark);
        }
        match self.save_marks(files) {
            // On a full disk only removing makes room. It is safe without the marks: the tables hold these frames,
            // and the name of the last segment keeps their numbers from coming back.
            Err(Error::Folder { source, .. }) if source.kind() == io::ErrorKind::StorageFull => {
                self.remove_covered(files)?;
                self.save_marks(files)
            }
            Err(error) => Err(error),
            Ok(()) => self.remove_covered(files),
        }
    }

    /// The tenant that keeps the oldest segment alive, when there is more than one.
    pub(super) fn pins_oldest(&self) -> Option<TenantId> {
        let (_, older) = self.all.split_last()?;
        let oldest = older.first()?;
        oldest.last.iter().find(|(tenant, seq)| !self.marks.cover(tenant, **seq)).map(|(t, _)| t.clone())
    }

    fn save_marks(&mut self, files: &dyn Files) -> Result<(), Error> {
        self.marks.next_seq = self.marks.next_seq.max(self.next_seq);
        marks::write(files, &self.folder, &self.marks).map_err(at(&self.folder))
    }

    /// Removes segments whose frames are all covered; never the one being written.
    fn remove_covered(&mut self, files: &dyn Files) -> Result<(), Error> {
        let Some(current) = self.all.pop() else { return Ok(()) };
        let marks = &self.marks;
        let covered = |s: &Segment| s.last.iter().all(|(tenant, seq)| marks.cover(tenant, *seq));
        let gone: Vec<_> = self.all.iter().filter(|s| covered(s)).map(|s| s.path.clone()).collect();
        let removed = files::remove(files, gone.iter().map(|path| path.as_path()));
        if removed.is_ok() {
            self.all.retain(|s| !gone.contains(&s.path));
        }
        // After an error all of them stay listed: the next call removes what is left.
        self.all.push(current);
        removed.map_err(at(&self.folder))
    }

    fn path(&self, seq: u64) -> PathBuf {
        self.folder.join(format!("{seq:020}.{EXTENSION}"))
    }
}

/// The frames that no mark covers, as they stand on disk; nothing there is changed.
pub(super) fn peek(folder: &Path) -> Result<Vec<FrameRef>, Error> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let marks = marks::read(folder).map_err(at(folder))?.unwrap_or_default();
    let mut frames = Vec::new();
    for Found { first_seq, path, head } in list(folder)? {
        if let Head::Known(salt) = head {
            frames.extend(reader::scan(&path, salt, first_seq).map_err(at(&path))?.frames);
        }
    }
    frames.retain(|f| !marks.cover(&f.tenant, f.seq));
    Ok(frames)
}

const EXTENSION: &str = "seg";

struct Found {
    first_seq: u64,
    path: Arc<PathBuf>,
    head: Head,
}

/// Segment files in order; files with other names are not ours.
///
/// A segment of another version is an error before anything in the folder was changed.
fn list(folder: &Path) -> Result<Vec<Found>, Error> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(at(folder))? {
        let path = entry.map_err(at(folder))?.path();
        let stem = path.file_stem().filter(|stem| stem.len() == 20).and_then(|stem| stem.to_str());
        let number = stem.and_then(|stem| stem.parse().ok());
        let Some(first_seq) = number.filter(|_| path.extension().is_some_and(|e| e == EXTENSION)) else {
            continue;
        };
        let head = header::read(&path).map_err(at(&path))?;
        if head == Head::Foreign {
            return Err(Error::Format(path));
        }
        found.push(Found { first_seq, path: Arc::new(path), head });
    }
    found.sort_by_key(|f| f.first_seq);
    Ok(found)
}

fn length(path: &Path) -> Result<u64, Error> {
    Ok(std::fs::metadata(path).map_err(at(path))?.len())
}
