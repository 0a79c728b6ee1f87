//! Follows the objects of machines without a host, and has them say whose machine they are.
//!
//! The condition is written apart from what an agent says: the host may come to be known after the machine, or go.

use std::{sync::Arc, time::Duration};

use firesteel_facts::Mac;
use firesteel_kube::ObjectChange;
use firesteel_resources::DiscoveredHost;
use firesteel_runtime::{ControllerError, HostKey, follow, timeout};

use crate::{shared::Shared, unowned_objects::UnownedObjects};

/// The time to the next try, where the store took no condition or too much is written for unknown machines.
const AGAIN: Duration = Duration::from_secs(5);

/// Follows `DiscoveredHost` objects.
#[derive(Clone)]
pub(crate) struct DiscoveredWatch {
    pub(crate) shared: Arc<Shared>,
    pub(crate) unowned: UnownedObjects,
}

impl DiscoveredWatch {
    /// Takes each machine into the views, and has its host stepped.
    pub(crate) async fn follow_discovered(self) -> Result<(), ControllerError> {
        let take = |change: ObjectChange<DiscoveredHost>| {
            let host: Option<HostKey> = match change {
                ObjectChange::Applied(machine) => self.shared.views().learn_discovered(&machine),
                ObjectChange::Deleted(machine) => self.shared.views().forget_discovered(&machine.metadata.name),
                ObjectChange::Synced | ObjectChange::Undecodable { .. } => None,
            };
            host.iter().for_each(|key| self.shared.queue.wake(key));
            self.shared.discovered_changed.notify_one();
        };
        follow(&self.unowned.discovered, take).await
    }

    /// Writes the conditions that are missing or out of date.
    pub(crate) async fn mark_discovered(self) -> Result<(), ControllerError> {
        self.shared.hosts.hosts_read().await;
        let mut is_behind = false;
        loop {
            let changed = self.shared.discovered_changed.notified();
            if is_behind {
                timeout(&*self.shared.runtime, AGAIN, changed).await;
            } else {
                changed.await;
            }
            is_behind = false;
            let unmarked = self.shared.views().unmarked();
            for machine in unmarked {
                let Ok(mac) = machine.name.parse::<Mac>() else { continue };
                match self.unowned.mark(mac, &machine).await {
                    Ok(is_written) => is_behind |= !is_written,
                    Err(status) => {
                        tracing::warn!(%mac, error = %status.message, "could not write whose machine a discovered machine is; it is tried again");
                        is_behind = true;
                    }
                }
            }
        }
    }
}
