//! What the API knows of a kind, and the table of kinds that one server serves.
//!
//! The kind's owner supplies the hook that checks and normalises its objects; everything that is
//! alike for all kinds is in [`crate::object::rules`].

use std::fmt;
use std::sync::Arc;

use firesteel_kube_types::{Cause, ScaleSubresource};
use firesteel_store::GroupResource;
use serde_json::{Value, json};

use crate::model::convert::{KindVersion, VersionConversion};
use crate::model::field_schema::Schema;
use crate::model::kind_parts::{Admit, AdmittedObject, IssueSubresource, NameRule, PrinterColumn, ReviewKind, Writers};

/// One kind. Made by [`KindInfo::namespaced`] or [`KindInfo::cluster`] and completed by struct
/// update.
#[derive(Clone)]
pub struct KindInfo {
    /// The API group; empty for the core group.
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub singular: &'static str,
    pub short_names: &'static [&'static str],
    pub categories: &'static [&'static str],
    pub namespaced: bool,
    /// Has a `/status` subresource, and the main endpoint ignores `status`.
    pub has_status: bool,
    /// Has a `/scale` subresource.
    pub scale: Option<ScaleSubresource>,
    /// Counts changes of the object in `metadata.generation`.
    pub has_generation: bool,
    /// A PUT without `metadata.resourceVersion` replaces whatever is there.
    pub unconditional_update: bool,
    /// Takes strategic merge patches. Kubernetes has that patch for its own kinds alone, and kubectl
    /// uses it for them.
    pub strategic_merge: bool,
    pub name_rule: NameRule,
    pub writers: Writers,
    /// Fields that a field selector may name, besides name and namespace. As in "involvedObject.name".
    pub selectable: &'static [&'static str],
    /// Creating an object asks a question: it is answered, and nothing is stored.
    pub review: Option<ReviewKind>,
    /// Parts of an object that answer requests.
    pub requests: &'static [IssueSubresource],
    /// What the kind is for, as `kubectl explain` shows it.
    pub description: &'static str,
    /// The structural OpenAPI schema of the objects; what it says of `apiVersion`, `kind` and
    /// `metadata` does not count. As it is at first, it knows no field and allows all.
    pub schema: Arc<Value>,
    /// Which parts of an object have owners of their own: the schema's other form, made with it by
    /// [`KindInfo::with_schema`].
    pub fields: Arc<Schema>,
    /// Columns after the name. Without any, the age is shown.
    pub columns: Vec<PrinterColumn>,
    pub admit: Admit,
    /// Keeps in `metadata.managedFields` who set which field. Of no use where one writer alone
    /// writes, and a cost where it writes often.
    pub tracks_owners: bool,
    /// Whether history is of use for minutes at most: the objects change often, and clients that follow them want the
    /// newest.
    pub has_short_history: bool,
    /// Its objects are in force whether or not they can be stored: a new one may use the store's reserve, and is held
    /// in memory where that does not help. For kinds outside of namespaces.
    pub holds_unstored: bool,
    /// Has a `/log` subresource, as pods have.
    pub has_log: bool,
    /// What controllers keep of another object, its owner, for as long as that is there, however it is deleted: it
    /// goes after its owner and is never orphaned, it holds no deletion up, and while a namespace empties itself it
    /// goes last and may still be made.
    pub is_record: bool,
    /// Group and plural of the stored kind of which this one is another form, where it is one.
    pub stored_at: Option<(&'static str, &'static str)>,
    /// The conversion of a version in which objects are not stored.
    pub conversion: Option<VersionConversion>,
    /// Whether the version is going away; its clients get a warning.
    pub is_deprecated: bool,
    /// Labels of the kind's definition, by which clients find out what it is for.
    pub definition_labels: &'static [(&'static str, &'static str)],
    /// Labels that follow from what an object says; it has them whatever its client sends.
    pub own_labels: fn(&Value) -> Vec<(&'static str, String)>,
    /// The annotation in which the server keeps who changed the spec last, whatever a client sends.
    pub author_annotation: Option<&'static str>,
    /// All versions of the kind, where there are several. [`Registry::new`](crate::Registry::new) knows them.
    pub versions: Arc<[KindVersion]>,
}

impl KindInfo {
    /// A kind whose objects live in namespaces, with a status and a generation, as custom resources
    /// have.
    pub fn namespaced(group: &'static str, version: &'static str, kind: &'static str, plural: &'static str) -> Self {
        Self {
            group,
            version,
            kind,
            plural,
            singular: "",
            short_names: &[],
            categories: &[],
            namespaced: true,
            has_status: true,
            scale: None,
            has_generation: true,
            unconditional_update: false,
            strategic_merge: false,
            name_rule: NameRule::Subdomain,
            writers: Writers::Everyone,
            selectable: &[],
            review: None,
            requests: &[],
            description: "",
            schema: Arc::new(json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })),
            columns: Vec::new(),
            admit: Arc::new(|_, _| Ok(AdmittedObject::default())),
            fields: Arc::new(Schema::root(&Value::Null)),
            tracks_owners: true,
            has_short_history: false,
            holds_unstored: false,
            has_log: false,
            is_record: false,
            stored_at: None,
            conversion: None,
            is_deprecated: false,
            definition_labels: &[],
            own_labels: |_| Vec::new(),
            author_annotation: None,
            versions: Arc::new([]),
        }
    }

    pub fn cluster(group: &'static str, version: &'static str, kind: &'static str, plural: &'static str) -> Self {
        Self { namespaced: false, ..Self::namespaced(group, version, kind, plural) }
    }

    /// Adds the hook that checks and normalises objects.
    pub fn admitting(
        self,
        admit: impl Fn(&mut Value, Option<&Value>) -> Result<AdmittedObject, Vec<Cause>> + Send + Sync + 'static,
    ) -> Self {
        Self { admit: Arc::new(admit), ..self }
    }

    /// Adds the structural OpenAPI schema.
    pub fn with_schema(self, schema: Value) -> Self {
        Self { fields: Arc::new(Schema::root(&schema)), schema: Arc::new(schema), ..self }
    }

    /// "metal3.io/v1alpha1", or "v1" for the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.into() } else { format!("{}/{}", self.group, self.version) }
    }

    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(self.group, self.plural)
    }

    /// Where the objects are in the store.
    pub fn stored_resource(&self) -> GroupResource {
        let (group, plural) = self.stored_at.unwrap_or((self.group, self.plural));
        GroupResource::new(group, plural)
    }

    /// Whether objects of the kind are in the store, and as this version has them.
    pub fn is_stored(&self) -> bool {
        self.review.is_none() && self.conversion.is_none()
    }

    /// Whether it is none of Kubernetes' own kinds. Their groups have no dot, or end in k8s.io.
    pub fn is_custom(&self) -> bool {
        self.group.contains('.') && !self.group.ends_with(".k8s.io")
    }

    /// The singular as given, or the kind in small letters.
    pub fn singular_name(&self) -> String {
        if self.singular.is_empty() { self.kind.to_lowercase() } else { self.singular.into() }
    }
}

impl fmt::Debug for KindInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KindInfo({}, Kind={})", self.api_version(), self.kind)
    }
}

pub(crate) fn is_namespace(kind: &KindInfo) -> bool {
    kind.group.is_empty() && kind.kind == "Namespace"
}

/// Nothing of such an object is in a message.
pub(crate) fn is_secret(kind: &KindInfo) -> bool {
    kind.group.is_empty() && kind.kind == "Secret"
}
