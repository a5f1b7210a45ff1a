//! Permits and the memory budget: overload is refused at once, with retry advice, and never with a partial success.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use super::Error;

/// What a request costs while its body is on the way: the connection's buffers and its own state.
const BASE_BYTES: usize = 8 << 10;

/// What all requests under way share.
#[derive(Clone, Debug)]
pub struct Admission(Arc<Budget>);

#[derive(Debug)]
struct Budget {
    bytes: AtomicUsize,
    bytes_max: usize,
    requests: AtomicUsize,
    requests_max: usize,
}

/// A request's share; given back when dropped.
#[derive(Debug)]
pub struct Permit {
    budget: Arc<Budget>,
    bytes: usize,
    has_place: bool,
}

impl Admission {
    /// A budget of bytes and of requests.
    pub fn new(bytes_max: usize, requests_max: usize) -> Self {
        let (bytes, requests) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self(Arc::new(Budget { bytes, bytes_max, requests, requests_max }))
    }

    /// Lets a request of `announced` bytes send its body. It takes nothing for what has not come: who announces much
    /// and sends nothing must not keep others out.
    ///
    /// # Errors
    /// [`Error::Busy`] when there would be no room for it now; it says when to come back.
    pub fn admit(&self, announced: usize) -> Result<Permit, Error> {
        let mut permit = Permit { budget: self.0.clone(), bytes: 0, has_place: false };
        let requests = self.0.requests.load(Ordering::Acquire);
        if requests >= self.0.requests_max {
            return Err(busy("otlp.requests_max", requests));
        }
        let bytes = self.0.bytes.load(Ordering::Acquire);
        if bytes > 0 && bytes.saturating_add(announced) > self.0.bytes_max {
            return Err(busy("otlp.memory_bytes_max", bytes));
        }
        permit.grow_to(BASE_BYTES)?;
        Ok(permit)
    }
}

impl Permit {
    /// Raises the share to `bytes`; never lowers it.
    ///
    /// # Errors
    /// [`Error::Busy`] when the budget does not have it. A single request always fits, so that nothing starves.
    pub fn grow_to(&mut self, bytes: usize) -> Result<(), Error> {
        let more = bytes.saturating_sub(self.bytes);
        let before = self.budget.bytes.fetch_add(more, Ordering::AcqRel);
        self.bytes += more;
        let alone = before + more == self.bytes;
        if before + more > self.budget.bytes_max && !alone {
            return Err(busy("otlp.memory_bytes_max", self.bytes));
        }
        Ok(())
    }

    /// Takes one of the places of requests that are worked on; its body is here.
    ///
    /// # Errors
    /// [`Error::Busy`] when there is none.
    pub fn take_place(&mut self) -> Result<(), Error> {
        if self.has_place {
            return Ok(());
        }
        let before = self.budget.requests.fetch_add(1, Ordering::AcqRel);
        self.has_place = true;
        if before < self.budget.requests_max { Ok(()) } else { Err(busy("otlp.requests_max", before)) }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let _ = self.budget.bytes.fetch_sub(self.bytes, Ordering::AcqRel);
        if self.has_place {
            let _ = self.budget.requests.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// Retry advice between one and four seconds, spread so that refused senders do not come back together.
fn busy(limit: &'static str, spread: usize) -> Error {
    Error::Busy {
        limit,
        retry_after: Duration::from_secs(1 + (spread as u64).wrapping_mul(2_654_435_761) % 4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: usize = 1 << 10;

    #[test]
    fn a_share_is_not_given_back() {
        let admission = Admission::new(100 * KIB, 1);
        let mut first = admission.admit(60 * KIB).unwrap();
        first.grow_to(60 * KIB).unwrap();
        let memory = Err(Error::Busy { limit: "otlp.memory_bytes_max", retry_after: Duration::ZERO });
        let limit = |answer: Result<Permit, Error>| match answer {
            Err(Error::Busy { limit, .. }) => Err(Error::Busy { limit, retry_after: Duration::ZERO }),
            other => other.map(drop),
        };
        assert_eq!(limit(admission.admit(60 * KIB)), memory, "said in advance, refused in advance");
        let mut second = admission.admit(30 * KIB).unwrap();
        second.take_place().unwrap();
        assert!(matches!(first.take_place(), Err(Error::Busy { limit: "otlp.requests_max", .. })));
        assert!(first.grow_to(95 * KIB).is_err());
        drop((first, second));
        let mut alone = admission.admit(500 * KIB).unwrap();
        assert!(alone.grow_to(500 * KIB).is_ok() && alone.take_place().is_ok(), "one request always fits");
    }

    /// Scenario: many requests announce the most that a request may have, and send nothing.
    /// Guarantee: there is still room for others.
    #[test]
    fn an_announcement_keeps_others_out() {
        let admission = Admission::new(1 << 20, 2);
        let silent: Vec<Permit> = (0..64).map(|_| admission.admit(256 * KIB).unwrap()).collect();
        let mut other = admission.admit(100 * KIB).unwrap();
        other.grow_to(100 * KIB).unwrap();
        other.take_place().unwrap();
        drop(silent);
    }
}
