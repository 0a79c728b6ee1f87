//! `HostFirmwareComponents` (metal3.io/v1alpha1): which firmware a host has, and which it is to get.
//! Named as its host.

use firesteel_facts::shown_url;
use firesteel_kube_types::Cause;
use serde_json::Value;

use crate::kind::{Kind, METAL3, RuleVerdict, V1ALPHA1};
use crate::shape::{Field, Shape};
use crate::{condition, url};

pub const KIND: Kind = Kind {
    has_status: true,
    about: "The firmware of the parts of the host of the same name.",
    rules: |new, old| RuleVerdict::of(causes(new, old)),
    without_controller: Some("firmware is not updated; use the vendor's own tools"),
    ..Kind::new(METAL3, V1ALPHA1, "HostFirmwareComponents", "hostfirmwarecomponents", "hostfirmwarecomponents", &SHAPE)
};

const UPDATE: Shape = Shape::object(&[
    Field::required("component", Shape::TEXT).about("The part: bios, bmc, or nic: and the name of an interface."),
    Field::required("url", Shape::TEXT).about("Where its firmware is fetched from."),
]);

const COMPONENT: Shape = Shape::object(&[
    Field::required("component", Shape::TEXT).about("The part."),
    Field::new("currentVersion", Shape::TEXT).about("The version that it has."),
    Field::required("initialVersion", Shape::TEXT).about("The version that it had when it was found."),
    Field::new("lastVersionFlashed", Shape::TEXT).about("The version that was written to it last."),
    Field::new("updatedAt", Shape::TIME).about("When that was."),
]);

const SPEC: Shape =
    Shape::object(&[Field::required("updates", Shape::list(&UPDATE)).about("The updates that are wanted.")]);

const STATUS: Shape = Shape::object(&[
    Field::new("components", Shape::list(&COMPONENT)).about("The parts that have firmware."),
    Field::new("conditions", condition::LIST_SHAPE).about("Whether the updates are legal, and to be made."),
    Field::new("lastUpdated", Shape::TIME).about("When this status changed last."),
    Field::new("updates", Shape::list(&UPDATE)).about("The updates that were asked for last."),
]);

const SHAPE: Shape =
    Shape::object(&[Field::spec(SPEC, "What the firmware is to be."), Field::status(STATUS, "What the firmware is.")]);

fn causes(new: &Value, old: Option<&Value>) -> Vec<Cause> {
    let stored = old.and_then(|old| old["spec"]["updates"].as_array()).into_iter().flatten();
    let stored: Vec<&str> = stored.filter_map(|update| update["url"].as_str()).collect();
    let updates = new["spec"]["updates"].as_array().into_iter().flatten().enumerate();
    let urls = updates.map(|(index, update)| (index, update["url"].as_str().unwrap_or_default()));
    urls.filter_map(|(index, text)| {
        let why = url::upstream(text, stored.iter().copied().find(|stored| *stored == text)).err()?;
        Some(Cause::invalid(&format!("spec.updates[{index}].url"), &shown_url(text), &why.to_string()))
    })
    .collect()
}
