//! `HardwareData` (metal3.io/v1alpha1): upstream's hardware record, named as its host and
//! replaced at each inspection.

use serde::{Deserialize, Serialize};

use crate::{
    meta::{ObjectMeta, is_zero},
    shape::{Field, Shape},
};

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

const MAC: Shape = Shape::Mac { anchored: false };
const VLAN_ID: Shape = Shape::Integer { min: Some(0), max: Some(4094) };

/// Upstream's `HardwareDetails`, also part of the host's status.
pub(crate) const DETAILS_SHAPE: Shape = Shape::Object(&[
    Field::new(
        "cpu",
        &Shape::Object(&[
            Field::new("arch", &Shape::Text).about("The architecture, such as x86_64."),
            Field::new("clockMegahertz", &Shape::Number).about("The highest clock rate."),
            Field::new("count", &Shape::INTEGER).about("How many logical processors there are."),
            Field::new("flags", &Shape::List(&Shape::Text))
                .about("What the processor can do, in the words of the kernel."),
            Field::new("model", &Shape::Text),
        ]),
    )
    .about("The processors."),
    Field::new(
        "firmware",
        &Shape::Object(&[Field::new(
            "bios",
            &Shape::Object(&[
                Field::new("date", &Shape::Text).about("When it was released."),
                Field::new("vendor", &Shape::Text).about("Who made it."),
                Field::new("version", &Shape::Text).about("Its version."),
            ]),
        )
        .about("The BIOS or UEFI.")]),
    )
    .about("The firmware of the board."),
    Field::new("hostname", &Shape::Text).about("The name that the host gave itself during inspection."),
    Field::new("nics", &Shape::List(&NIC_SHAPE)).about("The network interfaces."),
    Field::new("ramMebibytes", &Shape::INTEGER).about("The memory, in MiB."),
    Field::new("storage", &Shape::List(&STORAGE_SHAPE)).about("The disks."),
    Field::new(
        "systemVendor",
        &Shape::Object(&[
            Field::new("manufacturer", &Shape::Text).about("Who made it."),
            Field::new("productName", &Shape::Text).about("What it is called."),
            Field::new("serialNumber", &Shape::Text).about("Its serial number."),
        ]),
    )
    .about("The machine."),
]);

const NIC_SHAPE: Shape = Shape::Object(&[
    Field::new("ip", &Shape::Text).about("The address that it had during inspection."),
    Field::new(
        "lldp",
        &Shape::Object(&[
            Field::new("portID", &Shape::Text).about("The port of the switch."),
            Field::new("switchID", &Shape::Text).about("The MAC address of the switch."),
            Field::new("switchSystemName", &Shape::Text).about("The name of the switch."),
        ]),
    )
    .about("What the switch says of itself (LLDP)."),
    Field::new("mac", &MAC).about("The MAC address."),
    Field::new("model", &Shape::Text).about("Vendor and device, as PCI numbers."),
    Field::new("name", &Shape::Text).about("The name that the kernel gave it."),
    Field::new("pciAddress", &Shape::Text).about("Its place on the PCI bus."),
    Field::new("pxe", &Shape::Boolean).about("Whether the host booted from it."),
    Field::new("speedGbps", &Shape::INTEGER).about("The speed of the link."),
    Field::new("vlanId", &VLAN_ID).about("The untagged VLAN."),
    Field::new(
        "vlans",
        &Shape::List(&Shape::Object(&[
            Field::new("id", &VLAN_ID).about("The number of the VLAN."),
            Field::new("name", &Shape::Text),
        ])),
    )
    .about("The VLANs on the link."),
]);

const STORAGE_SHAPE: Shape = Shape::Object(&[
    Field::new("alternateNames", &Shape::List(&Shape::Text)).about("Other paths of the same device."),
    Field::new("hctl", &Shape::Text).about("The SCSI address (host:channel:target:lun)."),
    Field::new("model", &Shape::Text).about("The model name."),
    Field::new("name", &Shape::Text).about("The path of the device."),
    Field::new("rotational", &Shape::Boolean).about("Whether it has spinning platters."),
    Field::new("serialNumber", &Shape::Text).about("The serial number."),
    Field::new("sizeBytes", &Shape::INTEGER).about("The size."),
    Field::new("type", &Shape::OneOf(&["HDD", "SSD", "NVME"])).about("The kind of storage."),
    Field::new("vendor", &Shape::Text).about("Who made it."),
    Field::new("wwn", &Shape::Text).about("The unique identifier."),
    Field::new("wwnVendorExtension", &Shape::Text).about("The vendor's extension of that identifier."),
    Field::new("wwnWithExtension", &Shape::Text).about("The identifier with its extension."),
]);

pub(crate) const SHAPE: Shape = Shape::Object(&[Field::new(
    "spec",
    &Shape::Object(&[Field::new("hardware", &DETAILS_SHAPE).about("The hardware of the host of the same name.")]),
)
.about("What inspection found.")]);
