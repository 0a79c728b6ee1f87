//! Which image each host gets that is not provisioned.

use firesteel_resources::host_group::{CanaryState, HostGroupStatus, ImageReference};

use super::target::{self, GroupTarget};
use super::{Gives, GroupHostInputs, GroupInputs, GroupWait, GroupWaitReason, ImageAssignment, canary};

/// Sectors that images are made for: an image for the one boots from no disk with the other.
const SECTOR_BYTES: [u32; 2] = [512, 4096];

/// What an open host gets, each by name.
pub(super) fn gives(seen: &GroupInputs<'_>, target: &GroupTarget, status: &HostGroupStatus) -> Gives {
    let open = seen.hosts.iter().filter(|host| host.stage.is_open());
    open.map(|host| (host.name.clone(), give(seen, target, status, host))).collect()
}

fn give(
    seen: &GroupInputs<'_>,
    target: &GroupTarget,
    status: &HostGroupStatus,
    host: &GroupHostInputs,
) -> ImageAssignment {
    let checked = |image: &ImageReference| match obstacle(seen, image, host) {
        Some(why) => ImageAssignment::Wait(why),
        None => ImageAssignment::Image(image.clone()),
    };
    if let Some(why) = conflict(seen, host) {
        return ImageAssignment::Wait(why);
    }
    if let Some(why) = seen.stub_fault {
        return ImageAssignment::Wait(GroupWait::new(GroupWaitReason::NoStub, why));
    }
    let held = target::held(seen, target, status);
    let halted = match &status.canary {
        Some(canary) if canary.state == CanaryState::Trying && held.is_none() => {
            if canary.hosts.iter().any(|own| own.name == host.name) {
                return checked(&canary.image);
            }
            // What keeps it from the image is shown although it waits: no canary helps it.
            let why = obstacle(seen, &canary.image, host);
            return ImageAssignment::Wait(
                why.unwrap_or_else(|| GroupWait::new(GroupWaitReason::CanaryFirst, canary::reason(canary))),
            );
        }
        Some(canary) if canary::halts(seen, target, canary) => {
            let why = format!("{} was tried, and {}", target::name(&canary.image), canary.message);
            Some(GroupWait::new(GroupWaitReason::CanaryHalted, why))
        }
        Some(_) | None => None,
    };
    let why = match (&status.current, unusable(seen, target, status)) {
        (Some(current), None) => return checked(current),
        (_, Some(why)) => GroupWait::new(GroupWaitReason::NoImage, why),
        (None, None) => match held {
            Some(held) => GroupWait::new(GroupWaitReason::Held, held),
            None => GroupWait::new(GroupWaitReason::NoImage, "the group has no image yet"),
        },
    };
    ImageAssignment::Wait(halted.unwrap_or(why))
}

/// Says why the group's current image may not be given: what is wanted is unknown, withdrawn or of another stream.
fn unusable(seen: &GroupInputs<'_>, target: &GroupTarget, status: &HostGroupStatus) -> Option<String> {
    let Some(current) = &status.current else {
        return match target {
            GroupTarget::Image { .. } => None,
            GroupTarget::Unknown(why) | GroupTarget::Wrong(why) => Some(why.clone()),
        };
    };
    if !target::is_stored(seen, current) {
        return Some(format!("{} is not in the store any more", target::name(current)));
    }
    // A person who names a release may have it all the same.
    let is_named = matches!(target, GroupTarget::Image { image, by, .. } if image == current && by != super::POLICY);
    if target::is_withdrawn(seen, current) && !is_named {
        return Some(format!("{} was withdrawn, and the group has no other image yet", target::name(current)));
    }
    match target {
        GroupTarget::Unknown(why) if current.stream != seen.group.spec.image.stream => Some(why.clone()),
        // What was meant is not known; the earlier image may be the one that is to be left.
        GroupTarget::Wrong(why) => Some(why.clone()),
        GroupTarget::Image { .. } | GroupTarget::Unknown(_) => None,
    }
}

/// Why a host cannot have an image, whatever becomes of others.
pub(super) fn obstacle(seen: &GroupInputs<'_>, image: &ImageReference, host: &GroupHostInputs) -> Option<GroupWait> {
    if let Some(why) = conflict(seen, host) {
        return Some(why);
    }
    if let Some(why) = seen.stub_fault {
        return Some(GroupWait::new(GroupWaitReason::NoStub, why));
    }
    let wanted = seen.catalogue.stored(image).map(|entry| entry.architecture).or(seen.architecture);
    if let (Some(wanted), Some(has)) = (wanted, host.architecture)
        && has != wanted
    {
        let why = format!("it is {has}, and the group's image {} is for {wanted}", target::name(image));
        return Some(GroupWait::new(GroupWaitReason::OtherArchitecture, why));
    }
    // Of other sizes there are no images.
    let bytes = host.sector_bytes.filter(|bytes| SECTOR_BYTES.contains(bytes))?;
    let is_fit = image.stream.is_empty() || seen.catalogue.suits_sectors(image, bytes);
    (!is_fit).then(|| {
        let why =
            format!("its disk has sectors of {bytes} bytes, and of {} no image for such is here", target::name(image));
        GroupWait::new(GroupWaitReason::NoImageForSectors, why)
    })
}

fn conflict(seen: &GroupInputs<'_>, host: &GroupHostInputs) -> Option<GroupWait> {
    let others = seen.contested.get(&host.name)?;
    let why = format!(
        "the selectors of {} and of {} both select it: change one of them or the host's labels",
        seen.group.metadata.name,
        others.join(", ")
    );
    Some(GroupWait::new(GroupWaitReason::Contested, why))
}
