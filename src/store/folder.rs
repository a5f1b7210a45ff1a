//! The data folder: its format, its lock, its node id.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{Read, Seek, SeekFrom, Write},
    net::SocketAddr,
    path::{Path, PathBuf},
};

use parking_lot::Mutex;

use super::{Error, Mode, object::Objects};

const FORMAT: &str = "spanreel data 1\n";

/// A data folder that this process holds, alone or with other readers.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    lock: Mutex<File>,
    /// Names this folder's log in the tables; fixed for its life.
    pub node_id: String,
}

impl Folder {
    /// Opens the folder, checks its format and takes its lock; makes it for [`Mode::ReadWrite`].
    ///
    /// # Errors
    /// As [`super::Store::open`].
    pub fn open(path: &Path, mode: Mode) -> Result<Self, Error> {
        let io = |source| Error::Io { path: path.to_owned(), source };
        let objects = Objects::new(path);
        match objects.read("format") {
            Ok(Some(format)) if format == FORMAT.as_bytes() => {}
            Ok(Some(format)) => {
                let found = String::from_utf8_lossy(&format).trim().chars().take(40).collect();
                return Err(Error::OtherVersion { path: path.into(), found });
            }
            Ok(None) if mode == Mode::ReadOnly => return Err(Error::NotThere(path.into())),
            Ok(None) => {
                let foreign = std::fs::read_dir(path).is_ok_and(|mut d| d.next().is_some());
                // A crash while the folder was made may leave the lock file alone.
                if foreign && !path.join("lock").exists() {
                    return Err(Error::OtherVersion { path: path.into(), found: "not a data folder".into() });
                }
                objects.put("format", FORMAT.as_bytes()).map_err(io)?;
            }
            Err(error) => return Err(io(error)),
        }
        let lock = Self::lock(path, mode)?;
        let node_id = match objects.read("node_id").map_err(io)? {
            Some(id) => String::from_utf8_lossy(&id).trim().to_owned(),
            None if mode == Mode::ReadOnly => String::new(),
            None => {
                let mut random = [0; 16];
                File::open("/dev/urandom").and_then(|mut f| f.read_exact(&mut random)).map_err(io)?;
                let id = uuid::Uuid::new_v8(random).to_string();
                objects.put("node_id", id.as_bytes()).map_err(io)?;
                id
            }
        };
        Ok(Self { path: path.into(), lock: Mutex::new(lock), node_id })
    }

    fn lock(path: &Path, mode: Mode) -> Result<File, Error> {
        let io = |source| Error::Io { path: path.join("lock"), source };
        let write = mode == Mode::ReadWrite;
        let opened =
            OpenOptions::new().read(true).write(write).create(write).truncate(false).open(path.join("lock"));
        let mut file = opened.map_err(io)?;
        let taken = if write { file.try_lock() } else { file.try_lock_shared() };
        match taken {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let _ = file.read_to_string(&mut text).map_err(io)?;
                Err(Error::InUse { path: path.into(), api: text.trim().parse().ok() })
            }
            Err(TryLockError::Error(source)) => Err(io(source)),
        }
    }

    /// Writes the API's address into the lock file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn announce(&self, api: SocketAddr) -> Result<(), Error> {
        let mut file = self.lock.lock();
        let written = file
            .set_len(0)
            .and_then(|()| file.seek(SeekFrom::Start(0)))
            .and_then(|_| writeln!(file, "{api}"));
        written.map_err(|source| Error::Io { path: self.path.join("lock"), source })
    }
}
