//! Why the log refused or failed, and whether asking again can help.

use std::{io, path::Path, path::PathBuf, sync::Arc, time::Duration};

/// Why the log refused or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The queue to the disk, or the log's share of the disk, is full.
    #[error("the log is full ({0}); retry later, or raise wal.{0}")]
    Full(&'static str),
    /// The disk itself is nearly full, and what is left is kept for flushing and marks.
    #[error(
        "the log's disk has {free_bytes} bytes left, under wal.free_bytes_min; free space on it and retry"
    )]
    LowSpace {
        /// What is left, in bytes.
        free_bytes: u64,
    },
    /// The disk refused the write; nothing of it stays.
    #[error("the log cannot write: {0}; free space on its disk")]
    Write(Arc<io::Error>),
    /// A sync failed: nothing since the last good one can be promised.
    #[error("the log is poisoned after a failed sync; restart the server, it recovers what was acknowledged")]
    Poisoned,
    /// The frame is larger than a frame may be.
    #[error("a frame of {0} bytes is over wal.frame_bytes_max")]
    TooLarge(usize),
    /// A frame that was indexed cannot be read back.
    #[error("frame {seq} cannot be read back: {problem}")]
    Unreadable {
        /// Its sequence number.
        seq: u64,
        /// What is wrong with it.
        problem: String,
    },
    /// The log's folder cannot be used.
    #[error("the log's folder {path}: {source}")]
    Folder {
        /// File or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A segment of another format.
    #[error("{0} is a segment of another format; open it with the version that wrote it")]
    Format(PathBuf),
    /// The log is closing.
    #[error("the log is closed")]
    Closed,
}

impl Error {
    /// When the same append may succeed; `None` when it never will on this log.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Full(_) | Self::Closed => Some(Duration::from_secs(1)),
            Self::LowSpace { .. } | Self::Write(_) | Self::Poisoned => Some(Duration::from_secs(5)),
            Self::TooLarge(_) | Self::Unreadable { .. } | Self::Folder { .. } | Self::Format(_) => None,
        }
    }
}

/// Names the file or folder that an operation failed on.
pub(super) fn at(path: &Path) -> impl Fn(io::Error) -> Error + use<> {
    let path = path.to_owned();
    move |source| Error::Folder { path: path.clone(), source }
}
