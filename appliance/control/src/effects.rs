//! Effects: what a step wants done. Each is idempotent, and may run again after a restart.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use firesteel_kube::{Part, Status};
use firesteel_plan::{
    DiskIdentity, Effect, HostMemory, Mark,
    host::{IssuedPlan, PlanKind, WritePlan},
};
use firesteel_resources::{
    BareMetalHost, HardwareData, bare_metal_host::FINALIZER, discovered_host::Uncleaned,
    host_journal::HostJournalStatus, ignition,
};
use firesteel_wire as wire;

use crate::{Control, HostKey, control::key_of, seen::sha256_hex};

/// Longest name that a UEFI boot entry gets; firmware menus cut longer ones.
const LABEL_CHARS_MAX: usize = 40;

impl Control {
    /// Carries one effect out, or starts it.
    pub(crate) async fn act(
        &self,
        host: &BareMetalHost,
        memory: &HostMemory,
        journal: &HostJournalStatus,
        effect: &Effect,
    ) -> Result<(), Status> {
        let key = key_of(host);
        match effect {
            Effect::AddFinalizer => {
                self.edit(&key, |host| {
                    if !host.metadata.finalizers.iter().any(|name| name == FINALIZER) {
                        host.metadata.finalizers.push(FINALIZER.to_owned());
                    }
                })
                .await?;
            }
            Effect::RemoveFinalizer => {
                self.edit(&key, |host| host.metadata.finalizers.retain(|name| name != FINALIZER)).await?;
            }
            Effect::RemoveAnnotation { key: name } => {
                self.edit(&key, |host| {
                    host.metadata.annotations.remove(name);
                })
                .await?;
            }
            Effect::Bmc(call) => self.call_bmc(host, call.clone()),
            Effect::FetchImage { image } => self.fetch_image(image),
            Effect::IssuePlan { attempt, .. } => {
                if let Some(view) = self.views().hosts.get(&key)
                    && view.agent.attempt == *attempt
                {
                    view.agent.changed.notify_waiters();
                }
            }
            Effect::AbortAgent { attempt, reason } => {
                if let Some(view) = self.views().hosts.get_mut(&key)
                    && view.agent.attempt == *attempt
                {
                    view.agent.set_abort(reason);
                }
            }
            Effect::RebootDiscoveryAgent { reason } => {
                let mut views = self.views();
                let macs = views.hosts.get(&key).map(|view| view.macs.clone()).unwrap_or_default();
                for mac in macs {
                    // One that was told already was told which host it became.
                    if let Some(machine) = views.discovered.get_mut(&mac).filter(|machine| machine.abort.is_none()) {
                        machine.set_abort(reason);
                    }
                }
            }
            Effect::SaveHardware { .. } => self.save_hardware(&key, journal).await?,
            Effect::Tombstone { disk, reason } => self.tombstone(&key, memory, disk.as_ref(), reason).await?,
        }
        Ok(())
    }

    async fn edit(&self, key: &HostKey, change: impl Fn(&mut BareMetalHost)) -> Result<(), Status> {
        self.inner.hosts.modify(&key.namespace, &key.name, Part::Main, change).await.map(|_| ())
    }

    async fn save_hardware(&self, key: &HostKey, journal: &HostJournalStatus) -> Result<(), Status> {
        let Some(record) = &journal.hardware else { return Ok(()) };
        let details = record.details();
        let changed = self
            .inner
            .hardware
            .modify(&key.namespace, &key.name, Part::Main, |data| data.spec.hardware = Some(details.clone()))
            .await?;
        if changed.is_none() {
            let mut data = HardwareData::default();
            data.metadata.namespace.clone_from(&key.namespace);
            data.metadata.name.clone_from(&key.name);
            data.spec.hardware = Some(details);
            match self.inner.hardware.create(&data).await {
                Err(status) if !status.is_already_exists() => return Err(status),
                Ok(_) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// A host that was let go uncleaned stays visible as a discovered machine that says so.
    async fn tombstone(
        &self,
        key: &HostKey,
        memory: &HostMemory,
        disk: Option<&DiskIdentity>,
        reason: &str,
    ) -> Result<(), Status> {
        let uncleaned = Uncleaned {
            host: key.to_string(),
            disk: disk.map(ToString::to_string).unwrap_or_default(),
            reason: reason.to_owned(),
            at: self.now(),
        };
        for mac in memory.macs.iter().filter_map(|mac| mac.parse().ok()) {
            self.change_discovered(mac, |machine| {
                if machine.uncleaned.as_ref().is_none_or(|old| old.host != uncleaned.host) {
                    machine.uncleaned = Some(uncleaned.clone());
                }
            })
            .await?;
        }
        tracing::warn!(host = %key, %reason, "released without cleaning");
        Ok(())
    }

    /// The agent's own words for a plan. Contents of Secrets are read here and kept nowhere.
    pub(crate) async fn wire_plan(
        &self,
        host: &BareMetalHost,
        attempt: u64,
        issued: &IssuedPlan,
    ) -> Result<wire::Plan, String> {
        let steps = match &issued.plan {
            PlanKind::Inspect => vec![wire::Step::Inspect],
            PlanKind::Clean { disk } => vec![wire::Step::ClearMetadata { disk: identity(disk) }],
            PlanKind::Reboot => vec![wire::Step::Reboot],
            PlanKind::PowerOff => vec![wire::Step::PowerOff],
            PlanKind::Write(write) => self.write_steps(host, attempt, write).await?,
        };
        Ok(wire::Plan { number: issued.number, attempt, steps })
    }

    async fn write_steps(
        &self,
        host: &BareMetalHost,
        attempt: u64,
        write: &WritePlan,
    ) -> Result<Vec<wire::Step>, String> {
        let disk = identity(&write.disk);
        let endpoints = &self.config().endpoints;
        let image = wire::ImageSource {
            url: format!("{}/images/{}.raw.zst", endpoints.http_base(), write.image.stream_sha256),
            stream_bytes: write.image.stream_bytes,
            stream_sha256: write.image.stream_sha256.clone(),
            raw_bytes: write.image.raw_bytes,
            raw_sha256: write.image.raw_sha256.clone(),
        };
        let mut steps = vec![
            wire::Step::ClearMetadata { disk: disk.clone() },
            wire::Step::WriteImage { disk: disk.clone(), image, disk_guid: write.disk_guid.clone() },
        ];
        if let Some(sha256) = &write.user_data_sha256 {
            let files = self.hand_off(host, attempt, write, sha256).await?;
            steps.push(wire::Step::HandOff { disk: disk.clone(), files });
        }
        let label: String = format!("Firesteel {}", host.metadata.name).chars().take(LABEL_CHARS_MAX).collect();
        steps.push(wire::Step::SetBootEntry { disk, label });
        steps.push(wire::Step::Reboot);
        Ok(steps)
    }

    /// The files for the boot partition.
    async fn hand_off(
        &self,
        host: &BareMetalHost,
        attempt: u64,
        write: &WritePlan,
        sha256: &str,
    ) -> Result<Vec<wire::HandOffFile>, String> {
        let name = host.spec.user_data.as_ref().map(|reference| reference.name.as_str()).unwrap_or_default();
        let secret = self.inner.secrets.get(&host.metadata.namespace, name).await.map_err(|status| status.message)?;
        let secret = secret.ok_or_else(|| format!("the user-data Secret {name} is gone"))?;
        let config = secret.user_data().ok_or_else(|| format!("the Secret {name} has no user data"))?;
        if sha256_hex(config) != sha256 {
            return Err(format!("the Secret {name} changed after the plan was made: retry the host"));
        }
        let token = self.instance_token(&host.metadata.uid, attempt).map_err(|error| error.to_string())?;
        let stub = ignition::with_config_token(config, &self.config_origin(), &token)
            .map_err(|error| format!("adding the host's token to the user data: {error}"))?;
        // For people and other tools; the appliance itself goes by the disk's GUID, which says the same.
        let mark = Mark::parse(&write.disk_guid);
        let marker = serde_json::json!({
            "store": mark.map(|mark| format!("{:06x}", mark.store)),
            "timeline": mark.map(|mark| format!("{:08x}", mark.timeline)),
            "revision": mark.map(|mark| mark.revision),
            "hostUid": host.metadata.uid,
            "host": host.metadata.name,
            "attempt": attempt,
            "imageSha256": write.image.raw_sha256,
            "diskGuid": write.disk_guid,
            "writtenAt": self.now().to_string(),
        });
        let guid = &write.disk_guid;
        Ok(vec![
            file("ignition/config.ign", 0o600, &stub),
            file("firesteel/marker.json", 0o644, marker.to_string().as_bytes()),
            file("firesteel/disk.cfg", 0o644, format!("set firesteel_disk={guid}\n").as_bytes()),
            // Last: without it the OS would not look for a config at all.
            file("ignition.firstboot", 0o644, b""),
        ])
    }
}

fn file(path: &str, mode: u32, content: &[u8]) -> wire::HandOffFile {
    wire::HandOffFile { path: path.to_owned(), mode, content_base64: STANDARD.encode(content) }
}

fn identity(disk: &DiskIdentity) -> wire::DiskIdentity {
    wire::DiskIdentity {
        wwn: disk.wwn.clone(),
        serial: disk.serial.clone(),
        model: disk.model.clone(),
        size_bytes: disk.size_bytes,
        by_path: disk.by_path.clone(),
    }
}
