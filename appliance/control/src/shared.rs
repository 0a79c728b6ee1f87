//! What the parts of control share: the views behind one short lock, the handles, and what each of them asks for.

use std::{
    fmt,
    future::Future,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use firesteel_facts::Mac;
use firesteel_runtime::{Events, Handles, HostKey, Tasks, sleep, timeout};
use firesteel_wire::{AgentInstruction, limits};
use jiff::Timestamp;
use tokio::sync::mpsc;

use crate::{
    boot_watch::BootWatch, halts, leases::LiveLeases, logs::HostLogs, metrics::HostMetrics, notes::JournalNote,
    views::Views,
};

/// What the parts of control share. It is behind one `Arc`.
pub(crate) struct Shared {
    pub(crate) handles: Handles,
    pub(crate) metrics: HostMetrics,
    pub(crate) logs: HostLogs,
    pub(crate) boot_watch: BootWatch,
    pub(crate) leases: LiveLeases,
    pub(crate) tasks: Tasks,
    pub(crate) started_at: Timestamp,
    /// Network events on their way into journals.
    pub(crate) notes: mpsc::Sender<JournalNote>,
    /// Stages of boots on their way there.
    pub(crate) stages: mpsc::Sender<JournalNote>,
    views: Mutex<Views>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("handles", &self.handles).finish_non_exhaustive()
    }
}

impl Shared {
    /// `hosts_at_once`: hosts that are worked on at a time.
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
        self.views.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all hosts have been read after a start. Before that a known host looks like a stranger,
    /// and its agent like one of a host that is gone. `false`: they were not in time.
    pub(crate) async fn knows_hosts(&self) -> bool {
        self.handles.hosts.knows_hosts(&*self.handles.runtime).await
    }

    /// The wall clock.
    pub(crate) fn now(&self) -> Timestamp {
        self.handles.runtime.now()
    }

    /// How old the store is: by this the deadlines of tokens are counted.
    pub(crate) fn age_s(&self) -> u64 {
        self.handles.clock.age_s()
    }

    pub(crate) async fn sleep(&self, duration: Duration) {
        sleep(&*self.handles.runtime, duration).await;
    }

    /// Where events of the API are recorded.
    pub(crate) fn events(&self) -> &Events {
        &self.handles.events
    }

    /// Has something done beside the steps; ends with the control loop.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task);
    }

    /// The same on threads of their own: what is said to a BMC or an origin of images may take all of a thread's time.
    pub(crate) fn spawn_outward(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn_outward(task);
    }

    /// Has the host looked at that has this MAC, if any.
    pub(crate) fn wake_owner(&self, mac: Mac) {
        let key = self.views().by_mac.get(&mac).cloned();
        key.iter().for_each(|key| self.handles.queue.wake(key));
    }

    /// Wakes the hosts that may wait for what changed: a Secret of theirs, a MAC that another one had.
    pub(crate) fn wake_hosts(&self, concerned: impl Fn(&HostKey) -> bool) {
        let keys: Vec<HostKey> = self.views().hosts.keys().filter(|key| concerned(key)).cloned().collect();
        keys.iter().for_each(|key| self.handles.queue.wake(key));
    }

    /// Says whether a host has this MAC.
    #[must_use]
    pub(crate) fn is_host(&self, mac: Mac) -> bool {
        self.views().by_mac.contains_key(&mac)
    }

    /// Why nothing may be destroyed on this host now, as its agent is told.
    pub(crate) fn hold_of(&self, key: &HostKey) -> Option<String> {
        let doubt = self.handles.clock.doubt().map(|doubt| doubt.to_string());
        let views = self.views();
        views.halts.hold().or(doubt).or_else(|| match views.hosts.get(key) {
            Some(view) if view.damage.is_some() => view.damage.clone(),
            Some(view) if view.boot_entry.is_some() => view.shut.clone(),
            Some(_) | None => Some(halts::NOT_LOOKED.to_owned()),
        })
    }

    /// The same for who has no view of the views.
    pub(crate) fn unreadable_host(&self) -> Option<String> {
        self.views().unreadable_host()
    }

    /// Waits until there is something to tell, at most as long as a report may be held.
    pub(crate) async fn hold(&self, changed: &tokio::sync::Notify, verdict: &(impl Fn() -> AgentInstruction + Sync)) {
        let notified = changed.notified();
        tokio::pin!(notified);
        // Registered before the check, so that what is told in between wakes us.
        notified.as_mut().enable();
        if verdict() == AgentInstruction::Continue {
            let held = timeout(&*self.handles.runtime, limits::LONG_POLL, notified).await;
            tracing::trace!(told = held.is_some(), "answering a held report");
        }
    }
}

/// Unix milliseconds; 0 before 1970.
pub(crate) fn unix_milliseconds(at: Timestamp) -> u64 {
    u64::try_from(at.as_millisecond()).unwrap_or(0)
}
