//! The trial of an image by a few hosts.

use std::collections::{BTreeMap, BTreeSet};

use firesteel_resources::host_group::{
    Canary, CanaryHost, CanaryState, HostGroupStatus, ImageReference, ReleaseTrack, RolloutMode,
};
use jiff::{SignedDuration, Timestamp};

use super::target::{self, GroupTarget};
use super::{GroupHostInputs, GroupHostStage, GroupInputs, history, image_assignment, report};

/// Whether the image must be tried: what was promoted once is known to boot.
pub(super) fn is_asked_for(seen: &GroupInputs<'_>, image: &ImageReference, status: &HostGroupStatus) -> bool {
    seen.group.spec.rollout.mode == RolloutMode::Canary && !history::was_promoted(image, status)
}

pub(super) fn is_under_way(canary: &Canary) -> bool {
    canary.state == CanaryState::Trying
}

pub(super) fn is_halted(canary: &Canary) -> bool {
    canary.state == CanaryState::Halted
}

/// Whether it halted and stands in the way. While another image is wanted, the halt is remembered and does not matter.
pub(super) fn halts(seen: &GroupInputs<'_>, target: &GroupTarget, canary: &Canary) -> bool {
    let spec = &seen.group.spec;
    let is_golden = || seen.group.status.golden.as_ref() == Some(&canary.image);
    is_halted(canary)
        && match target {
            GroupTarget::Image { image, .. } => canary.image == *image,
            GroupTarget::Unknown(_) => spec.image.track == ReleaseTrack::Latest && is_golden(),
            GroupTarget::Wrong(_) => false,
        }
}

/// Goes on with the trial of this image, or begins it. Says when a canary is late.
pub(super) fn advance(
    seen: &GroupInputs<'_>,
    image: &ImageReference,
    by: &str,
    status: &mut HostGroupStatus,
) -> Option<Timestamp> {
    let rollout = &seen.group.spec.rollout;
    let same = status.canary.take().filter(|canary| canary.image == *image);
    let mut canary = match same {
        // It is to be tried again.
        Some(canary) if canary.state == CanaryState::Halted && rollout.attempt > canary.attempt => begin(seen, image),
        Some(canary) => canary,
        None => begin(seen, image),
    };
    if canary.state == CanaryState::Halted {
        status.canary = Some(canary);
        return None;
    }
    // What is asked for while it is tried is this trial, and not another one after it.
    canary.attempt = rollout.attempt;
    adopt(seen, &mut canary);
    let was_held = report::was_held(&seen.group.status);
    update_canary(seen, &mut canary, was_held);
    if was_held && is_under_way(&canary) {
        // While it stood still, no host was late.
        canary.hosts.iter_mut().filter(|host| !host.running).for_each(|host| host.since = seen.now);
    }
    if canary.state == CanaryState::Trying {
        // Hosts whose OS came up have shown what they were to show, whatever becomes of them.
        if canary.hosts.iter().filter(|host| host.running).count() >= rollout.canaries() {
            canary.state = CanaryState::Promoted;
            history::promote(image, by, seen.now, status);
        } else {
            fill(seen, &mut canary);
        }
    }
    let pending = canary.hosts.iter().filter(|host| is_under_way(&canary) && !host.running);
    let wake = pending.map(|host| due(seen, host)).min();
    status.canary = Some(canary);
    wake
}

/// The trial of this image goes no further while the group is held; who runs it meanwhile has shown what it was to
/// show.
pub(super) fn stand_still(seen: &GroupInputs<'_>, image: &ImageReference, status: &mut HostGroupStatus) {
    let Some(canary) = status.canary.as_mut().filter(|canary| canary.image == *image && is_under_way(canary)) else {
        return;
    };
    let runs = |name: &str| {
        let is_it = |host: &&GroupHostInputs| {
            host.name == name && matches!(&host.stage, GroupHostStage::Running(has) if has == image)
        };
        seen.hosts.iter().any(|host| is_it(&host))
    };
    for host in canary.hosts.iter_mut().filter(|host| !host.running) {
        host.running = runs(&host.name);
    }
}

fn begin(seen: &GroupInputs<'_>, image: &ImageReference) -> Canary {
    Canary { image: image.clone(), since: seen.now, ..Canary::default() }
}

fn due(seen: &GroupInputs<'_>, host: &CanaryHost) -> Timestamp {
    let deadline = SignedDuration::from_secs(seen.group.spec.rollout.deadline_seconds());
    host.since.checked_add(deadline).unwrap_or(Timestamp::MAX)
}

/// Adds hosts that have the image already, from an earlier trial or from another group: they show the same. One that is
/// installed and silent shows nothing: how long it has been silent is not known here, and it may never report.
fn adopt(seen: &GroupInputs<'_>, canary: &mut Canary) {
    let known: BTreeSet<String> = canary.hosts.iter().map(|host| host.name.clone()).collect();
    let image = canary.image.clone();
    let others = || seen.hosts.iter().filter(|host| !known.contains(&host.name));
    let runs = others().filter(|host| matches!(&host.stage, GroupHostStage::Running(has) if *has == image));
    let comes = others().filter(|host| matches!(&host.stage, GroupHostStage::Installing(has) if *has == image));
    // More that run would say no more.
    let enough = seen.group.spec.rollout.canaries();
    let new = runs.take(enough).chain(comes);
    canary.hosts.extend(new.map(|host| CanaryHost { name: host.name.clone(), since: seen.now, running: false }));
}

/// What has become of the hosts that try it. `was_held`: the trial stood still until now.
fn update_canary(seen: &GroupInputs<'_>, canary: &mut Canary, was_held: bool) {
    let image = canary.image.clone();
    let stages: BTreeMap<&str, &GroupHostStage> =
        seen.hosts.iter().map(|host| (host.name.as_str(), &host.stage)).collect();
    let mut halts = None;
    canary.hosts.retain_mut(|host| {
        if host.running {
            return true;
        }
        let late = !was_held && due(seen, host) <= seen.now;
        match stages.get(host.name.as_str()).copied() {
            Some(GroupHostStage::Running(has)) if *has == image => {
                host.running = true;
                return true;
            }
            // A failure from before this trial does not count.
            Some(GroupHostStage::Failed { image: has, message, at, .. }) if *has == image && *at > host.since => {
                halts.get_or_insert_with(|| format!("the host {} failed with it: {message}", host.name));
                return true;
            }
            Some(GroupHostStage::Installing(has) | GroupHostStage::Provisioned(has)) if *has == image => {}
            Some(GroupHostStage::ToInstall | GroupHostStage::Failed { is_on_disk: false, .. }) => {}
            // It failed before with this image, and has it still: it shows nothing new.
            Some(GroupHostStage::Failed { is_on_disk: true, .. }) => return false,
            // It left the group, or got another image from another writer: its place is free.
            Some(
                GroupHostStage::Running(_)
                | GroupHostStage::Installing(_)
                | GroupHostStage::Provisioned(_)
                | GroupHostStage::Foreign(_),
            )
            | None => {
                return false;
            }
        }
        if late {
            let minutes = seen.group.spec.rollout.deadline_seconds() / 60;
            halts.get_or_insert_with(|| {
                format!("the host {} was not running {minutes} minutes after it got it", host.name)
            });
        }
        true
    });
    if let Some(message) = halts {
        canary.state = CanaryState::Halted;
        canary.message = message;
    }
}

/// The next hosts that are to be installed take the places that are free.
fn fill(seen: &GroupInputs<'_>, canary: &mut Canary) {
    let free = seen.group.spec.rollout.canaries().saturating_sub(canary.hosts.len());
    let taken: BTreeSet<&str> = canary.hosts.iter().map(|host| host.name.as_str()).collect();
    let suits = |host: &&GroupHostInputs| {
        host.stage.is_open()
            && host.not_ready.is_none()
            && !host.is_fought
            && !taken.contains(host.name.as_str())
            && image_assignment::obstacle(seen, &canary.image, host).is_none()
    };
    let mut next: Vec<&GroupHostInputs> = seen.hosts.iter().filter(suits).collect();
    next.sort_by(|one, other| one.name.cmp(&other.name));
    let new: Vec<CanaryHost> = next
        .into_iter()
        .take(free)
        .map(|host| CanaryHost { name: host.name.clone(), since: seen.now, running: false })
        .collect();
    canary.hosts.extend(new);
}

/// Why the others wait.
pub(super) fn reason(canary: &Canary) -> String {
    let name = target::name(&canary.image);
    let trying: Vec<&str> = canary.hosts.iter().filter(|host| !host.running).map(|host| host.name.as_str()).collect();
    if trying.is_empty() {
        format!("{name} is tried by canaries first, and more of them are to come")
    } else {
        format!("{name} is tried by {} first: it waits until that is running", trying.join(", "))
    }
}
