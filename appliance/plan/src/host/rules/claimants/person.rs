//! Settling a claim by a person's word.

use firesteel_facts::EventReason;
use firesteel_resources::bare_metal_host::annotations;
use firesteel_resources::host_journal::{Claimant, RequestOutcome};
use jiff::{SignedDuration, Timestamp};

use super::{POWER_TRIES_MAX, cuts_lately, end, kind, name, neither, over};
use crate::host::model::{Claimants, HostReason, PendingErasure};
use crate::host::turn::StepDraft;
use crate::host::turn::contest::in_words;

/// Takes a person's word for who is the host.
#[track_caller]
pub(crate) fn decide_by_person(turn: &mut StepDraft<'_>) -> Option<HostReason> {
    let word = turn.take_request(annotations::CHOOSE_AGENT)?.to_ascii_lowercase();
    let Some(claims) = turn.memory.claimants.clone() else {
        refuse(turn, "one machine alone claims to be this host".to_owned());
        return None;
    };
    if word == annotations::NO_CLAIMANT {
        let text = format!("attempt {} is over for all machines that claim to be this host", claims.attempt);
        turn.answer(annotations::CHOOSE_AGENT, RequestOutcome::Done, &text);
        return Some(neither(turn, &claims, &word, "by a person's word"));
    }
    let Some(host) = claims.all().find(|machine| machine.key == word) else {
        let text =
            format!("no machine with the key {word:.16} claims to be this host: `firesteel describe` shows them");
        refuse(turn, text);
        return None;
    };
    let rest: Vec<&Claimant> = claims.all().filter(|machine| machine.key != word).collect();
    rest.iter().for_each(|machine| name(turn, machine, "a person said that another machine is the host"));
    let goes = if host.key == claims.first.key {
        end(turn, &word, 0);
        if claims.cut.is_some() {
            // Its power was cut from here: that it is off tells nothing of who erased.
            turn.memory.wipe = turn.memory.wipe.take().filter(PendingErasure::is_held);
        }
        "its attempt goes on"
    } else {
        over(turn, &word, 0);
        "it boots into the next attempt"
    };
    let text = format!("a person said that the host is {host}: {goes}");
    turn.answer(annotations::CHOOSE_AGENT, RequestOutcome::Done, &text);
    turn.event(EventReason::ClaimResolved, text);
    None
}

fn refuse(turn: &mut StepDraft<'_>, text: String) {
    turn.answer(annotations::CHOOSE_AGENT, RequestOutcome::Refused, &text);
    turn.warn(EventReason::ClaimNotResolved, text);
}

/// Says why the BMC cannot settle it.
pub(super) fn by_person(turn: &StepDraft<'_>, claims: &Claimants) -> Option<String> {
    if !turn.has_bmc() {
        return Some("there is no BMC that could switch the host off".to_owned());
    }
    if turn.seen.host.spec.disable_power_off {
        return Some("spec.disablePowerOff keeps the host on".to_owned());
    }
    if turn.drive_at_work().is_some() || is_drive_of_other_at_work(turn, claims) {
        return Some("a drive is at an erase that cannot be interrupted".to_owned());
    }
    if claims.cut.is_none() && cuts_lately(turn) >= POWER_TRIES_MAX {
        return Some(format!("{POWER_TRIES_MAX} power-offs in a row did not end it"));
    }
    claims.cut.as_ref().and_then(|cut| cut.unseen.clone())
}

/// Says whether a drive of another claimant is at such an erase, by its newest word, as far as that may still be so.
fn is_drive_of_other_at_work(turn: &StepDraft<'_>, claims: &Claimants) -> bool {
    let is_other = |key: &str| claims.others.iter().any(|other| other.key == key);
    let may_last = |at: Timestamp| turn.now.duration_since(at) <= turn.limits().erase_stall;
    turn.seen.claims_heard.iter().any(|heard| heard.cannot_stop && is_other(&heard.key) && may_last(heard.at))
}

/// Waits for a person's word.
#[track_caller]
pub(super) fn wait_for_person(turn: &mut StepDraft<'_>, claims: Claimants, why: String) -> HostReason {
    let (host, until) = (&turn.seen.host.metadata.name, claims.until);
    let goes = if turn.is_deleting() { "; `firesteel release --force` lets it go as it is" } else { "" };
    let text = format!(
        "{}; {why}, so a person decides: `firesteel choose-agent {host} --key KEY` names the host, `--none` ends the \
         attempt, which ends by itself at {until:.0}{goes}",
        in_words(&claims.first, &claims.others)
    );
    turn.memory.claimants = Some(Claimants { person: Some(why), ..claims });
    turn.is_shut = true;
    let left = until.duration_since(turn.now).max(SignedDuration::from_secs(1));
    turn.blocked(kind(&turn.memory.state), turn.limits().work_poll.min(left), text)
}
