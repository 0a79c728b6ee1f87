//! What makes a pass due.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use firesteel_kube::{ObjectChange, Objects};
use firesteel_resources::machine_config::{MachineConfig, pool::MachineConfigPool};
use firesteel_runtime::ControllerError;

use super::pass::PoolReconciler;
use crate::ConfigController;

/// The time from a change to its pass: what is applied together is one pass.
const SETTLE: Duration = Duration::from_millis(100);
/// The time from a pass in which something failed to the next one.
const AGAIN: Duration = Duration::from_secs(10);

/// The pools and machine configs that there are.
#[derive(Debug, Default)]
pub(super) struct FollowedPools {
    pub(super) pools: BTreeMap<String, MachineConfigPool>,
    pub(super) configs: BTreeMap<String, MachineConfigVersion>,
    /// Machine configs that are stored and cannot be read. Which pools select them is unknown, so that none is rendered
    /// without them.
    pub(super) unreadable: BTreeSet<String>,
}

/// What of a machine config decides whether it is read again.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct MachineConfigVersion {
    pub(super) labels: BTreeMap<String, String>,
    pub(super) version: String,
}

/// What the next pass looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PoolWork {
    pub(super) render: bool,
    pub(super) stubs: bool,
    pub(super) counts: bool,
}

impl PoolWork {
    const ALL: Self = Self { render: true, stubs: true, counts: true };

    fn merge(self, other: Self) -> Self {
        Self {
            render: self.render || other.render,
            stubs: self.stubs || other.stubs,
            counts: self.counts || other.counts,
        }
    }
}

impl ConfigController {
    /// Ends when the store cannot be followed.
    pub(crate) async fn follow_pools(self) -> Result<(), ControllerError> {
        let pools: Objects<MachineConfigPool> = self.inner.pool_objects.clone();
        let configs: Objects<MachineConfig> = self.inner.config_objects.clone();
        let mut pool_changes = pools.subscribe().await?;
        let mut config_changes = configs.subscribe().await?;
        let mut trust_changes = self.handles().trust.subscribe();
        let (mut followed, mut pass) = (FollowedPools::default(), PoolReconciler::new(self.clone()));
        let (mut pools_read, mut configs_read, mut due) = (false, false, PoolWork::ALL);
        let runtime = std::sync::Arc::clone(&self.handles().runtime);
        let mut due_at = runtime.uptime() + SETTLE;
        loop {
            let was_due = due != PoolWork::default();
            let is_due = was_due && pools_read && configs_read;
            tokio::select! {
                biased;
                change = pool_changes.next() => {
                    let change = change?;
                    pools_read |= matches!(change, ObjectChange::Synced);
                    due = due.merge(followed.pool(change));
                }
                change = config_changes.next() => {
                    let change = change?;
                    configs_read |= matches!(change, ObjectChange::Synced);
                    due = due.merge(followed.config(change));
                }
                () = self.inner.pools.stubs_due.notified() => due.stubs = true,
                () = self.inner.pools.counts_due.notified() => due.counts = true,
                // The sender lives as long as this.
                _ = trust_changes.changed() => due.stubs = true,
                () = runtime.sleep_until(due_at), if is_due => {
                    // Whose Secrets and hosts were not read yet would look as if there were none.
                    if !self.handles().knows_hosts().await {
                        continue;
                    }
                    let is_done = pass.run(&followed, due).await;
                    due = if is_done { PoolWork::default() } else { PoolWork::ALL };
                    due_at = runtime.uptime() + AGAIN;
                    let _read_before = self.inner.pools.read.set(());
                }
            }
            // From the first change on: those that come after it do not put the pass off.
            if !was_due && due != PoolWork::default() {
                due_at = runtime.uptime() + SETTLE;
            }
        }
    }
}

impl FollowedPools {
    /// Takes a change in; what is due by it.
    fn pool(&mut self, change: ObjectChange<MachineConfigPool>) -> PoolWork {
        match change {
            ObjectChange::Applied(pool) => {
                let before = self.pools.insert(pool.metadata.name.clone(), pool.clone());
                // Our own status asks for nothing.
                let asks = before.is_none_or(|before| {
                    before.spec != pool.spec
                        || before.metadata.uid != pool.metadata.uid
                        || before.metadata.is_deleting() != pool.metadata.is_deleting()
                });
                if asks { PoolWork::ALL } else { PoolWork::default() }
            }
            ObjectChange::Deleted(pool) => {
                self.pools.remove(&pool.metadata.name);
                PoolWork::ALL
            }
            ObjectChange::Synced => PoolWork::default(),
            ObjectChange::Undecodable { name, error } => {
                tracing::error!(pool = %name.name, %error, "a stored pool cannot be read; it is left alone");
                PoolWork::default()
            }
        }
    }

    fn config(&mut self, change: ObjectChange<MachineConfig>) -> PoolWork {
        let render = PoolWork { render: true, counts: true, stubs: false };
        match change {
            ObjectChange::Applied(config) => {
                self.unreadable.remove(&config.metadata.name);
                let seen =
                    MachineConfigVersion { labels: config.metadata.labels, version: config.metadata.resource_version };
                self.configs.insert(config.metadata.name, seen);
                render
            }
            ObjectChange::Deleted(config) => {
                self.unreadable.remove(&config.metadata.name);
                self.configs.remove(&config.metadata.name);
                render
            }
            ObjectChange::Synced => PoolWork::default(),
            ObjectChange::Undecodable { name, error } => {
                tracing::error!(config = %name.name, %error, "a stored machine config cannot be read");
                self.unreadable.insert(name.name.clone());
                render
            }
        }
    }
}
