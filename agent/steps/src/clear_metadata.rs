//! Clear both partition tables and the old signatures of one disk.

use firesteel_images::write::metadata;
use firesteel_wire::Evidence;

use super::guard::{DestructiveTarget, GuardedDisk};
use super::{StepContext, StepFailure, WriteMonitor, chain};

pub(super) fn run(job: &StepContext<'_>, guarded: &DestructiveTarget<'_>) -> Result<Evidence, StepFailure> {
    let GuardedDisk { disk, device, overridden } = job.open_guarded(guarded)?;
    let wanted = guarded.disk;
    tracing::info!("the clearing of {} ({wanted}) begins", disk.device);
    let watch = WriteMonitor::new(job);
    let cleared = metadata::clear(&device, &watch)
        .map_err(|error| StepFailure { error: chain(&error), disk_changed: watch.passed() })?;
    // Old partitions must not stay visible to anything that looks for them later.
    job.host
        .reread_partitions(&device)
        .map_err(|error| StepFailure { error: format!("{error:#}"), disk_changed: true })?;
    Ok(Evidence::MetadataCleared {
        disk: wanted.clone(),
        device: disk.device,
        cleared: cleared.found.iter().map(ToString::to_string).collect(),
        verified_bytes: cleared.verified_bytes,
        overridden,
    })
}
