//! The new OS: its token, and its word that it runs or that it does not.
//!
//! *Config fetched* and *running* are two events. The config carries a nonce that only this appliance can
//! make and that only who fetched the config can know; a unit in the real root sends it back. That
//! ends the instance token. Where the first boot fails before that, a unit in the initramfs says so with the token.
//!
//! The token's deadline is counted in the host's journal, by the age of the store ([`firesteel_plan::clock`]): a clock
//! that is wrong neither ends a token nor has it live on.

use std::{net::IpAddr, sync::Arc};

use firesteel_boot::{BootTokenClaims, NO_EXPIRY, Purpose, Sealer};
use firesteel_kube::Objects;
use firesteel_plan::instance::{ConfigTokenState, TokenAge, record_of, standing};
use firesteel_resources::{BareMetalHost, host_journal::FirstBootFailure};
use firesteel_runtime::{InstanceKey, event};
use futures_util::future::BoxFuture;
use jiff::SignedDuration;

use crate::{AccessDenial, console::ConsoleText, shared::Shared};

/// The most bytes of a report of a first boot that failed: the tail of Ignition's log.
pub const FAILURE_BYTES_MAX: usize = 16 << 10;
/// Lines of it that are kept with the host.
const FAILURE_LINES_MAX: usize = 40;
/// Bytes of it that are kept with the host: it is read in a condition.
const FAILURE_KEPT_BYTES_MAX: usize = 4 << 10;

/// Hears the new OS of a host, and makes its token.
#[derive(Clone)]
pub struct InstanceReports {
    pub(crate) shared: Arc<Shared>,
    pub(crate) hosts: Objects<BareMetalHost>,
    pub(crate) sealer: Arc<Sealer>,
    pub(crate) instance_key: InstanceKey,
    pub(crate) token_life: SignedDuration,
}

impl InstanceReports {
    /// The token that a host's own copy of its stub carries.
    pub(crate) fn instance_token(&self, uid: &str, attempt: u64) -> Result<String, firesteel_boot::TokenSealError> {
        let claims = BootTokenClaims {
            purpose: Purpose::Instance,
            subject: uid.to_owned(),
            attempt,
            expires_s: NO_EXPIRY,
            boot: None,
        };
        self.sealer.seal(&claims).map(firesteel_boot::SealedToken::into_string)
    }

    pub(crate) fn token_age(&self) -> TokenAge {
        TokenAge { age_s: self.shared.clock.age_s(), life: self.token_life }
    }

    /// The new OS says that it runs.
    ///
    /// # Errors
    /// When the nonce is not the one of the config that the host's newest installation fetched.
    pub fn running<'a>(
        &'a self,
        uid: &'a str,
        nonce: &'a str,
        remote: IpAddr,
    ) -> BoxFuture<'a, Result<(), AccessDenial>> {
        Box::pin(async move {
            let denied = || AccessDenial::Token("no installation waits for this nonce".to_owned());
            let unknown = || self.shared.views().unreadable_host().map_or_else(denied, AccessDenial::Internal);
            if !self.shared.knows_hosts().await {
                return Err(AccessDenial::Internal("the appliance is starting: try again".to_owned()));
            }
            let key = self.shared.views().by_uid.get(uid).cloned();
            let key = key.ok_or_else(unknown)?;
            let journal =
                self.shared.journals.read(&key).await.map_err(|status| AccessDenial::Internal(status.message))?;
            let fetched =
                journal.and_then(|journal| journal.instance).filter(|record| record.config_fetched_at.is_some());
            let attempt = fetched.ok_or_else(denied)?.attempt;
            if !self.instance_key.is_nonce(uid, attempt, nonce) {
                return Err(denied());
            }
            let now = self.shared.now();
            self.shared
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
                .map_err(|status| AccessDenial::Internal(status.message))?;
            tracing::info!(host = %key, attempt, "the installed OS reported that it runs");
            self.shared.queue.wake(&key);
            Ok(())
        })
    }

    /// The first boot of a new OS failed; `log` is the tail of what it said. A token whose deadline is over is good
    /// enough for this: it may be why the boot failed.
    ///
    /// # Errors
    /// When the token is of no installation that is on a disk and does not run.
    pub fn first_boot_failed<'a>(
        &'a self,
        token: &'a str,
        log: &'a [u8],
        remote: IpAddr,
    ) -> BoxFuture<'a, Result<(), AccessDenial>> {
        Box::pin(async move {
            let claims =
                self.sealer.read(token, Purpose::Instance).map_err(|error| AccessDenial::Token(error.to_string()))?;
            if !self.shared.knows_hosts().await {
                return Err(AccessDenial::Internal("the appliance is starting: try again".to_owned()));
            }
            let key = self.shared.views().by_uid.get(&claims.subject).cloned();
            let key = key.ok_or_else(|| match self.shared.views().unreadable_host() {
                Some(why) => AccessDenial::Internal(why),
                None => AccessDenial::Token("the host of this token is gone".to_owned()),
            })?;
            let (now, age, log) = (self.shared.now(), self.token_age(), printable_log_lines(log));
            let last = log.last().cloned().unwrap_or_else(|| "it sent no log".to_owned());
            let changed = self
                .shared
                .journals
                .change(&key, |status| {
                    let standing = standing(status, claims.attempt, age);
                    if matches!(standing, ConfigTokenState::Ended | ConfigTokenState::Replaced) {
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
                .map_err(|status| AccessDenial::Internal(status.message))?;
            match changed {
                Some(ConfigTokenState::Open | ConfigTokenState::Expired) => {
                    tracing::warn!(host = %key, attempt = claims.attempt, "the first boot failed");
                    let text = format!("the first boot failed: {last}");
                    self.shared.events.record_event(&key, &claims.subject, "FirstBootFailed", true, text);
                    self.shared.queue.wake(&key);
                    Ok(())
                }
                Some(ConfigTokenState::Ended) => {
                    Err(AccessDenial::Forbidden("the OS of this token has reported that it runs".to_owned()))
                }
                Some(ConfigTokenState::Replaced) => {
                    Err(AccessDenial::Forbidden("the token's installation was replaced".to_owned()))
                }
                None => Err(AccessDenial::Token("the host of this token has no journal".to_owned())),
            }
        })
    }
}

/// The last lines of a log from a host, without what moves a cursor or opens something.
fn printable_log_lines(log: &[u8]) -> Vec<String> {
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

    #[test]
    fn a_log_is_told_in_plain_lines_and_without_secrets() {
        let log = b"a\n\x1b[31mignition[712]: failed\r\n\n\xff\xfe password: hunter2hunter2\nlast\n";
        let lines = printable_log_lines(log);
        assert_eq!(lines.first().unwrap(), "a");
        assert_eq!(lines.last().unwrap(), "last");
        let all = lines.join("\n");
        assert!(!all.contains('\x1b') && !all.contains("hunter2") && all.contains("ignition[712]: failed"), "{all}");
        let long = "x".repeat(100).into_bytes();
        let many: Vec<u8> = std::iter::repeat_n([long, b"\n".to_vec()].concat(), 1000).flatten().collect();
        let lines = printable_log_lines(&many);
        assert!(lines.len() <= FAILURE_LINES_MAX && lines.join("\n").len() <= FAILURE_KEPT_BYTES_MAX);
        assert_eq!(printable_log_lines(b""), [""; 0]);
    }
}
