//! Whether the site drives hosts by their BMCs alone, because none can boot into the agent.

use std::fmt;
use std::net::Ipv4Addr;

use crate::services::{NetworkSettings, ServicePlan};

/// Why hosts cannot boot into the agent as the site set the appliance up. It is no fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BmcOnlyCause {
    NoBootFiles,
    /// The network is Disabled without an address, and no other machine reaches the address of the API.
    NoAddress {
        api: Ipv4Addr,
    },
}

impl BmcOnlyCause {
    /// Returns why hosts that are to find these services are driven by their BMCs alone, where they are.
    pub(crate) fn of(plan: &ServicePlan, settings: &NetworkSettings) -> Option<Self> {
        if !settings.has_boot_files {
            return Some(Self::NoBootFiles);
        }
        let api = plan.http.filter(|address| address.is_loopback() && plan.address.is_none())?;
        Some(Self::NoAddress { api })
    }
}

impl fmt::Display for BmcOnlyCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("hosts are driven by their BMCs alone: ")?;
        match self {
            Self::NoBootFiles => f.write_str(
                "this appliance has no boot files, so no host boots into the agent; to change that, start it with \
                 --boot-files and name a network in the Provisioning object",
            ),
            Self::NoAddress { api } => write!(
                f,
                "the provisioning network is Disabled without an address, and no host reaches the API's address {api}; \
                 to change that, set spec.provisioningIP of the Provisioning object"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::net::IpAddr;

    use firesteel_resources::Provisioning;
    use serde_json::{Value, json};

    use super::*;
    use crate::services::{InterfaceFacts, ServiceFault, ServicePlanInput, plan_services};

    fn decide(more: Value, settings: &NetworkSettings) -> (ServicePlan, Option<ServiceFault>) {
        let mut spec = json!({"provisioningIP": "10.77.0.1", "provisioningNetworkCIDR": "10.77.0.0/24",
            "provisioningDHCPRange": "10.77.0.10,10.77.0.20", "provisioningInterface": "s0"});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let object: Provisioning = serde_json::from_value(json!({"spec": spec})).unwrap();
        let interface = InterfaceFacts { name: "s0".to_owned(), index: 3, mac: None, addresses: Vec::new() };
        plan_services(ServicePlanInput {
            network: &object.network().unwrap(),
            os_image_url: "",
            sensors: None,
            named_time_servers: &[],
            settings,
            interfaces: &[interface],
        })
    }

    #[test]
    fn without_boot_files_or_an_address_hosts_are_driven_by_their_bmcs_alone() {
        let nowhere = || {
            json!({"provisioningNetwork": "Disabled", "provisioningIP": "", "provisioningNetworkCIDR": "",
                "provisioningDHCPRange": "", "provisioningInterface": ""})
        };
        let (v4, v6) = (IpAddr::V4(Ipv4Addr::new(10, 9, 0, 1)), IpAddr::V6(std::net::Ipv6Addr::LOCALHOST));
        let (none, localhost) = (BmcOnlyCause::NoBootFiles, IpAddr::V4(Ipv4Addr::LOCALHOST));
        let unreached = BmcOnlyCause::NoAddress { api: Ipv4Addr::LOCALHOST };
        for (more, has_boot_files, api_address, cause, fault) in [
            (json!({}), true, localhost, None, ""),
            (nowhere(), true, localhost, Some(unreached), ""),
            (nowhere(), true, v4, None, ""),
            (nowhere(), true, v6, None, "spec.provisioningIP"),
            (json!({"provisioningNetwork": "Disabled"}), true, localhost, None, ""),
            (nowhere(), false, localhost, Some(none), ""),
            (nowhere(), false, v6, Some(none), ""),
            (json!({"provisioningNetwork": "Disabled"}), false, v4, Some(none), ""),
            (json!({}), false, v4, Some(none), "spec.provisioningNetwork"),
            (json!({"provisioningNetwork": "Unmanaged"}), false, v4, Some(none), "spec.provisioningNetwork"),
        ] {
            let settings = NetworkSettings { interface: None, api_address, has_boot_files };
            let (plan, found) = decide(more.clone(), &settings);
            let text = found.map(|fault| fault.to_string()).unwrap_or_default();
            assert_eq!(BmcOnlyCause::of(&plan, &settings), cause, "{more} {api_address}");
            assert!(text.starts_with(fault) && text.is_empty() == fault.is_empty(), "{more} {api_address}: {text}");
        }
    }
}
