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

mod nmstate;
mod node;
mod openstack;

use firesteel_resources::Secret;
use firesteel_wire::NetworkPlan;
use serde_json::Value;

use node::Node;

/// Keys of a Secret with OpenStack's format: upstream's, and the older name that some tools still write.
const OPENSTACK_KEYS: [&str; 2] = ["networkData", "value"];
const NMSTATE_KEY: &str = "nmstate";
/// Of the text. A plan of the most links has less than half of it.
pub const TEXT_BYTES_MAX: usize = 64 << 10;
/// Of the plan as JSON: it travels in the seed, beside a token and two addresses.
const PLAN_BYTES_MAX: usize = 32 << 10;
/// Of what a host's status says of it.
const REASON_BYTES_MAX: usize = 512;

/// Reads the network data of a Secret.
///
/// # Errors
/// What is wrong, with the key of the Secret and the path of the field.
pub(crate) fn read(secret: &Secret) -> Result<NetworkPlan, String> {
    let openstack = OPENSTACK_KEYS.iter().find_map(|key| Some((*key, secret.get(key)?)));
    let nmstate = secret.get(NMSTATE_KEY).map(|bytes| (NMSTATE_KEY, bytes));
    let plan = match (openstack, nmstate) {
        (Some((key, _)), Some(_)) => Err(format!("it has both {key} and {NMSTATE_KEY}: keep one of them")),
        (Some((key, bytes)), None) => parse(bytes, Format::OpenStack).map_err(|error| format!("{key}: {error}")),
        (None, Some((key, bytes))) => parse(bytes, Format::Nmstate).map_err(|error| format!("{key}: {error}")),
        (None, None) => Err(format!("it has neither the key {} nor {NMSTATE_KEY}", OPENSTACK_KEYS[0])),
    };
    plan.map_err(|error| firesteel_wire::text::clean(&error, REASON_BYTES_MAX))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    OpenStack,
    Nmstate,
}

/// Reads one text.
///
/// # Errors
/// What is wrong, with the path of the field.
pub fn parse(bytes: &[u8], format: Format) -> Result<NetworkPlan, String> {
    if bytes.len() > TEXT_BYTES_MAX {
        return Err(format!("it has more than {TEXT_BYTES_MAX} bytes"));
    }
    let value: Value = firesteel_kube::yaml::read(bytes).map_err(|error| error.to_string())?;
    let root = Node::root(&value);
    let mut plan = match format {
        Format::OpenStack => openstack::plan(&root)?,
        Format::Nmstate => nmstate::plan(&root)?,
    };
    plan.links.sort_by_key(|link| match link.kind {
        firesteel_wire::network::LinkKind::Nic { .. } => 0,
        firesteel_wire::network::LinkKind::Bond { .. } => 1,
        firesteel_wire::network::LinkKind::Vlan { .. } => 2,
    });
    plan.check()?;
    let bytes = serde_json::to_vec(&plan).map_or(usize::MAX, |json| json.len());
    if bytes > PLAN_BYTES_MAX {
        return Err(format!("it stands for more than {PLAN_BYTES_MAX} bytes"));
    }
    Ok(plan)
}

/// For fuzzing: reads any bytes as either format; what is read is a plan that can be carried out, within its bounds,
/// and the same after it has travelled.
pub fn check(data: &[u8]) {
    for format in [Format::OpenStack, Format::Nmstate] {
        match parse(data, format) {
            Ok(plan) => {
                assert_eq!(plan.check(), Ok(()));
                let json = serde_json::to_vec(&plan).expect("a plan is JSON");
                assert!(json.len() <= PLAN_BYTES_MAX);
                assert_eq!(serde_json::from_slice::<NetworkPlan>(&json).expect("its own JSON"), plan);
            }
            Err(error) => assert!(!error.is_empty()),
        }
    }
}

#[cfg(test)]
mod tests;
