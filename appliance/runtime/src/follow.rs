//! Following objects, and the index of the boot image streams.

use firesteel_kube::{ObjectChange, Objects};
use serde::{Serialize, de::DeserializeOwned};

use crate::{ControllerError, ImageIndex, IndexVersion};

/// Hands each change of a kind to `take`.
///
/// # Errors
/// When the store cannot be followed any more; it does not end otherwise.
pub async fn follow<T: Serialize + DeserializeOwned>(
    objects: &Objects<T>,
    mut take: impl FnMut(ObjectChange<T>),
) -> Result<(), ControllerError> {
    let mut changes = objects.subscribe().await?;
    loop {
        take(changes.next().await?);
    }
}

/// Hands each object of a kind that is new, changed or gone to `changed`.
///
/// # Errors
/// When the store cannot be followed any more; it does not end otherwise.
pub async fn follow_objects<T: Serialize + DeserializeOwned>(
    objects: &Objects<T>,
    mut changed: impl FnMut(T),
) -> Result<(), ControllerError> {
    let take = |change| match change {
        ObjectChange::Applied(object) | ObjectChange::Deleted(object) => changed(object),
        ObjectChange::Synced | ObjectChange::Undecodable { .. } => {}
    };
    follow(objects, take).await
}

/// Hands each version of the index to `changed`, behind the one before it.
pub async fn follow_index(index: &dyn ImageIndex, mut changed: impl FnMut(IndexVersion, IndexVersion)) {
    let mut changes = index.changes();
    let mut known = IndexVersion::default();
    loop {
        let now = *changes.borrow_and_update();
        changed(known, now);
        known = now;
        if changes.changed().await.is_err() {
            // The streams have ended, and their own controller says why.
            std::future::pending::<()>().await;
        }
    }
}
