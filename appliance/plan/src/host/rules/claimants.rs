//! More than one machine that claims to be the host: two keys in one attempt, or an old key that reports after a new one
//! said hello. Pure.
//!
//! ```text
//!   a second claimant ──► nothing is destroyed, no plan is given out, no receipt is judged
//!     ├─ by the BMC: power off ──► "off" is seen ──► 10 s ──► who still reports is not the host, and is named
//!     │                └── refused, or not seen in time ──┐                      └──► the next attempt, from off
//!     └─ no BMC, power-off disabled, or a drive at work ──┴─► a person says who is the host, or that none of them is
//!                                                             └── no word within a day: none of them is
//! ```
//!
//! `firesteel retry` ends it as well, and so does a bound agent that leaves, boots again or falls silent. A host with an OS of its owner's is
//! never switched off for it: there the claim is shown, and a person decides.

mod person;
mod power;

pub(crate) use person::decide_by_person;

use firesteel_facts::EventReason;
use firesteel_resources::{bare_metal_host::ErrorType, host_journal::Claimant};
use jiff::SignedDuration;

use crate::host::model::{Claimants, HeldPlan, HostReason, HostState, Intruder, RefusedAttempt, ResolvedClaim};
use crate::host::rules::identity::is_own_word;
use crate::host::turn::contest::{in_words, unnamed};
use crate::host::turn::{AgentPresence, StepDraft, format_duration, later};

/// Bounds how many claims in a row the power settles; what comes again within a day is a person's to decide.
const POWER_TRIES_MAX: u32 = 3;
/// Bounds how many machines are remembered that are not the host.
const INTRUDERS_MAX: usize = 8;
/// Says in [`ResolvedClaim::by`] that the BMC settled it.
const BY_POWER: &str = "power";
/// Says in [`ResolvedClaim::by`] that the bound agent was not heard any more.
const GONE: &str = "gone";

/// Takes over what was heard of other claimants.
pub(crate) fn notice(turn: &mut StepDraft<'_>) {
    let attempt = turn.memory.attempt;
    if turn.memory.claimants.as_ref().is_some_and(|claims| claims.attempt != attempt) {
        // The attempt ended for another reason.
        let cuts = cuts_lately(turn);
        end(turn, "next attempt", cuts);
    }
    let Some(record) = turn.seen.claim.as_ref() else { return };
    let mut others = unnamed(&turn.memory, record);
    let known = turn.memory.claimants.take();
    others.retain(|other| !known.as_ref().is_some_and(|known| known.others.iter().any(|old| old.key == other.key)));
    if others.is_empty() {
        turn.memory.claimants = known;
        return;
    }
    let mut claims = known.unwrap_or_else(|| Claimants {
        since: turn.now,
        attempt,
        first: record.first.clone(),
        others: Vec::new(),
        until: later(turn.now, turn.limits().claimants),
        cut: None,
        person: None,
    });
    claims.others.extend(others);
    let text = format!("{}: nothing is destroyed until that is settled", in_words(&claims.first, &claims.others));
    turn.memory.claimants = Some(claims);
    if turn.memory.held.as_ref().is_none_or(|held| held.until.is_some()) {
        turn.memory.held = Some(HeldPlan { since: turn.now, until: None });
    }
    turn.warn(EventReason::SecondClaimant, text);
}

/// Ends the claim of a host that a person has tried again.
pub(crate) fn retry(turn: &mut StepDraft<'_>) {
    let Some(claims) = turn.memory.claimants.clone() else { return };
    drop_all(turn, &claims, "retry");
    let text = format!("attempt {} is over, because the host is tried again", claims.attempt);
    turn.warn(EventReason::ClaimResolved, text);
}

/// Goes on with a claim that is not settled; `None` where the host goes on all the same.
#[track_caller]
pub(crate) fn step(turn: &mut StepDraft<'_>) -> Option<HostReason> {
    let claims = turn.memory.claimants.clone()?;
    if turn.now >= claims.until {
        let limit = format_duration(turn.limits().claimants);
        let why = format!("because no person said within {limit} which of them is the host");
        return Some(neither(turn, &claims, "deadline", &why));
    }
    if !turn.memory.state.gets_agent() {
        let why = "the host has an OS, and is not switched off for it".to_owned();
        turn.memory.claimants = Some(Claimants { person: Some(why), ..claims });
        return None;
    }
    let is_off = claims.cut.as_ref().is_some_and(|cut| cut.off_at.is_some());
    if !is_off && matches!(turn.presence(), AgentPresence::Gone | AgentPresence::Quiet) {
        return Some(neither(turn, &claims, GONE, "because the bound agent is not heard any more"));
    }
    Some(match person::by_person(turn, &claims).filter(|_| !is_off) {
        Some(why) => person::wait_for_person(turn, claims, why),
        None => power::by_power(turn, claims),
    })
}

/// Counts the claims in a row that the power settled, within the time in which a person would have decided.
fn cuts_lately(turn: &StepDraft<'_>) -> u32 {
    let is_of_late = |resolved: &&ResolvedClaim| turn.now.duration_since(resolved.at) <= turn.limits().claimants;
    turn.memory.resolved_claim.as_ref().filter(is_of_late).map_or(0, |resolved| resolved.cuts)
}

/// Ends an attempt of which it is not known who was the host; the error says who claimed it.
#[track_caller]
fn neither(turn: &mut StepDraft<'_>, claims: &Claimants, by: &str, why: &str) -> HostReason {
    let text = format!("attempt {} is over {why}; {}", claims.attempt, in_words(&claims.first, &claims.others));
    drop_all(turn, claims, by);
    turn.warn(EventReason::ClaimResolved, text.clone());
    if turn.memory.state.gets_agent() {
        return turn.fail(kind(&turn.memory.state), text);
    }
    turn.wait_in_state(SignedDuration::from_secs(1), text)
}

/// Ends the claim without a word for any of them. What is installed stays: there the others alone are sent away.
fn drop_all(turn: &mut StepDraft<'_>, claims: &Claimants, by: &str) {
    if turn.memory.state.gets_agent() {
        // Who falls silent does not set the count back.
        let cuts = if by == GONE { cuts_lately(turn) } else { 0 };
        over(turn, by, cuts);
        return;
    }
    claims.others.iter().for_each(|machine| name(turn, machine, "it spoke when the host was installed"));
    end(turn, by, 0);
}

/// Ends the attempt with the claim. What was said in it of the disks may be another machine's word: they are looked at
/// again, and what was written to is cleaned.
fn over(turn: &mut StepDraft<'_>, by: &str, cuts: u32) {
    let attempt = turn.memory.attempt;
    let reason = "more than one machine claimed to be this host: this attempt is over".to_owned();
    turn.abort_agent(reason);
    // Not the time of the failure that may follow, which is none of the disks.
    let at = turn.memory.claimants.as_ref().map_or(turn.now, |claims| claims.since);
    turn.memory.refused = Some(RefusedAttempt { at, attempt, plan: turn.memory.plan_number });
    turn.memory.wipe = None;
    turn.memory.power = None;
    // What the host is known as by the bound agent's word alone may be another machine's.
    let bound = turn.memory.claimants.as_ref().map(|claims| claims.first.clone());
    let is_word = |at| bound.as_ref().is_some_and(|bound| is_own_word(bound, at));
    turn.memory.identity = turn.memory.identity.take().filter(|known| !is_word(known.accepted_at));
    turn.open_attempt();
    end(turn, by, cuts);
}

/// Forgets the claim, and opens the gate.
fn end(turn: &mut StepDraft<'_>, by: &str, cuts: u32) {
    let now = turn.now;
    if turn.memory.claimants.take().is_some_and(|claims| claims.person.is_some()) {
        stop_waiting(turn);
    }
    if let Some(held) = turn.memory.held.as_mut().filter(|held| held.until.is_none()) {
        held.until = Some(now);
    }
    turn.memory.resolved_claim = Some(ResolvedClaim { at: now, by: by.to_owned(), cuts });
}

/// Ends the error that a person was waited for.
fn stop_waiting(turn: &mut StepDraft<'_>) {
    turn.memory.failure = turn.memory.failure.take().filter(|failure| failure.retry_at.is_some());
}

/// Remembers a machine that is not the host.
fn name(turn: &mut StepDraft<'_>, machine: &Claimant, why: &str) {
    let intruders = &mut turn.memory.intruders;
    intruders.retain(|known| known.machine.key != machine.key);
    intruders.push(Intruder { machine: machine.clone(), named_at: turn.now, why: why.to_owned() });
    let excess = intruders.len().saturating_sub(INTRUDERS_MAX);
    intruders.drain(..excess);
    turn.warn(EventReason::IntruderNamed, format!("the machine with {machine} is not the host: {why}"));
}

/// Names the kind of error of a claim that waits for a person.
fn kind(state: &HostState) -> ErrorType {
    match state {
        HostState::New | HostState::Unmanaged | HostState::Registering => ErrorType::Registration,
        HostState::Inspecting => ErrorType::Inspection,
        HostState::Preparing => ErrorType::Preparation,
        HostState::Available
        | HostState::Provisioning
        | HostState::Provisioned
        | HostState::ExternallyProvisioned
        | HostState::Deprovisioning
        | HostState::PoweringOff
        | HostState::Deleting => ErrorType::Provisioning,
    }
}

#[cfg(test)]
mod tests {
    use firesteel_resources::BareMetalHost;

    use super::*;
    use crate::host::model::{HostInputs, HostMemory};
    use crate::host::turn::contest::contest;
    use firesteel_resources::host_journal::ClaimRecord;
    use jiff::Timestamp;

    fn machine(key: &str, attempt: u64) -> Claimant {
        Claimant { key: key.into(), attempt, mac: "52:54:00:00:00:01".into(), ..Claimant::default() }
    }

    fn seen(state: HostState) -> HostInputs {
        let memory = HostMemory { attempt: 3, state, ..HostMemory::default() };
        let mut seen = HostInputs::new(BareMetalHost::default(), memory, Timestamp::UNIX_EPOCH, 1);
        let others = vec![machine("bb", 3), machine("cc", 2)];
        seen.claim = Some(ClaimRecord { attempt: 3, first: machine("aa", 3), others });
        seen
    }

    #[test]
    fn what_is_claimed_twice_is_contested_until_the_others_are_named() {
        let mut seen = seen(HostState::Inspecting);
        let text = contest(&seen.memory, &seen).unwrap_or_default();
        for part in ["key aa", "key bb", "key cc", "of attempt 2", "nothing is destroyed"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        for key in ["bb", "cc"] {
            let intruder = Intruder { machine: machine(key, 3), named_at: Timestamp::UNIX_EPOCH, why: String::new() };
            seen.memory.intruders.push(intruder);
        }
        assert_eq!(contest(&seen.memory, &seen), None);
        seen.memory.intruders.clear();
        seen.memory.attempt = 4;
        assert_eq!(contest(&seen.memory, &seen), None, "another attempt");
    }

    #[test]
    fn where_no_agent_runs_nothing_is_held() {
        for state in
            [HostState::Provisioned, HostState::ExternallyProvisioned, HostState::PoweringOff, HostState::Deleting]
        {
            let seen = seen(state);
            assert_eq!(contest(&seen.memory, &seen), None, "{:?}", seen.memory.state);
        }
    }

    #[test]
    fn so_many_intruders_are_remembered_each_once() {
        let seen = seen(HostState::Inspecting);
        let mut turn = StepDraft::new(&seen, Timestamp::UNIX_EPOCH);
        for number in 0..INTRUDERS_MAX + 3 {
            for _ in 0..2 {
                name(&mut turn, &machine(&number.to_string(), 3), "so it is");
            }
        }
        let keys: Vec<&str> = turn.memory.intruders.iter().map(|known| known.machine.key.as_str()).collect();
        assert_eq!((keys.len(), keys.first(), keys.last()), (INTRUDERS_MAX, Some(&"3"), Some(&"10")));
    }
}
