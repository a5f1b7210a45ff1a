//! The durable log of what was received: bytes in, a sequence number back once they are on this disk.
//!
//! It knows nothing of spans. One thread owns the file; callers hand it frames and wait. What is queued is written
//! together and synced once (group commit). A caller that goes away never takes its frame with it.
//!
//! | file | what it knows |
//! |---|---|
//! | `frame` | one frame: layout, checksum |
//! | `header` | the start of a segment: format, salt |
//! | `reader` | the scan of a segment past damage, one frame by its place |
//! | `segment` | the set of segments: recovery, what is still needed |
//! | `marks` | what the tables already hold |
//! | `writer` | the thread: group commit, rotation, poison |
//! | `handover` | durable frames on their way to the reader |
//! | `attempt` | which frame was being processed when the process died |
//! | `quarantine` | what was set aside |
//! | `files` | every change to the disk, so that tests can fail it |
//! | `error` | why the log refused, and when to ask again |
//!
//! On disk, under the log's folder: `<first sequence number>.seg` (a header, then frames), `marks`, `attempt`, and
//! `quarantine/` with frames and damaged bytes that were set aside. Files with other names are left alone.
//!
//! *Torn tail*: bytes at the end of the last segment that are no frame, the trace of a crash; they are cut off.
//! *Damage*: bad bytes elsewhere; the good frames around them are kept, the bad bytes go to quarantine.
//! *Poison*: after a failed sync nothing can be promised, so the log refuses everything until it is opened anew.
//! *Mark*: the tables hold a tenant's frames up to here. It only saves time; the tables are the truth.
//!
//! Sequence numbers have no gap while the log is sound, depend on no clock, and never come back, though all segments
//! may be gone.
//!
//! A success means: checksummed, synced (file and folder), readable after SIGKILL or power loss on this disk.
//! It does not mean replicated: whoever loses the disk loses what the tables do not hold yet.

mod attempt;
mod error;
mod files;
mod frame;
mod handover;
mod header;
mod marks;
mod quarantine;
mod reader;
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
    time::{Duration, Instant},
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::{config::wal::Settings, tenant::TenantId};
use error::at;
use files::Files;
use segment::Segments;

pub use attempt::ATTEMPTS_MAX;
pub use error::Error;
pub use frame::{Frame, FrameKind};
pub use handover::DurableFrames;
pub use quarantine::{Note, Quarantine, Quarantined, quarantined};
pub use reader::FrameRef;

/// How long a look at the disk's free space holds.
const FREE_SPACE_VALID: Duration = Duration::from_secs(1);

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

/// The log; clones share it. The last one to go closes it.
#[derive(Clone)]
pub struct Wal {
    handle: Arc<Handle>,
}

/// What callers share with the thread.
struct Shared {
    settings: Settings,
    /// `settings.segment_bytes`, but never so much that the segment being written, which cannot be removed, holds
    /// most of the log's share of the disk.
    segment_bytes: u64,
    folder: PathBuf,
    files: Arc<dyn Files>,
    queued_bytes: AtomicUsize,
    disk_bytes: AtomicU64,
    /// The number after the greatest that is durable. Raised before callers hear of it.
    next_seq: AtomicU64,
    poisoned: AtomicBool,
    segments: Mutex<Segments>,
}

/// What callers share among themselves.
struct Handle {
    shared: Arc<Shared>,
    requests: Mutex<Option<mpsc::Sender<writer::Request>>>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
    waiting: handover::Waiting,
    attempt: Mutex<attempt::Attempt>,
    free_space: Mutex<Option<(Instant, u64)>>,
}

impl std::fmt::Debug for Wal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wal").field("folder", &self.handle.shared.folder).finish_non_exhaustive()
    }
}

/// An append under way. Dropping it does not undo it; only the answer is lost.
#[derive(Debug)]
pub struct Appended(oneshot::Receiver<Result<u64, Error>>);

impl Appended {
    /// Blocks until the frame is durable; its sequence number then. Not for async tasks: await it there.
    ///
    /// # Errors
    /// When the disk refused the frame, the log became poisoned, or it closed first.
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
        files::make_folders(files.as_ref(), folder).map_err(at(folder))?;
        let (mut segments, mut recovered) = Segments::recover(files.as_ref(), folder)?;
        let (next_seq, current) = segments.begin(files.as_ref(), min_next_seq)?;
        recovered.next_seq = next_seq;
        let attempt = attempt::Attempt::open(folder).map_err(at(folder))?;
        let (requests, queue) = mpsc::channel();
        let (durable, waiting, frames) = handover::channel();
        let shared = Arc::new(Shared {
            segment_bytes: settings.segment_bytes.min(settings.disk_bytes_max / 4),
            settings,
            folder: folder.to_owned(),
            files,
            queued_bytes: AtomicUsize::new(0),
            disk_bytes: AtomicU64::new(segments.bytes()),
            next_seq: AtomicU64::new(next_seq),
            poisoned: AtomicBool::new(false),
            segments: Mutex::new(segments),
        });
        let writer = writer::Writer::new(shared.clone(), queue, durable, current, next_seq);
        let thread = std::thread::Builder::new().name("wal".into()).spawn(move || writer.run());
        let handle = Handle {
            shared,
            requests: Mutex::new(Some(requests)),
            thread: Mutex::new(Some(thread.map_err(at(folder))?)),
            waiting,
            attempt: Mutex::new(attempt),
            free_space: Mutex::new(None),
        };
        Ok((Self { handle: Arc::new(handle) }, recovered, frames))
    }

    /// Reads what a log holds without opening it: nothing is written, cut off or started.
    ///
    /// # Errors
    /// When the folder cannot be read or holds another format. A folder that is absent is an empty log.
    pub fn peek(folder: &Path) -> Result<Vec<FrameRef>, Error> {
        segment::peek(folder)
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
        let (shared, size) = (&self.handle.shared, bytes.len());
        if size > shared.settings.frame_bytes_max || u32::try_from(size).is_err() {
            return Err(Error::TooLarge(size));
        }
        let charged = charge(size);
        let queued = shared.queued_bytes.fetch_add(charged, Ordering::AcqRel);
        let sent = self.admit(queued, charged).and_then(|()| {
            let (answer, waiting) = oneshot::channel();
            let frame = Frame { seq: 0, tenant, received_at, kind, bytes };
            let requests = self.handle.requests.lock();
            let sent = requests.as_ref().map(|r| r.send(writer::Request { frame, answer }));
            match sent {
                Some(Ok(())) => Ok(Appended(waiting)),
                _ if self.is_poisoned() => Err(Error::Poisoned),
                _ => Err(Error::Closed),
            }
        });
        if sent.is_err() {
            let _ = shared.queued_bytes.fetch_sub(charged, Ordering::AcqRel);
        }
        sent
    }

    /// Whether there is room for `charged` bytes behind `queued` ones.
    fn admit(&self, queued: usize, charged: usize) -> Result<(), Error> {
        let Shared { settings, disk_bytes, .. } = self.handle.shared.as_ref();
        if self.is_poisoned() {
            return Err(Error::Poisoned);
        }
        let wanted = queued.saturating_add(charged);
        // A frame that is larger than the whole queue goes through alone.
        if queued > 0 && wanted > settings.queue_bytes_max {
            return Err(Error::Full("queue_bytes_max"));
        }
        // Behind a reader that is slow, what is let in now would be answered when that has moved on.
        let waiting = self.handle.waiting.bytes();
        if waiting > 0 && wanted.saturating_add(waiting) > settings.queue_bytes_max.max(charged) {
            return Err(Error::Full("queue_bytes_max"));
        }
        if disk_bytes.load(Ordering::Relaxed).saturating_add(wanted as u64) > settings.disk_bytes_max {
            return Err(Error::Full("disk_bytes_max"));
        }
        match self.free_bytes() {
            Some(free_bytes) if free_bytes < settings.free_bytes_min.saturating_add(wanted as u64) => {
                Err(Error::LowSpace { free_bytes })
            }
            _ => Ok(()),
        }
    }

    /// What is free on the log's disk, as of a moment ago. A disk that does not say is written until it refuses.
    fn free_bytes(&self) -> Option<u64> {
        let mut seen = self.handle.free_space.lock();
        if let Some((when, bytes)) = *seen
            && when.elapsed() < FREE_SPACE_VALID
        {
            return Some(bytes);
        }
        let shared = &self.handle.shared;
        let bytes = match shared.files.free_bytes(&shared.folder) {
            Ok(bytes) => bytes,
            Err(error) => {
                tracing::debug!(%error, "cannot tell the free space of the log's disk");
                u64::MAX
            }
        };
        *seen = Some((Instant::now(), bytes));
        Some(bytes)
    }

    /// The whole frame behind an index entry.
    ///
    /// # Errors
    /// When it is gone or its checksum does not hold.
    pub fn read(frame: &FrameRef) -> Result<Frame, Error> {
        reader::read(frame)
    }

    /// Says that the tables hold each tenant's frames up to its mark; segments that nobody needs any more go.
    ///
    /// Durable when it returns. It only saves time: the truth is in the tables, and a mark may be behind it. A mark
    /// above the last frame counts as the last frame.
    ///
    /// # Errors
    /// When the marks cannot be written or a segment cannot be removed. The same call may succeed later.
    pub fn release(&self, marks: &BTreeMap<TenantId, u64>) -> Result<(), Error> {
        let shared = &self.handle.shared;
        let mut segments = shared.segments.lock();
        let next_seq = shared.next_seq.load(Ordering::Acquire);
        let released = segments.release(shared.files.as_ref(), marks, next_seq);
        shared.disk_bytes.store(segments.bytes(), Ordering::Relaxed);
        // Removing made room.
        *self.handle.free_space.lock() = None;
        released
    }

    /// Notes that a frame is about to be processed, and returns how often that was begun without an end before.
    ///
    /// A process that dies in between finds the count raised; past [`ATTEMPTS_MAX`] the frame should be set aside.
    ///
    /// # Errors
    /// When it cannot be written down.
    pub fn begin_attempt(&self, seq: u64) -> Result<u32, Error> {
        self.handle.attempt.lock().begin(seq).map_err(at(&self.handle.shared.folder))
    }

    /// Ends the attempt: the process lives.
    ///
    /// # Errors
    /// When it cannot be written down.
    pub fn end_attempt(&self) -> Result<(), Error> {
        self.handle.attempt.lock().end().map_err(at(&self.handle.shared.folder))
    }

    /// Copies a frame to the quarantine folder, durably: its bytes, and beside them a note that says whose it is and
    /// `reason`. Returns where the bytes are. The caller then treats the frame as done.
    ///
    /// # Errors
    /// When it cannot be copied.
    pub fn quarantine(&self, frame: &Frame, reason: &str) -> Result<PathBuf, Error> {
        let shared = &self.handle.shared;
        let path = quarantine::keep_frame(shared.files.as_ref(), &shared.folder, frame, reason)?;
        tracing::error!(seq = frame.seq, tenant = %frame.tenant, reason, "frame set aside in quarantine");
        Ok(path)
    }

    /// The number after the greatest that is durable; what was acknowledged is below it.
    pub fn next_seq(&self) -> u64 {
        self.handle.shared.next_seq.load(Ordering::Acquire)
    }

    /// Bytes of all segments.
    pub fn disk_bytes(&self) -> u64 {
        self.handle.shared.disk_bytes.load(Ordering::Relaxed)
    }

    /// True after a failed sync.
    pub fn is_poisoned(&self) -> bool {
        self.handle.shared.poisoned.load(Ordering::Acquire)
    }

    /// The tenant that keeps the oldest segment alive, when there is more than one segment.
    pub fn pins_oldest_segment(&self) -> Option<TenantId> {
        self.handle.shared.segments.lock().pins_oldest()
    }

    /// Takes no more frames, writes what is queued, and ends the thread. It does not wait for the reader of durable
    /// frames: what that has not taken comes back as recovered.
    pub fn close(&self) {
        self.handle.close();
    }
}

impl Handle {
    fn close(&self) {
        drop(self.requests.lock().take());
        let thread = self.thread.lock().take();
        if thread.is_some_and(|t| t.join().is_err()) {
            tracing::error!("the log's thread panicked");
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.close();
    }
}

/// What a frame counts for while it waits: its body, and enough for the rest that empty ones count too.
fn charge(body_bytes: usize) -> usize {
    body_bytes.saturating_add(256)
}

#[cfg(test)]
mod tests;
