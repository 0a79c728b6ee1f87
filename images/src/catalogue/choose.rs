//! Which artifacts a host wants (S1.6): by its architecture, and by the sector size of the disk that is written.

use firesteel_facts::Architecture;

use super::parse::StreamMetadata;
use super::types::{Artifact, ArtifactKind, ArtifactPart, FOUR_K_SECTOR_BYTES, PLAIN_SECTOR_BYTES};

/// The platform whose images are for machines without a hypervisor.
const METAL: &str = "metal";

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoChoice {
    #[error("the stream {stream} has nothing for {architecture}; it has {}", or_nothing(.has))]
    Architecture { stream: String, architecture: Architecture, has: String },
    #[error("the disk has sectors of {sector_bytes} bytes; images are made for 512 or 4096")]
    Sector { sector_bytes: u32 },
    #[error(
        "the stream {stream} has no image for {architecture} disks with sectors of {sector_bytes} bytes; it has {}{}",
        or_nothing(.has),
        but(.faults)
    )]
    Image { stream: String, architecture: Architecture, sector_bytes: u32, has: String, faults: String },
    #[error("the stream {stream} has no {kind} {part} for {architecture}{}", but(.faults))]
    Part { stream: String, architecture: Architecture, kind: ArtifactKind, part: ArtifactPart, faults: String },
}

fn or_nothing(text: &str) -> &str {
    if text.is_empty() { "none" } else { text }
}

fn but(faults: &str) -> String {
    if faults.is_empty() { String::new() } else { format!(" (not usable: {faults})") }
}

/// What a network boot of the live system takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PxeFiles<'a> {
    pub kernel: &'a Artifact,
    pub initramfs: &'a Artifact,
    pub rootfs: &'a Artifact,
}

/// The image for a disk: the `4k` one for native sectors of 4 KiB, the plain one otherwise, never one for the other: its
/// partition table would lie where the firmware does not look.
pub fn disk_image(
    stream: &StreamMetadata,
    architecture: Architecture,
    sector_bytes: u32,
) -> Result<&Artifact, NoChoice> {
    if !matches!(sector_bytes, PLAIN_SECTOR_BYTES | FOUR_K_SECTOR_BYTES) {
        return Err(NoChoice::Sector { sector_bytes });
    }
    let images = || of_kind(stream, architecture, ArtifactKind::Metal);
    // gzip expands four times as fast as xz, and streams have one of them: the order makes the choice certain.
    let fitting = images().filter(|artifact| artifact.sector_bytes == sector_bytes);
    fitting.min_by_key(|artifact| artifact.format.as_str()).ok_or_else(|| {
        has_architecture(stream, architecture).err().unwrap_or_else(|| NoChoice::Image {
            stream: stream.name.clone(),
            architecture,
            sector_bytes,
            has: images().map(|artifact| artifact.format.as_str()).collect::<Vec<_>>().join(", "),
            faults: faults(stream, architecture),
        })
    })
}

/// The live ISO.
pub fn iso(stream: &StreamMetadata, architecture: Architecture) -> Result<&Artifact, NoChoice> {
    part(stream, architecture, ArtifactKind::Iso, ArtifactPart::Iso)
}

/// Kernel, initramfs and root filesystem of the live system, of one release.
pub fn pxe(stream: &StreamMetadata, architecture: Architecture) -> Result<PxeFiles<'_>, NoChoice> {
    let part = |wanted| part(stream, architecture, ArtifactKind::Pxe, wanted);
    Ok(PxeFiles {
        kernel: part(ArtifactPart::Kernel)?,
        initramfs: part(ArtifactPart::Initramfs)?,
        rootfs: part(ArtifactPart::Rootfs)?,
    })
}

fn part(
    stream: &StreamMetadata,
    architecture: Architecture,
    kind: ArtifactKind,
    part: ArtifactPart,
) -> Result<&Artifact, NoChoice> {
    of_kind(stream, architecture, kind).find(|artifact| artifact.part == part).ok_or_else(|| {
        has_architecture(stream, architecture).err().unwrap_or_else(|| NoChoice::Part {
            stream: stream.name.clone(),
            architecture,
            kind,
            part,
            faults: faults(stream, architecture),
        })
    })
}

fn of_kind(stream: &StreamMetadata, architecture: Architecture, kind: ArtifactKind) -> impl Iterator<Item = &Artifact> {
    let of_metal = stream.artifacts.iter().filter(|artifact| artifact.platform == METAL);
    of_metal.filter(move |artifact| artifact.architecture == architecture && artifact.kind == kind)
}

/// An architecture with no entry at all, good or bad, has an error of its own.
fn has_architecture(stream: &StreamMetadata, architecture: Architecture) -> Result<(), NoChoice> {
    let has = |wanted| stream.artifacts.iter().any(|artifact| artifact.architecture == wanted);
    if has(architecture) || !faults(stream, architecture).is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = Architecture::ALL.into_iter().filter(|known| has(*known)).map(Architecture::name).collect();
    Err(NoChoice::Architecture { stream: stream.name.clone(), architecture, has: names.join(", ") })
}

/// What is wrong with the metal entries of an architecture.
fn faults(stream: &StreamMetadata, architecture: Architecture) -> String {
    let of_these = stream.faults.iter().filter(|fault| fault.place.covers(architecture, METAL));
    of_these.map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
