//! Writes the image. The order of the write, and all proof, is the image writer's; this step brings the disk, the
//! stream and the plan's promises together.

use std::time::Duration;

use anyhow::Context;
use firesteel_images::http::{Download, DownloadLimits, HttpReader};
use firesteel_images::write::{
    DiskState, SourceError, WriteError, WriteEvidence, WriteFailure, WriteSpec, write_image,
};
use firesteel_wire::{DiskIdentity, Evidence, ImageStream};

use super::guard::{DestructiveTarget, GuardedDisk};
use super::{StepContext, StepFailure, WriteMonitor, chain};
use crate::bytes_text;

/// Tries in a row without a byte before the download is given up: with the pause below these are
/// about three minutes, in which an appliance restarts.
const ATTEMPTS_MAX: u32 = 11;
const FIRST_PAUSE: Duration = Duration::from_millis(200);

pub(super) fn run(
    job: &StepContext<'_>,
    guarded: &DestructiveTarget<'_>,
    image: &ImageStream,
    disk_guid: &str,
) -> Result<Evidence, StepFailure> {
    let spec = spec(image, disk_guid).map_err(StepFailure::without_disk_change)?;
    let source = source(job, image).map_err(StepFailure::without_disk_change)?;
    let GuardedDisk { disk, device, overridden } = job.open_guarded(guarded)?;
    let wanted = guarded.disk;
    tracing::info!("the write of {} to {} ({wanted}) begins", bytes_text(image.raw_bytes), disk.device);
    let watch = WriteMonitor::new(job);
    let written = write_image(source, &device, &spec, &watch).map_err(|error| failure(&error))?;
    job.host
        .reread_partitions(&device)
        .map_err(|error| StepFailure { error: format!("{error:#}"), disk_changed: true })?;
    tracing::info!(
        "written in {:.1} s, read back and compared in {:.1} s",
        written.write.as_secs_f64(),
        written.readback.as_secs_f64()
    );
    Ok(evidence(wanted, disk.device, disk_guid, &written, overridden))
}

fn spec(image: &ImageStream, disk_guid: &str) -> anyhow::Result<WriteSpec> {
    Ok(WriteSpec {
        raw_bytes: image.raw_bytes,
        raw_sha256: image.raw_sha256.parse().context("reading the plan's digest of the raw image")?,
        stream_bytes: image.stream_bytes,
        stream_sha256: image.stream_sha256.parse().context("reading the plan's digest of the stream")?,
        disk_guid: disk_guid.parse().context("reading the plan's disk GUID")?,
    })
}

fn source(job: &StepContext<'_>, image: &ImageStream) -> anyhow::Result<HttpReader> {
    let url = reqwest::Url::parse(&image.url).context("reading the image's address")?;
    if url.host_str() != Some(job.appliance) {
        anyhow::bail!("the image is not on the appliance ({}), so it is not fetched: {url}", job.appliance);
    }
    let limits = DownloadLimits {
        bytes_max: image.stream_bytes,
        attempts_max: ATTEMPTS_MAX,
        pause: FIRST_PAUSE,
        ..DownloadLimits::default()
    };
    let download = Download::new(job.http.clone(), url.as_str(), limits, Some(image.stream_bytes), true)?;
    HttpReader::new(download).context("starting the download")
}

fn failure(error: &WriteError) -> StepFailure {
    let why = chain(&error.failure);
    let state = match &error.state {
        DiskState::Unchanged => "the disk was not changed".to_owned(),
        DiskState::Cleared => {
            "the disk was partly written; its partition tables are cleared, it boots nothing".to_owned()
        }
        DiskState::Unproven(cause) => {
            format!("the disk was partly written, and clearing its partition tables failed ({})", chain(cause))
        }
    };
    StepFailure { error: format!("{why}; {state}; {}", help(&error.failure)), disk_changed: error.disk_changed() }
}

/// What a person can do about it.
fn help(failure: &WriteFailure) -> &'static str {
    match failure {
        WriteFailure::Partition(beyond) => beyond.help(),
        WriteFailure::NotWholeSectors { .. } | WriteFailure::Table { .. } => "use another image",
        WriteFailure::DoesNotFit { .. } => "use a smaller image, or name a larger disk",
        WriteFailure::BlockSize { .. } => "use an image that was made for the disk's block size, or name another disk",
        WriteFailure::Source { source } => source_help(source),
        WriteFailure::Clear { .. }
        | WriteFailure::Write { .. }
        | WriteFailure::Zero { .. }
        | WriteFailure::Flush { .. }
        | WriteFailure::Reopen { .. }
        | WriteFailure::ReadBack { .. }
        | WriteFailure::ReadBackDigest { .. }
        | WriteFailure::ReadBackDiffers { .. } => "the disk, its cable or its controller is faulty: replace it",
        WriteFailure::Aborted(_) => "the appliance says why in the host's status",
    }
}

/// The appliance compared the stream's digest when it stored it: what differs now changed since, or on its way.
fn source_help(error: &SourceError) -> &'static str {
    match error {
        SourceError::Read { .. } | SourceError::Short { .. } => {
            "look at the network between host and appliance, and at the appliance's log"
        }
        SourceError::Long { .. }
        | SourceError::Decompress { .. }
        | SourceError::RawShort { .. }
        | SourceError::RawLong { .. }
        | SourceError::StreamDigest { .. }
        | SourceError::RawDigest { .. } => {
            "it changed on its way or in the appliance's store: look at the network between host and appliance; if it fails \
             again, see that the appliance's disk works, and import the image again"
        }
        SourceError::Panicked => "this is a fault of the agent: report it with the host's log",
    }
}

fn evidence(
    wanted: &DiskIdentity,
    device: String,
    disk_guid: &str,
    written: &WriteEvidence,
    overridden: Vec<String>,
) -> Evidence {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    Evidence::ImageWritten {
        disk: wanted.clone(),
        device,
        stream_sha256: written.stream_sha256.to_string(),
        stream_bytes: written.stream_bytes,
        raw_sha256: written.raw_sha256.to_string(),
        raw_bytes: written.raw_bytes,
        written_bytes: written.written_bytes,
        readback_sha256: written.readback_sha256.to_string(),
        readback_bytes: written.readback_bytes,
        disk_guid: written.table.map_or_else(|| disk_guid.to_owned(), |table| table.disk_guid.to_string()),
        last_usable_lba: written.table.map_or(0, |table| table.last_usable_lba),
        write_ms: millis(written.write),
        readback_ms: millis(written.readback),
        overridden,
    }
}
