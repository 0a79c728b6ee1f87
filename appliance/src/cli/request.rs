//! `retry`, `reboot`, `lock` and `release`: requests to the planner, stored on the host as annotations or
//! as its deletion. The planner alone moves the host.

use firesteel_resources::bare_metal_host::annotations;
use serde_json::json;

use super::{Client, kinds, print_text};

fn path(client: &Client, host: &str) -> anyhow::Result<String> {
    Ok(format!("{}/{host}", kinds::collection(kinds::by_name("hosts")?, &client.namespace)))
}

async fn annotate(client: &Client, host: &str, key: &str, value: &str) -> anyhow::Result<()> {
    client.merge_patch(&path(client, host)?, &json!({"metadata": {"annotations": {key: value}}})).await?;
    Ok(())
}

/// # Errors
/// When there is no such host, or the appliance does not answer.
pub(crate) async fn retry(client: &Client, host: &str) -> anyhow::Result<()> {
    annotate(client, host, annotations::RETRY, &jiff::Timestamp::now().to_string()).await?;
    print_text(&format!("{host}: will be tried again; follow it with `firesteel watch {host}`\n"));
    Ok(())
}

/// # Errors
/// When there is no such host, or the appliance does not answer.
pub(crate) async fn reboot(client: &Client, host: &str, hard: bool) -> anyhow::Result<()> {
    let mode = if hard { "hard" } else { "soft" };
    annotate(client, host, annotations::REBOOT, &json!({"mode": mode}).to_string()).await?;
    print_text(&format!("{host}: reboot requested ({mode})\n"));
    Ok(())
}

/// # Errors
/// When there is no such host, or the appliance does not answer.
pub(crate) async fn give_up(client: &Client, host: &str, guid: &str) -> anyhow::Result<()> {
    annotate(client, host, annotations::GIVE_UP_DISK, guid).await?;
    print_text(&format!(
        "{host}: what is installed on the disk {guid} may be overwritten; `firesteel describe host {host}` shows it\n"
    ));
    Ok(())
}

/// # Errors
/// When there is no such host, or the appliance does not answer.
pub(crate) async fn lock(client: &Client, host: &str, reason: &str) -> anyhow::Result<()> {
    annotate(client, host, annotations::LOCK, reason).await?;
    print_text(&format!("{host}: none of its disks is cleaned or written until `firesteel unlock {host}`\n"));
    Ok(())
}

/// # Errors
/// When there is no such host, or the appliance does not answer.
pub(crate) async fn unlock(client: &Client, host: &str) -> anyhow::Result<()> {
    let key = annotations::LOCK;
    client.merge_patch(&path(client, host)?, &json!({"metadata": {"annotations": {key: null}}})).await?;
    print_text(&format!("{host}: its disks may be cleaned and written again\n"));
    Ok(())
}

/// # Errors
/// When there is no such host, or the appliance does not answer.
pub(crate) async fn release(client: &Client, host: &str, force: bool) -> anyhow::Result<()> {
    if force {
        annotate(client, host, annotations::RELEASE_FORCE, "true").await?;
    }
    client.delete(&path(client, host)?).await?;
    let how = if force { "without cleaning; a tombstone stays" } else { "after its disk was cleaned" };
    print_text(&format!("{host}: will be released {how}; follow it with `firesteel watch {host}`\n"));
    Ok(())
}
