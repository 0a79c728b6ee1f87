//! The new OS: its token, and its word that it runs or that it does not.
//!
//! *Config fetched* and *running* are two events. The config carries a nonce that only this appliance can
//! make and that only who fetched the config can know; a unit in the real root sends it back. That
//! ends the instance token. Where the first boot fails before that, a unit in the initramfs says so with the token.

use std::net::IpAddr;

use firesteel_boot::{Claims, Purpose};
use firesteel_ignition as ignition;
use firesteel_resources::host_journal::{FirstBootFailure, HostJournalStatus, InstanceRecord};
use jiff::Timestamp;
use ring::hmac;

use crate::{
    Control, Denied, HostKey,
    console::ConsoleText,
    control::unix_seconds,
    journals::{self, event},
};

/// Of a report of a first boot that failed: the tail of Ignition's log.
pub const FAILURE_BYTES_MAX: usize = 16 << 10;
/// Lines of it that are kept with the host.
const FAILURE_LINES_MAX: usize = 40;
/// The same in bytes: it is read in a condition.
const FAILURE_KEPT_BYTES_MAX: usize = 4 << 10;

/// What a host's config gets from the appliance.
pub(crate) const FILES: [&str; 2] = ["/etc/firesteel/instance.json", "/etc/firesteel/ca.crt"];

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
        let claims = Claims {
            purpose: Purpose::Instance,
            subject: uid.to_owned(),
            attempt,
            expires_unix_s: unix_seconds(self.now() + self.config().configs.token_life),
            boot: None,
        };
        self.config().sealer.seal(&claims).map(firesteel_boot::SealedToken::into_string)
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
        if !self.knows_hosts().await {
            return Err(Denied::Internal("the appliance is starting: try again".to_owned()));
        }
        let key = self.views().by_uid.get(uid).cloned().ok_or_else(denied)?;
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
        let key = key.ok_or_else(|| Denied::Token("the host of this token is gone".to_owned()))?;
        let (now, log) = (self.now(), plain(log));
        let last = log.last().cloned().unwrap_or_else(|| "it sent no log".to_owned());
        let changed = self
            .inner
            .journals
            .change(&key, |status| {
                let standing = standing(status, &claims, now);
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
                self.tell_of(&key, &claims.subject, "FirstBootFailed", true, format!("the first boot failed: {last}"));
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

/// Whether an installation of this attempt may still fetch its config.
pub(crate) fn standing(status: &HostJournalStatus, claims: &Claims, now: Timestamp) -> Standing {
    if journals::configs_of(status, claims.attempt).is_none() {
        return Standing::Replaced;
    }
    let record = status.instance.as_ref().filter(|record| record.attempt == claims.attempt);
    if record.is_some_and(|record| record.running_at.is_some()) {
        return Standing::Ended;
    }
    let renewed = record.and_then(|record| record.renewed_until).map_or(0, unix_seconds);
    if unix_seconds(now) >= claims.expires_unix_s.max(renewed) { Standing::Expired } else { Standing::Open }
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
    use super::*;

    fn claims(attempt: u64, expires_unix_s: u64) -> Claims {
        Claims { purpose: Purpose::Instance, subject: "u".into(), attempt, expires_unix_s, boot: None }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_token_opens_until_its_deadline_or_until_the_os_runs() {
        let memory =
            serde_json::json!({"attempt": 3, "state": {"name": "provisioning"}, "plan": {"plan": {"kind": "write"}}});
        let mut status = HostJournalStatus { memory, ..HostJournalStatus::default() };
        let (token, old) = (claims(3, 100), claims(2, 100));
        assert_eq!(standing(&status, &token, at(99)), Standing::Open);
        assert_eq!(standing(&status, &token, at(100)), Standing::Expired);
        assert_eq!(standing(&status, &old, at(1)), Standing::Replaced);
        record_of(&mut status, 3).renewed_until = Some(at(200));
        assert_eq!(standing(&status, &token, at(199)), Standing::Open, "its deadline was put off");
        assert_eq!(standing(&status, &token, at(200)), Standing::Expired);
        record_of(&mut status, 3).running_at = Some(at(150));
        assert_eq!(standing(&status, &token, at(160)), Standing::Ended);
        record_of(&mut status, 4);
        assert_eq!(standing(&status, &token, at(99)), Standing::Open, "what was said of another installation is gone");
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
        let of = |status: &HostJournalStatus, attempt| standing(status, &claims(attempt, 100), at(1));
        for attempt in [3, 5] {
            let provisioned = at_state("provisioned", attempt, "inspect");
            assert_eq!(of(&provisioned, 3), Standing::Open);
            assert_eq!(journals::configs_of(&provisioned, 3).unwrap(), ["worker"]);
            assert_eq!(of(&provisioned, 4), Standing::Replaced);
            // The attempt is a new one only with the next boot.
            for state in ["deprovisioning", "available", "preparing", "deleting"] {
                assert_eq!(of(&at_state(state, attempt, "write"), 3), Standing::Replaced, "{state}");
            }
        }
        assert_eq!(of(&at_state("provisioning", 3, "inspect"), 3), Standing::Replaced, "the next one begins");
        let written = at_state("provisioning", 5, "write");
        assert_eq!((of(&written, 5), of(&written, 3)), (Standing::Open, Standing::Replaced));
        assert_eq!(journals::configs_of(&written, 5).unwrap(), ["infra"]);
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
