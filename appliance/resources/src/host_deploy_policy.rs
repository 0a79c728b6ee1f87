//! `HostDeployPolicy` (metal3.io/v1alpha1): whose claims may get the hosts of its namespace.

use firesteel_kube_types::Cause;
use regex::bytes::RegexBuilder;

use crate::companions::CONDITIONS_ONLY;
use crate::kind::{Kind, METAL3, RuleVerdict, V1ALPHA1};
use crate::shape::{Field, Shape};

pub const KIND: Kind = Kind {
    has_status: true,
    about: "Whose claims may get the hosts of this namespace.",
    rules: |new, _| RuleVerdict::of(new["spec"]["hostClaimNamespaces"]["nameMatches"].as_str().and_then(expression)),
    without_controller: Some("no host is chosen for claims"),
    ..Kind::new(METAL3, V1ALPHA1, "HostDeployPolicy", "hostdeploypolicies", "hostdeploypolicy", &SHAPE)
};

/// Memory for one expression; those that people write take some kilobytes.
const EXPRESSION_BYTES_MAX: usize = 1 << 20;

const LABEL: Shape = Shape::object(&[
    Field::required("name", Shape::TEXT).about("The label."),
    Field::new("value", Shape::TEXT).about("Its value; without it, any."),
]);

const NAMESPACES: Shape = Shape::object(&[
    Field::new("hasLabels", Shape::list(&LABEL)).about("Labels that the namespace of the claim has."),
    Field::new("nameMatches", Shape::TEXT)
        .about("An expression that matches some part of the name of the claim's namespace."),
    Field::new("names", Shape::list(&Shape::TEXT)).about("The names of the namespaces."),
]);

const SPEC: Shape = Shape::object(&[Field::new("hostClaimNamespaces", NAMESPACES)
    .about("The namespaces whose claims may get hosts; all that is given must hold. Without it, none may.")]);

const SHAPE: Shape = Shape::object(&[
    Field::spec(SPEC, "Who may get hosts."),
    Field::status(CONDITIONS_ONLY, "What becomes of this object."),
]);

/// Upstream finds out when it chooses a host, and then chooses none at all.
fn expression(text: &str) -> Option<Cause> {
    let built = RegexBuilder::new(text).unicode(false).size_limit(EXPRESSION_BYTES_MAX).build();
    let path = "spec.hostClaimNamespaces.nameMatches";
    built.err().map(|_| Cause::invalid(path, text, "must be a regular expression"))
}
