//! Effects: what a step wants done. Each is idempotent, and may run again after a restart.

use std::borrow::Cow;

use firesteel_boot::TokenSealError;
use firesteel_handoff::{AttemptFiles, HandOffReading, OsUserData, compose, file};
use firesteel_ignition::{self as ignition, stub::authority};
use firesteel_kube::{ObjectPart, Status};
use firesteel_plan::host::{self, ErasePlan, IssuedPlan, PlanKind, WritePlan};
use firesteel_plan::{DiskIdentity, HostEffect, HostMemory, InstallationMark, disk::CleaningMethod};
use firesteel_resources::BareMetalHost;
use firesteel_resources::bare_metal_host::FINALIZER;
use firesteel_resources::discovered_host::TombstoneStatus;
use firesteel_resources::host_journal::HostJournalStatus;
use firesteel_runtime::{ConfigsNotReady, HostKey, key_of};
use firesteel_wire as wire;

use crate::{reconciler::HostReconciler, views::AgentView};

/// Where a new OS says that its first boot failed.
pub const FIRST_BOOT_FAILED_PATH: &str = "/first-boot-failed";
/// Longest name that a UEFI boot entry gets; firmware menus cut longer ones.
const LABEL_CHARS_MAX: usize = 40;

/// Why a plan cannot be put into the agent's words. The texts stand in the host's timeline.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlanError {
    #[error("{}", .0.message)]
    Store(Status),
    #[error(transparent)]
    Configs(#[from] ConfigsNotReady),
    #[error("a Secret of what the OS is handed changed after the plan was made: retry the host")]
    SecretChanged,
    #[error(transparent)]
    Token(#[from] TokenSealError),
    #[error("adding the host's token to the user data: {0}")]
    TokenNotAdded(String),
    #[error("this host has no journal yet")]
    NoJournal,
}

impl From<Status> for PlanError {
    fn from(status: Status) -> Self {
        Self::Store(status)
    }
}

impl HostReconciler {
    /// Carries one effect out, or starts it.
    pub(crate) async fn act(
        &self,
        host: &BareMetalHost,
        memory: &HostMemory,
        journal: &HostJournalStatus,
        effect: &HostEffect,
    ) -> Result<(), Status> {
        let key = key_of(host);
        match effect {
            HostEffect::AddFinalizer => {
                let add = |host: &mut BareMetalHost| {
                    if !host.metadata.finalizers.iter().any(|name| name == FINALIZER) {
                        host.metadata.finalizers.push(FINALIZER.to_owned());
                    }
                };
                self.edit(&key, add).await?;
            }
            HostEffect::RemoveFinalizer => {
                self.edit(&key, |host| host.metadata.finalizers.retain(|name| name != FINALIZER)).await?;
            }
            HostEffect::RemoveAnnotation { key: name, value } => {
                let remove = |host: &mut BareMetalHost| {
                    // Another value that came since is another request.
                    if host.metadata.annotations.get(name) == Some(value) {
                        host.metadata.annotations.remove(name);
                    }
                };
                self.edit(&key, remove).await?;
            }
            HostEffect::Bmc(call) => self.bmc.call_bmc(host, call.clone()),
            HostEffect::FetchImage { image } => self.images.fetch_image(host, image),
            HostEffect::IssuePlan { attempt, .. } => {
                self.with_agent(&key, *attempt, |agent| agent.changed.notify_waiters());
            }
            HostEffect::AbortAgent { attempt, reason } => {
                self.with_agent(&key, *attempt, |agent| agent.set_abort(reason));
            }
            HostEffect::RebootDiscoveryAgent { reason } => self.reboot_discovery_agents(&key, reason),
            HostEffect::GradeReceipts(verdict) => {
                self.receipts.grade_receipts(&key, &host.metadata.uid, journal, verdict).await?;
            }
            HostEffect::SupplyHardware { details } => self.hardware.supply_hardware(&key, details).await?,
            HostEffect::SaveBmcHardware => self.hardware.save_bmc_hardware(&key, journal).await?,
            HostEffect::SaveHardware { .. } => self.hardware.save_hardware(&key, journal).await?,
            HostEffect::ForgetTombstone => self.unowned.forget_tombstone(memory).await?,
            HostEffect::Tombstone { disk, of_tenant, reason } => {
                let left = TombstoneStatus {
                    host: key.to_string(),
                    disk: disk.as_ref().map(ToString::to_string).unwrap_or_default(),
                    of_tenant: *of_tenant,
                    reason: reason.clone(),
                    at: self.shared.now(),
                };
                self.unowned.tombstone(memory, &left).await?;
            }
        }
        Ok(())
    }

    /// Does something to the agent of a host, if it is the one of this attempt.
    pub(crate) fn with_agent(&self, key: &HostKey, attempt: u64, change: impl FnOnce(&mut AgentView)) {
        let mut views = self.shared.views();
        if let Some(view) = views.hosts.get_mut(key).filter(|view| view.agent.attempt == attempt) {
            change(&mut view.agent);
        }
    }

    fn reboot_discovery_agents(&self, key: &HostKey, reason: &str) {
        let mut views = self.shared.views();
        let macs = views.hosts.get(key).map(|view| view.macs.clone()).unwrap_or_default();
        for mac in macs {
            // An agent with a reason already was adopted, and the reason names its host.
            if let Some(machine) = views.discovered.get_mut(&mac).filter(|machine| machine.abort.is_none()) {
                machine.set_abort(reason);
            }
        }
    }

    async fn edit(&self, key: &HostKey, change: impl Fn(&mut BareMetalHost)) -> Result<(), Status> {
        self.hosts.modify(&key.namespace, &key.name, ObjectPart::Main, change).await.map(|_| ())
    }

    /// The agent's own words for a plan. Contents of Secrets are read here and kept nowhere.
    pub(crate) async fn wire_plan(
        &self,
        host: &BareMetalHost,
        memory: &HostMemory,
        issued: &IssuedPlan,
    ) -> Result<wire::AgentPlan, PlanError> {
        let attempt = memory.attempt;
        let steps = match &issued.plan {
            PlanKind::Inspect => vec![wire::PlanStep::Inspect],
            PlanKind::Clean { disk } => vec![clear_step(memory, disk, false)],
            PlanKind::Erase(erase) => erase.disks.iter().map(|disk| erase_step(memory, erase, disk)).collect(),
            PlanKind::Reboot => vec![wire::PlanStep::Reboot],
            PlanKind::PowerOff => vec![wire::PlanStep::PowerOff],
            PlanKind::Write(write) => self.write_steps(host, memory, write).await?,
        };
        let mut plan = wire::AgentPlan { number: issued.number, attempt, steps };
        name_own(&mut plan, &host::own_names(host, memory));
        Ok(plan)
    }

    async fn write_steps(
        &self,
        host: &BareMetalHost,
        memory: &HostMemory,
        write: &WritePlan,
    ) -> Result<Vec<wire::PlanStep>, PlanError> {
        let disk = identity(&write.disk);
        let endpoints = self.host_network.now().endpoints;
        let image = wire::ImageStream {
            url: format!("{}/images/{}.raw.zst", endpoints.http_base(), write.image.stream_sha256),
            stream_bytes: write.image.stream_bytes,
            stream_sha256: write.image.stream_sha256.clone(),
            raw_bytes: write.image.raw_bytes,
            raw_sha256: write.image.raw_sha256.clone(),
        };
        let mut steps = vec![clear_step(memory, &write.disk, write.override_guards), write_step(memory, write, image)];
        if let Some(sha256) = &write.user_data_sha256 {
            let forms = self.hand_off(host, memory.attempt, write, sha256).await?;
            steps.push(wire::PlanStep::HandOff { disk: disk.clone(), files: Vec::new(), forms: Some(Box::new(forms)) });
        }
        let label: String = format!("Firesteel {}", host.metadata.name).chars().take(LABEL_CHARS_MAX).collect();
        steps.push(wire::PlanStep::SetBootEntry { disk, label });
        steps.push(wire::PlanStep::Reboot);
        Ok(steps)
    }

    /// What the OS is handed, in every form that its image may want.
    async fn hand_off(
        &self,
        host: &BareMetalHost,
        attempt: u64,
        write: &WritePlan,
        sha256: &str,
    ) -> Result<wire::hand_off::Forms, PlanError> {
        // Before what they say is read: what was not rendered then would be missing.
        self.reader.served.check(&key_of(host), &write.configs).await?;
        let given = match self.reader.hand_off_inputs(host).await? {
            HandOffReading::Ready(given) if given.sha256 == sha256 => given,
            HandOffReading::Nothing
            | HandOffReading::Missing
            | HandOffReading::Invalid(_)
            | HandOffReading::Ready(_) => {
                return Err(PlanError::SecretChanged);
            }
        };
        let mut marks = vec![
            file("firesteel/marker.json", 0o644, self.marker(host, attempt, write).as_bytes()),
            file("firesteel/disk.cfg", 0o644, format!("set firesteel_disk={}\n", write.disk_guid).as_bytes()),
        ];
        let (stub, token) = match &given.user {
            OsUserData::None | OsUserData::CloudInit(_) => (None, String::new()),
            OsUserData::Ignition(config) => {
                let token = self.instances.instance_token(&host.metadata.uid, attempt)?;
                let config = self.with_present_ca(config);
                let stub = ignition::with_config_token(&config, &self.reader.origins.now().urls, &token)
                    .map_err(|error| PlanError::TokenNotAdded(error.to_string()))?;
                marks.extend(self.report_files(&token));
                (Some(stub), token)
            }
        };
        // The first digits of a random number that is the installation's own.
        let digits = write.disk_guid.get(..8).unwrap_or_default();
        let volume_id = u32::from_str_radix(digits, 16).unwrap_or_default();
        Ok(compose(host, &given, &AttemptFiles { stub, token, marks, volume_id }))
    }

    /// Returns user data as its Secret will be once its CA is rotated. That comes a moment after the CA, and never to a
    /// Secret that is immutable; the host's copy stays as it is written, and would trust only CAs that are gone.
    fn with_present_ca<'a>(&self, config: &'a [u8]) -> Cow<'a, [u8]> {
        // The status of the pools shows a CA that cannot stand in a stub.
        let (Ok(text), Ok(authority)) = (std::str::from_utf8(config), self.shared.trust.authority()) else {
            return Cow::Borrowed(config);
        };
        let (rotated, _) = authority::rotate(text, &self.reader.origins.now().endpoints, &authority);
        rotated.map_or(Cow::Borrowed(config), |text| Cow::Owned(text.into_bytes()))
    }

    /// Says where a unit in the initramfs reports a first boot that failed, in lines that a shell reads as well.
    fn report_files(&self, token: &str) -> [wire::HandOffFile; 2] {
        let report = format!(
            "FIRESTEEL_REPORT_URL={}{FIRST_BOOT_FAILED_PATH}\nFIRESTEEL_REPORT_TOKEN={token}\n",
            self.host_network.now().endpoints.agent_base()
        );
        [
            file("firesteel/report.conf", 0o600, report.as_bytes()),
            file("firesteel/ca.crt", 0o644, self.shared.trust.pem().as_bytes()),
        ]
    }

    /// Marks the installation for people and other tools; the appliance itself goes by the disk's GUID, which says the
    /// same.
    fn marker(&self, host: &BareMetalHost, attempt: u64, write: &WritePlan) -> String {
        let mark = InstallationMark::parse(&write.disk_guid);
        let marker = serde_json::json!({
            "store": mark.map(|mark| format!("{:06x}", mark.store)),
            "timeline": mark.map(|mark| format!("{:08x}", mark.timeline)),
            "revision": mark.map(|mark| mark.revision),
            "hostUid": host.metadata.uid,
            "host": host.metadata.name,
            "attempt": attempt,
            "imageSha256": write.image.raw_sha256,
            "diskGuid": write.disk_guid,
            "writtenAt": self.shared.now().to_string(),
        });
        marker.to_string()
    }
}

/// Tells each step that destroys which volumes are the host's own.
fn name_own(plan: &mut wire::AgentPlan, names: &[String]) {
    for step in &mut plan.steps {
        if let wire::PlanStep::ClearMetadata { own_names, .. }
        | wire::PlanStep::EraseDisk { own_names, .. }
        | wire::PlanStep::WriteImage { own_names, .. } = step
        {
            own_names.extend(names.iter().filter(|name| !own_names.contains(name)).cloned().collect::<Vec<_>>());
        }
    }
}

/// The metadata of one disk.
fn clear_step(memory: &HostMemory, disk: &DiskIdentity, override_guards: bool) -> wire::PlanStep {
    let (was_vacant, is_named) = (host::was_vacant(memory, disk), host::is_named(memory, disk));
    wire::PlanStep::ClearMetadata { disk: identity(disk), own_names: Vec::new(), override_guards, was_vacant, is_named }
}

fn write_step(memory: &HostMemory, write: &WritePlan, image: wire::ImageStream) -> wire::PlanStep {
    wire::PlanStep::WriteImage {
        disk: identity(&write.disk),
        image,
        disk_guid: write.disk_guid.clone(),
        own_names: Vec::new(),
        override_guards: write.override_guards,
        was_vacant: host::was_vacant(memory, &write.disk),
        is_named: host::is_named(memory, &write.disk),
    }
}

/// One disk of a plan to erase some.
fn erase_step(memory: &HostMemory, erase: &ErasePlan, disk: &DiskIdentity) -> wire::PlanStep {
    wire::PlanStep::EraseDisk {
        disk: identity(disk),
        policy: match erase.method {
            CleaningMethod::Metadata => wire::erasure::ErasurePolicy::Metadata,
            CleaningMethod::Quick => wire::erasure::ErasurePolicy::Quick,
            CleaningMethod::Full => wire::erasure::ErasurePolicy::Full,
        },
        own_names: erase.own_names.clone(),
        override_guards: erase.overridden.contains(disk),
        was_vacant: host::was_vacant(memory, disk),
        is_named: erase.named.contains(disk) || host::is_named(memory, disk),
    }
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

#[cfg(test)]
mod tests {
    use firesteel_plan::{disk::NextOwner, host::ReadyImage};

    use super::*;

    /// Whether the disk was vacant, its guards are overridden, and the hints name it; nothing of a step that destroys
    /// nothing.
    fn says(step: &wire::PlanStep) -> Option<(bool, bool, bool)> {
        match step {
            wire::PlanStep::ClearMetadata { was_vacant, override_guards, is_named, .. }
            | wire::PlanStep::EraseDisk { was_vacant, override_guards, is_named, .. }
            | wire::PlanStep::WriteImage { was_vacant, override_guards, is_named, .. } => {
                Some((*was_vacant, *override_guards, *is_named))
            }
            wire::PlanStep::Inspect
            | wire::PlanStep::HandOff { .. }
            | wire::PlanStep::SetBootEntry { .. }
            | wire::PlanStep::Reboot
            | wire::PlanStep::PowerOff => None,
        }
    }

    #[test]
    fn each_step_that_destroys_says_what_the_journal_knows_of_its_own_disk() {
        let disk =
            |serial: &str| DiskIdentity { serial: serial.into(), size_bytes: 1 << 30, ..DiskIdentity::default() };
        let (vacant, other) = (disk("VACANT"), disk("OTHER"));
        let memory = HostMemory { vacant_disks: vec![vacant.clone()], ..HostMemory::default() };
        let write = |disk: &DiskIdentity, override_guards| WritePlan {
            disk: disk.clone(),
            disk_guid: "guid".into(),
            image: ReadyImage::default(),
            user_data_sha256: None,
            configs: Vec::new(),
            override_guards,
        };
        let erase = ErasePlan {
            method: CleaningMethod::Full,
            disks: vec![vacant.clone(), other.clone()],
            next: NextOwner::Another,
            own_names: Vec::new(),
            overridden: vec![other.clone()],
            named: vec![vacant.clone()],
        };
        let image = || wire::ImageStream {
            url: String::new(),
            stream_bytes: 0,
            stream_sha256: String::new(),
            raw_bytes: 0,
            raw_sha256: String::new(),
        };
        for (step, expected) in [
            (clear_step(&memory, &vacant, false), (true, false, false)),
            (clear_step(&memory, &other, true), (false, true, false)),
            (erase_step(&memory, &erase, &vacant), (true, false, true)),
            (erase_step(&memory, &erase, &other), (false, true, false)),
            (write_step(&memory, &write(&vacant, false), image()), (true, false, false)),
            (write_step(&memory, &write(&other, true), image()), (false, true, false)),
        ] {
            assert_eq!(says(&step), Some(expected), "{step:?}");
        }
    }
}
