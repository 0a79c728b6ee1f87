//! `HardwareData` (metal3.io/v1alpha1): upstream's hardware record, named as its host and
//! replaced at each inspection.

use firesteel_kube_types::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::kind::{AGE, Kind, METAL3, V1ALPHA1};
use crate::mac::MAC_PATTERN_UNANCHORED;
use crate::shape::{Field, OpenApiFormat, Shape};
use crate::zero::is_zero;

pub const KIND: Kind = Kind {
    short_names: &["hd"],
    columns: &[AGE],
    about: "The hardware that inspection found in the host of the same name.",
    ..Kind::new(METAL3, V1ALPHA1, "HardwareData", "hardwaredata", "hardwaredata", &SHAPE)
};

/// Annotation by which Firesteel knows of which inspection the data is: `ATTEMPT/PLAN TIME`.
pub const INSPECTION: &str = "firesteel.dev/inspection";
/// Annotation of data that no agent found: when the host's BMC said it. No disk is chosen, erased or written by it.
pub const BMC_INVENTORY: &str = "firesteel.dev/bmc-inventory";
/// Annotation that says what that inspection found on each disk: [`crate::HardwareRecord::shown_contents`].
pub const DISK_CONTENTS: &str = "firesteel.dev/disk-contents";

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HardwareData {
    pub api_version: String,
    pub kind: String,
    pub metadata: ObjectMeta,
    pub spec: HardwareDataSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HardwareDataSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hardware: Option<HardwareDetails>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HardwareDetails {
    pub system_vendor: SystemVendor,
    pub firmware: FirmwareInfo,
    pub ram_mebibytes: u64,
    pub nics: Vec<Nic>,
    pub storage: Vec<Storage>,
    pub cpu: Cpu,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hostname: String,
}

impl HardwareDetails {
    /// What a NIC shows of the other end of its cable comes later than the rest.
    #[must_use]
    pub fn without_neighbours(&self) -> Self {
        let mut details = self.clone();
        for nic in &mut details.nics {
            (nic.lldp, nic.vlan_id) = (None, 0);
            nic.vlans.clear();
        }
        details
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SystemVendor {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub manufacturer: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub product_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub serial_number: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FirmwareInfo {
    pub bios: BiosInfo,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BiosInfo {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub date: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub vendor: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cpu {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub arch: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub model: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub clock_megahertz: f64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
    #[serde(skip_serializing_if = "is_zero")]
    pub count: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Nic {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub model: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mac: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ip: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub speed_gbps: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vlans: Vec<Vlan>,
    #[serde(skip_serializing_if = "is_zero")]
    pub vlan_id: u16,
    #[serde(skip_serializing_if = "is_zero")]
    pub pxe: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lldp: Option<Lldp>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pci_address: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Vlan {
    pub id: u16,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Lldp {
    #[serde(rename = "portID", skip_serializing_if = "String::is_empty")]
    pub port_id: String,
    #[serde(rename = "switchID", skip_serializing_if = "String::is_empty")]
    pub switch_id: String,
    #[serde(rename = "switchSystemName", skip_serializing_if = "String::is_empty")]
    pub switch_system_name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum StorageType {
    Hdd,
    Ssd,
    Nvme,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Storage {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alternate_names: Vec<String>,
    #[serde(skip_serializing_if = "is_zero")]
    pub rotational: bool,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<StorageType>,
    #[serde(skip_serializing_if = "is_zero")]
    pub size_bytes: i64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub vendor: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub model: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub serial_number: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub wwn: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub wwn_vendor_extension: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub wwn_with_extension: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hctl: String,
}

const MAC: Shape = Shape::TEXT.matching(MAC_PATTERN_UNANCHORED);
const VLAN_ID: Shape = Shape::INT32.min(0).max(4094);

/// Upstream's `HardwareDetails`, also part of the host's status.
pub(crate) const DETAILS_SHAPE: Shape = Shape::object(&[
    Field::new(
        "cpu",
        Shape::object(&[
            Field::new("arch", Shape::TEXT).about("The architecture, such as x86_64."),
            Field::new("clockMegahertz", Shape::NUMBER.format(OpenApiFormat::Double)).about("The highest clock rate."),
            Field::new("count", Shape::INTEGER).about("How many logical processors there are."),
            Field::new("flags", Shape::list(&Shape::TEXT))
                .about("What the processor can do, in the words of the kernel."),
            Field::new("model", Shape::TEXT).about("The model name."),
        ]),
    )
    .about("The processors."),
    Field::new(
        "firmware",
        Shape::object(&[Field::new(
            "bios",
            Shape::object(&[
                Field::new("date", Shape::TEXT).about("When it was released."),
                Field::new("vendor", Shape::TEXT).about("Who made it."),
                Field::new("version", Shape::TEXT).about("Its version."),
            ]),
        )
        .about("The BIOS or UEFI.")]),
    )
    .about("The firmware of the board."),
    Field::new("hostname", Shape::TEXT).about("The name that the host gave itself during inspection."),
    Field::new("nics", Shape::list(&NIC_SHAPE)).about("The network interfaces."),
    Field::new("ramMebibytes", Shape::INTEGER).about("The memory, in MiB."),
    Field::new("storage", Shape::list(&STORAGE_SHAPE)).about("The disks."),
    Field::new(
        "systemVendor",
        Shape::object(&[
            Field::new("manufacturer", Shape::TEXT).about("Who made it."),
            Field::new("productName", Shape::TEXT).about("What it is called."),
            Field::new("serialNumber", Shape::TEXT).about("Its serial number."),
        ]),
    )
    .about("The machine."),
]);

const NIC_SHAPE: Shape = Shape::object(&[
    Field::new("ip", Shape::TEXT).about("The address that it had during inspection."),
    Field::new(
        "lldp",
        Shape::object(&[
            Field::new("portID", Shape::TEXT).about("The port of the switch."),
            Field::new("switchID", Shape::TEXT).about("The MAC address of the switch."),
            Field::new("switchSystemName", Shape::TEXT).about("The name of the switch."),
        ]),
    )
    .about("What the switch says of itself (LLDP)."),
    Field::new("mac", MAC).about("The MAC address."),
    Field::new("model", Shape::TEXT).about("Vendor and device, as PCI numbers."),
    Field::new("name", Shape::TEXT).about("The name that the kernel gave it."),
    Field::new("pciAddress", Shape::TEXT).about("Its place on the PCI bus."),
    Field::new("pxe", Shape::BOOLEAN).about("Whether the host booted from it."),
    Field::new("speedGbps", Shape::INTEGER).about("The speed of the link."),
    Field::new("vlanId", VLAN_ID).about("The untagged VLAN."),
    Field::new(
        "vlans",
        Shape::list(&Shape::object(&[
            Field::new("id", VLAN_ID).about("The number of the VLAN."),
            Field::new("name", Shape::TEXT).about("Its name."),
        ])),
    )
    .about("The VLANs on the link."),
]);

const STORAGE_SHAPE: Shape = Shape::object(&[
    Field::new("alternateNames", Shape::list(&Shape::TEXT)).about("Other paths of the same device."),
    Field::new("hctl", Shape::TEXT).about("The SCSI address (host:channel:target:lun)."),
    Field::new("model", Shape::TEXT).about("The model name."),
    Field::new("name", Shape::TEXT).about("The path of the device."),
    Field::new("rotational", Shape::BOOLEAN).about("Whether it has spinning platters."),
    Field::new("serialNumber", Shape::TEXT).about("The serial number."),
    Field::new("sizeBytes", Shape::INT64).about("The size."),
    Field::new("type", Shape::one_of(&["HDD", "SSD", "NVME"])).about("The kind of storage."),
    Field::new("vendor", Shape::TEXT).about("Who made it."),
    Field::new("wwn", Shape::TEXT).about("The unique identifier."),
    Field::new("wwnVendorExtension", Shape::TEXT).about("The vendor's extension of that identifier."),
    Field::new("wwnWithExtension", Shape::TEXT).about("The identifier with its extension."),
]);

const SHAPE: Shape = Shape::object(&[Field::new(
    "spec",
    Shape::object(&[Field::new("hardware", DETAILS_SHAPE).about("The hardware of the host of the same name.")]),
)
.about("What inspection found.")]);
