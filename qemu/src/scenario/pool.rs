//! Hosts of a pool: a managed stub leads real Ignition to `/config/<pool>` with the host's token. Also where the first
//! answer was lost, and across a rotation of the CA; and no host gets a config before its turn.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use firesteel_lab_image::PackedFormat;
use serde_json::{Value, json};

use super::{console, stream};
use crate::demo::check;
use crate::lab::{DesiredHost, HostPlan, Lab, LabConfig, PATIENCE};
use crate::link::{LinkFaults, LostAnswers};
use crate::machine::{DiskBus, MachineFirmware};
use crate::manifests::{self, ManifestImage, UserData};
use crate::net::APPLIANCE_ADDRESS;
use crate::progress::print_status;

const POOL: &str = "worker";
/// Where managed stubs lead.
const CONFIG_PORT: u16 = 22_623;
/// What the pool's config makes a host say on its console.
const PROOF: &str = "firesteel: configured by the pool worker";
/// Has the appliance make another CA, and honour the old one for a while.
const ROTATE: [&str; 2] = ["rotate-ca", "--yes"];

/// A MachineConfig of a pool.
pub(super) fn machine_config(name: &str, pool: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": {"name": name, "labels": {"machineconfiguration.openshift.io/role": pool}}, "spec": spec,
    })
}

/// A pool with all MachineConfigs of its name.
pub(super) fn machine_config_pool(name: &str) -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
        "metadata": {"name": name},
        "spec": {"machineConfigSelector": {"matchLabels": {"machineconfiguration.openshift.io/role": name}}},
    })
}

pub(super) async fn pool(lab: &mut Lab, config: &LabConfig) -> anyhow::Result<()> {
    let image = lab.publish(config.artefacts.image(PackedFormat::Zst)?)?;
    let proof = format!(
        "[Unit]\nAfter=multi-user.target\nDefaultDependencies=no\n[Service]\nType=oneshot\n\
                         ExecStart=/bin/sh -c 'echo \"{PROOF}\" >/dev/console'\n[Install]\nWantedBy=multi-user.target\n"
    );
    let unit = json!({"name": "lab-proof.service", "enabled": true, "contents": proof});
    lab.apply(&manifests::yaml(&[
        machine_config(
            "50-worker",
            POOL,
            json!({"config": {"ignition": {"version": "3.2.0"}, "systemd": {"units": [unit]}}}),
        ),
        machine_config_pool(POOL),
        group(&image),
    ]))
    .await?;

    let first = install_after_lost_answer(lab).await?;
    refused_after_running(lab, &first).await?;
    refused_to_another(lab, &image, &first).await?;
    across_rotation(lab, &first).await
}

fn group(image: &ManifestImage) -> Value {
    stream::group("workers", POOL, json!({"image": {"url": image.url, "checksum": image.sha256}, "pool": POOL}))
}

fn desired_host() -> DesiredHost {
    let labels = [("role".to_owned(), POOL.to_owned())].into();
    DesiredHost { labels, in_group: true, user_data: UserData::OfGroup, ..DesiredHost::default() }
}

/// Waits until the host runs, configured by the pool.
async fn configured(lab: &Lab, name: &str) -> anyhow::Result<()> {
    let view = lab.wait_running(name, 1).await?;
    check(name, &view)?;
    let fetched = view.timeline().into_iter().find(|event| event.key() == "config_fetched");
    let detail = fetched.context("the timeline has no config_fetched")?.detail;
    ensure!(detail.starts_with(POOL), "the config that was fetched is another one: {detail}");
    console(lab, name, PROOF, 0).await
}

async fn install_after_lost_answer(lab: &mut Lab) -> anyhow::Result<WrittenStub> {
    let name = "worker-1";
    let lost = LinkFaults { lost_answers: Some(LostAnswers { port: CONFIG_PORT, count: 1 }), ..LinkFaults::default() };
    lab.add_machine(HostPlan { link: Some(lost), ..HostPlan::new(name, MachineFirmware::Bios, DiskBus::Virtio) })
        .await?;
    lab.apply_host(name, &desired_host()).await?;
    configured(lab, name).await?;
    ensure!(lab.lost_answers(name)? == 1, "no answer of the config server was lost on the wire");
    print_status(&format!("{name}: runs, though the first answer of the config server was lost"));
    WrittenStub::of(lab, name)
}

async fn refused_after_running(lab: &Lab, stub: &WrittenStub) -> anyhow::Result<()> {
    let status = stub.fetch(&stub.url).await?;
    ensure!(status == 403, "after running, the host's token was answered with {status}, not 403");
    wait_for_warning(lab, &stub.host).await?;
    print_status(&format!("{}: its token is refused once its OS runs, and an event says so", stub.host));
    Ok(())
}

/// A host that has its own stub asks for the pool's config, with its own good token.
async fn refused_to_another(lab: &mut Lab, image: &ManifestImage, first: &WrittenStub) -> anyhow::Result<()> {
    let name = "other-1";
    lab.add_machine(HostPlan::new(name, MachineFirmware::Bios, DiskBus::Virtio)).await?;
    // It never comes to run, so its token is not ended: its config is not there.
    let wish = DesiredHost { image: Some(image.clone()), user_data: UserData::Unserved, ..DesiredHost::default() };
    lab.apply_host(name, &wish).await?;
    lab.wait_for(name, "its hand-off", |view| view.state() == "provisioned").await?;
    let other = WrittenStub::of(lab, name)?;
    let status = other.fetch(&first.url).await?;
    ensure!(status == 403, "another host's token was answered with {status}, not 403");
    wait_for_warning(lab, name).await?;
    let status = WrittenStub { token: "bm90LWEtdG9rZW4".to_owned(), ..first.clone() }.fetch(&first.url).await?;
    ensure!(status == 401, "a token of no host was answered with {status}, not 401");
    print_status(&format!("{name}: its token does not open the pool's config, and an event says so"));
    // It would ask for its config without end.
    lab.apply_host(name, &DesiredHost { offline: true, ..wish }).await?;
    Ok(())
}

/// One host is installed before the rotation and boots after it, another is installed after it.
async fn across_rotation(lab: &mut Lab, first: &WrittenStub) -> anyhow::Result<()> {
    let (before, after) = ("worker-2", "worker-3");
    lab.add_machine(HostPlan::new(before, MachineFirmware::Bios, DiskBus::Virtio)).await?;
    lab.apply_host(before, &desired_host()).await?;
    lab.wait_for(before, "its hand-off", |view| view.state() == "provisioned").await?;
    // Off before its OS has come to its first boot: the firmware alone takes longer than this.
    lab.apply_host(before, &DesiredHost { offline: true, ..desired_host() }).await?;
    lab.power_off(before).await?;
    let view = lab.view(before).await?;
    ensure!(view.count("config_fetched") == 0, "{before} has fetched its config before the rotation");
    let old = WrittenStub::of(lab, before)?;
    ensure!(old.ca == first.ca, "two stubs of one pool trust different CAs, with no rotation between them");

    lab.appliance.cli(&ROTATE).await?;
    lab.apply_host(before, &desired_host()).await?;
    configured(lab, before).await?;
    print_status(&format!("{before}: its stub is older than the rotation, and Ignition fetched by it in the overlap"));

    lab.add_machine(HostPlan::new(after, MachineFirmware::Bios, DiskBus::Virtio)).await?;
    lab.apply_host(after, &desired_host()).await?;
    configured(lab, after).await?;
    let new = WrittenStub::of(lab, after)?;
    ensure!(new.ca != old.ca, "the stub is as it was before the rotation");
    print_status(&format!("{after}: Ignition fetched by the stub that the rotation changed"));
    Ok(())
}

/// Waits for a warning about this host that speaks of a token or a config.
async fn wait_for_warning(lab: &Lab, host: &str) -> anyhow::Result<()> {
    let seen = async {
        loop {
            let events = lab.appliance.json(&["get", "events"]).await?;
            let all = events["items"].as_array().into_iter().flatten();
            if all.into_iter().any(|event| is_refusal(event, host)) {
                return anyhow::Ok(());
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, seen).await.with_context(|| format!("no event tells of the refusal to {host}"))?
}

fn is_refusal(event: &Value, host: &str) -> bool {
    let regarding = if event["regarding"].is_object() { &event["regarding"] } else { &event["involvedObject"] };
    let text = event["note"].as_str().or(event["message"].as_str()).unwrap_or_default();
    regarding["name"] == host && event["type"] == "Warning" && (text.contains("token") || text.contains("config"))
}

/// What was written to a host's disk.
#[derive(Clone, Debug, PartialEq, Eq)]
struct WrittenStub {
    host: String,
    url: String,
    token: String,
    /// One CA or several, as PEM.
    ca: String,
}

impl WrittenStub {
    /// Reads it from the machine's disk, as any holder of the disk can.
    fn of(lab: &Lab, name: &str) -> anyhow::Result<Self> {
        let machine = lab.machine(name)?.config();
        let disk = machine.disks.first().context("the machine has no disk")?;
        let copy = machine.folder.join("config.ign");
        firesteel_lab_image::read_boot_file(&disk.path, "/ignition/config.ign", &copy)?;
        let text = std::fs::read(&copy).context("reading the stub")?;
        Self::read(name, &serde_json::from_slice(&text).context("the stub is no JSON")?)
    }

    fn read(host: &str, config: &Value) -> anyhow::Result<Self> {
        let ignition = &config["ignition"];
        let source = &ignition["config"]["merge"][0];
        let headers = source["httpHeaders"].as_array().into_iter().flatten();
        let bearer = |header: &Value| header["value"].as_str()?.strip_prefix("Bearer ").map(str::to_owned);
        let token = headers.filter(|header| header["name"] == "Authorization").find_map(bearer);
        let authorities = ignition["security"]["tls"]["certificateAuthorities"].as_array().into_iter().flatten();
        let mut ca = String::new();
        for authority in authorities {
            let data = authority["source"].as_str().and_then(|source| source.split_once("base64,"));
            let (_, data) = data.context("a CA of the stub is no data URL")?;
            ca.push_str(&String::from_utf8(BASE64_STANDARD.decode(data)?).context("a CA of the stub is no PEM")?);
        }
        Ok(Self {
            host: host.to_owned(),
            url: source["source"].as_str().context("the stub leads nowhere")?.to_owned(),
            token: token.context("the stub has no token")?,
            ca,
        })
    }

    /// The status with which a URL answers this token.
    async fn fetch(&self, url: &str) -> anyhow::Result<u16> {
        // Another scenario of this process may have said so before.
        drop(rustls::crypto::ring::default_provider().install_default());
        let authorities = reqwest::Certificate::from_pem_bundle(self.ca.as_bytes()).context("reading the stub's CA")?;
        let client = reqwest::Client::builder().tls_certs_only(authorities).build().context("making a client")?;
        let request = client.get(url).bearer_auth(&self.token);
        let accept = "application/vnd.coreos.ignition+json;version=3.3.0";
        let answer = request.header("Accept", accept).send().await;
        Ok(answer.with_context(|| format!("asking {APPLIANCE_ADDRESS} for a config"))?.status().as_u16())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_stub_is_read_as_ignition_reads_it() {
        let ca = |text: &str| json!({"source": format!("data:text/plain;base64,{}", BASE64_STANDARD.encode(text))});
        let stub = json!({"ignition": {
            "version": "3.2.0",
            "config": {"merge": [{
                "source": "https://10.77.0.1:22623/config/worker",
                "httpHeaders": [{"name": "X", "value": "Bearer no"}, {"name": "Authorization", "value": "Bearer t0"}],
            }]},
            "security": {"tls": {"certificateAuthorities": [ca("A\n"), ca("B\n")]}},
        }});
        let read = WrittenStub::read("h", &stub).unwrap();
        assert_eq!((read.token.as_str(), read.ca.as_str()), ("t0", "A\nB\n"));
        assert!(read.url.ends_with(":22623/config/worker"));
        assert!(WrittenStub::read("h", &json!({"ignition": {"config": {"merge": [{"source": "x"}]}}})).is_err());
    }

    #[test]
    fn an_event_is_one_of_the_host_and_a_warning() {
        let event =
            |name: &str, kind: &str, note: &str| json!({"regarding": {"name": name}, "type": kind, "note": note});
        assert!(is_refusal(&event("a", "Warning", "the token was ended"), "a"));
        assert!(is_refusal(&json!({"involvedObject": {"name": "a"}, "type": "Warning", "message": "config"}), "a"));
        assert!(!is_refusal(&event("b", "Warning", "the token was ended"), "a"));
        assert!(!is_refusal(&event("a", "Normal", "the token was ended"), "a"));
        assert!(!is_refusal(&event("a", "Warning", "its BMC is gone"), "a"));
    }
}
