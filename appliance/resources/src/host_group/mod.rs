//! `HostGroup` (firesteel.dev/v1alpha1): hosts that are installed alike, chosen by labels, for those who use no
//! machines: which image they get, which pool's stub, and how a new image is rolled out. Namespaced: it is about hosts
//! of its own namespace. What becomes of it decides `plan::group`; which image is golden decides `plan::policy`.
//!
//! A host that is provisioned already is never touched: a group says what its hosts get when they are installed next.

mod shape;

use std::collections::BTreeMap;

use firesteel_facts::shown_url;
use firesteel_kube_types::{Cause, ObjectMeta};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::admit::typed;
use crate::bare_metal_host::image_form::unwritable;
use crate::bare_metal_host::{Image, rules as host_rules};
use crate::condition::Condition;
use crate::kind::{AGE, FIRESTEEL, Kind, KindColumn, RuleVerdict, V1ALPHA1, column};
use crate::selector::Selector;
use crate::zero::is_zero;

pub use shape::{
    ARCHITECTURES, DEADLINE_SECONDS_DEFAULT, HISTORY_MAX, HOST_HISTORY_MAX, SKIPPED_CHARS_MAX, SKIPPED_HOSTS_MAX,
};

/// The label of a set or a group by which, with the value `false`, its boot image is left alone.
pub const MANAGED_LABEL: &str = "firesteel.dev/managed-boot-images";
/// Labels of a set or a group that name its OS stream: ours, and upstream's.
pub const OS_STREAM_LABELS: [&str; 2] = ["firesteel.dev/os-stream", "machineconfiguration.openshift.io/osstream"];
/// Annotations that tell a set's architecture: our own, and the autoscaler's labels as `kubernetes.io/arch=amd64,…`.
pub const ARCHITECTURE_ANNOTATION: &str = "firesteel.dev/architecture";
pub const CAPACITY_LABELS_ANNOTATION: &str = "capacity.cluster-autoscaler.kubernetes.io/labels";

/// The annotation of a group that says who changed its spec last. The server alone writes it.
pub const CHANGED_BY_ANNOTATION: &str = "firesteel.dev/changed-by";

/// An image is being tried or given out.
pub const PROGRESSING: &str = "Progressing";
pub const DEGRADED: &str = "Degraded";
/// A canary failed or was late; no host gets the new image.
pub const CANARY_HALTED: &str = "CanaryHalted";

pub const KIND: Kind = Kind {
    short_names: &["hg"],
    has_status: true,
    columns: &[
        column("Stream", ".spec.image.stream", "The stream that it follows", 0),
        column("Current", ".status.current.release", "The release that its hosts get", 0),
        column("Golden", ".status.golden.release", "The release that they are to get", 0),
        column("Canary", ".status.canary.state", "How the trial of a new image stands", 0),
        count("Hosts", ".status.hosts.total", "Hosts of the group"),
        count("Running", ".status.hosts.running", "Hosts whose OS reported itself"),
        column("Pool", ".spec.pool", "Whose stub they get", 1),
        AGE,
    ],
    author_annotation: Some(CHANGED_BY_ANNOTATION),
    about: "Hosts that are installed alike: which image they get, and how a new one is rolled out.",
    rules: |new, old| {
        typed(new, old, |new: &HostGroup, old| RuleVerdict { causes: causes(new, old), unacted: unacted(new) })
    },
    ..Kind::new(FIRESTEEL, V1ALPHA1, "HostGroup", "hostgroups", "hostgroup", &shape::SHAPE)
};

const fn count(name: &'static str, json_path: &'static str, description: &'static str) -> KindColumn {
    KindColumn { type_: "integer", ..column(name, json_path, description, 0) }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HostGroup {
    pub api_version: String,
    pub kind: String,
    pub metadata: ObjectMeta,
    pub spec: HostGroupSpec,
    pub status: HostGroupStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HostGroupSpec {
    pub selector: Selector,
    pub image: GroupImage,
    /// Architecture of all its hosts; empty if an annotation or the fleet says it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub architecture: String,
    /// Is empty for hosts that have user data of their own.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pool: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub rollout: Rollout,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restore: Option<Restore>,
}

/// A stream, or an image of one's own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupImage {
    /// The name of a BootImageStream.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stream: String,
    pub track: ReleaseTrack,
    /// The release, with [`ReleaseTrack::Pinned`].
    #[serde(skip_serializing_if = "String::is_empty")]
    pub release: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub digest: String,
    /// Stands instead of a stream.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub url: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub checksum: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReleaseTrack {
    #[default]
    Latest,
    Pinned,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rollout {
    pub mode: RolloutMode,
    /// How many hosts try a new image; see [`Rollout::canaries`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canaries: Option<u32>,
    /// How long a canary may take until it is running; see [`Rollout::deadline_seconds`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_seconds: Option<i64>,
    /// A higher number tries again an image whose canary halted.
    #[serde(skip_serializing_if = "is_zero")]
    pub attempt: u32,
}

impl Rollout {
    #[must_use]
    pub fn canaries(&self) -> usize {
        self.canaries.and_then(|count| usize::try_from(count).ok()).unwrap_or(1).max(1)
    }

    #[must_use]
    pub fn deadline_seconds(&self) -> i64 {
        self.deadline_seconds.unwrap_or(DEADLINE_SECONDS_DEFAULT)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RolloutMode {
    #[default]
    All,
    Canary,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Restore {
    /// Number of the entry in [`HostGroupStatus::history`].
    pub entry: u32,
}

/// An image that hosts get. One of a person's own has a URL and a checksum, and no stream and release.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ImageReference {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stream: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub release: String,
    /// What the bytes behind the URL are checked by.
    pub digest: String,
    pub url: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HostGroupStatus {
    #[serde(skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    /// What the policy says that its hosts are to get.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub golden: Option<ImageReference>,
    /// What they get.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<ImageReference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous: Option<ImageReference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<Canary>,
    /// Images of the group and of its hosts, the oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<HistoryEntry>,
    /// The highest number that an entry ever had.
    #[serde(skip_serializing_if = "is_zero")]
    pub last_entry: u32,
    /// Digests of the images that stand here in their forms for sectors of another size, each with the digest by which
    /// the image stands here.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub other_forms: BTreeMap<String, String>,
    pub hosts: HostCounts,
    /// Each host that gets nothing now: it waits, or no group installs it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skipped_hosts: Vec<SkippedHost>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// The trial of an image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Canary {
    pub image: ImageReference,
    pub state: CanaryState,
    /// The [`Rollout::attempt`] that it belongs to.
    #[serde(skip_serializing_if = "is_zero")]
    pub attempt: u32,
    pub since: Timestamp,
    pub hosts: Vec<CanaryHost>,
    /// Why it halted.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CanaryState {
    #[default]
    Trying,
    Promoted,
    Halted,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CanaryHost {
    pub name: String,
    /// When it was given the image.
    pub since: Timestamp,
    pub running: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HistoryEntry {
    /// Is never given twice in a group; `spec.restore.entry` names it.
    pub entry: u32,
    #[serde(flatten)]
    pub image: ImageReference,
    pub at: Timestamp,
    /// Who brought it about: the person with the program that the person used, or the policy.
    pub by: String,
    /// The host that got the image; empty where the whole group came to it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub host: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HostCounts {
    pub total: u32,
    /// Hosts that are to be installed, and held back for a reason.
    pub waiting: u32,
    pub installing: u32,
    /// Hosts that are installed and whose OS has not reported yet.
    pub provisioned: u32,
    pub running: u32,
    pub failed: u32,
    /// Other hosts: they have an image of their own, or are not to be installed.
    pub foreign: u32,
}

/// A host that gets nothing of the group now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SkippedHost {
    pub name: String,
    /// The reason as one word.
    pub reason: String,
    pub message: String,
}

/// What is wrong with a new group, or with a change of `old`.
#[must_use]
pub fn causes(new: &HostGroup, old: Option<&HostGroup>) -> Vec<Cause> {
    let spec = &new.spec;
    let mut causes = Vec::new();
    if spec.selector.is_empty() {
        let why = "must name a label: a group of all hosts of the namespace would install whatever is put there";
        causes.push(Cause::required("spec.selector", why));
    }
    if let Err(why) = spec.selector.check() {
        causes.push(Cause::invalid("spec.selector", &spec.selector.to_string(), &why.to_string()));
    }
    image_causes(&spec.image, old.map(|old| &old.spec.image), &mut causes);
    let rollout = &spec.rollout;
    if rollout.mode == RolloutMode::All && rollout.canaries.is_some() {
        causes.push(Cause::forbidden("spec.rollout.canaries", "only mode canary has canaries"));
    }
    causes
}

fn image_causes(image: &GroupImage, old: Option<&GroupImage>, causes: &mut Vec<Cause>) {
    const OWN: &str = "an image of one's own is of no stream";
    match (image.stream.is_empty(), image.url.is_empty()) {
        (true, true) => causes.push(Cause::required("spec.image", "a stream, or a url with its checksum")),
        (false, false) => causes.push(Cause::forbidden("spec.image.url", OWN)),
        (false, true) => {
            let has_pin = !image.release.is_empty() || !image.digest.is_empty();
            if !image.checksum.is_empty() {
                causes.push(Cause::forbidden("spec.image.checksum", "images of a stream have theirs"));
            }
            match (image.track, has_pin) {
                (ReleaseTrack::Pinned, false) => {
                    causes.push(Cause::required("spec.image.release", "or a digest: what the group is pinned to"));
                }
                (ReleaseTrack::Latest, true) => {
                    let why = "the newest release is tracked; to stay at one, set track to pinned";
                    causes.push(Cause::forbidden("spec.image.track", why));
                }
                (ReleaseTrack::Pinned, true) | (ReleaseTrack::Latest, false) => {}
            }
        }
        (true, false) => {
            // As a host's own image is judged.
            let as_own = |image: &GroupImage| Image {
                url: image.url.clone(),
                checksum: image.checksum.clone(),
                ..Image::default()
            };
            host_rules::image(&as_own(image), old.map(as_own).as_ref(), causes);
            // A group is ours alone: an image that nothing writes is refused.
            if let Some((field, why)) = unwritable(&as_own(image)) {
                causes.push(Cause::invalid(field, &shown_url(&image.url), why));
            }
            for (field, value) in [("release", &image.release), ("digest", &image.digest)] {
                if !value.is_empty() {
                    causes.push(Cause::forbidden(&format!("spec.image.{field}"), OWN));
                }
            }
            if image.track == ReleaseTrack::Pinned {
                causes.push(Cause::forbidden("spec.image.track", OWN));
            }
        }
    }
}

fn unacted(new: &HostGroup) -> Vec<String> {
    let rollout = &new.spec.rollout;
    let is_idle = rollout.mode == RolloutMode::All && (rollout.deadline_seconds.is_some() || rollout.attempt != 0);
    let why = "spec.rollout.deadlineSeconds and attempt are accepted but not acted on: only mode canary has a trial";
    is_idle.then(|| why.to_owned()).into_iter().collect()
}

#[cfg(test)]
mod tests;
