//! A set as it is seen: made of the objects by [`PolicySet::of_group`] and [`PolicySet::of_machine_set`].

use std::{collections::BTreeMap, fmt};

use firesteel_resources::host_group::{ImageReference, OS_STREAM_LABELS, ReleaseTrack};
use firesteel_resources::machine_configuration::{HOST_GROUPS, MACHINE_SETS};
use firesteel_resources::{HostGroup, ObjectMeta, OwnerReference, machine_set};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::stub::StubOutcome;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SetKind {
    HostGroup,
    /// A MachineSet of machine.openshift.io.
    MachineApiSet,
    /// A MachineSet of cluster.x-k8s.io.
    ClusterApiSet,
}

impl SetKind {
    pub const ALL: [Self; 3] = [Self::HostGroup, Self::MachineApiSet, Self::ClusterApiSet];

    #[must_use]
    pub fn resource(self) -> &'static str {
        match self {
            Self::HostGroup => HOST_GROUPS,
            Self::MachineApiSet | Self::ClusterApiSet => MACHINE_SETS,
        }
    }

    /// Whether the images of such sets are named in objects that are here. Those of Cluster API name theirs in
    /// templates of a kind that is not: each is listed with that reason, and its image is not changed.
    #[must_use]
    pub fn is_brought_along(self) -> bool {
        match self {
            Self::HostGroup | Self::MachineApiSet => true,
            Self::ClusterApiSet => false,
        }
    }

    #[must_use]
    pub fn api_group(self) -> &'static str {
        match self {
            Self::HostGroup => "firesteel.dev",
            Self::MachineApiSet => "machine.openshift.io",
            Self::ClusterApiSet => "cluster.x-k8s.io",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct SetKey {
    pub kind: SetKind,
    pub namespace: String,
    pub name: String,
}

impl SetKey {
    #[must_use]
    pub fn new(kind: SetKind, namespace: &str, name: &str) -> Self {
        Self { kind, namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

/// Writes the key like `machinesets.machine.openshift.io/namespace/name`.
impl fmt::Display for SetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}/{}/{}", self.kind.resource(), self.kind.api_group(), self.namespace, self.name)
    }
}

impl From<SetKey> for String {
    fn from(key: SetKey) -> Self {
        key.to_string()
    }
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} does not name a set")]
pub struct SetKeyError(String);

impl TryFrom<String> for SetKey {
    type Error = SetKeyError;

    fn try_from(text: String) -> Result<Self, SetKeyError> {
        let mut parts = text.splitn(3, '/');
        let kind = parts.next().and_then(|word| {
            let is_it = |kind: &SetKind| word == format!("{}.{}", kind.resource(), kind.api_group());
            SetKind::ALL.into_iter().find(is_it)
        });
        match (kind, parts.next(), parts.next()) {
            (Some(kind), Some(namespace), Some(name)) => Ok(Self::new(kind, namespace, name)),
            _ => Err(SetKeyError(text)),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicySet {
    pub key: SetKey,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// The owners, like `MachineDeployment workers`.
    pub owners: Vec<String>,
    /// Authority over it was moved to Cluster API.
    pub is_migrated: bool,
    pub is_deleting: bool,
    /// The architecture that its spec names; empty for none.
    pub architecture: String,
    pub wants: SetIntent,
    pub current: CurrentImage,
    /// The stream that it was of when it was last looked at, where its image tells that of several.
    pub followed: Option<String>,
    pub stub: StubOutcome,
}

/// What its own spec asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetIntent {
    /// The newest release of this stream.
    Stream(String),
    /// The newest release of the stream that its image is of: a MachineSet names no stream.
    SameStream,
    Pinned,
    /// The image of an entry of its history.
    Restored(u32),
    /// An image of one's own.
    Own,
}

/// The image that it names now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CurrentImage {
    Nothing,
    /// The digest may be empty.
    Image {
        url: String,
        digest: String,
    },
    /// It stands in another object, of a kind that is not here: which one, in words.
    Elsewhere(String),
}

impl From<&ImageReference> for CurrentImage {
    fn from(image: &ImageReference) -> Self {
        Self::Image { url: image.url.clone(), digest: image.digest.clone() }
    }
}

impl PolicySet {
    fn new(kind: SetKind, metadata: &ObjectMeta, wants: SetIntent, current: CurrentImage, stub: StubOutcome) -> Self {
        let word = |owner: &OwnerReference| format!("{} {}", owner.kind, owner.name);
        Self {
            key: SetKey::new(kind, &metadata.namespace, &metadata.name),
            labels: metadata.labels.clone(),
            annotations: metadata.annotations.clone(),
            owners: metadata.owner_references.iter().map(word).collect(),
            is_migrated: false,
            is_deleting: metadata.is_deleting(),
            architecture: String::new(),
            wants,
            current,
            followed: None,
            stub,
        }
    }

    /// What the policy writes into a group is `status.golden`; what becomes of it is the group's rollout.
    #[must_use]
    pub fn of_group(group: &HostGroup, stub: StubOutcome) -> Self {
        let spec = &group.spec;
        let wants = match (&spec.restore, spec.image.track) {
            (Some(restore), _) => SetIntent::Restored(restore.entry),
            (None, _) if !spec.image.url.is_empty() => SetIntent::Own,
            (None, ReleaseTrack::Pinned) => SetIntent::Pinned,
            (None, ReleaseTrack::Latest) => SetIntent::Stream(spec.image.stream.clone()),
        };
        let current = group.status.golden.as_ref().map_or(CurrentImage::Nothing, CurrentImage::from);
        let set = Self::new(SetKind::HostGroup, &group.metadata, wants, current, stub);
        Self { architecture: spec.architecture.clone(), ..set }
    }

    /// The label that names its stream, and the stream.
    pub(super) fn stream_label(&self) -> Option<(&'static str, &str)> {
        OS_STREAM_LABELS.into_iter().find_map(|label| Some((label, self.labels.get(label)?.as_str())))
    }

    /// Streams that are preferred if several have its image: that of its label, then the last one.
    #[must_use]
    pub fn preferred_streams(&self) -> Vec<&str> {
        let label = self.stream_label().map(|(_, named)| named);
        label.into_iter().chain(self.followed.as_deref()).collect()
    }

    /// A MachineSet of either group, with its metadata read.
    #[must_use]
    pub fn of_machine_set(kind: SetKind, metadata: &ObjectMeta, object: &Value, stub: StubOutcome) -> Self {
        let current = match kind {
            SetKind::HostGroup | SetKind::MachineApiSet => match machine_set::image(object) {
                Some(image) => CurrentImage::Image { url: image.url, digest: image.checksum },
                None => CurrentImage::Nothing,
            },
            SetKind::ClusterApiSet => {
                let template = &object["spec"]["template"]["spec"]["infrastructureRef"];
                let text = |name: &str| template[name].as_str().unwrap_or_default();
                CurrentImage::Elsewhere(format!("{} {}", text("kind"), text("name")).trim().to_owned())
            }
        };
        let set = Self::new(kind, metadata, SetIntent::SameStream, current, stub);
        Self { is_migrated: kind == SetKind::MachineApiSet && machine_set::is_migrated(object), ..set }
    }
}
