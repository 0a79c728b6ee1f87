//! Renders pools, writes their status, and keeps the managed stubs that lead to them.
//!
//! ```text
//! MachineConfigPool ─┐                    ┌─► what the config server serves (in memory)
//! MachineConfig ─────┼─► follow ─► pass ──┼─► status of the pool ([`status`])
//! Secrets, hosts ────┤                    └─► stubs ([`stubs`]): <pool>-user-data-managed where hosts are
//! CA ────────────────┘
//! ```
//!
//! A pass begins a moment after a change, so that many changes at once are one pass. It reads what it needs again and
//! decides by `firesteel_ignition`; what fails for one object shows on it and is tried again, and the others go on. A
//! pool that cannot be rendered any more goes on being served as it was rendered last in this process; after a restart
//! its hosts have to wait (500) until it is mended. Upstream serves a new rendering only once a node has taken it;
//! here none that runs ever does, so that it is served at once. Nor is it stored as a MachineConfig (`rendered-…`): its
//! name in the status and in the journals of hosts is a digest of its content.

mod follow;
mod machines;
mod pass;
mod status;
mod stub_changes;
mod stubs;

use std::sync::{Arc, Mutex, MutexGuard};
use std::{collections::BTreeMap, time::Duration};

use firesteel_ignition::stub::{form, names::may_be_of_pool};
use firesteel_ignition::{self as ignition, render::Rendered};
use firesteel_resources::Secret;
use firesteel_runtime::{HostKey, Runtime, lock, timeout};
use tokio::sync::{Notify, SetOnce};

use crate::ConfigRefusal;

pub(crate) use machines::PoolMember;

/// Longest wait of a request for the pools to be read after a start.
const START_MAX: Duration = Duration::from_secs(5);

/// What is known of the pools. The rest is read again in each pass.
#[derive(Debug, Default)]
pub(crate) struct Pools {
    known: Mutex<PoolIndex>,
    /// All pools have been rendered since the start, as far as they can be.
    read: SetOnce<()>,
    /// Something that stubs are made of changed.
    stubs_due: Notify,
    /// Something that machines are counted by changed.
    counts_due: Notify,
}

#[derive(Debug, Default)]
struct PoolIndex {
    pools: BTreeMap<String, PoolView>,
    /// Which configs of ours the user data in a Secret leads to.
    leads: BTreeMap<(String, String), Vec<String>>,
}

/// One pool.
#[derive(Clone, Debug, Default)]
struct PoolView {
    rendered: Option<Arc<Rendered>>,
    /// Why what is wanted now could not be rendered.
    fault: Option<String>,
    /// What of its stubs needs a person.
    stub_faults: Vec<String>,
}

/// A pool that is there has nothing to be served.
pub(crate) fn unrendered(pool: &str, fault: Option<&str>) -> ConfigRefusal {
    let why = fault.unwrap_or("it was not rendered yet");
    ConfigRefusal::Unfit(format!("the pool {pool} has no config: {why}"))
}

impl Pools {
    fn lock(&self) -> MutexGuard<'_, PoolIndex> {
        lock(&self.known)
    }

    /// Waits until all pools have been read after a start. `false`: they were not in time.
    pub(crate) async fn are_read(&self, runtime: &dyn Runtime) -> bool {
        timeout(runtime, START_MAX, self.read.wait()).await.is_some()
    }

    /// What a pool's hosts get. Unknown is also one that no pass has seen yet.
    pub(crate) fn rendered(&self, pool: &str) -> Result<Arc<Rendered>, ConfigRefusal> {
        let known = self.lock();
        let view = known.pools.get(pool).ok_or(ConfigRefusal::Unknown)?;
        view.rendered.clone().ok_or_else(|| unrendered(pool, view.fault.as_deref()))
    }

    /// A Secret is there or was changed; its user data may lead to a pool.
    pub(crate) fn secret_seen(&self, secret: &Secret, origins: &[String]) {
        let Some(bytes) = secret.user_data() else { return };
        let names = match form::read(bytes) {
            Ok(form::ParsedUserData::Json { text, .. }) => ignition::fetched_from(text.as_bytes(), origins),
            Ok(form::ParsedUserData::NotIgnition(_)) | Err(_) => Vec::new(),
        };
        let name = (secret.metadata.namespace.clone(), secret.metadata.name.clone());
        let is_stub = may_be_of_pool(&name.1) || !names.is_empty();
        let changed = {
            let leads = &mut self.lock().leads;
            if names.is_empty() {
                leads.remove(&name).is_some()
            } else {
                leads.insert(name, names.clone()) != Some(names)
            }
        };
        if changed {
            self.counts_due.notify_one();
        }
        if changed || is_stub {
            self.stubs_due.notify_one();
        }
    }

    pub(crate) fn on_secret_deleted(&self, secret: &Secret) {
        let name = (secret.metadata.namespace.clone(), secret.metadata.name.clone());
        let was_known = self.lock().leads.remove(&name).is_some();
        if was_known || may_be_of_pool(&name.1) {
            self.stubs_due.notify_one();
            self.counts_due.notify_one();
        }
    }

    /// What pools and their stubs name is another thing now.
    pub(crate) fn wake(&self) {
        self.stubs_due.notify_one();
        self.counts_due.notify_one();
    }

    /// A host came, went or is another member than it was.
    pub(crate) fn host_changed(&self, is_new_or_gone: bool) {
        self.counts_due.notify_one();
        if is_new_or_gone {
            self.stubs_due.notify_one();
        }
    }

    /// Whether this user data leads to the pool.
    fn leads_to(&self, host: &HostKey, user_data: &str, pool: &str) -> bool {
        let name = (host.namespace.clone(), user_data.to_owned());
        self.lock().leads.get(&name).is_some_and(|names| names.iter().any(|name| name == pool))
    }
}
