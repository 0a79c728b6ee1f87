//! Follows the stops of the whole fleet into the views.

use std::sync::Arc;

use firesteel_kube::{ObjectChange, Objects, Status, UnstoredObjects};
use firesteel_resources::{Halt, kinds::HALT as KIND};
use firesteel_runtime::{ControllerError, regarding};

use crate::halts::{held_halts, in_force, unreadable_halt};
use crate::shared::Shared;

/// Follows `Halt` objects.
#[derive(Clone)]
pub(crate) struct HaltWatch {
    pub(crate) shared: Arc<Shared>,
    pub(crate) halts: Objects<Halt>,
}

impl HaltWatch {
    pub(crate) async fn follow_halts(self) -> Result<(), ControllerError> {
        let mut held = self.shared.core.unstored();
        let mut changes = self.halts.subscribe().await?;
        loop {
            let unstored = held.borrow_and_update().clone();
            self.hold_unstored(&unstored).await?;
            let change = tokio::select! {
                biased;
                // Its other end lives as long as this.
                _ = held.changed() => continue,
                change = changes.next() => change?,
            };
            match change {
                ObjectChange::Applied(halt) => {
                    let name = halt.metadata.name.clone();
                    let is_new = self.shared.views().halts.all().insert(name, in_force(&halt)).is_none();
                    let is_late = self.shared.hosts.are_halts_read();
                    if is_new {
                        tracing::warn!(by = %halt.spec.by, reason = %halt.spec.reason, "the fleet is halted: no disk is changed");
                        self.shared.wake_hosts(|_| true);
                    }
                    // For one that was there at the start an event was written by an earlier process.
                    if is_new && is_late {
                        self.record_halt_event(&halt, "FleetHalted", true, in_force(&halt).to_string());
                    }
                }
                ObjectChange::Deleted(halt) => {
                    self.shared.views().halts.all().remove(&halt.metadata.name);
                    tracing::warn!(by = %halt.spec.by, reason = %halt.spec.reason, "a halt of the fleet is over");
                    self.record_halt_event(
                        &halt,
                        "FleetResumed",
                        false,
                        format!("the halt by {} is over", halt.spec.by),
                    );
                    self.shared.wake_hosts(|_| true);
                }
                ObjectChange::Synced => {
                    self.shared.views().halts.read_all();
                    self.shared.hosts.note_halts_read();
                }
                ObjectChange::Undecodable { name, error } => {
                    tracing::error!(halt = %name.name, %error, "a stored halt cannot be read: it counts as one");
                    self.shared.views().halts.all().insert(name.name.to_string(), unreadable_halt(&name.name));
                    self.shared.wake_hosts(|_| true);
                }
            }
        }
    }

    /// Takes over what is held in memory. One that is not held any more was stored or lifted: where it was stored it is
    /// known as such first, so that it counts without a gap.
    async fn hold_unstored(&self, unstored: &UnstoredObjects) -> Result<(), Status> {
        let is_halt = |group: &str, plural: &str| (group, plural) == (KIND.group, KIND.plural);
        let halts = unstored.iter().filter(|(key, _)| is_halt(&key.kind.group, &key.kind.resource));
        let now = held_halts(halts.map(|(key, object)| (key.name.as_str(), &*object.value)));
        let before = self.shared.views().halts.held.clone();
        if now == before {
            return Ok(());
        }
        for (name, held) in before.iter().filter(|(name, _)| !now.contains_key(*name)) {
            let stored = match self.halts.get("", name).await {
                Ok(stored) => stored.as_ref().map(in_force),
                // It may be there: it counts until it is deleted unread.
                Err(status) if status.is_unreadable() => Some(held.clone()),
                Err(status) => return Err(status),
            };
            if let Some(halt) = stored {
                self.shared.views().halts.all().insert(name.clone(), halt);
            }
        }
        for halt in now.iter().filter(|(name, _)| !before.contains_key(*name)).map(|(_, halt)| halt) {
            tracing::warn!(by = %halt.who, reason = %halt.why, "the fleet is halted: no disk is changed");
        }
        self.shared.views().halts.held = now;
        self.shared.wake_hosts(|_| true);
        Ok(())
    }

    fn record_halt_event(&self, halt: &Halt, reason: &str, is_warning: bool, message: String) {
        let regarding = regarding("firesteel.dev/v1alpha1", "Halt", &halt.metadata);
        self.shared.events.record_about(regarding, reason, is_warning, message);
    }
}
