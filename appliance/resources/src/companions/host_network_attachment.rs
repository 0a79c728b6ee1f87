//! `HostNetworkAttachment` (metal3.io/v1alpha1): what the switch port of a host's interface is to be
//! connected to.
//!
//! Upstream keeps its spec as it is while a host names it. Here no port is ever configured, so that
//! nothing would come of it.

use firesteel_kube_types::Cause;
use serde_json::Value;

use crate::companions::CONDITIONS_ONLY;
use crate::kind::{AGE, Kind, KindColumn, METAL3, RuleVerdict, V1ALPHA1, column};
use crate::shape::{Field, Literal, Shape};

pub const KIND: Kind = Kind {
    has_status: true,
    columns: &[
        column("Mode", ".spec.mode", "How the port treats VLANs", 0),
        KindColumn { type_: "integer", ..column("Native VLAN", ".spec.nativeVLAN", "The untagged VLAN", 0) },
        AGE,
    ],
    about: "What a port of a switch is to be connected to.",
    rules: |new, _| RuleVerdict::of(causes(&new["spec"])),
    without_controller: Some("switches are not configured"),
    ..Kind::new(METAL3, V1ALPHA1, "HostNetworkAttachment", "hostnetworkattachments", "hostnetworkattachment", &SHAPE)
};

const VLAN_MAX: u32 = 4094;

const SPEC: Shape = Shape::object(&[
    Field::new("allowedVLANs", Shape::list(&Shape::TEXT.matching(r"^\d+(-\d+)?$")))
        .about("The tagged VLANs, each a number or a range such as 100-200."),
    Field::required("mode", Shape::one_of(&["access", "trunk", "hybrid"]).with_default(Literal::Text("access")))
        .about("How the port treats VLANs: one, untagged (access), several, tagged (trunk), or both (hybrid)."),
    Field::new("mtu", Shape::INTEGER.min(68).max(9216)).about("The greatest packet."),
    Field::required("nativeVLAN", Shape::INTEGER.min(1).max(VLAN_MAX as i64)).about("The untagged VLAN."),
]);

const SHAPE: Shape = Shape::object(&[
    Field::spec(SPEC, "What the port is to be connected to."),
    Field::status(CONDITIONS_ONLY, "What becomes of this object."),
]);

fn causes(spec: &Value) -> Vec<Cause> {
    let vlans: &[Value] = spec["allowedVLANs"].as_array().map_or(&[], Vec::as_slice);
    let mut causes = Vec::new();
    if spec["mode"] == "access" && !vlans.is_empty() {
        causes.push(Cause::forbidden("spec.allowedVLANs", "cannot be specified for access mode"));
    }
    for (index, text) in vlans.iter().enumerate().filter_map(|(index, vlan)| Some((index, vlan.as_str()?))) {
        if let Err(why) = check_vlans(text) {
            causes.push(Cause::invalid(&format!("spec.allowedVLANs[{index}]"), text, &why.to_string()));
        }
    }
    causes
}

#[derive(Debug, thiserror::Error)]
enum VlanError {
    #[error("VLAN ID {0} out of range 1-{max}", max = VLAN_MAX)]
    Number(String),
    #[error("range start ({start}) must be less than end ({end})")]
    Range { start: u32, end: u32 },
}

fn check_vlans(text: &str) -> Result<(), VlanError> {
    let vlan = |text: &str| match text.parse::<u32>() {
        Ok(number) if (1..=VLAN_MAX).contains(&number) => Ok(number),
        _ => Err(VlanError::Number(text.to_owned())),
    };
    let Some((start, end)) = text.split_once('-') else { return vlan(text).map(drop) };
    let (start, end) = (vlan(start)?, vlan(end)?);
    if start >= end { Err(VlanError::Range { start, end }) } else { Ok(()) }
}
