//! What of a Provisioning object is accepted, because upstream takes it, and has no effect here: fields that nothing
//! acts on, and networks that upstream's rules allow and this appliance cannot serve.

use std::net::{IpAddr, Ipv6Addr};

use firesteel_facts::is_network_end;

use super::{NetworkMode, Provisioning, ProvisioningNetwork, ProvisioningSpec};

/// Upstream's request to leave everything as it is; the network's controller acts on it.
pub const PAUSED: &str = "provisioning.metal3.io/paused";

/// One line for everything that is set and has no effect, with the field's path first. The object has been admitted.
#[must_use]
pub fn unacted(object: &Provisioning) -> Vec<String> {
    let network = object.network().ok();
    let unserved = network.as_ref().and_then(unserved);
    let ends = network.as_ref().and_then(ends_of_the_range);
    unserved.into_iter().chain(ends).chain(unacted_fields(&object.spec)).collect()
}

/// Why no machine can be served on a network that upstream's rules allow, with the field's path first.
#[must_use]
pub fn unserved(network: &ProvisioningNetwork) -> Option<String> {
    let line = |field: &str, why: &str| Some(format!("{field} is accepted but not acted on: {why}"));
    match (network.address, network.cidr) {
        (Some(IpAddr::V6(_)), _) => line(
            "spec.provisioningIP",
            "only IPv4 is served yet, and with an IPv6 address no machine is served; give an IPv4 address",
        ),
        // Hosts reach the appliance at the API's address.
        (None, _) => None,
        (Some(address), Some(block)) if network.mode == NetworkMode::Managed && is_network_end(&block, address) => {
            line(
                "spec.provisioningIP",
                "it is the network's own or its broadcast address, which no machine can have, and no machine is served; \
             give an address between them",
            )
        }
        (Some(IpAddr::V4(_)), Some(_) | None) => None,
    }
}

/// The range holds addresses that no host can have: they are left out.
fn ends_of_the_range(network: &ProvisioningNetwork) -> Option<String> {
    let (block, (first, last)) = (network.cidr?, network.range?);
    (is_network_end(&block, first) || is_network_end(&block, last)).then(|| {
        "spec.provisioningDHCPRange is accepted but not acted on in full: the network's own and its broadcast address \
         are never leased"
            .to_owned()
    })
}

fn unacted_fields(spec: &ProvisioningSpec) -> Vec<String> {
    let rows = addressing_rows(spec).into_iter().chain(other_rows(spec)).filter(|(_, is_set, _)| *is_set);
    rows.map(|(field, _, why)| format!("spec.{field} is accepted but not acted on: {why}")).collect()
}

/// A field of the spec, whether it is set without effect, and why it has none.
type UnactedField = (&'static str, bool, &'static str);

/// Fields about interfaces, addresses and what DHCP hands out.
fn addressing_rows(spec: &ProvisioningSpec) -> [UnactedField; 5] {
    let is_managed = spec.mode().unwrap_or_default() == NetworkMode::Managed;
    let has_v6 = spec.additional_ntp_servers.iter().any(|server| server.parse::<Ipv6Addr>().is_ok());
    [
        (
            "additionalNTPServers",
            is_managed && has_v6,
            "DHCP hands out IPv4 addresses alone, and IPv6 addresses are left out; give names or IPv4 addresses",
        ),
        (
            "additionalNTPServers",
            !is_managed && !spec.additional_ntp_servers.is_empty(),
            "time servers are handed out by DHCP, which is not ours in this mode; have its server name them",
        ),
        (
            "provisioningDHCPRange",
            !is_managed && !spec.provisioning_dhcp_range.is_empty(),
            "addresses are leased in the mode Managed alone",
        ),
        (
            "provisioningDNS",
            !is_managed && spec.provisioning_dns,
            "a DNS server is handed out by DHCP, which is not this appliance's in this mode",
        ),
        (
            "provisioningDHCPExternal",
            spec.provisioning_dhcp_external && !spec.provisioning_network.is_empty(),
            "spec.provisioningNetwork is set, and says who runs DHCP",
        ),
    ]
}

/// Fields about images and services.
fn other_rows(spec: &ProvisioningSpec) -> [UnactedField; 7] {
    [
        (
            "preProvisioningOSDownloadURLs",
            spec.pre_provisioning_os_download_urls.is_some(),
            "the appliance brings its own ramdisk",
        ),
        ("bootIsoSource", !spec.boot_iso_source.is_empty(), "hosts boot by the network"),
        ("watchAllNamespaces", spec.watch_all_namespaces, "hosts of all namespaces are always watched"),
        ("virtualMediaViaExternalNetwork", spec.virtual_media_via_external_network, "no virtual media is served"),
        ("disableVirtualMediaTLS", spec.disable_virtual_media_tls, "no virtual media is served"),
        ("externalIPs", !spec.external_ips.is_empty(), "there is no proxy on external networks"),
        (
            "unsupportedConfigOverrides",
            spec.unsupported_config_overrides.is_some(),
            "there is no agent image to override",
        ),
    ]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]
    use serde_json::{Value, json};

    use crate::{Admission, admit, kinds};
    use firesteel_kube_types::summary;

    fn judge(more: Value) -> Admission {
        let mut spec = json!({"provisioningIP": "10.77.0.1", "provisioningNetworkCIDR": "10.77.0.0/24",
            "provisioningDHCPRange": "10.77.0.10,10.77.0.20"});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let mut object = json!({"metadata": {"name": "provisioning-configuration"}, "spec": spec});
        admit(&kinds::PROVISIONING, &mut object, None)
    }

    /// It ended the appliance at each start.
    #[test]
    fn what_is_more_than_is_leased_is_refused_with_its_field() {
        let wide =
            json!({"provisioningNetworkCIDR": "10.76.0.0/14", "provisioningDHCPRange": "10.77.1.0,10.79.255.255"});
        let causes = judge(wide).causes;
        assert_eq!(causes[0].field, "spec.provisioningDHCPRange");
        assert!(causes.len() == 1 && causes[0].message.contains("at most 65536"), "{}", summary(&causes));
        let largest =
            json!({"provisioningNetworkCIDR": "10.76.0.0/14", "provisioningDHCPRange": "10.78.0.0,10.78.255.255"});
        assert_eq!(judge(largest), Admission::default(), "as many as are leased");
        let broadcast = judge(json!({"provisioningDHCPRange": "10.77.0.255,10.77.0.255"})).causes;
        assert!(broadcast[0].message.contains("no address that a host can have"), "{}", summary(&broadcast));
        let nine: Vec<String> = (1..=9).map(|last| format!("192.0.2.{last}")).collect();
        assert_eq!(judge(json!({"additionalNTPServers": nine})).causes[0].field, "spec.additionalNTPServers");
        assert_eq!(judge(json!({"additionalNTPServers": nine[1..]})), Admission::default());
    }

    #[test]
    fn what_upstream_takes_and_nothing_acts_on_is_accepted_with_a_warning() {
        let v6_servers = json!({"additionalNTPServers": ["192.0.2.1", "ntp.example.com", "fd00::2"]});
        let v6 = json!({"provisioningIP": "fd00::1", "provisioningNetworkCIDR": "fd00::/64",
            "provisioningDHCPRange": "fd00::10,fd00::20"});
        let nowhere = json!({"provisioningNetwork": "Disabled", "provisioningIP": "", "provisioningNetworkCIDR": "",
            "provisioningDHCPRange": ""});
        for (field, more) in [
            ("spec.additionalNTPServers ", v6_servers),
            ("spec.provisioningIP ", v6),
            ("spec.provisioningDHCPRange ", json!({"provisioningNetwork": "Unmanaged"})),
            ("spec.provisioningDHCPRange ", json!({"provisioningDHCPRange": "10.77.0.200,10.77.0.255"})),
            ("spec.provisioningIP ", json!({"provisioningIP": "10.77.0.255"})),
        ] {
            let Admission { causes, warnings, .. } = judge(more);
            assert!(causes.is_empty(), "{field}: {}", summary(&causes));
            assert!(warnings.len() == 1 && warnings[0].starts_with(field), "{field}: {warnings:?}");
        }
        for acted_on in [
            json!({}),
            nowhere,
            json!({"additionalNTPServers": ["ntp.example.com"]}),
            json!({"provisioningMacAddresses": ["52:54:00:12:34:56"]}),
            json!({"prometheusExporter": {"enabled": true, "disableDefaultPrometheusRules": true}}),
        ] {
            assert_eq!(judge(acted_on), Admission::default());
        }
    }
}
