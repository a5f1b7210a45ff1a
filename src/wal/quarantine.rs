//! What was set aside, under `quarantine/`: frames that cannot be processed, and bytes that cannot be read.

use std::{
    ops::Range,
    path::{Path, PathBuf},
};

use serde::Serialize;

use super::{
    Error,
    error::at,
    files::{self, Files},
    frame::Frame,
    reader,
};

/// What stands beside a frame's bytes.
#[derive(Serialize)]
struct Note<'a> {
    seq: u64,
    tenant: &'a str,
    received_at: u64,
    kind: &'static str,
    reason: &'a str,
}

/// Keeps a frame's bytes, and a note with whose it is and why it is here. Returns where the bytes are.
pub(super) fn keep_frame(
    files: &dyn Files,
    folder: &Path,
    frame: &Frame,
    reason: &str,
) -> Result<PathBuf, Error> {
    let (tenant, kind) = (frame.tenant.as_str(), frame.kind.name());
    let note = Note { seq: frame.seq, tenant, received_at: frame.received_at, kind, reason };
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
    let quarantine = folder.join("quarantine");
    files::make_folders(files, &quarantine).map_err(at(&quarantine))?;
    Ok(quarantine.join(name))
}
