//! Wall and monotonic time behind one trait, so that tests can jump it.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant, SystemTime},
};

/// Time as the server sees it.
pub trait Clock: Send + Sync + 'static {
    /// Nanoseconds since the Unix epoch. May jump either way; order never depends on it.
    fn unix_nanos(&self) -> u64;
    /// Time since some fixed point. Never goes back.
    fn monotonic(&self) -> Duration;
}

/// The machine's clock.
#[derive(Debug)]
pub struct SystemClock(Instant);

impl Default for SystemClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for SystemClock {
    fn unix_nanos(&self) -> u64 {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
}

/// A clock that stands still until it is told to move.
#[derive(Debug)]
pub struct ManualClock {
    unix_nanos: AtomicU64,
    monotonic_nanos: AtomicU64,
}

impl ManualClock {
    /// A clock at `unix_nanos`, its monotonic part at zero.
    pub fn new(unix_nanos: u64) -> Self {
        Self { unix_nanos: AtomicU64::new(unix_nanos), monotonic_nanos: AtomicU64::new(0) }
    }

    /// Moves the wall part only, as a step of NTP or a resumed machine does.
    #[cfg(test)]
    pub(crate) fn jump(&self, seconds: i64) {
        let nanos = seconds.saturating_mul(1_000_000_000);
        let _ = self
            .unix_nanos
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |now| Some(now.saturating_add_signed(nanos)));
    }

    /// Moves both parts forward.
    pub fn advance(&self, by: Duration) {
        let nanos = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        let _ = self.unix_nanos.fetch_add(nanos, Ordering::SeqCst);
        let _ = self.monotonic_nanos.fetch_add(nanos, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn unix_nanos(&self) -> u64 {
        self.unix_nanos.load(Ordering::SeqCst)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_nanos(self.monotonic_nanos.load(Ordering::SeqCst))
    }
}
