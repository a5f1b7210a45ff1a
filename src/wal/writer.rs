//! The thread that owns the log's file: group commit, rotation, poison.

use std::{
    sync::{Arc, atomic::Ordering, mpsc},
    time::Instant,
};

use tokio::sync::oneshot;

use super::{
    Error, Frame, Shared, charge, files::Failure, frame, handover::Sender, header, segment::Current,
};

/// A group stops growing past this, so that an answer never waits long. One frame more may be in it.
const GROUP_BYTES_MAX: usize = 8 << 20;

pub(super) struct Request {
    pub(super) frame: Frame,
    pub(super) answer: oneshot::Sender<Result<u64, Error>>,
}

pub(super) struct Writer {
    shared: Arc<Shared>,
    queue: mpsc::Receiver<Request>,
    durable: Sender,
    current: Current,
    /// Length of the file that is known to be good.
    length: u64,
    next_seq: u64,
}

/// Poisons the log when its thread panics: nobody would answer any more.
struct PoisonOnPanic(Arc<Shared>);

impl Drop for PoisonOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.poisoned.store(true, Ordering::Release);
        }
    }
}

impl Writer {
    pub(super) fn new(
        shared: Arc<Shared>,
        queue: mpsc::Receiver<Request>,
        durable: Sender,
        current: Current,
        next_seq: u64,
    ) -> Self {
        Self { shared, queue, durable, current, length: header::BYTES as u64, next_seq }
    }

    /// Until the log is closed and the queue is empty.
    pub(super) fn run(mut self) {
        let _guard = PoisonOnPanic(self.shared.clone());
        while let Ok(first) = self.queue.recv() {
            let group = self.group(first);
            let queued: usize = group.iter().map(|r| charge(r.frame.bytes.len())).sum();
            self.commit(group);
            let _ = self.shared.queued_bytes.fetch_sub(queued, Ordering::AcqRel);
        }
    }

    /// What is queued behind `first`, up to the limit of a group.
    fn group(&mut self, first: Request) -> Vec<Request> {
        let mut bytes = charge(first.frame.bytes.len());
        let mut group = vec![first];
        while bytes < GROUP_BYTES_MAX {
            let Ok(next) = self.queue.try_recv() else { break };
            bytes += charge(next.frame.bytes.len());
            group.push(next);
        }
        group
    }

    fn commit(&mut self, mut group: Vec<Request>) {
        if self.shared.poisoned.load(Ordering::Acquire) {
            return refuse(group, || Error::Poisoned);
        }
        // A group may be one large frame: it is copied once, into what it needs.
        let charged = group.iter().map(|r| charge(r.frame.bytes.len())).sum();
        let mut bytes = Vec::with_capacity(charged);
        for (request, seq) in group.iter_mut().zip(self.next_seq..) {
            request.frame.seq = seq;
            frame::encode(&request.frame, self.current.salt, &mut bytes);
        }
        let begun = Instant::now();
        if let Err(error) = self.current.file.write(&bytes) {
            tracing::error!(%error, "cannot write to the log");
            // Nothing of the group may stay: what follows must begin where the last good frame ended.
            if let Err(error) = self.current.file.truncate(self.length) {
                tracing::error!(%error, "cannot cut a refused write off the log; it is poisoned");
                self.poison();
            }
            let error = Arc::new(error);
            return refuse(group, || Error::Write(error.clone()));
        }
        if let Err(error) = self.current.file.sync() {
            tracing::error!(%error, "cannot sync the log; it is poisoned");
            self.poison();
            return refuse(group, || Error::Poisoned);
        }
        let written = bytes.len() as u64;
        // What follows may take as much memory again.
        drop(bytes);
        self.length += written;
        self.next_seq += group.len() as u64;
        self.shared.next_seq.store(self.next_seq, Ordering::Release);
        tracing::trace!(frames = group.len(), bytes = written, elapsed = ?begun.elapsed(), "synced");
        self.publish(group, written);
        if self.length >= self.shared.segment_bytes {
            self.rotate();
        }
    }

    /// Answers, then takes note, then passes the frames on. Nothing stands between the sync and the answers.
    fn publish(&mut self, group: Vec<Request>, bytes: u64) {
        let mut frames = Vec::with_capacity(group.len());
        for Request { frame, answer } in group {
            // The caller may be gone; its frame stays.
            let _ = answer.send(Ok(frame.seq));
            frames.push(frame);
        }
        {
            let mut segments = self.shared.segments.lock();
            segments.appended(frames.iter().map(|f| (&f.tenant, f.seq)), bytes);
            self.shared.disk_bytes.store(segments.bytes(), Ordering::Relaxed);
        }
        self.durable.send(frames);
    }

    /// Starts the next segment. When there is no room the present one just grows on, and the next commit tries again.
    fn rotate(&mut self) {
        let mut segments = self.shared.segments.lock();
        match segments.start(self.shared.files.as_ref(), self.next_seq) {
            Ok(current) => {
                self.current = current;
                self.length = header::BYTES as u64;
                self.shared.disk_bytes.store(segments.bytes(), Ordering::Relaxed);
            }
            Err(Failure::Write(error)) => tracing::warn!(%error, "cannot start a new segment"),
            Err(Failure::Sync(error)) => {
                tracing::error!(%error, "cannot sync a new segment; the log is poisoned");
                self.poison();
            }
        }
    }

    fn poison(&self) {
        self.shared.poisoned.store(true, Ordering::Release);
    }
}

fn refuse(group: Vec<Request>, error: impl Fn() -> Error) {
    for request in group {
        let _ = request.answer.send(Err(error()));
    }
}
