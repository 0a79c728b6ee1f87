//! Machines that speak for a host beside its bound agent: what is kept of them, and how they are held.
//!
//! ```text
//!   another key, in the attempt of the bound agent ─────────────────────────┐
//!   the key that was bound before, in two reports after the new hello ──────┴─► ClaimRecord in the journal
//!                                                                                 ├─ the agent's reply says hold, no plan
//!                                                                                 ├─ the other one: held, asks again
//!                                                                                 └─ the planner settles it
//! ```
//!
//! Both stop in the moment in which that is written. Which of them is the host, [`firesteel_plan::host::claimants`] settles;
//! who is known not to be it is sent away.

use std::net::IpAddr;

use firesteel_boot::Claims;
use firesteel_plan::{
    HostMemory, Seen,
    host::{ClaimHeard, claimants::contest, gate, outlook},
    journal::{self, is_intruder},
};
use firesteel_resources::host_journal::{CLAIMANTS_MAX, ClaimRecord, Claimant, HostJournalStatus};
use firesteel_runtime::{HostKey, event};
use firesteel_wire::{Hello, Refusal, RefusalReason, Report};
use jiff::Timestamp;

use crate::{
    Control,
    agents::{busy, refusal},
    map,
    seen::cannot_stop,
    views::HostView,
};

/// Claimants of one host that are heard: the bound agent and those that are kept of its attempt, and of the one before.
const HEARD_MAX: usize = 2 * (CLAIMANTS_MAX + 1);

/// When claimants of a host were heard last.
#[derive(Debug, Default)]
pub(crate) struct ClaimsHeard {
    heard: Vec<ClaimHeard>,
    /// The old key that reported after a new hello, and the number of its first such report.
    late: Option<(String, u64)>,
}

impl ClaimsHeard {
    /// Lists them, the one that was heard last at the end.
    pub(crate) fn all(&self) -> &[ClaimHeard] {
        &self.heard
    }

    /// Takes note of a message of this key; one that does not say what its drives are at leaves the word before it.
    pub(crate) fn note(&mut self, key: &str, at: Timestamp, cannot_stop: Option<bool>) {
        let before = self.heard.iter().find(|known| known.key == key).is_some_and(|known| known.cannot_stop);
        let cannot_stop = cannot_stop.unwrap_or(before);
        self.heard.retain(|known| known.key != key);
        self.heard.push(ClaimHeard { key: key.to_owned(), at, cannot_stop });
        let excess = self.heard.len().saturating_sub(HEARD_MAX);
        self.heard.drain(..excess);
    }

    /// Says whether an old key reports for the second time: its first report may have been on its way.
    fn is_late_again(&mut self, key: &str, sequence: u64) -> bool {
        match &self.late {
            Some((known, first)) if known == key => sequence > *first,
            Some(_) | None => {
                self.late = Some((key.to_owned(), sequence));
                false
            }
        }
    }
}

impl HostView {
    /// Shuts and opens what the agent may do, as a step that saw this left it. A claim that the step did not see yet holds
    /// until one has.
    pub(crate) fn take_gate(&mut self, memory: &HostMemory, seen: &Seen, shut: Option<String>) {
        let is_in = |key: &String| {
            seen.claim.as_ref().is_some_and(|record| record.others.iter().any(|other| other.key == *key))
        };
        self.unseen_claimant = self.unseen_claimant.take().filter(|key| !is_in(key));
        let is_unseen = self.unseen_claimant.is_some();
        self.is_claimed = is_unseen || contest(memory, seen).is_some();
        let is_held = is_unseen || gate::holds_back(seen, memory);
        self.agent.hold(is_held || outlook::is_set_aside(memory, seen));
        if self.shut != shut && !(is_unseen && shut.is_none()) {
            self.shut = shut;
            self.agent.changed.notify_waiters();
        }
    }
}

/// Describes the agent of a hello that claims a host.
pub(crate) fn claimant_of(attempt: u64, hello: &Hello, remote: IpAddr, now: Timestamp) -> Claimant {
    Claimant {
        key: hello.key.to_string(),
        attempt,
        boot_id: map::field(&hello.boot_id),
        mac: map::field(&hello.identity.boot_mac),
        address: remote.to_string(),
        first_at: now,
        is_compared: false,
    }
}

/// Says whether this key claims the current attempt beside the bound one.
pub(crate) fn is_claimant(status: &HostJournalStatus, key: &str) -> bool {
    let current = journal::attempt(status);
    let record = status.claim.as_ref().filter(|record| record.attempt == current);
    record.is_some_and(|record| record.others.iter().any(|other| other.key == key))
}

/// Takes note of a machine that claims the current attempt beside the bound agent; `true` where it was not known.
pub(crate) fn claim(status: &mut HostJournalStatus, other: &Claimant, now: Timestamp) -> bool {
    let current = journal::attempt(status);
    let Some(agent) = status.agent.as_ref().filter(|agent| agent.attempt == current && agent.key != other.key) else {
        return false;
    };
    let first = Claimant::of(agent);
    // Who is known not to be the host makes room for who is not known.
    let others = status.claim.iter().flat_map(|record| &record.others).map(|other| other.key.clone());
    let named: Vec<String> = others.filter(|key| is_intruder(status, key)).collect();
    if status.claim.as_ref().is_none_or(|record| record.attempt != current) {
        status.claim = Some(ClaimRecord { attempt: current, first, others: Vec::new() });
    }
    let Some(record) = status.claim.as_mut() else { return false };
    record.others.retain(|known| !named.contains(&known.key));
    if record.others.len() >= CLAIMANTS_MAX || record.others.iter().any(|known| known.key == other.key) {
        return false;
    }
    record.others.push(other.clone());
    let old = if other.attempt == current { String::new() } else { format!(", of attempt {}", other.attempt) };
    let detail = format!("another machine claims to be this host: {other}{old}; both are held");
    status.note_again(event(now, current, "second_claimant", detail));
    true
}

/// Finds the agent that was bound before, if this is its key and its attempt, and another one has said hello since.
fn former<'a>(status: &'a HostJournalStatus, attempt: u64, key: &str) -> Option<&'a Claimant> {
    let current = journal::attempt(status);
    status.agent.as_ref().filter(|agent| agent.attempt == current)?;
    status.former_agent.as_ref().filter(|former| former.key == key && former.attempt == attempt)
}

impl Control {
    /// Takes note of a message of the bound agent, which may be answered much later.
    pub(crate) fn note_arrival(&self, key: &HostKey, report: &Report) {
        let now = self.now();
        if let Some(view) = self.views().hosts.get_mut(key).filter(|view| view.agent.key == Some(report.key)) {
            view.claims.note(&report.key.to_string(), now, Some(cannot_stop(report).is_some()));
        }
    }

    /// Says whether more than one machine claims to be the host.
    pub(crate) fn is_claimed(&self, key: &HostKey) -> bool {
        self.views().hosts.get(key).is_some_and(|view| view.is_claimed)
    }

    /// Holds a machine that claims a host beside another one. `is_new`: it was not known until now, so that the other one is
    /// stopped as well.
    pub(crate) fn hold_claimant(
        &self,
        key: &HostKey,
        other: &str,
        is_new: bool,
        (heard_at, cannot_stop): (Timestamp, Option<bool>),
    ) -> Refusal {
        let text = format!(
            "more than one machine says that it is host {}: nothing is destroyed, and this machine waits, until that is \
             settled; `firesteel describe host {}` shows both",
            key.name, key.name
        );
        if let Some(view) = self.views().hosts.get_mut(key) {
            view.claims.note(other, heard_at, cannot_stop);
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
            self.inner.queue.wake(key);
        }
        refusal(RefusalReason::Held, &text)
    }

    /// Has the log say why an agent of this host is refused, but not each time that it asks.
    pub(crate) fn warn_of_refusal(&self, key: &HostKey, attempt: u64, remote: Option<IpAddr>, text: &str) {
        let now = self.now();
        let remote = remote.map(tracing::field::display);
        if self.views().hosts.get_mut(key).is_some_and(|view| view.said_refusals.is_news(text, now)) {
            tracing::warn!(host = %key, attempt, remote, "{text}");
        } else {
            tracing::debug!(host = %key, attempt, remote, "{text}");
        }
    }

    /// Sends a machine away that is known not to be the host.
    pub(crate) fn send_away(&self, key: &HostKey, attempt: u64) -> Refusal {
        self.inner.metrics.agent_refused();
        let text = "a machine that is known not to be this host speaks for it: refused";
        self.warn_of_refusal(key, attempt, None, text);
        refusal(RefusalReason::OldAttempt, "this machine is known not to be the host: boot again")
    }

    /// Answers a report of another key than the bound one, of its attempt.
    pub(crate) async fn second_report(
        &self,
        key: &HostKey,
        claims: &Claims,
        report: &Report,
        journal: &HostJournalStatus,
        remote: IpAddr,
    ) -> Refusal {
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
            first_at: self.now(),
            is_compared: false,
        };
        self.note_claim(key, other, report, journal).await
    }

    /// Answers a report of an attempt that is over. The agent that was bound before the current one is held where it goes
    /// on to report; one that leaves, or that no other one replaced, is sent away.
    pub(crate) async fn late_report(
        &self,
        key: &HostKey,
        claims: &Claims,
        report: &Report,
        journal: &HostJournalStatus,
        remote: IpAddr,
    ) -> Refusal {
        let said = report.key.to_string();
        let current = journal::attempt(journal);
        let text = format!("attempt {} is over, the host is at attempt {current}: boot again", claims.attempt);
        if is_intruder(journal, &said) {
            return self.send_away(key, claims.attempt);
        }
        let is_held = is_claimant(journal, &said);
        let Some(former) = former(journal, claims.attempt, &said).filter(|_| !report.leaving) else {
            if is_held && !report.leaving {
                return self.hold_claimant(key, &said, false, (self.now(), Some(cannot_stop(report).is_some())));
            }
            return refusal(RefusalReason::OldAttempt, &text);
        };
        let is_again = |view: &mut HostView| view.claims.is_late_again(&said, report.sequence);
        if is_held || self.views().hosts.get_mut(key).is_some_and(is_again) {
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
        report: &Report,
        journal: &HostJournalStatus,
    ) -> Refusal {
        // Before it is written, which may take a while.
        let heard = (self.now(), Some(cannot_stop(report).is_some()));
        if is_claimant(journal, &other.key) {
            return self.hold_claimant(key, &other.key, false, heard);
        }
        match self.inner.journals.change(key, |status| claim(status, &other, heard.0)).await {
            Ok(is_new) => self.hold_claimant(key, &other.key, is_new.unwrap_or_default(), heard),
            Err(status) => busy(status),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use firesteel_resources::host_journal::AgentBinding;
    use serde_json::json;

    use super::*;

    fn machine(key: &str, attempt: u64) -> Claimant {
        Claimant { key: key.into(), attempt, address: "192.0.2.9".into(), ..Claimant::default() }
    }

    fn journal() -> HostJournalStatus {
        let agent = AgentBinding { attempt: 4, key: "aa".into(), ..AgentBinding::default() };
        let memory = json!({"attempt": 4, "intruders": [{"key": "ff", "attempt": 3}]});
        HostJournalStatus {
            memory,
            agent: Some(agent),
            former_agent: Some(machine("bb", 3)),
            ..HostJournalStatus::default()
        }
    }

    #[test]
    fn each_other_claimant_is_kept_once_and_they_are_bounded() {
        let (mut status, now) = (journal(), Timestamp::UNIX_EPOCH);
        assert!(!claim(&mut status, &machine("aa", 4), now), "the bound one");
        assert!(claim(&mut status, &machine("b0", 4), now) && !claim(&mut status, &machine("b0", 4), now));
        for number in 1..10 {
            claim(&mut status, &machine(&format!("b{number}"), 4), now);
        }
        let record = status.claim.clone().unwrap();
        assert_eq!((record.attempt, record.first.key.as_str(), record.others.len()), (4, "aa", CLAIMANTS_MAX));
        assert!(is_claimant(&status, "b0") && !is_claimant(&status, "b9") && !is_claimant(&status, "aa"));
        assert_eq!(status.timeline.iter().filter(|event| event.event == "second_claimant").count(), 1);
        assert!(!claim(&mut status, &machine("c0", 4), now), "there is no room");
        status.memory["intruders"] = json!([{"key": "b0", "attempt": 4}]);
        assert!(claim(&mut status, &machine("c0", 4), now) && !is_claimant(&status, "b0"), "but for who is not known");
        status.memory["attempt"] = json!(5);
        assert!(!is_claimant(&status, "b1") && !claim(&mut status, &machine("b0", 5), now), "no agent is bound");
    }

    #[test]
    fn an_old_key_counts_once_another_one_is_bound() {
        let mut status = journal();
        assert_eq!(former(&status, 3, "bb").map(|former| former.key.as_str()), Some("bb"));
        assert!(former(&status, 3, "cc").is_none() && former(&status, 2, "bb").is_none());
        status.memory["attempt"] = json!(5);
        assert!(former(&status, 3, "bb").is_none(), "no other one has said hello");
        assert!(is_intruder(&status, "ff") && !is_intruder(&status, "aa"));
    }

    #[test]
    fn a_report_that_was_on_its_way_is_no_claim() {
        let mut claims = ClaimsHeard::default();
        assert!(!claims.is_late_again("aa", 7), "the first");
        assert!(!claims.is_late_again("aa", 7), "its double");
        assert!(!claims.is_late_again("aa", 6), "one that was overtaken");
        assert!(claims.is_late_again("aa", 8));
        assert!(!claims.is_late_again("bb", 9), "another key");
    }

    #[test]
    fn so_many_are_heard_and_each_as_it_was_last() {
        let (mut claims, at) = (ClaimsHeard::default(), |second| Timestamp::from_second(second).unwrap());
        for second in 0..100 {
            claims.note(&(second % 20).to_string(), at(second), Some(false));
        }
        assert_eq!((claims.all().len(), claims.all().last().unwrap().at), (HEARD_MAX, at(99)));
        claims.note("19", at(200), Some(true));
        claims.note("19", at(201), None);
        assert_eq!(claims.all().iter().filter(|heard| heard.key == "19").count(), 1);
        assert!(claims.all().last().unwrap().cannot_stop);
    }
}
