//! What a ramdisk was made of and what came out, as a JSON file beside it.

use serde::{Deserialize, Serialize};

/// The number of the format. It grows when the meaning of a field changes, or when the same inputs give other bytes.
pub const FORMAT: u32 = 1;

/// The description of one built ramdisk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RamdiskManifest {
    pub format: u32,
    pub set: String,
    pub kernel: KernelPackage,
    pub agent: ManifestFile,
    pub firmware_packages: Vec<FirmwarePackage>,
    /// Output files.
    pub vmlinuz: ManifestFile,
    pub initramfs: ManifestFile,
    /// What a host downloads: kernel and initramfs.
    pub total_bytes: u64,
    pub modules: Vec<String>,
    /// Modules that the set asks for and that this kernel does not have.
    pub absent_modules: Vec<String>,
    /// Firmware files that were found in the firmware packages.
    pub firmware: Vec<String>,
}

/// The package that kernel and modules come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KernelPackage {
    pub package: String,
    pub version: String,
    pub architecture: String,
    /// What `uname -r` says, and the name of the modules' folder.
    pub release: String,
    pub sha256: String,
}

/// A package that firmware was taken from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FirmwarePackage {
    pub package: String,
    pub version: String,
    pub sha256: String,
}

/// A file by its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ManifestFile {
    pub bytes: u64,
    pub sha256: String,
}

impl ManifestFile {
    /// Describes `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self { bytes: bytes.len() as u64, sha256: crate::sha256_hex(bytes) }
    }
}
