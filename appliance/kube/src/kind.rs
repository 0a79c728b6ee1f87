//! What the API knows of a kind, and the table of kinds that one server serves.
//!
//! The kind's owner supplies the hook that checks and normalises its objects; everything that is
//! alike for all kinds is in [`crate::rules`].

use std::fmt;
use std::sync::Arc;

use firesteel_store::GroupResource;
use serde_json::{Value, json};

use crate::apply::Schema;
use crate::convert::{Conversion, Version};
use crate::issue::Request;
use crate::reviews::Review;
use crate::scale::Scale;
use crate::status::Cause;

/// What a kind's hook found in an object that it accepts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Admitted {
    /// Told to the client, each as one `Warning` header.
    pub warnings: Vec<String>,
    /// Paths ("spec.foo") that the kind does not have. The hook has dropped them from the object;
    /// whether that is an error, a warning or nothing is the client's choice.
    pub unknown_fields: Vec<String>,
}

/// Checks and normalises an object (defaults, unknown fields) before it is stored. The second
/// argument is the stored object of an update. The object's `metadata` is already checked; changes
/// to it are ignored.
pub type Admit = Arc<dyn Fn(&mut Value, Option<&Value>) -> Result<Admitted, Vec<Cause>> + Send + Sync>;

/// A column of `kubectl get`.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub name: &'static str,
    /// "string", "integer", "boolean" or "date" (shown as an age).
    pub column_type: &'static str,
    pub description: &'static str,
    /// Above 0: only with `-o wide`.
    pub priority: u8,
    pub cell: Cell,
}

#[derive(Clone, Copy, Debug)]
pub enum Cell {
    /// Where the value is, as in ".status.provisioning.state" or
    /// ".status.conditions[?(@.type==\"Ready\")].status".
    Path(&'static str),
    Computed(fn(&Value) -> Value),
}

/// What a name may look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// RFC 1123 subdomain, for nearly all kinds.
    Subdomain,
    /// RFC 1123 label: names that become part of other names.
    Label,
    /// Whatever can stand in a path.
    PathSegment,
}

/// Who may write objects of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writers {
    /// Clients of the API, and controllers.
    Everyone,
    /// Controllers in this process alone; the API only shows the objects.
    Controllers,
    /// The same, but for labels and annotations, by which clients keep what they know of the objects.
    ControllersButLabels,
}

/// One kind. Made by [`KindInfo::namespaced`] or [`KindInfo::cluster`] and completed by struct
/// update.
#[derive(Clone)]
pub struct KindInfo {
    /// Empty for the core group.
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
    pub scale: Option<Scale>,
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
    pub review: Option<Review>,
    /// Parts of an object that answer requests.
    pub requests: &'static [Request],
    /// What the kind is for, as `kubectl explain` shows it.
    pub description: &'static str,
    /// The structural OpenAPI schema of the objects; what it says of `apiVersion`, `kind` and
    /// `metadata` does not count. As it is at first, it knows no field and allows all.
    pub schema: Arc<Value>,
    /// Which parts of an object have owners of their own: the schema's other form, made with it by
    /// [`KindInfo::with_schema`].
    pub fields: Arc<Schema>,
    /// Columns after the name. Without any, the age is shown.
    pub columns: Vec<Column>,
    pub admit: Admit,
    /// Keeps in `metadata.managedFields` who set which field. Of no use where one writer alone
    /// writes, and a cost where it writes often.
    pub tracks_owners: bool,
    /// What its objects said before is of use for minutes at most: they change often, and whoever follows
    /// them wants the newest.
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
    /// Of a version in which objects are not stored: how they become those of the stored one.
    pub conversion: Option<Conversion>,
    /// The version is going away, and who uses it is told so.
    pub is_deprecated: bool,
    /// Labels of the kind's definition, by which clients find out what it is for.
    pub definition_labels: &'static [(&'static str, &'static str)],
    /// Labels that follow from what an object says; it has them whatever its client sends.
    pub own_labels: fn(&Value) -> Vec<(&'static str, String)>,
    /// The annotation in which the server keeps who changed the spec last, whatever a client sends.
    pub author_annotation: Option<&'static str>,
    /// All versions of the kind, where there are several. [`Registry::new`] knows them.
    pub versions: Arc<[Version]>,
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
            admit: Arc::new(|_, _| Ok(Admitted::default())),
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

    /// The same kind with a hook.
    pub fn admitting(
        self,
        admit: impl Fn(&mut Value, Option<&Value>) -> Result<Admitted, Vec<Cause>> + Send + Sync + 'static,
    ) -> Self {
        Self { admit: Arc::new(admit), ..self }
    }

    /// The same kind with its structural OpenAPI schema.
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

    /// As given, or the kind in small letters.
    pub fn singular_name(&self) -> String {
        if self.singular.is_empty() { self.kind.to_lowercase() } else { self.singular.into() }
    }
}

impl fmt::Debug for KindInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KindInfo({}, Kind={})", self.api_version(), self.kind)
    }
}

/// All kinds of a server, in the order in which they are shown.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    kinds: Vec<Arc<KindInfo>>,
}

impl Registry {
    pub fn new(kinds: impl IntoIterator<Item = KindInfo>) -> Self {
        let mut kinds: Vec<KindInfo> = kinds.into_iter().collect();
        let all: Vec<(&str, &str, Version)> =
            kinds.iter().map(|kind| (kind.group, kind.plural, Version::of(kind))).collect();
        for kind in &mut kinds {
            let stored = kind.stored_at.unwrap_or((kind.group, kind.plural));
            let own = all.iter().filter(|(group, plural, _)| (*group, *plural) == stored);
            let versions: Vec<Version> = own.map(|(_, _, version)| version.clone()).collect();
            if versions.len() > 1 || kind.stored_at.is_some() {
                kind.versions = versions.into();
            }
        }
        Self { kinds: kinds.into_iter().map(Arc::new).collect() }
    }

    pub fn kinds(&self) -> &[Arc<KindInfo>] {
        &self.kinds
    }

    /// Each kind that has stored objects once, in the version in which they are stored.
    pub(crate) fn stored_kinds(&self) -> impl Iterator<Item = &Arc<KindInfo>> {
        self.kinds.iter().filter(|kind| kind.is_stored())
    }

    /// Where those of them are in the store whose history is short.
    pub fn short_histories(&self) -> impl Iterator<Item = GroupResource> {
        self.stored_kinds().filter(|kind| kind.has_short_history).map(|kind| kind.stored_resource())
    }

    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<KindInfo>> {
        self.kinds.iter().find(|kind| kind.group == group && kind.version == version && kind.plural == plural)
    }

    /// The kind of stored objects.
    pub(crate) fn stored(&self, resource: &GroupResource) -> Option<&Arc<KindInfo>> {
        self.stored_kinds().find(|kind| *kind.group == *resource.group && *kind.plural == *resource.resource)
    }

    /// The kind of a type, in the version in which its objects are stored: "metal3.io", "BareMetalHost".
    pub fn by_kind(&self, group: &str, kind: &str) -> Option<&Arc<KindInfo>> {
        self.kinds.iter().find(|info| info.conversion.is_none() && info.group == group && info.kind == kind)
    }

    /// Groups other than the core one in order of appearance, each with its versions: the first is
    /// the preferred one.
    pub fn groups(&self) -> Vec<(&'static str, Vec<&'static str>)> {
        let mut groups: Vec<(&'static str, Vec<&'static str>)> = Vec::new();
        for kind in self.kinds.iter().filter(|kind| !kind.group.is_empty()) {
            match groups.iter_mut().find(|(group, _)| *group == kind.group) {
                Some((_, versions)) if versions.contains(&kind.version) => {}
                Some((_, versions)) => versions.push(kind.version),
                None => groups.push((kind.group, vec![kind.version])),
            }
        }
        for (_, versions) in &mut groups {
            versions.sort_by_key(|version| std::cmp::Reverse(Maturity::of(version)));
        }
        groups
    }
}

/// How far a version is: beta before alpha, stable before both, and newer before older.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Maturity {
    /// Not a version as Kubernetes numbers them.
    Unknown,
    Alpha(u32, u32),
    Beta(u32, u32),
    Stable(u32),
}

impl Maturity {
    pub(crate) fn of(version: &str) -> Self {
        let parse = || {
            let rest = version.strip_prefix('v')?;
            let split = |word: &str| {
                let (major, minor) = rest.split_once(word)?;
                Some((major.parse().ok()?, minor.parse().ok()?))
            };
            if let Some((major, minor)) = split("alpha") {
                return Some(Self::Alpha(major, minor));
            }
            if let Some((major, minor)) = split("beta") {
                return Some(Self::Beta(major, minor));
            }
            rest.parse().ok().map(Self::Stable)
        };
        parse().unwrap_or(Self::Unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_mature_version_comes_first() {
        let versions = ["v1alpha1", "v2beta1", "v1", "v1beta2", "x", "v10", "v2", "v1alpha10"];
        let registry = Registry::new(versions.map(|version| KindInfo::cluster("a.example", version, "Toy", "toys")));
        let order = ["v10", "v2", "v1", "v2beta1", "v1beta2", "v1alpha10", "v1alpha1", "x"];
        assert_eq!(registry.groups(), [("a.example", order.to_vec())]);
    }
}
