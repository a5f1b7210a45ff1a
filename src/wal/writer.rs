//! The thread that owns the log's file: group commit, rotation, poison.

use std::{
    sync::{Arc, atomic::Ordering, mpsc},
    time::Instant,
};

use tokio::sync::oneshot;

use super::{Error, Frame, Shared, files::LogFile, frame, segment::SEGMENT_HEADER};

/// Frames that are written and synced together hold at most this, so that an answer never waits long.
const GROUP_BYTES_MAX: usize = 8 << 20;

pub(super) struct Request {
    pub(super) frame: Frame,
    pub(super) answer: oneshot::Sender<Result<u64, Error>>,
}

pub(super) struct Writer {
    shared: Arc<Shared>,
    queue: mpsc::Receiver<Request>,
    durable: mpsc::SyncSender<Vec<Frame>>,
    file: Box<dyn LogFile>,
    /// Length of the file that is known to be good.
    length: u64,
    next_seq: u64,
}

impl Writer {
    pub(super) fn new(
        shared: Arc<Shared>,
        queue: mpsc::Receiver<Request>,
        durable: mpsc::SyncSender<Vec<Frame>>,
        file: Box<dyn LogFile>,
        next_seq: u64,
    ) -> Self {
        Self { shared, queue, durable, file, length: SEGMENT_HEADER.len() as u64, next_seq }
    }

    /// Until the log is closed and the queue is empty.
    pub(super) fn run(mut self) {
        while let Ok(first) = self.queue.recv() {
            let group = self.group(first);
            let queued: usize = group.iter().map(|r| r.frame.bytes.len()).sum();
            self.commit(group);
            let _ = self.shared.queued_bytes.fetch_sub(queued, Ordering::AcqRel);
        }
    }

    /// What is queued behind `first`, up to the limit of a group.
    fn group(&mut self, first: Request) -> Vec<Request> {
        let mut bytes = first.frame.bytes.len();
        let mut group = vec![first];
        while bytes < GROUP_BYTES_MAX {
            let Ok(next) = self.queue.try_recv() else { break };
            bytes += next.frame.bytes.len();
            group.push(next);
        }
        group
    }

    fn commit(&mut self, mut group: Vec<Request>) {
        if self.shared.poisoned.load(Ordering::Acquire) {
            return refuse(group, || Error::Poisoned);
        }
        let mut bytes = Vec::new();
        for (request, seq) in group.iter_mut().zip(self.next_seq..) {
            request.frame.seq = seq;
            frame::encode(&request.frame, &mut bytes);
        }
        let begun = Instant::now();
        if let Err(error) = self.file.write(&bytes) {
            // Nothing of the group may stay: what follows must begin where the last good frame ended.
            if self.file.truncate(self.length).is_err() {
                self.poison();
            }
            tracing::error!(%error, "cannot write to the log");
            let error = Arc::new(error);
            return refuse(group, || Error::Write(error.clone()));
        }
        if let Err(error) = self.file.sync() {
            tracing::error!(%error, "cannot sync the log; it is poisoned");
            self.poison();
            return refuse(group, || Error::Poisoned);
        }
        self.length += bytes.len() as u64;
        self.next_seq += group.len() as u64;
        tracing::trace!(frames = group.len(), bytes = bytes.len(), elapsed = ?begun.elapsed(), "synced");
        self.publish(group, bytes.len() as u64);
        if self.length >= self.shared.settings.segment_bytes {
            self.rotate();
        }
    }

    /// Answers, then passes the frames on. The order matters: nothing stands between the sync and the answers.
    fn publish(&mut self, group: Vec<Request>, bytes: u64) {
        let _ = self.shared.disk_bytes.fetch_add(bytes, Ordering::Relaxed);
        let mut frames = Vec::with_capacity(group.len());
        {
            let mut segments = self.shared.segments.lock();
            for request in &group {
                segments.appended(&request.frame.tenant, request.frame.seq);
            }
            segments.grown(bytes);
        }
        for Request { frame, answer } in group {
            // The caller may be gone; its frame stays.
            let _ = answer.send(Ok(frame.seq));
            frames.push(frame);
        }
        // A receiver that is gone means that the process is on its way out; the frames are on disk.
        let _ = self.durable.send(frames);
    }

    /// Starts the next segment. When that fails the present one just grows on, and the next commit tries again.
    fn rotate(&mut self) {
        let started = self.shared.segments.lock().start(self.next_seq, self.shared.files.as_ref());
        match started {
            Ok(file) => {
                self.file = file;
                self.length = SEGMENT_HEADER.len() as u64;
            }
            Err(error) => tracing::warn!(%error, "cannot start a new segment"),
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
