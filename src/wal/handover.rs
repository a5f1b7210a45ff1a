//! The way from the log's thread to whoever processes frames: in order, bounded in bytes, never in the way of closing.

use std::{
    collections::VecDeque,
    sync::Arc,
    sync::mpsc::{RecvError, RecvTimeoutError},
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};

use super::{charge, frame::Frame};

/// Bytes of frames that wait for the reader. Beyond it the log's thread waits, its queue fills, and appends are
/// refused with retry advice.
const BYTES_MAX: usize = 64 << 20;

/// Frames in order, each after it became durable. Dropping it frees the log from waiting for it.
#[derive(Debug)]
pub struct DurableFrames(Arc<Shared>);

/// The end that the log's thread holds.
#[derive(Debug)]
pub(super) struct Sender(Arc<Shared>);

/// The end that closes the log.
#[derive(Debug)]
pub(super) struct Closer(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    batches: VecDeque<(usize, Vec<Frame>)>,
    bytes: usize,
    closing: bool,
    /// A batch was left out; none may follow it, for the reader would see a gap.
    ended: bool,
    reader_gone: bool,
}

pub(super) fn channel() -> (Sender, Closer, DurableFrames) {
    let shared = Arc::new(Shared::default());
    (Sender(shared.clone()), Closer(shared.clone()), DurableFrames(shared))
}

impl DurableFrames {
    /// Blocks until frames are there.
    ///
    /// # Errors
    /// When the log is closed and all were taken. What closing left out is on disk and comes back as recovered.
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
                state.bytes -= bytes;
                let _ = self.0.changed.notify_all();
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
    /// Passes frames on. Waits while too much waits for the reader, unless the log is closing.
    pub(super) fn send(&self, frames: Vec<Frame>) {
        let bytes = frames.iter().map(|f| charge(f.bytes.len())).sum();
        let mut state = self.0.state.lock();
        let is_full = |state: &State| state.bytes > 0 && state.bytes.saturating_add(bytes) > BYTES_MAX;
        while is_full(&state) && !state.closing && !state.reader_gone {
            self.0.changed.wait(&mut state);
        }
        if state.reader_gone || state.ended {
            return;
        }
        if is_full(&state) {
            state.ended = true;
        } else {
            state.bytes += bytes;
            state.batches.push_back((bytes, frames));
        }
        let _ = self.0.changed.notify_all();
    }
}

impl Closer {
    /// From here on the log's thread does not wait for the reader.
    pub(super) fn close(&self) {
        self.0.state.lock().closing = true;
        let _ = self.0.changed.notify_all();
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
