//! What the network services see of a machine, on its way into the timeline.
//!
//! DHCP and TFTP must never wait for the database, so events go through a bounded channel; a full
//! channel loses events, never answers.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr},
};

use firesteel_boot::Mac;

/// One thing that a client did or got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkEvent {
    DhcpOffer {
        address: Ipv4Addr,
        client: String,
    },
    DhcpAck {
        address: Ipv4Addr,
        client: String,
    },
    DhcpNak {
        reason: String,
    },
    Loader {
        file: String,
        bytes: u64,
        via: &'static str,
    },
    LoaderFailed {
        file: String,
        reason: String,
    },
    Script {
        bytes: u64,
    },
    Kernel {
        bytes: u64,
    },
    Initramfs {
        bytes: u64,
    },
    /// A provisioned host on BIOS looked at all its drives and did not find its disk.
    NoDisk,
}

impl NetworkEvent {
    /// The name in the timeline.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::DhcpOffer { .. } => "dhcp_offer",
            Self::DhcpAck { .. } => "dhcp_ack",
            Self::DhcpNak { .. } => "dhcp_nak",
            Self::Loader { .. } => "loader",
            Self::LoaderFailed { .. } => "loader_failed",
            Self::Script { .. } => "script",
            Self::Kernel { .. } => "kernel",
            Self::Initramfs { .. } => "initramfs",
            Self::NoDisk => "no_disk",
        }
    }

    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        match self {
            Self::Loader { bytes, .. }
            | Self::Script { bytes }
            | Self::Kernel { bytes }
            | Self::Initramfs { bytes } => Some(*bytes),
            Self::DhcpOffer { .. }
            | Self::DhcpAck { .. }
            | Self::DhcpNak { .. }
            | Self::LoaderFailed { .. }
            | Self::NoDisk => None,
        }
    }

    #[must_use]
    pub fn detail(&self) -> String {
        match self {
            Self::DhcpOffer { address, client } | Self::DhcpAck { address, client } => format!("{address} to {client}"),
            Self::DhcpNak { reason } => reason.clone(),
            Self::Loader { file, via, .. } => format!("{file} by {via}"),
            Self::LoaderFailed { file, reason } => format!("{file}: {reason}"),
            Self::Script { .. } | Self::Kernel { .. } | Self::Initramfs { .. } => String::new(),
            Self::NoDisk => {
                "none of its disks holds what was installed; has a disk been replaced or erased?".to_owned()
            }
        }
    }
}

/// Most addresses that are remembered: more than any pool that the DHCP engine serves.
const ADDRESSES_MAX: usize = 65_536;

/// Which machine has which address, as far as DHCP acknowledged it.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    macs: HashMap<IpAddr, Mac>,
}

impl Addresses {
    pub(crate) fn learn(&mut self, address: IpAddr, mac: Mac) {
        if self.macs.len() >= ADDRESSES_MAX && !self.macs.contains_key(&address) {
            self.macs.clear();
        }
        self.macs.insert(address, mac);
    }

    pub(crate) fn mac(&self, address: IpAddr) -> Option<Mac> {
        self.macs.get(&address).copied()
    }
}
