//! One server: power, firmware, network boot, agent or installed system, disks, BMC.
//!
//! ```text
//!   off ─► POST ─► DHCP ─► script ─► kernel ─► initramfs ─► DHCP ─► agent ─► off, or POST again
//!                              └─ exit ─► disk ─► OS: config ─► running
//! ```

use std::net::Ipv4Addr;
use std::time::Duration;

use firesteel_bmc_fakes::redfish::Fake;
use firesteel_dhcp::client::DhcpClient;
use firesteel_facts::Mac;
use firesteel_wire::{PublicKey, Seed};

use crate::agent::{Agent, Lie};
use crate::disk::{Disk, Installed};
use crate::logins::Account;

pub(crate) enum Stage {
    Off,
    Post,
    /// An address for the loader, or for the agent of this seed.
    Dhcp {
        client: Box<DhcpClient>,
        seed: Option<Seed>,
    },
    Fetching {
        what: Fetch,
        tries: u32,
    },
    Agent(Box<Agent>),
    Os(Os),
    /// Nothing moves any more.
    Hung,
}

#[derive(Clone, Debug)]
pub(crate) enum Fetch {
    Script,
    Kernel(String),
    Initramfs(String),
}

/// An installed system that has started.
#[derive(Clone, Debug, Default)]
pub(crate) struct Os {
    /// Name and token of its config, from the stub.
    pub(crate) config: Option<(String, String)>,
    /// What it has to send back.
    pub(crate) nonce: Option<(String, String)>,
    pub(crate) tries: u32,
}

pub(crate) struct Machine {
    pub(crate) id: usize,
    pub(crate) mac: Mac,
    pub(crate) fake: Fake,
    /// Where its BMC counts refused logins.
    pub(crate) account: Option<Account>,
    pub(crate) disks: Vec<Disk>,
    /// Counts starts and stops: what belongs to an earlier one is void.
    pub(crate) epoch: u64,
    pub(crate) stage: Stage,
    /// The firmware's order; otherwise the disk comes first where it boots.
    pub(crate) net_first: bool,
    pub(crate) net_once: bool,
    /// The disk that the firmware boots first, by the GUID of its table.
    pub(crate) boot_entry: Option<String>,
    pub(crate) address: Option<(Ipv4Addr, Duration)>,
    /// The request that is waited for.
    pub(crate) call: Option<u64>,
    /// When the wait for it ends.
    pub(crate) timeout: Option<(Duration, u64)>,
    /// The newest request that has arrived.
    pub(crate) arrived: u64,
    pub(crate) next_lie: Option<Lie>,
    pub(crate) careless: bool,
    pub(crate) blind: bool,
    pub(crate) guardless: bool,
    pub(crate) forgetful: bool,
    /// The agent said that it switches the machine off: its token's subject and its attempt.
    pub(crate) left: Option<(String, u64)>,
    /// Tokens of its boots, with the key that used them.
    pub(crate) tokens: Vec<(String, PublicKey)>,
}

impl Machine {
    /// The name of the host that is made for it.
    pub(crate) fn name(&self) -> String {
        format!("host-{}", self.id)
    }

    pub(crate) fn mac_text(&self) -> String {
        self.mac.to_string().replace('-', ":")
    }

    pub(crate) fn uuid(&self) -> String {
        format!("00000000-0000-4000-8000-{:012}", self.id)
    }

    pub(crate) fn agent(&mut self) -> Option<&mut Agent> {
        match &mut self.stage {
            Stage::Agent(agent) => Some(agent),
            Stage::Off | Stage::Post | Stage::Dhcp { .. } | Stage::Fetching { .. } | Stage::Os(_) | Stage::Hung => None,
        }
    }

    pub(crate) fn is_off(&self) -> bool {
        matches!(self.stage, Stage::Off)
    }

    pub(crate) fn bootable(&self) -> Option<&Installed> {
        let is_entry = |installed: &&Installed| Some(&installed.disk_guid) == self.boot_entry.as_ref();
        let mut systems = self.disks.iter().filter_map(Disk::bootable);
        systems.clone().find(is_entry).or_else(|| systems.next())
    }
}
