//! `firesteel release`: deletes a host once its disks are cleaned, or forgets it.

use clap::Args;
use firesteel_plan::host::gate;
use firesteel_resources::bare_metal_host::annotations;
use firesteel_resources::host_journal::{DELETION, RequestAnswer};
use jiff::Timestamp;

use super::answer::{self, AnswerOptions};
use super::confirm::{self, ConfirmOptions, HostDeletion, NamedHost};
use super::host_departure::HostDeparture;
use super::host_wait::{self, HostWait, ObservedHost, WaitError};
use super::{ApiClient, kinds, print_text, table::output_width};

const COMMAND: &str = "release";

#[derive(Clone, Debug, Args)]
pub struct ReleaseOptions {
    #[arg(value_parser = kinds::host_name)]
    host: String,
    /// Forget the host without cleaning its disks; a tombstone stays
    #[arg(long)]
    force: bool,
    /// Wait until the host is gone; without --timeout as long as it takes
    #[arg(long, conflicts_with = "no_wait")]
    wait: bool,
    /// Only show what would be done to each disk
    #[arg(long, conflicts_with_all = ["wait", "no_wait", "timeout"])]
    dry_run: bool,
    #[command(flatten)]
    confirm: ConfirmOptions,
    #[command(flatten)]
    answer: AnswerOptions,
}

/// # Errors
/// When there is no such host, it is locked, the person says no, or the appliance refuses or does not answer.
pub(crate) async fn run(client: &ApiClient, options: &ReleaseOptions) -> anyhow::Result<()> {
    let ReleaseOptions { host, force, .. } = options;
    if !options.dry_run {
        confirm::check_terminal(COMMAND, options.confirm)?;
    }
    let (mut wait, seen) = HostWait::open(client, host, Some(options.answer.limit())).await?;
    refuse_locked(&seen, *force)?;
    let path = host_wait::path(client, "hosts", host)?;
    if options.dry_run {
        client.delete(&format!("{path}?dryRun=All")).await?;
        let deletion = HostDeletion::fetch(client, NamedHost::here(client, host), *force).await?;
        print_text(&format!(
            "{host}: it would be released; nothing was done (server dry run)\n{}",
            deletion.text(output_width())
        ));
        return Ok(());
    }
    confirm::ask_to_delete_host(client, COMMAND, NamedHost::here(client, host), *force, options.confirm).await?;
    wait.restart(Some(options.answer.limit()));
    // Each request by force has a value of its own, by which its answer is recognised.
    let by_force = force.then(|| Timestamp::now().to_string());
    if let Some(value) = &by_force {
        answer::annotate(client, host, annotations::RELEASE_FORCE, Some(value)).await?;
    }
    client.delete(&path).await?;
    if options.answer.no_wait {
        print_text(&answer::asked(host));
        return Ok(());
    }
    match wait.until(|seen| answer_of(seen, by_force.as_deref())).await {
        Ok(answer) => answer::print_answer(host, COMMAND, &answer)?,
        Err(WaitError::Gone(departure)) => return gone(host, *force, departure),
        Err(error) => return Err(answer::unanswered(host, COMMAND, error)),
    }
    if options.wait {
        wait.restart(options.answer.timeout);
        return until_gone(host, *force, &mut wait).await;
    }
    Ok(())
}

/// Refuses a host whose owner locked its disks: its deletion would wait for as long as the lock is there.
fn refuse_locked(seen: &ObservedHost, force: bool) -> anyhow::Result<()> {
    let host = &seen.host.metadata.name;
    match gate::lock(&seen.host.metadata).filter(|_| !force) {
        Some(lock) => anyhow::bail!(
            "could not release {host}: it is {}; run `firesteel unlock {host}` first, or add --force to forget the host \
             and leave its disks as they are",
            lock.text
        ),
        None => Ok(()),
    }
}

/// Finds the answer to a deletion that was asked for in this way.
fn answer_of(seen: &ObservedHost, by_force: Option<&str>) -> Option<RequestAnswer> {
    if let Some(value) = by_force {
        return seen.answer(annotations::RELEASE_FORCE, value, 0);
    }
    let asked_at = seen.host.metadata.deletion_timestamp?;
    seen.answer(DELETION, &asked_at.to_string(), 0)
}

async fn until_gone(host: &str, force: bool, wait: &mut HostWait<'_>) -> anyhow::Result<()> {
    match wait.until(|_| None::<()>).await {
        Ok(()) => Ok(()),
        Err(WaitError::Gone(departure)) => gone(host, force, departure),
        Err(WaitError::TimedOut { limit, why }) => anyhow::bail!(
            "{host} is not gone within {limit}{why}; the deletion goes on, and `firesteel watch {host}` follows it"
        ),
        Err(error @ WaitError::Api(_)) => Err(answer::unanswered(host, COMMAND, error)),
    }
}

/// Says that the host is gone; only one that went as it was asked for is released.
fn gone(host: &str, force: bool, departure: HostDeparture) -> anyhow::Result<()> {
    if force {
        print_text(&format!("{host}: forgotten, and gone\n"));
    } else {
        print_text(&format!("{host}: released, and {}\n", departure.after_deletion(host)?));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use firesteel_resources::host_journal::RequestOutcome;

    use super::*;

    #[test]
    fn a_locked_host_is_refused_and_forgotten_by_force_alone() {
        let mut seen = ObservedHost::default();
        seen.host.metadata.name = "h1".into();
        assert!(refuse_locked(&seen, false).is_ok());
        seen.host.metadata.annotations.insert(annotations::LOCK.into(), "ann: audit".into());
        let why = refuse_locked(&seen, false).map_err(|error| error.to_string()).err().unwrap_or_default();
        assert!(why.contains("ann: audit") && why.contains("`firesteel unlock h1` first"), "{why}");
        assert!(refuse_locked(&seen, true).is_ok());
    }

    #[test]
    fn only_a_host_that_the_appliance_let_go_is_released() {
        assert!(gone("h1", false, HostDeparture::LetGo).is_ok() && gone("h1", true, HostDeparture::Forced).is_ok());
        for departure in [HostDeparture::Forced, HostDeparture::Unseen] {
            assert!(gone("h1", false, departure).is_err(), "{departure:?}");
        }
    }

    #[test]
    fn the_answer_is_that_to_this_deletion() {
        let mut seen = ObservedHost::default();
        let asked_at = Timestamp::UNIX_EPOCH;
        let mut record = |request: &str, value: &str| {
            let answer = RequestAnswer::new(request, value, RequestOutcome::Accepted, "so", asked_at);
            seen.journal.status.answers.record(answer);
            seen.host.metadata.deletion_timestamp = Some(asked_at);
            (answer_of(&seen, None).is_some(), answer_of(&seen, Some("mine")).is_some())
        };
        assert_eq!(record(DELETION, "an earlier one"), (false, false));
        assert_eq!(record(DELETION, &asked_at.to_string()), (true, false));
        assert_eq!(record(annotations::RELEASE_FORCE, "true"), (true, false));
        assert_eq!(record(annotations::RELEASE_FORCE, "mine"), (true, true));
    }
}
