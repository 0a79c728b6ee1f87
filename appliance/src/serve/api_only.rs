//! The API without machines (`--api-only`): the status of every host says why nothing happens to it, and the conditions
//! of the network say that it is disabled (S0.15).

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use firesteel_facts::WorkHold;
use firesteel_kube::{Core, ObjectChange, ObjectPart, Objects, Status};
use firesteel_network::{
    AddressState, InterfaceFacts, NetworkController, NetworkControllerConfig, NetworkServices, NetworkSettings,
    NetworkSurroundings, ServiceFailure, ServiceName, ServicePlan,
};
use firesteel_resources::bare_metal_host::{BareMetalHostStatus, ProvisioningState};
use firesteel_resources::{BareMetalHost, Condition, set_condition};
use firesteel_runtime::Runtime;
use futures_util::future::BoxFuture;
use jiff::Timestamp;

/// The condition that says whether a host can be used. A planner that serves this folder later replaces it.
const READY: &str = "Ready";
const REASON: &str = "ApiOnly";
const MESSAGE: &str = "this appliance serves its API alone (--api-only): no host is inspected, provisioned or switched";

/// A network that is not served, whatever its object says.
#[derive(Debug)]
struct UnservedNetwork;

impl NetworkServices for UnservedNetwork {
    fn start<'a>(&'a self, _: ServiceName, _: &'a ServicePlan) -> BoxFuture<'a, Result<(), ServiceFailure>> {
        Box::pin(async { Err(ServiceFailure(MESSAGE.to_owned())) })
    }

    fn adjust<'a>(&'a self, name: ServiceName, plan: &'a ServicePlan) -> BoxFuture<'a, Result<(), ServiceFailure>> {
        self.start(name, plan)
    }

    fn stop(&self, _: ServiceName) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    fn planned<'a>(&'a self, _: &'a ServicePlan) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }

    fn ended(&self) -> BoxFuture<'_, (ServiceName, String)> {
        Box::pin(std::future::pending())
    }

    fn pause_address(&self, _: bool) {}

    fn hold_work(&self, _: Option<WorkHold>) {}

    fn address(&self) -> Option<AddressState> {
        None
    }
}

impl NetworkSurroundings for UnservedNetwork {
    fn interfaces(&self) -> std::io::Result<Vec<InterfaceFacts>> {
        Ok(Vec::new())
    }

    fn time_servers(&self, _: &[String]) -> Vec<Ipv4Addr> {
        Vec::new()
    }

    fn may_put_addresses(&self) -> bool {
        false
    }

    fn hosts_in_work(&self) -> Option<Vec<String>> {
        Some(Vec::new())
    }
}

/// Makes the controller that says of the network that it is disabled.
///
/// # Errors
/// When the registry lacks a kind.
pub(super) fn network_controller(
    core: &Core,
    runtime: Arc<dyn Runtime>,
    api_address: IpAddr,
) -> Result<NetworkController, Status> {
    NetworkController::new(NetworkControllerConfig {
        core: core.clone(),
        runtime,
        services: Arc::new(UnservedNetwork),
        surroundings: Arc::new(UnservedNetwork),
        settings: NetworkSettings { interface: None, api_address, has_boot_files: false },
        is_enabled: false,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

/// Writes the condition to each host that has none, as long as the process lives.
///
/// # Errors
/// When the store fails.
pub(super) async fn mark_hosts_not_ready(core: Core) -> anyhow::Result<()> {
    let hosts: Objects<BareMetalHost> = Objects::new(&core, "metal3.io", "BareMetalHost")?;
    let mut changes = hosts.subscribe().await?;
    loop {
        let ObjectChange::Applied(host) = changes.next().await? else { continue };
        if !is_silent(host.status.as_ref()) {
            continue;
        }
        let (namespace, name) = (&host.metadata.namespace, &host.metadata.name);
        // Kubernetes' times have whole seconds.
        let now = Timestamp::from_second(Timestamp::now().as_second())?;
        let written =
            hosts.modify(namespace, name, ObjectPart::Status, |host| set_not_ready(host, REASON, MESSAGE, now)).await;
        if let Err(status) = written {
            tracing::warn!(%namespace, %name, error = %status.message, "could not write why a host is not worked on");
        }
    }
}

fn is_silent(status: Option<&BareMetalHostStatus>) -> bool {
    // Another program wrote an unknown state, which would not be written back unchanged.
    let is_ours = |status: &BareMetalHostStatus| status.provisioning.state != ProvisioningState::Foreign;
    let has_none = |status: &BareMetalHostStatus| status.conditions.iter().all(|condition| condition.type_ != READY);
    status.is_none_or(|status| is_ours(status) && has_none(status))
}

fn set_not_ready(host: &mut BareMetalHost, reason: &str, message: &str, now: Timestamp) {
    if !is_silent(host.status.as_ref()) {
        return;
    }
    let status = host.status.get_or_insert_default();
    let condition = Condition::new(READY, false, reason, message).observed(host.metadata.generation);
    set_condition(&mut status.conditions, condition, now);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]
    use super::*;

    #[test]
    fn what_somebody_said_of_a_host_stays() {
        let (at, later) = (Timestamp::UNIX_EPOCH, Timestamp::from_second(60).unwrap());
        let mut host = BareMetalHost::default();
        set_not_ready(&mut host, REASON, MESSAGE, at);
        let written = host.status.clone().unwrap();
        assert_eq!((written.conditions[0].type_.as_str(), written.conditions[0].reason.as_str()), (READY, REASON));
        set_not_ready(&mut host, REASON, MESSAGE, later);
        assert_eq!(host.status, Some(written));
        let status = host.status.get_or_insert_default();
        set_condition(&mut status.conditions, Condition::new(READY, true, "Ready", ""), at);
        let said = host.status.clone();
        set_not_ready(&mut host, REASON, MESSAGE, later);
        assert_eq!(host.status, said);
    }
}
