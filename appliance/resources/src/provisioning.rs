//! `Provisioning` (metal3.io/v1alpha1): everything about the provisioning network, as upstream
//! has it. [`Provisioning::causes`] runs upstream's checks in upstream's order, because some
//! failures stop the later ones; [`Provisioning::network`] gives the checked values. Its bounds are ours
//! ([`POOL_ADDRESSES_MAX`], [`SERVERS_MAX`]), and [`unacted()`] says what is accepted without effect.

mod os_image;
mod shape;
mod unsupported_fields;

use std::net::{IpAddr, Ipv4Addr};

use firesteel_facts::{POOL_ADDRESSES_MAX, SERVERS_MAX, is_network_end, parse_network, shown_url};
use firesteel_kube_types::{Cause, ObjectMeta};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::admit;
use crate::condition::Condition;
use crate::kind::{AGE, Kind, KindScope, METAL3, RuleVerdict, V1ALPHA1, column};
use crate::zero::is_zero;

pub use os_image::{OsImageSource, OsImageUrlFault, digest_in_url};
use shape::SHAPE;
pub use unsupported_fields::{PAUSED, unacted, unserved};

/// The only legal name.
pub const SINGLETON: &str = "provisioning-configuration";

pub const KIND: Kind = Kind {
    scope: KindScope::Cluster,
    has_status: true,
    columns: &[
        column("Network", ".spec.provisioningNetwork", "Who runs DHCP", 0),
        column("Interface", ".spec.provisioningInterface", "Provisioning interface", 0),
        column("CIDR", ".spec.provisioningNetworkCIDR", "Provisioning network", 0),
        AGE,
    ],
    about: "The network on which hosts are installed.",
    rules: |new, old| {
        admit::typed(new, old, |new: &Provisioning, old| RuleVerdict { causes: new.causes(old), unacted: unacted(new) })
    },
    ..Kind::new(METAL3, V1ALPHA1, "Provisioning", "provisionings", "provisioning", &SHAPE)
};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Provisioning {
    pub api_version: String,
    pub kind: String,
    pub metadata: ObjectMeta,
    pub spec: ProvisioningSpec,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<ProvisioningStatus>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProvisioningSpec {
    /// Is empty, `Managed`, `Unmanaged` or `Disabled`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub provisioning_network: String,
    #[serde(rename = "provisioningDHCPExternal", skip_serializing_if = "is_zero")]
    pub provisioning_dhcp_external: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub provisioning_interface: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub provisioning_mac_addresses: Vec<String>,
    #[serde(rename = "provisioningIP", skip_serializing_if = "String::is_empty")]
    pub provisioning_ip: String,
    #[serde(rename = "provisioningNetworkCIDR", skip_serializing_if = "String::is_empty")]
    pub provisioning_network_cidr: String,
    #[serde(rename = "provisioningDHCPRange", skip_serializing_if = "String::is_empty")]
    pub provisioning_dhcp_range: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub provisioning_network_gateway: String,
    #[serde(rename = "provisioningDNS", skip_serializing_if = "is_zero")]
    pub provisioning_dns: bool,
    #[serde(rename = "additionalNTPServers", skip_serializing_if = "Vec::is_empty")]
    pub additional_ntp_servers: Vec<String>,
    #[serde(rename = "provisioningOSDownloadURL", skip_serializing_if = "String::is_empty")]
    pub provisioning_os_download_url: String,
    #[serde(rename = "preProvisioningOSDownloadURLs", skip_serializing_if = "Option::is_none")]
    pub pre_provisioning_os_download_urls: Option<Value>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub boot_iso_source: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub watch_all_namespaces: bool,
    #[serde(skip_serializing_if = "is_zero")]
    pub virtual_media_via_external_network: bool,
    #[serde(rename = "disableVirtualMediaTLS", skip_serializing_if = "is_zero")]
    pub disable_virtual_media_tls: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prometheus_exporter: Option<Value>,
    #[serde(rename = "externalIPs", skip_serializing_if = "Vec::is_empty")]
    pub external_ips: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsupported_config_overrides: Option<Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProvisioningStatus {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    #[serde(skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub ready_replicas: i32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub generations: Vec<Value>,
}

/// Who runs DHCP on the provisioning network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NetworkMode {
    /// We do.
    #[default]
    Managed,
    /// Somebody else's server points to us.
    Unmanaged,
    /// There is no provisioning network.
    Disabled,
}

/// The network as checked values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvisioningNetwork {
    pub mode: NetworkMode,
    pub interface: String,
    pub mac_addresses: Vec<String>,
    /// Is absent only where the mode is Disabled.
    pub address: Option<IpAddr>,
    pub cidr: Option<IpNet>,
    /// First and last address of the pool; Managed only.
    pub range: Option<(IpAddr, IpAddr)>,
    pub gateway: Option<IpAddr>,
    /// Hand out our own address as DNS server.
    pub dns: bool,
    /// IPv4 addresses; DHCP has no option for names.
    pub ntp_servers: Vec<Ipv4Addr>,
}

impl Provisioning {
    /// What is wrong with a new object, or with a change where `old` is given.
    #[must_use]
    pub fn causes(&self, old: Option<&Self>) -> Vec<Cause> {
        let mut causes = Vec::new();
        if old.is_none() && self.metadata.name != SINGLETON {
            let why = format!("there is one object of this kind and its name is {SINGLETON:?}");
            causes.push(Cause::invalid("metadata.name", &self.metadata.name, &why));
        }
        // What an earlier program took can be labelled, and its status can say what is wrong with it.
        if old.is_none_or(|old| old.spec != self.spec)
            && let Err(more) = self.spec.network()
        {
            causes.extend(more);
        }
        causes
    }

    /// # Errors
    /// Everything that is wrong with the spec.
    pub fn network(&self) -> Result<ProvisioningNetwork, Vec<Cause>> {
        self.spec.network()
    }
}

impl ProvisioningSpec {
    /// # Errors
    /// The word is none of the three.
    pub fn mode(&self) -> Result<NetworkMode, Cause> {
        match self.provisioning_network.as_str() {
            "" if self.provisioning_dhcp_external => Ok(NetworkMode::Unmanaged),
            "" | "Managed" => Ok(NetworkMode::Managed),
            "Unmanaged" => Ok(NetworkMode::Unmanaged),
            "Disabled" => Ok(NetworkMode::Disabled),
            other => {
                let words = ["Managed", "Unmanaged", "Disabled"];
                Err(Cause::not_supported("spec.provisioningNetwork", other, &words))
            }
        }
    }

    fn network(&self) -> Result<ProvisioningNetwork, Vec<Cause>> {
        let mode = self.mode().map_err(|cause| vec![cause])?;
        let mut causes = Vec::new();
        let mut network = ProvisioningNetwork {
            mode,
            interface: self.provisioning_interface.clone(),
            mac_addresses: self.provisioning_mac_addresses.clone(),
            address: None,
            cidr: None,
            range: None,
            gateway: None,
            dns: self.provisioning_dns,
            ntp_servers: self.ntp_addresses().collect(),
        };
        self.download_url(&mut causes);
        self.addresses(&mut network, &mut causes);
        self.time_servers(mode, &mut causes);
        if causes.is_empty() { Ok(network) } else { Err(causes) }
    }

    fn download_url(&self, causes: &mut Vec<Cause>) {
        let (path, url) = ("spec.provisioningOSDownloadURL", self.provisioning_os_download_url.as_str());
        if url.is_empty() {
            return;
        }
        for fault in OsImageSource::parse(url).err().unwrap_or_default() {
            causes.push(Cause::invalid(path, &shown_url(url), &fault.to_string()));
        }
    }

    fn addresses(&self, network: &mut ProvisioningNetwork, causes: &mut Vec<Cause>) {
        let (ip, cidr) = (self.provisioning_ip.as_str(), self.provisioning_network_cidr.as_str());
        let gateway = self.provisioning_network_gateway.as_str();
        if network.mode != NetworkMode::Managed && !gateway.is_empty() {
            causes.push(Cause::forbidden("spec.provisioningNetworkGateway", "only in the mode Managed"));
        }
        if network.mode == NetworkMode::Disabled && ip.is_empty() && cidr.is_empty() {
            return;
        }
        let Ok(address) = ip.parse::<IpAddr>() else {
            causes.push(Cause::invalid("spec.provisioningIP", ip, "must be an IP address"));
            return;
        };
        network.address = Some(address);
        let parsed = parse_network(cidr);
        network.cidr = parsed;
        if network.mode == NetworkMode::Disabled {
            return;
        }
        let Some(block) = parsed else {
            causes.push(Cause::invalid("spec.provisioningNetworkCIDR", cidr, "must be a block such as 192.0.2.0/24"));
            return;
        };
        if network.mode == NetworkMode::Managed && address.is_ipv6() && block.prefix_len() < 64 {
            causes.push(Cause::invalid(
                "spec.provisioningNetworkCIDR",
                cidr,
                "an IPv6 prefix must be at least /64 long",
            ));
        }
        if !block.contains(&address) {
            let why = format!("must lie in spec.provisioningNetworkCIDR {cidr}");
            causes.push(Cause::invalid("spec.provisioningIP", ip, &why));
        }
        if network.mode != NetworkMode::Managed {
            return;
        }
        let range = self.range(address, block, causes);
        network.range = range;
        if !gateway.is_empty() {
            network.gateway = self.gateway(address, block, range, causes);
        }
    }

    fn range(&self, address: IpAddr, block: IpNet, causes: &mut Vec<Cause>) -> Option<(IpAddr, IpAddr)> {
        let (path, text) = ("spec.provisioningDHCPRange", self.provisioning_dhcp_range.as_str());
        if text.is_empty() {
            causes.push(Cause::required(path, "first and last address of the pool, such as 192.0.2.10,192.0.2.100"));
            return None;
        }
        let parsed = text.split_once(',').and_then(|(start, end)| {
            let end = end.strip_prefix(' ').unwrap_or(end);
            Some((start.parse::<IpAddr>().ok()?, end.parse::<IpAddr>().ok()?))
        });
        let Some((start, end)) = parsed else {
            causes.push(Cause::invalid(path, text, "must be two addresses with a comma between them"));
            return None;
        };
        if !block.contains(&start) || !block.contains(&end) {
            causes.push(Cause::invalid(path, text, "must lie in spec.provisioningNetworkCIDR"));
            return None;
        }
        if start > end {
            causes.push(Cause::invalid(path, text, "must not end before it starts"));
            return None;
        }
        if (start..=end).contains(&address) {
            causes.push(Cause::invalid(path, text, "must not hold spec.provisioningIP"));
        }
        if let Some(why) = pool_fault(block, start, end) {
            causes.push(Cause::invalid(path, text, &why));
        }
        Some((start, end))
    }

    /// What DHCP can hand out as time servers: the IPv4 addresses among what the object names.
    pub fn ntp_addresses(&self) -> impl Iterator<Item = Ipv4Addr> {
        self.additional_ntp_servers.iter().filter_map(|server| server.parse().ok())
    }

    /// The time servers that the object names by DNS names.
    #[must_use]
    pub fn ntp_names(&self) -> Vec<String> {
        let is_name = |server: &&String| server.parse::<IpAddr>().is_err() && !server.is_empty();
        self.additional_ntp_servers.iter().filter(is_name).cloned().collect()
    }

    fn time_servers(&self, mode: NetworkMode, causes: &mut Vec<Cause>) {
        let count = self.ntp_addresses().count();
        if mode == NetworkMode::Managed && count > SERVERS_MAX {
            causes.push(Cause::too_many("spec.additionalNTPServers", count, SERVERS_MAX));
        }
    }

    fn gateway(
        &self,
        address: IpAddr,
        block: IpNet,
        range: Option<(IpAddr, IpAddr)>,
        causes: &mut Vec<Cause>,
    ) -> Option<IpAddr> {
        let (path, text) = ("spec.provisioningNetworkGateway", self.provisioning_network_gateway.as_str());
        let Ok(gateway) = text.parse::<IpAddr>() else {
            causes.push(Cause::invalid(path, text, "must be an IP address"));
            return None;
        };
        let has_ends = gateway.is_ipv4() && block.prefix_len() < 31;
        let why = if !block.contains(&gateway) {
            "must lie in spec.provisioningNetworkCIDR"
        } else if gateway == address {
            "must differ from spec.provisioningIP"
        } else if has_ends && (gateway == block.network() || gateway == block.broadcast()) {
            "must be neither the network's nor the broadcast address"
        } else if range.is_some_and(|(start, end)| (start..=end).contains(&gateway)) {
            "must lie outside spec.provisioningDHCPRange"
        } else {
            return Some(gateway);
        };
        causes.push(Cause::invalid(path, text, why));
        None
    }
}

/// Why a pool of IPv4 cannot be leased from. Upstream takes such ranges; its DHCP server takes them otherwise.
fn pool_fault(block: IpNet, start: IpAddr, end: IpAddr) -> Option<String> {
    let (IpAddr::V4(first), IpAddr::V4(last)) = (start, end) else { return None };
    let (first, last) = (u32::from(first), u32::from(last));
    let count = u64::from(last.saturating_sub(first)) + 1;
    if count > u64::from(POOL_ADDRESSES_MAX) {
        return Some(format!(
            "holds {count} addresses, and at most {POOL_ADDRESSES_MAX} are leased: give a smaller range"
        ));
    }
    // Both ends at once are no pool of one or two addresses, unless the block is as small as that.
    let hosts = (first..=last).take(3).filter(|address| !is_network_end(&block, IpAddr::V4((*address).into()))).count();
    (hosts == 0)
        .then(|| "holds no address that a host can have: only the network's own or its broadcast address".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// S0.3: a person corrects all of it at once.
    #[test]
    fn all_that_is_wrong_with_a_network_is_said_at_once() {
        let fields = |spec: Value| -> Vec<String> {
            let object: Provisioning =
                serde_json::from_value(json!({"metadata": {"name": "other"}, "spec": spec})).unwrap_or_default();
            object.causes(None).into_iter().map(|cause| cause.field).collect()
        };
        let managed = json!({"provisioningOSDownloadURL": "http://a/os.raw", "provisioningIP": "192.0.2.1",
            "provisioningNetworkCIDR": "10.77.0.0/24", "provisioningDHCPRange": "10.77.0.20,10.77.0.10",
            "provisioningNetworkGateway": "10.77.0.255", "additionalNTPServers": vec!["192.0.2.1"; 9]});
        let image = "spec.provisioningOSDownloadURL";
        let expected = [
            "metadata.name",
            image,
            image,
            "spec.provisioningIP",
            "spec.provisioningDHCPRange",
            "spec.provisioningNetworkGateway",
            "spec.additionalNTPServers",
        ];
        assert_eq!(fields(managed), expected);
        // An address that cannot be read makes what is compared with it meaningless, and nothing else.
        let unmanaged = json!({"provisioningNetwork": "Unmanaged", "provisioningNetworkGateway": "10.77.0.2",
            "provisioningIP": "none", "provisioningOSDownloadURL": "ftp://a/os.qcow2.gz"});
        assert_eq!(
            fields(unmanaged),
            ["metadata.name", image, "spec.provisioningNetworkGateway", "spec.provisioningIP"]
        );
    }
}
