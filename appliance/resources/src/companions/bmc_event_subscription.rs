//! `BMCEventSubscription` (metal3.io/v1alpha1): events of a BMC that are sent somewhere.

use firesteel_facts::shown_url;
use firesteel_kube_types::Cause;
use serde_json::Value;

use crate::kind::{AGE, Kind, METAL3, RuleVerdict, V1ALPHA1, column};
use crate::shape::{Field, Shape};
use crate::{condition, reference, url};

pub const KIND: Kind = Kind {
    short_names: &["bes", "bmcevent"],
    has_status: true,
    columns: &[column("Error", ".status.error", "What went wrong last", 0), AGE],
    about: "Events of the BMC of a host, sent to an address.",
    rules: |new, old| RuleVerdict::of(old.map_or_else(|| causes(new), |old| changes(new, old))),
    without_controller: Some("no events are asked of BMCs"),
    ..Kind::new(METAL3, V1ALPHA1, "BMCEventSubscription", "bmceventsubscriptions", "bmceventsubscription", &SHAPE)
};

const SPEC: Shape = Shape::object(&[
    Field::new("context", Shape::TEXT).about("A text of your own that comes with each event."),
    Field::new("destination", Shape::TEXT).about("The URL that events are sent to."),
    Field::new("hostName", Shape::TEXT).about("The host whose BMC sends them."),
    Field::new("httpHeadersRef", reference::SECRET_SHAPE).about("The Secret with HTTP headers that are sent along."),
]);

const STATUS: Shape = Shape::object(&[
    Field::new("conditions", condition::LIST_SHAPE).about("What is known of it."),
    Field::new("error", Shape::TEXT).about("What went wrong last."),
    Field::new("subscriptionID", Shape::TEXT).about("The BMC's own name of the subscription."),
]);

const SHAPE: Shape =
    Shape::object(&[Field::spec(SPEC, "What is to be sent where."), Field::status(STATUS, "What the BMC made of it.")]);

fn causes(new: &Value) -> Vec<Cause> {
    let spec = &new["spec"];
    let text = |name: &str| spec[name].as_str().unwrap_or_default();
    let mut causes = Vec::new();
    if text("hostName").is_empty() {
        causes.push(Cause::required("spec.hostName", "the host whose BMC sends the events"));
    }
    let destination = text("destination");
    if destination.is_empty() {
        causes.push(Cause::required("spec.destination", "the URL that events are sent to"));
    } else {
        match url::parts(destination) {
            Err(why) => causes.push(Cause::invalid("spec.destination", &shown_url(destination), &why.to_string())),
            Ok((_, _, path)) if !path.starts_with('/') => {
                let why = "hostname-only destination must have a trailing slash";
                causes.push(Cause::invalid("spec.destination", &shown_url(destination), why));
            }
            Ok(_) => {}
        }
    }
    let (namespace, reference) = (&new["metadata"]["namespace"], &spec["httpHeadersRef"]);
    if reference.is_object() && reference["namespace"] != *namespace {
        let found = reference["namespace"].as_str().unwrap_or_default();
        let why = "the Secret must be in the same namespace as the BMCEventSubscription, and named with it";
        causes.push(Cause::invalid("spec.httpHeadersRef.namespace", found, why));
    }
    causes
}

fn changes(new: &Value, old: &Value) -> Vec<Cause> {
    if new.get("spec") == old.get("spec") {
        return Vec::new();
    }
    vec![Cause::forbidden("spec", "subscriptions cannot be updated, please recreate it")]
}
