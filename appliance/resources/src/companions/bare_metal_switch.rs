//! `BareMetalSwitch` (metal3.io/v1alpha1): a switch that hosts are connected to.

use crate::kind::{Kind, METAL3, V1ALPHA1, column};
use crate::shape::{Field, Literal, Shape};
use crate::{condition, mac, reference};

pub const KIND: Kind = Kind {
    short_names: &["bms"],
    has_status: true,
    columns: &[
        column("Driver", ".spec.driver", "How the switch is spoken to", 0),
        column("Device Type", ".spec.deviceType", "The type of the switch", 0),
        column("Address", ".spec.address", "The address of the switch", 0),
        column("Valid", ".status.conditions[?(@.type==\"Valid\")].status", "Whether it can be used", 0),
    ],
    about: "A switch that hosts are connected to.",
    without_controller: Some("switches are not configured"),
    ..Kind::new(METAL3, V1ALPHA1, "BareMetalSwitch", "baremetalswitches", "baremetalswitch", &SHAPE)
};

const SPEC: Shape = Shape::object(&[
    Field::required("address", Shape::TEXT).about("The address or the name of the switch."),
    Field::new("credentials", reference::SECRET_SHAPE)
        .about("The Secret with username, and password or ssh-privatekey, of the switch."),
    Field::required("deviceType", Shape::TEXT).about("The type of the switch, such as netmiko_cisco_ios."),
    Field::new("disableCertificateVerification", Shape::BOOLEAN)
        .about("Whether the certificate of the switch is taken unseen."),
    Field::new("driver", Shape::one_of(&["generic-switch"]).with_default(Literal::Text("generic-switch")))
        .about("How the switch is spoken to."),
    Field::required("macAddress", Shape::TEXT.matching(mac::MAC_PATTERN))
        .about("The MAC address of its management port, by which hosts know the switch (LLDP)."),
    Field::new("port", Shape::INT32.min(1).max(65_535)).about("The port of its management."),
]);

const STATUS: Shape =
    Shape::object(&[Field::new("conditions", condition::LIST_SHAPE).about("Whether it can be used.")]);

const SHAPE: Shape = Shape::object(&[
    Field::spec(SPEC, "How to reach the switch."),
    Field::status(STATUS, "What is known of the switch."),
]);
