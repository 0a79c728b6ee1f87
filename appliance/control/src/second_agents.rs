//! Machines that speak for a host beside its bound agent: they are held, or sent away.

use std::net::IpAddr;

use firesteel_boot::BootTokenClaims;
use firesteel_plan::journal::{self, is_intruder};
use firesteel_resources::host_journal::{Claimant, HostJournalStatus};
use firesteel_runtime::HostKey;
use firesteel_wire::{AgentReport, RefusalReason, RefusalReply};
use jiff::Timestamp;

use crate::claimants::{claim, former, is_claimant};
use crate::refusals::{busy, refusal};
use crate::{agents::AgentConversations, host_inputs::cannot_stop, map, views::LiveHost};

/// When a claimant was heard, and whether it said that a drive of it cannot stop.
#[derive(Clone, Copy)]
pub(crate) struct HeardClaimant {
    pub(crate) at: Timestamp,
    pub(crate) cannot_stop: Option<bool>,
}

impl HeardClaimant {
    fn by(report: &AgentReport, at: Timestamp) -> Self {
        Self { at, cannot_stop: Some(cannot_stop(report).is_some()) }
    }
}

impl AgentConversations {
    /// Takes note of a message of the bound agent, which may be answered much later.
    pub(crate) fn note_arrival(&self, key: &HostKey, report: &AgentReport) {
        let now = self.shared.now();
        if let Some(view) = self.shared.views().hosts.get_mut(key).filter(|view| view.agent.key == Some(report.key)) {
            view.claims.note(&report.key.to_string(), now, Some(cannot_stop(report).is_some()));
        }
    }

    /// Says whether more than one machine claims to be the host.
    pub(crate) fn is_claimed(&self, key: &HostKey) -> bool {
        self.shared.views().hosts.get(key).is_some_and(|view| view.is_claimed)
    }

    /// Holds a machine that claims a host beside another one. `is_new`: it was not known until now, so that the other
    /// one is stopped as well.
    pub(crate) fn hold_claimant(&self, key: &HostKey, other: &str, is_new: bool, heard: HeardClaimant) -> RefusalReply {
        let text = format!(
            "more than one machine says that it is host {}: nothing is destroyed, and this machine waits, until that is \
             settled; `firesteel describe host {}` shows both",
            key.name, key.name
        );
        if let Some(view) = self.shared.views().hosts.get_mut(key) {
            view.claims.note(other, heard.at, heard.cannot_stop);
            if is_new {
                // Before the planner's step: the next reply to the bound agent says so.
                view.is_claimed = true;
                view.unseen_claimant = Some(other.to_owned());
                view.agent.hold(true);
                view.shut.get_or_insert_with(|| text.clone());
                view.agent.changed.notify_waiters();
            }
        }
        if is_new {
            tracing::warn!(host = %key, key = %other.get(..16).unwrap_or(other), "another machine claims to be this host: both are held");
            self.shared.queue.wake(key);
        }
        refusal(RefusalReason::Held, &text)
    }

    /// Has the log say why an agent of this host is refused, but not each time that it asks.
    pub(crate) fn warn_of_refusal(&self, key: &HostKey, attempt: u64, remote: Option<IpAddr>, text: &str) {
        let now = self.shared.now();
        let remote = remote.map(tracing::field::display);
        if self.shared.views().hosts.get_mut(key).is_some_and(|view| view.said_refusals.is_news(text, now)) {
            tracing::warn!(host = %key, attempt, remote, "{text}");
        } else {
            tracing::debug!(host = %key, attempt, remote, "{text}");
        }
    }

    /// Sends a machine away that is known not to be the host.
    pub(crate) fn send_away(&self, key: &HostKey, attempt: u64) -> RefusalReply {
        self.shared.metrics.agent_refused();
        let text = "a machine that is known not to be this host speaks for it: refused";
        self.warn_of_refusal(key, attempt, None, text);
        refusal(RefusalReason::OldAttempt, "this machine is known not to be the host: boot again")
    }

    /// Answers a report of another key than the bound one, of its attempt.
    pub(crate) async fn second_report(
        &self,
        key: &HostKey,
        claims: &BootTokenClaims,
        report: &AgentReport,
        journal: &HostJournalStatus,
        remote: IpAddr,
    ) -> RefusalReply {
        let said = report.key.to_string();
        if is_intruder(journal, &said) {
            return self.send_away(key, claims.attempt);
        }
        if report.leaving {
            return refusal(RefusalReason::OldAttempt, "this boot is another machine's: boot again");
        }
        let other = Claimant {
            key: said,
            attempt: claims.attempt,
            boot_id: map::field(&report.boot_id),
            mac: String::new(),
            address: remote.to_string(),
            first_at: self.shared.now(),
            is_compared: false,
        };
        self.note_claim(key, other, report, journal).await
    }

    /// Answers a report of an attempt that is over. The agent that was bound before the current one is held where it
    /// goes on to report; one that leaves, or that no other one replaced, is sent away.
    pub(crate) async fn late_report(
        &self,
        key: &HostKey,
        claims: &BootTokenClaims,
        report: &AgentReport,
        journal: &HostJournalStatus,
        remote: IpAddr,
    ) -> RefusalReply {
        let said = report.key.to_string();
        let current = journal::attempt(journal);
        let text = format!("attempt {} is over, the host is at attempt {current}: boot again", claims.attempt);
        if is_intruder(journal, &said) {
            return self.send_away(key, claims.attempt);
        }
        let is_held = is_claimant(journal, &said);
        let Some(former) = former(journal, claims.attempt, &said).filter(|_| !report.leaving) else {
            if is_held && !report.leaving {
                return self.hold_claimant(key, &said, false, HeardClaimant::by(report, self.shared.now()));
            }
            return refusal(RefusalReason::OldAttempt, &text);
        };
        let is_again = |view: &mut LiveHost| view.claims.is_late_again(&said, report.sequence);
        if is_held || self.shared.views().hosts.get_mut(key).is_some_and(is_again) {
            let other = Claimant { address: remote.to_string(), ..former.clone() };
            return self.note_claim(key, other, report, journal).await;
        }
        // It may have been on its way: if not, the next one comes.
        let text = format!("{text}, unless another machine took its place: report again");
        refusal(RefusalReason::Held, &text)
    }

    /// Keeps a claimant, and holds it and the bound agent.
    async fn note_claim(
        &self,
        key: &HostKey,
        other: Claimant,
        report: &AgentReport,
        journal: &HostJournalStatus,
    ) -> RefusalReply {
        // Before it is written, which may take a while.
        let heard = HeardClaimant::by(report, self.shared.now());
        if is_claimant(journal, &other.key) {
            return self.hold_claimant(key, &other.key, false, heard);
        }
        match self.shared.journals.change(key, |status| claim(status, &other, heard.at)).await {
            Ok(is_new) => self.hold_claimant(key, &other.key, is_new.unwrap_or_default(), heard),
            Err(status) => busy(status),
        }
    }
}
