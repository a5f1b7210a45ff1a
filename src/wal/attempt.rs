//! Which frame was being processed when the process died.
//!
//! The note is not synced: it has to survive a process that dies, not a power loss, and the page cache does.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read},
    os::unix::fs::FileExt,
    path::Path,
};

/// A frame whose processing ended the process this often is set aside.
pub const ATTEMPTS_MAX: u32 = 3;

const BYTES: usize = 16;

pub(super) struct Attempt {
    file: File,
    suspect: Option<(u64, u32)>,
}

impl Attempt {
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        let path = folder.join("attempt");
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let mut bytes = Vec::with_capacity(BYTES);
        let _ = file.read_to_end(&mut bytes)?;
        let number = |from: usize| Some(u64::from_le_bytes(bytes.get(from..from + 8)?.try_into().ok()?));
        let suspect = number(0).zip(number(8)).filter(|(_, count)| *count > 0);
        Ok(Self {
            file,
            suspect: suspect.map(|(seq, count)| (seq, u32::try_from(count).unwrap_or(u32::MAX))),
        })
    }

    /// Notes the beginning; returns how many attempts at this frame did not end.
    pub(super) fn begin(&mut self, seq: u64) -> io::Result<u32> {
        let before = self.suspect.filter(|(suspect, _)| *suspect == seq).map_or(0, |(_, count)| count);
        self.note(seq, before.saturating_add(1))?;
        Ok(before)
    }

    pub(super) fn end(&mut self) -> io::Result<()> {
        self.suspect = None;
        self.note(0, 0)
    }

    fn note(&mut self, seq: u64, count: u32) -> io::Result<()> {
        let mut bytes = [0; BYTES];
        let (first, second) = bytes.split_at_mut(8);
        first.copy_from_slice(&seq.to_le_bytes());
        second.copy_from_slice(&u64::from(count).to_le_bytes());
        self.file.write_all_at(&bytes, 0)
    }
}
