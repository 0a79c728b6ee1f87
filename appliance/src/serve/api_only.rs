//! The API without machines (with `--api-only`, or because data for serving machines cannot be read): the status of
//! every host says why nothing happens to it.

use firesteel_kube::{Core, ObjectChange, ObjectPart, Objects};
use firesteel_resources::bare_metal_host::{BareMetalHostStatus, ProvisioningState};
use firesteel_resources::{BareMetalHost, Condition, set_condition};
use jiff::Timestamp;

/// The condition that says whether a host can be used. A planner that serves this folder later replaces it.
const READY: &str = "Ready";
const REASON: &str = "ApiOnly";
const MESSAGE: &str = "this appliance serves its API alone (--api-only): no host is inspected, provisioned or switched";

/// The reason in hosts if `--api-only` was not given.
const WITHHELD: &str = "NoMachineServed";

/// Writes the condition to each host that has none, as long as the process lives. `why` says why no machine is served,
/// unless the settings ask for that.
///
/// # Errors
/// When the store fails.
pub(super) async fn mark_hosts_not_ready(core: Core, why: Option<String>) -> anyhow::Result<()> {
    let (reason, message) = match &why {
        Some(why) => (WITHHELD, format!("no host is inspected, provisioned or switched: {why}")),
        None => (REASON, MESSAGE.to_owned()),
    };
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
            hosts.modify(namespace, name, ObjectPart::Status, |host| set_not_ready(host, reason, &message, now)).await;
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
