//! The new OS: its token, and its word that it runs or that it does not.
//!
//! *Config fetched* and *running* are two events. The config carries a nonce that only this appliance can
//! make and that only who fetched the config can know; a unit in the real root sends it back. That
//! ends the instance token. Where the first boot fails before that, a unit in the initramfs says so with the token.
//!
//! The token's deadline is counted in the host's journal, by the age of the store ([`firesteel_plan::clock`]): a clock
//! that is wrong neither ends a token nor has it live on.

use std::net::IpAddr;

use firesteel_boot::{Claims, NO_EXPIRY, Purpose};
use firesteel_ignition as ignition;
use firesteel_plan::{clock::is_over, journal};
use firesteel_resources::host_journal::{FirstBootFailure, HostJournalStatus, InstanceRecord, TokenCount};
use firesteel_runtime::{HostKey, event};
use jiff::SignedDuration;
use ring::hmac;

use crate::{Control, Denied, console::ConsoleText};

/// Of a report of a first boot that failed: the tail of Ignition's log.
pub const FAILURE_BYTES_MAX: usize = 16 << 10;
/// Lines of it that are kept with the host.
const FAILURE_LINES_MAX: usize = 40;
/// The same in bytes: it is read in a condition.
const FAILURE_KEPT_BYTES_MAX: usize = 4 << 10;

/// What a host's config gets from the appliance.
pub(crate) const FILES: [&str; 2] = ["/etc/firesteel/instance.json", "/etc/firesteel/ca.crt"];

/// What the deadline of a token is counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TokenAge {
    /// The age of the store now, in seconds.
    pub(crate) age_s: u64,
    /// How long a token is honoured.
    pub(crate) life: SignedDuration,
}

/// What a token still opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Open,
    /// The OS runs.
    Ended,
    /// What it was made for is not on the disk any more.
    Replaced,
    /// Its deadline is over.
    Expired,
}

impl Control {
    /// The token that a host's own copy of its stub carries.
    pub(crate) fn instance_token(&self, uid: &str, attempt: u64) -> Result<String, firesteel_boot::SealError> {
        let claims =
            Claims { purpose: Purpose::Instance, subject: uid.to_owned(), attempt, expires_s: NO_EXPIRY, boot: None };
        self.config().sealer.seal(&claims).map(firesteel_boot::SealedToken::into_string)
    }

    pub(crate) fn token_age(&self) -> TokenAge {
        TokenAge { age_s: self.age_s(), life: self.config().configs.token_life }
    }

    fn nonce(&self, uid: &str, attempt: u64) -> String {
        let tag = hmac::sign(&self.config().nonce_key, format!("running\n{uid}\n{attempt}").as_bytes());
        tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// What the unit in the new OS needs to report back, at [`FILES`].
    pub(crate) fn instance_files(&self, key: &HostKey, claims: &Claims) -> Vec<ignition::NewFile> {
        let instance = serde_json::json!({
            "nonce": self.nonce(&claims.subject, claims.attempt),
            "reportUrl": format!("{}/running", self.config().endpoints.agent_base()),
            "host": claims.subject,
            "name": key.name,
        });
        vec![
            ignition::NewFile { path: FILES[0].to_owned(), mode: 0o600, contents: instance.to_string().into_bytes() },
            ignition::NewFile {
                path: FILES[1].to_owned(),
                mode: 0o644,
                contents: self.config().trust.pem().into_bytes(),
            },
        ]
    }

    /// The new OS says that it runs.
    ///
    /// # Errors
    /// When the nonce is not the one of the config that the host's newest installation fetched.
    pub async fn running(&self, uid: &str, nonce: &str, remote: IpAddr) -> Result<(), Denied> {
        let denied = || Denied::Token("no installation waits for this nonce".to_owned());
        let unknown = || self.unreadable_host().map_or_else(denied, Denied::Internal);
        if !self.knows_hosts().await {
            return Err(Denied::Internal("the appliance is starting: try again".to_owned()));
        }
        let key = self.views().by_uid.get(uid).cloned();
        let key = key.ok_or_else(unknown)?;
        let journal = self.inner.journals.read(&key).await.map_err(|status| Denied::Internal(status.message))?;
        let fetched = journal.and_then(|journal| journal.instance).filter(|record| record.config_fetched_at.is_some());
        let attempt = fetched.ok_or_else(denied)?.attempt;
        let tag = format!("running\n{uid}\n{attempt}");
        let given: Vec<u8> = (0..nonce.len() / 2)
            .filter_map(|at| nonce.get(at * 2..at * 2 + 2))
            .filter_map(|pair| u8::from_str_radix(pair, 16).ok())
            .collect();
        hmac::verify(&self.config().nonce_key, tag.as_bytes(), &given).map_err(|_| denied())?;
        let now = self.now();
        self.inner
            .journals
            .change(&key, |status| {
                if let Some(record) = status.instance.as_mut().filter(|record| record.attempt == attempt)
                    && record.running_at.is_none()
                {
                    record.running_at = Some(now);
                    status.note(event(now, attempt, "running", format!("the nonce came back from {remote}")));
                }
            })
            .await
            .map_err(|status| Denied::Internal(status.message))?;
        tracing::info!(host = %key, attempt, "running");
        self.inner.queue.wake(&key);
        Ok(())
    }

    /// The first boot of a new OS failed; `log` is the tail of what it said. A token whose deadline is over is good
    /// enough for this: it may be why the boot failed.
    ///
    /// # Errors
    /// When the token is of no installation that is on a disk and does not run.
    pub async fn first_boot_failed(&self, token: &str, log: &[u8], remote: IpAddr) -> Result<(), Denied> {
        let claims =
            self.config().sealer.read(token, Purpose::Instance).map_err(|error| Denied::Token(error.to_string()))?;
        if !self.knows_hosts().await {
            return Err(Denied::Internal("the appliance is starting: try again".to_owned()));
        }
        let key = self.views().by_uid.get(&claims.subject).cloned();
        let key = key.ok_or_else(|| match self.unreadable_host() {
            Some(why) => Denied::Internal(why),
            None => Denied::Token("the host of this token is gone".to_owned()),
        })?;
        let (now, age, log) = (self.now(), self.token_age(), plain(log));
        let last = log.last().cloned().unwrap_or_else(|| "it sent no log".to_owned());
        let changed = self
            .inner
            .journals
            .change(&key, |status| {
                let standing = standing(status, &claims, age);
                if matches!(standing, Standing::Ended | Standing::Replaced) {
                    return standing;
                }
                let detail = format!("from {remote}: {last}");
                status.note_again(event(now, claims.attempt, "first_boot_failed", detail));
                let record = record_of(status, claims.attempt);
                // The same again changes nothing, so that a host in a loop writes no store full.
                if record.failed.as_ref().is_none_or(|failed| failed.log != log) {
                    record.failed = Some(FirstBootFailure { at: now, log: log.clone() });
                }
                standing
            })
            .await
            .map_err(|status| Denied::Internal(status.message))?;
        match changed {
            Some(Standing::Open | Standing::Expired) => {
                tracing::warn!(host = %key, attempt = claims.attempt, "the first boot failed");
                self.events().tell_of(
                    &key,
                    &claims.subject,
                    "FirstBootFailed",
                    true,
                    format!("the first boot failed: {last}"),
                );
                self.inner.queue.wake(&key);
                Ok(())
            }
            Some(Standing::Ended) => {
                Err(Denied::Forbidden("the OS of this token has reported that it runs".to_owned()))
            }
            Some(Standing::Replaced) => Err(Denied::Forbidden("the token's installation was replaced".to_owned())),
            None => Err(Denied::Token("the host of this token has no journal".to_owned())),
        }
    }
}

/// What is known of the OS that this attempt installed, begun where nothing is.
pub(crate) fn record_of(status: &mut HostJournalStatus, attempt: u64) -> &mut InstanceRecord {
    let record = status.instance.get_or_insert_with(InstanceRecord::default);
    if record.attempt != attempt {
        *record = InstanceRecord { attempt, ..InstanceRecord::default() };
    }
    record
}

/// Counts the token of the host's installation from now on: once for each, and from its end where it was just
/// completed.
pub(crate) fn count_token(status: &mut HostJournalStatus, is_just_done: bool, age_s: u64) {
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
pub(crate) fn note_rendered(record: &mut InstanceRecord, rendered: &str) {
    let pool = |name: &str| name.rsplit_once('-').map(|(pool, _digest)| pool.to_owned());
    let others = record.rendered.split(' ').filter(|known| pool(known) != pool(rendered));
    let all: Vec<&str> = others.filter(|known| !known.is_empty()).chain([rendered]).collect();
    record.rendered = all.join(" ");
}

/// Whether this is among what a record has as rendered.
pub(crate) fn has_rendered(all: &str, rendered: &str) -> bool {
    !rendered.is_empty() && all.split(' ').any(|known| known == rendered)
}

/// Whether an installation of this attempt may still fetch its config. One that is not counted yet may: the host's next
/// step begins.
pub(crate) fn standing(status: &HostJournalStatus, claims: &Claims, age: TokenAge) -> Standing {
    if journal::configs_of(status, claims.attempt).is_none() {
        return Standing::Replaced;
    }
    let record = status.instance.as_ref().filter(|record| record.attempt == claims.attempt);
    if record.is_some_and(|record| record.running_at.is_some()) {
        return Standing::Ended;
    }
    let count = status.token_count.filter(|count| count.attempt == claims.attempt);
    let is_expired = count.is_some_and(|count| is_over(count.since_s, age.age_s, age.life));
    if is_expired { Standing::Expired } else { Standing::Open }
}

/// The last lines of a log from a host, without what moves a cursor or opens something.
fn plain(log: &[u8]) -> Vec<String> {
    let mut text = ConsoleText::default();
    let mut lines = text.feed(log);
    lines.extend(text.flush());
    lines.retain(|line| !line.trim().is_empty());
    let mut bytes = 0;
    let kept = lines.iter().rev().take(FAILURE_LINES_MAX).take_while(|line| {
        bytes += line.len() + 1;
        bytes <= FAILURE_KEPT_BYTES_MAX
    });
    let count = kept.count();
    lines[lines.len() - count..].to_vec()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use jiff::Timestamp;

    use super::*;

    /// As an earlier program sealed it under a clock that was wrong: until 2046, or dead since 1970.
    const SEALED_S: [u64; 3] = [NO_EXPIRY, 2_400_000_000, 100];

    fn claims(attempt: u64, expires_s: u64) -> Claims {
        Claims { purpose: Purpose::Instance, subject: "u".into(), attempt, expires_s, boot: None }
    }

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
        for sealed_s in SEALED_S {
            let mut status = written();
            let (token, old) = (claims(3, sealed_s), claims(2, sealed_s));
            assert_eq!(standing(&status, &token, aged(5000)), Standing::Open, "not counted yet");
            assert_eq!(standing(&status, &old, aged(1)), Standing::Replaced);
            count_token(&mut status, false, 1000);
            assert_eq!(standing(&status, &token, aged(1099)), Standing::Open, "{sealed_s}");
            assert_eq!(standing(&status, &token, aged(1100)), Standing::Expired, "{sealed_s}");
            assert_eq!(standing(&status, &token, aged(0)), Standing::Open, "a store that was restored is younger");
            record_of(&mut status, 3).running_at = Some(Timestamp::UNIX_EPOCH);
            assert_eq!(standing(&status, &token, aged(1050)), Standing::Ended);
            record_of(&mut status, 4);
            assert_eq!(standing(&status, &token, aged(1050)), Standing::Open, "that was another installation");
        }
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
        let of = |status: &HostJournalStatus, attempt| standing(status, &claims(attempt, NO_EXPIRY), aged(1));
        for attempt in [3, 5] {
            let provisioned = at_state("provisioned", attempt, "inspect");
            assert_eq!(of(&provisioned, 3), Standing::Open);
            assert_eq!(journal::configs_of(&provisioned, 3).unwrap(), ["worker"]);
            assert_eq!(of(&provisioned, 4), Standing::Replaced);
            // The attempt is a new one only with the next boot.
            for state in ["deprovisioning", "available", "preparing", "deleting"] {
                assert_eq!(of(&at_state(state, attempt, "write"), 3), Standing::Replaced, "{state}");
            }
        }
        assert_eq!(of(&at_state("provisioning", 3, "inspect"), 3), Standing::Replaced, "the next one begins");
        let written = at_state("provisioning", 5, "write");
        assert_eq!((of(&written, 5), of(&written, 3)), (Standing::Open, Standing::Replaced));
        assert_eq!(journal::configs_of(&written, 5).unwrap(), ["infra"]);
    }

    #[test]
    fn a_log_is_told_in_plain_lines_and_without_secrets() {
        let log = b"a\n\x1b[31mignition[712]: failed\r\n\n\xff\xfe password: hunter2hunter2\nlast\n";
        let lines = plain(log);
        assert_eq!(lines.first().unwrap(), "a");
        assert_eq!(lines.last().unwrap(), "last");
        let all = lines.join("\n");
        assert!(!all.contains('\x1b') && !all.contains("hunter2") && all.contains("ignition[712]: failed"), "{all}");
        let long = "x".repeat(100).into_bytes();
        let many: Vec<u8> = std::iter::repeat_n([long, b"\n".to_vec()].concat(), 1000).flatten().collect();
        let lines = plain(&many);
        assert!(lines.len() <= FAILURE_LINES_MAX && lines.join("\n").len() <= FAILURE_KEPT_BYTES_MAX);
        assert_eq!(plain(b""), [""; 0]);
    }
}
