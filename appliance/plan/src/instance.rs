//! The token of an installed OS: until when it opens its config, and what is written of that into the host's journal.
//!
//! The token's deadline is counted in the journal, by the age of the store ([`crate::clock`]): a clock that is wrong
//! neither ends a token nor has it live on. What the token itself says of an expiry does not count.

use firesteel_resources::host_journal::{HostJournalStatus, InstanceRecord, TokenCount};
use jiff::SignedDuration;

use crate::{clock::is_over, journal};

/// What the deadline of a token is counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenAge {
    /// The age of the store now, in seconds.
    pub age_s: u64,
    /// How long a token is honoured.
    pub life: SignedDuration,
}

/// What a token still opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigTokenState {
    Open,
    /// The OS runs.
    Ended,
    /// What it was made for is not on the disk any more.
    Replaced,
    /// Its deadline is over.
    Expired,
}

/// Returns what is known of the OS that this attempt installed, begun where nothing is.
pub fn record_of(status: &mut HostJournalStatus, attempt: u64) -> &mut InstanceRecord {
    let record = status.instance.get_or_insert_with(InstanceRecord::default);
    if record.attempt != attempt {
        *record = InstanceRecord { attempt, ..InstanceRecord::default() };
    }
    record
}

/// Counts the token of the host's installation from now on: once for each, and from its end where it was just
/// completed.
pub fn count_token(status: &mut HostJournalStatus, is_just_done: bool, age_s: u64) {
    let Some(attempt) = journal::installation(status) else { return };
    let fetches = journal::configs_of(status, attempt).is_some_and(|configs| !configs.is_empty());
    let record = status.instance.as_ref().filter(|record| record.attempt == attempt);
    let runs = record.is_some_and(|record| record.running_at.is_some());
    let is_counted = status.token_count.is_some_and(|count| count.attempt == attempt);
    if fetches && !runs && (is_just_done || !is_counted) {
        status.token_count = Some(TokenCount { attempt, since_s: age_s });
    }
}

/// Takes note of what of a pool was rendered when it was fetched. Of a host that fetches several pools each is kept, by
/// its newest rendering; names have no spaces.
pub fn note_rendered(record: &mut InstanceRecord, rendered: &str) {
    let pool = |name: &str| name.rsplit_once('-').map(|(pool, _digest)| pool.to_owned());
    let others = record.rendered.split(' ').filter(|known| pool(known) != pool(rendered));
    let all: Vec<&str> = others.filter(|known| !known.is_empty()).chain([rendered]).collect();
    record.rendered = all.join(" ");
}

/// Says whether this is among what a record has as rendered.
#[must_use]
pub fn has_rendered(all: &str, rendered: &str) -> bool {
    !rendered.is_empty() && all.split(' ').any(|known| known == rendered)
}

/// Says whether an installation of this attempt may still fetch its config. One that is not counted yet may: the host's next
/// step begins.
#[must_use]
pub fn standing(status: &HostJournalStatus, attempt: u64, age: TokenAge) -> ConfigTokenState {
    if journal::configs_of(status, attempt).is_none() {
        return ConfigTokenState::Replaced;
    }
    let record = status.instance.as_ref().filter(|record| record.attempt == attempt);
    if record.is_some_and(|record| record.running_at.is_some()) {
        return ConfigTokenState::Ended;
    }
    let count = status.token_count.filter(|count| count.attempt == attempt);
    let is_expired = count.is_some_and(|count| is_over(count.since_s, age.age_s, age.life));
    if is_expired { ConfigTokenState::Expired } else { ConfigTokenState::Open }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use jiff::Timestamp;

    use super::*;

    fn aged(age_s: u64) -> TokenAge {
        TokenAge { age_s, life: SignedDuration::from_secs(100) }
    }

    fn written() -> HostJournalStatus {
        let plan = serde_json::json!({"plan": {"kind": "write", "configs": ["worker"]}});
        let memory = serde_json::json!({"attempt": 3, "state": {"name": "provisioning"}, "plan": plan});
        HostJournalStatus { memory, ..HostJournalStatus::default() }
    }

    #[test]
    fn a_token_opens_until_its_deadline_or_until_the_os_runs() {
        let mut status = written();
        let (token, old) = (3, 2);
        assert_eq!(standing(&status, token, aged(5000)), ConfigTokenState::Open, "not counted yet");
        assert_eq!(standing(&status, old, aged(1)), ConfigTokenState::Replaced);
        count_token(&mut status, false, 1000);
        assert_eq!(standing(&status, token, aged(1099)), ConfigTokenState::Open);
        assert_eq!(standing(&status, token, aged(1100)), ConfigTokenState::Expired);
        assert_eq!(standing(&status, token, aged(0)), ConfigTokenState::Open, "a store that was restored is younger");
        record_of(&mut status, 3).running_at = Some(Timestamp::UNIX_EPOCH);
        assert_eq!(standing(&status, token, aged(1050)), ConfigTokenState::Ended);
        record_of(&mut status, 4);
        assert_eq!(standing(&status, token, aged(1050)), ConfigTokenState::Open, "that was another installation");
    }

    #[test]
    fn a_token_is_counted_once_for_an_installation_and_from_its_end() {
        let since = |status: &HostJournalStatus| status.token_count.map(|count| (count.attempt, count.since_s));
        let mut status = written();
        count_token(&mut status, false, 10);
        count_token(&mut status, false, 20);
        assert_eq!(since(&status), Some((3, 10)), "each step says it again");
        status.memory = serde_json::json!({"attempt": 3, "state": {"name": "provisioned"},
            "applied": {"attempt": 3, "configs": ["worker"]}});
        count_token(&mut status, true, 500);
        assert_eq!(since(&status), Some((3, 500)), "from the end of the installation");
        status.memory["attempt"] = 4.into();
        count_token(&mut status, false, 600);
        assert_eq!(since(&status), Some((3, 500)), "a later boot changes nothing");

        let counted = |memory: serde_json::Value, runs: bool| {
            let mut status = HostJournalStatus { memory, ..HostJournalStatus::default() };
            if runs {
                record_of(&mut status, 3).running_at = Some(Timestamp::UNIX_EPOCH);
            }
            count_token(&mut status, true, 10);
            status.token_count.is_some()
        };
        assert!(counted(status.memory.clone(), false) && !counted(status.memory.clone(), true), "it has its config");
        for other in [
            serde_json::json!({"attempt": 3, "state": {"name": "provisioned"}, "applied": {"attempt": 3}}),
            serde_json::json!({"attempt": 3, "state": {"name": "available"}}),
            serde_json::Value::Null,
        ] {
            assert!(!counted(other.clone(), false), "{other}");
        }
    }

    #[test]
    fn what_was_rendered_is_kept_of_each_pool() {
        let mut record = InstanceRecord::default();
        for (rendered, all) in [
            ("rendered-web-1", "rendered-web-1"),
            ("rendered-web-x-1", "rendered-web-1 rendered-web-x-1"),
            ("rendered-web-2", "rendered-web-x-1 rendered-web-2"),
            ("rendered-web-2", "rendered-web-x-1 rendered-web-2"),
        ] {
            note_rendered(&mut record, rendered);
            assert_eq!(record.rendered, all);
        }
        assert!(has_rendered(&record.rendered, "rendered-web-x-1") && has_rendered(&record.rendered, "rendered-web-2"));
        assert!(!has_rendered(&record.rendered, "rendered-web-1") && !has_rendered("", ""));
    }

    #[test]
    fn an_installation_outlives_a_boot_that_changed_nothing_on_its_disk_and_not_its_replacement() {
        let at_state = |state: &str, attempt: u64, plan: &str| {
            let memory = serde_json::json!({"attempt": attempt, "state": {"name": state},
                "plan": {"plan": {"kind": plan, "configs": ["infra"]}},
                "applied": {"attempt": 3, "configs": ["worker"]}});
            HostJournalStatus { memory, ..HostJournalStatus::default() }
        };
        let of = |status: &HostJournalStatus, attempt| standing(status, attempt, aged(1));
        for attempt in [3, 5] {
            let provisioned = at_state("provisioned", attempt, "inspect");
            assert_eq!(of(&provisioned, 3), ConfigTokenState::Open);
            assert_eq!(journal::configs_of(&provisioned, 3).unwrap(), ["worker"]);
            assert_eq!(of(&provisioned, 4), ConfigTokenState::Replaced);
            // The attempt is a new one only with the next boot.
            for state in ["deprovisioning", "available", "preparing", "deleting"] {
                assert_eq!(of(&at_state(state, attempt, "write"), 3), ConfigTokenState::Replaced, "{state}");
            }
        }
        assert_eq!(of(&at_state("provisioning", 3, "inspect"), 3), ConfigTokenState::Replaced, "the next one begins");
        let written = at_state("provisioning", 5, "write");
        assert_eq!((of(&written, 5), of(&written, 3)), (ConfigTokenState::Open, ConfigTokenState::Replaced));
        assert_eq!(journal::configs_of(&written, 5).unwrap(), ["infra"]);
    }
}
