//! The network of a host's ramdisk, as its owner writes it into the Secret that
//! `spec.preprovisioningNetworkDataName` names, turned into a [`NetworkPlan`]. Pure.
//!
//! | key of the Secret | format |
//! |---|---|
//! | `networkData` (or `value`) | `network_data.json` of OpenStack, as metal3 renders it; as JSON or YAML |
//! | `nmstate` | a desired state of nmstate, as upstream's image customization takes it |
//!
//! What is not understood is refused with its path, whatever it is: a field that were passed over might be the one
//! that the host is not reached without. Name servers are understood and not needed, since the agent knows addresses
//! only. NICs are named by hardware address alone. DHCPv6 is refused: the agent does not speak it.

mod error;
mod nmstate;
mod node;
mod openstack;

use std::net::IpAddr;

use firesteel_resources::{Secret, secret::NETWORK_DATA_KEYS};
use firesteel_wire::{NetworkPlan, network::LinkKind};
use serde_json::Value;

pub use error::{FieldProblem, NetworkDataError};
use node::NetworkDataNode;

/// The most resolvers: more than the C library of an OS asks (`MAXNS` is 3), and few enough for a command line.
const RESOLVERS_MAX: usize = 8;
/// The most search domains: as many as C libraries look through that have a bound (`MAXDNSRCH`).
const SEARCH_MAX: usize = 6;
const NMSTATE_KEY: &str = "nmstate";
/// The most bytes of the text. A plan of the most links has less than half of it.
pub const TEXT_BYTES_MAX: usize = 64 << 10;
/// The most bytes of the plan as JSON: it travels in the seed, beside a token and two addresses.
const PLAN_BYTES_MAX: usize = 32 << 10;
/// The most bytes of what a host's status says of it.
const REASON_BYTES_MAX: usize = 512;

/// Reads the network data of a Secret.
///
/// # Errors
/// What is wrong, with the key of the Secret and the path of the field.
pub fn read(secret: &Secret) -> Result<NetworkPlan, NetworkDataError> {
    let openstack = NETWORK_DATA_KEYS.iter().find_map(|key| Some((*key, secret.get(key)?)));
    let nmstate = secret.get(NMSTATE_KEY).map(|bytes| (NMSTATE_KEY, bytes));
    let of_key = |key: &'static str| move |error| NetworkDataError::Key { key, error: Box::new(error) };
    match (openstack, nmstate) {
        (Some((key, _)), Some(_)) => Err(NetworkDataError::TwoFormats { key }),
        (Some((key, bytes)), None) => parse(bytes, NetworkFormat::OpenStack).map_err(of_key(key)),
        (None, Some((key, bytes))) => parse(bytes, NetworkFormat::Nmstate).map_err(of_key(key)),
        (None, None) => Err(NetworkDataError::NoKey { key: NETWORK_DATA_KEYS[0] }),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkFormat {
    OpenStack,
    Nmstate,
}

/// Reads one text.
///
/// # Errors
/// What is wrong, with the path of the field.
pub fn parse(bytes: &[u8], format: NetworkFormat) -> Result<NetworkPlan, NetworkDataError> {
    if bytes.len() > TEXT_BYTES_MAX {
        return Err(NetworkDataError::TooLong { bytes_max: TEXT_BYTES_MAX });
    }
    let value: Value =
        firesteel_kube::yaml::read(bytes).map_err(|error| NetworkDataError::NotYaml(error.to_string()))?;
    let root = NetworkDataNode::root(&value);
    let plan = sorted(match format {
        NetworkFormat::OpenStack => openstack::plan(&root)?,
        NetworkFormat::Nmstate => nmstate::plan(&root)?,
    });
    plan.check().map_err(NetworkDataError::Plan)?;
    let bytes = serde_json::to_vec(&plan).map_or(usize::MAX, |json| json.len());
    if bytes > PLAN_BYTES_MAX {
        return Err(NetworkDataError::PlanTooLong { bytes_max: PLAN_BYTES_MAX });
    }
    Ok(plan)
}

/// NICs before bonds, bonds before VLANs.
fn sorted(mut plan: NetworkPlan) -> NetworkPlan {
    plan.links.sort_by_key(|link| match link.kind {
        LinkKind::Nic { .. } => 0,
        LinkKind::Bond { .. } => 1,
        LinkKind::Vlan { .. } => 2,
    });
    plan
}

/// The network of an OS, `spec.networkData`, as its values: `network_data.json`, as JSON or YAML.
pub(crate) fn document(bytes: &[u8]) -> Result<Value, NetworkDataError> {
    if bytes.len() > TEXT_BYTES_MAX {
        return Err(NetworkDataError::TooLong { bytes_max: TEXT_BYTES_MAX });
    }
    let value: Value = firesteel_kube::yaml::read(bytes).map_err(|error| {
        NetworkDataError::NotYaml(firesteel_wire::text::clean(&error.to_string(), REASON_BYTES_MAX))
    })?;
    if value.is_object() { Ok(value) } else { Err(NetworkDataError::NotAnObject) }
}

/// The network of an OS as a plan. The appliance is not reached by it, so it needs no IPv4 address.
///
/// # Errors
/// What is not understood, with its path.
pub(crate) fn plan_of_os(document: &Value) -> Result<NetworkPlan, NetworkDataError> {
    let plan = sorted(openstack::plan(&NetworkDataNode::root(document))?);
    plan.check_links().map_err(NetworkDataError::Plan)?;
    Ok(plan)
}

/// The name servers of a document, wherever they stand in it.
pub(crate) fn resolvers(document: &Value) -> Vec<IpAddr> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let of_services = |value: &Value| {
        let services = list(&value["services"]).into_iter().filter(|service| service["type"] == "dns");
        services.map(|service| service["address"].clone()).collect::<Vec<_>>()
    };
    let mut all = of_services(document);
    for network in list(&document["networks"]) {
        all.extend(of_services(&network));
        all.extend(list(&network["dns_nameservers"]));
        all.extend(list(&network["routes"]).iter().flat_map(of_services));
    }
    let mut found: Vec<IpAddr> = Vec::new();
    for ip in all.iter().filter_map(|value| value.as_str()?.parse().ok()) {
        if !found.contains(&ip) && found.len() < RESOLVERS_MAX {
            found.push(ip);
        }
    }
    found
}

/// The domains in which a document has names looked for (`dns_search` of its networks), as far as they are names.
pub(crate) fn search(document: &Value) -> Vec<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut found: Vec<String> = Vec::new();
    for value in list(&document["networks"]).iter().flat_map(|network| list(&network["dns_search"])) {
        let name = value.as_str().filter(|name| node::is_domain(name));
        if let Some(name) = name
            && !found.iter().any(|known| known.eq_ignore_ascii_case(name))
            && found.len() < SEARCH_MAX
        {
            found.push(name.to_owned());
        }
    }
    found
}

/// The document as it goes onto a config drive.
pub(crate) fn with_vlan_macs(document: &Value) -> Value {
    openstack::with_vlan_macs(document)
}

/// Reads any bytes as either format, for fuzzing; what is read is a plan that can be carried out, within its bounds,
/// and the same after it has travelled. As the network of an OS it has words for every reader.
pub fn check(data: &[u8]) {
    if let Ok(document) = document(data) {
        crate::check_network(&document);
    }
    for format in [NetworkFormat::OpenStack, NetworkFormat::Nmstate] {
        match parse(data, format) {
            Ok(plan) => {
                assert_eq!(plan.check(), Ok(()));
                let json = serde_json::to_vec(&plan).expect("a plan is JSON");
                assert!(json.len() <= PLAN_BYTES_MAX);
                assert_eq!(serde_json::from_slice::<NetworkPlan>(&json).expect("its own JSON"), plan);
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

#[cfg(test)]
mod tests;
