//! The condition `Degraded` of the Provisioning object, in upstream's words: present while what is stored is not what
//! this process serves. Without it the network is served as it stands there.

use firesteel_kube::{Core, ObjectChange, ObjectPart, Objects, Status};
use firesteel_resources::{Condition, Provisioning, admit, kinds::PROVISIONING, no_controller};
use jiff::Timestamp;
use serde_json::Value;

use super::{network::ServedNetwork, network_check, settings::Settings};

const TYPE: &str = "Degraded";
/// Upstream's word for what cannot be served.
const INVALID: &str = "InvalidConfiguration";
/// It can be served, and not by this process.
const RESTART: &str = "RestartNeeded";

/// Tells it for as long as the process lives. `runs` is what is served.
///
/// # Errors
/// When the store fails.
pub(super) async fn write_network_status(
    core: Core,
    settings: Settings,
    runs: Option<ServedNetwork>,
) -> anyhow::Result<()> {
    let failed = |status: Status| anyhow::anyhow!(status.message);
    let objects: Objects<Value> = Objects::new(&core, PROVISIONING.group, PROVISIONING.kind).map_err(failed)?;
    let mut changes = objects.subscribe().await.map_err(failed)?;
    loop {
        let ObjectChange::Applied(object) = changes.next().await.map_err(failed)? else { continue };
        let Ok(provisioning) = admit::decode::<Provisioning>(&object) else { continue };
        let wanted = degraded(&provisioning, &settings, runs.as_ref());
        let now = Timestamp::now();
        let put = |object: &mut Value| no_controller::put(&PROVISIONING, object, (TYPE, wanted.clone()), now);
        if !put(&mut object.clone()) {
            continue;
        }
        let told = objects.modify("", &provisioning.metadata.name, ObjectPart::Status, |object| {
            put(object);
        });
        if let Err(status) = told.await {
            // It is tried again with the next change, and at the next start.
            tracing::warn!(error = %status.message, "could not tell in the Provisioning object that it is not served");
        }
    }
}

fn degraded(object: &Provisioning, settings: &Settings, runs: Option<&ServedNetwork>) -> Option<Condition> {
    let told = |reason: &str, text: String| Some(Condition::new(TYPE, true, reason, text));
    let stays = "; the network as it was is served until the appliance is started again";
    match (network_check::served(object, settings), runs) {
        (Err(error), None) => told(INVALID, format!("{error:#}")),
        (Err(error), Some(_)) => told(INVALID, format!("{error:#}{stays}")),
        (Ok(wanted), Some(runs)) if !runs.takes_over(&wanted) => told(
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
