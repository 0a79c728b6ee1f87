//! What is known of a host's boot from the network, and of machines without a host that may be its own.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A boot from the network, as DHCP, TFTP and HTTP saw it since the appliance started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetbootInputs {
    /// The last stage that it reached, in words; empty where none was seen.
    pub stage: String,
    /// When the machine was heard last.
    pub at: Option<Timestamp>,
    /// What was fetched and not started, with likely causes.
    pub stalled: Option<String>,
    /// Why the newest asker for its boot script got no token, where no other one did in this attempt.
    pub mismatch: Option<String>,
    /// The stages of the current attempt that the journal knows, and the last one that was seen.
    pub stages: Vec<ReachedStage>,
    /// Another server gives addresses, so that DHCP and the fetch of a loader are not seen here.
    pub is_dhcp_elsewhere: bool,
}

/// A stage that a boot from the network reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReachedStage {
    pub stage: NetbootStage,
    pub first_at: Timestamp,
    pub last_at: Timestamp,
    /// What was said of it, in words; mostly empty.
    pub detail: String,
}

/// How far a machine comes on its way to the agent, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NetbootStage {
    /// DHCP gave no address.
    NoAddress,
    Offered,
    Leased,
    /// There is no loader for it.
    NoLoader,
    LoaderFailed,
    Loader,
    /// iPXE runs.
    Ipxe,
    /// Its iPXE cannot start the kernel.
    WrongBuild,
    Script,
    Kernel,
    Initramfs,
}

impl NetbootStage {
    /// Returns the stage that an entry of the journal is about, by its word and its detail; none where it says nothing
    /// of a boot.
    #[must_use]
    pub fn of_entry(word: &str, detail: &str) -> Option<Self> {
        Some(match word {
            "dhcp_nak" => Self::NoAddress,
            "dhcp_offer" => Self::of_lease(detail, Self::Offered)?,
            "dhcp_ack" => Self::of_lease(detail, Self::Leased)?,
            "no_loader" => Self::NoLoader,
            "loader_failed" => Self::LoaderFailed,
            // iPXE asks for it by itself, from where it was loaded.
            "loader" if detail.starts_with("autoexec.ipxe ") => Self::Ipxe,
            "loader" => Self::Loader,
            "wrong_build" => Self::WrongBuild,
            "script" => Self::Script,
            "kernel" => Self::Kernel,
            "initramfs" => Self::Initramfs,
            _ => return None,
        })
    }

    /// Returns what an address means that was offered or leased. The detail names who asked: firmware, iPXE, or an OS
    /// that wants an address and nothing to boot.
    fn of_lease(detail: &str, of_firmware: Self) -> Option<Self> {
        let (_, client) = detail.split_once(" to ")?;
        match client {
            "iPXE" => Some(Self::Ipxe),
            _ if ["PXEClient", "HTTPClient"].iter().any(|class| client.starts_with(class)) => Some(of_firmware),
            _ => None,
        }
    }
}

/// A machine that no host owns, as its agent introduced it. Any client can say such a thing: it is a hint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiscoveredMachine {
    /// MAC of the NIC that booted.
    pub boot_mac: String,
    pub macs: Vec<String>,
    /// SMBIOS UUID.
    pub uuid: String,
    pub serial: String,
    /// When its agent said hello last.
    pub last_seen: Timestamp,
}

/// The hints of an attempt that an event was recorded for, so that each is recorded once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AnnouncedHints {
    pub attempt: u64,
    pub causes: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_of_the_journal_is_a_stage_or_none() {
        for (word, detail, stage) in [
            ("dhcp_nak", "", Some(NetbootStage::NoAddress)),
            ("dhcp_offer", "172.22.0.9 to iPXE", Some(NetbootStage::Ipxe)),
            ("dhcp_offer", "172.22.0.9 to PXEClient:Arch:00007", Some(NetbootStage::Offered)),
            ("dhcp_offer", "172.22.0.9 to HTTPClient:Arch:00016", Some(NetbootStage::Offered)),
            ("dhcp_offer", "172.22.0.9 to an OS", None),
            ("dhcp_offer", "172.22.0.9", None),
            ("dhcp_ack", "172.22.0.9 to iPXE", Some(NetbootStage::Ipxe)),
            ("dhcp_ack", "172.22.0.9 to PXEClient:Arch:00000", Some(NetbootStage::Leased)),
            ("dhcp_ack", "172.22.0.9 to HTTPClient", Some(NetbootStage::Leased)),
            ("dhcp_ack", "172.22.0.9 to dhcpcd", None),
            ("no_loader", "", Some(NetbootStage::NoLoader)),
            ("loader_failed", "", Some(NetbootStage::LoaderFailed)),
            ("loader", "autoexec.ipxe by TFTP", Some(NetbootStage::Ipxe)),
            ("loader", "snponly.efi by TFTP", Some(NetbootStage::Loader)),
            ("wrong_build", "", Some(NetbootStage::WrongBuild)),
            ("script", "", Some(NetbootStage::Script)),
            ("kernel", "", Some(NetbootStage::Kernel)),
            ("initramfs", "", Some(NetbootStage::Initramfs)),
            ("power", "", None),
        ] {
            assert_eq!(NetbootStage::of_entry(word, detail), stage, "{word} {detail}");
        }
    }
}
