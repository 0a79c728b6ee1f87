//! What is held in memory because it could not be stored: see [`crate::object::memory_objects`].

use std::collections::BTreeMap;

use firesteel_store::{ObjectKey, StoredObject};
use tokio::sync::watch;

/// The held objects, by the key under which they would be stored. Their revision is zero.
pub type UnstoredObjects = BTreeMap<ObjectKey, StoredObject>;

/// What is held.
#[derive(Debug)]
pub(crate) struct Unstored(pub(crate) watch::Sender<UnstoredObjects>);

impl Default for Unstored {
    fn default() -> Self {
        Self(watch::Sender::new(UnstoredObjects::new()))
    }
}
