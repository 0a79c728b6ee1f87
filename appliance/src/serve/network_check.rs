//! Checks whether the stored network can be served: upstream's rules may accept more, an earlier program may have
//! stored it, and the interface may lack the address. A network that cannot be served does not keep the process from
//! starting.

use std::{net::IpAddr, path::Path, time::Duration};

use anyhow::Context as _;
use firesteel_kube::{Core, Objects};
use firesteel_kube_types::summary;
use firesteel_resources::kinds::PROVISIONING;
use firesteel_resources::provisioning::{SINGLETON, unserved};
use firesteel_resources::{NetworkMode, Provisioning, admit};
use serde_json::Value;

use super::network::{ServedNetwork, check_dhcp};
use super::network_problem::NetworkProblem;
use super::restart::RestartRequest;
use super::settings::Settings;
use crate::text_file::{self, TEXT_FILE_BYTES_MAX};

/// The time between two checks: an address may come to the interface, or the interface to the machine, at any time.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// The time between a stored change and the end of the process that stored it.
const ANSWERED_WITHIN: Duration = Duration::from_secs(1);

/// The remedy in messages.
const REMEDY: &str = "Correct the Provisioning object with kubectl or `firesteel apply --filename FILE` (the file of \
                      --provisioning is read at the first start alone), or the interface; machines are then served \
                      without another start";

pub(super) const NONE_STORED: &str = "there is no Provisioning object: apply one with kubectl or `firesteel apply \
                                      --filename FILE`, or give it with --provisioning FILE \
                                      (docs/guide/install.md); machines are then served";

pub(super) fn objects(core: &Core) -> anyhow::Result<Objects<Provisioning>> {
    Ok(Objects::new(core, "metal3.io", "Provisioning")?)
}

/// Reads the one Provisioning object, if there is one.
pub(super) async fn stored(core: &Core) -> anyhow::Result<Option<Provisioning>> {
    objects(core)?.get("", SINGLETON).await.map_err(|status| {
        // Its content is unknown now, whatever the file of the first start says.
        if status.is_unreadable() {
            return anyhow::Error::new(NetworkProblem::Unreadable(status.message));
        }
        status.into()
    })
}

/// Reads the file of the first start.
pub(super) fn read<T: serde::de::DeserializeOwned>(path: &Path) -> anyhow::Result<T> {
    let text = text_file::read(path, TEXT_FILE_BYTES_MAX)?;
    firesteel_kube::yaml::read(text.as_bytes())
        .with_context(|| format!("could not read a Provisioning object from {}", path.display()))
}

/// Warns a person who edited the file instead of the object that the object counts.
pub(super) fn warn_of_another(path: &Path, stored: &Provisioning) {
    let file = path.display();
    match read::<Value>(path) {
        Ok(object) if is_another(object.clone(), stored) => tracing::warn!(
            %file,
            "the stored Provisioning object differs from the file, and is the one that counts: the file is read at the \
             first start alone. To use it, run `firesteel apply --filename {file}`"
        ),
        Ok(_) => {}
        Err(error) => tracing::warn!(
            error = format!("{error:#}"),
            "could not read the file of --provisioning; the stored Provisioning object is the one that counts"
        ),
    }
}

fn is_another(mut object: Value, stored: &Provisioning) -> bool {
    // Stored objects have the defaults.
    drop(admit(&PROVISIONING, &mut object, None));
    let object = admit::decode::<Provisioning>(&object);
    object.is_ok_and(|object| object.spec != stored.spec)
}

/// Returns the network of this object, if its interface has the address.
///
/// # Errors
/// The reason why it cannot be served; a flag that names no interface is a separate error.
pub(super) fn served(object: &Provisioning, settings: &Settings) -> anyhow::Result<ServedNetwork> {
    let unservable = |why: String| NetworkProblem::Unservable(format!("the network cannot be served: {why}. {REMEDY}"));
    let served = wanted(object, settings).map_err(|why| unservable(why.to_string()))?;
    let (interface, address) = (&served.interface, served.address);
    let Some(addresses) = addresses_of(interface)? else {
        anyhow::ensure!(settings.interface.is_none(), "there is no network interface {interface} (see --interface)");
        return Err(unservable(format!("spec.provisioningInterface: there is no network interface {interface}")).into());
    };
    if !addresses.contains(&IpAddr::V4(address)) {
        return Err(unservable(format!(
            "spec.provisioningIP: {interface} does not have the address {address}: `ip address add {address}/PREFIX \
             dev {interface}`"
        ))
        .into());
    }
    Ok(served)
}

/// Returns the network that the object describes, as far as this can be judged without the interface.
pub(super) fn wanted(object: &Provisioning, settings: &Settings) -> anyhow::Result<ServedNetwork> {
    let network = object.network().map_err(|causes| anyhow::anyhow!(summary(&causes)))?;
    if let Some(why) = unserved(&network) {
        anyhow::bail!(why);
    }
    let Some(IpAddr::V4(address)) = network.address else {
        anyhow::bail!("spec.provisioningIP: must be an IPv4 address");
    };
    let interface = settings.interface.clone().unwrap_or_else(|| network.interface.clone());
    anyhow::ensure!(
        !interface.is_empty(),
        "spec.provisioningInterface: name the provisioning interface there, or by --interface"
    );
    let served = ServedNetwork { interface, address, network, relayed: settings.relayed.clone() };
    if served.network.mode == NetworkMode::Managed {
        check_dhcp(&served).map_err(|error| anyhow::anyhow!("{error:#}"))?;
    }
    Ok(served)
}

/// Returns the addresses of an interface; `None` if there is no such interface.
fn addresses_of(interface: &str) -> anyhow::Result<Option<Vec<IpAddr>>> {
    let all = nix::ifaddrs::getifaddrs().context("could not read the interfaces' addresses")?;
    let mut found = None;
    for entry in all.filter(|entry| entry.interface_name == interface) {
        let address = entry.address.as_ref().and_then(|address| address.as_sockaddr_in()).map(|v4| v4.ip());
        found.get_or_insert_with(Vec::new).extend(address.map(IpAddr::V4));
    }
    Ok(found)
}

/// Ends with [`RestartRequest`] when the stored network can be served.
pub(super) async fn wait(core: Core, settings: Settings) -> anyhow::Result<()> {
    let mut changes = objects(&core)?.subscribe().await?;
    loop {
        tokio::select! {
            change = changes.next() => drop(change?),
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        match stored(&core).await.map(|stored| stored.map(|object| served(&object, &settings))) {
            Ok(Some(Ok(_))) => {
                // The client that corrected the object gets its answer first.
                tokio::time::sleep(ANSWERED_WITHIN).await;
                tracing::info!("the provisioning network can be served now: the process starts again, with machines");
                return Err(RestartRequest.into());
            }
            Ok(Some(Err(error))) | Err(error) => {
                tracing::debug!(error = format!("{error:#}"), "still no machine is served")
            }
            Ok(None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::serve::settings::RawSettings;

    fn settings(interface: Option<&str>) -> Settings {
        let raw = RawSettings {
            data: Some("/d".into()),
            boot_files: Some("/b".into()),
            interface: interface.map(str::to_owned),
            relayed: vec!["10.88.0.0/24,10.88.0.10,10.88.0.99".to_owned()],
            ..RawSettings::default()
        };
        raw.check().unwrap()
    }

    fn object(spec: &Value) -> Value {
        json!({"metadata": {"name": SINGLETON}, "spec": spec})
    }

    fn word(words: &[&'static str]) -> impl Strategy<Value = &'static str> + use<> {
        prop::sample::select(words.to_vec())
    }

    fn spec() -> impl Strategy<Value = Value> {
        let addresses =
            word(&["", "10.77.0.1", "10.77.0.0", "10.77.255.255", "10.77.0.255", "fd00::1", "10.77.0.1/24"]);
        let blocks =
            word(&["", "10.77.0.0/24", "10.77.0.0/16", "10.76.0.0/14", "10.0.0.0/8", "10.77.0.0/31", "fd00::/64"]);
        let ranges = word(&[
            "",
            "10.77.0.10,10.77.0.20",
            "10.77.0.10, 10.77.0.255",
            "10.77.0.255,10.77.0.255",
            "10.77.1.0,10.79.255.255",
            "10.77.1.0,10.78.0.255",
            "10.77.0.2,10.77.255.255",
            "fd00::10,fd00::20",
            "10.77.0.0,10.77.0.0",
        ]);
        let gateways = word(&["", "10.77.0.254", "10.77.0.1", "fd00::fe"]);
        let servers = prop::collection::vec(word(&["10.77.0.3", "ntp.example.com", "fd00::2"]), 0..12);
        let modes = word(&["", "Managed", "Unmanaged", "Disabled"]);
        (modes, addresses, blocks, ranges, gateways, servers).prop_map(|(mode, ip, cidr, range, gateway, servers)| {
            json!({"provisioningNetwork": mode, "provisioningIP": ip, "provisioningNetworkCIDR": cidr,
                "provisioningDHCPRange": range, "provisioningNetworkGateway": gateway, "additionalNTPServers": servers})
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]
        /// An object that is accepted without a warning can be served by every part; otherwise there is a warning.
        #[test]
        fn what_is_accepted_without_a_warning_can_be_served(spec in spec()) {
            let mut object = object(&spec);
            let admission = admit(&PROVISIONING, &mut object, None);
            if !admission.causes.is_empty() {
                return Ok(());
            }
            let object = admit::decode::<Provisioning>(&object).unwrap();
            let is_told = admission.warnings.iter().any(|line| line.contains("no machine is served"));
            // No object knows of the networks behind relays.
            let settings = Settings { relayed: Vec::new(), ..settings(Some("s0")) };
            let wanted = wanted(&object, &settings);
            prop_assert_eq!(wanted.is_err(), is_told, "{:?} {:?}", wanted.err(), admission.warnings);
        }
    }

    #[test]
    fn what_cannot_be_served_names_its_field_or_flag() {
        let of = |spec: Value| {
            let object: Provisioning = serde_json::from_value(object(&spec)).unwrap();
            wanted(&object, &settings(None)).unwrap_err().to_string()
        };
        let base = |cidr: &str, range: &str| {
            json!({"provisioningIP": "10.77.0.1", "provisioningNetworkCIDR": cidr, "provisioningDHCPRange": range,
                "provisioningInterface": "s0"})
        };
        // An earlier program stored this.
        let large = of(base("10.76.0.0/14", "10.77.1.0,10.79.255.255"));
        assert!(large.starts_with("spec.provisioningDHCPRange: ") && large.contains("196352"), "{large}");
        let overlapping = of(base("10.0.0.0/8", "10.77.0.10,10.77.0.20"));
        assert!(overlapping.contains("--relayed") && overlapping.contains("overlap"), "{overlapping}");
        let unnamed = of(json!({"provisioningNetwork": "Disabled", "provisioningIP": "10.77.0.1"}));
        assert!(unnamed.contains("provisioningInterface") && unnamed.contains("--interface"), "{unnamed}");
        let v6 = of(json!({"provisioningNetwork": "Disabled", "provisioningIP": "fd00::1"}));
        assert!(v6.starts_with("spec.provisioningIP ") && v6.contains("IPv4"), "{v6}");
    }

    #[test]
    fn an_interface_that_is_not_there_is_no_end_unless_a_flag_names_it() {
        let spec =
            json!({"provisioningNetwork": "Disabled", "provisioningIP": "127.0.0.1", "provisioningInterface": "none0"});
        let object: Provisioning = serde_json::from_value(object(&spec)).unwrap();
        let stored = served(&object, &settings(None)).unwrap_err();
        assert!(
            matches!(stored.downcast_ref(), Some(NetworkProblem::Unservable(why)) if why.contains("none0")),
            "{stored}"
        );
        let flag = served(&object, &settings(Some("none1"))).unwrap_err();
        assert!(flag.downcast_ref::<NetworkProblem>().is_none() && flag.to_string().contains("--interface"), "{flag}");
        assert_eq!(served(&object, &settings(Some("lo"))).unwrap().interface, "lo");
        let elsewhere = json!({"provisioningNetwork": "Disabled", "provisioningIP": "192.0.2.77"});
        let elsewhere: Provisioning = serde_json::from_value(super::tests::object(&elsewhere)).unwrap();
        let missing = served(&elsewhere, &settings(Some("lo"))).unwrap_err().to_string();
        assert!(missing.contains("does not have the address 192.0.2.77"), "{missing}");
    }

    #[test]
    fn a_file_that_differs_is_seen() {
        let spec = json!({"provisioningNetwork": "Disabled", "prometheusExporter": {"enabled": true}});
        let file = object(&spec);
        let mut stored = object(&spec);
        drop(admit(&PROVISIONING, &mut stored, None));
        let stored: Provisioning = admit::decode(&stored).unwrap();
        assert!(!is_another(file, &stored), "defaults are no difference");
        let other = object(&json!({"provisioningNetwork": "Managed"}));
        assert!(is_another(other, &stored));
    }
}
