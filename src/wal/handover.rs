//! The way from the log's thread to whoever processes frames: in order. It never holds that thread up: appends are
//! refused while too much waits here.

use std::{
    collections::VecDeque,
    sync::Arc,
    sync::mpsc::{RecvError, RecvTimeoutError},
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};

use super::{charge, frame::Frame};

/// Frames in order, each after it became durable. When it is dropped, no more are kept for it.
#[derive(Debug)]
pub struct DurableFrames(Arc<Shared>);

/// The end that the log's thread holds.
#[derive(Debug)]
pub(super) struct Sender(Arc<Shared>);

/// The end that tells how much waits.
#[derive(Debug)]
pub(super) struct Waiting(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    batches: VecDeque<(usize, Vec<Frame>)>,
    bytes: usize,
    /// The log is closed: none will follow.
    ended: bool,
    reader_gone: bool,
}

pub(super) fn channel() -> (Sender, Waiting, DurableFrames) {
    let shared = Arc::new(Shared::default());
    (Sender(shared.clone()), Waiting(shared.clone()), DurableFrames(shared))
}

impl DurableFrames {
    /// Blocks until frames are there.
    ///
    /// # Errors
    /// When the log is closed and all were taken.
    pub fn recv(&self) -> Result<Vec<Frame>, RecvError> {
        self.take(None).map_err(|_| RecvError)
    }

    /// Blocks until frames are there, at most for `timeout`.
    ///
    /// # Errors
    /// `Timeout`, or `Disconnected` as for [`Self::recv`].
    pub fn recv_timeout(&self, timeout: Duration) -> Result<Vec<Frame>, RecvTimeoutError> {
        self.take(Some(timeout))
    }

    /// All batches until the log is closed.
    pub fn iter(&self) -> impl Iterator<Item = Vec<Frame>> {
        std::iter::from_fn(|| self.recv().ok())
    }

    fn take(&self, timeout: Option<Duration>) -> Result<Vec<Frame>, RecvTimeoutError> {
        // A timeout too long for the clock is none.
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut state = self.0.state.lock();
        loop {
            if let Some((bytes, frames)) = state.batches.pop_front() {
                state.bytes = state.bytes.saturating_sub(bytes);
                return Ok(frames);
            }
            if state.ended {
                return Err(RecvTimeoutError::Disconnected);
            }
            match until {
                None => self.0.changed.wait(&mut state),
                Some(until) if Instant::now() >= until => return Err(RecvTimeoutError::Timeout),
                Some(until) => {
                    let _ = self.0.changed.wait_until(&mut state, until);
                }
            }
        }
    }
}

impl Sender {
    /// Passes frames on.
    pub(super) fn send(&self, frames: Vec<Frame>) {
        let bytes = frames.iter().map(|f| charge(f.bytes.len())).sum();
        let mut state = self.0.state.lock();
        if state.reader_gone {
            return;
        }
        state.bytes = state.bytes.saturating_add(bytes);
        state.batches.push_back((bytes, frames));
        let _ = self.0.changed.notify_all();
    }
}

impl Waiting {
    /// Bytes of frames that the reader has not taken.
    pub(super) fn bytes(&self) -> usize {
        self.0.state.lock().bytes
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.0.state.lock().ended = true;
        let _ = self.0.changed.notify_all();
    }
}

impl Drop for DurableFrames {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.reader_gone = true;
        state.batches.clear();
        state.bytes = 0;
        let _ = self.0.changed.notify_all();
    }
}
