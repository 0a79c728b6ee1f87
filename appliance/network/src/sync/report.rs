//! What a turn says of the network: the reason, its text, the finalizer, and why hosts wait.

use std::time::Duration;

use firesteel_facts::WorkHold;

use super::messages::address_fault;
use super::{FinalizerStep, NetworkIntent, NetworkSync, SyncReport};
use crate::address_keeper::AddressState;
use crate::conditions::SyncReason;
use crate::os_image::OsImageVerdict;
use crate::service_health::ServiceState;
use crate::services::{ServiceName, ServicePlan};

impl NetworkSync {
    /// Says how the network is. `address` is how the kept address is, if one is kept, and `may_put` whether the process
    /// may change interfaces.
    pub fn report(&mut self, uptime: Duration, address: Option<&AddressState>, may_put: bool) -> SyncReport {
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
            NetworkIntent::Serving => self.report_services(uptime, None, address, may_put),
            NetworkIntent::Faulty(why) => self.report_services(uptime, Some(why), address, may_put),
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
        let leads = [ServiceName::Http, ServiceName::Tftp, ServiceName::Dhcp];
        let leads_hosts = self.running.http.is_some()
            && !self.lacks_link
            && leads.into_iter().all(|name| self.running.has(name) || !self.wanted.has(name));
        let why = match &self.intent {
            NetworkIntent::NotInUse => "this appliance serves its API alone (--api-only)",
            NetworkIntent::Waiting => "there is no Provisioning object: apply one",
            NetworkIntent::Removing(_) => "the Provisioning object is deleted",
            _ if leads_hosts => return None,
            NetworkIntent::Faulty(why) => why,
            NetworkIntent::Serving | NetworkIntent::Paused => "its services do not all run yet",
        };
        Some(WorkHold::NotServed(format!("no host boots from the provisioning network: {why}")))
    }

    fn report_services(
        &mut self,
        uptime: Duration,
        fault: Option<String>,
        address: Option<&AddressState>,
        may_put: bool,
    ) -> SyncReport {
        let kept = self.wanted.address.as_ref();
        let address_fault = kept.zip(address).and_then(|(kept, state)| address_fault(kept, state, may_put));
        let mut is_faulty = fault.is_some() || address_fault.is_some();
        let (mut is_late, mut is_loop) = (false, false);
        // A step is due or under way, or the address is on its way to the interface.
        let is_probing = kept.is_some() && address == Some(&AddressState::Probing);
        let mut is_starting = self.running != self.wanted || is_probing;
        let mut parts: Vec<String> = fault.into_iter().chain(address_fault).collect();
        for (name, health) in &mut self.health {
            let word = name.word();
            match health.state(uptime) {
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
