//! Which sets have their boot images kept current, and what is done with each (S1-3.1, S1-3.2). Pure.
//!
//! A *set* is a HostGroup, or a MachineSet of the Machine API or of Cluster API. What is seen of everything goes in,
//! one decision for each set comes out; the caller performs them and tells failures by [`PolicyMemory::failed`].
//!
//! ```text
//!   policy ─► effective setting ─┐
//!   sets ────────────────────────┴► 1 selected? ─► 2 owned? 3 of another OS? (ownership) ─► 4 architecture
//!        ─► 5 an image of ours? 6 as golden? (image) ─► 7 stub ─► held by an upgrade? ─► 8 hot loop (writes)
//!        ─► failed just now? (tries) ─► 9 Patch
//! ```
//!
//! A rule is a file, and says [`SetDecision`] or lets the set pass. Each set that is left alone has a reason, which the
//! summary names. A set that leaves the selection or opts out keeps its image as it is and is forgotten, so that it
//! begins again when it comes back.
//!
//! Upstream polls until the status has observed the spec before it begins; here both are of one step, and nothing is
//! waited for. Upstream holds its whole sync while an upgrade runs; here only what would be written is held, so that
//! the summary stays true.

mod architecture;
mod catalogue;
mod image;
mod ownership;
mod set;
mod set_tries;
mod stub;
mod summary;
mod write_counts;

use std::collections::{BTreeMap, BTreeSet};

use firesteel_facts::Architecture;
use firesteel_resources::MachineConfiguration;
use firesteel_resources::condition::Condition;
use firesteel_resources::host_group::ImageReference;
use firesteel_resources::machine_configuration::{ManagedBootImages, SelectionMode, SetSelection, SkippedBootImage};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use architecture::of as architecture_of;
pub use catalogue::{
    Catalogue, CatalogueImage, CatalogueMatch, FormerImage, GoldenImageMissing, ImageForm, for_sectors,
};
pub use set::{CurrentImage, PolicySet, SetIntent, SetKey, SetKind};
pub use set_tries::{TRIES_WITH_BACKOFF, delay};
pub use stub::StubOutcome;
pub use summary::{DEGRADED, PROGRESSING, Trigger};
pub use write_counts::WRITES_MAX;

/// Everything that a step may look at.
#[derive(Clone, Copy, Debug)]
pub struct PolicyInputs<'a> {
    pub policy: Option<&'a MachineConfiguration>,
    pub catalogue: &'a Catalogue,
    pub sets: &'a [PolicySet],
    /// Architectures of all hosts that were inspected.
    pub fleet: &'a BTreeSet<Architecture>,
    /// An upgrade of the appliance, or of the cluster, is under way; which one, in words.
    pub upgrade: Option<&'a str>,
    /// What woke this step; the conditions' reason.
    pub trigger: Trigger,
    pub now: Timestamp,
}

/// What is done with a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetDecision {
    /// No policy asks for it. It is not counted.
    NotSelected,
    /// It has the golden image, and its stub is well.
    Done,
    Patch {
        /// The image that it gets; `None` where it has it already.
        reference: Option<ImageReference>,
        /// Its stub is rewritten.
        stub: bool,
    },
    /// It would be patched, or will be; what it waits for.
    Wait(String),
    Skip(SkippedSet),
    /// Why it cannot be brought to the golden image, and what to do.
    Degraded(String),
}

/// A set that is left alone, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedSet {
    pub reason: SkipReason,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkipReason {
    Owned,
    Migrated,
    OptedOut,
    OtherStream,
    StreamUnclear,
    OtherSystem,
    ArchitectureUnknown,
    CustomImage,
    NoImage,
    TemplateNotHere,
    Pinned,
    Restored,
}

impl SkipReason {
    /// Deliberate exclusions by upstream's rules are named and not counted.
    #[must_use]
    pub fn is_counted(self) -> bool {
        match self {
            Self::OtherStream | Self::OtherSystem => false,
            Self::StreamUnclear
            | Self::Owned
            | Self::Migrated
            | Self::OptedOut
            | Self::ArchitectureUnknown
            | Self::CustomImage
            | Self::NoImage
            | Self::TemplateNotHere
            | Self::Pinned
            | Self::Restored => true,
        }
    }

    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Owned => "Owned",
            Self::Migrated => "MigratedToClusterAPI",
            Self::OptedOut => "OptedOut",
            Self::OtherStream => "OtherOSStream",
            Self::StreamUnclear => "OSStreamUnclear",
            Self::OtherSystem => "OtherOperatingSystem",
            Self::ArchitectureUnknown => "ArchitectureUnknown",
            Self::CustomImage => "CustomImage",
            Self::NoImage => "NoImage",
            Self::TemplateNotHere => "TemplateNotHere",
            Self::Pinned => "Pinned",
            Self::Restored => "Restored",
        }
    }
}

/// What is remembered from step to step. It is stored before a patch is performed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyMemory {
    sets: BTreeMap<SetKey, SetMemory>,
    /// Start of the time in which the default holds, since no policy is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_since: Option<Timestamp>,
}

/// What is remembered of one set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SetMemory {
    image: write_counts::WriteCount,
    stub: write_counts::WriteCount,
    tries: set_tries::SetTries,
    /// What the newest patch had: an image, a stub.
    patch: (bool, bool),
}

impl PolicyMemory {
    /// Takes note of a patch that could not be performed. What was not written does not count as written.
    pub fn failed(&mut self, key: &SetKey, message: &str, now: Timestamp) {
        let memory = self.sets.entry(key.clone()).or_default();
        let (image, stub) = std::mem::take(&mut memory.patch);
        if image {
            memory.image.take_back();
        }
        if stub {
            memory.stub.take_back();
        }
        memory.tries.failed(message, now);
    }
}

#[derive(Clone, Debug)]
pub struct PolicyStep {
    /// The value of `status.managedBootImagesStatus`.
    pub effective: ManagedBootImages,
    pub decisions: BTreeMap<SetKey, SetDecision>,
    pub memory: PolicyMemory,
    /// When to look again, though nothing happens.
    pub wake: Option<Timestamp>,
    /// [`PROGRESSING`] and [`DEGRADED`].
    pub conditions: [Condition; 2],
    /// The value of `status.skippedBootImages`.
    pub skipped: Vec<SkippedBootImage>,
}

#[must_use]
pub fn decide(seen: &PolicyInputs<'_>, memory: &PolicyMemory) -> PolicyStep {
    let wanted = seen.policy.and_then(|policy| policy.spec.managed_boot_images.as_ref());
    let effective = ManagedBootImages::effective(wanted);
    let is_default = wanted.is_none_or(|wanted| wanted.machine_managers.is_none());
    // Sets that are gone are forgotten: only those that are seen are taken over.
    let mut next = PolicyMemory {
        sets: BTreeMap::new(),
        default_since: is_default.then(|| memory.default_since.unwrap_or(seen.now)),
    };
    let mut decisions = BTreeMap::new();
    for set in seen.sets {
        let mut own = memory.sets.get(&set.key).cloned().unwrap_or_default();
        let decision =
            decide_set(seen, effective.selection(set.key.kind.resource(), set.key.kind.api_group()), set, &mut own);
        if own != SetMemory::default() {
            next.sets.insert(set.key.clone(), own);
        }
        decisions.insert(set.key.clone(), decision);
    }
    let wake = next.sets.values().filter_map(|own| own.tries.next(seen.now)).min();
    let generation = seen.policy.map_or(0, |policy| policy.metadata.generation);
    let retried = next.sets.iter().filter(|(key, _)| matches!(decisions.get(key), Some(SetDecision::Patch { .. })));
    let retried = retried.filter_map(|(key, own)| Some((key.clone(), own.tries.tried()?))).collect();
    let conditions = summary::conditions(&decisions, &retried, seen.trigger, generation);
    let skipped = summary::skipped(&decisions);
    PolicyStep { effective, decisions, memory: next, wake, conditions, skipped }
}

fn decide_set(
    seen: &PolicyInputs<'_>,
    selection: Option<&SetSelection>,
    set: &PolicySet,
    memory: &mut SetMemory,
) -> SetDecision {
    if !is_selected(selection, set) {
        *memory = SetMemory::default();
        return SetDecision::NotSelected;
    }
    if let Some(skip) = ownership::of_another(set) {
        *memory = SetMemory::default();
        return SetDecision::Skip(skip);
    }
    match work(seen, set) {
        Err(decision) => {
            if decision == SetDecision::Done {
                (memory.tries, memory.patch) = Default::default();
            }
            decision
        }
        Ok(work) => write(seen, set, work, memory),
    }
}

/// Why the policy leaves a set as it is, whatever its image: it is not selected, or another owner changes it.
#[must_use]
pub fn leaves_alone(policy: Option<&MachineConfiguration>, set: &PolicySet) -> Option<String> {
    let effective = ManagedBootImages::effective(policy.and_then(|policy| policy.spec.managed_boot_images.as_ref()));
    if !is_selected(effective.selection(set.key.kind.resource(), set.key.kind.api_group()), set) {
        return Some("managedBootImages of the MachineConfiguration does not select the group".to_owned());
    }
    ownership::of_another(set).map(|skip| skip.message)
}

fn is_selected(selection: Option<&SetSelection>, set: &PolicySet) -> bool {
    let Some(SetSelection { mode, partial }) = selection.filter(|_| !set.is_deleting) else { return false };
    match mode {
        SelectionMode::All => true,
        SelectionMode::None => false,
        SelectionMode::Partial => {
            partial.as_ref().is_some_and(|partial| partial.machine_resource_selector.matches(&set.labels))
        }
    }
}

/// What is to be written, by the rules that look at a set and remember nothing.
struct PendingSetWrite {
    reference: Option<ImageReference>,
    /// What the stub is to be, by its digest.
    stub: Option<String>,
}

/// An error is the decision of the first rule that stops the set.
fn work(seen: &PolicyInputs<'_>, set: &PolicySet) -> Result<PendingSetWrite, SetDecision> {
    let followed = ownership::stream(set, seen.catalogue)?;
    let architecture = architecture::of(set, seen.fleet)?;
    let (stream, form) = image::stream_of_image(set, followed, seen.catalogue)?;
    let golden = image::golden(seen.catalogue, &stream, architecture, form)?;
    let stub = stub::rule(&set.stub)?;
    let is_there = image::is(&set.current, golden) || seen.catalogue.is_ahead(&set.current, golden);
    let reference = (!is_there).then(|| golden.clone());
    if reference.is_none() && stub.is_none() { Err(SetDecision::Done) } else { Ok(PendingSetWrite { reference, stub }) }
}

/// The rules that remember: an upgrade holds, a hot loop stops, a failure waits.
fn write(seen: &PolicyInputs<'_>, set: &PolicySet, work: PendingSetWrite, memory: &mut SetMemory) -> SetDecision {
    if let Some(upgrade) = seen.upgrade {
        return SetDecision::Wait(format!("{upgrade} is under way: boot images are changed when it has ended"));
    }
    let PendingSetWrite { reference, stub } = work;
    // An image that is at another place now is another value, though its bytes are the same.
    let value = reference.as_ref().map(|image| format!("{} {}", image.digest, image.url));
    let value = value.as_deref();
    memory.tries.aim(&[value, stub.as_deref()]);
    if let Some(message) = memory.tries.holds(seen.now) {
        return SetDecision::Degraded(message);
    }
    // Both are looked at before either is counted.
    let loops = [(&memory.image, value, "boot image"), (&memory.stub, stub.as_deref(), "stub")];
    if let Some(message) = loops.iter().find_map(|(writes, value, what)| writes.refuses((*value)?, what, &set.key)) {
        return SetDecision::Degraded(message);
    }
    if let Some(value) = value {
        memory.image.count(value);
    }
    if let Some(value) = stub.as_deref() {
        memory.stub.count(value);
    }
    memory.patch = (reference.is_some(), stub.is_some());
    SetDecision::Patch { reference, stub: stub.is_some() }
}
