//! Objects as they were read or written last. A controller looks at the same objects again and again:
//! their bytes come from the store each time, and are turned into values once per revision.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use firesteel_store::{ObjectKey, Revision};
use serde_json::Value;

/// Bytes of JSON whose values are kept; a value takes a few times as much memory.
const KEPT_BYTES_MAX: usize = 4 << 20;

#[derive(Default)]
pub(crate) struct ValueCache(Mutex<CacheContents>);

#[derive(Default)]
struct CacheContents {
    values: HashMap<ObjectKey, CachedValue>,
    bytes: usize,
}

struct CachedValue {
    revision: Revision,
    value: Arc<Value>,
    bytes: usize,
}

impl fmt::Debug for ValueCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ValueCache")
    }
}

impl ValueCache {
    /// The value of exactly this revision.
    pub(crate) fn get(&self, key: &ObjectKey, revision: Revision) -> Option<Arc<Value>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.values.get(key).filter(|entry| entry.revision == revision).map(|entry| Arc::clone(&entry.value))
    }

    pub(crate) fn put(&self, key: &ObjectKey, revision: Revision, value: Arc<Value>, bytes: usize) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.values.get(key).is_some_and(|entry| entry.revision > revision) {
            return;
        }
        // Rare; a value that is needed again is read again.
        if kept.bytes + bytes > KEPT_BYTES_MAX {
            kept.values.clear();
            kept.bytes = 0;
        }
        if let Some(old) = kept.values.insert(key.clone(), CachedValue { revision, value, bytes }) {
            kept.bytes -= old.bytes;
        }
        kept.bytes += bytes;
    }

    pub(crate) fn forget(&self, key: &ObjectKey) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = kept.values.remove(key) {
            kept.bytes -= old.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firesteel_store::GroupResource;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new(&GroupResource::new("g", "things"), "", name)
    }

    #[test]
    fn only_the_asked_revision_is_given_and_a_late_reader_puts_nothing_old_back() {
        let cache = ValueCache::default();
        cache.put(&key("a"), Revision(2), Arc::new(Value::from(2)), 1);
        assert_eq!(cache.get(&key("a"), Revision(2)).as_deref(), Some(&Value::from(2)));
        assert_eq!(cache.get(&key("a"), Revision(3)), None);
        cache.put(&key("a"), Revision(1), Arc::new(Value::from(1)), 1);
        assert_eq!(cache.get(&key("a"), Revision(1)), None);
        cache.forget(&key("a"));
        assert_eq!(cache.get(&key("a"), Revision(2)), None);
    }

    #[test]
    fn it_does_not_grow_beyond_its_bound() {
        let cache = ValueCache::default();
        for number in 0..100 {
            cache.put(&key(&number.to_string()), Revision(1), Arc::new(Value::Null), KEPT_BYTES_MAX / 10);
        }
        let kept = cache.0.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(kept.bytes <= KEPT_BYTES_MAX && kept.values.len() <= 10, "{} bytes", kept.bytes);
    }
}
