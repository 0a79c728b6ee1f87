//! The end of an erasure: what its agent's receipts prove is called so only where the host was seen to be who erased.
//! Pure.
//!
//! ```text
//!   receipts for every disk
//!     ├─ the boot was not all seen, there is no BMC, or it does not
//!     │  show the host on ───────────────────────────────────────────► unverified: what was not seen
//!     └─ the agent says that it switches the host off ─┬─ the BMC shows "off" within a minute ──► proven
//!                                                      └─ it does not, or the agent says nothing ► unverified
//! ```
//!
//! What is unverified goes on, unless its owner holds it (`whenUnverified` in the annotation `firesteel.dev/cleaning`):
//! then a person accepts it, or has the host erased once more.
//!
//! A neighbour that imitates the host can send receipts, and cannot switch the host off. What is looked at here comes
//! before the host's agent is: it has left.

use firesteel_facts::EventReason;
use firesteel_resources::bare_metal_host::{ErrorType, annotations, cleaning::WhenUnverified};
use firesteel_resources::host_journal::RequestOutcome;
use jiff::Timestamp;

use crate::disk::CleaningMethod;
use crate::host::model::{
    AgentInputs, BmcAction, CleanedNote, ErasureSummary, HostPower, HostReason, PendingErasure, PlanKind, WipeVerdict,
};
use crate::host::rules::{agent, erasure_grade, freeze, power_cut, tombstone};
use crate::host::turn::{AgentPlanProgress, AgentPresence, BmcCallProgress, StepDraft, format_duration, later};

/// How the end that is waited for looks.
enum ErasurePowerEnd {
    Waiting(HostReason),
    Off,
    /// Why the host was not seen to switch itself off.
    Unseen(String),
}

/// Ends an erasure whose receipts are all there; `Ok` says what is known of it.
#[track_caller]
pub(crate) fn conclude(
    turn: &mut StepDraft<'_>,
    erased: ErasureSummary,
    kind: ErrorType,
) -> Result<String, HostReason> {
    let claims = erased.method > CleaningMethod::Metadata;
    let mut unverified = if claims { missing_evidence(turn) } else { Vec::new() };
    if claims && unverified.is_empty() {
        unverified.extend(power_off_unprovable(turn)?);
    }
    let waits = claims && unverified.is_empty();
    if waits {
        turn.issue(PlanKind::PowerOff);
    }
    let (attempt, plan) = (turn.memory.attempt, turn.memory.plan_number);
    if claims && !waits {
        grade_receipts(turn, attempt, plan, unverified.clone(), None);
    }
    let wipe = PendingErasure { attempt, plan, since: turn.now, erased, asked_at: None, unverified, accepted_at: None };
    if !waits {
        return over(turn, wipe, kind);
    }
    turn.memory.wipe = Some(wipe);
    turn.deadline(later(turn.now, turn.limits().power_change));
    let text =
        "the disks are erased; waiting for the agent to switch the host off, which tells it from another machine";
    Err(turn.wait_in_state(turn.limits().secret_retry, text))
}

/// Has the signed receipts say what the erasure came to.
fn grade_receipts(
    turn: &mut StepDraft<'_>,
    attempt: u64,
    plan: u32,
    unverified: Vec<String>,
    off_after: Option<Timestamp>,
) {
    let boot = turn.memory.clean_boot.as_ref().filter(|boot| boot.attempt == attempt);
    let off_before = boot.and_then(|boot| boot.off_at);
    erasure_grade::give(turn, WipeVerdict { attempt, plan, unverified, off_before, off_after });
}

/// Says what was not seen of the boot that erased.
fn missing_evidence(turn: &StepDraft<'_>) -> Vec<String> {
    let attempt = turn.memory.attempt;
    let power = match turn.memory.clean_boot.as_ref().filter(|boot| boot.attempt == attempt) {
        _ if !turn.has_bmc() => vec!["there is no BMC that could show the host off".to_owned()],
        Some(boot) => boot.missing_evidence(),
        None => vec!["the host was not switched off and on before it".to_owned()],
    };
    let boot = turn.current_agent().map(|agent| agent.unseen.clone()).unwrap_or_default();
    power.into_iter().chain(boot.into_iter().map(|what| format!("not seen: {what}"))).collect()
}

/// Says why the host cannot be seen to go off: the power-off of one that is off already shows nothing.
#[track_caller]
fn power_off_unprovable(turn: &mut StepDraft<'_>) -> Result<Option<String>, HostReason> {
    if turn.seen.host.spec.disable_power_off {
        return Ok(Some("spec.disablePowerOff keeps the host on after it".to_owned()));
    }
    match turn.call(BmcAction::Probe) {
        BmcCallProgress::Waiting(reason) => Err(reason),
        BmcCallProgress::Done if turn.seen.bmc.power == HostPower::On => Ok(None),
        BmcCallProgress::Done => {
            let why = "the BMC did not show the host on while its agent was there".to_owned();
            if turn.seen.bmc.power == HostPower::Off { Ok(Some(why)) } else { retry_power_check(turn, why) }
        }
        BmcCallProgress::Failed(fault) => {
            let why = format!("the host was not seen on: {}", turn.fault_text(&fault));
            retry_power_check(turn, why)
        }
    }
}

/// Repeats a look that showed nothing, for a while.
#[track_caller]
fn retry_power_check(turn: &mut StepDraft<'_>, why: String) -> Result<Option<String>, HostReason> {
    power_cut::wait_for_power_check(turn, &why).map_or(Ok(Some(why)), Err)
}

/// Goes on with an erasure whose end is waited for; `None` where there is none.
#[track_caller]
pub(crate) fn go_on(turn: &mut StepDraft<'_>, kind: ErrorType) -> Result<Option<String>, HostReason> {
    let Some(mut wipe) = turn.memory.wipe.clone() else { return Ok(None) };
    if wipe.is_held() {
        if turn.requests.retry {
            turn.memory.wipe = None;
            turn.open_attempt();
            return Ok(None);
        }
        agent::keep_fresh(turn);
        return over(turn, wipe, kind).map(Some);
    }
    match end(turn, &mut wipe) {
        ErasurePowerEnd::Waiting(reason) => {
            turn.memory.wipe = Some(wipe);
            return Err(reason);
        }
        ErasurePowerEnd::Off => grade_receipts(turn, wipe.attempt, wipe.plan, Vec::new(), turn.seen.bmc.power_at),
        ErasurePowerEnd::Unseen(why) => {
            wipe.unverified.push(format!("the host was not seen to switch itself off after it: {why}"));
            grade_receipts(turn, wipe.attempt, wipe.plan, wipe.unverified.clone(), None);
        }
    }
    over(turn, wipe, kind).map(Some)
}

/// Settles an erasure of which all is known that will be; `Err` where its owner has it held, and it is not accepted
/// yet.
#[track_caller]
fn over(turn: &mut StepDraft<'_>, wipe: PendingErasure, kind: ErrorType) -> Result<String, HostReason> {
    let holds = turn.requests.cleaning.when_unverified == WhenUnverified::Hold;
    if !wipe.is_held() || !holds || wipe.accepted_at.is_some() {
        if turn.memory.wipe.as_ref().is_some_and(PendingErasure::is_held) {
            // That it was held is no error any more.
            turn.memory.failure = None;
        }
        return Ok(finish_erasure(turn, wipe));
    }
    let host = &turn.seen.host.metadata.name;
    let goes = if turn.is_deleting() { "; `firesteel release --force` lets it go as it is" } else { "" };
    let text = format!(
        "held, because the erasure is unverified: {}; `firesteel accept-erasure {host}` lets the host go on, and \
         `firesteel retry {host}` has it erased once more{goes}",
        wipe.unverified.join("; ")
    );
    turn.memory.plan = None;
    turn.memory.wipe = Some(wipe);
    Err(turn.blocked(kind, turn.limits().slow_poll, text))
}

/// Takes a person's word that an unverified erasure is enough.
pub(crate) fn accept(turn: &mut StepDraft<'_>) {
    let Some(mark) = turn.take_request(annotations::ACCEPT_ERASURE) else { return };
    let now = turn.now;
    match turn.memory.wipe.as_mut().filter(|wipe| wipe.is_held() && wipe.mark() == mark) {
        Some(wipe) => {
            wipe.accepted_at = Some(now);
            let unseen = wipe.unverified.join("; ");
            let text = format!("the unverified erasure {mark} was accepted; what was not seen: {unseen}");
            turn.event(EventReason::WipeAccepted, text);
            let answer = format!("the erasure {mark} is enough, and the host goes on; it stays unverified: {unseen}");
            let answer = turn.with_gate(&answer);
            turn.answer(annotations::ACCEPT_ERASURE, RequestOutcome::Done, &answer);
        }
        None => {
            let text = format!("no erasure {mark:?} is held: `firesteel accept-erasure` accepts the one that is");
            turn.answer(annotations::ACCEPT_ERASURE, RequestOutcome::Refused, &text);
            turn.warn(EventReason::WipeNotAccepted, text);
        }
    }
}

fn end(turn: &mut StepDraft<'_>, wipe: &mut PendingErasure) -> ErasurePowerEnd {
    let Some(agent) = turn.current_agent().filter(|agent| agent.attempt == wipe.attempt) else {
        return ErasurePowerEnd::Unseen("it booted again".to_owned());
    };
    if agent.left {
        return power(turn, wipe, agent.left_at.unwrap_or(wipe.since));
    }
    if turn.presence() != AgentPresence::Alive {
        return ErasurePowerEnd::Unseen("its agent went without a word".to_owned());
    }
    announce(turn, wipe, agent)
}

/// Waits for an agent that has not said yet that it leaves.
fn announce(turn: &mut StepDraft<'_>, wipe: &PendingErasure, agent: &AgentInputs) -> ErasurePowerEnd {
    let limit = turn.limits().power_change;
    // An appliance that was away does not take its own silence for the agent's.
    let since = wipe.since.max(turn.seen.started_at);
    if turn.now.duration_since(since) > limit {
        return ErasurePowerEnd::Unseen(format!("its agent did not say so within {}", format_duration(limit)));
    }
    if let AgentPlanProgress::Failed { message, .. } = turn.progress(agent) {
        return ErasurePowerEnd::Unseen(format!("its agent could not: {message}"));
    }
    turn.issue_again();
    turn.deadline(later(since, limit));
    let text = "the disks are erased; waiting for the agent to switch the host off";
    ErasurePowerEnd::Waiting(turn.wait_in_state(turn.limits().secret_retry, text))
}

/// Looks whether the BMC shows the host off, soon after the agent has said that it switches it off.
fn power(turn: &mut StepDraft<'_>, wipe: &mut PendingErasure, left_at: Timestamp) -> ErasurePowerEnd {
    let (pause, limit) = (turn.limits().power_poll_changing, turn.limits().wipe_off);
    let until = later(left_at, limit);
    let mut why = "the BMC did not show it".to_owned();
    let is_asked = turn.memory.bmc.call.as_ref().is_some_and(|pending| pending.call.action == BmcAction::Probe);
    if is_asked || wipe.asked_at.is_none_or(|at| turn.now >= later(at, pause)) {
        match turn.call(BmcAction::Probe) {
            BmcCallProgress::Waiting(reason) if turn.now <= until => return ErasurePowerEnd::Waiting(reason),
            BmcCallProgress::Waiting(_) => {}
            BmcCallProgress::Done => {
                wipe.asked_at = Some(turn.now);
                let is_in_time = turn.seen.bmc.power_at.is_some_and(|at| (left_at..=until).contains(&at));
                if turn.seen.bmc.power == HostPower::Off && is_in_time {
                    return ErasurePowerEnd::Off;
                }
            }
            BmcCallProgress::Failed(fault) => {
                wipe.asked_at = Some(turn.now);
                why = turn.fault_text(&fault);
            }
        }
    }
    if turn.now > until {
        return ErasurePowerEnd::Unseen(format!("{why} within {} after the agent had said so", format_duration(limit)));
    }
    turn.deadline(until);
    ErasurePowerEnd::Waiting(
        turn.wait_in_state(pause, "the disks are erased; waiting until the BMC shows that the host is off"),
    )
}

/// Keeps what is known of an erasure that is over. Its disks count as erased by their agent's word; the words for it
/// say whether that is proven.
fn finish_erasure(turn: &mut StepDraft<'_>, wipe: PendingErasure) -> String {
    let PendingErasure { attempt, erased, unverified, accepted_at, .. } = wipe;
    turn.memory.wipe = None;
    turn.memory.plan = None;
    erased.disks.iter().for_each(|disk| tombstone::clear_tombstone(turn, disk, erased.method));
    freeze::accept_cleaned_marks(turn);
    turn.memory.restored = None;
    if erased.is_whole && erased.is_all {
        tombstone::clear_all_tombstones(turn);
        turn.memory.holds_unknown = false;
        turn.memory.unknown_of_tenant = false;
    }
    let is_whole = erased.is_whole && !turn.memory.holds_unknown;
    let text = in_words(&erased, &unverified);
    if !unverified.is_empty() {
        turn.warn(EventReason::WipeUnverified, text.clone());
    }
    turn.memory.cleaned = Some(CleanedNote {
        at: turn.now,
        attempt,
        method: erased.method,
        is_erased: is_whole && unverified.is_empty(),
        is_partial: !is_whole,
        text: text.clone(),
        unverified,
        accepted_at,
    });
    text
}

fn in_words(erased: &ErasureSummary, unverified: &[String]) -> String {
    if unverified.is_empty() {
        return erased.proven.clone();
    }
    shortened(format!("unverified: {}; {}", unverified.join("; "), erased.claimed))
}

/// Longest message of an event: Kubernetes' own limit, less what stands around it.
const EVENT_BYTES_MAX: usize = 900;

/// Cuts a text to what an event's message holds.
pub(crate) fn shortened(mut text: String) -> String {
    if text.len() > EVENT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(EVENT_BYTES_MAX));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grade_is_told_only_where_everything_was_seen() {
        let erased = ErasureSummary {
            method: CleaningMethod::Full,
            disks: Vec::new(),
            is_all: true,
            is_whole: true,
            proven: "purged by sanitize-block".into(),
            claimed: "erased by sanitize-block".into(),
        };
        assert_eq!(in_words(&erased, &[]), "purged by sanitize-block");
        let text = in_words(&erased, &["there is no BMC".into(), "it booted again".into()]);
        assert!(text.starts_with("unverified: there is no BMC; it booted again; erased by"), "{text}");
        assert!(!text.contains("purge"), "{text}");
    }

    #[test]
    fn a_text_is_cut_only_beyond_what_an_event_holds_and_between_letters() {
        for (text, expected) in [
            (String::new(), String::new()),
            ("a".repeat(899), "a".repeat(899)),
            ("a".repeat(900), "a".repeat(900)),
            ("a".repeat(901), format!("{}…", "a".repeat(900))),
            (format!("{}ö", "a".repeat(899)), format!("{}…", "a".repeat(899))),
        ] {
            assert_eq!(shortened(text.clone()), expected, "{}", text.len());
        }
    }
}
