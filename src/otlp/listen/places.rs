//! The connections of one listener: how many there may be, and which of them does nothing.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// Places for connections. When all are taken, the connection that is longest without an answer makes room: peers that
/// connect and do nothing keep nobody out.
#[derive(Debug)]
pub(super) struct Places {
    places_max: usize,
    next: AtomicU64,
    taken: Mutex<HashMap<u64, Arc<Activity>>>,
}

/// One connection's place; given back when dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    number: u64,
    activity: Arc<Activity>,
}

/// What a connection does.
#[derive(Debug)]
pub(super) struct Activity {
    /// When it was accepted, or answered last.
    last: Mutex<Instant>,
    under_way: AtomicUsize,
    evicted: CancellationToken,
}

/// A request under way on a connection, until this is dropped.
#[derive(Debug)]
pub(super) struct UnderWay(Arc<Activity>);

impl Places {
    pub(super) fn new(places_max: usize) -> Arc<Self> {
        Arc::new(Self { places_max: places_max.max(1), next: AtomicU64::new(0), taken: Mutex::default() })
    }

    /// A place for a new connection. It is there at once; whoever had it before is told to go.
    pub(super) fn take(self: &Arc<Self>) -> Place {
        let activity = Arc::new(Activity {
            last: Mutex::new(Instant::now()),
            under_way: AtomicUsize::new(0),
            evicted: CancellationToken::new(),
        });
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut taken = self.taken.lock();
        if taken.len() >= self.places_max {
            let stalest = taken.iter().min_by_key(|(_, a)| *a.last.lock()).map(|(number, _)| *number);
            if let Some(evicted) = stalest.and_then(|number| taken.remove(&number)) {
                evicted.evicted.cancel();
            }
        }
        let _ = taken.insert(number, activity.clone());
        drop(taken);
        Place { places: self.clone(), number, activity }
    }
}

impl Place {
    /// Resolves when the place went to another connection.
    pub(super) async fn evicted(&self) {
        self.activity.evicted.cancelled().await;
    }

    pub(super) fn activity(&self) -> Arc<Activity> {
        self.activity.clone()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = self.places.taken.lock().remove(&self.number);
    }
}

impl Activity {
    pub(super) fn begin(self: &Arc<Self>) -> UnderWay {
        let _ = self.under_way.fetch_add(1, Ordering::AcqRel);
        UnderWay(self.clone())
    }

    /// How much longer the connection may do nothing; zero when it is to be closed.
    pub(super) fn idle_left(&self, limit: Duration) -> Duration {
        if self.under_way.load(Ordering::Acquire) > 0 {
            return limit;
        }
        limit.saturating_sub(self.last.lock().elapsed())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        *self.0.last.lock() = Instant::now();
        let _ = self.0.under_way.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As if it had been answered last so many seconds ago.
    fn answered(place: &Place, seconds_ago: u64) {
        *place.activity.last.lock() = Instant::now().checked_sub(Duration::from_secs(seconds_ago)).unwrap();
    }

    /// Scenario: three connections come for two places; the older one has just been answered.
    /// Guarantee: the one that did nothing goes.
    #[tokio::test]
    async fn a_silent_connection_stays_and_a_busy_one_goes() {
        let places = Places::new(2);
        let (busy, silent) = (places.take(), places.take());
        answered(&busy, 10);
        answered(&silent, 5);
        drop(busy.activity().begin());
        let _third = places.take();
        silent.evicted().await;
        assert!(!busy.activity.evicted.is_cancelled());
        drop((busy, silent));
        let _fourth = places.take();
        assert_eq!(places.taken.lock().len(), 2);
    }

    #[tokio::test]
    async fn a_connection_with_a_request_under_way_counts_as_idle() {
        let (places, limit) = (Places::new(1), Duration::from_secs(5));
        let place = places.take();
        let request = place.activity().begin();
        answered(&place, 60);
        assert_eq!(place.activity.idle_left(limit), limit);
        drop(request);
        assert!(place.activity.idle_left(limit) > Duration::from_secs(4));
        answered(&place, 6);
        assert_eq!(place.activity.idle_left(limit), Duration::ZERO);
    }
}
