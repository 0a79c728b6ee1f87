//! A group follows a stream of images: a new release is tried by one host, goes to the next once that one runs, and is
//! taken back. Hosts that are installed stay as they are.

use anyhow::{Context as _, ensure};
use firesteel_lab_image::PackedFormat;
use serde_json::{Value, json};

use super::{console, stream};
use crate::artefacts::{NEXT_VERSION, VERSION};
use crate::demo::check;
use crate::lab::{DesiredHost, HostPlan, Lab, LabConfig};
use crate::machine::{DiskBus, MachineFirmware};
use crate::manifests;
use crate::progress::print_status;

const GROUP: &str = "web";
/// Releases have the names that the images show on their consoles.
const OLD: &str = VERSION;
const NEW: &str = NEXT_VERSION;

pub(super) async fn releases(lab: &mut Lab, config: &LabConfig) -> anyhow::Result<()> {
    let old = lab.publish(config.artefacts.image_of(OLD, PackedFormat::Zst)?)?;
    let new = lab.publish(config.artefacts.image_of(NEW, PackedFormat::Zst)?)?;
    let url = stream::publish(lab, stream::STREAM, OLD, &stream::ReleaseDiskImage::zst(old))?;
    let objects = [stream::policy(), stream::object(stream::STREAM, &url, None), group(None)];
    lab.apply(&manifests::yaml(&objects)).await?;
    stream::wait_stamped(lab, stream::STREAM, OLD).await?;
    print_status("the stream's release is here, verified");

    install(lab, "web-1", OLD).await?;
    wait_current(lab, OLD).await?;

    stream::publish(lab, stream::STREAM, NEW, &stream::ReleaseDiskImage::zst(new))?;
    stream::wait_stamped(lab, stream::STREAM, NEW).await?;
    let is_golden = |group: &Value| group["status"]["golden"]["release"] == NEW;
    let now = lab.wait_object("hostgroups", GROUP, "the new release to be golden", is_golden).await?;
    ensure!(now["status"]["current"]["release"] == OLD, "the group changed to a release that was not tried");
    print_status("a new release was imported; the group stays at the old one until a canary runs");

    install(lab, "web-2", NEW).await?;
    let promoted = wait_current(lab, NEW).await?;
    let canary = &promoted["status"]["canary"];
    ensure!(canary["state"] == "Promoted" && canary["hosts"][0]["name"] == "web-2", "the canary was another: {canary}");
    print_status("the canary runs, and the policy changed the group's reference");
    install(lab, "web-3", NEW).await?;
    untouched(lab, "web-1").await?;

    let entry = old_entry(&promoted)?;
    lab.apply(&manifests::yaml(&[group(Some(entry))])).await?;
    wait_current(lab, OLD).await?;
    install(lab, "web-4", OLD).await?;
    for name in ["web-1", "web-2", "web-3"] {
        untouched(lab, name).await?;
    }
    print_status(&format!("entry {entry} of the history was restored, and the next host got it"));
    Ok(())
}

fn group(restore: Option<u64>) -> Value {
    let mut rest = json!({
        "image": {"stream": stream::STREAM, "track": "latest"},
        "rollout": {"mode": "canary", "canaries": 1},
    });
    if let Some(entry) = restore {
        rest["restore"] = json!({"entry": entry});
    }
    stream::group(GROUP, GROUP, rest)
}

/// A new host of the group comes to run this release.
async fn install(lab: &mut Lab, name: &str, release: &str) -> anyhow::Result<()> {
    // They stay on, all of them.
    let memory_mib = 512;
    lab.add_machine(HostPlan { memory_mib, ..HostPlan::new(name, MachineFirmware::Bios, DiskBus::Virtio) }).await?;
    let labels = [("role".to_owned(), GROUP.to_owned())].into();
    lab.apply_host(name, &DesiredHost { labels, in_group: true, ..DesiredHost::default() }).await?;
    check(name, &lab.wait_running(name, 1).await?)?;
    console(lab, name, &format!("firesteel: {name} runs image {release}"), 0).await?;
    print_status(&format!("{name}: runs release {release}"));
    Ok(())
}

async fn wait_current(lab: &Lab, release: &str) -> anyhow::Result<Value> {
    let what = format!("release {release} to be the group's");
    let is_so = |group: &Value| group["status"]["current"]["release"] == release;
    Ok(lab.wait_object("hostgroups", GROUP, &what, is_so).await?)
}

/// The entry by which the whole group came to the old release.
fn old_entry(group: &Value) -> anyhow::Result<u64> {
    let history = group["status"]["history"].as_array().into_iter().flatten();
    let found =
        history.into_iter().find(|entry| entry["release"] == OLD && entry["host"].as_str().unwrap_or("").is_empty());
    let found = found.context("the history has no entry of the group with the old release")?;
    for field in ["digest", "at", "by", "stream"] {
        ensure!(found[field].as_str().is_some_and(|text| !text.is_empty()), "the entry does not say {field}: {found}");
    }
    found["entry"].as_u64().context("the entry has no number")
}

/// It was written once, and nothing has happened to it since.
async fn untouched(lab: &Lab, name: &str) -> anyhow::Result<()> {
    let view = lab.view(name).await?;
    for event in ["write_start", "running"] {
        ensure!(view.count(event) == 1, "{name}: {event} happened {} times, not once", view.count(event));
    }
    ensure!(view.state() == "provisioned", "{name} is {}, not provisioned", view.state());
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn the_entry_to_restore_is_the_groups_own() {
        let entry = |number: u32, release: &str, host: Option<&str>| {
            let mut entry =
                json!({"entry": number, "release": release, "stream": "lab", "digest": "d", "at": "t", "by": "b"});
            if let Some(host) = host {
                entry["host"] = json!(host);
            }
            entry
        };
        let history = [entry(1, OLD, Some("web-1")), entry(2, OLD, None), entry(3, NEW, None)];
        assert_eq!(old_entry(&json!({"status": {"history": history}})).unwrap(), 2);
        assert!(old_entry(&json!({"status": {"history": [entry(1, OLD, Some("web-1"))]}})).is_err());
        assert!(old_entry(&json!({"status": {"history": [{"entry": 1, "release": OLD}]}})).is_err());
        assert_eq!(group(Some(2))["spec"]["restore"]["entry"], 2);
        assert!(group(None)["spec"]["restore"].is_null());
    }
}
