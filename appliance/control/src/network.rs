//! What the network services see of a machine, on its way into the timeline.
//!
//! DHCP and TFTP must never wait for the database, so events go through a bounded channel; a full
//! channel loses events, never answers.

use std::net::Ipv4Addr;

/// What on a machine asked DHCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DhcpRequestSource {
    /// A ROM or UEFI that boots from the network.
    Firmware,
    /// iPXE, from a network card or from us.
    Ipxe,
    /// The agent or an OS, which want an address only.
    System,
}

/// One thing that a client did or got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkEvent {
    /// DHCP offered it an address.
    DhcpOffer { address: Ipv4Addr, client: String, asker: DhcpRequestSource },
    /// DHCP confirmed its address.
    DhcpAck { address: Ipv4Addr, client: String, asker: DhcpRequestSource },
    /// DHCP refused it an address.
    DhcpNak { reason: String, asker: DhcpRequestSource },
    /// It says that another machine uses the address that it got.
    DhcpDecline { text: String },
    /// It asked for something to boot, and there is no loader for its architecture.
    NoLoader { reason: String },
    /// It fetched a loader.
    Loader { file: String, bytes: u64, via: &'static str },
    /// It could not fetch a loader.
    LoaderFailed { file: String, reason: String },
    /// A loader or kernel was fetched and nothing came of it.
    BootStalled { text: String },
    /// It got a boot script. `odd`: what its SMBIOS holds that is no text, in words.
    Script { bytes: u64, is_uefi: bool, odd: String },
    /// A script was asked for while the agent of the host may still be at work.
    ScriptWaits { why: String },
    /// A script was asked for from an address that may not be the machine's.
    AddressMismatch { text: String },
    /// An iPXE that cannot start our kernel asked for a script.
    WrongBuild { buildarch: String },
    /// It fetched the kernel.
    Kernel { bytes: u64 },
    /// It fetched the initramfs.
    Initramfs { bytes: u64 },
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
            Self::DhcpDecline { .. } => "dhcp_decline",
            Self::NoLoader { .. } => "no_loader",
            Self::Loader { .. } => "loader",
            Self::LoaderFailed { .. } => "loader_failed",
            Self::BootStalled { .. } => "boot_stalled",
            Self::Script { .. } => "script",
            Self::ScriptWaits { .. } => "script_waits",
            Self::AddressMismatch { .. } => "address_mismatch",
            Self::WrongBuild { .. } => "wrong_build",
            Self::Kernel { .. } => "kernel",
            Self::Initramfs { .. } => "initramfs",
            Self::NoDisk => "no_disk",
        }
    }

    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        if let Self::Loader { bytes, .. }
        | Self::Script { bytes, .. }
        | Self::Kernel { bytes }
        | Self::Initramfs { bytes } = self
        {
            Some(*bytes)
        } else {
            None
        }
    }

    #[must_use]
    pub fn detail(&self) -> String {
        match self {
            Self::DhcpOffer { address, client, .. } | Self::DhcpAck { address, client, .. } => {
                format!("{address} to {client}")
            }
            Self::DhcpNak { reason, .. } | Self::NoLoader { reason } => reason.clone(),
            Self::Loader { file, via, .. } => format!("{file} by {via}"),
            Self::LoaderFailed { file, reason } => format!("{file}: {reason}"),
            Self::BootStalled { text }
            | Self::AddressMismatch { text }
            | Self::ScriptWaits { why: text }
            | Self::DhcpDecline { text } => text.clone(),
            Self::Script { odd, .. } => odd.clone(),
            Self::WrongBuild { buildarch } => firesteel_boot::ipxe::wrong_build(buildarch),
            Self::Kernel { .. } | Self::Initramfs { .. } => String::new(),
            Self::NoDisk => {
                "none of its disks holds what was installed; has a disk been replaced or erased?".to_owned()
            }
        }
    }
}
