//! How many requests one caller may have at a time. More are refused (429), so that other callers go on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::model::status::Status;

/// Requests that are being answered. A program with 64 connections has one on each; twice that leaves room
/// for its owner beside it.
pub const REQUESTS_PER_CALLER_MAX: usize = 128;
/// Watches. A controller has one for each of some ten kinds, and an appliance's owner a few such programs and
/// some people; each watch is at most a page or an event of memory.
pub const WATCHES_PER_CALLER_MAX: usize = 256;
/// When to come back. Requests are over in milliseconds.
const RETRY_AFTER_SECONDS: u32 = 1;

/// What a place is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PermitKind {
    Request,
    Watch,
}

#[derive(Debug, Default)]
pub(crate) struct CallerLimits(Mutex<HashMap<String, CallerUsage>>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CallerUsage {
    requests: usize,
    watches: usize,
}

impl CallerUsage {
    fn count(&mut self, what: PermitKind) -> (&mut usize, usize) {
        match what {
            PermitKind::Request => (&mut self.requests, REQUESTS_PER_CALLER_MAX),
            PermitKind::Watch => (&mut self.watches, WATCHES_PER_CALLER_MAX),
        }
    }
}

/// One place of one caller, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct CallerPermit {
    limits: Arc<CallerLimits>,
    caller: String,
    what: PermitKind,
}

impl CallerLimits {
    pub(crate) fn enter(self: &Arc<Self>, caller: &str, what: PermitKind) -> Result<CallerPermit, Status> {
        let mut all = self.lock();
        let mut held = all.get(caller).copied().unwrap_or_default();
        let (count, most) = held.count(what);
        if *count >= most {
            return Err(Status::too_many_requests(RETRY_AFTER_SECONDS));
        }
        *count += 1;
        all.insert(caller.to_owned(), held);
        Ok(CallerPermit { limits: Arc::clone(self), caller: caller.to_owned(), what })
    }

    /// Requests and watches of all callers.
    pub(crate) fn under_way(&self) -> (u64, u64) {
        let all = self.lock();
        all.values()
            .fold((0, 0), |(requests, watches), held| (requests + held.requests as u64, watches + held.watches as u64))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, CallerUsage>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CallerPermit {
    fn drop(&mut self) {
        let mut all = self.limits.lock();
        let Some(held) = all.get_mut(&self.caller) else { return };
        let (count, _) = held.count(self.what);
        *count = count.saturating_sub(1);
        if *held == CallerUsage::default() {
            all.remove(&self.caller);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn one_caller_with_too_much_keeps_nobody_else_out() {
        let limits = Arc::new(CallerLimits::default());
        let mut places: Vec<CallerPermit> =
            (0..WATCHES_PER_CALLER_MAX).map(|_| limits.enter("a", PermitKind::Watch).unwrap()).collect();
        let refused = limits.enter("a", PermitKind::Watch).map(drop).unwrap_err();
        assert_eq!((refused.code, refused.retry_after_seconds()), (429, Some(RETRY_AFTER_SECONDS)));
        assert!(limits.enter("a", PermitKind::Request).is_ok() && limits.enter("b", PermitKind::Watch).is_ok());
        places.pop();
        assert!(limits.enter("a", PermitKind::Watch).is_ok());
        places.clear();
        assert!(limits.lock().is_empty(), "nothing is kept of who has gone");
    }
}
