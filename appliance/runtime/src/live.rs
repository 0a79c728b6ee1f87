//! A value that one part of the process replaces, and others read as it is now.

use std::sync::{Arc, Mutex};

use crate::lock;

/// A value that changes while the process runs. Clones share it.
#[derive(Debug)]
pub struct Live<T>(Arc<Mutex<Arc<T>>>);

impl<T> Clone for Live<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Live<T> {
    #[must_use]
    pub fn new(value: T) -> Self {
        Self(Arc::new(Mutex::new(Arc::new(value))))
    }

    /// Returns the value as it is now; it stays as it is for who has it.
    #[must_use]
    pub fn now(&self) -> Arc<T> {
        Arc::clone(&lock(&self.0))
    }

    /// Replaces the value for all.
    pub fn replace(&self, value: T) {
        *lock(&self.0) = Arc::new(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_see_the_new_value_and_who_read_the_old_one_keeps_it() {
        let live = Live::new(1);
        let (other, before) = (live.clone(), live.now());
        live.replace(2);
        assert_eq!((*before, *other.now()), (1, 2));
    }
}
