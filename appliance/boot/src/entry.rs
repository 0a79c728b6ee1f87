//! What a client gets next, and where it finds the appliance.

use std::net::Ipv4Addr;

use firesteel_facts::WorkHold;

use crate::disk_probe::DiskProbe;
use crate::observation::AskerRule;

/// The appliance's addresses as clients on the provisioning network see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoints {
    pub address: Ipv4Addr,
    /// Plain HTTP: loaders, scripts, kernel, initramfs, images.
    pub http_port: u16,
    /// HTTPS: the agent's protocol and the hosts' configs.
    pub agent_port: u16,
}

impl Endpoints {
    /// `http://192.0.2.1:8080`, without a slash at the end.
    #[must_use]
    pub fn http_base(&self) -> String {
        format!("http://{}:{}", self.address, self.http_port)
    }

    /// `https://192.0.2.1:8443`, without a slash at the end.
    #[must_use]
    pub fn agent_base(&self) -> String {
        format!("https://{}:{}", self.address, self.agent_port)
    }
}

/// How hosts reach the appliance on the network that is served now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostNetwork {
    pub endpoints: Endpoints,
    /// Which askers for boot scripts may be hosts.
    pub asker_rule: AskerRule,
    /// Hosts have DNS before their OS runs.
    pub hosts_have_dns: bool,
    /// Why no host begins work for which it boots into the agent.
    pub work_hold: Option<WorkHold>,
}

/// The boot table's value for one MAC address. The caller decides it; [`crate::render`] says it in iPXE's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BootEntry {
    /// An unclaimed machine: the agent starts, inspects and writes nothing.
    Discovery,
    /// A host with work: the agent with the token of this attempt.
    Agent {
        /// Name for the person at the console.
        host: String,
        attempt: u64,
    },
    /// A provisioned host that netboots: on to its disk.
    LocalDisk {
        host: String,
        /// How to find a BIOS host's disk among all others. `None` where the appliance did not write the disk (an
        /// adopted host): the firmware's own order must do.
        probe: Option<DiskProbe>,
    },
    /// A host whose agent may still be at work: no token; the machine waits and asks again.
    Wait {
        host: String,
        /// The text for the person at the console.
        why: String,
    },
    /// A host with work, asked for from an address that may not be its own: no token; the machine restarts and asks
    /// again.
    Mismatch {
        host: String,
        /// The text for the person at the console.
        reason: String,
    },
    /// Nothing to boot; the firmware goes on to its next boot option.
    Exit {
        /// The text for the person at the console.
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_appliance_has_one_url_for_loaders_and_one_for_agents() {
        let endpoints = Endpoints { address: Ipv4Addr::new(192, 0, 2, 1), http_port: 8080, agent_port: 8443 };
        assert_eq!(endpoints.http_base(), "http://192.0.2.1:8080");
        assert_eq!(endpoints.agent_base(), "https://192.0.2.1:8443");
    }
}
