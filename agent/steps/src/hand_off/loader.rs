//! Kernel arguments through the installed boot loader: entries, scripts and environment blocks are changed where they
//! lie. Nothing of the image is executed; a file that need not change is not written.

use std::{collections::BTreeSet, path::Path};

use anyhow::{Context, anyhow, bail};
use firesteel_wire::hand_off::{HandOffForm, KernelArgumentEdit, LoaderFile as Changed, name_of};

use super::boot::{digest, explain};
use super::mounted::within;
use super::survey::{HandOffSurvey, LoaderFileKind, SurveyedLoaderFile};
use super::tree::{SurveyedVolume, VolumeTree, in_volume};
use super::written_disk::HandOffDisk;
use crate::forms::bls::{self, Environment, KERNELOPTS};
use crate::forms::{Edited, LoaderError, arguments, grub, grubenv};

/// What was done.
pub(super) struct LoaderChanges {
    pub(super) files: Vec<Changed>,
    pub(super) warnings: Vec<String>,
}

/// The new text of one file, by its place in the survey.
struct RewrittenLoaderFile {
    file: usize,
    text: String,
    command_lines: usize,
}

pub(super) fn hand_over(
    site: &HandOffDisk<'_>,
    survey: &HandOffSurvey,
    form: HandOffForm,
    wanted: &KernelArgumentEdit,
) -> anyhow::Result<LoaderChanges> {
    let (news, mut warnings) = edit(survey, wanted)?;
    warnings.extend(of_sealed(survey, form)?);
    let mut files = Vec::new();
    for (index, volume) in survey.volumes.iter().enumerate() {
        let own: Vec<&RewrittenLoaderFile> = news.iter().filter(|new| survey.files[new.file].volume == index).collect();
        if own.is_empty() {
            continue;
        }
        let changed: Vec<&RewrittenLoaderFile> = own.iter().copied().filter(|new| is_changed(survey, new)).collect();
        let device = site.job.host.partition_device(&site.disk, &volume.place)?;
        files.extend(if changed.is_empty() {
            // Nothing is written there, so the kernel need not mount it.
            in_volume(site, volume, |tree| read_back(tree, survey, &own, &device))?
        } else {
            change(site, survey, volume, &device, &changed)?;
            within(site.job.host, &device, volume.kind, true, |folder| {
                read_back(&VolumeTree::Mounted(folder), survey, &own, &device)
            })?
        });
    }
    Ok(LoaderChanges { files, warnings })
}

/// Puts the new texts there, down to the medium. What the kernel finds in a file must be what was read before: the
/// filesystem of an image may be made so that its readers understand it differently.
fn change(
    site: &HandOffDisk<'_>,
    survey: &HandOffSurvey,
    volume: &SurveyedVolume,
    device: &Path,
    changed: &[&RewrittenLoaderFile],
) -> anyhow::Result<()> {
    tracing::info!("kernel arguments change in {} files on {}", changed.len(), device.display());
    within(site.job.host, device, volume.kind, false, |folder| {
        for new in changed {
            let file = &survey.files[new.file];
            let (path, old) = (&file.path, text_of(survey, file)?);
            let found = folder.read_inside(path, old.len() as u64 + 1).with_context(|| format!("reading {path}"))?;
            if found != old.as_bytes() {
                bail!(
                    "{} has another content for the kernel than what was read before: its filesystem was not unmounted \
                     cleanly, is damaged, or is made to mislead. Use another image",
                    survey.name_of(file)
                );
            }
            folder
                .replace(path, new.text.as_bytes())
                .map_err(|error| explain(error, folder, &volume.name, path, new.text.len()))?;
        }
        folder.sync().with_context(|| format!("writing out {}", volume.name))
    })?;
    site.job.board.activity(site.job.index, "reading back");
    site.job.host.forget_cache(device)
}

fn read_back(
    tree: &VolumeTree<'_>,
    survey: &HandOffSurvey,
    news: &[&RewrittenLoaderFile],
    device: &Path,
) -> anyhow::Result<Vec<Changed>> {
    let one = |new: &&RewrittenLoaderFile| {
        let file = &survey.files[new.file];
        let read = tree.read(&file.path, new.text.len() as u64 + 1).context("reading back")?;
        Ok(Changed {
            device: device.to_string_lossy().into_owned(),
            filesystem: survey.volumes[file.volume].kind.to_owned(),
            file: digest(&file.path, &read, new.text.as_bytes())?,
            changed: is_changed(survey, new),
        })
    };
    news.iter().map(one).collect()
}

fn is_changed(survey: &HandOffSurvey, new: &RewrittenLoaderFile) -> bool {
    survey.files[new.file].text.as_deref() != Some(new.text.as_str())
}

/// A unified kernel image has its arguments sealed in it, and a boot loader may start it beside its entries. Where the
/// configuration is found by the arguments alone, the host would then come up without it.
fn of_sealed(survey: &HandOffSurvey, form: HandOffForm) -> anyhow::Result<Option<String>> {
    if survey.sealed.is_empty() {
        return Ok(None);
    }
    let sealed = format!("{} has unified kernel images, whose arguments are sealed", survey.sealed.join(", "));
    match form {
        HandOffForm::KernelArguments => bail!(
            "{sealed}: if the boot loader starts one of them, the configuration is not found. Name another form by the \
             annotation firesteel.dev/hand-off, or use an image without them"
        ),
        HandOffForm::Auto | HandOffForm::BootPartition | HandOffForm::ConfigDrive | HandOffForm::NoCloud => {
            Ok(Some(format!("{sealed}: that the kernel which starts has the wanted ones is unverified")))
        }
    }
}

/// All files with their new texts. Pure but for what the survey read.
fn edit(
    survey: &HandOffSurvey,
    wanted: &KernelArgumentEdit,
) -> anyhow::Result<(Vec<RewrittenLoaderFile>, Vec<String>)> {
    if !survey.unlisted.is_empty() {
        bail!(
            "what the image has of boot loaders cannot be listed, so that some may be left as they are: {}",
            survey.unlisted.join("; ")
        );
    }
    let mut warnings = Vec::new();
    let mut news = Vec::new();
    let kernelopts = environment(survey, wanted, &mut news, &mut warnings)?;
    let has_default = blocks(survey)
        .any(|(_, _, text)| matches!(grubenv::get(text, bls::DEFAULT_KERNELOPTS), Ok(Some(_))))
        || survey.files.iter().any(|file| {
            file.kind == LoaderFileKind::Script
                && text_of(survey, file).is_ok_and(|text| text.contains(bls::DEFAULT_KERNELOPTS))
        });
    let words = kernelopts.as_deref().map(|value| arguments::split_arguments(value).unwrap_or_default());
    let has_grub =
        survey.files.iter().any(|file| matches!(file.kind, LoaderFileKind::Script | LoaderFileKind::Environment));
    let environment = Environment { kernelopts: words, has_default, has_grub };
    let mut unknown = BTreeSet::new();
    for (index, file) in survey.files.iter().enumerate() {
        let edited = match file.kind {
            LoaderFileKind::Environment => continue,
            LoaderFileKind::Entry => bls::edit(text_of(survey, file)?, &environment, wanted),
            LoaderFileKind::Script => grub::edit(text_of(survey, file)?, wanted),
        };
        let edited = edited.map_err(|error| named(survey, file, error))?;
        let place = survey.name_of(file);
        warn_of_edits(&edited, &place, &mut warnings);
        unknown.extend(edited.variables.iter().cloned());
        if edited.command_lines > 0 {
            news.push(RewrittenLoaderFile { file: index, text: edited.text, command_lines: edited.command_lines });
        }
    }
    if news.iter().all(|new| new.command_lines == 0) {
        return Err(nothing(survey));
    }
    if !wanted.delete.is_empty() && !unknown.is_empty() {
        let names: Vec<&str> = wanted.delete.iter().map(|argument| name_of(argument)).collect();
        let variables: Vec<String> =
            unknown.iter().map(|name| format!("${}", crate::forms::form_detection::printable(name))).collect();
        warnings.push(format!(
            "command lines take arguments from {}, which are not looked into: that {} stands there no more is unverified",
            variables.join(", "),
            names.join(", ")
        ));
    }
    Ok((news, warnings))
}

/// Changes `kernelopts`, where entries take their arguments from it. Says what it is then, if there is one.
fn environment(
    survey: &HandOffSurvey,
    wanted: &KernelArgumentEdit,
    news: &mut Vec<RewrittenLoaderFile>,
    warnings: &mut Vec<String>,
) -> anyhow::Result<Option<String>> {
    let is_used = survey.files.iter().filter(|file| file.kind == LoaderFileKind::Entry).any(|file| {
        let text = file.text.as_deref().unwrap_or_default();
        bls::arguments_of(text).into_iter().any(|word| arguments::variable(word) == Some(KERNELOPTS))
    });
    if !is_used {
        return Ok(None);
    }
    let mut values = Vec::new();
    for (index, file, text) in blocks(survey) {
        let value = grubenv::get(text, KERNELOPTS).map_err(|error| named(survey, file, error))?;
        values.extend(value.map(|value| (index, file, text, value)));
    }
    let [(index, file, text, value)] = values.as_slice() else {
        if values.len() > 1 {
            warnings.push(format!(
                "{KERNELOPTS} stands in {} environment blocks; they were left as they are",
                values.len()
            ));
        }
        return Ok(None);
    };
    let changed = |wanted: &KernelArgumentEdit| -> Result<(String, String), LoaderError> {
        let unended = LoaderError::Environment { what: "a quotation mark in kernelopts has no end" };
        let words = arguments::split_arguments(value).ok_or(unended)?;
        let change = arguments::change(&words, &[], wanted);
        if change.remove.is_empty() && change.add.is_empty() {
            return Ok((value.clone(), (*text).to_owned()));
        }
        arguments::check_unquoted(&change.add)?;
        let kept = words.iter().enumerate().filter(|(place, _)| !change.remove.contains(place)).map(|(_, word)| *word);
        let value = kept.chain(change.add.iter().map(String::as_str)).collect::<Vec<_>>().join(" ");
        let text = grubenv::set(text, KERNELOPTS, &value)?;
        Ok((value, text))
    };
    let (value, text) = match changed(wanted) {
        // What has no room there goes to the entries themselves.
        Err(LoaderError::EnvironmentFull { bytes, needed }) => {
            let place = survey.name_of(file);
            warnings.push(format!(
                "{place} has {bytes} bytes and {needed} are needed: each entry has the arguments itself"
            ));
            changed(&KernelArgumentEdit { append: Vec::new(), delete: wanted.delete.clone() })
        }
        done => done,
    }
    .map_err(|error| named(survey, file, error))?;
    news.push(RewrittenLoaderFile { file: *index, text, command_lines: 0 });
    Ok(Some(value))
}

/// The environment blocks that are text.
fn blocks(survey: &HandOffSurvey) -> impl Iterator<Item = (usize, &SurveyedLoaderFile, &str)> {
    let blocks = survey.files.iter().enumerate().filter(|(_, file)| file.kind == LoaderFileKind::Environment);
    blocks.filter_map(|(index, file)| Some((index, file, file.text.as_deref()?)))
}

fn text_of<'a>(survey: &HandOffSurvey, file: &'a SurveyedLoaderFile) -> anyhow::Result<&'a str> {
    let place = || anyhow!("{} is no text that a boot loader reads, or too large to be one", survey.name_of(file));
    file.text.as_deref().ok_or_else(place)
}

fn named(survey: &HandOffSurvey, file: &SurveyedLoaderFile, error: LoaderError) -> anyhow::Error {
    anyhow::Error::new(error).context(survey.name_of(file))
}

fn warn_of_edits(edited: &Edited, place: &str, warnings: &mut Vec<String>) {
    warnings.extend(edited.left.iter().map(|left| format!("{place}: {left}")));
    if !edited.repeated.is_empty() {
        let names: Vec<String> =
            edited.repeated.iter().map(|name| crate::forms::form_detection::printable(name)).collect();
        warnings.push(format!("{place}: {} stands more than once, and stays so", names.join(", ")));
    }
}

fn nothing(survey: &HandOffSurvey) -> anyhow::Error {
    let looked: Vec<&str> = survey.volumes.iter().map(|volume| volume.name.as_str()).collect();
    let mut error = format!(
        "the image has no boot loader whose kernel arguments can be changed: neither an entry (loader/entries/*.conf) \
         nor a grub.cfg that starts a kernel was found on {}",
        if looked.is_empty() { "any partition".to_owned() } else { looked.join(", ") }
    );
    if !survey.sealed.is_empty() {
        error = format!("{error}; {} has unified kernel images, whose arguments are sealed", survey.sealed.join(", "));
    }
    if !survey.signs.unread.is_empty() {
        error = format!("{error}; not looked into: {}", survey.signs.unread.join("; "));
    }
    anyhow!(
        "{error}. Name another form by the annotation firesteel.dev/hand-off, or use an image with its arguments in it"
    )
}
