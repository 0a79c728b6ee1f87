//! Short locks.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks for a few instructions: never across an await. What a holder that panicked left is taken as it is.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
