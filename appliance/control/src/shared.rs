//! What the parts of control share: the views behind one short lock, the handles, and what each of them asks for.

use std::ops::Deref;
use std::sync::{Mutex, MutexGuard};

use firesteel_facts::Mac;
use firesteel_runtime::{Handles, HostKey, Tasks, lock, timeout};
use firesteel_wire::{AgentInstruction, limits};
use jiff::Timestamp;
use tokio::sync::{Notify, mpsc};

use crate::boot_watch::BootWatch;
use crate::halts;
use crate::leases::LiveLeases;
use crate::logs::HostLogs;
use crate::metrics::HostMetrics;
use crate::notes::JournalNote;
use crate::views::Views;

/// What the parts of control share. It is behind one `Arc`.
pub(crate) struct Shared {
    handles: Handles,
    pub(crate) metrics: HostMetrics,
    pub(crate) logs: HostLogs,
    pub(crate) boot_watch: BootWatch,
    /// A machine without a host changed, or the system of a host's BMC.
    pub(crate) discovered_changed: Notify,
    pub(crate) leases: LiveLeases,
    pub(crate) tasks: Tasks,
    pub(crate) started_at: Timestamp,
    /// Network events on their way into journals.
    pub(crate) notes: mpsc::Sender<JournalNote>,
    /// Stages of boots on their way there.
    pub(crate) stages: mpsc::Sender<JournalNote>,
    views: Mutex<Views>,
}

/// Every part uses the handles of the process.
impl Deref for Shared {
    type Target = Handles;

    fn deref(&self) -> &Handles {
        &self.handles
    }
}

impl Shared {
    /// Makes it. `hosts_at_once`: hosts that are worked on at a time.
    pub(crate) fn new(
        handles: Handles,
        hosts_at_once: usize,
        notes: mpsc::Sender<JournalNote>,
        stages: mpsc::Sender<JournalNote>,
    ) -> Self {
        Self {
            metrics: HostMetrics::default(),
            logs: HostLogs::default(),
            boot_watch: BootWatch::default(),
            discovered_changed: Notify::new(),
            leases: LiveLeases::default(),
            tasks: Tasks::default(),
            started_at: handles.runtime.now(),
            notes,
            stages,
            views: Mutex::new(Views::new(hosts_at_once, handles.hosts.clone())),
            handles,
        }
    }

    /// The views, for a few instructions: never across an await.
    pub(crate) fn views(&self) -> MutexGuard<'_, Views> {
        lock(&self.views)
    }

    /// Has the host looked at that has this MAC, if any.
    pub(crate) fn wake_owner(&self, mac: Mac) {
        let key = self.views().by_mac.get(&mac).cloned();
        key.iter().for_each(|key| self.queue.wake(key));
    }

    /// Wakes the hosts that may wait for what changed: a Secret of theirs, a MAC that another one had.
    pub(crate) fn wake_hosts(&self, concerned: impl Fn(&HostKey) -> bool) {
        let keys: Vec<HostKey> = self.views().hosts.keys().filter(|key| concerned(key)).cloned().collect();
        keys.iter().for_each(|key| self.queue.wake(key));
    }

    /// Says whether a host has this MAC.
    #[must_use]
    pub(crate) fn is_host(&self, mac: Mac) -> bool {
        self.views().by_mac.contains_key(&mac)
    }

    /// Says why nothing may be destroyed on any host now.
    pub(crate) fn fleet_hold(&self) -> Option<String> {
        let halt = self.views().halts.hold();
        halt.or_else(|| self.clock.doubt().map(|doubt| doubt.to_string()))
    }

    /// Says why nothing may be destroyed on this host now, in the words that its agent gets.
    pub(crate) fn hold_of(&self, key: &HostKey) -> Option<String> {
        self.fleet_hold().or_else(|| match self.views().hosts.get(key) {
            Some(view) if view.damage.is_some() => view.damage.clone(),
            Some(view) if view.boot_entry.is_some() => view.shut.clone(),
            Some(_) | None => Some(halts::NOT_LOOKED.to_owned()),
        })
    }

    /// Waits until there is something to tell, at most as long as a report may be held.
    pub(crate) async fn hold(&self, changed: &tokio::sync::Notify, verdict: &(impl Fn() -> AgentInstruction + Sync)) {
        let notified = changed.notified();
        tokio::pin!(notified);
        // Registered before the check, so that a change in between ends the wait.
        notified.as_mut().enable();
        if verdict() == AgentInstruction::Continue {
            let held = timeout(&*self.runtime, limits::LONG_POLL, notified).await;
            tracing::trace!(was_changed = held.is_some(), "a held report is answered");
        }
    }
}

/// Unix milliseconds; 0 before 1970.
pub(crate) fn unix_milliseconds(at: Timestamp) -> u64 {
    u64::try_from(at.as_millisecond()).unwrap_or(0)
}
