//! The API without machines (`--api-only`, or because what machines are served by cannot be read): every host says why
//! nothing happens to it.

use firesteel_kube::{Core, ObjectChange, ObjectPart, Objects, Status};
use firesteel_resources::{
    BareMetalHost, Condition,
    bare_metal_host::{BareMetalHostStatus, ProvisioningState},
    set_condition,
};
use jiff::Timestamp;

/// The condition that tells whether a host can be used. A planner that serves this folder later writes it
/// anew.
const READY: &str = "Ready";
const REASON: &str = "ApiOnly";
const MESSAGE: &str = "this appliance serves its API alone (--api-only): no host is inspected, provisioned or switched";

/// What hosts say where that was not asked for.
const WITHHELD: &str = "NoMachineServed";

/// Tells each host that nobody has told of its state, for as long as the process lives. `why` no machine is served,
/// where it is not by the settings.
///
/// # Errors
/// When the store fails.
pub(super) async fn mark_hosts_not_ready(core: Core, why: Option<String>) -> anyhow::Result<()> {
    let failed = |status: Status| anyhow::anyhow!(status.message);
    let (reason, message) = match &why {
        Some(why) => (WITHHELD, format!("no host is inspected, provisioned or switched: {why}")),
        None => (REASON, MESSAGE.to_owned()),
    };
    let hosts: Objects<BareMetalHost> = Objects::new(&core, "metal3.io", "BareMetalHost").map_err(failed)?;
    let mut changes = hosts.subscribe().await.map_err(failed)?;
    loop {
        let ObjectChange::Applied(host) = changes.next().await.map_err(failed)? else { continue };
        if !is_silent(host.status.as_ref()) {
            continue;
        }
        let (namespace, name) = (&host.metadata.namespace, &host.metadata.name);
        // Seconds, as Kubernetes' times have them.
        let now = Timestamp::from_second(Timestamp::now().as_second())?;
        let told =
            hosts.modify(namespace, name, ObjectPart::Status, |host| set_not_ready(host, reason, &message, now)).await;
        if let Err(status) = told {
            tracing::warn!(%namespace, %name, error = %status.message, "telling a host why nothing happens to it");
        }
    }
}

fn is_silent(status: Option<&BareMetalHostStatus>) -> bool {
    // A state that is none of ours is another program's, and would not be written back as it was.
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
        let told = host.status.clone().unwrap();
        assert_eq!((told.conditions[0].type_.as_str(), told.conditions[0].reason.as_str()), (READY, REASON));
        set_not_ready(&mut host, REASON, MESSAGE, later);
        assert_eq!(host.status, Some(told));
        let status = host.status.get_or_insert_default();
        set_condition(&mut status.conditions, Condition::new(READY, true, "Ready", ""), at);
        let said = host.status.clone();
        set_not_ready(&mut host, REASON, MESSAGE, later);
        assert_eq!(host.status, said);
    }
}
