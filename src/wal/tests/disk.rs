//! A disk that fails on demand, and forgets on a power loss what was not synced.
//!
//! The real folder holds what the process sees, so that reads need no seam. Beside it stand the durable names and the
//! durable bytes of each file; `lose_power` puts these in the folder's place. Real syncs are left out.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::{Condvar, Mutex};

use crate::wal::files::{Disk, Files, LogFile};

/// What an operation does to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Write,
    Sync,
    Other,
}

/// How bytes that were written and not synced come out of a power loss.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unsynced {
    Lost,
    /// This share of them, in 256ths, made it.
    Torn(u8),
    /// The length made it, the bytes did not.
    Zeros,
    /// Every other one made it.
    Holes,
}

#[derive(Clone, Default)]
pub(super) struct TestDisk(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
struct State {
    names: BTreeMap<PathBuf, usize>,
    durable_names: BTreeMap<PathBuf, usize>,
    files: Vec<Content>,
    /// Operations of the kind that are let through before one fails.
    fail: Option<(Option<Op>, u64)>,
    /// Failing goes on once it began.
    for_ever: bool,
    failed: bool,
    room: Option<usize>,
    free: Option<u64>,
    held: bool,
}

#[derive(Default)]
struct Content {
    is_folder: bool,
    written: Vec<u8>,
    synced: Vec<u8>,
}

struct TestFile {
    disk: TestDisk,
    id: usize,
    file: Box<dyn LogFile>,
}

impl TestDisk {
    /// The `n`th operation of the kind, from now and from 1, fails; all after it as well when `for_ever`.
    pub(super) fn fail(&self, op: Option<Op>, n: u64, for_ever: bool) {
        let mut state = self.0.0.lock();
        (state.fail, state.for_ever, state.failed) = (Some((op, n)), for_ever, false);
    }

    /// Whether an operation was made to fail, and none will be any more.
    pub(super) fn heal(&self) -> bool {
        let mut state = self.0.0.lock();
        state.fail = None;
        std::mem::take(&mut state.failed)
    }

    /// Bytes that fit before the disk is full.
    pub(super) fn set_room(&self, room: Option<usize>) {
        self.0.0.lock().room = room;
    }

    pub(super) fn set_free(&self, bytes: u64) {
        self.0.0.lock().free = Some(bytes);
    }

    /// Makes syncs of files wait.
    pub(super) fn hold(&self, held: bool) {
        self.0.0.lock().held = held;
        let _ = self.0.1.notify_all();
    }

    /// Names and bytes that were not synced are gone. No log may be open.
    pub(super) fn lose_power(&self, how: Unsynced) {
        let mut state = self.0.0.lock();
        let State { names, durable_names, files, .. } = &mut *state;
        for (path, id) in names.iter().rev() {
            if files[*id].is_folder {
                // Only when it is empty, else its own name was durable.
                let _ = fs::remove_dir(path);
            } else {
                fs::remove_file(path).unwrap();
            }
        }
        // A file in a folder whose name is gone is gone.
        let kept: BTreeMap<_, _> = durable_names
            .iter()
            .filter(|(path, _)| {
                path.ancestors().skip(1).all(|a| !names.contains_key(a) || durable_names.contains_key(a))
            })
            .map(|(path, id)| (path.clone(), *id))
            .collect();
        for (path, id) in &kept {
            let file = &mut files[*id];
            if file.is_folder {
                fs::create_dir_all(path).unwrap();
            } else {
                file.written = file.after_power_loss(how);
                file.synced.clone_from(&file.written);
                fs::write(path, &file.written).unwrap();
            }
        }
        names.clone_from(&kept);
        *durable_names = kept;
    }

    fn begin(&self, op: Op) -> io::Result<()> {
        let mut state = self.0.0.lock();
        let for_ever = state.for_ever;
        let Some((kind, left)) = &mut state.fail else { return Ok(()) };
        if kind.is_some_and(|kind| kind != op) {
            return Ok(());
        }
        *left = left.saturating_sub(1);
        if *left > 0 {
            return Ok(());
        }
        if !for_ever {
            state.fail = None;
        }
        state.failed = true;
        Err(io::Error::other("injected"))
    }

    /// What is there already when the test begins is durable.
    fn id_of(&self, path: &Path) -> usize {
        let mut state = self.0.0.lock();
        if let Some(id) = state.names.get(path) {
            return *id;
        }
        let written = fs::read(path).unwrap();
        state.files.push(Content { is_folder: false, synced: written.clone(), written });
        let id = state.files.len() - 1;
        let _ = state.names.insert(path.into(), id);
        let _ = state.durable_names.insert(path.into(), id);
        id
    }

    fn add(&self, path: &Path, is_folder: bool) -> usize {
        let mut state = self.0.0.lock();
        state.files.push(Content { is_folder, ..Content::default() });
        let id = state.files.len() - 1;
        let _ = state.names.insert(path.into(), id);
        id
    }
}

impl Content {
    fn after_power_loss(&self, how: Unsynced) -> Vec<u8> {
        let mut bytes = self.synced.clone();
        // After a cut that was not synced, the synced bytes are the best that can be said.
        let Some(rest) = self.written.strip_prefix(self.synced.as_slice()) else { return bytes };
        match how {
            Unsynced::Lost => {}
            Unsynced::Torn(share) => bytes.extend(&rest[..rest.len() * usize::from(share) / 256]),
            Unsynced::Zeros => bytes.resize(self.written.len(), 0),
            Unsynced::Holes => {
                bytes.extend(rest.iter().enumerate().map(|(i, b)| if i % 2 == 0 { *b } else { 0 }));
            }
        }
        bytes
    }
}

impl Files for TestDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        self.begin(Op::Other)?;
        let file = Disk.create(path)?;
        Ok(Box::new(TestFile { disk: self.clone(), id: self.add(path, false), file }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        self.begin(Op::Other)?;
        let file = Disk.open(path)?;
        Ok(Box::new(TestFile { disk: self.clone(), id: self.id_of(path), file }))
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.begin(Op::Other)?;
        Disk.make_folder(path)?;
        let _ = self.add(path, true);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.begin(Op::Other)?;
        let id = self.id_of(from);
        Disk.rename(from, to)?;
        let mut state = self.0.0.lock();
        let _ = state.names.remove(from);
        let _ = state.names.insert(to.into(), id);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        if !path.exists() {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.begin(Op::Other)?;
        let _ = self.id_of(path);
        Disk.remove(path)?;
        let _ = self.0.0.lock().names.remove(path);
        Ok(())
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.begin(Op::Sync)?;
        let mut state = self.0.0.lock();
        let State { names, durable_names, .. } = &mut *state;
        durable_names.retain(|name, _| name.parent() != Some(path));
        let inside = names.iter().filter(|(name, _)| name.parent() == Some(path));
        durable_names.extend(inside.map(|(name, id)| (name.clone(), *id)));
        Ok(())
    }

    fn free_bytes(&self, _: &Path) -> io::Result<u64> {
        Ok(self.0.0.lock().free.unwrap_or(u64::MAX))
    }
}

impl LogFile for TestFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let refused = self.disk.begin(Op::Write).err();
        let mut state = self.disk.0.0.lock();
        let room = state.room.unwrap_or(usize::MAX);
        // A failed write leaves half of the bytes, a full disk those that fit.
        let part = if refused.is_some() { bytes.len() / 2 } else { bytes.len() }.min(room);
        state.room = state.room.map(|room| room - part);
        state.files[self.id].written.extend(&bytes[..part]);
        self.file.write(&bytes[..part])?;
        match refused {
            Some(error) => Err(error),
            None if part < bytes.len() => Err(io::ErrorKind::StorageFull.into()),
            None => Ok(()),
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        self.disk.begin(Op::Sync)?;
        let mut state = self.disk.0.0.lock();
        while state.held {
            self.disk.0.1.wait(&mut state);
        }
        let file = &mut state.files[self.id];
        file.synced.clone_from(&file.written);
        Ok(())
    }

    fn truncate(&mut self, bytes: u64) -> io::Result<()> {
        self.disk.begin(Op::Other)?;
        self.disk.0.0.lock().files[self.id].written.truncate(bytes.try_into().unwrap());
        self.file.truncate(bytes)
    }
}
