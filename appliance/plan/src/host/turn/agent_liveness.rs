//! Whether an agent may still be at work, as far as the power of its host and boot scripts are concerned. Pure.
//!
//! PXE cannot tell a host that booted again from a neighbour that uses its MAC. So a request for a boot script ends
//! nothing while an agent is live: until it says that it leaves, or was silent for [`HostTimeouts::silent`]; longer
//! while a drive is at what cannot be interrupted.

use jiff::Timestamp;

use crate::host::model::{AgentInputs, HostMemory, HostTimeouts};
use crate::host::turn::later;

/// What a drive is at that nothing can interrupt, by the agent's last word. It counts for as long as such a thing may
/// take, unless a person asks to try again who saw the agent silent.
pub(crate) fn drive_at_work<'a>(
    agent: &'a AgentInputs,
    memory: &HostMemory,
    limits: &HostTimeouts,
    now: Timestamp,
) -> Option<&'a str> {
    let heard = agent.last_report_at;
    let is_known_better = memory.retried_at.is_some_and(|at| at.duration_since(heard) > limits.quiet);
    let may_last = now.duration_since(heard) <= limits.erase_stall;
    agent.cannot_stop.as_deref().filter(|_| may_last && !is_known_better && !agent.left && !agent.rebooted)
}

/// Says until when the agent counts as live if nothing more is heard of it; `None` where it has left or is no more. An
/// appliance that was away does not take its own silence for the agent's. Where the clock was set back, an agent that
/// was heard only by the earlier clock is not waited for.
#[must_use]
pub fn live_until(
    agent: &AgentInputs,
    memory: &HostMemory,
    started_at: Timestamp,
    limits: &HostTimeouts,
    now: Timestamp,
) -> Option<Timestamp> {
    let heard = agent.last_report_at.max(started_at);
    let lasts = if drive_at_work(agent, memory, limits, now).is_some() { limits.erase_stall } else { limits.silent };
    let is_of_this_clock = heard <= later(now, limits.silent);
    Some(later(heard, lasts)).filter(|until| is_of_this_clock && !agent.left && !agent.rebooted && *until > now)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use jiff::SignedDuration;

    use super::*;
    use crate::host::sample;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn agent(heard: i64) -> AgentInputs {
        AgentInputs { bound_at: at(0), last_report_at: at(heard), progress_at: at(heard), ..sample::agent(1) }
    }

    fn is_live(agent: &AgentInputs, memory: &HostMemory, started: i64, now: i64) -> bool {
        live_until(agent, memory, at(started), &HostTimeouts::default(), at(now)).is_some()
    }

    #[test]
    fn an_agent_is_live_until_it_leaves_or_was_silent_for_a_minute() {
        let memory = HostMemory::default();
        assert!(is_live(&agent(0), &memory, -100, 59) && !is_live(&agent(0), &memory, -100, 60));
        let left = AgentInputs { left: true, ..agent(0) };
        let rebooted = AgentInputs { rebooted: true, ..agent(0) };
        assert!(!is_live(&left, &memory, -100, 1) && !is_live(&rebooted, &memory, -100, 1));
    }

    #[test]
    fn silence_counts_from_the_appliances_start_at_the_earliest() {
        let memory = HostMemory::default();
        assert!(is_live(&agent(0), &memory, 1000, 1059) && !is_live(&agent(0), &memory, 1000, 1060));
    }

    #[test]
    fn a_clock_that_was_set_back_keeps_nobody_waiting() {
        let memory = HostMemory::default();
        assert!(is_live(&agent(1000), &memory, -100, 950), "by a little: it was heard now");
        assert!(!is_live(&agent(1_000_000), &memory, -100, 0) && !is_live(&agent(0), &memory, 1_000_000, 0));
    }

    #[test]
    fn a_drive_that_cannot_be_interrupted_is_waited_for() {
        let mut memory = HostMemory::default();
        let erasing = AgentInputs { cannot_stop: Some("sanitize".into()), ..agent(0) };
        let longest = HostTimeouts::default().erase_stall.as_secs();
        assert!(is_live(&erasing, &memory, -100, longest - 1) && !is_live(&erasing, &memory, -100, longest + 1));
        memory.retried_at = Some(at(200));
        assert!(is_live(&erasing, &memory, -100, 201 + 60), "who asked to try again saw it at work");
        memory.retried_at = at(0).checked_add(HostTimeouts::default().quiet + SignedDuration::from_secs(1)).ok();
        assert!(!is_live(&erasing, &memory, -100, 400), "who asked to try again saw it silent");
    }

    #[test]
    fn a_drive_is_at_work_until_a_person_saw_its_agent_silent() {
        let limits = HostTimeouts::default();
        let (quiet, longest) = (limits.quiet.as_secs(), limits.erase_stall.as_secs());
        for (retried, left, rebooted, now, is_at_work) in [
            (None, false, false, longest, true),
            (None, false, false, longest + 1, false),
            (None, true, false, 1, false),
            (None, false, true, 1, false),
            (Some(quiet), false, false, 400, true),
            (Some(quiet + 1), false, false, 400, false),
        ] {
            let erasing = AgentInputs { cannot_stop: Some("sanitize".into()), left, rebooted, ..agent(0) };
            let memory = HostMemory { retried_at: retried.map(at), ..HostMemory::default() };
            let found = drive_at_work(&erasing, &memory, &limits, at(now));
            assert_eq!(found, is_at_work.then_some("sanitize"), "{retried:?} {left} {rebooted} {now}");
        }
        assert_eq!(drive_at_work(&agent(0), &HostMemory::default(), &limits, at(1)), None);
    }
}
