//! `FirmwareSchema` (metal3.io/v1alpha1): which settings a firmware has, and which values are legal.

use crate::companions::CONDITIONS_ONLY;
use crate::kind::{Kind, METAL3, V1ALPHA1};
use crate::shape::{Field, Shape};

pub const KIND: Kind = Kind {
    about: "The settings that a firmware has, and the values that they may have.",
    without_controller: Some("firmware settings are neither read nor changed; set them in the firmware"),
    ..Kind::new(METAL3, V1ALPHA1, "FirmwareSchema", "firmwareschemas", "firmwareschema", &SHAPE)
};

const SETTING: Shape = Shape::object(&[
    Field::new("allowable_values", Shape::list(&Shape::TEXT)).about("The values that there are, of an enumeration."),
    Field::new("attribute_type", Shape::one_of(&["Enumeration", "String", "Integer", "Boolean", "Password"]))
        .about("The type of the setting."),
    Field::new("lower_bound", Shape::INTEGER).about("The least value of a number."),
    Field::new("max_length", Shape::INTEGER).about("The greatest length of a text."),
    Field::new("min_length", Shape::INTEGER).about("The least length of a text."),
    Field::new("read_only", Shape::BOOLEAN).about("Whether the setting can be read only."),
    Field::new("unique", Shape::BOOLEAN).about("Whether the value is this machine's alone, such as a serial number."),
    Field::new("upper_bound", Shape::INTEGER).about("The greatest value of a number."),
]);

const SPEC: Shape = Shape::object(&[
    Field::new("hardwareModel", Shape::TEXT).about("The model of the machines with this firmware."),
    Field::new("hardwareVendor", Shape::TEXT).about("The vendor of the machines with this firmware."),
    Field::required("schema", Shape::map(&SETTING)).about("Each setting, by name."),
]);

const SHAPE: Shape = Shape::object(&[
    Field::spec(SPEC, "The settings that there are."),
    Field::status(CONDITIONS_ONLY, "What becomes of this object."),
]);
