//! The condition `Degraded` of the Provisioning object, in upstream's words: present while the stored network is not
//! the one that this process serves. Without it the network is served as stored.

use firesteel_kube::{Core, ObjectChange, ObjectPart, Objects};
use firesteel_resources::{Condition, Provisioning, admit, kinds::PROVISIONING, no_controller};
use jiff::Timestamp;
use serde_json::Value;

use super::{network::ServedNetwork, network_check, settings::Settings};

const TYPE: &str = "Degraded";
/// Upstream's reason for a network that cannot be served.
const INVALID: &str = "InvalidConfiguration";
/// The reason for a network that only a restarted process can serve.
const RESTART: &str = "RestartNeeded";

/// Writes the condition as long as the process lives. `runs` is the network that is served.
///
/// # Errors
/// When the store fails.
pub(super) async fn write_network_status(
    core: Core,
    settings: Settings,
    runs: Option<ServedNetwork>,
) -> anyhow::Result<()> {
    let objects: Objects<Value> = Objects::new(&core, PROVISIONING.group, PROVISIONING.kind)?;
    let mut changes = objects.subscribe().await?;
    loop {
        let ObjectChange::Applied(object) = changes.next().await? else { continue };
        let Ok(provisioning) = admit::decode::<Provisioning>(&object) else { continue };
        let wanted = degraded(&provisioning, &settings, runs.as_ref());
        let now = Timestamp::now();
        let put = |object: &mut Value| no_controller::put(&PROVISIONING, object, TYPE, wanted.clone(), now);
        if !put(&mut object.clone()) {
            continue;
        }
        let written = objects.modify("", &provisioning.metadata.name, ObjectPart::Status, |object| {
            put(object);
        });
        if let Err(status) = written.await {
            // The next change, or the next start, tries it again.
            tracing::warn!(error = %status.message, "could not write the condition Degraded; the next change tries it");
        }
    }
}

fn degraded(object: &Provisioning, settings: &Settings, runs: Option<&ServedNetwork>) -> Option<Condition> {
    let condition = |reason: &str, text: String| Some(Condition::new(TYPE, true, reason, text));
    let stays = "; the network as it was is served until the appliance is started again";
    match (network_check::served(object, settings), runs) {
        (Err(error), None) => condition(INVALID, format!("{error:#}")),
        (Err(error), Some(_)) => condition(INVALID, format!("{error:#}{stays}")),
        (Ok(wanted), Some(runs)) if !runs.takes_over(&wanted) => condition(
            RESTART,
            format!("mode, address, CIDR or interface changed: start the appliance again to use them{stays}"),
        ),
        (Ok(_), Some(_) | None) => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;
    use crate::serve::settings::RawSettings;

    fn object(spec: &Value) -> Provisioning {
        serde_json::from_value(json!({"metadata": {"name": "provisioning-configuration"}, "spec": spec})).unwrap()
    }

    #[test]
    fn what_is_stored_and_not_served_is_told_with_what_to_do() {
        let raw = RawSettings { data: Some("/d".into()), api_only: true, ..RawSettings::default() };
        let settings = raw.check().unwrap();
        let spec =
            json!({"provisioningNetwork": "Disabled", "provisioningIP": "127.0.0.1", "provisioningInterface": "lo"});
        let runs = network_check::served(&object(&spec), &settings).unwrap();
        assert_eq!(degraded(&object(&spec), &settings, Some(&runs)), None);
        assert_eq!(degraded(&object(&spec), &settings, None), None, "the process begins again");
        let v6 = json!({"provisioningNetwork": "Disabled", "provisioningIP": "fd00::1", "provisioningInterface": "lo"});
        for runs in [None, Some(&runs)] {
            let told = degraded(&object(&v6), &settings, runs).unwrap();
            assert_eq!((told.reason.as_str(), told.message.contains("spec.provisioningIP")), (INVALID, true));
            assert_eq!(told.message.contains("as it was is served"), runs.is_some(), "{}", told.message);
        }
        let mode = json!({"provisioningNetwork": "Unmanaged", "provisioningIP": "127.0.0.1",
            "provisioningNetworkCIDR": "127.0.0.0/8", "provisioningInterface": "lo"});
        assert_eq!(degraded(&object(&mode), &settings, Some(&runs)).unwrap().reason, RESTART);
    }
}
