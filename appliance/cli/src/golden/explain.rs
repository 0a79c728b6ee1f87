//! Golden texts of `firesteel explain host`: one that takes longer than usual, and one that is stuck.

use firesteel_resources::HostJournal;
use firesteel_resources::host_journal::{JournalReason, TimelineEvent};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{LONG_URL, compare, compare_outputs, machine};
use crate::explain::{ExplainedHost, HostExplanation, PhaseHistory};

/// A journal with this timeline; each event has the seconds since a fixed moment.
fn journal_of(memory: Value, events: &[(&str, i64)]) -> HostJournal {
    let begin: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let mut journal = HostJournal::default();
    journal.status.memory = memory;
    journal.status.timeline = events
        .iter()
        .map(|(event, seconds)| TimelineEvent {
            attempt: 1,
            event: (*event).to_owned(),
            at: begin + jiff::SignedDuration::from_secs(*seconds),
            ..TimelineEvent::default()
        })
        .collect();
    journal
}

/// Six hosts of which each was provisioned once.
fn history() -> PhaseHistory {
    let mut history = PhaseHistory::default();
    for seconds in [110, 100, 120, 130, 90, 100] {
        let events = [("ProvisioningStarted", 0), ("write_start", 10), ("write_end", 10 + seconds / 2)];
        history.add(&journal_of(Value::Null, &[&events[..], &[("ProvisioningComplete", seconds)]].concat()));
    }
    history
}

fn reason(text: &str, since: &str) -> Option<JournalReason> {
    Some(JournalReason { text: text.into(), location: "host/x.rs:1".into(), since: since.parse().unwrap() })
}

#[test]
fn explain_says_what_a_host_waits_for_and_what_is_typical() {
    let now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
    let history = history();
    let events = [("ProvisioningStarted", 60), ("NetBoot", 61), ("agent_hello", 100), ("write_start", 110)];
    let memory =
        json!({"state": {"name": "provisioning"}, "since": "2026-01-01T00:01:00Z", "deadline": "2026-01-01T00:40:00Z"});
    let mut journal = journal_of(memory, &events);
    journal.status.reason = reason(
        "writing the image to /dev/nvme0n1 (model QEMU NVMe Ctrl, serial LAB01DISK0, 4.29 GB)",
        "2026-01-01T00:01:50Z",
    );
    let host = machine("rack1-01", "provisioning", "");
    let known = ExplainedHost { host: &host, journal: &journal, history: &history, halts: &[] };
    let explanation = HostExplanation::of(known, now);
    let words = [
        "LONGER THAN USUAL",
        "1m40s, and 9 of 10 within 2m10s (6 earlier of 6 hosts)",
        "`firesteel logs rack1-01 -c console`",
        "unless it makes progress before",
    ];
    compare_outputs("explain_late", &words, |width| explanation.render(now, width));
    compare("explain_late.json", &(serde_json::to_string_pretty(&explanation).unwrap() + "\n"));
}

#[test]
fn explain_says_what_holds_a_host_and_what_to_do() {
    let now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
    let history = history();
    let error = format!("could not fetch the image: 404 Not Found ({LONG_URL})");
    let mut host = machine("rack1-02", "provisioning", &error);
    host.metadata.annotations.insert("firesteel.dev/lock".into(), "audit".into());
    let hint = "the host was switched on, and nothing was heard of it for more than 5 minutes since 00:01:01: check cable, \
                VLAN and boot order";
    let condition = json!({"type": "NetworkBoot", "status": "False", "reason": "NothingHeard", "message": hint,
                           "lastTransitionTime": "2026-01-01T00:05:00Z"});
    host.status.as_mut().unwrap().conditions = vec![serde_json::from_value(condition).unwrap()];
    let memory = json!({"state": {"name": "provisioning"}, "since": "2026-01-01T00:01:00Z"});
    let mut journal = journal_of(memory, &[("ProvisioningStarted", 60), ("NetBoot", 61)]);
    journal.status.reason = reason("waiting for the host to boot", "2026-01-01T00:01:01Z");
    let halts = ["The fleet is halted by ann: the wrong disks are wiped; `firesteel resume` ends it".to_owned()];
    let known = ExplainedHost { host: &host, journal: &journal, history: &history, halts: &halts };
    let words = [
        "404 Not Found",
        "`firesteel unlock rack1-02` ends that",
        hint,
        "`firesteel resume` ends it",
        "unknown: 0 earlier",
    ];
    compare_outputs("explain_stuck", &words, |width| HostExplanation::of(known, now).render(now, width));

    let rests = HostExplanation::of(
        ExplainedHost {
            host: &machine("a", "available", ""),
            journal: &HostJournal::default(),
            history: &history,
            halts: &[],
        },
        now,
    );
    assert!(rests.render(now, 80).contains("- nothing: the host is where its spec wants it"), "{rests:?}");
}
