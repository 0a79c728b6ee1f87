//! Whether a host will get where it is to be: the answer for a client that waits for a fleet (an installer, a
//! pipeline), which should neither give up on a host that comes on nor wait for one that never will.
//!
//! | outlook | host |
//! |---|---|
//! | done | rests without error; or its owner paused or detached it |
//! | progressing | works and came on within its limit; waits for a slot, behind a [halt](crate::host::FleetHalt) or for the clock; is tried again by itself |
//! | will not finish | a person has to do something first: the BMC refuses the login, an edit is awaited, something named is missing, a disk is frozen or locked by its owner, it asks for an agent where hosts are driven by their BMCs alone, or it stands still beyond its limit |
//!
//! "Will not finish" is no state: when what is in the way goes, the host goes on and its outlook with it.

use firesteel_resources::bare_metal_host::annotations;
use jiff::{SignedDuration, Timestamp};

use crate::host::model::{HostInputs, HostMemory};
use crate::host::rules::bmc_only;
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
    // An agent that was heard counts as there: when it has gone, the next step says so.
    let heard = seen.agent.as_ref().map_or(seen.started_at, |agent| agent.last_report_at);
    if bmc_only::unmet(memory, seen, heard).is_some() {
        return Prospect::Is(HostOutlook::WillNotFinish);
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
    #![allow(clippy::unwrap_used, reason = "a test may fail")]
    use firesteel_resources::BareMetalHost;
    use firesteel_resources::bare_metal_host::ErrorType;

    use super::*;
    use crate::host::model::{
        BootWait, CredentialsUsed, FleetHalt, Frozen, FrozenWhy, HeldPlan, HostFailure, HostState, IssuedPlan, PlanKind,
    };

    #[test]
    fn each_outlook_has_its_word() {
        use HostOutlook::{Done, Progressing, WillNotFinish};
        assert_eq!(
            [Done, Progressing, WillNotFinish].map(HostOutlook::word),
            ["done", "progressing", "will-not-finish"]
        );
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    #[test]
    fn a_host_comes_on_within_its_limit_from_its_last_move() {
        let within = SignedDuration::from_secs(1200);
        let prospect = Prospect::ComesOn { since: at(0), within };
        for (progress, now, expected) in [
            (None, 1200, HostOutlook::Progressing),
            (None, 1201, HostOutlook::WillNotFinish),
            (Some(-9), 1200, HostOutlook::Progressing),
            (Some(-9), 1201, HostOutlook::WillNotFinish),
            (Some(100), 1300, HostOutlook::Progressing),
            (Some(100), 1301, HostOutlook::WillNotFinish),
        ] {
            assert_eq!(prospect.at(progress.map(at), at(now)), expected, "{progress:?} {now}");
        }
        let done = Prospect::Is(HostOutlook::Done);
        assert_eq!(done.at(None, at(9000)), HostOutlook::Done);
    }

    fn failure(retry_at: Option<i64>, until_edit: bool) -> Option<HostFailure> {
        let (kind, message) = (ErrorType::Provisioning, "it failed".to_owned());
        let retry_at = retry_at.map(at);
        Some(HostFailure { kind, message, count: 1, at: at(0), retry_at, until_edit, inputs: String::new() })
    }

    fn frozen() -> Frozen {
        let (disk, message) = ("sda".to_owned(), "it gives an error".to_owned());
        Frozen { why: FrozenWhy::Unread, disk, guid: String::new(), message, since: at(0) }
    }

    #[test]
    fn what_is_expected_of_a_host_follows_from_what_is_in_its_way() {
        use HostOutlook::{Done, Progressing, WillNotFinish};
        type Change = fn(&mut HostInputs);
        let hold = |seen: &mut HostInputs| seen.memory.held = Some(HeldPlan { since: at(0), until: None });
        let comes_on = |since| Prospect::ComesOn { since: at(since), within: SignedDuration::from_mins(30) };
        let rows: [(&str, Change, Prospect); 17] = [
            ("it works", |_| {}, comes_on(0)),
            ("it is paused", |seen| annotate(seen, annotations::PAUSED), Prospect::Is(Done)),
            ("it is detached", |seen| seen.memory.detached = Some(at(0)), Prospect::Is(Done)),
            ("it rests", |seen| seen.memory.state = HostState::Available, Prospect::Is(Done)),
            ("its login is refused", |seen| seen.memory.bmc.refused_credentials = used(), Prospect::Is(WillNotFinish)),
            ("it is frozen", |seen| seen.memory.frozen = Some(frozen()), Prospect::Is(WillNotFinish)),
            ("it tries again", |seen| seen.memory.failure = failure(Some(9), false), Prospect::Is(Progressing)),
            ("an edit is due", |seen| seen.memory.failure = failure(None, true), Prospect::Is(WillNotFinish)),
            (
                "an edit is due by then",
                |seen| seen.memory.failure = failure(Some(9), true),
                Prospect::Is(WillNotFinish),
            ),
            ("an obstacle stays", |seen| seen.memory.failure = failure(None, false), Prospect::Is(WillNotFinish)),
            ("it waits for a slot", |seen| seen.memory.delayed = Some(at(0)), Prospect::Is(Progressing)),
            ("the gate is shut, and not in its way", |seen| seen.halt = halt(), comes_on(0)),
            ("it was held, and the gate is open", hold, comes_on(0)),
            ("it came on with its plan", |seen| seen.memory.plan = plan(50), comes_on(50)),
            ("it came on with its boot", |seen| seen.memory.boot = Some(BootWait::new(at(60), true)), comes_on(60)),
            ("it was let go on", |seen| seen.memory.held = held_until(70), comes_on(70)),
            ("it was let go on before its state", |seen| seen.memory.held = held_until(-1), comes_on(0)),
        ];
        for (name, change, expected) in rows {
            let memory = HostMemory { state: HostState::Provisioning, since: at(0), ..HostMemory::default() };
            let mut seen = HostInputs::new(BareMetalHost::default(), memory, at(-9), 0);
            change(&mut seen);
            assert_eq!(prospect(&seen.memory, &seen), expected, "{name}");
            let is_set_aside = name == "it is paused" || name == "it is detached";
            assert_eq!(super::is_set_aside(&seen.memory, &seen), is_set_aside, "{name}");
            assert!(!is_held_up(&seen.memory, &seen), "{name}");
            hold(&mut seen);
            seen.halt = halt();
            assert!(is_held_up(&seen.memory, &seen), "{name}, and it is held");
        }
    }

    fn annotate(seen: &mut HostInputs, key: &str) {
        seen.host.metadata.annotations.insert(key.into(), String::new());
    }

    fn used() -> Option<CredentialsUsed> {
        Some(CredentialsUsed { secret: "s".into(), version: "1".into() })
    }

    fn halt() -> Option<FleetHalt> {
        Some(FleetHalt { who: "ann".into(), why: String::new(), since: at(0) })
    }

    fn plan(second: i64) -> Option<IssuedPlan> {
        Some(IssuedPlan { number: 1, plan: PlanKind::Inspect, issued_at: at(second), stopped: None })
    }

    fn held_until(second: i64) -> Option<HeldPlan> {
        Some(HeldPlan { since: at(-9), until: Some(at(second)) })
    }

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
