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
//! Both stop in the moment in which that is written. Which of them is the host, the planner settles;
//! who is known not to be it is sent away.

use std::net::IpAddr;

use firesteel_plan::host::ClaimInputs;
use firesteel_plan::journal::{self, is_intruder};
use firesteel_resources::host_journal::{CLAIMANTS_MAX, ClaimRecord, Claimant, HostJournalStatus};
use firesteel_runtime::event;
use firesteel_wire::Hello;
use jiff::Timestamp;

use crate::map;

/// Claimants of one host that are heard: the bound agent and those that are kept of its attempt, and of the one before.
const HEARD_MAX: usize = 2 * (CLAIMANTS_MAX + 1);

/// When claimants of a host were heard last.
#[derive(Debug, Default)]
pub(crate) struct ClaimTimes {
    heard: Vec<ClaimInputs>,
    /// The old key that reported after a new hello, and the number of its first such report.
    late: Option<(String, u64)>,
}

impl ClaimTimes {
    /// Lists them, the one that was heard last at the end.
    pub(crate) fn all(&self) -> &[ClaimInputs] {
        &self.heard
    }

    /// Takes note of a message of this key; one that does not say what its drives are at leaves the word before it.
    pub(crate) fn note(&mut self, key: &str, at: Timestamp, cannot_stop: Option<bool>) {
        let before = self.heard.iter().find(|known| known.key == key).is_some_and(|known| known.cannot_stop);
        let cannot_stop = cannot_stop.unwrap_or(before);
        self.heard.retain(|known| known.key != key);
        self.heard.push(ClaimInputs { key: key.to_owned(), at, cannot_stop });
        let excess = self.heard.len().saturating_sub(HEARD_MAX);
        self.heard.drain(..excess);
    }

    /// Says whether an old key reports for the second time: its first report may have been on its way.
    pub(crate) fn is_late_again(&mut self, key: &str, sequence: u64) -> bool {
        match &self.late {
            Some((known, first)) if known == key => sequence > *first,
            Some(_) | None => {
                self.late = Some((key.to_owned(), sequence));
                false
            }
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
pub(crate) fn former<'a>(status: &'a HostJournalStatus, attempt: u64, key: &str) -> Option<&'a Claimant> {
    let current = journal::attempt(status);
    status.agent.as_ref().filter(|agent| agent.attempt == current)?;
    status.former_agent.as_ref().filter(|former| former.key == key && former.attempt == attempt)
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
        let mut claims = ClaimTimes::default();
        assert!(!claims.is_late_again("aa", 7), "the first");
        assert!(!claims.is_late_again("aa", 7), "its double");
        assert!(!claims.is_late_again("aa", 6), "one that was overtaken");
        assert!(claims.is_late_again("aa", 8));
        assert!(!claims.is_late_again("bb", 9), "another key");
    }

    #[test]
    fn so_many_are_heard_and_each_as_it_was_last() {
        let (mut claims, at) = (ClaimTimes::default(), |second| Timestamp::from_second(second).unwrap());
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
