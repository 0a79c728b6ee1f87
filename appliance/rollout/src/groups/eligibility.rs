//! Where a host stands with images, as its newest step left it: what a group needs of a host, and no more. Pure.
//!
//! The planner's memory decides, and not the object's status, which follows it: an image that is given to a host whose
//! disk has just been written would be another installation.

use std::collections::BTreeMap;

use firesteel_facts::Architecture;
use firesteel_plan::{HostMemory, host::HostState, select_disk};
use firesteel_resources::bare_metal_host::{ErrorType, ProvisioningState as Word, annotations};
use firesteel_resources::host_journal::{HostJournalStatus, InstanceRecord};
use firesteel_resources::{BareMetalHost, Image};
use jiff::Timestamp;

/// The most characters of a log's line: it stands in a group's condition.
const LINE_CHARS_MAX: usize = 256;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupCandidate {
    /// The UID of the host's object.
    pub(crate) uid: String,
    pub(crate) labels: BTreeMap<String, String>,
    /// The architecture by its newest inspection, or as its owner says.
    pub(crate) architecture: Option<Architecture>,
    /// It was found by an inspection.
    pub(crate) is_inspected: bool,
    /// The sector size of the disk that would be written, where that is known.
    pub(crate) sector_bytes: Option<u32>,
    pub(crate) stand: RolloutEligibility,
    /// Why it would not be installed at once where it is given an image.
    pub(crate) not_ready: Option<String>,
    /// Its hardware is as well known as it will be before something is written. Until then it is unknown which form of
    /// an image suits it, and once it is known the installation of an image that stands in its spec begins at once.
    pub(crate) is_measured: bool,
    /// Neither its object nor its memory tells anything.
    pub(crate) is_unreadable: bool,
    /// The Secret with its user data.
    pub(crate) user_data: String,
    /// Its disk was written to, or is about to be.
    pub(crate) is_written: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RolloutEligibility {
    /// Nothing is on its disk that would be lost by another image; the image that its spec names now.
    Open { wanted: Option<Image>, failed: Option<InstallationFailure> },
    /// This image is on its way onto the disk.
    Installing(Image),
    /// This image is on the disk.
    Installed { image: Image, os: OsReportState },
    /// No group has a say: why.
    Closed(String),
}

/// The installation of the wanted image failed, or the first boot of the installed one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InstallationFailure {
    pub(crate) message: String,
    pub(crate) at: Timestamp,
}

/// What the installed OS said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OsReportState {
    Silent,
    Running,
    /// Its first boot failed, by its own word.
    Failed(InstallationFailure),
}

impl GroupCandidate {
    /// `journal` is the one that holds this memory.
    pub(crate) fn of(host: &BareMetalHost, memory: &HostMemory, journal: &HostJournalStatus) -> Self {
        let metadata = &host.metadata;
        let hardware = journal.hardware.as_ref();
        let inspected = hardware.and_then(|record| Architecture::read(&record.cpu.arch));
        let stand = rollout_eligibility(host, memory, journal);
        let hints = host.spec.root_device_hints.clone().unwrap_or_default();
        let sector_bytes = hardware.and_then(|record| {
            let choice = select_disk(&hints, &record.disks).ok()?;
            let disk = record.disks.iter().find(|disk| disk.device == choice.device)?;
            (disk.logical_block_bytes != 0).then_some(disk.logical_block_bytes)
        });
        Self {
            uid: metadata.uid.clone(),
            labels: metadata.labels.clone(),
            architecture: inspected.or_else(|| Architecture::read(&host.spec.architecture)),
            is_inspected: inspected.is_some(),
            sector_bytes,
            not_ready: not_ready(host, memory),
            stand,
            is_measured: is_measured(memory.state.word(), hardware.is_some()),
            is_unreadable: false,
            user_data: host.spec.user_data.as_ref().map(|reference| reference.name.clone()).unwrap_or_default(),
            is_written: memory.disk_dirty,
        }
    }

    /// A host of which nothing can be read.
    pub(crate) fn unreadable(uid: &str, why: String) -> Self {
        Self {
            uid: uid.to_owned(),
            labels: BTreeMap::new(),
            architecture: None,
            is_inspected: false,
            sector_bytes: None,
            not_ready: Some(why.clone()),
            stand: RolloutEligibility::Closed(why),
            is_measured: false,
            is_unreadable: true,
            user_data: String::new(),
            is_written: false,
        }
    }

    /// Says whether an image in its spec may still be taken back: an installation that has begun is broken off without
    /// a trace until the disk is written.
    pub(crate) fn may_be_fought(&self) -> bool {
        match &self.stand {
            RolloutEligibility::Open { .. } => true,
            RolloutEligibility::Installing(_) => !self.is_written,
            RolloutEligibility::Installed { .. } | RolloutEligibility::Closed(_) => false,
        }
    }

    /// The image that its spec names, where another one may be put there.
    pub(crate) fn open(&self) -> Option<Option<&Image>> {
        match &self.stand {
            RolloutEligibility::Open { wanted, .. } => Some(wanted.as_ref()),
            RolloutEligibility::Installing(_)
            | RolloutEligibility::Installed { .. }
            | RolloutEligibility::Closed(_) => None,
        }
    }
}

/// Says why a host is not ready, in words that stay the same for as long as it is so: they stand in a group's status.
fn not_ready(host: &BareMetalHost, memory: &HostMemory) -> Option<String> {
    let let_alone = [annotations::PAUSED, annotations::DETACHED, annotations::LOCK];
    if let Some(key) = let_alone.iter().find(|key| host.metadata.annotations.contains_key(**key)) {
        return Some(format!("nothing is done with it while it has the annotation {key}"));
    }
    if let Some(frozen) = &memory.frozen {
        return Some(format!("its disks are kept as they are: {}", frozen.message));
    }
    if !host.spec.online {
        return Some("its spec.online is false: it is installed when it is to be on".to_owned());
    }
    (memory.state != HostState::Available)
        .then(|| format!("it is {} now, and is installed when it is available", memory.state.word()))
}

fn is_measured(state: Word, has_record: bool) -> bool {
    match state {
        Word::New | Word::Inspecting => false,
        // It may have been inspected before.
        Word::Unmanaged | Word::Registering | Word::Foreign => has_record,
        // With or without an inspection: it may be switched off.
        Word::Preparing
        | Word::Available
        | Word::Provisioning
        | Word::Provisioned
        | Word::ExternallyProvisioned
        | Word::Deprovisioning
        | Word::PoweringOff
        | Word::Deleting => true,
    }
}

fn rollout_eligibility(host: &BareMetalHost, memory: &HostMemory, journal: &HostJournalStatus) -> RolloutEligibility {
    let spec = &host.spec;
    let closed = |why: &str| RolloutEligibility::Closed(why.to_owned());
    if host.metadata.is_deleting() {
        return closed("it is being deleted");
    }
    match memory.state {
        HostState::PoweringOff | HostState::Deleting => return closed("it is being deleted"),
        HostState::Provisioned => {
            return match &memory.applied {
                Some(applied) => {
                    let instance = journal.instance.as_ref().filter(|record| record.attempt == applied.attempt);
                    RolloutEligibility::Installed {
                        image: applied.image.clone(),
                        os: instance.map_or(OsReportState::Silent, os),
                    }
                }
                None => closed("what is on its disk is not known"),
            };
        }
        HostState::ExternallyProvisioned => return closed("somebody else installed its OS"),
        // It may have been moved here, or its journal may be lost: its first step takes over what its status says of
        // it. As long as it is paused there is no such step.
        HostState::New => return closed("nothing is known of it yet"),
        HostState::Unmanaged
        | HostState::Registering
        | HostState::Inspecting
        | HostState::Preparing
        | HostState::Available
        | HostState::Provisioning
        | HostState::Deprovisioning => {}
    }
    let wanted = spec.wanted_image().cloned();
    let failed = failed(memory, wanted.as_ref());
    if memory.state == HostState::Provisioning && (memory.disk_dirty || failed.is_none()) {
        let image = memory.last_attempted_image.clone().or(wanted).unwrap_or_default();
        return RolloutEligibility::Installing(image);
    }
    // Whatever runs on it, an image would have it reboot for a look at its disks.
    if let Some(frozen) = &memory.frozen {
        return RolloutEligibility::Closed(format!("its disks are kept as they are: {}", frozen.message));
    }
    let looked_in = journal.hardware.as_ref().map(|record| record.timeline);
    if memory.restored.is_some() && looked_in != Some(memory.timeline) {
        return closed("the store was restored from a backup, and its disks were not looked at since: inspect it");
    }
    if spec.externally_provisioned {
        return closed("somebody else installs its OS");
    }
    if let Some(method) = &spec.custom_deploy {
        return RolloutEligibility::Closed(format!("it is deployed by the method {}", method.method));
    }
    if let Some(consumer) = &spec.consumer_ref {
        return RolloutEligibility::Closed(format!("it belongs to {} {}", consumer.kind, consumer.name));
    }
    RolloutEligibility::Open { wanted, failed }
}

fn os(record: &InstanceRecord) -> OsReportState {
    match (record.running_at, &record.failed) {
        (Some(_), _) => OsReportState::Running,
        (None, None) => OsReportState::Silent,
        (None, Some(failure)) => {
            let last = failure.log.last().map_or("it sent no log", String::as_str);
            let last: String = last.chars().take(LINE_CHARS_MAX).collect();
            OsReportState::Failed(InstallationFailure {
                message: format!("its first boot failed: {last}"),
                at: failure.at,
            })
        }
    }
}

/// What stands against the image that is wanted: installations of it that failed, or an obstacle that only an edit
/// takes away. What is tried again by itself, such as a download, is none.
fn failed(memory: &HostMemory, wanted: Option<&Image>) -> Option<InstallationFailure> {
    let is_of_it = wanted.is_some_and(|wanted| {
        memory
            .last_attempted_image
            .as_ref()
            .is_some_and(|tried| (&tried.url, &tried.checksum) == (&wanted.url, &wanted.checksum))
    });
    let failure = memory.failure.as_ref().filter(|failure| failure.kind == ErrorType::Provisioning);
    let is_stuck = failure.is_some_and(|failure| failure.until_edit);
    if !is_of_it || (memory.provision_failures == 0 && !is_stuck) {
        return None;
    }
    Some(match failure {
        Some(failure) => InstallationFailure { message: failure.message.clone(), at: failure.at },
        None => InstallationFailure { message: "its installation failed".to_owned(), at: memory.since },
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use firesteel_plan::host::{Frozen, FrozenWhy, HostFailure, InstalledSystem, ReadyImage, RestoreMark};
    use firesteel_resources::host_journal::{FirstBootFailure, InstanceRecord};
    use firesteel_resources::{ObjectReference, hardware::HardwareRecord};

    use super::*;

    fn image(name: &str) -> Image {
        Image { url: format!("http://a/{name}"), checksum: name.to_owned(), ..Image::default() }
    }

    fn host(wanted: &str) -> BareMetalHost {
        let mut host = BareMetalHost::default();
        host.spec.online = true;
        host.spec.image = Some(image(wanted));
        host
    }

    fn memory(state: HostState) -> HostMemory {
        HostMemory { state, last_attempted_image: Some(image("a")), ..HostMemory::default() }
    }

    fn stand_of(host: &BareMetalHost, memory: &HostMemory) -> RolloutEligibility {
        GroupCandidate::of(host, memory, &HostJournalStatus::default()).stand
    }

    fn failure(until_edit: bool) -> Option<HostFailure> {
        Some(HostFailure {
            kind: ErrorType::Provisioning,
            message: "no".into(),
            count: 1,
            at: Timestamp::UNIX_EPOCH,
            retry_at: None,
            until_edit,
            inputs: String::new(),
        })
    }

    #[test]
    fn what_is_on_a_disk_or_comes_onto_it_is_closed_to_groups() {
        let mut provisioned = memory(HostState::Provisioned);
        provisioned.applied = Some(InstalledSystem {
            image: image("a"),
            ready: ReadyImage::default(),
            disk_guid: String::new(),
            attempt: 3,
            at: Timestamp::UNIX_EPOCH,
            user_data_sha256: None,
            configs: vec!["worker".to_owned()],
            left_properly: true,
        });
        // What its spec asks for meanwhile changes nothing of what is there.
        for wanted in ["a", "b"] {
            let place = GroupCandidate::of(&host(wanted), &provisioned, &HostJournalStatus::default());
            assert_eq!(place.stand, RolloutEligibility::Installed { image: image("a"), os: OsReportState::Silent });
            assert_eq!(place.open(), None);
        }
        let says = |attempt| {
            let record =
                InstanceRecord { attempt, running_at: Some(Timestamp::UNIX_EPOCH), ..InstanceRecord::default() };
            let journal = HostJournalStatus { instance: Some(record), ..HostJournalStatus::default() };
            GroupCandidate::of(&host("a"), &provisioned, &journal).stand
        };
        assert_eq!(says(3), RolloutEligibility::Installed { image: image("a"), os: OsReportState::Running });
        assert_eq!(
            says(2),
            RolloutEligibility::Installed { image: image("a"), os: OsReportState::Silent },
            "of an earlier installation"
        );
        let report = FirstBootFailure { at: Timestamp::UNIX_EPOCH, log: vec!["no config".into()] };
        let record = InstanceRecord { attempt: 3, failed: Some(report), ..InstanceRecord::default() };
        let mut journal = HostJournalStatus { instance: Some(record), ..HostJournalStatus::default() };
        let failed =
            InstallationFailure { message: "its first boot failed: no config".into(), at: Timestamp::UNIX_EPOCH };
        let stand = GroupCandidate::of(&host("a"), &provisioned, &journal).stand;
        assert_eq!(stand, RolloutEligibility::Installed { image: image("a"), os: OsReportState::Failed(failed) });
        journal.instance.as_mut().unwrap().running_at = Some(Timestamp::UNIX_EPOCH);
        let stand = GroupCandidate::of(&host("a"), &provisioned, &journal).stand;
        assert_eq!(
            stand,
            RolloutEligibility::Installed { image: image("a"), os: OsReportState::Running },
            "it came up all the same"
        );
        assert_eq!(stand_of(&host("b"), &memory(HostState::Provisioning)), RolloutEligibility::Installing(image("a")));
        let dirty = HostMemory { disk_dirty: true, failure: failure(true), ..memory(HostState::Provisioning) };
        assert_eq!(stand_of(&host("a"), &dirty), RolloutEligibility::Installing(image("a")));
    }

    #[test]
    fn an_installation_that_failed_opens_the_host_and_a_retry_of_it_does_not() {
        let open = |wanted: &str, memory: &HostMemory| match stand_of(&host(wanted), memory) {
            RolloutEligibility::Open { failed, .. } => Some(failed.is_some()),
            RolloutEligibility::Installing(_)
            | RolloutEligibility::Installed { .. }
            | RolloutEligibility::Closed(_) => None,
        };
        let failed = HostMemory { provision_failures: 1, failure: failure(false), ..memory(HostState::Available) };
        assert_eq!(open("a", &failed), Some(true));
        assert_eq!(open("b", &failed), Some(false), "that was another image");
        let cleaning = HostMemory { state: HostState::Deprovisioning, ..failed.clone() };
        assert_eq!(open("a", &cleaning), Some(true));
        let stuck = HostMemory { failure: failure(true), ..memory(HostState::Provisioning) };
        assert_eq!(open("a", &stuck), Some(true));
        // What is broken off before the disk is written may be given and taken back without end.
        let is_fought =
            |memory: &HostMemory| GroupCandidate::of(&host("a"), memory, &HostJournalStatus::default()).may_be_fought();
        let installing = memory(HostState::Provisioning);
        assert!(is_fought(&memory(HostState::Available)) && is_fought(&installing));
        assert!(!is_fought(&HostMemory { disk_dirty: true, ..installing }));
        let slow = HostMemory { failure: failure(false), ..memory(HostState::Provisioning) };
        assert_eq!(open("a", &slow), None, "it is tried again by itself");
    }

    /// An image that is given to a host that was moved here would be another one than that on its disk.
    #[test]
    fn a_host_of_which_nothing_is_known_or_whose_disks_are_in_doubt_is_closed() {
        assert!(matches!(stand_of(&host("a"), &HostMemory::default()), RolloutEligibility::Closed(_)));
        let frozen = Frozen {
            why: FrozenWhy::NewerThanStore,
            disk: "sda".into(),
            guid: String::new(),
            message: "newer".into(),
            since: Timestamp::UNIX_EPOCH,
        };
        let frozen = HostMemory { frozen: Some(frozen), ..memory(HostState::Available) };
        assert!(matches!(stand_of(&host("a"), &frozen), RolloutEligibility::Closed(why) if why.contains("newer")));
        let restored = RestoreMark { at: Timestamp::UNIX_EPOCH, unfinished: String::new() };
        let restored = HostMemory { restored: Some(restored), timeline: 2, ..memory(HostState::Available) };
        assert!(matches!(stand_of(&host("a"), &restored), RolloutEligibility::Closed(_)));
        let looked_in = |timeline| {
            let hardware = Some(HardwareRecord { timeline, ..HardwareRecord::default() });
            let journal = HostJournalStatus { hardware, ..HostJournalStatus::default() };
            GroupCandidate::of(&host("a"), &restored, &journal).open().is_some()
        };
        assert_eq!((looked_in(1), looked_in(2)), (false, true));
    }

    #[test]
    fn a_host_is_measured_once_it_was_inspected_or_will_not_be() {
        let measured = |state: HostState, is_inspected: bool| {
            let hardware = is_inspected.then(HardwareRecord::default);
            let journal = HostJournalStatus { hardware, ..HostJournalStatus::default() };
            GroupCandidate::of(&host("a"), &memory(state), &journal).is_measured
        };
        assert!(!measured(HostState::Registering, false) && measured(HostState::Registering, true));
        assert!(!measured(HostState::Inspecting, true), "it may be another disk now");
        assert!(measured(HostState::Available, false), "it is not inspected at all");
    }

    #[test]
    fn hosts_of_others_are_closed_with_a_reason() {
        let closed = |edit: fn(&mut BareMetalHost), state: HostState| {
            let mut host = host("a");
            edit(&mut host);
            match stand_of(&host, &memory(state)) {
                RolloutEligibility::Closed(why) => !why.is_empty(),
                RolloutEligibility::Open { .. }
                | RolloutEligibility::Installing(_)
                | RolloutEligibility::Installed { .. } => false,
            }
        };
        assert!(closed(|host| host.metadata.deletion_timestamp = Some(Timestamp::UNIX_EPOCH), HostState::Available));
        assert!(closed(|host| host.spec.externally_provisioned = true, HostState::Registering));
        assert!(closed(|host| host.spec.consumer_ref = Some(ObjectReference::default()), HostState::Available));
        assert!(closed(|host| host.spec.custom_deploy = Some(Default::default()), HostState::Available));
        assert!(closed(|_| {}, HostState::ExternallyProvisioned));
        assert!(closed(|_| {}, HostState::Deleting));
        assert!(!closed(|_| {}, HostState::Available));
    }

    #[test]
    fn only_a_host_that_would_be_installed_at_once_is_ready_and_of_others_it_is_told_why() {
        let why = |edit: fn(&mut BareMetalHost), state: HostState| {
            let mut host = host("a");
            edit(&mut host);
            GroupCandidate::of(&host, &memory(state), &HostJournalStatus::default()).not_ready
        };
        assert_eq!(why(|_| {}, HostState::Available), None);
        assert!(why(|_| {}, HostState::Inspecting).is_some_and(|why| why.contains("it is inspecting now")));
        let off = why(|host| host.spec.online = false, HostState::Available);
        assert!(off.is_some_and(|why| why.contains("spec.online")));
        for key in [annotations::PAUSED, annotations::DETACHED, annotations::LOCK] {
            let mut host = host("a");
            host.metadata.annotations.insert(key.to_owned(), String::new());
            let place = GroupCandidate::of(&host, &memory(HostState::Available), &HostJournalStatus::default());
            assert!(place.not_ready.is_some_and(|why| why.contains(key)), "{key}");
        }
    }
}
