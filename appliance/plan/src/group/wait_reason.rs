//! Why a host gets nothing of its group: of those that wait, and of those that no group installs.

use firesteel_resources::host_group::{SKIPPED_CHARS_MAX, SKIPPED_HOSTS_MAX, SkippedHost};

use super::{Gives, GroupHostInputs, GroupHostStage, GroupInputs, ImageAssignment};

/// A reason as one word and in words, without a time: it is shown for a host as long as it is so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupWait {
    pub reason: GroupWaitReason,
    pub message: String,
}

impl GroupWait {
    #[must_use]
    pub fn new(reason: GroupWaitReason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupWaitReason {
    /// Several groups select it.
    Contested,
    NoStub,
    /// The group has no image that may be given.
    NoImage,
    Held,
    /// Others try the image first.
    CanaryFirst,
    CanaryHalted,
    OtherArchitecture,
    /// No image is for the sectors of its disk.
    NoImageForSectors,
    Fought,
    /// It has its image, or would get it, and is not installed as it stands.
    NotReady,
    /// It has an image that no group gave it.
    OwnImage,
    /// It belongs to another owner, or nothing may be written to its disks.
    NotToInstall,
}

impl GroupWaitReason {
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Contested => "Contested",
            Self::NoStub => "NoStub",
            Self::NoImage => "NoImage",
            Self::Held => "Held",
            Self::CanaryFirst => "CanaryFirst",
            Self::CanaryHalted => "CanaryHalted",
            Self::OtherArchitecture => "OtherArchitecture",
            Self::NoImageForSectors => "NoImageForSectors",
            Self::Fought => "Fought",
            Self::NotReady => "NotReady",
            Self::OwnImage => "OwnImage",
            Self::NotToInstall => "NotToInstall",
        }
    }
}

/// Why this host gets nothing now. `None`: it is installed or being installed, or nothing keeps it from that.
pub(super) fn of(host: &GroupHostInputs, gives: &Gives) -> Option<GroupWait> {
    if let GroupHostStage::Foreign(why) = &host.stage {
        return Some(why.clone());
    }
    match gives.get(&host.name) {
        Some(ImageAssignment::Wait(why)) => Some(match &host.not_ready {
            // Where no host is ready to be a canary, all would wait for one in silence.
            Some(own) if why.reason == GroupWaitReason::CanaryFirst && host.stage == GroupHostStage::ToInstall => {
                GroupWait::new(GroupWaitReason::NotReady, format!("{own}; {}", why.message))
            }
            Some(_) | None => why.clone(),
        }),
        Some(ImageAssignment::Image(_)) if host.is_fought => {
            let message = "something else sets back what the group writes to it: find and stop the other writer, then \
                           change the group's spec";
            Some(GroupWait::new(GroupWaitReason::Fought, message))
        }
        // What failed is cleaned before it is tried again: it is shown as failed.
        Some(ImageAssignment::Image(_)) if host.stage == GroupHostStage::ToInstall => {
            host.not_ready.as_ref().map(|why| GroupWait::new(GroupWaitReason::NotReady, why.clone()))
        }
        Some(ImageAssignment::Image(_)) | None => None,
    }
}

/// Each host that gets nothing, by name, up to a bound. Those that wait for canaries come last: there may be thousands
/// of them, and they need no help.
pub(super) fn skipped(seen: &GroupInputs<'_>, gives: &Gives) -> Vec<SkippedHost> {
    let mut all: Vec<(bool, &str, GroupWait)> = seen
        .hosts
        .iter()
        .filter_map(|host| Some((host, of(host, gives)?)))
        .map(|(host, why)| (why.reason == GroupWaitReason::CanaryFirst, host.name.as_str(), why))
        .collect();
    all.sort_by(|one, other| (one.0, one.1).cmp(&(other.0, other.1)));
    let told = all.into_iter().take(SKIPPED_HOSTS_MAX).map(|(_, name, why)| SkippedHost {
        name: name.to_owned(),
        reason: why.reason.word().to_owned(),
        message: short(&why.message),
    });
    told.collect()
}

/// A message may have another's URL or log in it.
fn short(message: &str) -> String {
    if message.chars().count() <= SKIPPED_CHARS_MAX {
        return message.to_owned();
    }
    let mut short: String = message.chars().take(SKIPPED_CHARS_MAX - 1).collect();
    short.push('…');
    short
}
