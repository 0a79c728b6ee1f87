//! What firmware and drives are, as an inspection finds it and a record keeps it.

use serde::{Deserialize, Serialize};

/// How the firmware of a host starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FirmwareMode {
    #[default]
    Bios,
    Uefi,
}

/// What a disk is attached by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    Nvme,
    Sata,
    Sas,
    Scsi,
    Virtio,
    Usb,
    Mmc,
    /// Any other kind, and any name that only a newer agent uses.
    #[default]
    #[serde(other)]
    Other,
}

/// How to erase all of a drive by its own means, whatever command asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SanitizeMethod {
    Crypto,
    Block,
    Overwrite,
}

/// What an NVMe format can erase with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FormatErase {
    UserData,
    Crypto,
}

/// Parts of an ATA disk that reads and writes cannot reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HiddenArea {
    /// Host protected area.
    Hpa,
    /// Device configuration overlay.
    Dco,
}

/// NIST SP 800-88: against which effort the data is out of reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    /// Neither of the two: metadata alone, or blocks that were given back and not erased.
    None,
    /// An erasure against reading by the disk's own interface.
    Clear,
    /// An erasure against laboratories.
    Purge,
}
