//! Settling a claim by the power: who reports while the BMC shows the host off is not the host.

use firesteel_facts::EventReason;
use firesteel_resources::host_journal::Claimant;
use jiff::{SignedDuration, Timestamp};

use super::{BY_POWER, cuts_lately, name, over, stop_waiting};
use crate::host::model::{Claimants, HostReason, PowerCut};
use crate::host::rules::power_off::{PowerOffCheck, check_power_off, not_shown};
use crate::host::turn::{StepDraft, format_duration, later};

/// Switches the host off, listens, and names who still reports.
#[track_caller]
pub(super) fn by_power(turn: &mut StepDraft<'_>, mut claims: Claimants) -> HostReason {
    let mut cut = claims.cut.take().unwrap_or_else(|| PowerCut::new(turn.now, 0));
    if claims.person.take().is_some() {
        stop_waiting(turn);
    }
    let Some(off_at) = cut.off_at else {
        let reason = switch_off(turn, &mut cut);
        claims.cut = Some(cut);
        turn.memory.claimants = Some(claims);
        return reason;
    };
    let end_at = later(off_at, turn.limits().claim_listen);
    if turn.now < end_at {
        claims.cut = Some(cut);
        turn.memory.claimants = Some(claims);
        turn.deadline(end_at);
        let left = end_at.duration_since(turn.now).max(SignedDuration::from_secs(1));
        return turn.wait_in_state(left, "the host is off: who still reports is not the host");
    }
    name_intruders(turn, &claims, off_at)
}

/// Switches the host off, and looks whether it is.
#[track_caller]
fn switch_off(turn: &mut StepDraft<'_>, cut: &mut PowerCut) -> HostReason {
    let (pause, limit) = (turn.limits().power_poll_changing, turn.limits().power_change);
    let is_late = turn.now.duration_since(cut.since) > limit;
    let why = match check_power_off(turn, cut) {
        PowerOffCheck::Waiting(reason) if !is_late => return reason,
        PowerOffCheck::Waiting(_) => "the BMC does not answer".to_owned(),
        PowerOffCheck::Off => {
            let text = "the BMC shows that the host is off: who still reports is not the host";
            turn.event(EventReason::SwitchedOff, text);
            return turn.wait_in_state(SignedDuration::from_secs(1), text);
        }
        PowerOffCheck::NotYet => not_shown(cut),
        PowerOffCheck::Failed(fault) => turn.fault_text(&fault),
    };
    if is_late {
        cut.unseen = Some(format!("the host was not seen off within {} ({why})", format_duration(limit)));
        return turn
            .wait_in_state(SignedDuration::from_secs(1), "the host could not be switched off: a person decides");
    }
    turn.deadline(later(cut.since, limit));
    turn.wait_in_state(pause, "more than one machine claims to be this host: switching it off, which tells them apart")
}

/// Names who reported while the host was off, and ends the attempt.
#[track_caller]
fn name_intruders(turn: &mut StepDraft<'_>, claims: &Claimants, off_at: Timestamp) -> HostReason {
    let since = later(off_at, turn.limits().claim_grace);
    let heard = |key: &str| turn.seen.claims_heard.iter().any(|heard| heard.key == key && heard.at > since);
    let named: Vec<&Claimant> = claims.all().filter(|machine| heard(&machine.key)).collect();
    let text = if named.is_empty() {
        format!(
            "none of them reported while the host was off, so which of them was the host is not known; attempt {} is over",
            claims.attempt
        )
    } else {
        let all: Vec<String> = named.iter().copied().map(ToString::to_string).collect();
        format!("while the BMC showed the host off, this machine reported, and is not the host: {}", all.join("; "))
    };
    named.iter().for_each(|machine| name(turn, machine, "it reported while the BMC showed the host off"));
    turn.warn(EventReason::ClaimResolved, text.clone());
    let cuts = cuts_lately(turn) + 1;
    over(turn, BY_POWER, cuts);
    turn.wait_in_state(SignedDuration::from_secs(1), text)
}
