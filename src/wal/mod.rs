//! The durable log of what was received: bytes in, a sequence number back once they are on this disk.
//!
//! It knows nothing of spans. One thread owns the file; callers hand it frames and wait. What is queued is written
//! together and synced once (group commit). A caller that goes away never takes its frame with it.
//!
//! | file | what it knows |
//! |---|---|
//! | `frame` | one frame: layout, checksum |
//! | `segment` | a file of frames: names, recovery scan, torn tail, damage |
//! | `writer` | the thread: group commit, rotation, poison |
//! | `marks` | what the tables already hold; segments that can go |
//! | `attempt` | which frame was being processed when the process died |
//! | `files` | writes, syncs and directory syncs, so that tests can fail them |
//!
//! On disk, under the log's folder: `<first sequence number>.seg` (8 bytes of format, then frames), `marks.json`,
//! `attempt`, and `quarantine/` with frames and damaged bytes that were set aside.
//!
//! *Torn tail*: an incomplete last frame, the trace of a crash; it was never acknowledged and is cut off.
//! *Damage*: bad bytes with good frames after them; the good ones are kept, the bad bytes go to quarantine.
//! *Poison*: after a failed sync nothing can be promised, so the log refuses everything until it is opened anew.
//! A success means: checksummed, synced (file and folder), readable after SIGKILL or power loss on this disk.

mod attempt;
mod files;
mod frame;
mod marks;
mod segment;
mod writer;

use std::{
    collections::BTreeMap,
    future::Future,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
        mpsc,
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::{config::wal::Settings, tenant::TenantId};
use files::Files;
use segment::Segments;

pub use attempt::ATTEMPTS_MAX;
pub use frame::{Frame, FrameKind};
pub use segment::FrameRef;

/// Why the log refused or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The queue to the disk, or the disk's share, is full.
    #[error("the log is full ({0}); retry later, or raise wal.{0}")]
    Full(&'static str),
    /// The disk refused the write; nothing of it stays.
    #[error("the log cannot write: {0}; free space on its disk")]
    Write(Arc<std::io::Error>),
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
        source: std::io::Error,
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
            Self::Write(_) | Self::Poisoned => Some(Duration::from_secs(5)),
            _ => None,
        }
    }
}

/// What opening the log found.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Frames that no mark covers, in order; their bytes are still on disk.
    pub frames: Vec<FrameRef>,
    /// The number that the next frame gets.
    pub next_seq: u64,
    /// Stretches of damaged bytes that were set aside.
    pub quarantined: u64,
    /// Bytes of a torn tail that were cut off.
    pub torn_bytes: u64,
}

/// Frames in order, each after it became durable.
pub type DurableFrames = mpsc::Receiver<Vec<Frame>>;

/// The log; clones share it.
#[derive(Clone)]
pub struct Wal {
    shared: Arc<Shared>,
}

struct Shared {
    settings: Settings,
    folder: PathBuf,
    files: Arc<dyn Files>,
    requests: Mutex<Option<mpsc::Sender<writer::Request>>>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
    queued_bytes: AtomicUsize,
    disk_bytes: AtomicU64,
    poisoned: AtomicBool,
    segments: Mutex<Segments>,
    attempt: Mutex<attempt::Attempt>,
}

impl std::fmt::Debug for Wal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wal").field("folder", &self.shared.folder).finish_non_exhaustive()
    }
}

/// An append under way. Dropping it does not undo it; only the answer is lost.
#[derive(Debug)]
pub struct Appended(oneshot::Receiver<Result<u64, Error>>);

impl Appended {
    /// Blocks until the frame is durable; its sequence number then.
    ///
    /// # Errors
    /// As the future.
    pub fn wait(self) -> Result<u64, Error> {
        self.0.blocking_recv().unwrap_or(Err(Error::Closed))
    }
}

impl Future for Appended {
    type Output = Result<u64, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(|answer| answer.unwrap_or(Err(Error::Closed)))
    }
}

impl Wal {
    /// Opens or makes the log in `folder`, and starts its thread.
    ///
    /// Frames that no mark covers are checked and indexed, not loaded. Sequence numbers go on after the greatest ever
    /// given out, and not below `min_next_seq`.
    ///
    /// # Errors
    /// When the folder cannot be read or written, or holds another format.
    pub fn open(
        folder: &Path,
        settings: Settings,
        min_next_seq: u64,
    ) -> Result<(Self, Recovered, DurableFrames), Error> {
        Self::open_with(folder, settings, min_next_seq, Arc::new(files::Disk))
    }

    fn open_with(
        folder: &Path,
        settings: Settings,
        min_next_seq: u64,
        files: Arc<dyn Files>,
    ) -> Result<(Self, Recovered, DurableFrames), Error> {
        let at = |path: &Path| {
            let path = path.to_owned();
            move |source| Error::Folder { path, source }
        };
        std::fs::create_dir_all(folder).map_err(at(folder))?;
        if let Some(parent) = folder.parent() {
            files.sync_folder(parent).map_err(at(parent))?;
        }
        let marks = marks::read(folder).map_err(at(folder))?;
        let (mut segments, mut recovered) = Segments::recover(folder, &marks, files.as_ref())?;
        recovered.next_seq = recovered.next_seq.max(marks.next_seq).max(min_next_seq);
        let attempt = attempt::Attempt::open(folder).map_err(at(folder))?;
        let file = segments.start(recovered.next_seq, files.as_ref())?;
        segments.save_marks(recovered.next_seq, files.as_ref())?;
        let (requests, queue) = mpsc::channel();
        // A slow reader holds the thread back; appends then fill the queue and are refused.
        let (durable, frames) = mpsc::sync_channel(64);
        let shared = Arc::new(Shared {
            settings,
            folder: folder.to_owned(),
            files,
            requests: Mutex::new(Some(requests)),
            thread: Mutex::new(None),
            queued_bytes: AtomicUsize::new(0),
            disk_bytes: AtomicU64::new(segments.bytes()),
            poisoned: AtomicBool::new(false),
            segments: Mutex::new(segments),
            attempt: Mutex::new(attempt),
        });
        let writer = writer::Writer::new(shared.clone(), queue, durable, file, recovered.next_seq);
        let thread =
            std::thread::Builder::new().name("wal".into()).spawn(move || writer.run()).map_err(at(folder))?;
        *shared.thread.lock() = Some(thread);
        Ok((Self { shared }, recovered, frames))
    }

    /// Reads what a log holds without opening it: nothing is written, cut off or started.
    ///
    /// # Errors
    /// When the folder cannot be read or holds another format. A folder that is absent is an empty log.
    pub fn peek(folder: &Path) -> Result<Vec<FrameRef>, Error> {
        let at = |source| Error::Folder { path: folder.to_owned(), source };
        Segments::peek(folder, &marks::read(folder).map_err(at)?)
    }

    /// Hands a frame to the log. The answer comes when it is durable.
    ///
    /// # Errors
    /// At once when the log is full, poisoned or closed, or the frame too large.
    pub fn append(
        &self,
        tenant: TenantId,
        received_at: u64,
        kind: FrameKind,
        bytes: Bytes,
    ) -> Result<Appended, Error> {
        let shared = &self.shared;
        let size = bytes.len();
        if size > shared.settings.frame_bytes_max {
            return Err(Error::TooLarge(size));
        }
        if self.is_poisoned() {
            return Err(Error::Poisoned);
        }
        if shared.disk_bytes.load(Ordering::Relaxed) >= shared.settings.disk_bytes_max {
            return Err(Error::Full("disk_bytes_max"));
        }
        let queued = shared.queued_bytes.fetch_add(size, Ordering::AcqRel);
        if queued > 0 && queued + size > shared.settings.queue_bytes_max {
            let _ = shared.queued_bytes.fetch_sub(size, Ordering::AcqRel);
            return Err(Error::Full("queue_bytes_max"));
        }
        let (answer, waiting) = oneshot::channel();
        let frame = Frame { seq: 0, tenant, received_at, kind, bytes };
        let sent = shared.requests.lock().as_ref().map(|r| r.send(writer::Request { frame, answer }));
        match sent {
            Some(Ok(())) => Ok(Appended(waiting)),
            _ => {
                let _ = shared.queued_bytes.fetch_sub(size, Ordering::AcqRel);
                Err(if self.is_poisoned() { Error::Poisoned } else { Error::Closed })
            }
        }
    }

    /// The whole frame behind an index entry.
    ///
    /// # Errors
    /// When it is gone or its checksum does not hold.
    pub fn read(frame: &FrameRef) -> Result<Frame, Error> {
        segment::read(frame)
    }

    /// Says that the tables hold each tenant's frames up to its mark; segments that nobody needs any more go.
    ///
    /// Durable when it returns. It only saves time: the truth is in the tables, and a mark may be behind it.
    ///
    /// # Errors
    /// When the marks cannot be written or a segment cannot be removed.
    pub fn release(&self, marks: &BTreeMap<TenantId, u64>) -> Result<(), Error> {
        let shared = &self.shared;
        let mut segments = shared.segments.lock();
        segments.raise(marks);
        let next_seq = segments.next_seq();
        segments.save_marks(next_seq, shared.files.as_ref())?;
        segments.remove_covered(shared.files.as_ref())?;
        shared.disk_bytes.store(segments.bytes(), Ordering::Relaxed);
        Ok(())
    }

    /// Notes that a frame is about to be processed, and returns how often that was begun without an end before.
    ///
    /// A process that dies in between finds the count raised; past [`ATTEMPTS_MAX`] the frame should be set aside.
    ///
    /// # Errors
    /// When it cannot be written down.
    pub fn begin_attempt(&self, seq: u64) -> Result<u32, Error> {
        self.shared.attempt.lock().begin(seq).map_err(|source| self.folder_error(source))
    }

    /// Ends the attempt: the process lives.
    ///
    /// # Errors
    /// When it cannot be written down.
    pub fn end_attempt(&self) -> Result<(), Error> {
        self.shared.attempt.lock().end().map_err(|source| self.folder_error(source))
    }

    /// Copies a frame's bytes to the quarantine folder, durably. The caller then treats the frame as done.
    ///
    /// # Errors
    /// When it cannot be read or copied.
    pub fn quarantine(&self, frame: &Frame, reason: &str) -> Result<PathBuf, Error> {
        let name = format!("frame-{:020}.{}", frame.seq, frame.kind.name());
        let path = segment::set_aside(&self.shared.folder, &name, &frame.bytes, self.shared.files.as_ref())?;
        tracing::error!(seq = frame.seq, tenant = %frame.tenant, reason, "frame set aside in quarantine");
        Ok(path)
    }

    /// The number after the greatest that is durable.
    pub fn next_seq(&self) -> u64 {
        self.shared.segments.lock().next_seq()
    }

    /// Bytes of all segments.
    pub fn disk_bytes(&self) -> u64 {
        self.shared.disk_bytes.load(Ordering::Relaxed)
    }

    /// True after a failed sync.
    pub fn is_poisoned(&self) -> bool {
        self.shared.poisoned.load(Ordering::Acquire)
    }

    /// The tenant that keeps the oldest segment alive, when there is more than one segment.
    pub fn pins_oldest_segment(&self) -> Option<TenantId> {
        self.shared.segments.lock().pins_oldest()
    }

    /// Takes no more frames, writes what is queued, and ends the thread.
    pub fn close(&self) {
        drop(self.shared.requests.lock().take());
        let thread = self.shared.thread.lock().take();
        if thread.is_some_and(|t| t.join().is_err()) {
            tracing::error!("the log's thread panicked");
        }
    }

    fn folder_error(&self, source: std::io::Error) -> Error {
        Error::Folder { path: self.shared.folder.clone(), source }
    }
}

#[cfg(test)]
mod tests;
