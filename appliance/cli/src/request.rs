//! `retry`, `accept-identity`, `accept-erasure`, `choose-agent`, `reboot`, `unfreeze`, `lock` and `unlock`: requests to
//! the planner, stored on the host as annotations. Only the planner changes the state of a host, and its answer is the
//! end of the command.

use anyhow::Context as _;
use clap::Args;
use firesteel_plan::host::{Claimants, PendingErasure};
use firesteel_plan::journal::{memory, stored_memory};
use firesteel_resources::bare_metal_host::{ErrorType, annotations};
use firesteel_resources::{BareMetalHost, HostJournal};
use serde_json::json;

use super::answer::{self, AnswerOptions, HostRequest, HostRequestOptions, annotate, ask};
use super::confirm::{self, ConfirmOptions, HostSummary, NamedHost};
use super::get::missing_host;
use super::host_wait::{HostWait, path};
use super::{ApiClient, kinds, print_text};

#[derive(Clone, Debug, Args)]
pub struct ChooseAgentOptions {
    #[arg(value_parser = kinds::host_name)]
    host: String,
    /// Key of the agent that runs on the host: all digits, or the first ones
    #[arg(long, value_name = "KEY", required_unless_present = "none", conflicts_with = "none")]
    key: Option<String>,
    /// End the attempt: all of them are refused, and the host boots again
    #[arg(long)]
    none: bool,
    #[command(flatten)]
    answer: AnswerOptions,
}

#[derive(Clone, Debug, Args)]
pub struct RebootOptions {
    #[arg(value_parser = kinds::host_name)]
    host: String,
    /// Cut the power instead of asking the OS
    #[arg(long)]
    hard: bool,
    /// Do not ask before the power is cut: go on at once, as scripts must
    #[arg(long, short, requires = "hard")]
    yes: bool,
    #[command(flatten)]
    answer: AnswerOptions,
}

#[derive(Clone, Debug, Args)]
pub struct UnlockOptions {
    #[command(flatten)]
    request: HostRequestOptions,
    #[command(flatten)]
    confirm: ConfirmOptions,
}

#[derive(Clone, Debug, Args)]
pub struct UnfreezeOptions {
    #[arg(value_parser = kinds::host_name)]
    host: String,
    /// Mark of the installation, or name of the disk that could not be read, as the host's reason shows it
    #[arg(long, value_name = "GUID|NAME")]
    disk: String,
    #[command(flatten)]
    confirm: ConfirmOptions,
    #[command(flatten)]
    answer: AnswerOptions,
}

/// # Errors
/// When there is no such host, it has nothing to try again, or the appliance does not answer.
pub(crate) async fn retry(client: &ApiClient, options: &HostRequestOptions) -> anyhow::Result<()> {
    let value = jiff::Timestamp::now().to_string();
    let request = HostRequest { host: &options.host, verb: "retry", key: annotations::RETRY, value };
    ask(client, &request, &options.answer).await
}

/// # Errors
/// When there is no such host, no machine was refused for it, or the appliance refuses or does not answer.
pub(crate) async fn accept_identity(client: &ApiClient, options: &HostRequestOptions) -> anyhow::Result<()> {
    let host = &options.host;
    let refused = journal_of(client, host).await?.status.refused_identity.with_context(|| {
        format!("could not accept a machine as {host}: none was refused; `firesteel describe host {host}` shows its identity")
    })?;
    let (key, value) = (annotations::ACCEPT_IDENTITY, refused.mark());
    let request = HostRequest { host, verb: "accept the identity of", key, value };
    ask(client, &request, &options.answer).await
}

/// # Errors
/// When there is no such host, none of its erasures is held, or the appliance refuses or does not answer.
pub(crate) async fn accept_erasure(client: &ApiClient, options: &HostRequestOptions) -> anyhow::Result<()> {
    let host = &options.host;
    let journal = journal_of(client, host).await?;
    let memory = memory(&journal.status).context("could not read what the appliance knows of the host")?;
    let held = memory.wipe.filter(PendingErasure::is_held).with_context(|| {
        format!(
            "could not accept an erasure of {host}: none is held; `firesteel describe host {host}` shows where it is"
        )
    })?;
    let (key, value) = (annotations::ACCEPT_ERASURE, held.mark());
    let request = HostRequest { host, verb: "accept the erasure of", key, value };
    ask(client, &request, &options.answer).await
}

/// Chooses the agent that is the host, by the first digits of its key; `None` rejects all of them.
///
/// # Errors
/// When there is no such host, it is not claimed twice, the digits name none or several, or the appliance refuses or
/// does not answer.
pub(crate) async fn choose_agent(client: &ApiClient, options: &ChooseAgentOptions) -> anyhow::Result<()> {
    let host = &options.host;
    let journal = journal_of(client, host).await?;
    let memory = memory(&journal.status).context("could not read what the appliance knows of the host")?;
    let claims = memory.claimants.with_context(|| {
        format!(
            "could not choose the agent of {host}: one machine alone claims it; `firesteel describe host {host}` shows \
             it"
        )
    })?;
    // Without a key it is `--none`.
    let value = match &options.key {
        Some(digits) => claimant(&claims, digits).with_context(|| format!("could not choose the agent of {host}"))?,
        None => annotations::NO_CLAIMANT.to_owned(),
    };
    let request = HostRequest { host, verb: "choose the agent of", key: annotations::CHOOSE_AGENT, value };
    ask(client, &request, &options.answer).await
}

/// Finds the one claimant whose key begins with these digits.
fn claimant(claims: &Claimants, digits: &str) -> anyhow::Result<String> {
    let digits = digits.trim().to_ascii_lowercase();
    let found: Vec<&str> =
        claims.all().map(|machine| machine.key.as_str()).filter(|key| key.starts_with(&digits)).collect();
    match (digits.is_empty(), found.as_slice()) {
        (false, [key]) => Ok((*key).to_owned()),
        (false, []) => {
            anyhow::bail!("no machine with a key {digits}… claims it; `firesteel describe host` shows the keys")
        }
        (_, _) => anyhow::bail!("more digits of the key are needed; `firesteel describe host` shows the keys"),
    }
}

async fn journal_of(client: &ApiClient, host: &str) -> anyhow::Result<HostJournal> {
    let journal = client.get(&path(client, "hostjournals", host)?).await;
    let journal = journal.map_err(|error| missing_host(client, host, error))?;
    serde_json::from_value(journal).context("could not read the appliance's answer")
}

/// # Errors
/// When there is no such host, its BMC fails, the person says no, or the appliance refuses or does not answer.
pub(crate) async fn reboot(client: &ApiClient, options: &RebootOptions) -> anyhow::Result<()> {
    let RebootOptions { host, hard, yes, answer } = options;
    let confirm = ConfirmOptions { yes: *yes };
    if *hard {
        confirm::check_terminal("reboot --hard", confirm)?;
    }
    let found = client.get(&path(client, "hosts", host)?).await.map_err(|error| missing_host(client, host, error))?;
    let found: BareMetalHost = serde_json::from_value(found).context("could not read the appliance's answer")?;
    check_bmc(&found).with_context(|| format!("could not reboot {host}"))?;
    if *hard {
        let text = |_: &HostSummary| {
            "The power of this host is cut at once: what its OS has not written to its disks is lost.".to_owned()
        };
        confirm::ask_about_host(client, "reboot --hard", host, text, confirm).await?;
    }
    let mode = if *hard { "hard" } else { "soft" };
    let (key, value) = (annotations::REBOOT, json!({"mode": mode}).to_string());
    ask(client, &HostRequest { host, verb: "reboot", key, value }, answer).await
}

/// Refuses to ask for a reboot that waits for the repair of a BMC: the host would be rebooted at a time that no one
/// knows.
fn check_bmc(host: &BareMetalHost) -> anyhow::Result<()> {
    let status = host.status.clone().unwrap_or_default();
    match status.error_type {
        Some(ErrorType::Registration | ErrorType::ProvisionedRegistration | ErrorType::PowerManagement)
            if host.spec.usable_bmc().is_some() =>
        {
            let why = status.error_message;
            anyhow::bail!(
                "{why}; when that is repaired, `firesteel retry` makes the appliance ask the BMC again at once"
            );
        }
        Some(
            ErrorType::Registration
            | ErrorType::ProvisionedRegistration
            | ErrorType::PowerManagement
            | ErrorType::Inspection
            | ErrorType::Preparation
            | ErrorType::Provisioning
            | ErrorType::Servicing,
        )
        | None => Ok(()),
    }
}

/// # Errors
/// When there is no such host, the person says no, the host is not frozen because of this disk, or the appliance does
/// not answer.
pub(crate) async fn unfreeze(client: &ApiClient, options: &UnfreezeOptions) -> anyhow::Result<()> {
    let UnfreezeOptions { host, disk, confirm, answer } = options;
    let text = |summary: &HostSummary| match summary.frozen() {
        Some(frozen) => {
            format!("What is on the disk {disk} may be overwritten. The host is frozen because of {frozen}")
        }
        None => format!("What is on the disk {disk} may be overwritten, although this host is not frozen."),
    };
    confirm::ask_about_host(client, "unfreeze", host, text, *confirm).await?;
    let (key, value) = (annotations::UNFREEZE_DISK, disk.clone());
    ask(client, &HostRequest { host, verb: "unfreeze", key, value }, answer).await
}

/// # Errors
/// When there is no such host, or the appliance does not answer.
pub(crate) async fn lock(client: &ApiClient, host: &str, reason: &str) -> anyhow::Result<()> {
    annotate(client, host, annotations::LOCK, Some(reason)).await?;
    print_text(&format!("{host}: none of its disks is cleaned or written until `firesteel unlock {host}`\n"));
    Ok(())
}

/// # Errors
/// When there is no such host, or the appliance does not answer.
pub(crate) async fn unlock(client: &ApiClient, options: &UnlockOptions) -> anyhow::Result<()> {
    let UnlockOptions { request: HostRequestOptions { host, answer }, confirm } = options;
    let (mut wait, seen) = HostWait::open(client, host, Some(answer.limit())).await?;
    if seen.host.metadata.annotation(annotations::LOCK).is_none() {
        print_text(&format!("{host}: it is not locked\n"));
        return Ok(());
    }
    if seen.host.metadata.is_deleting() {
        // Only the lock keeps its disks.
        confirm::ask_to_delete_host(client, "unlock", NamedHost::here(client, host), false, *confirm).await?;
        wait.restart(Some(answer.limit()));
    }
    let after = seen.journal.status.answers.newest_number();
    let memory = stored_memory(&seen.journal.status).ok().flatten();
    annotate(client, host, annotations::LOCK, None).await?;
    // Of a lock that the planner has not noticed it does not notice the end.
    if memory.is_none_or(|memory| memory.locked.is_none()) || answer.no_wait {
        print_text(&format!("{host}: the lock is removed\n"));
        return Ok(());
    }
    match wait.until(|seen| seen.answer(annotations::LOCK, "", after)).await {
        Ok(answered) => answer::print_answer(host, "unlock", &answered),
        Err(error) => Err(answer::unanswered(host, "unlock", error)),
    }
}

#[cfg(test)]
mod tests {
    use firesteel_resources::bare_metal_host::BmcDetails;

    use super::*;

    #[test]
    fn a_claimant_is_named_by_digits_that_fit_it_alone() {
        let machine = |key: &str| firesteel_resources::host_journal::Claimant { key: key.into(), ..Default::default() };
        let claims = Claimants {
            since: jiff::Timestamp::UNIX_EPOCH,
            attempt: 3,
            first: machine("ab01"),
            others: vec![machine("ab02"), machine("cd03")],
            until: jiff::Timestamp::UNIX_EPOCH,
            cut: None,
            person: None,
        };
        let claimant = |digits| super::claimant(&claims, digits).map_err(|why| why.to_string());
        assert_eq!(claimant("CD"), Ok("cd03".to_owned()));
        assert_eq!(claimant("ab02"), Ok("ab02".to_owned()));
        assert_eq!(
            claimant("ab"),
            Err("more digits of the key are needed; `firesteel describe host` shows the keys".to_owned())
        );
        assert_eq!(
            claimant(""),
            Err("more digits of the key are needed; `firesteel describe host` shows the keys".to_owned())
        );
        assert_eq!(
            claimant("ff"),
            Err("no machine with a key ff… claims it; `firesteel describe host` shows the keys".to_owned())
        );
    }

    #[test]
    fn a_reboot_that_waits_for_a_repair_is_not_asked_for() {
        let check_bmc = |host: &BareMetalHost| super::check_bmc(host).map_err(|why| why.to_string());
        let mut host = BareMetalHost::default();
        assert_eq!(check_bmc(&host), Ok(()), "the appliance says that it has no BMC");
        let bmc = BmcDetails { address: "redfish://b/".into(), credentials_name: "s".into(), ..BmcDetails::default() };
        host.spec.bmc = Some(bmc);
        assert_eq!(check_bmc(&host), Ok(()));
        host.status = Some(firesteel_resources::BareMetalHostStatus {
            error_type: Some(ErrorType::PowerManagement),
            error_message: "the BMC has no session free".into(),
            ..Default::default()
        });
        assert!(check_bmc(&host).is_err_and(|why| why.starts_with("the BMC has no session free; when")));
    }
}
