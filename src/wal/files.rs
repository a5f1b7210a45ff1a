//! Every operation that changes the disk, behind one trait, so that tests can make any of them fail; and the few
//! durable compositions of them that the log uses. Nothing else in the log creates, renames or removes a file.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::Path,
};

/// A file being written.
pub(super) trait LogFile: Send {
    /// Appends all of `bytes`. After an error any part of them may stand in the file.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Makes what was written durable.
    fn sync(&mut self) -> io::Result<()>;
    /// Cuts the file to `bytes`; the next write goes there.
    fn truncate(&mut self, bytes: u64) -> io::Result<()>;
}

/// The file operations of the log. Reads need no seam: tests damage the files themselves.
pub(super) trait Files: Send + Sync {
    /// Makes a file that does not exist yet, for appending.
    fn create(&self, path: &Path) -> io::Result<Box<dyn LogFile>>;
    /// Opens a file that exists, for appending and cutting.
    fn open(&self, path: &Path) -> io::Result<Box<dyn LogFile>>;
    /// Makes one folder; its parent exists.
    fn make_folder(&self, path: &Path) -> io::Result<()>;
    /// Gives a file another name, in the place of what has that name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes a folder's entries durable.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
    /// Bytes that this process may still write on the disk of `path`.
    fn free_bytes(&self, path: &Path) -> io::Result<u64>;
}

/// What failed while a file was made.
#[derive(Debug)]
pub(super) enum Failure {
    /// Nothing was promised yet; the same may work later.
    Write(io::Error),
    /// A sync failed. The system may have dropped what it could not write, and says so only once.
    Sync(io::Error),
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Write(error) | Failure::Sync(error) => error,
        }
    }
}

/// Makes a file with `bytes` in it; file and name are durable when it returns. A failed attempt leaves no file.
pub(super) fn create(files: &dyn Files, path: &Path, bytes: &[u8]) -> Result<Box<dyn LogFile>, Failure> {
    let mut file = files.create(path).map_err(Failure::Write)?;
    let made = file
        .write(bytes)
        .map_err(Failure::Write)
        .and_then(|()| file.sync().map_err(Failure::Sync))
        .and_then(|()| sync_parent(files, path).map_err(Failure::Sync));
    match made {
        Ok(()) => Ok(file),
        Err(failure) => {
            if let Err(error) = files.remove(path) {
                tracing::warn!(%error, path = %path.display(), "cannot remove a file that was not finished");
            }
            Err(failure)
        }
    }
}

/// Puts `bytes` in the place of a file, whole or not at all, durably.
pub(super) fn replace(files: &dyn Files, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_added_extension("tmp");
    remove_if_present(files, &temporary)?;
    let _ = create(files, &temporary, bytes)?;
    files.rename(&temporary, path)?;
    sync_parent(files, path)
}

/// Moves a file, durably.
pub(super) fn relocate(files: &dyn Files, from: &Path, to: &Path) -> io::Result<()> {
    files.rename(from, to)?;
    sync_parent(files, to)?;
    sync_parent(files, from)
}

/// Removes files, durably. One that is gone already is fine.
pub(super) fn remove<'a>(files: &dyn Files, paths: impl IntoIterator<Item = &'a Path>) -> io::Result<()> {
    let mut last = None;
    for path in paths {
        remove_if_present(files, path)?;
        last = Some(path);
    }
    last.map_or(Ok(()), |path| sync_parent(files, path))
}

/// Cuts a file that nobody writes, durably.
pub(super) fn cut(files: &dyn Files, path: &Path, bytes: u64) -> io::Result<()> {
    let mut file = files.open(path)?;
    file.truncate(bytes)?;
    file.sync()
}

/// Makes a folder and what is missing above it; the new names are durable when it returns.
pub(super) fn make_folders(files: &dyn Files, path: &Path) -> io::Result<()> {
    if path.as_os_str().is_empty() {
        return Ok(());
    }
    if path.is_dir() {
        // A process that was killed after it made the folder, or the one above, may have left the name unsynced.
        let above = path.parent().map_or(Ok(()), |parent| sync_parent(files, parent));
        return match sync_parent(files, path).and(above) {
            // Then it is not ours either.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            synced => synced,
        };
    }
    if let Some(parent) = path.parent() {
        make_folders(files, parent)?;
    }
    match files.make_folder(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => sync_parent(files, path),
    }
}

/// The one place that syncs a folder: after every creation, renaming and removal in it.
fn sync_parent(files: &dyn Files, path: &Path) -> io::Result<()> {
    match path.parent() {
        // A relative path of one part stands in the folder that the process stands in.
        Some(folder) if folder.as_os_str().is_empty() => files.sync_folder(Path::new(".")),
        Some(folder) => files.sync_folder(folder),
        None => Ok(()),
    }
}

fn remove_if_present(files: &dyn Files, path: &Path) -> io::Result<()> {
    match files.remove(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The real disk.
pub(super) struct Disk;

impl Files for Disk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        Ok(Box::new(OpenOptions::new().append(true).create_new(true).open(path)?))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        Ok(Box::new(OpenOptions::new().append(true).open(path)?))
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        let disk = rustix::fs::statvfs(path)?;
        Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
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
