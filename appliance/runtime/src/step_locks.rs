//! One step of one host at a time, and nothing else of the host's between its parts.

use std::sync::{Arc, Mutex};
use std::{collections::HashSet, time::Duration};

use crate::{HostKey, Runtime, lock, sleep};

/// The time between two looks at a step under way.
const LOOKED_AT: Duration = Duration::from_millis(5);

/// The hosts of which a step is under way. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct StepLocks(Arc<Mutex<HashSet<HostKey>>>);

/// Keeps steps of one host away for as long as it lives.
#[derive(Debug)]
pub struct StepLock {
    locks: StepLocks,
    key: HostKey,
}

impl StepLocks {
    /// Returns `None` while a step of the host is under way.
    #[must_use]
    pub fn begin(&self, key: &HostKey) -> Option<StepLock> {
        lock(&self.0).insert(key.clone()).then(|| StepLock { locks: self.clone(), key: key.clone() })
    }

    /// Waits for a step under way.
    pub async fn wait(&self, key: &HostKey, runtime: &dyn Runtime) -> StepLock {
        loop {
            match self.begin(key) {
                Some(lock) => return lock,
                None => sleep(runtime, LOOKED_AT).await,
            }
        }
    }
}

impl StepLock {
    /// The host whose steps are kept away.
    #[must_use]
    pub fn host(&self) -> &HostKey {
        &self.key
    }
}

impl Drop for StepLock {
    fn drop(&mut self) {
        lock(&self.locks.0).remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_step_of_a_host_is_under_way_at_a_time() {
        let locks = StepLocks::default();
        let key = |name: &str| HostKey { namespace: "default".into(), name: name.into() };
        let first = locks.begin(&key("a"));
        assert!(first.is_some() && locks.begin(&key("a")).is_none());
        assert!(locks.begin(&key("b")).is_some(), "another host");
        drop(first);
        assert!(locks.begin(&key("a")).is_some());
    }
}
