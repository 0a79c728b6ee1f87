//! What must be right before anything is destroyed: the image is here and has its checksum, the
//! user data is a config that Ignition takes, and one disk is named. None of it touches the host.

use firesteel_facts::shown_url;
use firesteel_resources::bare_metal_host::ErrorType;
use firesteel_resources::bare_metal_host::image_form::unwritable;
use firesteel_resources::{Image, RootDeviceHints};
use jiff::{SignedDuration, Timestamp};

use crate::disk::{names_kernel_device, select_disk, size_text};
use crate::host::model::{DiskPlan, HostEffect, HostReason, ImageInputs, ReadyImage, UserDataInputs};
use crate::host::rules::{bmc_only, freeze, guards, path_binding};
use crate::host::turn::{StepDraft, format_duration, later};

const KIND: ErrorType = ErrorType::Provisioning;

/// Asks for the wanted image early: by the time that the host is inspected it may be here.
pub(crate) fn prefetch(turn: &mut StepDraft<'_>) {
    let Some(image) = fetchable(turn) else { return };
    if turn.seen.image == ImageInputs::Unknown && !turn.is_deleting() {
        turn.effect(HostEffect::FetchImage { image: image.clone() });
    }
}

/// An image that could not be used may have been put right where it comes from.
pub(crate) fn fetch_again(turn: &mut StepDraft<'_>) {
    let Some(image) = fetchable(turn) else { return };
    if matches!(turn.seen.image, ImageInputs::Failed { .. }) {
        turn.effect(HostEffect::FetchImage { image: image.clone() });
    }
}

fn fetchable<'a>(turn: &StepDraft<'a>) -> Option<&'a Image> {
    let has_use = bmc_only::cause(&turn.memory, turn.seen, turn.now).is_none();
    turn.seen.host.spec.wanted_image().filter(|image| has_use && unwritable(image).is_none())
}

/// An image that upstream's rules allow and nothing here writes is an error before anything is done for it. `instead`
/// says how the host stays.
pub(crate) fn writable(turn: &mut StepDraft<'_>, wanted: &Image, instead: &str) -> Result<(), HostReason> {
    match unwritable(wanted) {
        None => Ok(()),
        Some((field, why)) => Err(turn.stuck(KIND, format!("{field}: {why}; {instead}"))),
    }
}

/// The image in the store, or why it is not there.
pub(crate) fn image(turn: &mut StepDraft<'_>, wanted: &Image) -> Result<ReadyImage, HostReason> {
    writable(turn, wanted, "nothing was written")?;
    let poll = turn.limits().secret_retry;
    let url = shown_url(&wanted.url);
    match turn.seen.image.clone() {
        ImageInputs::Ready(image) => Ok(image),
        ImageInputs::Unknown => {
            turn.effect(HostEffect::FetchImage { image: wanted.clone() });
            turn.deadline(later(turn.now, turn.limits().image_stall));
            Err(turn.wait_in_state(poll, format!("fetching the image {url}")))
        }
        ImageInputs::Waiting { ahead, moved_at } => {
            let text = format!("waiting to fetch the image {url}: {ahead} other images come before it");
            Err(await_image(turn, text, moved_at, turn.limits().image_queue, "none of them ended"))
        }
        ImageInputs::Fetching { done_bytes, total_bytes, progress_at } => {
            let of = total_bytes.map(|total| format!(" of {}", size_text(total))).unwrap_or_default();
            let text = format!("fetching the image {url}: {}{of}", size_text(done_bytes));
            Err(await_image(turn, text, progress_at, turn.limits().image_stall, "nothing received"))
        }
        ImageInputs::Failed { .. } if turn.requests.retry => {
            turn.deadline(later(turn.now, turn.limits().image_stall));
            Err(turn.wait_in_state(poll, format!("fetching the image {url} again")))
        }
        ImageInputs::Failed { message, permanent: true, .. } => {
            Err(turn.stuck(KIND, format!("the image {url} cannot be used: {message}")))
        }
        ImageInputs::Failed { message, permanent: false, at } => {
            let counted = turn.memory.failure.as_ref().is_some_and(|failure| failure.kind == KIND && failure.at >= at);
            if !counted {
                return Err(turn.fail(KIND, format!("the image {url} could not be fetched: {message}")));
            }
            turn.may_try()?;
            turn.effect(HostEffect::FetchImage { image: wanted.clone() });
            turn.deadline(later(turn.now, turn.limits().image_stall));
            Err(turn.wait_in_state(poll, format!("fetching the image {url} again")))
        }
    }
}

/// Waits for an image; shows an obstacle where nothing has moved for longer than the limit.
#[track_caller]
fn await_image(
    turn: &mut StepDraft<'_>,
    text: String,
    moved_at: Timestamp,
    limit: SignedDuration,
    standstill: &str,
) -> HostReason {
    let poll = turn.limits().secret_retry;
    let still = turn.now.duration_since(moved_at);
    if still > limit {
        turn.deadline(later(turn.now, limit));
        return turn.blocked(KIND, poll, format!("{text}; {standstill} for {}", format_duration(still)));
    }
    turn.deadline(later(moved_at, limit));
    turn.wait_in_state(poll, text)
}

/// Digest of the user data, and the configs of this appliance that it fetches.
pub(crate) fn user_data(turn: &mut StepDraft<'_>) -> Result<(Option<String>, Vec<String>), HostReason> {
    let secret = turn.seen.host.spec.user_data.as_ref().map(|reference| reference.name.clone()).unwrap_or_default();
    match turn.seen.user_data.clone() {
        UserDataInputs::NotReferenced => Ok((None, Vec::new())),
        UserDataInputs::Ready { sha256, configs } => Ok((Some(sha256), configs)),
        UserDataInputs::Missing => {
            let wake = turn.limits().secret_retry;
            Err(turn.blocked(KIND, wake, format!("Secret {secret} with the key userData does not exist: create it")))
        }
        UserDataInputs::Invalid(text) => {
            Err(turn.stuck(KIND, format!("the OS cannot be handed its configuration: {text}")))
        }
    }
}

/// Whether the newest inspection says enough about the disks to choose one now.
pub(crate) fn inspection_is_fresh(turn: &StepDraft<'_>) -> bool {
    let Some(record) = &turn.seen.hardware else { return false };
    if freeze::needs_mark_check(turn) || guards::is_outdated(&turn.memory, record) {
        return false;
    }
    if turn.memory.retried_at.is_some_and(|at| record.inspected_at <= at) {
        return false;
    }
    if record.attempt == turn.memory.attempt {
        return true;
    }
    if turn.memory.provision_failures > 0 {
        // What failed may have failed because another boot is not like that one: in its firmware's mode, say.
        return false;
    }
    let hints = hints(turn);
    // In another boot another disk may have the name, or stand in the place.
    let is_by_path = select_disk(&hints, &record.disks).is_ok_and(|choice| choice.disk.is_by_path());
    !names_kernel_device(&hints)
        && !is_by_path
        && turn.now.duration_since(record.inspected_at) <= turn.limits().inspection_fresh
}

/// Names the one disk that will be written, in the memory and so in the status, or says for each
/// disk why not.
pub(crate) fn disk(turn: &mut StepDraft<'_>, image: &ReadyImage) -> Result<DiskPlan, HostReason> {
    let hints = hints(turn);
    let Some(record) = &turn.seen.hardware else {
        return Err(turn.blocked(KIND, turn.limits().secret_retry, "no inspection of the host is stored"));
    };
    let choice = match select_disk(&hints, &record.disks) {
        Ok(choice) => choice,
        Err(error) => {
            let help = "correct spec.rootDeviceHints, or the host's disks and run `firesteel retry`";
            return Err(turn.stuck(KIND, format!("no disk can be chosen: {error}; {help}")));
        }
    };
    if let Some(bound) = path_binding::bound(&turn.memory, &choice) {
        let help = "`firesteel retry` binds the path to the disk that is there now";
        let text = format!("{} is not the disk that was installed at its path ({bound}); {help}", choice.disk);
        return Err(guards::refuse(turn, KIND, format!("nothing was written: {text}")));
    }
    if choice.disk.size_bytes < image.raw_bytes {
        let (has, needs) = (choice.disk.size_bytes, image.raw_bytes);
        let help = "use a smaller image, or name a larger disk in spec.rootDeviceHints";
        let disk = format!("the disk {} ({})", choice.device, choice.disk);
        let text = format!("{disk} has {has} bytes and is smaller than the image, which has {needs}; {help}");
        return Err(turn.stuck(KIND, text));
    }
    let same = turn.memory.disk.as_ref().filter(|old| old.choice == choice && old.hints == hints);
    let plan =
        DiskPlan { choice, inspected_in: record.attempt, chosen_at: same.map_or(turn.now, |old| old.chosen_at), hints };
    turn.memory.disk = Some(plan.clone());
    Ok(plan)
}

fn hints(turn: &StepDraft<'_>) -> RootDeviceHints {
    turn.seen.host.spec.root_device_hints.clone().unwrap_or_default()
}
