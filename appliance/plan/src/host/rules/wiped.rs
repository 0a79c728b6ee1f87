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
use jiff::Timestamp;

use crate::{
    disk::Method,
    host::{
        model::{
            effect::{Effect, EventKind, Reason},
            erasure::{Erased, Wipe, WipeVerdict},
            memory::disks::CleanedNote,
            orders::{BmcAction, PlanKind},
            seen::{AgentSeen, Power},
        },
        rules::{agent, cut, restored, tombstone, verdict},
        turn::{
            Turn,
            attempt::{self, Presence},
            bmc::{Call, call, fault_text},
            later, words,
        },
    },
};

/// How the end that is waited for looks.
enum End {
    Waiting(Reason),
    Off,
    /// Why the host was not seen to switch itself off.
    Unseen(String),
}

/// Ends an erasure whose receipts are all there; `Ok` says what is known of it.
#[track_caller]
pub(crate) fn conclude(turn: &mut Turn<'_>, erased: Erased, kind: ErrorType) -> Result<String, Reason> {
    let claims = erased.method > Method::Metadata;
    let mut unverified = if claims { unheld(turn) } else { Vec::new() };
    if claims && unverified.is_empty() {
        unverified.extend(unlit(turn)?);
    }
    let waits = claims && unverified.is_empty();
    if waits {
        turn.issue(PlanKind::PowerOff);
    }
    let (attempt, plan) = (turn.memory.attempt, turn.memory.plan_number);
    if claims && !waits {
        judged(turn, (attempt, plan), unverified.clone(), None);
    }
    let wipe = Wipe { attempt, plan, since: turn.now, erased, asked_at: None, unverified, accepted_at: None };
    if !waits {
        return over(turn, wipe, kind);
    }
    turn.memory.wipe = Some(wipe);
    turn.deadline(later(turn.now, turn.limits().power_change));
    let text =
        "the disks are erased; waiting for the agent to switch the host off, which tells it from another machine";
    Err(turn.stay(turn.limits().secret_retry, text))
}

/// Has the signed receipts say what the erasure came to.
fn judged(turn: &mut Turn<'_>, (attempt, plan): (u64, u32), unverified: Vec<String>, off_after: Option<Timestamp>) {
    let boot = turn.memory.clean_boot.as_ref().filter(|boot| boot.attempt == attempt);
    let off_before = boot.and_then(|boot| boot.off_at);
    verdict::give(turn, WipeVerdict { attempt, plan, unverified, off_before, off_after });
}

/// Says what was not seen of the boot that erased.
fn unheld(turn: &Turn<'_>) -> Vec<String> {
    let attempt = turn.memory.attempt;
    let power = match turn.memory.clean_boot.as_ref().filter(|boot| boot.attempt == attempt) {
        _ if !turn.has_bmc() => vec!["there is no BMC that could show the host off".to_owned()],
        Some(boot) => boot.unheld(),
        None => vec!["the host was not switched off and on before it".to_owned()],
    };
    let boot = attempt::current(turn).map(|agent| agent.unseen.clone()).unwrap_or_default();
    power.into_iter().chain(boot.into_iter().map(|what| format!("not seen: {what}"))).collect()
}

/// Says why the host cannot be seen to go off: the power-off of one that is off already shows nothing.
#[track_caller]
fn unlit(turn: &mut Turn<'_>) -> Result<Option<String>, Reason> {
    if turn.seen.host.spec.disable_power_off {
        return Ok(Some("spec.disablePowerOff keeps the host on after it".to_owned()));
    }
    match call(turn, BmcAction::Probe) {
        Call::Waiting(reason) => Err(reason),
        Call::Done if turn.seen.bmc.power == Power::On => Ok(None),
        Call::Done => {
            let why = "the BMC did not show the host on while its agent was there".to_owned();
            if turn.seen.bmc.power == Power::Off { Ok(Some(why)) } else { unclear(turn, why) }
        }
        Call::Failed(fault) => {
            let why = format!("the host was not seen on: {}", fault_text(turn, &fault));
            unclear(turn, why)
        }
    }
}

/// Repeats a look that showed nothing, for a while.
#[track_caller]
fn unclear(turn: &mut Turn<'_>, why: String) -> Result<Option<String>, Reason> {
    cut::look_again(turn, &why).map_or(Ok(Some(why)), Err)
}

/// Goes on with an erasure whose end is waited for; `None` where there is none.
#[track_caller]
pub(crate) fn go_on(turn: &mut Turn<'_>, kind: ErrorType) -> Result<Option<String>, Reason> {
    let Some(mut wipe) = turn.memory.wipe.clone() else { return Ok(None) };
    if wipe.is_held() {
        if turn.requests.retry {
            turn.memory.wipe = None;
            attempt::open(turn);
            return Ok(None);
        }
        agent::keep_fresh(turn);
        return over(turn, wipe, kind).map(Some);
    }
    match end(turn, &mut wipe) {
        End::Waiting(reason) => {
            turn.memory.wipe = Some(wipe);
            return Err(reason);
        }
        End::Off => judged(turn, (wipe.attempt, wipe.plan), Vec::new(), turn.seen.bmc.power_at),
        End::Unseen(why) => {
            wipe.unverified.push(format!("the host was not seen to switch itself off after it: {why}"));
            judged(turn, (wipe.attempt, wipe.plan), wipe.unverified.clone(), None);
        }
    }
    over(turn, wipe, kind).map(Some)
}

/// Settles an erasure of which all is known that will be; `Err` where its owner has it held, and it is not accepted yet.
#[track_caller]
fn over(turn: &mut Turn<'_>, wipe: Wipe, kind: ErrorType) -> Result<String, Reason> {
    let holds = turn.requests.cleaning.when_unverified == WhenUnverified::Hold;
    if !wipe.is_held() || !holds || wipe.accepted_at.is_some() {
        if turn.memory.wipe.as_ref().is_some_and(Wipe::is_held) {
            // That it was held is no error any more.
            turn.memory.failure = None;
        }
        return Ok(settle(turn, wipe));
    }
    let host = &turn.seen.host.metadata.name;
    let goes = if turn.is_deleting() { "; `firesteel release --force` lets it go as it is" } else { "" };
    let text = format!(
        "held, because the erasure is unverified: {}; `firesteel accept-wipe {host}` lets the host go on, and `firesteel \
         retry {host}` has it erased once more{goes}",
        wipe.unverified.join("; ")
    );
    turn.memory.plan = None;
    turn.memory.wipe = Some(wipe);
    Err(turn.blocked(kind, turn.limits().slow_poll, text))
}

/// Takes a person's word that an unverified erasure is enough.
pub(crate) fn accept(turn: &mut Turn<'_>) {
    let Some(mark) = turn.requests.accept_wipe.clone() else { return };
    turn.effect(Effect::RemoveAnnotation { key: annotations::ACCEPT_WIPE.to_owned() });
    let now = turn.now;
    match turn.memory.wipe.as_mut().filter(|wipe| wipe.is_held() && wipe.mark() == mark) {
        Some(wipe) => {
            wipe.accepted_at = Some(now);
            let text = format!(
                "the unverified erasure {mark} was accepted; what was not seen: {}",
                wipe.unverified.join("; ")
            );
            turn.event(EventKind::Normal, EventReason::WipeAccepted, text);
        }
        // The removal of the annotation may take a step longer.
        None if turn.memory.cleaned.as_ref().is_some_and(|cleaned| cleaned.accepted_at.is_some()) => {}
        None => {
            let text = format!("no erasure {mark:?} is held: `firesteel accept-wipe` accepts the one that is");
            turn.event(EventKind::Warning, EventReason::WipeNotAccepted, text);
        }
    }
}

fn end(turn: &mut Turn<'_>, wipe: &mut Wipe) -> End {
    let Some(agent) = attempt::current(turn).filter(|agent| agent.attempt == wipe.attempt) else {
        return End::Unseen("it booted again".to_owned());
    };
    if agent.left {
        return power(turn, wipe, agent.left_at.unwrap_or(wipe.since));
    }
    if attempt::presence(turn) != Presence::Alive {
        return End::Unseen("its agent went without a word".to_owned());
    }
    announce(turn, wipe, agent)
}

/// Waits for an agent that has not said yet that it leaves.
fn announce(turn: &mut Turn<'_>, wipe: &Wipe, agent: &AgentSeen) -> End {
    let limit = turn.limits().power_change;
    // An appliance that was away does not take its own silence for the agent's.
    let since = wipe.since.max(turn.seen.started_at);
    if turn.now.duration_since(since) > limit {
        return End::Unseen(format!("its agent did not say so within {}", words(limit)));
    }
    if let attempt::Progress::Failed { message, .. } = attempt::progress(turn, agent) {
        return End::Unseen(format!("its agent could not: {message}"));
    }
    turn.issue_again();
    turn.deadline(later(since, limit));
    let text = "the disks are erased; waiting for the agent to switch the host off";
    End::Waiting(turn.stay(turn.limits().secret_retry, text))
}

/// Looks whether the BMC shows the host off, soon after the agent has said that it switches it off.
fn power(turn: &mut Turn<'_>, wipe: &mut Wipe, left_at: Timestamp) -> End {
    let (pause, limit) = (turn.limits().power_poll_changing, turn.limits().wipe_off);
    let until = later(left_at, limit);
    let mut why = "the BMC did not show it".to_owned();
    let is_asked = turn.memory.bmc.call.as_ref().is_some_and(|pending| pending.call.action == BmcAction::Probe);
    if is_asked || wipe.asked_at.is_none_or(|at| turn.now >= later(at, pause)) {
        match call(turn, BmcAction::Probe) {
            Call::Waiting(reason) if turn.now <= until => return End::Waiting(reason),
            Call::Waiting(_) => {}
            Call::Done => {
                wipe.asked_at = Some(turn.now);
                let is_in_time = turn.seen.bmc.power_at.is_some_and(|at| (left_at..=until).contains(&at));
                if turn.seen.bmc.power == Power::Off && is_in_time {
                    return End::Off;
                }
            }
            Call::Failed(fault) => {
                wipe.asked_at = Some(turn.now);
                why = fault_text(turn, &fault);
            }
        }
    }
    if turn.now > until {
        return End::Unseen(format!("{why} within {} after the agent had said so", words(limit)));
    }
    turn.deadline(until);
    End::Waiting(turn.stay(pause, "the disks are erased; waiting until the BMC shows that the host is off"))
}

/// Keeps what is known of an erasure that is over. Its disks count as erased by their agent's word; the words for it say
/// whether that is proven.
fn settle(turn: &mut Turn<'_>, wipe: Wipe) -> String {
    let Wipe { attempt, erased, unverified, accepted_at, .. } = wipe;
    turn.memory.wipe = None;
    turn.memory.plan = None;
    erased.disks.iter().for_each(|disk| tombstone::settle(turn, disk, erased.method));
    restored::settle_move(turn);
    turn.memory.restored = None;
    if erased.is_whole && erased.is_all {
        tombstone::settle_all(turn);
        turn.memory.holds_unknown = false;
        turn.memory.unknown_of_tenant = false;
    }
    let is_whole = erased.is_whole && !turn.memory.holds_unknown;
    let text = in_words(&erased, &unverified);
    if !unverified.is_empty() {
        turn.event(EventKind::Warning, EventReason::WipeUnverified, text.clone());
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

fn in_words(erased: &Erased, unverified: &[String]) -> String {
    if unverified.is_empty() {
        return erased.proven.clone();
    }
    shortened(format!("unverified: {}; {}", unverified.join("; "), erased.claimed))
}

/// Of an event's message: Kubernetes' own limit, less what stands around it.
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
        let erased = Erased {
            method: Method::Full,
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
}
