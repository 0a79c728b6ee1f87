//! A look at an image on its disk: its boot loader's files, and the signs of which form it wants. The agent reads ext4
//! and FAT by itself. Of the others the kernel mounts each read-only in turn, and none where what was read before has
//! decided already. What cannot be looked into is named.

use firesteel_images::write::gpt::Partition;
use firesteel_wire::hand_off::HandOffForm;
use firesteel_wire::limits::{HAND_OFF_WORDS_MAX, LOADER_FILES_MAX};

use super::order::{HandOffOrder, SurveyScope, is_some};
use super::tree::{SurveyedVolume, VolumeTree, in_volume};
use super::written_disk::HandOffDisk;
use crate::disk::boot_partition::{MountablePartition, find_boot};
use crate::filesystem::is_readable;
use crate::forms::form_detection::{self, CloudInit, ImageEvidence, cloud_sources, printable};
use crate::forms::{arguments, bls, grub, grubenv};
use crate::gate::GateStop;

/// Filesystems that are looked into; the images with most partitions have ten.
const VOLUMES_MAX: usize = 32;
/// Files of one folder: an image has an entry for each of its few kernels, and no crowded root.
const NAMES_MAX: usize = 1024;
/// Largest file that is read: `grub.cfg` of a system with many kernels has some ten kilobytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Text of all such files together, which stays in memory: two hundred times what an image with many kernels has.
const TEXT_BYTES_MAX: usize = 16 << 20;
/// Longest reason why something is not read: the agent's own words, with what is to be done.
const REASON_CHARS_MAX: usize = 240;
/// Where a system's root may be in its filesystem: at the top, or in the subvolumes of Fedora and of Ubuntu and SUSE.
const ROOTS: [&str; 3] = ["", "root/", "@/"];

/// What a boot loader's file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoaderFileKind {
    Entry,
    Script,
    Environment,
}

/// A boot loader's file as it was read.
pub(super) struct SurveyedLoaderFile {
    /// Place of its volume in [`HandOffSurvey::volumes`].
    pub(super) volume: usize,
    pub(super) kind: LoaderFileKind,
    pub(super) path: String,
    /// The content; `None` if it is not text.
    pub(super) text: Option<String>,
}

#[derive(Default)]
pub(super) struct HandOffSurvey {
    pub(super) signs: ImageEvidence,
    pub(super) volumes: Vec<SurveyedVolume>,
    pub(super) files: Vec<SurveyedLoaderFile>,
    /// Folders and files of boot loaders that the medium or the filesystem does not give, and why.
    pub(super) unlisted: Vec<String>,
    /// Volumes with unified kernel images, whose arguments are sealed in them.
    pub(super) sealed: Vec<String>,
}

impl HandOffSurvey {
    pub(super) fn name_of(&self, file: &SurveyedLoaderFile) -> String {
        format!("{} on {}", printable(&file.path), self.volumes[file.volume].name)
    }
}

/// # Errors
/// When the plan is to stop: a hostile filesystem takes minutes of a slow disk, and there may be many.
pub(super) fn survey_disk(site: &HandOffDisk<'_>, order: &HandOffOrder) -> Result<HandOffSurvey, GateStop> {
    let (scope, mut survey) = (order.scope(), HandOffSurvey::default());
    if scope == SurveyScope::Nothing {
        return Ok(survey);
    }
    site.job.board.activity(site.job.index, "looking at the image");
    survey.signs.has_boot_partition = find_boot(site.reader(), &site.table).is_ok();
    let mut foreign = Vec::new();
    for partition in &site.table.partitions {
        site.job.gate.check_stop()?;
        let found = site.found.iter().find(|found| found.partition.number == partition.number);
        label(&mut survey.signs, partition, found);
        match found {
            None => {
                let name = name(partition);
                survey.signs.unread.push(format!("{name}, {:?}, has no known filesystem", printable(&partition.name)));
            }
            Some(found) if found.filesystem.kind == "iso9660" => {}
            Some(found) if is_readable(found.filesystem.kind) => survey_volume(site, found, scope, &mut survey),
            Some(found) => foreign.push(found),
        }
    }
    if needs_foreign(order, &survey.signs) {
        for found in foreign {
            site.job.gate.check_stop()?;
            survey_volume(site, found, scope, &mut survey);
        }
    }
    // A sign may lie there as well.
    let HandOffSurvey { unlisted, signs, .. } = &mut survey;
    unlisted.iter().for_each(|why| add_reason(&mut signs.unread, why.clone()));
    Ok(survey)
}

/// Whether the filesystems that only the kernel reads are looked into: where the form is not decided without them, or a
/// boot loader's file may lie on one whose arguments change in that form.
fn needs_foreign(order: &HandOffOrder, signs: &ImageEvidence) -> bool {
    let chosen = || form_detection::choose(signs, &order.offers, order.reader);
    match order.form {
        HandOffForm::Auto => {
            !signs.is_decided() || chosen().is_ok_and(|choice| is_some(&order.arguments_for(choice.form)))
        }
        form @ (HandOffForm::BootPartition
        | HandOffForm::KernelArguments
        | HandOffForm::ConfigDrive
        | HandOffForm::NoCloud) => is_some(&order.arguments_for(form)),
    }
}

pub(super) fn name(partition: &Partition) -> String {
    format!("partition {}", partition.number)
}

fn label(signs: &mut ImageEvidence, partition: &Partition, found: Option<&MountablePartition>) {
    let mut labels: Vec<String> = found.map(|found| printable(&found.filesystem.label)).into_iter().collect();
    labels.push(printable(&partition.name));
    labels.dedup();
    signs.labels.extend(labels.into_iter().filter(|label| !label.is_empty()).map(|label| (label, name(partition))));
}

fn survey_volume(site: &HandOffDisk<'_>, found: &MountablePartition, scope: SurveyScope, survey: &mut HandOffSurvey) {
    let kind = found.filesystem.kind;
    let volume = SurveyedVolume { place: found.place.clone(), kind, name: name(&found.partition) };
    if survey.volumes.len() == VOLUMES_MAX {
        survey.signs.unread.push(format!("{}: {VOLUMES_MAX} others were looked into", volume.name));
        return;
    }
    let looked = in_volume(site, &volume, |tree| {
        survey.volumes.push(volume.clone());
        files(tree, survey);
        if scope == SurveyScope::Signs {
            signs(tree, survey);
        }
        Ok(())
    });
    if let Err(error) = looked {
        let why = format!("{} ({kind}): {}", volume.name, reason(&error));
        if is_readable(kind) {
            // The boot loader may read what is not read here.
            add_reason(&mut survey.unlisted, why.clone());
        }
        survey.signs.unread.push(why);
    }
}

/// The boot loader's files of one filesystem, each once by whatever name.
fn files(tree: &VolumeTree<'_>, survey: &mut HandOffSurvey) {
    let volume = survey.volumes.len() - 1;
    let mut seen = Vec::new();
    let name = survey.volumes[volume].name.clone();
    let mut add = |kind: LoaderFileKind, path: String, unlisted: &mut Vec<String>| {
        let number = match tree.file(&path) {
            Ok(Some(number)) => number,
            Ok(None) => return,
            Err(error) => return add_reason(unlisted, format!("{} on {name}: {}", printable(&path), reason(&error))),
        };
        if seen.contains(&number) {
            return;
        }
        if let Some(why) = is_full(&survey.files) {
            return add_reason(unlisted, why);
        }
        seen.push(number);
        let read = tree.read(&path, FILE_BYTES_MAX + 1).unwrap_or_else(|error| {
            add_reason(unlisted, format!("{} on {name}: {}", printable(&path), reason(&error)));
            Vec::new()
        });
        let text = Some(read).filter(|read| read.len() as u64 <= FILE_BYTES_MAX);
        let text = text.and_then(|read| String::from_utf8(read).ok());
        survey.files.push(SurveyedLoaderFile { volume, kind, path, text });
    };
    let list = |path: &str, unlisted: &mut Vec<String>| {
        tree.names(path, NAMES_MAX).unwrap_or_else(|error| {
            add_reason(unlisted, format!("/{} on {name}: {}", printable(path), reason(&error)));
            Vec::new()
        })
    };
    let mut tops: Vec<String> = ROOTS.iter().flat_map(|root| [(*root).to_owned(), format!("{root}boot/")]).collect();
    tops.dedup();
    for top in &tops {
        for entry in list(&format!("{top}loader/entries"), &mut survey.unlisted) {
            if entry.ends_with(".conf") {
                add(LoaderFileKind::Entry, format!("{top}loader/entries/{entry}"), &mut survey.unlisted);
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
            add(LoaderFileKind::Script, format!("{grub}/grub.cfg"), &mut survey.unlisted);
            add(LoaderFileKind::Environment, format!("{grub}/grubenv"), &mut survey.unlisted);
        }
    }
}

/// Why no further file is read: what is read of a hostile image must leave room to clear its disk.
fn is_full(files: &[SurveyedLoaderFile]) -> Option<String> {
    if files.len() >= LOADER_FILES_MAX {
        return Some(format!("it has more than {LOADER_FILES_MAX} files of boot loaders"));
    }
    let bytes: usize = files.iter().filter_map(|file| file.text.as_ref()).map(String::len).sum();
    let most = TEXT_BYTES_MAX >> 20;
    (bytes >= TEXT_BYTES_MAX).then(|| format!("its files of boot loaders have more than {most} MiB together"))
}

/// Why something is not read, with all its causes; without letters that move a cursor.
fn reason(error: &anyhow::Error) -> String {
    format!("{error:#}").chars().filter(|letter| !letter.is_control()).take(REASON_CHARS_MAX).collect()
}

/// Adds a reason once, and not more than are shown.
fn add_reason(reasons: &mut Vec<String>, why: String) {
    if reasons.len() < HAND_OFF_WORDS_MAX && !reasons.contains(&why) {
        reasons.push(why);
    }
}

/// What one filesystem says of the form that its image wants.
fn signs(tree: &VolumeTree<'_>, survey: &mut HandOffSurvey) {
    let volume = survey.volumes.len() - 1;
    let own = survey.files.iter().filter(|file| file.volume == volume);
    for file in own {
        let place = survey.name_of(file);
        let text = file.text.as_deref().unwrap_or_default();
        match file.kind {
            LoaderFileKind::Entry => survey.signs.read_arguments(&place, bls::arguments_of(text)),
            LoaderFileKind::Script => {
                let words = grub::arguments_of_script(text);
                survey.signs.read_arguments(&place, words.iter().map(String::as_str));
            }
            LoaderFileKind::Environment => {
                let value = grubenv::get(text, bls::KERNELOPTS).ok().flatten().unwrap_or_default();
                survey.signs.read_arguments(&place, arguments::split_arguments(&value).unwrap_or_default());
            }
        }
    }
    let name = &survey.volumes[volume].name;
    match tree.file("ignition.firstboot") {
        Ok(found) => survey.signs.ignition.extend(found.map(|_| name.clone())),
        Err(error) => add_reason(&mut survey.signs.unread, format!("ignition.firstboot on {name}: {}", reason(&error))),
    }
    for root in ROOTS {
        if let Some(cloud_init) = cloud_init(tree, root, name, &mut survey.signs.unread) {
            survey.signs.cloud_init.push(cloud_init);
        }
    }
}

/// cloud-init's configuration below one root: its main file, then those of its folder by name. What is not read to its
/// end is no sign: the sources may be others.
fn cloud_init(tree: &VolumeTree<'_>, root: &str, volume: &str, unread: &mut Vec<String>) -> Option<CloudInit> {
    let main = format!("{root}etc/cloud/cloud.cfg");
    match cloud_init_at(tree, &main) {
        Ok(sources) => Some(CloudInit { place: format!("{main} on {volume}"), sources: sources? }),
        Err(error) => {
            add_reason(unread, format!("cloud-init in {main} on {volume}: {}", reason(&error)));
            None
        }
    }
}

/// The sources that it names; `None` where it is not there.
fn cloud_init_at(tree: &VolumeTree<'_>, main: &str) -> anyhow::Result<Option<Vec<String>>> {
    if tree.file(main)?.is_none() {
        return Ok(None);
    }
    let parts = tree.names(&format!("{main}.d"), NAMES_MAX)?;
    let parts = parts.into_iter().filter(|name| name.ends_with(".cfg")).map(|name| format!("{main}.d/{name}"));
    let mut sources = Vec::new();
    for path in std::iter::once(main.to_owned()).chain(parts) {
        // A link may lead nowhere.
        if tree.file(&path)?.is_none() {
            continue;
        }
        let text = String::from_utf8(tree.read(&path, FILE_BYTES_MAX)?).ok();
        // A later file's list replaces an earlier one's.
        if let Some(list) = text.and_then(|text| cloud_sources(&text)) {
            sources = list;
        }
    }
    Ok(Some(sources))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::fs;

    use firesteel_host::PartitionPlace;
    use firesteel_os::confined_folder::Folder;

    use super::*;
    use crate::{filesystem::tests::MemoryDisk, forms::fat::build};

    /// The files of a filesystem with these entries, each of as many bytes.
    fn with_entries(count: usize, bytes: usize) -> HandOffSurvey {
        let root = tempfile::tempdir().unwrap();
        let entries = root.path().join("loader/entries");
        fs::create_dir_all(&entries).unwrap();
        (0..count).for_each(|number| fs::write(entries.join(format!("{number}.conf")), "#".repeat(bytes)).unwrap());
        let place = PartitionPlace { number: 2, offset_bytes: 0, size_bytes: 0 };
        let volume = SurveyedVolume { place, kind: "xfs", name: "partition 2".into() };
        let mut survey = HandOffSurvey { volumes: vec![volume], ..HandOffSurvey::default() };
        files(&VolumeTree::Mounted(&Folder::open(root.path()).unwrap()), &mut survey);
        survey
    }

    /// An image may have a thousand entries of a MiB in each of its folders.
    #[test]
    fn no_more_is_read_than_has_room_and_that_is_told_once() {
        let survey = with_entries(LOADER_FILES_MAX, 10);
        assert_eq!((survey.files.len(), survey.unlisted.len()), (LOADER_FILES_MAX, 0));
        let survey = with_entries(LOADER_FILES_MAX + 5, 10);
        assert_eq!(survey.files.len(), LOADER_FILES_MAX);
        assert_eq!(survey.unlisted, ["it has more than 128 files of boot loaders"]);
        let survey = with_entries(20, 1 << 20);
        assert_eq!(survey.files.len(), 16);
        assert_eq!(survey.unlisted, ["its files of boot loaders have more than 16 MiB together"]);
    }

    /// A list of sources in a file that cannot be read would replace those before it.
    #[test]
    fn cloud_init_that_is_not_read_to_its_end_is_no_sign() {
        let look = |volume: Vec<u8>| {
            let disk = MemoryDisk::new(volume);
            let tree = VolumeTree::Read(disk.open("vfat").unwrap());
            let mut unread = Vec::new();
            (cloud_init(&tree, "", "partition 1", &mut unread), unread)
        };
        let part = format!("datasource_list: [ NoCloud ]\n{}", "#".repeat(600));
        let files: [(&str, &[u8]); 2] =
            [("etc/cloud/cloud.cfg", b"users: [default]\n"), ("etc/cloud/cloud.cfg.d/90.cfg", part.as_bytes())];
        let bytes = 9 << 20;
        let mut volume = build("ROOT", 1, bytes, 512, &files).unwrap().bytes;
        volume.resize(usize::try_from(bytes).unwrap(), 0);
        let (found, unread) = look(volume.clone());
        assert_eq!((found.unwrap().sources, unread), (vec!["NoCloud".to_owned()], Vec::new()));
        // The only file of two clusters has one.
        for next in volume[512 + 4..2 * 512].chunks_exact_mut(2).filter(|next| **next != [0xff, 0xff]) {
            next.fill(0);
        }
        let (found, unread) = look(volume);
        assert!(
            found.is_none() && unread[0].starts_with("cloud-init in etc/cloud/cloud.cfg on partition 1"),
            "{unread:?}"
        );
    }

    #[test]
    fn reasons_are_bounded_too() {
        let mut reasons = Vec::new();
        (0..10_000).for_each(|number| add_reason(&mut reasons, format!("{number} cannot be read")));
        assert_eq!(reasons.len(), HAND_OFF_WORDS_MAX);
    }
}
