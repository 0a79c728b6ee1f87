//! Hosts of which something that is stored is damaged: they are frozen until it can be read again or an administrator
//! deletes it unread.
//!
//! ```text
//!   a step meets damage ─► the host's view says why ─► agents are held, its script gives nothing
//!                       └► condition and event, where the host itself can be read
//!   a BareMetalHost is damaged ─► its MACs and its UID are unknown: an unknown machine may be that host
//! ```
//!
//! Nothing here takes damage for a deletion: a host that seems to be gone, or a machine without an owner, has to come
//! again.

use firesteel_kube::{ObjectPart, Status};
use firesteel_plan::host::DAMAGED;
use firesteel_resources::{Condition, set_condition};
use firesteel_runtime::{ControllerError, HostKey};

use crate::reconciler::HostReconciler;

/// The event of it, and the condition's reason, which is the API's word.
const EVENT: &str = "StoredObjectDamaged";
const REASON: &str = "StorageReadError";

impl HostReconciler {
    /// A stored BareMetalHost cannot be read: it is there, and all that was known of it stays as it is.
    pub(crate) fn host_is_unreadable(&self, key: &HostKey, why: &str) {
        tracing::error!(host = %key, error = %why, "a stored host cannot be read; it is frozen");
        let uid = {
            let mut views = self.shared.views();
            views.cannot_decode(key, why);
            match views.hosts.get_mut(key) {
                Some(view) => {
                    view.damage = Some(why.to_owned());
                    view.uid.clone()
                }
                None => String::new(),
            }
        };
        self.shared.events.record_event(key, &uid, EVENT, true, why.to_owned());
    }

    /// A stored BareMetalHost is there again as it should be, or is gone.
    pub(crate) fn host_is_readable(&self, key: &HostKey) {
        let could_not = self.shared.views().can_decode(key);
        if could_not {
            tracing::info!(host = %key, "a host that could not be read is read again, or is gone");
            // Others may have waited for its MAC.
            self.shared.wake_hosts(|_| true);
        }
    }

    /// A step of the host met something damaged and did nothing: so it stays until that can be read.
    pub(crate) async fn freeze(&self, key: &HostKey, status: &Status) {
        let text = format!("what is stored of this host is damaged, so nothing is done with it: {}", status.message);
        let uid = {
            let mut views = self.shared.views();
            let Some(view) = views.hosts.get_mut(key) else { return };
            if view.damage.as_ref() == Some(&text) {
                return;
            }
            view.damage = Some(text.clone());
            view.uid.clone()
        };
        self.shared.events.record_event(key, &uid, EVENT, true, text.clone());
        let now = self.shared.now();
        let told = self.hosts.modify(&key.namespace, &key.name, ObjectPart::Status, |host| {
            let condition = Condition::new(DAMAGED, true, REASON, &text).observed(host.metadata.generation);
            set_condition(&mut host.status.get_or_insert_default().conditions, condition, now);
        });
        if let Err(status) = told.await {
            // The host itself may be what is damaged.
            tracing::debug!(host = %key, error = %status.message, "could not write the condition of a host of which something is damaged");
        }
    }

    /// A step of the host found nothing damaged.
    pub(crate) fn thaw(&self, key: &HostKey) {
        if let Some(view) = self.shared.views().hosts.get_mut(key) {
            view.damage = None;
        }
    }

    /// Has all hosts looked at when damage is found, or is over: a host that has to freeze freezes before it is asked
    /// anything.
    pub(crate) async fn follow_damage(self) -> Result<(), ControllerError> {
        let mut changes = self.shared.core.store().damage_changes();
        // Its end is that of the store, which others tell.
        while changes.changed().await.is_ok() {
            self.shared.wake_hosts(|_| true);
        }
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use firesteel_runtime::HostEvents;

    use crate::views::Views;

    use super::*;

    #[test]
    fn who_is_unknown_may_be_a_host_that_cannot_be_read() {
        let mut views = Views::new(1, HostEvents::default());
        assert_eq!(views.unreadable_host(), None);
        let key = HostKey { namespace: "lab".into(), name: "h1".into() };
        views.unreadable.insert(key.clone(), "its bytes are not those that were written".into());
        let why = views.unreadable_host().unwrap();
        assert!(why.contains("lab/h1") && why.contains("bytes"), "{why}");
        views.unreadable.remove(&key);
        assert_eq!(views.unreadable_host(), None);
    }
}
