//! Hands the first configuration to the system on the disk just written, in the form that it reads, and reads it back
//! from the medium.
//!
//! ```text
//! order (checked) ─► site (the disk, held) ─► survey, where the form is to be recognised or arguments change
//!   ─► boot | drive ─► loader (kernel arguments) ─► evidence
//! ```
//!
//! Everything happens on that disk and nowhere else; others are only looked at, for a volume that the system could take
//! for the one made here. Its filesystems come out of an image. The survey reads them without the kernel where it can
//! ([`crate::filesystem`]). The kernel mounts the one that is written to, and those that nothing else reads, without
//! devices, set-user-id and programs, each for as long as it takes, and only on a disk whose image this plan has read
//! back. Links in them lead nowhere but into the same filesystem. What fails leaves a disk that boots nothing.

mod boot;
mod drive;
mod elsewhere;
mod loader;
mod mounted;
mod order;
mod survey;
mod tree;
mod written_disk;

use std::path::Path;

use anyhow::{anyhow, bail};
use firesteel_images::write::{ExclusiveDisk, Unattended, metadata};
use firesteel_wire::hand_off::{Forms, HandOffForm};
use firesteel_wire::limits::HAND_OFF_WORDS_MAX;
use firesteel_wire::receipt::FileReadBack;
use firesteel_wire::{DiskIdentity, Evidence, HandOffFile, PlanStep};

use order::HandOffOrder;
use survey::HandOffSurvey;
use written_disk::HandOffDisk;

use super::{StepContext, StepFailure, chain};
use crate::forms::form_detection::{self, CONFIG_DRIVE, Choice, NO_CLOUD};

/// Where files are now, as read back.
struct HandOffReadBack {
    device: String,
    filesystem: String,
    files: Vec<FileReadBack>,
}

pub(super) fn run(
    job: &StepContext<'_>,
    wanted: &DiskIdentity,
    files: &[HandOffFile],
    forms: Option<&Forms>,
) -> Result<Evidence, StepFailure> {
    let order = HandOffOrder::read(files, forms).map_err(StepFailure::without_disk_change)?;
    check_written(job, wanted).map_err(StepFailure::without_disk_change)?;
    let (disk, device) = job.open(wanted)?;
    hand_over(job, wanted, disk.device.as_ref(), device, &order, forms.is_some())
        .map_err(|error| StepFailure { error: format!("{error:#}; {}", clear(job, wanted)), disk_changed: true })
}

fn hand_over(
    job: &StepContext<'_>,
    wanted: &DiskIdentity,
    disk: &Path,
    device: ExclusiveDisk,
    order: &HandOffOrder,
    is_typed: bool,
) -> anyhow::Result<Evidence> {
    job.board.disk_changes(job.index);
    let site = HandOffDisk::new(job, wanted, disk, device)?;
    let survey = survey::survey_disk(&site, order)?;
    let Choice { form, mut recognised, mut warnings } = choose(order, &survey)?;
    recognised.iter().for_each(|sign| tracing::info!("{form}, recognised by {sign}"));
    let done = match (form, &order.config_drive, &order.no_cloud) {
        (HandOffForm::BootPartition, ..) => Some(boot::hand_over(&site, &order.boot)?),
        (HandOffForm::ConfigDrive, Some(drive), _) => Some(drive::hand_over(&site, CONFIG_DRIVE, drive)?),
        (HandOffForm::NoCloud, _, Some(drive)) => Some(drive::hand_over(&site, NO_CLOUD, drive)?),
        (HandOffForm::KernelArguments, ..) => None,
        (HandOffForm::Auto | HandOffForm::ConfigDrive | HandOffForm::NoCloud, ..) => {
            bail!("the plan has nothing for {form}")
        }
    };
    let label = match form {
        HandOffForm::ConfigDrive => Some(CONFIG_DRIVE),
        HandOffForm::NoCloud => Some(NO_CLOUD),
        HandOffForm::Auto | HandOffForm::BootPartition | HandOffForm::KernelArguments => None,
    };
    warnings.extend(label.into_iter().flat_map(|label| elsewhere::warnings(&site, label)));
    let arguments = order.arguments_for(form);
    let mut loader = Vec::new();
    if order::is_some(&arguments) {
        let handed = loader::hand_over(&site, &survey, form, &arguments)?;
        warnings.extend(handed.warnings);
        loader = handed.files;
    }
    warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    for words in [&mut recognised, &mut warnings] {
        words.truncate(HAND_OFF_WORDS_MAX);
    }
    // Arguments alone have their files with the boot loader's.
    let of_loader = loader.first().map(|first| HandOffReadBack {
        device: first.device.clone(),
        filesystem: first.filesystem.clone(),
        files: Vec::new(),
    });
    let done = done.or(of_loader).ok_or_else(|| anyhow!("the hand-off has no kernel arguments to set"))?;
    let HandOffReadBack { device, filesystem, files } = done;
    let (disk, form) = (wanted.clone(), is_typed.then_some(form));
    Ok(Evidence::FilesHandedOff { disk, device, filesystem, files, form, recognised, warnings, loader })
}

/// Steps before this one have reached their ends: what one of them wrote was read back.
fn check_written(job: &StepContext<'_>, wanted: &DiskIdentity) -> anyhow::Result<()> {
    let before = usize::try_from(job.index).unwrap_or(usize::MAX);
    let writes = |step: &PlanStep| matches!(step, PlanStep::WriteImage { disk, .. } if disk == wanted);
    if job.steps.iter().take(before).any(writes) {
        return Ok(());
    }
    bail!(
        "no step of the plan before this one wrote {wanted}, so that what is on it was not read back: its filesystems \
         are not mounted. Install the host again"
    )
}

fn choose(order: &HandOffOrder, survey: &HandOffSurvey) -> anyhow::Result<Choice> {
    match order.form {
        HandOffForm::Auto => Ok(form_detection::choose(&survey.signs, &order.offers, order.reader)?),
        form @ (HandOffForm::BootPartition
        | HandOffForm::KernelArguments
        | HandOffForm::ConfigDrive
        | HandOffForm::NoCloud) => Ok(Choice { form, recognised: Vec::new(), warnings: Vec::new() }),
    }
}

/// An installation without its configuration must not boot. Says what became of the disk.
fn clear(job: &StepContext<'_>, wanted: &DiskIdentity) -> String {
    let cleared = job
        .open(wanted)
        .map_err(|failure| failure.error)
        .and_then(|(_, device)| metadata::clear(&device, &Unattended).map_err(|error| chain(&error)));
    match cleared {
        Ok(_) => "the disk's partition tables are cleared, it boots nothing".to_owned(),
        Err(why) => format!("clearing the disk's partition tables failed ({why})"),
    }
}
