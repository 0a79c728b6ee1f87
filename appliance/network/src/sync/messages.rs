//! The texts of what a network waits for and what is wrong with its address.

use super::FORCE_REMOVAL;
use crate::address_keeper::AddressState;
use crate::services::KeptAddress;

/// Hosts that a message names.
const HOSTS_NAMED_MAX: usize = 5;

/// Says which hosts a deleted object waits for; `None` as hosts means that it is not known yet.
pub(super) fn waits_for_hosts(hosts_in_work: Option<&[String]>) -> Option<String> {
    let hosts = match hosts_in_work {
        Some([]) => return None,
        Some(hosts) => {
            let named = hosts.iter().take(HOSTS_NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
            let more = hosts.len().saturating_sub(HOSTS_NAMED_MAX);
            if more > 0 { format!("{named} and {more} more") } else { named }
        }
        None => "after a start it is not known yet which these are".to_owned(),
    };
    Some(format!(
        "the object is deleted: its services stop when the hosts in work are done ({hosts}); the annotation \
         {FORCE_REMOVAL} stops them at once"
    ))
}

/// Says what is wrong with the kept address.
pub(super) fn address_fault(kept: &KeptAddress, state: &AddressState, may_put: bool) -> Option<String> {
    let (address, link) = (kept.address, &kept.link.name);
    let prefix = kept.prefix_length.map_or_else(|| "PREFIX".to_owned(), |length| length.to_string());
    let command = format!("`ip address add {address}/{prefix} dev {link}`");
    match state {
        AddressState::Held { contested_by: None } | AddressState::Probing => None,
        AddressState::Held { contested_by: Some(mac) } => Some(format!(
            "spec.provisioningIP: {mac} uses {address} as well: find that machine, and take the address from it"
        )),
        AddressState::Conflict { with } => Some(format!(
            "spec.provisioningIP: {with} has {address}, so it is not put on {link}: take it from that machine, or give \
             another one here"
        )),
        AddressState::Failed(why) => Some(format!("spec.provisioningIP: could not put {address} on {link}: {why}")),
        AddressState::Missing if !may_put => Some(format!(
            "spec.provisioningIP: {link} does not have {address}, and this process may not put it there \
             (CAP_NET_ADMIN): {command}"
        )),
        AddressState::Missing => Some(format!(
            "spec.provisioningIP: {link} does not have {address}, and it is not put there as long as the interface is \
             off or its network is not known (spec.provisioningNetworkCIDR): {command}"
        )),
    }
}
