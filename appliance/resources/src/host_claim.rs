//! `HostClaim` (metal3.io/v1alpha1): a workload's wish for some host, which it does not name.

use firesteel_facts::{has_user_information, shown_url};
use firesteel_kube_types::Cause;
use serde_json::Value;

use crate::bare_metal_host::annotations;
use crate::bare_metal_host::shape::{CUSTOM_DEPLOY, IMAGE};
use crate::kind::{Kind, METAL3, RuleVerdict, V1ALPHA1};
use crate::shape::{Field, Shape};
use crate::{condition, label, reference, url};

pub const KIND: Kind = Kind {
    has_status: true,
    about: "A wish for a host: what it must be like, and what is to be on it.",
    rules: |new, old| RuleVerdict::of(causes(new, old)),
    without_controller: Some("no host is chosen for claims; apply a BareMetalHost"),
    ..Kind::new(METAL3, V1ALPHA1, "HostClaim", "hostclaims", "hostclaim", &SHAPE)
};

const TEXTS: Shape = Shape::list(&Shape::TEXT);

const EXPRESSION: Shape = Shape::object(&[
    Field::required("key", Shape::TEXT).about("The label."),
    Field::required("operator", Shape::TEXT).about("How it is compared: in, notin, =, ==, !=, exists or !."),
    Field::required("values", TEXTS).about("What it is compared with."),
]);

const SELECTOR: Shape = Shape::object(&[
    Field::new("inNamespace", Shape::TEXT).about("The one namespace whose hosts are looked at; without it, all."),
    Field::new("matchExpressions", Shape::list(&EXPRESSION)).about("Conditions on labels, which must all hold."),
    Field::new("matchLabels", Shape::map(&Shape::TEXT)).about("Labels with their values, which must all be there."),
]);

const SPEC: Shape = Shape::object(&[
    Field::new("consumerRef", reference::REFERENCE_SHAPE).about("What uses this claim."),
    Field::new("customDeploy", CUSTOM_DEPLOY).about("A deployment method instead of an image."),
    Field::new("failureDomain", Shape::TEXT)
        .about("Hosts of this failure domain are taken first, where there are any."),
    Field::new("hostSelector", SELECTOR).about("What the host must be like."),
    Field::new("image", IMAGE).about("The operating system image; without it, the host is only reserved."),
    Field::new("metaData", reference::SECRET_SHAPE).about("The Secret with metadata for first-boot software."),
    Field::new("networkData", reference::SECRET_SHAPE)
        .about("The Secret with the network configuration for first-boot software."),
    Field::required("poweredOn", Shape::BOOLEAN).about("Whether the host is to be powered on."),
    Field::new("userData", reference::SECRET_SHAPE).about("The Secret with the configuration of the operating system."),
]);

const PLACE: Shape = Shape::object(&[
    Field::required("name", Shape::TEXT).about("The name of the object."),
    Field::required("namespace", Shape::TEXT).about("The namespace of the object."),
]);

const STATUS: Shape = Shape::object(&[
    Field::new("bareMetalHost", PLACE).about("The host that was chosen."),
    // One owner for all, as upstream has it.
    Field::new("conditions", Shape::list(&condition::SHAPE)).about("How far the claim is."),
    Field::new("hardwareData", PLACE).about("The record of its hardware."),
    Field::new("lastUpdated", Shape::TIME).about("When this status changed last."),
    Field::new("poweredOn", Shape::BOOLEAN).about("Whether the host is powered on."),
]);

const SHAPE: Shape = Shape::object(&[Field::spec(SPEC, "What is wanted."), Field::status(STATUS, "What was given.")]);

fn causes(new: &Value, old: Option<&Value>) -> Vec<Cause> {
    let spec = &new["spec"];
    let mut causes = selector(&spec["hostSelector"]);
    let metadata = new["metadata"]["annotations"].as_object().into_iter().flatten();
    causes
        .extend(metadata.filter_map(|(key, value)| annotations::reboot_cause(key, value.as_str().unwrap_or_default())));
    image(&spec["image"], old.map(|old| &old["spec"]["image"]), &mut causes);
    let namespace = &new["metadata"]["namespace"];
    for name in ["userData", "metaData", "networkData"] {
        let reference = &spec[name]["namespace"];
        if let Some(other) = reference.as_str().filter(|other| !other.is_empty() && reference != namespace) {
            let why = "cross-namespace Secret references are not allowed";
            causes.push(Cause::invalid(&format!("spec.{name}.namespace"), other, why));
        }
    }
    causes
}

fn selector(selector: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        let (path, value) = (format!("spec.hostSelector.matchLabels[{key}]"), value.as_str().unwrap_or_default());
        causes.extend(label::key_fault(key).map(|why| Cause::invalid(&path, key, why)));
        causes.extend(label::value_fault(value).map(|why| Cause::invalid(&path, value, why)));
    }
    for (index, expression) in selector["matchExpressions"].as_array().into_iter().flatten().enumerate() {
        expression_causes(&format!("spec.hostSelector.matchExpressions[{index}]"), expression, &mut causes);
    }
    causes
}

fn expression_causes(path: &str, expression: &Value, causes: &mut Vec<Cause>) {
    let text = |name: &str| expression[name].as_str().unwrap_or_default();
    let (key, operator) = (text("key"), text("operator"));
    let values: Vec<&str> = expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    causes.extend(label::key_fault(key).map(|why| Cause::invalid(&format!("{path}.key"), key, why)));
    let count = match operator {
        "=" | "==" | "!=" if values.len() != 1 => "takes exactly one value",
        "in" | "notin" if values.is_empty() => "takes at least one value",
        "exists" | "!" if !values.is_empty() => "takes no values",
        "=" | "==" | "!=" | "in" | "notin" | "exists" | "!" => "",
        _ => {
            let known = ["in", "notin", "=", "==", "!=", "exists", "!"];
            return causes.push(Cause::not_supported(&format!("{path}.operator"), operator, &known));
        }
    };
    if !count.is_empty() {
        let why = format!("the operator {operator} {count}");
        causes.push(Cause::invalid_value(&format!("{path}.values"), &expression["values"], &why));
    }
    for (index, value) in values.iter().enumerate() {
        let path = format!("{path}.values[{index}]");
        causes.extend(label::value_fault(value).map(|why| Cause::invalid(&path, value, why)));
    }
}

/// Upstream's rules. What of it this appliance can fetch is judged when a host is chosen.
fn image(image: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let stored = |field: &str| old.and_then(|old| old[field].as_str());
    let Some(url) = image["url"].as_str() else { return };
    if let Err(why) = url::upstream(url, stored("url")) {
        causes.push(Cause::invalid("spec.image.url", &shown_url(url), &why.to_string()));
    }
    let checksum = image["checksum"].as_str().unwrap_or_default();
    if has_user_information(checksum) && stored("checksum") != Some(checksum) {
        causes.push(Cause::forbidden("spec.image.checksum", "may not have a user name or password"));
    }
    if url.starts_with("oci://") {
        if !checksum.is_empty() {
            causes.push(Cause::forbidden("spec.image.checksum", "must be empty for OCI images, which have their own"));
        }
    } else if checksum.is_empty() && image["format"] != "live-iso" {
        causes.push(Cause::required("spec.image.checksum", "checksum is required for normal images"));
    }
}
