//! The seed: what the appliance puts in front of the initramfs for one boot of one host.
//!
//! It travels as a small uncompressed cpio archive before the ramdisk's own (the kernel unpacks
//! both), not on the kernel's command line: that would show the token in the kernel log, on the
//! console, in crash dumps and in `/proc/cmdline`.

use serde::{Deserialize, Serialize};

use crate::network::NetworkPlan;

/// Where the agent finds the seed.
pub const SEED_PATH: &str = "/firesteel/seed.json";

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seed {
    /// Sealed token of this boot.
    pub token: String,
    /// `https://192.0.2.1:8443`, an IP literal: the ramdisk has no resolver.
    pub appliance: String,
    /// sha256 of the appliance's SubjectPublicKeyInfo (RFC 7469 section 2.4), hexadecimal.
    pub pin_sha256: String,
    /// MAC of the interface that fetched the boot script.
    pub boot_mac: String,
    /// How to get to the appliance; by DHCP on the booting interface where it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkPlan>,
}

impl std::fmt::Debug for Seed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seed")
            .field("appliance", &self.appliance)
            .field("boot_mac", &self.boot_mac)
            .finish_non_exhaustive()
    }
}
