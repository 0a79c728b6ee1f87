//! The host's spec, with upstream's names.

use std::collections::BTreeMap;

use firesteel_kube_types::{ObjectReference, SecretReference};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::zero::is_zero;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BareMetalHostSpec {
    /// Desired power.
    pub online: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bmc: Option<BmcDetails>,
    /// The MAC as the user wrote it; [`BareMetalHostSpec::boot_mac`] has the canonical text.
    #[serde(rename = "bootMACAddress", skip_serializing_if = "String::is_empty")]
    pub boot_mac_address: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_mode: Option<BootMode>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub architecture: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_data: Option<SecretReference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_data: Option<SecretReference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meta_data: Option<SecretReference>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub preprovisioning_network_data_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_deploy: Option<CustomDeploy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root_device_hints: Option<RootDeviceHints>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raid: Option<Raid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub automated_cleaning_mode: Option<CleaningMode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inspection_mode: Option<InspectionMode>,
    #[serde(skip_serializing_if = "is_zero")]
    pub externally_provisioned: bool,
    #[serde(skip_serializing_if = "is_zero")]
    pub disable_power_off: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumer_ref: Option<ObjectReference>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub network_interfaces: Vec<NetworkInterface>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Is accepted and not used, as upstream does.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Value>,
    /// Deprecated upstream.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hardware_profile: String,
    /// Deprecated upstream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware: Option<BTreeMap<String, bool>>,
}

impl BareMetalHostSpec {
    /// The boot MAC in its canonical text, if one is set and legal.
    #[must_use]
    pub fn boot_mac(&self) -> Option<String> {
        crate::mac::normal_mac(&self.boot_mac_address)
    }

    /// BMC details that say where the controller is and which Secret opens it.
    #[must_use]
    pub fn usable_bmc(&self) -> Option<&BmcDetails> {
        self.bmc.as_ref().filter(|bmc| !bmc.address.is_empty() && !bmc.credentials_name.is_empty())
    }

    /// The image that the owner wants on the disk; an empty URL is none (upstream).
    #[must_use]
    pub fn wanted_image(&self) -> Option<&Image> {
        self.image.as_ref().filter(|image| !image.url.is_empty())
    }

    #[must_use]
    pub fn cleans(&self) -> bool {
        match self.automated_cleaning_mode.unwrap_or_default() {
            CleaningMode::Metadata => true,
            CleaningMode::Disabled => false,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BmcDetails {
    pub address: String,
    pub credentials_name: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub disable_certificate_verification: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum BootMode {
    #[default]
    #[serde(rename = "UEFI")]
    Uefi,
    #[serde(rename = "UEFISecureBoot")]
    UefiSecureBoot,
    #[serde(rename = "legacy")]
    Legacy,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Image {
    pub url: String,
    /// A digest, or the URL of a file that holds it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub checksum: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checksum_type: Option<ChecksumType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<ImageFormat>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub oci_auth_secret_name: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChecksumType {
    Md5,
    Sha256,
    Sha512,
    /// The algorithm follows from the digest's length.
    #[default]
    Auto,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ImageFormat {
    #[serde(rename = "raw")]
    Raw,
    #[serde(rename = "qcow2")]
    Qcow2,
    #[serde(rename = "vdi")]
    Vdi,
    #[serde(rename = "vmdk")]
    Vmdk,
    #[serde(rename = "live-iso")]
    LiveIso,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CustomDeploy {
    pub method: String,
}

/// Which disk to write. Every hint that is given must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RootDeviceHints {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub device_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hctl: String,
    /// Substring.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// Substring.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub vendor: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub serial_number: String,
    /// Size in GiB, whatever the name says (upstream).
    #[serde(skip_serializing_if = "is_zero")]
    pub min_size_gigabytes: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub wwn: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub wwn_with_extension: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub wwn_vendor_extension: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotational: Option<bool>,
}

impl RootDeviceHints {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// `hardwareRAIDVolumes` being an empty list means "delete all", which differs from being absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Raid {
    #[serde(rename = "hardwareRAIDVolumes", skip_serializing_if = "Option::is_none")]
    pub hardware_volumes: Option<Vec<HardwareRaidVolume>>,
    #[serde(rename = "softwareRAIDVolumes", skip_serializing_if = "Option::is_none")]
    pub software_volumes: Option<Vec<SoftwareRaidVolume>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HardwareRaidVolume {
    pub level: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub size_gibibytes: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotational: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number_of_physical_disks: Option<u64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub controller: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub physical_disks: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SoftwareRaidVolume {
    pub level: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub size_gibibytes: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub physical_disks: Vec<RootDeviceHints>,
    #[serde(skip_serializing_if = "is_zero")]
    pub root_volume: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CleaningMode {
    #[default]
    Metadata,
    Disabled,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InspectionMode {
    Disabled,
    #[default]
    Agent,
    Fast,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkInterface {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mac_address: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_network_attachment: Option<AttachmentReference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub switch_port: Option<SwitchPort>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AttachmentReference {
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SwitchPort {
    #[serde(rename = "portID")]
    pub port_id: String,
    #[serde(rename = "switchID")]
    pub switch_id: String,
}
