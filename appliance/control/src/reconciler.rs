//! Steps hosts: one after the other as they are due, and one at a time of each.

use std::{sync::Arc, time::Duration};

use firesteel_boot::HostNetwork;
use firesteel_kube::{Objects, Status};
use firesteel_plan::journal;
use firesteel_resources::{BareMetalHost, Secret};
use firesteel_runtime::{ControllerError, HostKey, Live, StepLock};

use crate::bmc_work::BmcWork;
use crate::console::readers::ConsoleReaders;
use crate::hand_off::HandOffReader;
use crate::hardware_store::HardwareStore;
use crate::image_fetches::ImageFetches;
use crate::instances::InstanceReports;
use crate::receipts::ReceiptKeeper;
use crate::shared::Shared;
use crate::unowned_objects::UnownedObjects;

/// How often a step that a caller waits for is made again where others wrote in between.
const STEPS_NOW_MAX: usize = 20;
/// The time between two looks at a host of which something is damaged.
const DAMAGE_LOOKED_AT: Duration = Duration::from_secs(60);

/// Steps hosts. Its parts are handles.
#[derive(Clone)]
pub(crate) struct HostReconciler {
    pub(crate) shared: Arc<Shared>,
    pub(crate) hosts: Objects<BareMetalHost>,
    pub(crate) secrets: Objects<Secret>,
    pub(crate) unowned: UnownedObjects,
    pub(crate) hardware: HardwareStore,
    pub(crate) images: ImageFetches,
    pub(crate) receipts: ReceiptKeeper,
    pub(crate) bmc: BmcWork,
    pub(crate) consoles: ConsoleReaders,
    pub(crate) instances: InstanceReports,
    pub(crate) reader: HandOffReader,
    pub(crate) host_network: Live<HostNetwork>,
}

/// A step under way. It ends with this, also where no caller waits for it any more: a client that asked for a boot
/// script may have hung up. The host would never be stepped again, so it is queued once more.
struct RunningStep<'a> {
    reconciler: &'a HostReconciler,
    key: HostKey,
    lock: Option<StepLock>,
    is_over: bool,
}

impl RunningStep<'_> {
    fn end(mut self) {
        self.is_over = true;
    }
}

impl Drop for RunningStep<'_> {
    fn drop(&mut self) {
        self.lock = None;
        if !self.is_over {
            self.reconciler.shared.queue.wake(&self.key);
        }
    }
}

impl HostReconciler {
    pub(crate) async fn step_forever(&self) -> Result<(), ControllerError> {
        // A host cannot be judged before all are known: another one may have its MAC.
        self.shared.hosts.hosts_read().await;
        // Nor whether its disks may be changed.
        self.shared.hosts.halts_read().await;
        loop {
            let key = self.shared.queue.next().await;
            // One step of one host at a time: a second stepper puts it back.
            let Some(stepping) = self.begin_step(&key) else {
                self.shared.queue.wake_in(&key, Duration::from_millis(20));
                continue;
            };
            if let Err(status) = self.step_begun(&key, stepping).await {
                // A conflict means that another write came in between: what it wrote is to be seen first.
                let delay = match (status.is_conflict(), status.is_unreadable()) {
                    (true, _) => Duration::ZERO,
                    // The end of the damage wakes all hosts.
                    (false, true) => DAMAGE_LOOKED_AT,
                    (false, false) => Duration::from_secs(5),
                };
                if !status.is_conflict() {
                    self.shared.metrics.step_failed();
                    tracing::error!(host = %key, error = %status.message, "could not step a host; it is tried again");
                }
                self.shared.queue.wake_in(&key, delay);
            }
        }
    }

    /// Steps a host at once, for a caller who needs what follows; waits for a step under way. Of a step that was
    /// broken off a write may still be on its way, and others note in the same journal: who comes between is read,
    /// and the step made again.
    pub(crate) async fn step_now(&self, key: &HostKey) -> Result<(), Status> {
        for _ in 1..STEPS_NOW_MAX {
            match self.one_step_now(key).await {
                Err(status) if status.is_conflict() => {}
                result => return result,
            }
        }
        self.one_step_now(key).await
    }

    async fn one_step_now(&self, key: &HostKey) -> Result<(), Status> {
        let stepping = self.wait_for_step(key).await;
        self.step_begun(key, stepping).await
    }

    async fn wait_for_step(&self, key: &HostKey) -> RunningStep<'_> {
        let lock = self.shared.steps.wait(key, &*self.shared.runtime).await;
        self.stepping(key, lock)
    }

    async fn step_begun(&self, key: &HostKey, stepping: RunningStep<'_>) -> Result<(), Status> {
        let result = self.step(key).await;
        match &result {
            Ok(()) => self.thaw(key),
            Err(status) if status.is_unreadable() => self.freeze(key, status).await,
            Err(_) => {}
        }
        if result.as_ref().is_err_and(|status| !status.is_conflict()) {
            // The others do not wait for a host that cannot say what it does. A write that was not acknowledged may
            // have been made.
            let has_slot = self.has_slot(key).await;
            let next = self.shared.views().slots.cannot_say(key, has_slot);
            next.iter().for_each(|key| self.shared.queue.wake(key));
        }
        stepping.end();
        result
    }

    /// Whether the host has a slot by its stored memory; `None` where that cannot be read.
    async fn has_slot(&self, key: &HostKey) -> Option<bool> {
        let journal = self.shared.journals.read(key).await.ok()?;
        Some(journal.is_some_and(|journal| journal::has_slot(&journal)))
    }

    /// Begins a step; `None` while another one of the host is under way.
    fn begin_step(&self, key: &HostKey) -> Option<RunningStep<'_>> {
        self.shared.steps.begin(key).map(|lock| self.stepping(key, lock))
    }

    fn stepping(&self, key: &HostKey, lock: StepLock) -> RunningStep<'_> {
        RunningStep { reconciler: self, key: key.clone(), lock: Some(lock), is_over: false }
    }

    /// A host that is gone is not worked on any more.
    pub(crate) fn free_slot(&self, key: &HostKey) {
        let next = self.shared.views().slots.forget(key);
        next.iter().for_each(|key| self.shared.queue.wake(key));
    }
}
