//! What a kind is: its names, its shape, its rules and what is shown of it.
//!
//! A new kind is a module with its shape and its `KIND`, and one line in [`crate::kinds::KINDS`]:
//!
//! ```
//! use firesteel_resources::{
//!     Cause,
//!     kind::{AGE, Kind, RuleVerdict, column},
//!     shape::{Field, Shape},
//! };
//!
//! const SPEC: Shape = Shape::object(&[Field::required("url", Shape::TEXT).about("Where it is fetched from.")]);
//! const SHAPE: Shape = Shape::object(&[Field::spec(SPEC, "What is wanted.")]);
//!
//! pub const KIND: Kind = Kind {
//!     short_names: &["rck"],
//!     columns: &[column("URL", ".spec.url", "Where it is fetched from", 0), AGE],
//!     about: "A rack.",
//!     rules: |new, _old| {
//!         let url = new["spec"]["url"].as_str().unwrap_or_default();
//!         RuleVerdict::of((!url.starts_with("http")).then(|| Cause::invalid("spec.url", url, "must be an http URL")))
//!     },
//!     // Nothing acts on it yet: warned of at admission, and said in the object's status.
//!     without_controller: Some("racks are not looked after"),
//!     ..Kind::new("example.dev", "v1", "Rack", "racks", "rack", &SHAPE)
//! };
//! ```
//!
//! An older version of a kind is a `Kind` of its own with `stored_as`, after the stored one in the table:
//! see [`crate::cluster_api`].
//!
//! A kind whose objects a controller reads gets a type as well, and its rules read that type
//! ([`crate::admit::typed`]).

use firesteel_kube_types::{Cause, ScaleSubresource};
use serde_json::{Map, Value};

use crate::shape::{Field, Shape};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KindScope {
    Namespaced,
    Cluster,
}

/// A column of `kubectl get`; `priority` above 0 shows with `-o wide` only.
#[derive(Clone, Copy, Debug)]
pub struct KindColumn {
    pub name: &'static str,
    /// `string`, `integer` or `date`.
    pub type_: &'static str,
    pub json_path: &'static str,
    pub description: &'static str,
    pub priority: i32,
}

/// Is made by [`Kind::new`] and completed by struct update.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub singular: &'static str,
    pub short_names: &'static [&'static str],
    /// Names for several kinds at once.
    pub categories: &'static [&'static str],
    pub scope: KindScope,
    pub has_status: bool,
    /// None means the age alone.
    pub columns: &'static [KindColumn],
    /// What the kind is for, as `kubectl explain` shows it.
    pub about: &'static str,
    /// Everything beside `apiVersion`, `kind` and `metadata`.
    pub shape: &'static Shape,
    /// Puts in what depends on more than one field, or on the object as it was, before the shape is checked.
    pub complete: fn(&mut Value, Option<&Value>),
    /// Labels that follow from what an object says; it has them whatever its client sends.
    pub labels: fn(&Value) -> Vec<(&'static str, String)>,
    /// What the shape cannot say, of an object that has the shape.
    pub rules: Rules,
    /// Why nothing comes of an object of this kind; `None` where the appliance acts on it.
    pub without_controller: Option<&'static str>,
    /// Users may read it and no more.
    pub read_only: bool,
    /// Paths to the numbers of a kind that can be scaled.
    pub scale: Option<ScaleSubresource>,
    /// This version is going away.
    pub is_deprecated: bool,
    /// The stored version, if objects are not stored in this one.
    pub stored_as: Option<StoredAs>,
    /// Labels of the kind's definition.
    pub definition_labels: &'static [(&'static str, &'static str)],
    /// The annotation in which the server keeps who changed the spec last.
    pub author_annotation: Option<&'static str>,
}

/// How a version becomes the stored one, and back.
#[derive(Clone, Copy, Debug)]
pub struct StoredAs {
    pub kind: &'static Kind,
    pub conversion: KindConversion,
    /// Keeps what the other version cannot hold.
    pub annotation: &'static str,
    /// Whether an object has the form of the stored version.
    pub fits_stored: fn(&Value) -> bool,
    /// Whether an object has the form of this version.
    pub fits: fn(&Value) -> bool,
}

/// What is beside `apiVersion`, `kind` and `metadata` of an object, in the other of two versions.
#[derive(Clone, Copy, Debug)]
pub struct KindConversion {
    pub to_stored: fn(&Value) -> Map<String, Value>,
    pub from_stored: fn(&Value) -> Map<String, Value>,
}

impl Kind {
    /// A namespaced kind without status, rules, short names and columns.
    #[must_use]
    pub const fn new(
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        plural: &'static str,
        singular: &'static str,
        shape: &'static Shape,
    ) -> Self {
        Self {
            group,
            version,
            kind,
            plural,
            singular,
            short_names: &[],
            categories: &[],
            scope: KindScope::Namespaced,
            has_status: false,
            columns: &[],
            about: "",
            shape,
            complete: |_, _| {},
            labels: |_| Vec::new(),
            rules: |_, _| RuleVerdict::default(),
            without_controller: None,
            read_only: false,
            scale: None,
            is_deprecated: false,
            stored_as: None,
            definition_labels: &[],
            author_annotation: None,
        }
    }

    /// `metal3.io/v1alpha1`.
    #[must_use]
    pub fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }

    /// What of an object has no effect here, one line each. The object has been admitted.
    #[must_use]
    pub fn unacted(&self, object: &Value) -> Vec<String> {
        match self.without_controller {
            Some(why) => vec![format!("{} is accepted but not acted on: {why}", self.kind)],
            None => (self.rules)(object, None).unacted,
        }
    }
}

/// The rules of a kind: of a new object, or of a change of the second one.
pub type Rules = fn(&Value, Option<&Value>) -> RuleVerdict;

/// What the rules of a kind say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleVerdict {
    /// The object is refused when there is one.
    pub causes: Vec<Cause>,
    /// Fields that are set and have no effect, one line each, with the field's path first.
    pub unacted: Vec<String>,
}

impl RuleVerdict {
    pub fn of(causes: impl IntoIterator<Item = Cause>) -> Self {
        Self { causes: causes.into_iter().collect(), unacted: Vec::new() }
    }
}

pub(crate) const METAL3: &str = "metal3.io";
pub(crate) const FIRESTEEL: &str = "firesteel.dev";
pub(crate) const V1ALPHA1: &str = "v1alpha1";

/// The last column of most kinds.
pub const AGE: KindColumn = KindColumn {
    name: "Age",
    type_: "date",
    json_path: ".metadata.creationTimestamp",
    description: "Time since creation",
    priority: 0,
};

/// The appliance alone writes these, from its own types.
pub(crate) const STATUS_ONLY: Shape = Shape::object(&[Field::status(Shape::ANY, "What the appliance knows.")]);

/// A column of words.
#[must_use]
pub const fn column(
    name: &'static str,
    json_path: &'static str,
    description: &'static str,
    priority: i32,
) -> KindColumn {
    KindColumn { name, type_: "string", json_path, description, priority }
}
