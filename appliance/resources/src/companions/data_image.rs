//! `DataImage` (metal3.io/v1alpha1): a virtual CD for a host. Named as its host.

use firesteel_facts::shown_url;
use firesteel_kube_types::Cause;

use crate::kind::{Kind, METAL3, RuleVerdict, V1ALPHA1};
use crate::shape::{Field, Shape};
use crate::{condition, url};

pub const KIND: Kind = Kind {
    has_status: true,
    about: "A virtual CD for the host of the same name.",
    rules: |new, old| {
        let text = new["spec"]["url"].as_str().unwrap_or_default();
        let stored = old.and_then(|old| old["spec"]["url"].as_str());
        let why = new["spec"]["url"].as_str().and_then(|text| url::upstream(text, stored).err());
        RuleVerdict::of(why.map(|why| Cause::invalid("spec.url", &shown_url(text), &why.to_string())))
    },
    without_controller: Some("no virtual media is attached to hosts"),
    ..Kind::new(METAL3, V1ALPHA1, "DataImage", "dataimages", "dataimage", &SHAPE)
};

const SPEC: Shape =
    Shape::object(&[Field::required("url", Shape::TEXT).about("Where the image is fetched from, by the BMC.")]);

const ATTACHED: Shape = Shape::object(&[Field::required("url", Shape::TEXT).about("Where it came from.")]);

const ERROR: Shape = Shape::object(&[
    Field::required("count", Shape::INTEGER).about("How often it failed."),
    Field::required("message", Shape::TEXT).about("What went wrong last."),
]);

const STATUS: Shape = Shape::object(&[
    Field::new("attachedImage", ATTACHED).about("The image that is attached."),
    Field::new("conditions", condition::LIST_SHAPE).about("What is known of it."),
    Field::new("error", ERROR).about("What went wrong when it was attached or taken away."),
    Field::new("lastReconciled", Shape::TIME).about("When it was reconciled last."),
]);

const SHAPE: Shape =
    Shape::object(&[Field::spec(SPEC, "What is to be attached."), Field::status(STATUS, "What is attached.")]);
