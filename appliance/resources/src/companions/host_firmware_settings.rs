//! `HostFirmwareSettings` (metal3.io/v1alpha1): what is wanted of the settings of a host's firmware, and
//! what they are. Named as its host.

use crate::condition;
use crate::kind::{Kind, METAL3, V1ALPHA1};
use crate::shape::{Field, Shape};

pub const KIND: Kind = Kind {
    short_names: &["hfs"],
    has_status: true,
    about: "The settings of the firmware of the host of the same name.",
    without_controller: Some("firmware settings are neither read nor changed; set them in the firmware"),
    ..Kind::new(METAL3, V1ALPHA1, "HostFirmwareSettings", "hostfirmwaresettings", "hostfirmwaresettings", &SHAPE)
};

const SPEC: Shape = Shape::object(&[
    Field::required("settings", Shape::map(&Shape::INTEGER_OR_TEXT)).about("The values that are wanted, by name.")
]);

const SCHEMA: Shape = Shape::object(&[
    Field::required("name", Shape::TEXT).about("The name of the FirmwareSchema."),
    Field::required("namespace", Shape::TEXT).about("Its namespace."),
]);

const STATUS: Shape = Shape::object(&[
    Field::new("conditions", condition::LIST_SHAPE).about("Whether the wanted values are legal, and differ."),
    Field::new("lastUpdated", Shape::TIME).about("When this status changed last."),
    Field::new("schema", SCHEMA).about("What says which values are legal."),
    Field::required("settings", Shape::map(&Shape::TEXT)).about("The values that the firmware has, by name."),
]);

const SHAPE: Shape = Shape::object(&[
    Field::spec(SPEC, "What the settings are to be."),
    Field::status(STATUS, "What the settings are."),
]);
