//! Permits and the memory budget: overload is refused at once, with retry advice, and never with a partial success.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use super::Error;

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
}

impl Admission {
    /// A budget of bytes and of requests.
    pub fn new(bytes_max: usize, requests_max: usize) -> Self {
        let (bytes, requests) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self(Arc::new(Budget { bytes, bytes_max, requests, requests_max }))
    }

    /// Takes a place for a request of `bytes`.
    ///
    /// # Errors
    /// [`Error::Busy`] when there is none; it says when to come back.
    pub fn admit(&self, bytes: usize) -> Result<Permit, Error> {
        let before = self.0.requests.fetch_add(1, Ordering::AcqRel);
        let mut permit = Permit { budget: self.0.clone(), bytes: 0 };
        if before >= self.0.requests_max {
            return Err(busy("otlp.requests_max", before));
        }
        permit.grow_to(bytes)?;
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
}

impl Drop for Permit {
    fn drop(&mut self) {
        let _ = self.budget.bytes.fetch_sub(self.bytes, Ordering::AcqRel);
        let _ = self.budget.requests.fetch_sub(1, Ordering::AcqRel);
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

    #[test]
    fn a_share_is_not_given_back() {
        let admission = Admission::new(100, 2);
        let mut first = admission.admit(60).unwrap();
        assert!(matches!(admission.admit(60), Err(Error::Busy { limit: "otlp.memory_bytes_max", .. })));
        let second = admission.admit(30).unwrap();
        assert!(matches!(admission.admit(0), Err(Error::Busy { limit: "otlp.requests_max", .. })));
        assert!(first.grow_to(90).is_err());
        drop((first, second));
        let alone = admission.admit(500);
        assert!(alone.is_ok(), "one request always fits");
    }
}
