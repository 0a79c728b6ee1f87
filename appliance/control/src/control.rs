//! What the listeners call, and the loops behind it.

use std::{collections::BTreeSet, ops::Deref, sync::Arc};

use firesteel_facts::Mac;
use firesteel_kube::Status;
use firesteel_plan::host::progress_outlook::HostOutlook;
use firesteel_runtime::{ControllerError, HostKey, Loop, lock, opaque_debug};
use futures_util::future::BoxFuture;
use prometheus_client::registry::Registry;

use crate::parts::{ControlConfig, ControlParts};
use crate::survey::{Fleet, FleetSurvey};
use crate::{boot_watch::UnknownHost, clock_doubt, logs::HostLogs, network_log};

/// Hosts that are stepped at the same time: a step waits for the disk (fsync), not for the CPU.
const STEPPERS: usize = 4;

/// What the listeners call: its parts, and what concerns all hosts. Clones share all of it.
#[derive(Clone)]
pub struct Control(Arc<ControlParts>);

opaque_debug!(Control);

/// Listeners call the part that they need.
impl Deref for Control {
    type Target = ControlParts;

    fn deref(&self) -> &ControlParts {
        &self.0
    }
}

impl Control {
    /// # Errors
    /// When the registry lacks a kind that control needs.
    pub fn new(config: ControlConfig) -> Result<Self, Status> {
        Ok(Self(Arc::new(ControlParts::new(config)?)))
    }

    /// Runs until the first part fails or panics; everything that control does runs below this.
    ///
    /// # Errors
    /// When the store fails, or a task panicked.
    pub fn run(&self) -> BoxFuture<'_, Result<(), ControllerError>> {
        Box::pin(async move {
            let taken = ControllerError::Running;
            let parts = &self.0;
            let notes_end = lock(&parts.notes_end).take();
            let notes_end = notes_end.ok_or(taken("control is running already: its notes are taken"))?;
            let stages_end = lock(&parts.stages_end).take();
            let stages_end = stages_end.ok_or(taken("control is running already: its stages are taken"))?;
            let events = parts.shared.events.clone();
            let mut loops: Vec<Loop> = vec![
                Box::pin(parts.reconciler.clone().follow_hosts()),
                Box::pin(parts.reconciler.clone().follow_secrets()),
                Box::pin(parts.halts.clone().follow_halts()),
                Box::pin(parts.reconciler.clone().follow_damage()),
                Box::pin(parts.reconciler.clone().follow_index()),
                Box::pin(network_log::run(parts.network.clone(), notes_end, stages_end)),
                Box::pin(async move { events.run().await }),
                Box::pin(network_log::watch_boots(parts.network.clone())),
                Box::pin(clock_doubt::run(Arc::clone(&parts.shared))),
                Box::pin(parts.discovered.clone().follow_discovered()),
                Box::pin(parts.discovered.clone().mark_discovered()),
            ];
            for _ in 0..STEPPERS {
                let reconciler = parts.reconciler.clone();
                loops.push(Box::pin(async move { reconciler.step_forever().await }));
            }
            parts.shared.tasks.run(&*parts.shared.runtime, loops).await
        })
    }

    /// Says whether a host has this MAC.
    #[must_use]
    pub fn is_host(&self, mac: Mac) -> bool {
        self.shared.is_host(mac)
    }

    /// What the agents of the hosts say, their kernels and their consoles.
    #[must_use]
    pub fn logs(&self) -> HostLogs {
        self.shared.logs.clone()
    }

    /// Lists the machines that are no hosts and boot from the network, with how far each came.
    #[must_use]
    pub fn unknown_hosts(&self) -> Vec<UnknownHost> {
        let owned: BTreeSet<Mac> = self.shared.views().by_mac.keys().copied().collect();
        self.shared.boot_watch.unknown(self.shared.now(), |mac| owned.contains(mac))
    }

    /// Says why no disk of any host may be changed now: the fleet is halted, or the clock is doubtful.
    #[must_use]
    pub fn fleet_hold(&self) -> Option<String> {
        self.shared.fleet_hold()
    }

    /// Whether the fleet gets where it is to be. A host that no step has looked at since the start progresses.
    #[must_use]
    pub fn fleet(&self) -> Fleet {
        let now = self.shared.now();
        let views = self.shared.views();
        Fleet::of(views.hosts.iter().map(|(key, view)| {
            let prospect = view.standing.as_ref().map(|standing| standing.prospect);
            let outlook = prospect.map(|prospect| prospect.at(view.agent.progress_at, now));
            (key.clone(), outlook.unwrap_or(HostOutlook::Progressing))
        }))
    }

    /// Names the hosts that are inspected, cleaned or written now, as `NAMESPACE/NAME`; `None` as long as they are not
    /// counted after a start. A host that waits for a slot, for its next try or behind a pause is not one of them.
    #[must_use]
    pub fn hosts_in_work(&self) -> Option<Vec<String>> {
        let views = self.shared.views();
        let standing = |key: &HostKey| views.hosts.get(key).and_then(|view| view.standing.as_ref());
        let is_held = |key: &&HostKey| standing(key).is_some_and(|standing| standing.is_held);
        let names = views.slots.busy().filter(|key| !is_held(key)).map(|key| format!("{}/{}", key.namespace, key.name));
        views.slots.are_counted().then(|| names.collect())
    }

    /// Takes in that hosts reach the appliance in another way: each is looked at again.
    pub fn network_changed(&self) {
        let keys: Vec<HostKey> = self.shared.views().hosts.keys().cloned().collect();
        keys.iter().for_each(|key| self.shared.queue.wake(key));
    }

    /// Names what is counted of hosts.
    pub fn register_metrics(&self, to: &mut Registry) {
        self.shared.metrics.register(to);
    }

    /// How the hosts are now.
    #[must_use]
    pub fn survey(&self) -> FleetSurvey {
        FleetSurvey { queued: self.shared.queue.len(), ..FleetSurvey::of(&self.shared.views(), self.shared.now()) }
    }
}
