//! `ClusterOperator` (config.openshift.io/v1): how a part of a cluster is, as its operator says.

use crate::kind::{Kind, KindColumn, KindScope, column};
use crate::shape::{Field, Shape};

pub const KIND: Kind = Kind {
    short_names: &["co"],
    scope: KindScope::Cluster,
    has_status: true,
    columns: &[
        column("Version", ".status.versions[?(@.name==\"operator\")].version", "The version of the operator", 0),
        column("Available", ".status.conditions[?(@.type==\"Available\")].status", "Whether it works", 0),
        column("Progressing", ".status.conditions[?(@.type==\"Progressing\")].status", "Whether it changes", 0),
        column(
            "Degraded",
            ".status.conditions[?(@.type==\"Degraded\")].status",
            "Whether it is not as it should be",
            0,
        ),
        KindColumn {
            type_: "date",
            ..column(
                "Since",
                ".status.conditions[?(@.type==\"Available\")].lastTransitionTime",
                "Since when it works or not",
                0,
            )
        },
    ],
    about: "How a part of the cluster is.",
    ..Kind::new("config.openshift.io", "v1", "ClusterOperator", "clusteroperators", "clusteroperator", &SHAPE)
};

const TEXT: Shape = Shape::TEXT;

/// The kind's own conditions, without bounds.
const CONDITION: Shape = Shape::object(&[
    Field::required("lastTransitionTime", Shape::TIME).about("When the status changed last."),
    Field::new("message", TEXT).about("The reason, for people."),
    Field::new("reason", TEXT).about("The reason, as one word."),
    Field::required("status", TEXT).about("Whether it is so: True, False or Unknown."),
    Field::required("type", TEXT).about("What this is about."),
]);

const RELATED: Shape = Shape::object(&[
    Field::required("group", TEXT).about("The group of the object."),
    Field::required("name", TEXT).about("The name of the object; empty for all."),
    Field::new("namespace", TEXT).about("The namespace of the object."),
    Field::required("resource", TEXT).about("The type of the object, as in paths."),
]);

const VERSION: Shape = Shape::object(&[
    Field::required("name", TEXT).about("What has this version; operator for the operator itself."),
    Field::required("version", TEXT).about("The version."),
]);

const STATUS: Shape = Shape::object(&[
    Field::new("conditions", Shape::list(&CONDITION).keyed_by(&["type"]))
        .about("How it is, one condition for each question."),
    Field::new("extension", Shape::object(&[]).nullable().open()).about("What the operator says besides."),
    Field::new("relatedObjects", Shape::list(&RELATED)).about("The objects that belong to it."),
    Field::new("versions", Shape::list(&VERSION)).about("What runs in which version."),
]);

const SHAPE: Shape = Shape::object(&[
    Field::required("spec", Shape::object(&[])).about("Nothing can be said here."),
    Field::status(STATUS, "How it is."),
]);
