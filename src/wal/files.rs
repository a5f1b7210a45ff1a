//! Writes, syncs and directory syncs behind one trait, so that tests can make any of them fail.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::Path,
};

/// A segment being written.
pub(super) trait LogFile: Send {
    /// Appends all of `bytes`.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Makes what was written durable.
    fn sync(&mut self) -> io::Result<()>;
    /// Cuts the file to `bytes`; the next write goes there.
    fn truncate(&mut self, bytes: u64) -> io::Result<()>;
}

/// The file operations of the log.
pub(super) trait Files: Send + Sync {
    /// Makes a file that does not exist yet, for appending.
    fn create(&self, path: &Path) -> io::Result<Box<dyn LogFile>>;
    /// Makes a folder's entries durable. Called after every creation, renaming and removal.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Puts `bytes` in the place of a file, whole or not at all, durably.
    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let temporary = path.with_extension("tmp");
        match self.remove(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = self.create(&temporary)?;
        file.write(bytes)?;
        file.sync()?;
        std::fs::rename(&temporary, path)?;
        path.parent().map_or(Ok(()), |folder| self.sync_folder(folder))
    }
}

/// The real disk.
pub(super) struct Disk;

impl Files for Disk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        Ok(Box::new(OpenOptions::new().append(true).create_new(true).open(path)?))
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        // An empty path is the folder that the process stands in.
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        File::open(path)?.sync_all()
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }
}

impl LogFile for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }

    fn truncate(&mut self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)
    }
}
