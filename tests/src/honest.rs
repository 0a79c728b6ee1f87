//! What an honest agent shows of its steps, for agents without a machine below them. Attacks alter it.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use firesteel_wire::{
    Disk, DiskIdentity, Evidence, HandOffFile, ImageSource, Inventory, Step, Table,
    erasure::{Erasure, Grade, Policy, Samples},
    hand_off::{FIRST_BOOT, Form, Forms},
    receipt::FileDigest,
};
use ring::digest::{SHA256, digest};

const DEVICE: &str = "/dev/sda";

/// A disk with a name of its own.
#[must_use]
pub fn disk() -> Disk {
    Disk {
        device: DEVICE.into(),
        by_path: "/dev/disk/by-path/pci-sda".into(),
        serial: "S1".into(),
        model: "MODEL".into(),
        size_bytes: 20 << 30,
        table: Some(Table::None),
        ..Disk::default()
    }
}

/// Shows that a step was carried out; an inspection finds these disks.
#[must_use]
pub fn evidence(step: &Step, disks: &[Disk]) -> Evidence {
    match step {
        Step::Inspect => Evidence::Inspected { inventory: Inventory { disks: disks.to_vec(), ..Inventory::default() } },
        Step::ClearMetadata { disk, .. } => cleared(disk),
        Step::EraseDisk { disk, policy, .. } => Evidence::DiskErased(erased(disk, *policy)),
        Step::WriteImage { disk, image, disk_guid, .. } => written(disk, image, disk_guid),
        Step::HandOff { disk, files, forms } => handed_off(disk, files, forms.as_deref()),
        Step::SetBootEntry { .. } => boot_entry(),
        Step::Reboot | Step::PowerOff => Evidence::Leaving { how: step.name().into() },
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
pub fn erased(disk: &DiskIdentity, policy: Policy) -> Erasure {
    let (method, grade) = match policy {
        Policy::Metadata => ("metadata", Grade::None),
        Policy::Quick | Policy::Full => ("overwrite", Grade::Clear),
    };
    Erasure {
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
pub fn written(disk: &DiskIdentity, image: &ImageSource, disk_guid: &str) -> Evidence {
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
    let offered = |forms: &Forms| forms.offers().into_iter().find(|form| [Form::Auto, *form].contains(&forms.form));
    let form = forms.and_then(offered);
    let content = match (forms, form) {
        (Some(forms), Some(Form::BootPartition)) => on_boot_partition(forms),
        (Some(forms), Some(Form::ConfigDrive)) => digests(forms.config_drive.iter().flat_map(|drive| &drive.files)),
        (Some(forms), Some(Form::NoCloud)) => digests(forms.no_cloud.iter().flat_map(|drive| &drive.files)),
        (Some(_), Some(Form::KernelArguments | Form::Auto) | None) => Vec::new(),
        (None, _) => digests(files),
    };
    let sets_arguments = forms.is_some_and(|forms| forms.arguments.is_some()) || form == Some(Form::KernelArguments);
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

fn on_boot_partition(forms: &Forms) -> Vec<FileDigest> {
    let Some(boot) = &forms.boot_partition else { return Vec::new() };
    let first = boot.first_boot().map(|text| of_content(FIRST_BOOT, text.as_bytes()));
    let others = boot.files.iter().filter(|file| first.is_none() || file.path != FIRST_BOOT);
    digests(others).into_iter().chain(first.clone()).collect()
}

fn digests<'a>(files: impl IntoIterator<Item = &'a HandOffFile>) -> Vec<FileDigest> {
    let digest = |file: &HandOffFile| {
        of_content(&file.path, &STANDARD.decode(&file.content_base64).expect("the appliance's base64"))
    };
    files.into_iter().map(digest).collect()
}

fn of_content(path: &str, content: &[u8]) -> FileDigest {
    let sha256 = hex::encode(digest(&SHA256, content));
    FileDigest { path: path.to_owned(), bytes: content.len() as u64, sha256 }
}
