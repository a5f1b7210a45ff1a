//! The only door to the files of the tables: what is put here is durable when the call returns.
//!
//! One local folder for now; the operations are those that an object store has too.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;

/// How a conditional put ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// The object is ours and durable.
    Done,
    /// Another object has that name; nothing was changed.
    Exists,
}

/// A folder of objects, named by relative paths with `/`.
#[derive(Clone, Debug)]
pub struct Objects {
    root: PathBuf,
    writes: Arc<AtomicU64>,
    /// Folders whose names this process has synced.
    folders: Arc<Mutex<HashSet<PathBuf>>>,
    /// Tests only: what becomes of a change.
    #[cfg(test)]
    faults: Arc<Mutex<Option<Faults>>>,
}

impl Objects {
    /// The objects under `root`; the folder is made by the first put.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            writes: Arc::default(),
            folders: Arc::default(),
            #[cfg(test)]
            faults: Arc::default(),
        }
    }

    /// Where an object stands on disk.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Writes a new object; never replaces one.
    ///
    /// # Errors
    /// Any error leaves the outcome unknown: read the name to learn it.
    pub fn put_if_absent(&self, name: &str, bytes: &[u8]) -> io::Result<Put> {
        let (target, temporary) = self.temporary(name, bytes)?;
        let linked = self.change(|| fs::hard_link(&temporary, &target));
        // A temporary file that stays behind is an orphan and is swept; its loss harms nobody.
        let _ = fs::remove_file(&temporary);
        match linked {
            Ok(()) => sync_parent(&target).map(|()| Put::Done),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Put::Exists),
            Err(error) => Err(error),
        }
    }

    /// Writes an object, replacing one of that name.
    ///
    /// # Errors
    /// Any error leaves the outcome unknown: the old object, the new one, or none if there was none.
    pub fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let (target, temporary) = self.temporary(name, bytes)?;
        self.change(|| fs::rename(&temporary, &target).and_then(|()| sync_parent(&target)))
    }

    /// The whole object, or `None` when there is none of that name.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        match fs::read(self.path(name)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Names of the objects directly in `folder`, sorted; empty when there is no such folder.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(self.path(folder)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut names = Vec::new();
        for entry in entries {
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// Deletes an object; one that is not there counts as deleted.
    ///
    /// # Errors
    /// When it cannot be deleted.
    pub fn delete(&self, name: &str) -> io::Result<()> {
        self.change(|| match fs::remove_file(self.path(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        })
    }

    /// A durable file beside the target, holding `bytes`. The dot hides it from table readers.
    fn temporary(&self, name: &str, bytes: &[u8]) -> io::Result<(PathBuf, PathBuf)> {
        let target = self.path(name);
        let folder = target.parent().unwrap_or(&self.root).to_owned();
        let stem = target.file_name().unwrap_or_default().to_string_lossy();
        let unique = self.writes.load(Ordering::Relaxed);
        let temporary = folder.join(format!(".{stem}.{}.{unique}.tmp", std::process::id()));
        self.change(|| {
            self.make_folder(&folder)?;
            let mut file = File::create(&temporary)?;
            file.write_all(bytes)?;
            file.sync_all()
        })?;
        Ok((target, temporary))
    }

    /// Makes a folder and those above it, each durable in the one above. One of ours that is there may have been made
    /// by a process that was killed before it synced the name.
    fn make_folder(&self, folder: &Path) -> io::Result<()> {
        let is_ours = folder.starts_with(&self.root);
        if self.folders.lock().contains(folder) || !is_ours && folder.is_dir() {
            return Ok(());
        }
        if let Some(parent) = folder.parent().filter(|p| !p.as_os_str().is_empty()) {
            self.make_folder(parent)?;
        }
        match fs::create_dir(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => sync_parent(folder)?,
        }
        let _ = self.folders.lock().insert(folder.to_owned());
        Ok(())
    }

    /// Makes a change to the disk; where tests make one fail.
    fn change(&self, make: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let _n = self.writes.fetch_add(1, Ordering::Relaxed) + 1;
        #[cfg(test)]
        match self.faults.lock().as_mut().map_or(Fault::None, |faults| (faults.0)(_n)) {
            Fault::None => {}
            Fault::Refused => return Err(io::Error::other("injected: refused")),
            Fault::AnswerLost => return make().and(Err(io::Error::other("injected: done, answer lost"))),
        }
        make()
    }

    /// Changes so far.
    #[cfg(test)]
    pub(crate) fn changes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// Tests: says what becomes of each change from now on, by its number.
    #[cfg(test)]
    pub(crate) fn inject(&self, faults: impl FnMut(u64) -> Fault + Send + 'static) {
        *self.faults.lock() = Some(Faults(Box::new(faults)));
    }
}

/// What a test makes of a change to the disk.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is made.
    None,
    /// It is not made, and fails.
    Refused,
    /// It is made, and reported as failed.
    AnswerLost,
}

#[cfg(test)]
struct Faults(Box<dyn FnMut(u64) -> Fault + Send>);

#[cfg(test)]
impl std::fmt::Debug for Faults {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Faults")
    }
}

fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_conditional_put_does_not_replace_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let objects = Objects::new(dir.path());
        assert_eq!(objects.put_if_absent("a/b/0.json", b"one").unwrap(), Put::Done);
        assert_eq!(objects.put_if_absent("a/b/0.json", b"two").unwrap(), Put::Exists);
        assert_eq!(objects.read("a/b/0.json").unwrap().unwrap(), b"one");
        assert_eq!(objects.list("a/b").unwrap(), ["0.json"], "no temporary file stays");
    }
}
