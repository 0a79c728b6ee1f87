//! Requests to a host that end with the appliance's answer: an annotation on the host, and what its journal says of it.

use std::time::Duration;

use clap::Args;
use firesteel_resources::host_journal::{RequestAnswer, RequestOutcome};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::client::{code_of, is_conflict};
use super::get::missing_host;
use super::host_wait::{self, HostWait, ObservedHost, REOPEN, WaitError};
use super::output::print_line;
use super::table::clean;
use super::{ApiClient, durations, kinds, print_text};

/// The time in which an appliance that works answers, also under load and after a restart.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(5);

// How long a command waits for the appliance's answer. A doc comment would be the help of commands.
#[derive(Clone, Debug, Args)]
pub struct AnswerOptions {
    /// Only ask, and do not wait for the appliance's answer
    #[arg(long)]
    pub no_wait: bool,
    /// Time to wait for the answer, such as 90s or 10m [default: 5m]
    #[arg(long, value_name = "TIME", value_parser = durations::limit, conflicts_with = "no_wait")]
    pub timeout: Option<Duration>,
}

impl AnswerOptions {
    pub(super) fn limit(&self) -> Duration {
        self.timeout.unwrap_or(ANSWER_TIMEOUT)
    }
}

// A request to a host, with no other argument.
#[derive(Clone, Debug, Args)]
pub struct HostRequestOptions {
    #[arg(value_parser = kinds::host_name)]
    pub host: String,
    #[command(flatten)]
    pub answer: AnswerOptions,
}

/// A request to a host by annotation.
#[derive(Debug)]
pub(super) struct HostRequest<'a> {
    pub host: &'a str,
    /// Stands in "could not … HOST".
    pub verb: &'static str,
    pub key: &'static str,
    pub value: String,
}

/// Asks, and ends with the answer of the appliance.
///
/// # Errors
/// When there is no such host, it goes meanwhile, the appliance refuses the request, or its answer does not come in
/// time.
pub(super) async fn ask(client: &ApiClient, request: &HostRequest<'_>, options: &AnswerOptions) -> anyhow::Result<()> {
    let HostRequest { host, verb, key, value } = request;
    if options.no_wait {
        annotate(client, host, key, Some(value)).await?;
        print_text(&asked(host));
        return Ok(());
    }
    let (mut wait, seen) = HostWait::open(client, host, Some(options.limit())).await?;
    if seen.host.metadata.annotation(key).is_some() {
        print_line(&format!("{host}: an earlier request of this sort comes first"));
    }
    let mut unanswered_patch = None;
    let after = match send(client, &mut wait, request, &mut unanswered_patch).await {
        Ok(after) => after,
        Err(error) => return Err(unsent(request, unanswered_patch, error)),
    };
    match wait.until(|seen| seen.answer(key, value, after)).await {
        Ok(answer) => print_answer(host, verb, &answer),
        Err(error) => Err(unanswered(host, verb, error)),
    }
}

/// Says that a request was made, and no answer waited for.
pub(super) fn asked(host: &str) -> String {
    format!("{host}: asked; `firesteel describe host {host}` shows the answer\n")
}

/// What is done next to ask.
#[derive(Debug, PartialEq, Eq)]
enum AskingStep {
    /// The annotation can be set on this revision of the host; the newest answer has this number.
    Set { newest_answer: u64, revision: String },
    /// A patch whose answer was lost was taken all the same.
    AlreadySet { newest_answer: u64 },
}

/// Decides the next step. An earlier request of this sort is taken first (`None`): its annotation would be replaced.
/// `unanswered` is the number of the newest answer before the first patch that was not answered.
fn next_step(seen: &ObservedHost, request: &HostRequest<'_>, unanswered: Option<u64>) -> Option<AskingStep> {
    let (metadata, answers) = (&seen.host.metadata, &seen.journal.status.answers);
    let set = metadata.annotation(request.key);
    if let Some(newest_answer) = unanswered
        && (set == Some(request.value.as_str())
            || answers.find_after(newest_answer, request.key, &request.value).is_some())
    {
        return Some(AskingStep::AlreadySet { newest_answer });
    }
    // Until the planner has seen that the annotation is gone, the same value is the same request.
    let is_closed = answers.of(request.key).is_none_or(|answer| !answer.pending_removal);
    let revision = metadata.resource_version.clone();
    (is_closed && set.is_none()).then(|| AskingStep::Set { newest_answer: answers.newest_number(), revision })
}

/// Sets the annotation, and returns the number of the newest answer before it. A connection that is cut says nothing of
/// what became of a patch: the host is looked at again, and `unanswered` is the number of the newest answer before the
/// first such patch.
async fn send(
    client: &ApiClient,
    wait: &mut HostWait<'_>,
    request: &HostRequest<'_>,
    unanswered: &mut Option<u64>,
) -> Result<u64, WaitError> {
    let path = host_wait::path(client, "hosts", request.host)?;
    loop {
        let before = *unanswered;
        let (newest_answer, revision) = match wait.until(|seen| next_step(seen, request, before)).await? {
            AskingStep::Set { newest_answer, revision } => (newest_answer, revision),
            AskingStep::AlreadySet { newest_answer } => return Ok(newest_answer),
        };
        let patch = json!({"metadata": {"resourceVersion": revision, "annotations": {request.key: request.value}}});
        match client.merge_patch(&path, &patch).await {
            Ok(_) => return Ok(newest_answer),
            // Another client changed the host since it was read.
            Err(error) if is_conflict(&error) => {}
            Err(error) if code_of(&error).is_none() => {
                *unanswered = unanswered.or(Some(newest_answer));
                sleep(REOPEN).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Sets an annotation of a host, or removes it.
pub(super) async fn annotate(client: &ApiClient, host: &str, key: &str, value: Option<&str>) -> anyhow::Result<()> {
    let patch: Value = json!({"metadata": {"annotations": {key: value}}});
    let patched = client.merge_patch(&host_wait::path(client, "hosts", host)?, &patch).await;
    patched.map_err(|error| missing_host(client, host, error))?;
    Ok(())
}

/// Prints the words of the appliance; those of a refusal are the error.
pub(super) fn print_answer(host: &str, verb: &str, answer: &RequestAnswer) -> anyhow::Result<()> {
    let message = clean(&answer.message);
    match answer.outcome {
        RequestOutcome::Accepted => print_text(&format!("{host}: accepted: {message}\n")),
        RequestOutcome::Done => print_text(&format!("{host}: {message}\n")),
        RequestOutcome::Refused => anyhow::bail!("could not {verb} {host}: the appliance refused: {message}"),
    }
    Ok(())
}

/// Says why a request could not be set, and what to do then. Where the answer to a patch was lost, the request may be
/// there.
fn unsent(request: &HostRequest<'_>, unanswered_patch: Option<u64>, error: WaitError) -> anyhow::Error {
    let HostRequest { host, verb, key, .. } = request;
    match (error, unanswered_patch) {
        (WaitError::TimedOut { limit, why }, None) => anyhow::anyhow!(
            "could not {verb} {host}: an earlier request of this sort was not taken within {limit}{why}; nothing was \
             asked, and the annotation {key} is the earlier one: remove it to take that back"
        ),
        (WaitError::TimedOut { limit, why }, Some(_)) => anyhow::anyhow!(
            "could not {verb} {host}: the connection was cut while the request was sent, and the appliance did not \
             say within {limit} whether it took it{why}; the request may be there: `firesteel describe host {host}` \
             shows it and its answer"
        ),
        (error, _) => unanswered(host, verb, error),
    }
}

/// Says why there is no answer, and what to do then.
pub(super) fn unanswered(host: &str, verb: &str, error: WaitError) -> anyhow::Error {
    match error {
        WaitError::Gone(_) => anyhow::anyhow!("could not {verb} {host}: {error}"),
        WaitError::TimedOut { .. } => anyhow::anyhow!(
            "could not {verb} {host}: {error}; the request stays, and `firesteel describe host {host}` shows its answer"
        ),
        WaitError::Api(error) => error.context(format!("could not {verb} {host}")),
    }
}

#[cfg(test)]
mod tests;
