//! What an honest agent shows of its steps, for agents without a machine below them. Attacks alter it.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use firesteel_wire::erasure::{ErasureEvidence, ErasurePolicy, Grade, Samples};
use firesteel_wire::hand_off::{FIRST_BOOT, Forms, HandOffForm};
use firesteel_wire::receipt::FileReadBack;
use firesteel_wire::{
    DiskIdentity, Evidence, HandOffFile, ImageStream, Inventory, InventoryDisk, PartitionTableRecord, PlanStep,
};
use ring::digest::{SHA256, digest};

const DEVICE: &str = "/dev/sda";

/// A disk with a name of its own.
#[must_use]
pub fn disk() -> InventoryDisk {
    InventoryDisk {
        device: DEVICE.into(),
        by_path: "/dev/disk/by-path/pci-sda".into(),
        serial: "S1".into(),
        model: "MODEL".into(),
        size_bytes: 20 << 30,
        table: Some(PartitionTableRecord::None),
        ..InventoryDisk::default()
    }
}

/// Shows that a step was carried out; an inspection finds these disks.
#[must_use]
pub fn evidence(step: &PlanStep, disks: &[InventoryDisk]) -> Evidence {
    match step {
        PlanStep::Inspect => {
            Evidence::Inspected { inventory: Inventory { disks: disks.to_vec(), ..Inventory::default() } }
        }
        PlanStep::ClearMetadata { disk, .. } => cleared(disk),
        PlanStep::EraseDisk { disk, policy, .. } => Evidence::DiskErased(erased(disk, *policy)),
        PlanStep::WriteImage { disk, image, disk_guid, .. } => written(disk, image, disk_guid),
        PlanStep::HandOff { disk, files, forms } => handed_off(disk, files, forms.as_deref()),
        PlanStep::SetBootEntry { .. } => boot_entry(),
        PlanStep::Reboot | PlanStep::PowerOff => Evidence::Leaving { how: step.name().into() },
    }
}

#[must_use]
pub fn cleared(disk: &DiskIdentity) -> Evidence {
    Evidence::MetadataCleared {
        disk: disk.clone(),
        device: DEVICE.into(),
        cleared: vec!["gpt".into()],
        verified_bytes: 1 << 20,
        overridden: Vec::new(),
    }
}

#[must_use]
pub fn erased(disk: &DiskIdentity, policy: ErasurePolicy) -> ErasureEvidence {
    let (method, grade) = match policy {
        ErasurePolicy::Metadata => ("metadata", Grade::None),
        ErasurePolicy::Quick | ErasurePolicy::Full => ("overwrite", Grade::Clear),
    };
    ErasureEvidence {
        disk: disk.clone(),
        device: DEVICE.into(),
        policy,
        method: method.into(),
        grade,
        drive_log: Vec::new(),
        samples: Samples { read_back: 2048, blank_after: 2048, ..Samples::default() },
        tried: Vec::new(),
        left_out: Vec::new(),
        overridden: Vec::new(),
        unverified: Vec::new(),
    }
}

#[must_use]
pub fn written(disk: &DiskIdentity, image: &ImageStream, disk_guid: &str) -> Evidence {
    Evidence::ImageWritten {
        disk: disk.clone(),
        device: DEVICE.into(),
        stream_sha256: image.stream_sha256.clone(),
        stream_bytes: image.stream_bytes,
        raw_sha256: image.raw_sha256.clone(),
        raw_bytes: image.raw_bytes,
        written_bytes: image.raw_bytes,
        readback_sha256: image.raw_sha256.clone(),
        readback_bytes: image.raw_bytes,
        disk_guid: disk_guid.to_owned(),
        last_usable_lba: 0,
        write_ms: 100,
        readback_ms: 100,
        overridden: Vec::new(),
    }
}

/// Takes the first form that is offered.
#[must_use]
pub fn handed_off(disk: &DiskIdentity, files: &[HandOffFile], forms: Option<&Forms>) -> Evidence {
    let offered =
        |forms: &Forms| forms.offers().into_iter().find(|form| [HandOffForm::Auto, *form].contains(&forms.form));
    let form = forms.and_then(offered);
    let content = match (forms, form) {
        (Some(forms), Some(HandOffForm::BootPartition)) => on_boot_partition(forms),
        (Some(forms), Some(HandOffForm::ConfigDrive)) => {
            digests(forms.config_drive.iter().flat_map(|drive| &drive.files))
        }
        (Some(forms), Some(HandOffForm::NoCloud)) => digests(forms.no_cloud.iter().flat_map(|drive| &drive.files)),
        (Some(_), Some(HandOffForm::KernelArguments | HandOffForm::Auto) | None) => Vec::new(),
        (None, _) => digests(files),
    };
    let sets_arguments =
        forms.is_some_and(|forms| forms.arguments.is_some()) || form == Some(HandOffForm::KernelArguments);
    let loader = sets_arguments.then(|| firesteel_wire::hand_off::LoaderFile {
        device: "/dev/sda1".into(),
        filesystem: "ext4".into(),
        file: of_content("loader/entries/os.conf", b"options"),
        changed: true,
    });
    Evidence::FilesHandedOff {
        disk: disk.clone(),
        device: "/dev/sda1".into(),
        filesystem: "ext4".into(),
        files: content,
        form,
        recognised: Vec::new(),
        warnings: Vec::new(),
        loader: loader.into_iter().collect(),
    }
}

#[must_use]
pub fn boot_entry() -> Evidence {
    Evidence::BootEntrySet { method: "uefi".into(), entry: "Boot0007 HD(1)".into(), order: "0001,0007".into() }
}

fn on_boot_partition(forms: &Forms) -> Vec<FileReadBack> {
    let Some(boot) = &forms.boot_partition else { return Vec::new() };
    let first = boot.first_boot().map(|text| of_content(FIRST_BOOT, text.as_bytes()));
    let others = boot.files.iter().filter(|file| first.is_none() || file.path != FIRST_BOOT);
    digests(others).into_iter().chain(first.clone()).collect()
}

fn digests<'a>(files: impl IntoIterator<Item = &'a HandOffFile>) -> Vec<FileReadBack> {
    let digest = |file: &HandOffFile| {
        of_content(&file.path, &STANDARD.decode(&file.content_base64).expect("the appliance's base64"))
    };
    files.into_iter().map(digest).collect()
}

fn of_content(path: &str, content: &[u8]) -> FileReadBack {
    let sha256 = hex::encode(digest(&SHA256, content));
    FileReadBack { path: path.to_owned(), bytes: content.len() as u64, sha256 }
}
