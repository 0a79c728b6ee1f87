//! The one table of kinds that the appliance serves beside Kubernetes' own.

use crate::{
    bare_metal_host, hardware_data, provisioning,
    shape::{Field, Shape},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Namespaced,
    Cluster,
}

/// A column of `kubectl get`; `priority` above 0 shows with `-o wide` only.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub name: &'static str,
    /// `string`, `integer` or `date`.
    pub type_: &'static str,
    pub json_path: &'static str,
    pub description: &'static str,
    pub priority: i32,
}

#[derive(Clone, Copy, Debug)]
pub struct Kind {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub list_kind: &'static str,
    pub plural: &'static str,
    pub singular: &'static str,
    pub short_names: &'static [&'static str],
    pub scope: Scope,
    pub has_status: bool,
    pub columns: &'static [Column],
    /// What the kind is for, as `kubectl explain` shows it.
    pub about: &'static str,
    /// Everything beside `apiVersion`, `kind` and `metadata`.
    pub shape: &'static Shape,
    /// Users may read it and no more.
    pub read_only: bool,
}

impl Kind {
    /// `metal3.io/v1alpha1`.
    #[must_use]
    pub fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }
}

pub const BARE_METAL_HOST: Kind = Kind {
    group: METAL3,
    version: V1ALPHA1,
    kind: "BareMetalHost",
    list_kind: "BareMetalHostList",
    plural: "baremetalhosts",
    singular: "baremetalhost",
    short_names: &["bmh", "bmhost"],
    scope: Scope::Namespaced,
    has_status: true,
    columns: &[
        column("Status", ".status.operationalStatus", "Operational status", 1),
        column("State", ".status.provisioning.state", "Provisioning status", 0),
        column("Consumer", ".spec.consumerRef.name", "Consumer using this host", 0),
        column("BMC", ".spec.bmc.address", "Address of management controller", 1),
        column("Online", ".spec.online", "Whether the host is online or not", 0),
        column("Error", ".status.errorType", "Type of the most recent error", 0),
        AGE,
    ],
    about: "A server: how to reach it, what is to be on it, and how it is.",
    shape: &bare_metal_host::SHAPE,
    read_only: false,
};

pub const HARDWARE_DATA: Kind = Kind {
    group: METAL3,
    version: V1ALPHA1,
    kind: "HardwareData",
    list_kind: "HardwareDataList",
    plural: "hardwaredata",
    singular: "hardwaredata",
    short_names: &["hd"],
    scope: Scope::Namespaced,
    has_status: false,
    columns: &[AGE],
    about: "The hardware that inspection found in the host of the same name.",
    shape: &hardware_data::SHAPE,
    read_only: false,
};

pub const PROVISIONING: Kind = Kind {
    group: METAL3,
    version: V1ALPHA1,
    kind: "Provisioning",
    list_kind: "ProvisioningList",
    plural: "provisionings",
    singular: "provisioning",
    short_names: &[],
    scope: Scope::Cluster,
    has_status: true,
    columns: &[
        column("Network", ".spec.provisioningNetwork", "Who runs DHCP", 0),
        column("Interface", ".spec.provisioningInterface", "Provisioning interface", 0),
        column("CIDR", ".spec.provisioningNetworkCIDR", "Provisioning network", 0),
        AGE,
    ],
    about: "The network on which hosts are installed.",
    shape: &provisioning::SHAPE,
    read_only: false,
};

pub const HOST_JOURNAL: Kind = Kind {
    group: FIRESTEEL,
    version: V1ALPHA1,
    kind: "HostJournal",
    list_kind: "HostJournalList",
    plural: "hostjournals",
    singular: "hostjournal",
    short_names: &["hj"],
    scope: Scope::Namespaced,
    has_status: true,
    columns: &[
        column("Attempt", ".status.memory.attempt", "Boots asked for so far", 0),
        column("Step", ".status.progress.step", "Step that the agent works on", 0),
        column("Reason", ".status.reason.text", "Why the host is where it is", 0),
        AGE,
    ],
    about: "What the appliance remembers of its work on the host of the same name.",
    shape: &STATUS_ONLY,
    read_only: true,
};

pub const DISCOVERED_HOST: Kind = Kind {
    group: FIRESTEEL,
    version: V1ALPHA1,
    kind: "DiscoveredHost",
    list_kind: "DiscoveredHostList",
    plural: "discoveredhosts",
    singular: "discoveredhost",
    short_names: &["dh"],
    scope: Scope::Cluster,
    has_status: true,
    columns: &[
        column("MAC", ".status.bootMac", "MAC that booted", 0),
        column("UUID", ".status.uuid", "SMBIOS UUID", 0),
        column("Product", ".status.product", "Product name", 0),
        column("Address", ".status.address", "Leased address", 0),
        AGE,
    ],
    about: "A machine that booted from the network and belongs to nobody yet.",
    shape: &STATUS_ONLY,
    read_only: true,
};

pub const KINDS: [&Kind; 5] = [&BARE_METAL_HOST, &HARDWARE_DATA, &PROVISIONING, &HOST_JOURNAL, &DISCOVERED_HOST];

#[must_use]
pub fn find(group: &str, kind: &str) -> Option<&'static Kind> {
    KINDS.into_iter().find(|entry| entry.group == group && entry.kind == kind)
}

const METAL3: &str = "metal3.io";
const FIRESTEEL: &str = "firesteel.dev";
const V1ALPHA1: &str = "v1alpha1";

const AGE: Column = Column {
    name: "Age",
    type_: "date",
    json_path: ".metadata.creationTimestamp",
    description: "Time since creation",
    priority: 0,
};

/// The appliance alone writes these, from its own types.
const STATUS_ONLY: Shape = Shape::Object(&[Field::new("status", &Shape::Any)]);

const fn column(name: &'static str, json_path: &'static str, description: &'static str, priority: i32) -> Column {
    Column { name, type_: "string", json_path, description, priority }
}
