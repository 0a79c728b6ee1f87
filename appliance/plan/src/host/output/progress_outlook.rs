//! Whether a host will get where it is to be: the answer for a client that waits for a fleet (an installer, a
//! pipeline), which should neither give up on a host that comes on nor wait for one that never will.
//!
//! | outlook | host |
//! |---|---|
//! | done | rests without error; or its owner paused or detached it |
//! | progressing | works and came on within its limit; waits for a slot, behind a [halt](crate::host::FleetHalt) or for the clock; is tried again by itself |
//! | will not finish | a person has to do something first: the BMC refuses the login, an edit is awaited, something named is missing, a disk is frozen or locked by its owner, or it stands still beyond its limit |
//!
//! "Will not finish" is no state: when what is in the way goes, the host goes on and its outlook with it.

use firesteel_resources::bare_metal_host::annotations;
use jiff::{SignedDuration, Timestamp};

use crate::host::model::{HostInputs, HostMemory};
use crate::host::turn::gate;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostOutlook {
    Done,
    Progressing,
    WillNotFinish,
}

impl HostOutlook {
    /// The word that is shown for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Progressing => "progressing",
            Self::WillNotFinish => "will-not-finish",
        }
    }
}

/// An outlook, as far as it is known without the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prospect {
    Is(HostOutlook),
    /// It progresses as long as it comes on within this time.
    ComesOn {
        since: Timestamp,
        within: SignedDuration,
    },
}

impl Prospect {
    /// The outlook now. `progress_at`: when the host's agent last came on, if it was heard.
    #[must_use]
    pub fn at(self, progress_at: Option<Timestamp>, now: Timestamp) -> HostOutlook {
        match self {
            Self::Is(outlook) => outlook,
            Self::ComesOn { since, within } => {
                let moved_at = progress_at.map_or(since, |at| at.max(since));
                let comes_on = now.duration_since(moved_at) <= within;
                if comes_on { HostOutlook::Progressing } else { HostOutlook::WillNotFinish }
            }
        }
    }
}

/// What is to be expected of a host after a step that saw this and left this memory.
#[must_use]
pub fn prospect(memory: &HostMemory, seen: &HostInputs) -> Prospect {
    if is_set_aside(memory, seen) {
        return Prospect::Is(HostOutlook::Done);
    }
    if memory.bmc.refused_credentials.is_some() || memory.frozen.is_some() {
        return Prospect::Is(HostOutlook::WillNotFinish);
    }
    if let Some(failure) = &memory.failure {
        let tries_again = failure.retry_at.is_some() && !failure.until_edit;
        return Prospect::Is(if tries_again { HostOutlook::Progressing } else { HostOutlook::WillNotFinish });
    }
    if memory.delayed.is_some() {
        return Prospect::Is(HostOutlook::Progressing);
    }
    if !memory.state.is_working() {
        return Prospect::Is(HostOutlook::Done);
    }
    if is_held_up(memory, seen) {
        // A halt ends for all when a person has seen what is wrong, and a clock is set; a lock of its owner stays.
        let is_locked = gate::lock(&seen.host.metadata).is_some();
        return Prospect::Is(if is_locked { HostOutlook::WillNotFinish } else { HostOutlook::Progressing });
    }
    Prospect::ComesOn {
        since: moved_at(memory),
        within: seen.limits.stall_with(memory.plan.as_ref()).max(seen.limits.hello),
    }
}

/// The host's owner paused or detached it: it stands still on purpose.
#[must_use]
pub fn is_set_aside(memory: &HostMemory, seen: &HostInputs) -> bool {
    seen.host.metadata.annotations.contains_key(annotations::PAUSED) || memory.detached.is_some()
}

/// What comes next for the host destroys something, and the [gate] is shut: that is no standstill.
#[must_use]
pub fn is_held_up(memory: &HostMemory, seen: &HostInputs) -> bool {
    memory.held.as_ref().is_some_and(|held| held.until.is_none()) && gate::closed_gate(memory, seen).is_some()
}

/// When the host last came on, as far as its memory tells: it entered its state, got its plan, was booted or let go on.
#[must_use]
pub fn moved_at(memory: &HostMemory) -> Timestamp {
    let boot = memory.boot.as_ref().map(|boot| boot.since);
    let plan = memory.plan.as_ref().map(|plan| plan.issued_at);
    let freed = memory.held.as_ref().and_then(|held| held.until);
    [boot, plan, freed].into_iter().flatten().fold(memory.since, Timestamp::max)
}

/// The outlook of a whole fleet, which progresses as long as any of its hosts does.
#[must_use]
pub fn of_fleet(hosts: impl IntoIterator<Item = HostOutlook>) -> HostOutlook {
    let (mut progresses, mut sticks) = (false, false);
    for host in hosts {
        progresses |= host == HostOutlook::Progressing;
        sticks |= host == HostOutlook::WillNotFinish;
    }
    match (progresses, sticks) {
        (true, _) => HostOutlook::Progressing,
        (false, true) => HostOutlook::WillNotFinish,
        (false, false) => HostOutlook::Done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fleet_progresses_while_any_host_does() {
        use HostOutlook::{Done, Progressing, WillNotFinish};
        let cases: [(&[HostOutlook], HostOutlook); 6] = [
            (&[], Done),
            (&[Done, Done], Done),
            (&[Done, Progressing], Progressing),
            (&[WillNotFinish, Progressing, Done], Progressing),
            (&[WillNotFinish, Done], WillNotFinish),
            (&[WillNotFinish], WillNotFinish),
        ];
        for (hosts, fleet) in cases {
            assert_eq!(of_fleet(hosts.iter().copied()), fleet, "{hosts:?}");
        }
    }
}
