//! How a group of hosts comes to a new image, and which image each host gets when it is installed next. Pure.
//!
//! The group's own status is the memory: a step takes it and gives the next one back. Nothing here installs anything: a
//! [`ImageAssignment::Image`] is what the caller writes into the spec of a host that is not provisioned; one that is,
//! is never named (S1.7).
//!
//! ```text
//!   wanted: restore ► own image ► pinned release ► golden (of plan::policy)
//!      │ mode all, or it was promoted before            ┌────────────► current, a history entry
//!      └ mode canary ─► the next N hosts get it ─ all of them running ─┘
//!                            └ one fails, or is late ─► halted: the others get the old image, if there is one
//! ```
//!
//! While a canary is tried, the others that are to be installed wait for it (S1.27). A halted image is tried again when
//! `spec.rollout.attempt` is raised, also after the group was restored or pinned to images that it had before; the
//! trial of another image takes the halt's place. While the group is [`GroupInputs::held`], its rollout stands still,
//! and a host that is installed gets what the group has, canaries too. A withdrawn release is not given to a group that
//! follows the stream, however far its rollout is; a group that pins or restores it by name may have it.

mod canary;
mod conflict;
mod forms;
mod history;
mod image_assignment;
mod report;
mod target;
mod wait_reason;

use std::collections::BTreeMap;

use firesteel_facts::Architecture;
use firesteel_resources::HostGroup;
use firesteel_resources::host_group::{HostGroupStatus, ImageReference};
use jiff::Timestamp;

use crate::policy::Catalogue;

pub use conflict::{Contested, GroupMember, contested};
pub use history::POLICY;
pub use wait_reason::{GroupWait, GroupWaitReason};

#[derive(Clone, Copy, Debug)]
pub struct GroupInputs<'a> {
    pub group: &'a HostGroup,
    /// The hosts that its selector selects.
    pub hosts: &'a [GroupHostInputs],
    pub catalogue: &'a Catalogue,
    /// Architecture of the group by [`crate::policy::architecture_of`]; `None` if it is not known.
    pub architecture: Option<Architecture>,
    /// Hosts of this group that another group selects, too.
    pub contested: &'a Contested,
    /// Why nothing new is given out of what the stream brings: its policy leaves the group alone, or an upgrade runs. A
    /// spec that names an image is not held.
    pub held: Option<&'a str>,
    /// Why hosts cannot be led to the group's pool: its stub is missing, or cannot be read.
    pub stub_fault: Option<&'a str>,
    /// Who changed the group's spec last.
    pub by: &'a str,
    pub now: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupHostInputs {
    pub name: String,
    /// Architecture by its newest inspection.
    pub architecture: Option<Architecture>,
    /// Sector size of the disk that would be written, if that is known.
    pub sector_bytes: Option<u32>,
    pub stage: GroupHostStage,
    /// Why it would not be installed at once with an image that it is given, in words: it is not inspected yet, or off,
    /// or a person holds it.
    pub not_ready: Option<String>,
    /// Something else sets back what the group writes to it, which has given up.
    pub is_fought: bool,
}

/// How far a host is with the images of groups. The image that it has is known by its digest; one that is of no group
/// and no stream makes it [`GroupHostStage::Foreign`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupHostStage {
    /// It is installed as soon as it is given an image; an image that it was given may have been taken back.
    ToInstall,
    /// It is being installed with this image.
    Installing(ImageReference),
    /// The image is on its disk.
    Provisioned(ImageReference),
    /// Its OS reported itself.
    Running(ImageReference),
    /// Its installation failed, or its OS reported that it could not be configured.
    Failed {
        image: ImageReference,
        message: String,
        at: Timestamp,
        /// The image is on its disk all the same: only its owner takes that away.
        is_on_disk: bool,
    },
    /// It has an image that no group gave it, or is not to be installed.
    Foreign(GroupWait),
}

impl GroupHostStage {
    /// Whether an image that it is given now comes onto its disk.
    #[must_use]
    pub fn is_open(&self) -> bool {
        match self {
            Self::ToInstall => true,
            Self::Failed { is_on_disk, .. } => !is_on_disk,
            Self::Installing(_) | Self::Provisioned(_) | Self::Running(_) | Self::Foreign(_) => false,
        }
    }
}

/// What a host that can be given an image gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageAssignment {
    Image(ImageReference),
    /// Nothing yet.
    Wait(GroupWait),
}

/// Assignments by the names of hosts.
pub type Gives = BTreeMap<String, ImageAssignment>;

#[derive(Clone, Debug, PartialEq)]
pub struct GroupStep {
    /// The group's status. It is stored before a host is given anything.
    pub status: HostGroupStatus,
    /// Assignments of all hosts that are not provisioned and are the group's.
    pub gives: Gives,
    /// When to look again, though nothing happens.
    pub wake: Option<Timestamp>,
}

#[must_use]
pub fn step(seen: &GroupInputs<'_>) -> GroupStep {
    let mut status = seen.group.status.clone();
    let target = target::of(seen);
    let wake = roll_out(seen, &target, &mut status);
    history::note_hosts(seen, &target, &mut status);
    history::trim(seen, &mut status);
    forms::note(seen, &mut status);
    let gives = image_assignment::gives(seen, &target, &status);
    report::write_group_status(seen, &target, &gives, &mut status);
    GroupStep { status, gives, wake }
}

/// Brings the group nearer to the image that is wanted.
fn roll_out(seen: &GroupInputs<'_>, target: &target::GroupTarget, status: &mut HostGroupStatus) -> Option<Timestamp> {
    let target::GroupTarget::Image { image, by, is_restored, .. } = target else {
        // There is nothing to try any more: what was on trial was withdrawn or taken back.
        status.canary = status.canary.take().filter(|canary| !canary::is_under_way(canary));
        return None;
    };
    if status.current.as_ref() == Some(image) {
        status.canary = status.canary.take().filter(|canary| canary.image == *image || canary::is_halted(canary));
        return None;
    }
    if target::held(seen, target, status).is_some() {
        canary::stand_still(seen, image, status);
        return None;
    }
    if *is_restored || !canary::is_asked_for(seen, image, status) {
        // Another image's halt is not forgotten: it may be wanted again.
        status.canary = status.canary.take().filter(|canary| canary.image != *image && canary::is_halted(canary));
        history::promote(image, by, seen.now, status);
        return None;
    }
    canary::advance(seen, image, by, status)
}
