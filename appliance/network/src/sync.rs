//! One turn of the network's controller: what is wanted now, the steps there, and what is said of it. It performs
//! nothing; the caller does the steps and says how each ended.
//!
//! ```text
//! SyncInput ─► intent ─► wanted ─► plan_turn ─► steps ─► (caller) ─► step_done ─┐
//!                           ▲                    service ended by itself ─► ended ─┴─► report ─► conditions, finalizer
//!                           └── an object that cannot be served leaves what was wanted before
//! ```

mod messages;
mod report;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use firesteel_facts::WorkHold;
use firesteel_resources::Provisioning;
use firesteel_resources::provisioning::PAUSED;

use messages::waits_for_hosts;

use crate::bmc_only::BmcOnlyCause;
use crate::conditions::SyncReason;
use crate::os_image::OsImageReport;
use crate::service_health::{ServiceFailure, ServiceHealth};
use crate::service_steps::{ServiceStep, service_steps};
use crate::services::{
    InterfaceFacts, NetworkSettings, SensorPlan, ServedLink, ServiceFault, ServiceName, ServicePlan, ServicePlanInput,
    plan_services,
};

/// The finalizer of the object, in upstream's word.
pub const FINALIZER: &str = "provisioning.metal3.io";
/// Lets a deleted object go without waiting for hosts that are in work.
pub const FORCE_REMOVAL: &str = "firesteel.dev/force-removal";

/// The shortest time between two readings of sensors, also for an object that was stored before admission knew it.
const SENSORS_EVERY_MIN_S: u32 = 60;

/// What a turn decides by.
#[derive(Clone, Copy, Debug)]
pub struct SyncInput<'a> {
    /// The process serves machines at all.
    pub is_enabled: bool,
    pub object: Option<&'a Provisioning>,
    /// Why the object that is there cannot be read: what it was is served on.
    pub unreadable: Option<&'a str>,
    pub interfaces: &'a [InterfaceFacts],
    /// The addresses that the names of time servers have now.
    pub named_time_servers: &'a [Ipv4Addr],
    pub settings: &'a NetworkSettings,
    /// The hosts that are inspected, cleaned or written now; `None` as long as that is not known after a start.
    pub hosts_in_work: Option<&'a [String]>,
    /// The time since the process began, which no change of the clock moves.
    pub uptime: Duration,
}

/// What the object asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum NetworkIntent {
    NotInUse,
    Waiting,
    Paused,
    /// The object is deleted; the text says what is waited for.
    Removing(Option<String>),
    Serving,
    /// It cannot be served as it is.
    Faulty(String),
}

/// What becomes of the finalizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinalizerStep {
    Keep,
    Add,
    /// All services stopped: the object may go.
    Remove,
}

/// What is said of the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncReport {
    /// Is absent while the object is paused: its conditions stay as they are.
    pub reason: Option<SyncReason>,
    pub message: String,
    pub finalizer: FinalizerStep,
    /// Why no host begins work for which it boots into the agent.
    pub work_hold: Option<WorkHold>,
}

/// The network between two turns.
#[derive(Debug)]
pub struct NetworkSync {
    intent: NetworkIntent,
    wanted: ServicePlan,
    running: ServicePlan,
    health: BTreeMap<ServiceName, ServiceHealth>,
    has_finalizer: bool,
    is_deleted: bool,
    /// How the OS image is, where one is cached.
    os_image: Option<OsImageReport>,
    bmc_only: Option<BmcOnlyCause>,
    /// The interface that the object names is not there.
    lacks_link: bool,
}

impl Default for NetworkSync {
    fn default() -> Self {
        Self {
            intent: NetworkIntent::Waiting,
            wanted: ServicePlan::default(),
            running: ServicePlan::default(),
            health: BTreeMap::new(),
            has_finalizer: false,
            is_deleted: false,
            os_image: None,
            bmc_only: None,
            lacks_link: false,
        }
    }
}

impl NetworkSync {
    /// Returns the settings with which services are to run; a step that starts or adjusts takes them from here.
    #[must_use]
    pub fn wanted(&self) -> &ServicePlan {
        &self.wanted
    }

    /// Says whether the object is paused.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.intent == NetworkIntent::Paused
    }

    /// Says whether the object can be acted on: what it does not want is not wanted.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        !matches!(self.intent, NetworkIntent::Paused | NetworkIntent::Faulty(_))
    }

    /// Takes in how the OS image is; `None` if none is cached.
    pub fn note_os_image(&mut self, report: Option<OsImageReport>) {
        self.os_image = report;
    }

    /// Decides what is wanted, and returns the steps that are due.
    pub fn plan_turn(&mut self, input: SyncInput<'_>) -> Vec<ServiceStep> {
        self.has_finalizer = input.object.is_some_and(|object| has_finalizer(object));
        self.is_deleted = input.object.is_some_and(|object| object.metadata.is_deleting());
        self.intent = self.intend(input);
        if let NetworkIntent::Faulty(_) = self.intent {
            self.wanted.refresh_link(input.interfaces);
        }
        self.bmc_only = BmcOnlyCause::of(&self.wanted, input.settings);
        let uptime = input.uptime;
        self.health.retain(|name, _| self.wanted.has(*name));
        for name in ServiceName::ALL.into_iter().filter(|name| self.wanted.has(*name)) {
            self.health.entry(name).or_insert_with(|| ServiceHealth::wanted(uptime));
        }
        let steps = service_steps(&self.running, &self.wanted);
        self.forget_old_failures(&steps);
        let replaced = |name| steps.contains(&ServiceStep::Stop(name));
        let is_due = |step: &ServiceStep| match step {
            ServiceStep::Start(name) => {
                replaced(*name) || self.health.get(name).is_some_and(|health| health.is_due(uptime))
            }
            ServiceStep::Stop(_) | ServiceStep::Adjust(_) => true,
        };
        // Under a pause what ran before is started again, and nothing else changes.
        let is_allowed = |step: &ServiceStep| match step {
            ServiceStep::Start(name) => !self.is_paused() || !replaced(*name),
            ServiceStep::Stop(_) | ServiceStep::Adjust(_) => !self.is_paused(),
        };
        steps.iter().copied().filter(|step| is_due(step) && is_allowed(step)).collect()
    }

    /// Says whether a step of this turn waits until others are done: DHCP leads clients to HTTP and TFTP, and starts
    /// once they run.
    #[must_use]
    pub fn must_wait(&self, step: ServiceStep) -> bool {
        let runs = self.running.http == self.wanted.http && self.running.tftp == self.wanted.tftp;
        step == ServiceStep::Start(ServiceName::Dhcp) && !runs
    }

    /// A service that runs as it is wanted is up, even if another edit before could not be given to it.
    fn forget_old_failures(&mut self, steps: &[ServiceStep]) {
        for (name, health) in &mut self.health {
            let is_due =
                |step: &ServiceStep| matches!(step, ServiceStep::Start(due) | ServiceStep::Adjust(due) if due == name);
            if self.running.has(*name) && !steps.iter().any(is_due) {
                health.started();
            }
        }
    }

    fn intend(&mut self, input: SyncInput<'_>) -> NetworkIntent {
        if !input.is_enabled {
            self.wanted = ServicePlan::default();
            return NetworkIntent::NotInUse;
        }
        if let Some(why) = input.unreadable {
            return NetworkIntent::Faulty(format!("could not read the Provisioning object: {why}"));
        }
        let Some(object) = input.object else {
            self.wanted = ServicePlan::default();
            return NetworkIntent::Waiting;
        };
        let is_forced = object.metadata.annotation(FORCE_REMOVAL).is_some();
        if object.metadata.annotation(PAUSED).is_some() && !(self.is_deleted && is_forced) {
            self.intend_once(object, input);
            return NetworkIntent::Paused;
        }
        if !self.is_deleted {
            return self.intend_to_serve(object, input);
        }
        let waits = if is_forced { None } else { waits_for_hosts(input.hosts_in_work) };
        if waits.is_some() {
            self.intend_once(object, input);
        } else {
            self.wanted = ServicePlan::default();
        }
        NetworkIntent::Removing(waits)
    }

    /// Wants after a start what ran before it, though the object is paused, or waits for its hosts to go.
    fn intend_once(&mut self, object: &Provisioning, input: SyncInput<'_>) {
        if self.wanted == ServicePlan::default() {
            // What is wrong with it is said when it is acted on again.
            self.intend_to_serve(object, input);
        }
    }

    fn intend_to_serve(&mut self, object: &Provisioning, input: SyncInput<'_>) -> NetworkIntent {
        let network = match object.network() {
            Ok(network) => network,
            Err(causes) => return NetworkIntent::Faulty(firesteel_kube_types::summary(&causes)),
        };
        let (plan, fault) = plan_services(ServicePlanInput {
            network: &network,
            os_image_url: &object.spec.provisioning_os_download_url,
            sensors: sensors(object),
            named_time_servers: input.named_time_servers,
            settings: input.settings,
            interfaces: input.interfaces,
        });
        match fault {
            None => {
                (self.wanted, self.lacks_link) = (plan, false);
                NetworkIntent::Serving
            }
            Some(ServiceFault::Unserved(why)) => NetworkIntent::Faulty(why),
            Some(fault) => {
                // An interface that is named and not there: where the old plan can go on, the edit is wrong and
                // changes nothing. Where its interface vanished, what runs without it goes on.
                let vanished = self.wanted.link().is_some_and(|link| !is_there(link, input.interfaces));
                if vanished || self.wanted == ServicePlan::default() {
                    (self.wanted, self.lacks_link) = (plan, true);
                }
                NetworkIntent::Faulty(fault.to_string())
            }
        }
    }

    /// Notes how a step ended.
    pub fn step_done(&mut self, uptime: Duration, step: ServiceStep, done: Result<(), ServiceFailure>) {
        match (step, done) {
            (ServiceStep::Stop(name), _) => {
                self.running.take_from(&ServicePlan::default(), name);
                // Its start may have to wait for another service.
                if let Some(health) = self.health.get_mut(&name).filter(|_| self.wanted.has(name)) {
                    health.replaced(uptime);
                }
            }
            (ServiceStep::Start(name) | ServiceStep::Adjust(name), Ok(())) => {
                self.running.take_from(&self.wanted, name);
                self.health.entry(name).or_insert_with(|| ServiceHealth::wanted(uptime)).started();
            }
            // A service that could not be adjusted goes on with its old settings, and the next turn tries again.
            (ServiceStep::Start(name) | ServiceStep::Adjust(name), Err(ServiceFailure(why))) => {
                self.health.entry(name).or_insert_with(|| ServiceHealth::wanted(uptime)).failed_to_start(uptime, why);
            }
        }
    }

    /// Notes that a service ended by itself.
    pub fn ended(&mut self, uptime: Duration, name: ServiceName, why: String) {
        self.running.take_from(&ServicePlan::default(), name);
        self.health.entry(name).or_insert_with(|| ServiceHealth::wanted(uptime)).crashed(uptime, why);
    }

    /// Returns when time alone asks for another turn.
    #[must_use]
    pub fn poll_timeout(&self, uptime: Duration) -> Option<Duration> {
        self.health.values().filter_map(|health| health.poll_timeout(uptime)).min()
    }
}

fn has_finalizer(object: &Provisioning) -> bool {
    object.metadata.finalizers.iter().any(|name| name == FINALIZER)
}

fn is_there(link: &ServedLink, interfaces: &[InterfaceFacts]) -> bool {
    interfaces.iter().any(|interface| interface.name == link.name && interface.index == link.index)
}

fn sensors(object: &Provisioning) -> Option<SensorPlan> {
    let exporter = object.spec.prometheus_exporter.as_ref()?;
    let is_enabled = exporter["enabled"].as_bool().unwrap_or_default();
    let every_s = exporter["sensorCollectionInterval"]
        .as_u64()
        .and_then(|every| every.try_into().ok())
        .unwrap_or(60)
        .max(SENSORS_EVERY_MIN_S);
    let with_alerts = !exporter["disableDefaultPrometheusRules"].as_bool().unwrap_or_default();
    is_enabled.then_some(SensorPlan { every_s, with_alerts })
}

#[cfg(test)]
mod tests;
