//! The network's controller: follows the Provisioning object, does the steps of [`NetworkSync`] by way of
//! [`NetworkServices`], and writes conditions, finalizer and the ClusterOperator `baremetal`.
//!
//! ```text
//! Provisioning ────┐
//! interfaces ──────┼─► turn: plan ─► start, adjust, stop ─► report ─► Provisioning status, ClusterOperator
//! a service ends ──┤                                             └──► hold_work: why no host begins work
//! time ────────────┘
//! ```
//!
//! It knows no socket. The appliance gives it what starts services and what looks at interfaces.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use firesteel_facts::WorkHold;
use firesteel_kube::{Core, ObjectChange, Objects, Status};
use firesteel_resources::Provisioning;
use firesteel_resources::provisioning::SINGLETON;
use firesteel_runtime::{ControllerError, Runtime};
use futures_util::future::BoxFuture;

use crate::address_keeper::AddressState;
use crate::os_image::OsImageReport;
use crate::service_health::ServiceFailure;
use crate::service_steps::ServiceStep;
use crate::services::{InterfaceFacts, NetworkSettings, ServiceName, ServicePlan};
use crate::status_writer::StatusWriter;
use crate::sync::{NetworkSync, SyncInput};

/// The longest time between two turns: interfaces and names may change without a word.
const TURN_EVERY: Duration = Duration::from_secs(5);

/// Starts and stops services. A service that ends by itself comes out of [`NetworkServices::ended`].
pub trait NetworkServices: Send + Sync {
    /// Starts a service with its settings of the plan.
    ///
    /// # Errors
    /// Why it could not be started.
    fn start<'a>(&'a self, name: ServiceName, plan: &'a ServicePlan) -> BoxFuture<'a, Result<(), ServiceFailure>>;
    /// Gives new settings to a service that runs.
    ///
    /// # Errors
    /// Why it stays as it was.
    fn adjust<'a>(&'a self, name: ServiceName, plan: &'a ServicePlan) -> BoxFuture<'a, Result<(), ServiceFailure>>;
    /// Stops a service, and waits until its sockets are closed.
    fn stop(&self, name: ServiceName) -> BoxFuture<'_, ()>;
    /// Takes in what is to run, after the steps of a turn and before the first: what hosts learn of the network, and
    /// what an earlier run made and is not wanted any more.
    fn planned<'a>(&'a self, plan: &'a ServicePlan) -> BoxFuture<'a, ()>;
    /// Waits for a service that ends by itself. Cancel safe.
    fn ended(&self) -> BoxFuture<'_, (ServiceName, String)>;
    /// Pauses the keeper of the address, or lets it go on; one that starts later is paused as well.
    fn pause_address(&self, is_paused: bool);
    /// Says why no host begins work for which it boots into the agent, or that hosts may.
    fn hold_work(&self, hold: Option<WorkHold>);
    /// Returns how the kept address is; `None` if none is kept.
    fn address(&self) -> Option<AddressState>;
    /// Returns how the OS image is; `None` if none is cached.
    fn os_image(&self) -> Option<OsImageReport> {
        None
    }
}

/// What the controller looks at.
pub trait NetworkSurroundings: Send + Sync {
    /// Reads the interfaces of this machine.
    ///
    /// # Errors
    /// When the system does not list them.
    fn interfaces(&self) -> std::io::Result<Vec<InterfaceFacts>>;
    /// Returns the addresses that these names of time servers have, as far as they are known.
    fn time_servers(&self, names: &[String]) -> Vec<Ipv4Addr>;
    /// Says whether the process may change interfaces.
    fn may_put_addresses(&self) -> bool;
    /// Returns the hosts that are inspected, cleaned or written now; `None` as long as that is not known after a start.
    fn hosts_in_work(&self) -> Option<Vec<String>>;
}

/// What the appliance gives to the controller.
pub struct NetworkControllerConfig {
    pub core: Core,
    pub runtime: Arc<dyn Runtime>,
    pub services: Arc<dyn NetworkServices>,
    pub surroundings: Arc<dyn NetworkSurroundings>,
    pub settings: NetworkSettings,
    /// The process serves machines at all.
    pub is_enabled: bool,
    /// The version of the program.
    pub version: String,
}

firesteel_runtime::opaque_debug!(NetworkControllerConfig, NetworkController);

/// Follows the Provisioning object.
pub struct NetworkController {
    objects: Objects<Provisioning>,
    status: StatusWriter,
    config: NetworkControllerConfig,
}

/// What a controller knows between two turns.
#[derive(Default)]
struct ControllerMemory {
    sync: NetworkSync,
    object: Option<Provisioning>,
    /// Why the object that is there cannot be read.
    unreadable: Option<String>,
    is_synced: bool,
    /// The services know what is wanted.
    is_planned: bool,
}

impl NetworkController {
    /// # Errors
    /// When the registry lacks a kind that is needed.
    pub fn new(config: NetworkControllerConfig) -> Result<Self, Status> {
        let objects = Objects::new(&config.core, "metal3.io", "Provisioning")?;
        let status = StatusWriter::new(&config.core, &config.version)?;
        Ok(Self { objects, status, config })
    }

    /// Runs until the store fails.
    ///
    /// # Errors
    /// The failure of the store.
    pub async fn run(&self) -> Result<(), ControllerError> {
        let mut changes = self.objects.subscribe().await?;
        let mut memory = ControllerMemory::default();
        loop {
            let uptime = self.config.runtime.uptime();
            tokio::select! {
                biased;
                change = changes.next() => take_change(&mut memory, change?),
                (name, why) = self.config.services.ended() => {
                    tracing::error!(service = name.word(), error = why, "a service ended by itself; it is started again");
                    memory.sync.ended(self.config.runtime.uptime(), name, why);
                }
                () = self.config.runtime.sleep_until(uptime + self.next_turn(&memory)) => {}
            }
            // An object that is not read yet must not be taken for one that is not there.
            if memory.is_synced {
                self.turn(&mut memory).await;
            }
        }
    }

    fn next_turn(&self, memory: &ControllerMemory) -> Duration {
        let uptime = self.config.runtime.uptime();
        let due = memory.sync.poll_timeout(uptime).map(|at| at.saturating_sub(uptime));
        // A turn at once again would spin when a step is not due yet.
        due.map_or(TURN_EVERY, |due| due.clamp(Duration::from_millis(50), TURN_EVERY))
    }

    async fn turn(&self, memory: &mut ControllerMemory) {
        let NetworkControllerConfig { services, surroundings, settings, is_enabled, runtime, .. } = &self.config;
        let interfaces = match surroundings.interfaces() {
            Ok(interfaces) => interfaces,
            Err(error) => {
                tracing::warn!(%error, "could not read the network interfaces; trying again in some seconds");
                return;
            }
        };
        let names = memory.object.as_ref().map(|object| object.spec.ntp_names()).unwrap_or_default();
        let steps = memory.sync.plan_turn(SyncInput {
            is_enabled: *is_enabled,
            object: memory.object.as_ref(),
            unreadable: memory.unreadable.as_deref(),
            interfaces: &interfaces,
            named_time_servers: &surroundings.time_servers(&names),
            settings,
            hosts_in_work: surroundings.hosts_in_work().as_deref(),
            uptime: runtime.uptime(),
        });
        services.pause_address(memory.sync.is_paused());
        if !steps.is_empty() {
            // Conditions say that something changes before it does.
            self.report(memory).await;
        }
        let has_steps = !steps.is_empty();
        for step in steps {
            if !memory.sync.must_wait(step) {
                let done = self.perform(step, memory.sync.wanted()).await;
                memory.sync.step_done(runtime.uptime(), step, done);
            }
        }
        if (has_steps || !memory.is_planned) && memory.sync.is_settled() {
            services.planned(memory.sync.wanted()).await;
            memory.is_planned = true;
        }
        self.report(memory).await;
    }

    async fn perform(&self, step: ServiceStep, wanted: &ServicePlan) -> Result<(), ServiceFailure> {
        let services = &self.config.services;
        let (service, what, done) = match step {
            ServiceStep::Stop(name) => {
                services.stop(name).await;
                (name, "stopped", Ok(()))
            }
            ServiceStep::Start(name) => (name, "started", services.start(name, wanted).await),
            ServiceStep::Adjust(name) => (name, "adjusted", services.adjust(name, wanted).await),
        };
        match &done {
            Ok(()) => tracing::info!(service = service.word(), "the service is {what}"),
            Err(error) => tracing::warn!(
                service = service.word(),
                %error,
                "a service could not be {what}; it is tried again, and the Provisioning object says so"
            ),
        }
        done
    }

    async fn report(&self, memory: &mut ControllerMemory) {
        let NetworkControllerConfig { services, surroundings, runtime, .. } = &self.config;
        let now = runtime.now();
        memory.sync.note_os_image(services.os_image());
        let report =
            memory.sync.report(runtime.uptime(), services.address().as_ref(), surroundings.may_put_addresses());
        services.hold_work(report.work_hold.clone());
        if let Err(status) = self.status.write(memory.object.as_ref(), &report, now).await {
            tracing::warn!(error = %status.message, "could not write how the network is; the next turn tries it again");
        }
    }
}

fn take_change(memory: &mut ControllerMemory, change: ObjectChange<Provisioning>) {
    match change {
        ObjectChange::Applied(object) if object.metadata.name == SINGLETON => {
            (memory.object, memory.unreadable) = (Some(object), None);
        }
        ObjectChange::Deleted(object) if object.metadata.name == SINGLETON => {
            (memory.object, memory.unreadable) = (None, None);
        }
        ObjectChange::Undecodable { name, error } if name.name == SINGLETON => memory.unreadable = Some(error),
        ObjectChange::Synced => memory.is_synced = true,
        ObjectChange::Undecodable { .. } | ObjectChange::Applied(_) | ObjectChange::Deleted(_) => {}
    }
}
