//! A look at an image on its disk: its boot loader's files, and the signs of which form it wants. Each filesystem is
//! mounted read-only in turn; what cannot be mounted is told.

use std::{io, path::PathBuf};

use firesteel_images::write::gpt::Partition;

use super::{mounted::within, site::Site};
use crate::{
    disk::boot_partition::{Found, find_boot},
    hand_off::{
        arguments, bls, grub, grubenv,
        recognise::{CloudInit, Signs, cloud_sources, told},
    },
    os::beneath::{Folder, is_absent},
};

/// Filesystems that are looked into; the images with most partitions have ten.
const VOLUMES_MAX: usize = 32;
/// Files of one folder: an image has an entry for each of its few kernels, and no crowded root.
const NAMES_MAX: usize = 1024;
/// Largest file that is read: `grub.cfg` of a system with many kernels has some ten kilobytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Where a system's root may be in its filesystem: at the top, or in the subvolumes of Fedora and of Ubuntu and SUSE.
const ROOTS: [&str; 3] = ["", "root/", "@/"];

/// What a boot loader's file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Entry,
    Script,
    Environment,
}

/// A boot loader's file as it was read.
pub(super) struct LoaderFile {
    /// Place of its volume in [`Survey::volumes`].
    pub(super) volume: usize,
    pub(super) kind: Kind,
    pub(super) path: String,
    /// `None`: it is not text.
    pub(super) text: Option<String>,
}

/// A filesystem that was looked into.
pub(super) struct Volume {
    pub(super) device: PathBuf,
    pub(super) kind: &'static str,
    /// For people: `partition 2`.
    pub(super) name: String,
}

#[derive(Default)]
pub(super) struct Survey {
    pub(super) signs: Signs,
    pub(super) volumes: Vec<Volume>,
    pub(super) files: Vec<LoaderFile>,
    /// Folders and files of boot loaders that the medium or the filesystem does not give, and why.
    pub(super) unlisted: Vec<String>,
    /// Volumes with unified kernel images, whose arguments are sealed in them.
    pub(super) sealed: Vec<String>,
}

impl Survey {
    pub(super) fn name_of(&self, file: &LoaderFile) -> String {
        format!("{} on {}", told(&file.path), self.volumes[file.volume].name)
    }
}

pub(super) fn look(site: &Site<'_>) -> anyhow::Result<Survey> {
    site.job.board.activity(site.job.index, "looking at the image");
    let mut survey = Survey::default();
    survey.signs.has_boot_partition = find_boot(site.reader(), &site.table).is_ok();
    for partition in &site.table.partitions {
        let found = site.found.iter().find(|found| found.partition.number == partition.number);
        label(&mut survey.signs, partition, found);
        let name = name(partition);
        match found {
            None => survey.signs.unread.push(format!("{name}, {:?}, has no known filesystem", told(&partition.name))),
            Some(found) if found.filesystem.kind == "iso9660" => {}
            Some(_) if survey.volumes.len() == VOLUMES_MAX => {
                survey.signs.unread.push(format!("{name}: {VOLUMES_MAX} others were looked into"));
            }
            Some(found) => {
                if let Err(error) = look_into(site, found, &mut survey) {
                    let error = told(&format!("{error:#}"));
                    survey.signs.unread.push(format!("{name} ({}): {error}", found.filesystem.kind));
                }
            }
        }
    }
    Ok(survey)
}

pub(super) fn name(partition: &Partition) -> String {
    format!("partition {}", partition.number)
}

fn label(signs: &mut Signs, partition: &Partition, found: Option<&Found>) {
    let mut labels: Vec<String> = found.map(|found| told(&found.filesystem.label)).into_iter().collect();
    labels.push(told(&partition.name));
    labels.dedup();
    signs.labels.extend(labels.into_iter().filter(|label| !label.is_empty()).map(|label| (label, name(partition))));
}

fn look_into(site: &Site<'_>, found: &Found, survey: &mut Survey) -> anyhow::Result<()> {
    let host = site.job.host;
    let (device, kind) = (host.partition_device(&site.disk, &found.place)?, found.filesystem.kind);
    let volume = Volume { device: device.clone(), kind, name: name(&found.partition) };
    within(host, &device, kind, true, |folder| {
        survey.volumes.push(volume);
        files(folder, survey);
        signs(folder, survey);
        Ok(())
    })
}

/// The boot loader's files of one filesystem, each once by whatever name.
fn files(folder: &Folder, survey: &mut Survey) {
    let volume = survey.volumes.len() - 1;
    let mut seen = Vec::new();
    let name = survey.volumes[volume].name.clone();
    let mut add = |kind: Kind, path: String, unlisted: &mut Vec<String>| {
        let inode = match folder.inode_inside(&path) {
            Ok(inode) => inode,
            Err(error) if is_absent(&error) || error.kind() == io::ErrorKind::InvalidData => return,
            Err(error) => return unlisted.push(format!("{} on {name}: {error}", told(&path))),
        };
        if seen.contains(&inode) {
            return;
        }
        seen.push(inode);
        let read = folder.read_inside(&path, FILE_BYTES_MAX + 1).ok();
        let text =
            read.filter(|read| read.len() as u64 <= FILE_BYTES_MAX).and_then(|read| String::from_utf8(read).ok());
        survey.files.push(LoaderFile { volume, kind, path, text });
    };
    let list = |path: &str, unlisted: &mut Vec<String>| {
        folder.names_inside(path, NAMES_MAX).unwrap_or_else(|error| {
            unlisted.push(format!("/{} on {name}: {error}", told(path)));
            Vec::new()
        })
    };
    let mut tops: Vec<String> = ROOTS.iter().flat_map(|root| [(*root).to_owned(), format!("{root}boot/")]).collect();
    tops.dedup();
    for top in &tops {
        for entry in list(&format!("{top}loader/entries"), &mut survey.unlisted) {
            if entry.ends_with(".conf") {
                add(Kind::Entry, format!("{top}loader/entries/{entry}"), &mut survey.unlisted);
            }
        }
        let mut folders: Vec<String> = ["grub", "grub2"].map(|grub| format!("{top}{grub}")).into();
        let efi = list(top, &mut survey.unlisted).into_iter().find(|entry| entry.eq_ignore_ascii_case("EFI"));
        if let Some(efi) = efi {
            let vendors = list(&format!("{top}{efi}"), &mut survey.unlisted);
            let sealed = vendors.iter().find(|entry| entry.eq_ignore_ascii_case("Linux"));
            let sealed = sealed.map(|entry| list(&format!("{top}{efi}/{entry}"), &mut survey.unlisted));
            if sealed.is_some_and(|names| names.iter().any(|entry| entry.to_ascii_lowercase().ends_with(".efi"))) {
                survey.sealed.push(name.clone());
            }
            folders.extend(vendors.into_iter().map(|vendor| format!("{top}{efi}/{vendor}")));
        }
        for grub in folders {
            add(Kind::Script, format!("{grub}/grub.cfg"), &mut survey.unlisted);
            add(Kind::Environment, format!("{grub}/grubenv"), &mut survey.unlisted);
        }
    }
}

/// What one filesystem says of the form that its image wants.
fn signs(folder: &Folder, survey: &mut Survey) {
    let volume = survey.volumes.len() - 1;
    let own = survey.files.iter().filter(|file| file.volume == volume);
    for file in own {
        let place = survey.name_of(file);
        let text = file.text.as_deref().unwrap_or_default();
        match file.kind {
            Kind::Entry => survey.signs.read_arguments(&place, bls::arguments_of(text)),
            Kind::Script => {
                let words = grub::arguments_of_script(text);
                survey.signs.read_arguments(&place, words.iter().map(String::as_str));
            }
            Kind::Environment => {
                let value = grubenv::get(text, bls::KERNELOPTS).ok().flatten().unwrap_or_default();
                survey.signs.read_arguments(&place, arguments::words(&value).unwrap_or_default());
            }
        }
    }
    let name = &survey.volumes[volume].name;
    if folder.inode_inside("ignition.firstboot").is_ok() {
        survey.signs.ignition.push(name.clone());
    }
    for root in ROOTS {
        if let Some(cloud_init) = cloud_init(folder, root, name, &mut survey.signs.unread) {
            survey.signs.cloud_init.push(cloud_init);
        }
    }
}

/// cloud-init's configuration below one root: its main file, then those of its folder by name.
fn cloud_init(folder: &Folder, root: &str, volume: &str, unread: &mut Vec<String>) -> Option<CloudInit> {
    let main = format!("{root}etc/cloud/cloud.cfg");
    folder.inode_inside(&main).ok()?;
    let parts = folder.names_inside(&format!("{main}.d"), NAMES_MAX).unwrap_or_else(|error| {
        unread.push(format!("{main}.d on {volume}: {error}"));
        Vec::new()
    });
    let parts = parts.into_iter().filter(|name| name.ends_with(".cfg")).map(|name| format!("{main}.d/{name}"));
    let texts = std::iter::once(main.clone())
        .chain(parts)
        .filter_map(|path| String::from_utf8(folder.read_inside(&path, FILE_BYTES_MAX).ok()?).ok());
    // A later file's list replaces an earlier one's.
    let sources = texts.filter_map(|text| cloud_sources(&text)).fold(Vec::new(), |_, later| later);
    Some(CloudInit { place: format!("{main} on {volume}"), sources })
}
