//! `retry`, `accept-identity`, `accept-erasure`, `choose-agent`, `reboot`, `lock` and `release`: requests to the
//! planner, stored on the host as annotations or as its deletion. Only the planner changes the state of a host.

use anyhow::Context as _;
use firesteel_plan::host::{Claimants, PendingErasure};
use firesteel_plan::journal::memory;
use firesteel_resources::bare_metal_host::{ErrorType, ProvisioningState, annotations};
use firesteel_resources::host_journal::RefusedIdentity;
use firesteel_resources::{BareMetalHost, HostJournal};
use serde_json::json;

use super::{ApiClient, kinds, print_text, table::clean};

fn path(client: &ApiClient, host: &str) -> anyhow::Result<String> {
    Ok(format!("{}/{host}", kinds::collection(kinds::by_name("hosts")?, &client.namespace)))
}

async fn annotate(client: &ApiClient, host: &str, key: &str, value: &str) -> anyhow::Result<()> {
    client.merge_patch(&path(client, host)?, &json!({"metadata": {"annotations": {key: value}}})).await?;
    Ok(())
}

/// # Errors
/// When there is no such host, or the appliance does not answer.
pub(crate) async fn retry(client: &ApiClient, host: &str) -> anyhow::Result<()> {
    annotate(client, host, annotations::RETRY, &jiff::Timestamp::now().to_string()).await?;
    print_text(&format!("{host}: will be tried again; follow it with `firesteel watch {host}`\n"));
    Ok(())
}

/// # Errors
/// When there is no such host, no machine was refused for it, or the appliance does not answer.
pub(crate) async fn accept_identity(client: &ApiClient, host: &str) -> anyhow::Result<()> {
    let refused = journal_of(client, host).await?.status.refused_identity.with_context(|| {
        format!("could not accept a machine as {host}: none was refused; `firesteel describe host {host}` shows its identity")
    })?;
    annotate(client, host, annotations::ACCEPT_IDENTITY, &refused.mark()).await?;
    let RefusedIdentity { uuid, serial, mac, .. } = refused;
    let or_none = |text: String| if text.is_empty() { "none".to_owned() } else { clean(&text) };
    let mac = clean(&mac);
    print_text(&format!(
        "{host}: the machine with the MAC {mac}, SMBIOS UUID {}, serial number {}, will be taken for this host; follow it \
         with `firesteel watch {host}`\n",
        or_none(uuid),
        or_none(serial)
    ));
    Ok(())
}

/// # Errors
/// When there is no such host, none of its erasures is held, or the appliance does not answer.
pub(crate) async fn accept_erasure(client: &ApiClient, host: &str) -> anyhow::Result<()> {
    let journal = journal_of(client, host).await?;
    let memory = memory(&journal.status).context("could not read what the appliance knows of the host")?;
    let held = memory.wipe.filter(PendingErasure::is_held).with_context(|| {
        format!(
            "could not accept an erasure of {host}: none is held; `firesteel describe host {host}` shows where it is"
        )
    })?;
    annotate(client, host, annotations::ACCEPT_ERASURE, &held.mark()).await?;
    print_text(&format!(
        "{host}: its erasure is taken as enough, and stays unverified ({}); follow it with `firesteel watch {host}`\n",
        clean(&held.unverified.join("; "))
    ));
    Ok(())
}

/// Chooses the agent that is the host, by the first digits of its key; `None` rejects all of them.
///
/// # Errors
/// When there is no such host, it is not claimed twice, the digits name none or several, or the appliance does not
/// answer.
pub(crate) async fn choose_agent(client: &ApiClient, host: &str, digits: Option<&str>) -> anyhow::Result<()> {
    let journal = journal_of(client, host).await?;
    let memory = memory(&journal.status).context("could not read what the appliance knows of the host")?;
    let claims = memory.claimants.with_context(|| {
        format!(
            "could not choose the agent of {host}: one machine alone claims it; `firesteel describe host {host}` shows \
             it"
        )
    })?;
    let (word, text) = match digits {
        Some(digits) => {
            let key = claimant(&claims, digits).with_context(|| format!("could not choose the agent of {host}"))?;
            (key.clone(), format!("the machine with the key {:.16} is the host", clean(&key)))
        }
        None => (annotations::NO_CLAIMANT.to_owned(), format!("attempt {} ends for all of them", claims.attempt)),
    };
    annotate(client, host, annotations::CHOOSE_AGENT, &word).await?;
    print_text(&format!("{host}: {text}; follow it with `firesteel watch {host}`\n"));
    Ok(())
}

/// Finds the one claimant whose key begins with these digits.
fn claimant(claims: &Claimants, digits: &str) -> anyhow::Result<String> {
    let digits = digits.trim().to_ascii_lowercase();
    let found: Vec<&str> =
        claims.all().map(|machine| machine.key.as_str()).filter(|key| key.starts_with(&digits)).collect();
    match (digits.is_empty(), found.as_slice()) {
        (false, [key]) => Ok((*key).to_owned()),
        (false, []) => anyhow::bail!("no machine with a key {digits}… claims it"),
        (_, _) => anyhow::bail!("more digits of the key are needed"),
    }
}

async fn journal_of(client: &ApiClient, host: &str) -> anyhow::Result<HostJournal> {
    let journals = kinds::collection(kinds::by_name("hostjournals")?, &client.namespace);
    let journal = client.get(&format!("{journals}/{host}")).await?;
    serde_json::from_value(journal).context("could not read the appliance's answer")
}

/// # Errors
/// When there is no such host, it cannot be rebooted now, or the appliance does not answer.
pub(crate) async fn reboot(client: &ApiClient, host: &str, hard: bool) -> anyhow::Result<()> {
    let found: BareMetalHost = serde_json::from_value(client.get(&path(client, host)?).await?)
        .context("could not read the appliance's answer")?;
    may_reboot(&found).with_context(|| format!("could not reboot {host}"))?;
    let mode = if hard { "hard" } else { "soft" };
    annotate(client, host, annotations::REBOOT, &json!({"mode": mode}).to_string()).await?;
    print_text(&format!("{host}: reboot requested ({mode})\n"));
    Ok(())
}

/// Tells why the planner would drop the request or could not do it; such a request is not sent.
fn may_reboot(host: &BareMetalHost) -> anyhow::Result<()> {
    anyhow::ensure!(host.spec.usable_bmc().is_some(), "it has no BMC: reboot it by hand");
    let status = host.status.clone().unwrap_or_default();
    match status.error_type {
        Some(ErrorType::Registration | ErrorType::ProvisionedRegistration | ErrorType::PowerManagement) => {
            let why = status.error_message;
            anyhow::bail!(
                "{why}; when that is repaired, `firesteel retry` makes the appliance ask the BMC again at once"
            );
        }
        Some(ErrorType::Inspection | ErrorType::Preparation | ErrorType::Provisioning | ErrorType::Servicing)
        | None => {}
    }
    match status.provisioning.state {
        ProvisioningState::Provisioned | ProvisioningState::ExternallyProvisioned => Ok(()),
        ProvisioningState::New
        | ProvisioningState::Unmanaged
        | ProvisioningState::Registering
        | ProvisioningState::Inspecting
        | ProvisioningState::Preparing
        | ProvisioningState::Available
        | ProvisioningState::Provisioning
        | ProvisioningState::Deprovisioning
        | ProvisioningState::PoweringOff
        | ProvisioningState::Deleting
        | ProvisioningState::Foreign => {
            let (state, key) = (status.provisioning.state.word(), annotations::REBOOT);
            let state = if state.is_empty() { "new" } else { state };
            anyhow::bail!(
                "it is {state} and runs no OS of its owner's; the annotation {key}={{\"force\":true}} reboots it all the same"
            )
        }
    }
}

/// # Errors
/// When there is no such host, or the appliance does not answer.
pub(crate) async fn unfreeze(client: &ApiClient, host: &str, guid: &str) -> anyhow::Result<()> {
    annotate(client, host, annotations::UNFREEZE_DISK, guid).await?;
    print_text(&format!(
        "{host}: what is installed on the disk {guid} may be overwritten; `firesteel describe host {host}` shows it\n"
    ));
    Ok(())
}

/// # Errors
/// When there is no such host, or the appliance does not answer.
pub(crate) async fn lock(client: &ApiClient, host: &str, reason: &str) -> anyhow::Result<()> {
    annotate(client, host, annotations::LOCK, reason).await?;
    print_text(&format!("{host}: none of its disks is cleaned or written until `firesteel unlock {host}`\n"));
    Ok(())
}

/// # Errors
/// When there is no such host, or the appliance does not answer.
pub(crate) async fn unlock(client: &ApiClient, host: &str) -> anyhow::Result<()> {
    let key = annotations::LOCK;
    client.merge_patch(&path(client, host)?, &json!({"metadata": {"annotations": {key: null}}})).await?;
    print_text(&format!("{host}: its disks may be cleaned and written again\n"));
    Ok(())
}

/// # Errors
/// When there is no such host, or the appliance does not answer.
pub(crate) async fn release(client: &ApiClient, host: &str, force: bool) -> anyhow::Result<()> {
    if force {
        annotate(client, host, annotations::RELEASE_FORCE, "true").await?;
    }
    client.delete(&path(client, host)?).await?;
    let how = if force { "without cleaning; a tombstone stays" } else { "after its disk was cleaned" };
    print_text(&format!("{host}: will be released {how}; follow it with `firesteel watch {host}`\n"));
    Ok(())
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
        assert_eq!(claimant("ab"), Err("more digits of the key are needed".to_owned()));
        assert_eq!(claimant(""), Err("more digits of the key are needed".to_owned()));
        assert_eq!(claimant("ff"), Err("no machine with a key ff… claims it".to_owned()));
    }

    #[test]
    fn a_reboot_without_effect_is_not_asked_for() {
        let may_reboot = |host: &BareMetalHost| super::may_reboot(host).map_err(|why| why.to_string());
        let mut host = BareMetalHost::default();
        assert!(may_reboot(&host).is_err_and(|why| why.contains("has no BMC")));
        let bmc = BmcDetails { address: "redfish://b/".into(), credentials_name: "s".into(), ..BmcDetails::default() };
        host.spec.bmc = Some(bmc);
        assert!(may_reboot(&host).is_err_and(|why| why.starts_with("it is new and runs no OS")));
        let mut status = firesteel_resources::BareMetalHostStatus::default();
        status.provisioning.state = ProvisioningState::Provisioned;
        host.status = Some(status.clone());
        assert_eq!(may_reboot(&host), Ok(()));
        status.error_type = Some(ErrorType::PowerManagement);
        status.error_message = "the BMC has no session free".into();
        host.status = Some(status);
        assert!(may_reboot(&host).is_err_and(|why| why.starts_with("the BMC has no session free; when")));
    }
}
