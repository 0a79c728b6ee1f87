//! Effects: what a step wants done. Each is idempotent, and may run again after a restart.

use std::borrow::Cow;

use firesteel_boot::SealError;
use firesteel_handoff::{Extras, Reading, User, compose, file};
use firesteel_ignition::{self as ignition, stub::authority};
use firesteel_kube::{Part, Status};
use firesteel_plan::{
    DiskIdentity, Effect, HostMemory, Mark,
    disk::Method,
    host::{self, ErasePlan, IssuedPlan, PlanKind, WritePlan},
};
use firesteel_resources::{
    BareMetalHost, HardwareData, HardwareDetails,
    bare_metal_host::FINALIZER,
    discovered_host::{Uncleaned, object_name},
    hardware::HardwareRecord,
    hardware_data,
    host_journal::HostJournalStatus,
};
use firesteel_runtime::{ConfigsNotReady, HostKey, key_of};
use firesteel_wire as wire;

use crate::Control;

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
    Token(#[from] SealError),
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
            Effect::FetchImage { image } => self.fetch_image(host, image),
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
            Effect::GradeReceipts(verdict) => self.grade_receipts(&key, &host.metadata.uid, journal, verdict).await?,
            Effect::SupplyHardware { details } => self.supply_hardware(&key, details).await?,
            Effect::SaveHardware { .. } => self.save_hardware(&key, journal).await?,
            Effect::ForgetTombstone => self.forget_tombstone(memory).await?,
            Effect::Tombstone { disk, of_tenant, reason } => {
                let left = Uncleaned {
                    host: key.to_string(),
                    disk: disk.as_ref().map(ToString::to_string).unwrap_or_default(),
                    of_tenant: *of_tenant,
                    reason: reason.clone(),
                    at: self.now(),
                };
                self.tombstone(memory, &left).await?;
            }
        }
        Ok(())
    }

    async fn edit(&self, key: &HostKey, change: impl Fn(&mut BareMetalHost)) -> Result<(), Status> {
        self.inner.hosts.modify(&key.namespace, &key.name, Part::Main, change).await.map(|_| ())
    }

    /// What an owner says yields to what is stored already (upstream).
    async fn supply_hardware(&self, key: &HostKey, details: &HardwareDetails) -> Result<(), Status> {
        let stored = self.inner.hardware.get(&key.namespace, &key.name).await?;
        if stored.is_some_and(|stored| stored.spec.hardware.is_some()) {
            return Ok(());
        }
        self.store_hardware(key, details, &[]).await
    }

    async fn save_hardware(&self, key: &HostKey, journal: &HostJournalStatus) -> Result<(), Status> {
        let Some(record) = &journal.hardware else { return Ok(()) };
        let mut notes = vec![(hardware_data::INSPECTION, mark_of(record))];
        notes.extend(record.shown_contents().map(|contents| (hardware_data::DISK_CONTENTS, contents)));
        self.store_hardware(key, &record.details(), &notes).await
    }

    /// Whether the host's `HardwareData` is of the newest inspection. It says so by itself: what is stored may be
    /// less than what was found.
    pub(crate) async fn shows_hardware(&self, key: &HostKey, journal: &HostJournalStatus) -> Result<bool, Status> {
        let Some(record) = &journal.hardware else { return Ok(false) };
        let shown = self.inner.hardware.get(&key.namespace, &key.name).await?;
        let mark = shown.as_ref().and_then(|shown| shown.metadata.annotation(hardware_data::INSPECTION));
        Ok(mark == Some(mark_of(record).as_str()))
    }

    /// Puts what switches said into the `HardwareData` that shows the rest of the record already. One of
    /// another inspection, or of the owner, stays as it is.
    pub(crate) async fn show_neighbours(&self, key: &HostKey, journal: &HostJournalStatus) -> Result<(), Status> {
        let Some(record) = &journal.hardware else { return Ok(()) };
        let details = record.details();
        let shows_rest =
            |shown: &HardwareDetails| *shown != details && shown.without_neighbours() == details.without_neighbours();
        let shown = self.inner.hardware.get(&key.namespace, &key.name).await?.and_then(|data| data.spec.hardware);
        if !shown.is_some_and(|shown| shows_rest(&shown)) {
            return Ok(());
        }
        let change = |data: &mut HardwareData| {
            if data.spec.hardware.as_ref().is_some_and(shows_rest) {
                data.spec.hardware = Some(details.clone());
            }
        };
        self.inner.hardware.modify(&key.namespace, &key.name, Part::Main, change).await.map(|_| ())
    }

    /// `notes`: what the inspection that found it says beside upstream's fields; a description by the owner has none.
    async fn store_hardware(
        &self,
        key: &HostKey,
        details: &HardwareDetails,
        notes: &[(&str, String)],
    ) -> Result<(), Status> {
        let fill = |data: &mut HardwareData| {
            data.spec.hardware = Some(details.clone());
            data.metadata.annotations.remove(hardware_data::INSPECTION);
            data.metadata.annotations.remove(hardware_data::DISK_CONTENTS);
            data.metadata.annotations.extend(notes.iter().map(|(key, text)| ((*key).to_owned(), text.clone())));
        };
        let changed = self.inner.hardware.modify(&key.namespace, &key.name, Part::Main, &fill).await?;
        if changed.is_none() {
            let mut data = HardwareData::default();
            data.metadata.namespace.clone_from(&key.namespace);
            data.metadata.name.clone_from(&key.name);
            fill(&mut data);
            match self.inner.hardware.create(&data).await {
                // Its namespace is going, and the host with it, which has to be taken down all the same.
                Err(status) if status.code == 403 => {
                    tracing::info!(host = %key, error = %status.message, "hardware data is not kept");
                }
                Err(status) if !status.is_already_exists() => return Err(status),
                Ok(_) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// A host that was let go uncleaned stays visible as a discovered machine that says so.
    async fn tombstone(&self, memory: &HostMemory, left: &Uncleaned) -> Result<(), Status> {
        for mac in memory.macs.iter().filter_map(|mac| mac.parse().ok()) {
            self.change_discovered(mac, |machine| {
                machine.uncleaned = Some(united(machine.uncleaned.as_ref(), left));
            })
            .await?;
        }
        tracing::warn!(host = %left.host, reason = %left.reason, "released without cleaning");
        Ok(())
    }

    async fn forget_tombstone(&self, memory: &HostMemory) -> Result<(), Status> {
        for mac in &memory.macs {
            let name = object_name(mac);
            let stored = self.inner.discovered.get("", &name).await?;
            if stored.is_some_and(|machine| machine.status.uncleaned.is_some()) {
                self.inner.discovered.delete("", &name).await?;
                mac.parse().into_iter().for_each(|mac| self.strangers().forgotten(mac));
            }
        }
        Ok(())
    }

    /// The tombstone that stands for one of these MACs.
    pub(crate) async fn tombstone_of(&self, macs: &[String]) -> Result<Option<host::Uncleaned>, Status> {
        for mac in macs {
            let stored = self.inner.discovered.get("", &object_name(mac)).await?;
            if let Some(left) = stored.and_then(|machine| machine.status.uncleaned) {
                let Uncleaned { host, disk, of_tenant, at, .. } = left;
                let (is_settled, is_told_only) = (false, false);
                return Ok(Some(host::Uncleaned { host, disk, at, of_tenant, is_settled, is_told_only }));
            }
        }
        Ok(None)
    }

    /// The agent's own words for a plan. Contents of Secrets are read here and kept nowhere.
    pub(crate) async fn wire_plan(
        &self,
        host: &BareMetalHost,
        memory: &HostMemory,
        issued: &IssuedPlan,
    ) -> Result<wire::Plan, PlanError> {
        let attempt = memory.attempt;
        let steps = match &issued.plan {
            PlanKind::Inspect => vec![wire::Step::Inspect],
            PlanKind::Clean { disk } => vec![clear_step(memory, disk, false)],
            PlanKind::Erase(erase) => erase.disks.iter().map(|disk| erase_step(memory, erase, disk)).collect(),
            PlanKind::Reboot => vec![wire::Step::Reboot],
            PlanKind::PowerOff => vec![wire::Step::PowerOff],
            PlanKind::Write(write) => self.write_steps(host, memory, write).await?,
        };
        let mut plan = wire::Plan { number: issued.number, attempt, steps };
        name_own(&mut plan, &host::own_names(host, memory));
        Ok(plan)
    }

    async fn write_steps(
        &self,
        host: &BareMetalHost,
        memory: &HostMemory,
        write: &WritePlan,
    ) -> Result<Vec<wire::Step>, PlanError> {
        let disk = identity(&write.disk);
        let endpoints = &self.config().endpoints;
        let image = wire::ImageSource {
            url: format!("{}/images/{}.raw.zst", endpoints.http_base(), write.image.stream_sha256),
            stream_bytes: write.image.stream_bytes,
            stream_sha256: write.image.stream_sha256.clone(),
            raw_bytes: write.image.raw_bytes,
            raw_sha256: write.image.raw_sha256.clone(),
        };
        let mut steps = vec![clear_step(memory, &write.disk, write.override_guards), write_step(memory, write, image)];
        if let Some(sha256) = &write.user_data_sha256 {
            let forms = self.hand_off(host, memory.attempt, write, sha256).await?;
            steps.push(wire::Step::HandOff { disk: disk.clone(), files: Vec::new(), forms: Some(Box::new(forms)) });
        }
        let label: String = format!("Firesteel {}", host.metadata.name).chars().take(LABEL_CHARS_MAX).collect();
        steps.push(wire::Step::SetBootEntry { disk, label });
        steps.push(wire::Step::Reboot);
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
        self.config().served.check(&key_of(host), &write.configs).await?;
        let given = match self.given(host).await? {
            Reading::Ready(given) if given.sha256 == sha256 => given,
            Reading::Nothing | Reading::Missing | Reading::Invalid(_) | Reading::Ready(_) => {
                return Err(PlanError::SecretChanged);
            }
        };
        let mut marks = vec![
            file("firesteel/marker.json", 0o644, self.marker(host, attempt, write).as_bytes()),
            file("firesteel/disk.cfg", 0o644, format!("set firesteel_disk={}\n", write.disk_guid).as_bytes()),
        ];
        let (stub, token) = match &given.user {
            User::None | User::CloudInit(_) => (None, String::new()),
            User::Ignition(config) => {
                let token = self.instance_token(&host.metadata.uid, attempt)?;
                let config = self.with_present_ca(config);
                let stub = ignition::with_config_token(&config, &self.config().origins.urls, &token)
                    .map_err(|error| PlanError::TokenNotAdded(error.to_string()))?;
                marks.extend(self.report_files(&token));
                (Some(stub), token)
            }
        };
        // The first digits of a random number that is the installation's own.
        let digits = write.disk_guid.get(..8).unwrap_or_default();
        let volume_id = u32::from_str_radix(digits, 16).unwrap_or_default();
        Ok(compose(host, &given, &Extras { stub, token, marks, volume_id }))
    }

    /// User data as its Secret will be once its CA is rotated. That comes a moment after the CA, and never to a Secret that
    /// is immutable; the host's copy stays as it is written, and would trust nobody who is left.
    fn with_present_ca<'a>(&self, config: &'a [u8]) -> Cow<'a, [u8]> {
        // A CA that cannot stand in a stub is told on the pools.
        let (Ok(text), Ok(authority)) = (std::str::from_utf8(config), self.handles().trust.authority()) else {
            return Cow::Borrowed(config);
        };
        let (rotated, _) = authority::rotate(text, &self.config().origins.endpoints, &authority);
        rotated.map_or(Cow::Borrowed(config), |text| Cow::Owned(text.into_bytes()))
    }

    /// Where a unit in the initramfs reports a first boot that failed, in lines that a shell reads as well.
    fn report_files(&self, token: &str) -> [wire::HandOffFile; 2] {
        let report = format!(
            "FIRESTEEL_REPORT_URL={}{FIRST_BOOT_FAILED_PATH}\nFIRESTEEL_REPORT_TOKEN={token}\n",
            self.config().endpoints.agent_base()
        );
        [
            file("firesteel/report.conf", 0o600, report.as_bytes()),
            file("firesteel/ca.crt", 0o644, self.handles().trust.pem().as_bytes()),
        ]
    }

    /// For people and other tools; the appliance itself goes by the disk's GUID, which says the same.
    fn marker(&self, host: &BareMetalHost, attempt: u64, write: &WritePlan) -> String {
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
        marker.to_string()
    }
}

/// What a machine's tombstone says after one more release without cleaning. One that stands already is not settled, so
/// both are meant: no disk is named where they differ, and a tenant's data is there if either says so. The same release
/// again changes nothing.
fn united(old: Option<&Uncleaned>, new: &Uncleaned) -> Uncleaned {
    let of_tenant = new.of_tenant || old.is_some_and(|old| old.of_tenant);
    let both = match old {
        Some(old) if old.host == new.host && (old.disk == new.disk || old.disk.is_empty()) => old.clone(),
        Some(old) if old.disk != new.disk => Uncleaned { disk: String::new(), ..new.clone() },
        Some(_) | None => new.clone(),
    };
    Uncleaned { of_tenant, ..both }
}

/// Names an inspection among all of the hosts that ever had this name.
fn mark_of(record: &HardwareRecord) -> String {
    format!("{}/{} {}", record.attempt, record.plan, record.inspected_at)
}

/// Tells each step that destroys which volumes are the host's own.
fn name_own(plan: &mut wire::Plan, names: &[String]) {
    for step in &mut plan.steps {
        if let wire::Step::ClearMetadata { own_names, .. }
        | wire::Step::EraseDisk { own_names, .. }
        | wire::Step::WriteImage { own_names, .. } = step
        {
            own_names.extend(names.iter().filter(|name| !own_names.contains(name)).cloned().collect::<Vec<_>>());
        }
    }
}

/// The metadata of one disk.
fn clear_step(memory: &HostMemory, disk: &DiskIdentity, override_guards: bool) -> wire::Step {
    let (was_vacant, is_named) = (host::was_vacant(memory, disk), host::is_named(memory, disk));
    wire::Step::ClearMetadata { disk: identity(disk), own_names: Vec::new(), override_guards, was_vacant, is_named }
}

fn write_step(memory: &HostMemory, write: &WritePlan, image: wire::ImageSource) -> wire::Step {
    wire::Step::WriteImage {
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
fn erase_step(memory: &HostMemory, erase: &ErasePlan, disk: &DiskIdentity) -> wire::Step {
    wire::Step::EraseDisk {
        disk: identity(disk),
        policy: match erase.method {
            Method::Metadata => wire::erasure::Policy::Metadata,
            Method::Quick => wire::erasure::Policy::Quick,
            Method::Full => wire::erasure::Policy::Full,
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
    fn says(step: &wire::Step) -> Option<(bool, bool, bool)> {
        match step {
            wire::Step::ClearMetadata { was_vacant, override_guards, is_named, .. }
            | wire::Step::EraseDisk { was_vacant, override_guards, is_named, .. }
            | wire::Step::WriteImage { was_vacant, override_guards, is_named, .. } => {
                Some((*was_vacant, *override_guards, *is_named))
            }
            wire::Step::Inspect
            | wire::Step::HandOff { .. }
            | wire::Step::SetBootEntry { .. }
            | wire::Step::Reboot
            | wire::Step::PowerOff => None,
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
            method: Method::Full,
            disks: vec![vacant.clone(), other.clone()],
            next: NextOwner::Another,
            own_names: Vec::new(),
            overridden: vec![other.clone()],
            named: vec![vacant.clone()],
        };
        let image = || wire::ImageSource {
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

    #[test]
    fn a_tombstone_forgets_no_disk() {
        let left = |host: &str, disk: &str, second: i64| Uncleaned {
            host: host.to_owned(),
            disk: disk.to_owned(),
            of_tenant: false,
            reason: String::new(),
            at: jiff::Timestamp::from_second(second).unwrap_or_default(),
        };
        let first = left("default/a", "A", 1);
        for (old, new, expected) in [
            (None, left("default/a", "A", 2), left("default/a", "A", 2)),
            (Some(&first), left("default/a", "A", 2), first.clone()),
            // A second life under the same name, with another disk.
            (Some(&first), left("default/a", "B", 2), left("default/a", "", 2)),
            (Some(&first), left("default/a", "", 2), left("default/a", "", 2)),
            (Some(&first), left("default/b", "A", 2), left("default/b", "A", 2)),
            (Some(&first), left("default/b", "B", 2), left("default/b", "", 2)),
        ] {
            let united = super::united(old, &new);
            assert_eq!(united, expected, "{old:?} and {new:?}");
            assert_eq!(super::united(Some(&united), &new), united, "the effect may run again");
        }
        // Whichever of them a tenant left.
        let of_tenant = |left: Uncleaned| Uncleaned { of_tenant: true, ..left };
        for new in [left("default/a", "A", 2), left("default/b", "B", 2)] {
            assert!(super::united(Some(&of_tenant(first.clone())), &new).of_tenant);
            assert!(super::united(Some(&first), &of_tenant(new)).of_tenant);
        }
        assert!(!super::united(Some(&first), &left("default/b", "B", 2)).of_tenant);
    }
}
