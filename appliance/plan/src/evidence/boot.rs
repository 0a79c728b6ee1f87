//! What was not seen of the boot that receipts come from.

use firesteel_resources::host_journal::{AgentBinding, BootRecord};

/// The boot of one attempt, by what is on record.
#[derive(Clone, Copy, Debug)]
pub struct BootEvidence<'a> {
    pub attempt: u64,
    pub record: Option<&'a BootRecord>,
    pub agent: Option<&'a AgentBinding>,
}

/// Names what was not seen of a boot, in words; empty where everything was that can be.
#[must_use]
pub fn unseen(case: &BootEvidence<'_>) -> Vec<String> {
    let Some(record) = case.record.filter(|record| record.attempt == case.attempt) else {
        return vec!["how the host was booted: it is not on record".to_owned()];
    };
    let agent = case.agent.filter(|agent| agent.attempt == case.attempt);
    let is_by_lease = record.by == BootRecord::BY_LEASE;
    let names_itself = agent.is_some_and(|agent| !agent.program_sha256.is_empty());
    let is_compared = agent.is_some_and(|agent| agent.identity_compared);
    let looked_at = [
        (is_by_lease, "that the address which booted was leased to the host: it asked first"),
        (record.hello_at.is_some(), "that all bytes of kernel and initramfs were sent before the agent spoke"),
        (!record.agent_sha256.is_empty(), "which agent is in the ramdisk: its manifest does not say"),
        (names_itself, "which agent spoke: it does not say"),
        (
            is_compared,
            "that it is the machine of an earlier inspection: there was none, or no UUID or serial number to compare",
        ),
    ];
    looked_at.into_iter().filter(|(was_seen, _)| !was_seen).map(|(_, what)| what.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn each_observation_that_did_not_hold_is_named_alone() {
        let record = || BootRecord {
            attempt: 4,
            by: BootRecord::BY_LEASE.into(),
            agent_sha256: "aa".into(),
            hello_at: Some(Timestamp::UNIX_EPOCH),
            ..BootRecord::default()
        };
        let agent = AgentBinding {
            attempt: 4,
            program_sha256: "aa".into(),
            identity_compared: true,
            ..AgentBinding::default()
        };
        let found = |record: Option<BootRecord>, agent: &AgentBinding| {
            unseen(&BootEvidence { attempt: 4, record: record.as_ref(), agent: Some(agent) })
        };
        assert_eq!(found(Some(record()), &agent), [""; 0]);
        let first = BootRecord { by: BootRecord::BY_FIRST.into(), ..record() };
        let unheard = BootRecord { hello_at: None, ..record() };
        let unnamed = BootRecord { agent_sha256: String::new(), ..record() };
        let silent = AgentBinding { program_sha256: String::new(), ..agent.clone() };
        let unlike = AgentBinding { identity_compared: false, ..agent.clone() };
        for (record, agent, wanted) in [
            (Some(first), &agent, "leased to the host"),
            (Some(unheard), &agent, "all bytes"),
            (Some(unnamed), &agent, "which agent is in the ramdisk"),
            (Some(record()), &silent, "which agent spoke"),
            (Some(record()), &unlike, "an earlier inspection"),
            (None, &agent, "not on record"),
            (Some(BootRecord { attempt: 3, ..record() }), &agent, "not on record"),
        ] {
            let found = found(record, agent);
            assert!(found.len() == 1 && found[0].contains(wanted), "{wanted}: {found:?}");
        }
        let older = AgentBinding { attempt: 3, ..agent.clone() };
        assert_eq!(found(Some(record()), &older).len(), 2, "of another boot");
    }
}
