//! The status of a group for people: counts, the hosts that get nothing, and three conditions.

use firesteel_resources::condition::{Condition, find_condition, set_condition};
use firesteel_resources::host_group::{CANARY_HALTED, CanaryState, DEGRADED, HostCounts, HostGroupStatus, PROGRESSING};

use super::target::{self, GroupTarget};
use super::{Gives, GroupHostStage, GroupInputs, canary, wait_reason};

/// Hosts that a message names.
const NAMES_MAX: usize = 20;

pub(super) fn write_group_status(
    seen: &GroupInputs<'_>,
    target: &GroupTarget,
    gives: &Gives,
    status: &mut HostGroupStatus,
) {
    let generation = seen.group.metadata.generation;
    status.observed_generation = generation;
    status.hosts = counts(seen, gives);
    status.skipped_hosts = wait_reason::skipped(seen, gives);
    let (is_so, reason, message) = progressing(seen, target, status);
    let progressing = Condition::new(PROGRESSING, is_so, reason, message);
    let (is_so, reason, message) = degraded(seen, target, status);
    let degraded = Condition::new(DEGRADED, is_so, reason, message);
    let (is_so, reason, message) = halted(seen, target, status);
    let halted = Condition::new(CANARY_HALTED, is_so, reason, message);
    for condition in [progressing, degraded, halted] {
        set_condition(&mut status.conditions, condition.observed(generation), seen.now);
    }
}

fn counts(seen: &GroupInputs<'_>, gives: &Gives) -> HostCounts {
    let mut counts = HostCounts::default();
    for host in seen.hosts {
        counts.total = counts.total.saturating_add(1);
        let waits = wait_reason::of(host, gives).is_some();
        let place = match &host.stage {
            GroupHostStage::Failed { .. } => &mut counts.failed,
            GroupHostStage::ToInstall if waits => &mut counts.waiting,
            GroupHostStage::ToInstall | GroupHostStage::Installing(_) => &mut counts.installing,
            GroupHostStage::Provisioned(_) => &mut counts.provisioned,
            GroupHostStage::Running(_) => &mut counts.running,
            GroupHostStage::Foreign(_) => &mut counts.foreign,
        };
        *place = place.saturating_add(1);
    }
    counts
}

/// Reason of [`PROGRESSING`]; the step after it tells by it that the rollout stood still.
const HELD: &str = "Held";

pub(super) fn was_held(status: &HostGroupStatus) -> bool {
    find_condition(&status.conditions, PROGRESSING).is_some_and(|condition| condition.reason == HELD)
}

type Told = (bool, &'static str, String);

fn progressing(seen: &GroupInputs<'_>, target: &GroupTarget, status: &HostGroupStatus) -> Told {
    if let (Some(why), GroupTarget::Image { image, .. }) = (target::held(seen, target, status), target) {
        return (false, HELD, format!("{} is not given out: {why}", target::name(image)));
    }
    match (&status.canary, target) {
        (Some(canary), _) if canary.state == CanaryState::Trying => {
            let running = canary.hosts.iter().filter(|host| host.running).count();
            let wanted = seen.group.spec.rollout.canaries();
            let message = format!("{running} of {wanted} canaries are running; {}", canary::reason(canary));
            (true, "Canary", message)
        }
        (_, GroupTarget::Unknown(why)) => (true, "WaitingForImage", why.clone()),
        (_, GroupTarget::Wrong(_)) => (false, "NoSuchImage", "see the condition Degraded".to_owned()),
        (_, GroupTarget::Image { image, is_restored, .. }) if status.current.as_ref() == Some(image) => {
            let reason = if *is_restored { "Restored" } else { "UpToDate" };
            (false, reason, format!("hosts that are installed get {}", target::name(image)))
        }
        (_, GroupTarget::Image { .. }) => (false, "Halted", "see the condition CanaryHalted".to_owned()),
    }
}

fn degraded(seen: &GroupInputs<'_>, target: &GroupTarget, status: &HostGroupStatus) -> Told {
    if !seen.contested.is_empty() {
        let lines = seen.contested.iter().take(NAMES_MAX);
        let lines: Vec<String> =
            lines.map(|(host, others)| format!("{host} (also of {})", others.join(", "))).collect();
        let more = seen.contested.len().saturating_sub(NAMES_MAX);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        let message = format!(
            "other groups select hosts of this one, which get nothing from either: {}{more}; change a selector or labels",
            lines.join(", ")
        );
        return (true, "Conflict", message);
    }
    if let GroupTarget::Wrong(why) = target {
        return (true, "NoSuchImage", why.clone());
    }
    // Stubs are made where hosts are.
    if let Some(why) = seen.stub_fault.filter(|_| !seen.hosts.is_empty()) {
        return (true, "NoStub", why.to_owned());
    }
    let fought: Vec<&str> = seen.hosts.iter().filter(|host| host.is_fought).map(|host| host.name.as_str()).collect();
    if !fought.is_empty() {
        let names = fought.iter().take(NAMES_MAX).copied().collect::<Vec<_>>().join(", ");
        let more = fought.len().saturating_sub(NAMES_MAX);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        let message = format!(
            "something else sets back what the group writes to {names}{more}: find and stop the other writer, then \
             change the group's spec"
        );
        return (true, "Fought", message);
    }
    match &status.current {
        Some(current) if !target::is_stored(seen, current) => {
            (true, "ImageGone", format!("{} is not in the store any more", target::name(current)))
        }
        Some(_) | None => (false, "AsWanted", String::new()),
    }
}

fn halted(seen: &GroupInputs<'_>, target: &GroupTarget, status: &HostGroupStatus) -> Told {
    match status.canary.as_ref().filter(|canary| canary::halts(seen, target, canary)) {
        Some(canary) => {
            let message = format!(
                "the rollout of {} stopped: {}; a higher spec.rollout.attempt tries it again, another release or \
                 spec.restore leaves it",
                target::name(&canary.image),
                canary.message
            );
            (true, "CanaryFailed", message)
        }
        None => (false, "NotHalted", String::new()),
    }
}
