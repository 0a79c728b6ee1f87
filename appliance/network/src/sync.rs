//! One turn of the network's controller: what is wanted now, the steps there, and what is said of it. It performs
//! nothing; the caller does the steps and says how each ended.
//!
//! ```text
//! SyncInput ─► intent ─► wanted ─► plan_turn ─► steps ─► (caller) ─► step_done ─┐
//!                           ▲                    service ended by itself ─► ended ─┴─► report ─► conditions, finalizer
//!                           └── an object that cannot be served leaves what was wanted before
//! ```

mod messages;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use firesteel_facts::WorkHold;
use firesteel_resources::Provisioning;
use firesteel_resources::provisioning::PAUSED;
use jiff::Timestamp;

use messages::{address_fault, waits_for_hosts};

use crate::address_keeper::AddressState;
use crate::bmc_only::BmcOnlyCause;
use crate::conditions::SyncReason;
use crate::os_image::{OsImageReport, OsImageVerdict};
use crate::service_health::{ServiceFailure, ServiceHealth, ServiceState};
use crate::service_steps::{ServiceStep, service_steps};
use crate::services::{
    InterfaceFacts, NetworkSettings, SensorPlan, ServedLink, ServiceFault, ServiceName, ServicePlan, ServicePlanInput,
    plan_services,
};

/// The finalizer of the object, in upstream's word.
pub const FINALIZER: &str = "provisioning.metal3.io";
/// Lets a deleted object go without waiting for hosts that are in work.
pub const FORCE_REMOVAL: &str = "firesteel.dev/force-removal";

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
    /// The hosts that are inspected, cleaned or written now.
    pub hosts_in_work: &'a [String],
    pub now: Timestamp,
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

    /// Takes in how the OS image is; `None` if none is cached.
    pub fn note_os_image(&mut self, report: Option<OsImageReport>) {
        self.os_image = report;
    }

    /// Decides what is wanted, and returns the steps that are due.
    pub fn plan_turn(&mut self, input: SyncInput<'_>) -> Vec<ServiceStep> {
        self.has_finalizer = input.object.is_some_and(|object| has_finalizer(object));
        self.is_deleted = input.object.is_some_and(|object| object.metadata.is_deleting());
        self.intent = self.intend(input);
        self.bmc_only = BmcOnlyCause::of(&self.wanted, input.settings);
        if self.intent == NetworkIntent::Paused {
            return Vec::new();
        }
        let now = input.now;
        self.health.retain(|name, _| self.wanted.has(*name));
        for name in ServiceName::ALL.into_iter().filter(|name| self.wanted.has(*name)) {
            self.health.entry(name).or_insert_with(|| ServiceHealth::wanted(now));
        }
        let steps = service_steps(&self.running, &self.wanted);
        let replaced = |name| steps.contains(&ServiceStep::Stop(name));
        let is_due = |step: &ServiceStep| match step {
            ServiceStep::Start(name) => {
                replaced(*name) || self.health.get(name).is_some_and(|health| health.is_due(now))
            }
            ServiceStep::Stop(_) | ServiceStep::Adjust(_) => true,
        };
        steps.iter().copied().filter(is_due).collect()
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
        if self.is_deleted {
            let waits = waits_for_hosts(object, input.hosts_in_work);
            if waits.is_none() {
                self.wanted = ServicePlan::default();
            }
            return NetworkIntent::Removing(waits);
        }
        if object.metadata.annotation(PAUSED).is_some() {
            return NetworkIntent::Paused;
        }
        self.intend_to_serve(object, input)
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
                self.wanted = plan;
                NetworkIntent::Serving
            }
            Some(ServiceFault::Unserved(why)) => NetworkIntent::Faulty(why),
            Some(fault) => {
                // An interface that is named and not there: where the old one is still there, the edit is wrong and
                // changes nothing. Where it vanished, what runs without it goes on.
                if !self.wanted.link().is_some_and(|link| is_there(link, input.interfaces)) {
                    self.wanted = plan;
                }
                NetworkIntent::Faulty(fault.to_string())
            }
        }
    }

    /// Notes how a step ended.
    pub fn step_done(&mut self, now: Timestamp, step: ServiceStep, done: Result<(), ServiceFailure>) {
        match (step, done) {
            (ServiceStep::Stop(name), _) => self.running.take_from(&ServicePlan::default(), name),
            (ServiceStep::Start(name), Ok(())) => {
                self.running.take_from(&self.wanted, name);
                self.health.entry(name).or_insert_with(|| ServiceHealth::wanted(now)).started();
            }
            // The service goes on with its old settings, and the next turn tries again.
            (ServiceStep::Adjust(name), Ok(())) => self.running.take_from(&self.wanted, name),
            (ServiceStep::Start(name) | ServiceStep::Adjust(name), Err(ServiceFailure(why))) => {
                self.health.entry(name).or_insert_with(|| ServiceHealth::wanted(now)).failed_to_start(now, why);
            }
        }
    }

    /// Notes that a service ended by itself.
    pub fn ended(&mut self, now: Timestamp, name: ServiceName, why: String) {
        self.running.take_from(&ServicePlan::default(), name);
        self.health.entry(name).or_insert_with(|| ServiceHealth::wanted(now)).crashed(now, why);
    }

    /// Returns when time alone asks for another turn.
    #[must_use]
    pub fn poll_timeout(&self, now: Timestamp) -> Option<Timestamp> {
        self.health.values().filter_map(|health| health.poll_timeout(now)).min()
    }

    /// Says how the network is. `address` is how the kept address is, if one is kept, and `may_put` whether the process
    /// may change interfaces.
    pub fn report(&mut self, now: Timestamp, address: Option<&AddressState>, may_put: bool) -> SyncReport {
        let keep = FinalizerStep::Keep;
        let work_hold = self.work_hold();
        let report = |reason, message: String, finalizer| SyncReport {
            reason: Some(reason),
            message,
            finalizer,
            work_hold: work_hold.clone(),
        };
        match self.intent.clone() {
            NetworkIntent::NotInUse => report(
                SyncReason::UnsupportedPlatform,
                "this appliance serves its API alone (--api-only), and no machine".to_owned(),
                self.finalizer_of_stopped(),
            ),
            NetworkIntent::Waiting => report(
                SyncReason::WaitingForProvisioningCr,
                "waiting for a Provisioning object: apply one to serve a provisioning network".to_owned(),
                keep,
            ),
            NetworkIntent::Paused => SyncReport { reason: None, message: String::new(), finalizer: keep, work_hold },
            NetworkIntent::Removing(Some(waits)) => report(SyncReason::SyncingResources, waits, keep),
            NetworkIntent::Removing(None) if self.running == ServicePlan::default() => {
                let message = "the object is deleted, and its services have stopped".to_owned();
                report(SyncReason::ResourceNotFound, message, self.finalizer_of_stopped())
            }
            NetworkIntent::Removing(None) => {
                let message = "the object is deleted: its services stop".to_owned();
                report(SyncReason::ResourceNotFound, message, keep)
            }
            NetworkIntent::Serving => self.report_services(now, None, address, may_put),
            NetworkIntent::Faulty(why) => self.report_services(now, Some(why), address, may_put),
        }
    }

    /// Lets a deleted object go, where no service runs any more.
    fn finalizer_of_stopped(&self) -> FinalizerStep {
        if self.is_deleted && self.has_finalizer { FinalizerStep::Remove } else { FinalizerStep::Keep }
    }

    /// Says why no host begins work for which it boots into the agent.
    fn work_hold(&self) -> Option<WorkHold> {
        if let Some(cause) = self.bmc_only {
            return Some(WorkHold::BmcOnly(cause.to_string()));
        }
        let why = match &self.intent {
            NetworkIntent::NotInUse => "this appliance serves its API alone (--api-only)",
            NetworkIntent::Waiting => "there is no Provisioning object: apply one",
            NetworkIntent::Removing(_) => "the Provisioning object is deleted",
            _ if self.running.http.is_some() => return None,
            NetworkIntent::Faulty(why) => why,
            NetworkIntent::Serving | NetworkIntent::Paused => "its services have not started yet",
        };
        Some(WorkHold::NotServed(format!("no host boots from the provisioning network: {why}")))
    }

    fn report_services(
        &mut self,
        now: Timestamp,
        fault: Option<String>,
        address: Option<&AddressState>,
        may_put: bool,
    ) -> SyncReport {
        let kept = self.wanted.address.as_ref();
        let address_fault = kept.zip(address).and_then(|(kept, state)| address_fault(kept, state, may_put));
        let mut is_faulty = fault.is_some() || address_fault.is_some();
        let (mut is_late, mut is_loop) = (false, false);
        // A step is due, or under way.
        let mut is_starting = self.running != self.wanted;
        let mut parts: Vec<String> = fault.into_iter().chain(address_fault).collect();
        for (name, health) in &mut self.health {
            let word = name.word();
            match health.state(now) {
                ServiceState::Up => {}
                ServiceState::Starting(None) => is_starting = true,
                ServiceState::Starting(Some(why)) => {
                    is_starting = true;
                    parts.push(format!("could not start {word} yet: {why}"));
                }
                ServiceState::Late(why) => {
                    is_late = true;
                    parts.push(format!("{word} did not come up within 5 minutes: {why}"));
                }
                ServiceState::CrashLoop(why) => {
                    is_loop = true;
                    parts.push(format!("{word} keeps ending: {why}"));
                }
            }
        }
        // An address that the cache has not taken in yet is no success.
        if let (Some(report), Some(url)) = (&self.os_image, &self.running.image_cache) {
            let (verdict, text) = report.judge();
            is_starting |= verdict == OsImageVerdict::Starting || report.url != *url;
            is_late |= verdict == OsImageVerdict::Late;
            is_faulty |= verdict == OsImageVerdict::Faulty;
            parts.extend(text);
        }
        let reason = match () {
            () if is_loop => SyncReason::DeploymentCrashLooping,
            () if is_late => SyncReason::DeployTimedOut,
            () if is_faulty => SyncReason::InvalidConfiguration,
            () if is_starting => SyncReason::SyncingResources,
            () => SyncReason::DeployComplete,
        };
        if parts.is_empty() {
            parts.push(if is_starting { "services start".to_owned() } else { "all services run".to_owned() });
            parts.extend(self.bmc_only.map(|cause| cause.to_string()));
        }
        let finalizer = if self.has_finalizer { FinalizerStep::Keep } else { FinalizerStep::Add };
        SyncReport { reason: Some(reason), message: parts.join("; "), finalizer, work_hold: self.work_hold() }
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
    let every_s = exporter["sensorCollectionInterval"].as_u64().and_then(|every| every.try_into().ok()).unwrap_or(60);
    let with_alerts = !exporter["disableDefaultPrometheusRules"].as_bool().unwrap_or_default();
    is_enabled.then_some(SensorPlan { every_s, with_alerts })
}

#[cfg(test)]
mod tests;
