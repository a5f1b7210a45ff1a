//! What was set aside, under `quarantine/`: frames that cannot be processed, and bytes that cannot be read.

use std::{
    ops::Range,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::tenant::TenantId;

use super::{
    Error,
    error::at,
    files::{self, Files},
    frame::Frame,
    reader,
};

/// What a frame can be.
const KINDS: [&str; 4] = ["traces", "logs", "checkpoint", "erase"];
/// Under the log's folder.
const FOLDER: &str = "quarantine";

/// What stands beside a frame's bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// The number that it had.
    pub seq: u64,
    /// Whose it is.
    pub tenant: String,
    /// When it was acknowledged, nanoseconds since the Unix epoch.
    pub received_at: u64,
    /// `traces`, `logs`, `checkpoint` or `erase`.
    pub kind: String,
    /// Why it is here.
    pub reason: String,
}

/// A frame that was set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// What is known of it.
    pub note: Note,
    /// Where its bytes are.
    pub path: PathBuf,
}

impl Quarantined {
    /// Its bytes, as they were acknowledged.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn read(&self) -> Result<Bytes, Error> {
        std::fs::read(&self.path).map(Into::into).map_err(at(&self.path))
    }

    /// Removes it, durably: it was taken elsewhere.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn remove(&self) -> Result<(), Error> {
        // The note first: bytes without one are found again, a note without bytes would be a riddle.
        let note = self.path.with_extension("json");
        files::remove(&files::Disk, [note.as_path(), self.path.as_path()]).map_err(at(&self.path))
    }
}

/// What was set aside in a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quarantine {
    /// Frames, by number.
    pub frames: Vec<Quarantined>,
    /// Notes that do not tell what they are of, by name.
    pub unreadable: Vec<PathBuf>,
}

/// What was set aside in the log at `folder`. Nothing is opened or changed.
///
/// # Errors
/// When the folder cannot be read. A folder that is absent holds none.
pub fn quarantined(folder: &Path) -> Result<Quarantine, Error> {
    let folder = folder.join(FOLDER);
    let entries = match std::fs::read_dir(&folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Quarantine::default()),
        entries => entries.map_err(at(&folder))?,
    };
    let mut found = Quarantine::default();
    for entry in entries {
        let path = entry.map_err(at(&folder))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with("frame-") || !name.ends_with(".json") {
            continue;
        }
        let note = std::fs::read(&path).ok().and_then(|text| serde_json::from_slice::<Note>(&text).ok());
        match note
            .filter(|note| KINDS.contains(&note.kind.as_str()) && note.tenant.parse::<TenantId>().is_ok())
        {
            Some(note) => {
                found.frames.push(Quarantined { path: path.with_extension(&note.kind), note });
            }
            None => found.unreadable.push(path),
        }
    }
    found.frames.sort_by_key(|frame| frame.note.seq);
    found.unreadable.sort();
    Ok(found)
}

/// Keeps a frame's bytes, and a note with whose it is and why it is here. Returns where the bytes are.
pub(super) fn keep_frame(
    files: &dyn Files,
    folder: &Path,
    frame: &Frame,
    reason: &str,
) -> Result<PathBuf, Error> {
    let kind = frame.kind.name();
    let note = Note {
        seq: frame.seq,
        tenant: frame.tenant.as_str().to_owned(),
        received_at: frame.received_at,
        kind: kind.to_owned(),
        reason: reason.to_owned(),
    };
    let note = serde_json::to_vec(&note).map_err(|error| at(folder)(error.into()))?;
    let name = format!("frame-{:020}", frame.seq);
    let path = place(files, folder, &format!("{name}.{kind}"))?;
    files::replace(files, &path, &frame.bytes).map_err(at(&path))?;
    let beside = path.with_extension("json");
    files::replace(files, &beside, &note).map_err(at(&beside))?;
    Ok(path)
}

/// Keeps a copy of damaged bytes of a segment that has good frames besides. Once is enough: the damage stays in the
/// segment until that is released, and each opening finds it again.
pub(super) fn keep_damage(
    files: &dyn Files,
    folder: &Path,
    segment: &Path,
    range: Range<u64>,
) -> Result<(), Error> {
    let stem = segment.file_stem().unwrap_or_default().to_string_lossy();
    let path = place(files, folder, &format!("damage-{stem}-{}-{}", range.start, range.end))?;
    tracing::error!(segment = %segment.display(), offset = range.start, bytes = range.end - range.start,
        kept = %path.display(), "damaged bytes in the log were set aside");
    if path.is_file() {
        return Ok(());
    }
    let temporary = path.with_added_extension("tmp");
    files::remove(files, [temporary.as_path()]).map_err(at(&temporary))?;
    let mut copy = files.create(&temporary).map_err(at(&temporary))?;
    reader::copy(segment, range, |part| copy.write(part)).map_err(at(&temporary))?;
    copy.sync().map_err(at(&temporary))?;
    files::relocate(files, &temporary, &path).map_err(at(&path))
}

/// Moves a file here of which nothing can be read.
pub(super) fn keep_file(files: &dyn Files, folder: &Path, file: &Path) -> Result<(), Error> {
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut path = place(files, folder, &name)?;
    let mut copies = 0;
    while path.exists() {
        copies += 1;
        path.set_file_name(format!("{name}.{copies}"));
    }
    tracing::error!(file = %file.display(), kept = %path.display(), "an unreadable file of the log was set aside");
    files::relocate(files, file, &path).map_err(at(file))
}

fn place(files: &dyn Files, folder: &Path, name: &str) -> Result<PathBuf, Error> {
    let quarantine = folder.join(FOLDER);
    files::make_folders(files, &quarantine).map_err(at(&quarantine))?;
    Ok(quarantine.join(name))
}
