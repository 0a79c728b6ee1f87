//! A later deadline for the token of an installation whose first boot is still to come.
//!
//! The token on the disk stays as it is: it names the installation, and since when it is counted is in the journal.
//! So nothing is written to the host, which may be switched off, and nothing can be lost on the way: the wish is an
//! annotation, the answer stands in the journal before the annotation goes. (The other way, an agent that puts a new
//! token onto the disk, would have to boot the host and write to a disk with data on it, for the same end.)

use firesteel_kube::{ObjectPart, Status};
use firesteel_plan::{instance::TokenAge, journal};
use firesteel_resources::host_journal::{HostJournalStatus, RequestAnswer, RequestOutcome, TokenCount, TokenExtension};
use firesteel_resources::{BareMetalHost, bare_metal_host::annotations::EXTEND_TOKEN};
use firesteel_runtime::{event, key_of};
use jiff::{SignedDuration, Timestamp};

use crate::{instances::InstanceReports, map};

impl InstanceReports {
    /// Answers the wish of a host's owner, if there is one.
    pub(crate) async fn answer_token_extension(&self, host: &BareMetalHost) -> Result<(), Status> {
        let Some(asked) = host.metadata.annotation(EXTEND_TOKEN).map(map::field) else { return Ok(()) };
        let (key, now, age) = (key_of(host), self.shared.now(), self.token_age());
        let answer = self
            .shared
            .journals
            .change(&key, |status| {
                // Answered already, and cut off before the annotation went.
                if status.token_extension.as_ref().is_some_and(|answer| answer.asked == asked) {
                    return None;
                }
                Some(answer(status, &asked, now, age))
            })
            .await?
            .flatten();
        if let Some(answer) = answer {
            let (reason, text) = match (&answer.until, answer.refused.as_str()) {
                (Some(until), _) => ("TokenExtended", format!("its token is honoured until {until:.0}")),
                (None, why) => ("TokenExtensionRefused", format!("its token stays as it is: {why}")),
            };
            tracing::info!(host = %key, reason, "{text}");
            self.shared.events.record_event(&key, &host.metadata.uid, reason, answer.until.is_none(), text);
        }
        let forget = |host: &mut BareMetalHost| {
            if host.metadata.annotation(EXTEND_TOKEN).map(map::field).as_ref() == Some(&asked) {
                host.metadata.annotations.remove(EXTEND_TOKEN);
            }
        };
        self.hosts.modify(&key.namespace, &key.name, ObjectPart::Main, forget).await.map(|_| ())
    }
}

/// An installation's attempt, and until when its token is honoured by the clock as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ExtendedToken {
    attempt: u64,
    until: Timestamp,
}

/// Why a host's token stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum TokenNotExtended {
    #[error("no OS of this appliance is installed on it")]
    NothingInstalled,
    #[error("its user data fetches nothing from this appliance, so there is no token")]
    FetchesNothing,
    #[error("its OS has its config and runs since {at:.0}")]
    Runs { at: Timestamp },
    #[error("the new deadline is beyond all time")]
    BeyondTime,
}

fn answer(status: &mut HostJournalStatus, asked: &str, now: Timestamp, age: TokenAge) -> TokenExtension {
    let mut answer = TokenExtension { asked: asked.to_owned(), at: now, ..TokenExtension::default() };
    let (outcome, text) = match renewed(status, now, age.life) {
        Ok(ExtendedToken { attempt, until }) => {
            status.token_count = Some(TokenCount { attempt, since_s: age.age_s });
            answer.until = Some(until);
            status.note(event(now, attempt, "token_extended", format!("the token is honoured until {until:.0}")));
            let text = format!("the token on its disk is honoured until {until:.0}: switch the host on before then");
            (RequestOutcome::Done, text)
        }
        Err(why) => {
            let attempt = journal::attempt(status);
            status.note(event(now, attempt, "token_extension_refused", why.to_string()));
            answer.refused = why.to_string();
            (RequestOutcome::Refused, format!("its token stays as it is: {why}"))
        }
    };
    let recorded = RequestAnswer::new(EXTEND_TOKEN, asked, outcome, &text, now);
    status.answers.record(RequestAnswer { pending_removal: true, ..recorded });
    status.token_extension = Some(answer.clone());
    answer
}

/// Finds the new deadline of the token, or why there is none.
fn renewed(
    status: &HostJournalStatus,
    now: Timestamp,
    life: SignedDuration,
) -> Result<ExtendedToken, TokenNotExtended> {
    let Some(attempt) = journal::installed(status) else {
        return Err(TokenNotExtended::NothingInstalled);
    };
    if journal::configs_of(status, attempt).is_none_or(|configs| configs.is_empty()) {
        return Err(TokenNotExtended::FetchesNothing);
    }
    let record = status.instance.as_ref().filter(|record| record.attempt == attempt);
    if let Some(at) = record.and_then(|record| record.running_at) {
        return Err(TokenNotExtended::Runs { at });
    }
    let until = now.checked_add(life).map_err(|_| TokenNotExtended::BeyondTime)?;
    Ok(ExtendedToken { attempt, until })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use firesteel_plan::instance::record_of;
    use serde_json::json;

    use super::*;

    fn status(state: &str, reports: bool) -> HostJournalStatus {
        let configs = if reports { json!(["worker"]) } else { json!([]) };
        let applied = json!({"attempt": 3, "configs": configs});
        let memory = json!({"attempt": 4, "state": {"name": state}, "applied": applied});
        HostJournalStatus { memory, ..HostJournalStatus::default() }
    }

    #[test]
    fn a_later_deadline_is_given_to_an_installation_that_waits_and_to_no_other() {
        let now = Timestamp::from_second(1000).unwrap();
        let age = TokenAge { age_s: 70, life: SignedDuration::from_secs(500) };
        let mut waits = status("provisioned", true);
        let granted = answer(&mut waits, "a", now, age);
        assert_eq!((granted.until.unwrap().as_second(), granted.refused.as_str()), (1500, ""));
        assert_eq!(waits.token_count, Some(TokenCount { attempt: 3, since_s: 70 }), "counted from now on");
        assert_eq!(waits.token_extension.as_ref(), Some(&granted));
        let answered = |status: &HostJournalStatus| {
            status
                .answers
                .of(EXTEND_TOKEN)
                .map(|answer| (answer.number, answer.outcome, answer.message.clone()))
                .unwrap()
        };
        let (number, outcome, text) = answered(&waits);
        assert_eq!((number, outcome), (1, RequestOutcome::Done), "{text}");
        assert!(text.contains("honoured until"), "{text}");

        for (mut other, why) in [
            (status("deprovisioning", true), "no OS of this appliance"),
            (status("provisioned", false), "fetches nothing"),
        ] {
            assert!(answer(&mut other, "a", now, age).refused.contains(why));
            let (_, outcome, text) = answered(&other);
            assert!(outcome == RequestOutcome::Refused && text.contains(why), "{text}");
            assert_eq!(other.token_count, None);
        }
        record_of(&mut waits, 3).running_at = Some(now);
        assert!(answer(&mut waits, "b", now, age).refused.contains("runs since"));
    }
}
