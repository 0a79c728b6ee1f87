//! The releases of a stream from one reading of its source to the next: what is new, what is superseded, what was taken
//! back, and which may be given to hosts (S1.5). Pure.
//!
//! The newest release stands first: by its version where both versions can be compared, else by when it was seen. A
//! release that is not the newest of an architecture is superseded: it stays golden until the newer one is stamped. One
//! that is newer than what the stream names now was taken back, and so was one whose architecture the stream has no
//! more: that is not forgotten when something newer comes. An entry of the metadata that cannot be read takes nothing
//! back.

use firesteel_images::{catalogue, import::StoredFileRole};
use firesteel_plan::skew;
use firesteel_resources::boot_image_stream::{
    ArtifactState, ArtifactStatus, BootImageStreamSpec, RELEASES_MAX, SignatureStatus, StreamRelease,
};
use jiff::Timestamp;

use crate::offer::SourceOffer;

/// The parts of an artifact that say what it is for.
fn is_same_place(one: &ArtifactStatus, other: &ArtifactStatus) -> bool {
    let place = |artifact: &ArtifactStatus| {
        let ArtifactStatus { architecture, platform, format, part, sector_bytes, .. } = artifact;
        (architecture.clone(), platform.clone(), format.clone(), part.clone(), *sector_bytes)
    };
    place(one) == place(other)
}

/// Numbers by which a release is older or newer than another one of its kind.
fn version(release: &str) -> Option<Vec<u64>> {
    let numbers: Option<Vec<u64>> = release.split(['.', '-', '+', '_']).map(|part| part.parse().ok()).collect();
    let numbers = numbers?;
    let Some(rhel) = skew::rhcos(release) else { return Some(numbers) };
    // The old style has the cluster's version first, and the time behind the date.
    let (date, time) = match numbers[2] {
        stamp if stamp >= 100_000_000 => (stamp / 10_000, stamp % 10_000),
        stamp => (stamp, 0),
    };
    Some(vec![rhel.major.into(), rhel.minor.into(), date, time, numbers[3]])
}

/// Says whether a release is older than another; `None` where their versions do not tell.
fn is_older(one: &str, than: &str) -> Option<bool> {
    Some(version(one)? < version(than)?)
}

fn fresh(artifact: &catalogue::Artifact) -> ArtifactStatus {
    ArtifactStatus {
        architecture: artifact.architecture.name().to_owned(),
        platform: artifact.platform.clone(),
        format: artifact.kind.to_string(),
        part: artifact.part.to_string(),
        sector_bytes: if artifact.part == catalogue::ArtifactPart::Disk { artifact.sector_bytes } else { 0 },
        location: artifact.location.as_str().to_owned(),
        sha256: artifact.sha256.to_string(),
        uncompressed_sha256: artifact.uncompressed_sha256.map(|digest| digest.to_string()).unwrap_or_default(),
        signature_location: artifact.signature.as_ref().map(ToString::to_string).unwrap_or_default(),
        signature: if artifact.signature.is_some() { SignatureStatus::Unverified } else { SignatureStatus::None },
        ..ArtifactStatus::default()
    }
}

/// Returns the role of a part of a release in the store; `None` for a file that is packed for disks.
pub(crate) fn role(part: &str) -> Option<StoredFileRole> {
    match part {
        "kernel" => Some(StoredFileRole::Kernel),
        "initramfs" => Some(StoredFileRole::Initramfs),
        "rootfs" => Some(StoredFileRole::Rootfs),
        "iso" => Some(StoredFileRole::Iso),
        _ => None,
    }
}

/// The artifact as it is offered, with what is known of the same bytes.
fn with_known(artifact: ArtifactStatus, known: Option<&StreamRelease>) -> ArtifactStatus {
    let is_it = |before: &&ArtifactStatus| is_same_place(before, &artifact) && before.sha256 == artifact.sha256;
    let Some(before) = known.and_then(|release| release.artifacts.iter().find(is_it)) else { return artifact };
    ArtifactStatus {
        location: artifact.location,
        uncompressed_sha256: artifact.uncompressed_sha256,
        signature: if artifact.signature == SignatureStatus::None { SignatureStatus::None } else { before.signature },
        signature_location: artifact.signature_location,
        ..before.clone()
    }
}

/// What the stream says of one architecture of a release that is not its newest.
enum ReleaseState {
    Current,
    Superseded,
    TakenBack,
    /// The spec asks for it no more.
    Unwanted,
    /// The metadata cannot be read there.
    Unknown,
}

/// Puts the offered releases that are new in their places.
fn with_new(known: &[StreamRelease], offer: &SourceOffer, now: Timestamp) -> Vec<StreamRelease> {
    let mut releases = known.to_vec();
    for name in offer.releases.keys() {
        if !releases.iter().any(|release| release.release == *name) {
            let older = |release: &StreamRelease| is_older(name, &release.release).unwrap_or(false);
            let place = releases.iter().position(|release| !older(release)).unwrap_or(releases.len());
            let new = StreamRelease { release: name.clone(), seen_at: now, ..StreamRelease::default() };
            releases.insert(place, new);
        }
    }
    releases
}

/// Takes the offer's artifacts, and what stays of the earlier ones, into one release. `standing` says of an
/// architecture how the stream has it in this release.
fn update_artifacts(
    release: &mut StreamRelease,
    offer: &SourceOffer,
    spec: &BootImageStreamSpec,
    standing: impl Fn(&str) -> ReleaseState,
) {
    let before = release.clone();
    let offered = offer.releases.get(&release.release);
    let current = offered.into_iter().flatten().map(|artifact| with_known(fresh(artifact), Some(&before)));
    let current: Vec<ArtifactStatus> = current.collect();
    let (mut kept, mut taken_back) = (Vec::new(), Vec::new());
    for artifact in before.artifacts {
        match standing(&artifact.architecture) {
            // The offer may have it where it cannot be read.
            ReleaseState::Current
                if offer.is_unreadable(&artifact.architecture)
                    && spec.formats().contains(&artifact.format.as_str())
                    && !current.iter().any(|one| is_same_place(one, &artifact)) =>
            {
                kept.push(artifact);
            }
            // The offer has it, or has it no more.
            ReleaseState::Current | ReleaseState::Unwanted => {}
            // One that was never whole will not be.
            ReleaseState::Superseded if before.stamped_at.is_none() => {}
            ReleaseState::Superseded | ReleaseState::Unknown => kept.push(artifact),
            ReleaseState::TakenBack => taken_back.push(artifact),
        }
    }
    let artifacts: Vec<ArtifactStatus> = current.into_iter().chain(kept).collect();
    if offered.is_some() {
        release.withdrawn = false;
    }
    if artifacts.is_empty() && !taken_back.is_empty() {
        release.withdrawn = true;
        release.artifacts = taken_back;
    } else {
        release.artifacts = artifacts;
    }
}

/// The releases after a reading of the source.
pub(crate) fn merge(
    known: &[StreamRelease],
    offer: &SourceOffer,
    spec: &BootImageStreamSpec,
    now: Timestamp,
) -> Vec<StreamRelease> {
    let mut releases = with_new(known, offer, now);
    let names: Vec<String> = releases.iter().map(|release| release.release.clone()).collect();
    let standing = |index: usize, architecture: &str| {
        let offered = offer.release_of(architecture);
        match offered.and_then(|offered| names.iter().position(|name| name == offered)) {
            Some(at) if at == index => ReleaseState::Current,
            Some(at) if at < index => ReleaseState::Superseded,
            Some(_) => ReleaseState::TakenBack,
            None if offer.is_unreadable(architecture) => ReleaseState::Unknown,
            None if !spec.architectures.is_empty() && spec.architectures.iter().all(|one| one != architecture) => {
                ReleaseState::Unwanted
            }
            None => ReleaseState::TakenBack,
        }
    };
    for (index, release) in releases.iter_mut().enumerate() {
        update_artifacts(release, offer, spec, |architecture| standing(index, architecture));
    }
    releases.retain(|release| !release.artifacts.is_empty());
    // What got something new is not whole any more.
    let partial = releases.iter_mut().filter(|release| !release.artifacts.iter().all(is_verified));
    partial.for_each(|release| release.stamped_at = None);
    while releases.len() > RELEASES_MAX {
        // From the oldest on, but not what the stream names.
        let unnamed = releases.iter().rposition(|release| !offer.releases.contains_key(&release.release));
        releases.remove(unnamed.unwrap_or(releases.len() - 1));
    }
    releases
}

/// Whether a newer release, which was not taken back, has the same for the same machines.
pub(crate) fn is_superseded(releases: &[StreamRelease], index: usize, artifact: &ArtifactStatus) -> bool {
    let newer = releases[..index].iter().filter(|release| !release.withdrawn);
    newer.flat_map(|release| &release.artifacts).any(|other| is_same_place(other, artifact))
}

/// Whether the release that stands there is followed: it is to be here, whole.
pub(crate) fn is_followed(releases: &[StreamRelease], index: usize, artifact: &ArtifactStatus) -> bool {
    !releases[index].withdrawn && !is_superseded(releases, index, artifact)
}

/// What is to be fetched: release and artifact, the newest release first.
pub(crate) fn wanted(releases: &[StreamRelease]) -> Vec<(String, ArtifactStatus)> {
    let mut wanted = Vec::new();
    for (index, release) in releases.iter().enumerate() {
        for artifact in &release.artifacts {
            if is_followed(releases, index, artifact) && !is_verified(artifact) {
                wanted.push((release.release.clone(), artifact.clone()));
            }
        }
    }
    wanted
}

pub(crate) fn is_verified(artifact: &ArtifactStatus) -> bool {
    artifact.state == ArtifactState::Verified
}

/// Stamps what is whole, unless the source holds it back, and takes the stamp from what is not whole any more. Returns
/// what was stamped now.
pub(crate) fn stamp(releases: &mut [StreamRelease], is_held: bool, now: Timestamp) -> Vec<String> {
    let mut stamped = Vec::new();
    for release in releases.iter_mut() {
        let is_whole = !release.artifacts.is_empty() && release.artifacts.iter().all(is_verified);
        if !is_whole {
            release.stamped_at = None;
        } else if release.stamped_at.is_none() && !release.withdrawn && !is_held {
            release.stamped_at = Some(now);
            stamped.push(release.release.clone());
        }
    }
    stamped
}

/// The newest release that may be given to hosts.
pub(crate) fn golden(releases: &[StreamRelease]) -> Option<&StreamRelease> {
    releases.iter().find(|release| release.stamped_at.is_some() && !release.withdrawn)
}

/// What the stream itself needs: what it follows, and what is golden until that is here.
pub(crate) fn in_use(releases: &[StreamRelease]) -> Vec<&ArtifactStatus> {
    let mut used = Vec::new();
    for (index, release) in releases.iter().enumerate() {
        for artifact in &release.artifacts {
            let is_golden = || {
                release.stamped_at.is_some() && !release.withdrawn && {
                    let newer = releases[..index].iter().filter(|newer| newer.stamped_at.is_some() && !newer.withdrawn);
                    !newer.flat_map(|newer| &newer.artifacts).any(|other| is_same_place(other, artifact))
                }
            };
            if is_followed(releases, index, artifact) || is_golden() {
                used.push(artifact);
            }
        }
    }
    used
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use firesteel_facts::{Architecture, Sha256};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::offer;

    /// A stream that names these releases, each for an architecture.
    fn offered(named: &[(&str, &str)]) -> SourceOffer {
        let mut architectures = serde_json::Map::new();
        for (architecture, release) in named {
            let sha256 = Sha256::of(format!("{architecture}{release}").as_bytes()).to_string();
            let disk = json!({"location": format!("https://a.example/{architecture}/{release}"), "sha256": sha256});
            let metal = json!({"metal": {"release": release, "formats": {"raw.gz": {"disk": disk}}}});
            architectures.insert((*architecture).to_owned(), json!({"artifacts": metal}));
        }
        let document = json!({"stream": "stable", "architectures": architectures}).to_string();
        offer::read(document.as_bytes(), &BootImageStreamSpec::default(), &Architecture::ALL).unwrap()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn next(known: &[StreamRelease], named: &[(&str, &str)]) -> Vec<StreamRelease> {
        merge(known, &offered(named), &BootImageStreamSpec::default(), at(1))
    }

    fn verify_all(releases: &mut [StreamRelease]) {
        releases
            .iter_mut()
            .flat_map(|release| &mut release.artifacts)
            .for_each(|one| one.state = ArtifactState::Verified);
        stamp(releases, false, at(2));
    }

    fn golden_name(releases: &[StreamRelease]) -> Option<&str> {
        golden(releases).map(|release| release.release.as_str())
    }

    fn names(releases: &[StreamRelease]) -> Vec<(&str, bool)> {
        releases.iter().map(|release| (release.release.as_str(), release.withdrawn)).collect()
    }

    #[test]
    fn a_release_is_golden_when_all_of_it_is_verified_and_stays_so_until_the_next_is() {
        let mut releases = next(&[], &[("x86_64", "1"), ("aarch64", "1")]);
        assert_eq!((golden_name(&releases), wanted(&releases).len()), (None, 2));
        releases[0].artifacts[0].state = ArtifactState::Verified;
        assert!(stamp(&mut releases, false, at(2)).is_empty(), "half of it is no release");
        releases[0].artifacts[1].state = ArtifactState::Verified;
        assert!(stamp(&mut releases, true, at(2)).is_empty(), "its source holds it back");
        assert_eq!(stamp(&mut releases, false, at(2)), ["1"]);
        let mut releases = next(&releases, &[("x86_64", "2"), ("aarch64", "2")]);
        assert_eq!(names(&releases), [("2", false), ("1", false)]);
        assert_eq!((golden_name(&releases), wanted(&releases).len()), (Some("1"), 2));
        assert_eq!(in_use(&releases).len(), 4, "the golden one too");
        verify_all(&mut releases);
        assert_eq!((golden_name(&releases), in_use(&releases).len()), (Some("2"), 2));
        // A file that is gone takes the stamp along.
        releases[0].artifacts[0].state = ArtifactState::Wanted;
        stamp(&mut releases, false, at(3));
        assert_eq!(golden_name(&releases), Some("1"));
    }

    #[test]
    fn a_withdrawn_release_is_golden_no_more_and_never_again_by_itself() {
        let mut releases = next(&[], &[("x86_64", "1")]);
        verify_all(&mut releases);
        let mut releases = next(&releases, &[("x86_64", "2")]);
        verify_all(&mut releases);
        assert_eq!(golden_name(&releases), Some("2"));
        let releases = next(&releases, &[("x86_64", "1")]);
        assert_eq!((names(&releases), golden_name(&releases)), (vec![("2", true), ("1", false)], Some("1")));
        let mut releases = next(&releases, &[("x86_64", "3")]);
        assert_eq!(names(&releases), [("3", false), ("2", true), ("1", false)]);
        assert_eq!(golden_name(&releases), Some("1"));
        verify_all(&mut releases);
        assert_eq!(golden_name(&releases), Some("3"));
        // The stream names nothing for the architecture any more.
        let releases = next(&releases, &[("aarch64", "3")]);
        assert!(golden_name(&releases).is_none(), "{releases:?}");
        // What its publisher names again is good again.
        let mut releases = next(&releases, &[("x86_64", "2")]);
        stamp(&mut releases, false, at(4));
        assert_eq!(golden_name(&releases), Some("2"));
    }

    /// A publisher went back to a release that was never seen here: the newer one would have stayed golden.
    #[test]
    fn an_older_release_that_was_never_seen_takes_the_newer_one_back() {
        for (newer, older) in [
            ("44.20260102.3.0", "44.20251230.3.0"),
            ("9.6.20250701-0", "9.6.20250523-0"),
            // Of the old style, which has a greater number first.
            ("9.6.20250701-0", "418.94.202501221327-0"),
        ] {
            let mut releases = next(&[], &[("x86_64", newer)]);
            verify_all(&mut releases);
            let releases = next(&releases, &[("x86_64", older)]);
            assert_eq!(names(&releases), [(newer, true), (older, false)]);
            assert!(golden_name(&releases).is_none());
        }
        let releases = next(&next(&[], &[("x86_64", "blue")]), &[("x86_64", "amber")]);
        assert_eq!(names(&releases), [("amber", false)], "nobody can say, so it is the next one");
    }

    #[test]
    fn of_one_architecture_only_its_artifacts_are_taken_back() {
        let both = |x86: &'static str, arm: &'static str| [("x86_64", x86), ("aarch64", arm)];
        let mut releases = next(&[], &both("2", "2"));
        verify_all(&mut releases);
        let releases = next(&releases, &both("1", "2"));
        assert_eq!(names(&releases), [("2", false), ("1", false)]);
        let of: Vec<&str> = releases[0].artifacts.iter().map(|artifact| artifact.architecture.as_str()).collect();
        assert_eq!(of, ["aarch64"]);
    }

    #[test]
    fn bytes_that_change_under_a_release_are_verified_anew() {
        let mut releases = next(&[], &[("x86_64", "1")]);
        verify_all(&mut releases);
        releases[0].artifacts[0].sha256 = "00".into();
        let mut releases = next(&releases, &[("x86_64", "1")]);
        stamp(&mut releases, false, at(3));
        assert_eq!((golden_name(&releases), wanted(&releases).len()), (None, 1));
    }

    #[test]
    fn an_entry_that_cannot_be_read_changes_nothing() {
        let mut releases = next(&[], &[("x86_64", "1")]);
        verify_all(&mut releases);
        let unreadable = SourceOffer { unreadable: vec![Architecture::X86_64], ..SourceOffer::default() };
        let after = merge(&releases, &unreadable, &BootImageStreamSpec::default(), at(5));
        assert_eq!(after, releases);
        let narrowed = BootImageStreamSpec { architectures: vec!["aarch64".into()], ..BootImageStreamSpec::default() };
        assert!(merge(&releases, &SourceOffer::default(), &narrowed, at(5)).is_empty(), "nobody asks for it");
    }

    /// One entry of a release that is here was broken, and the image that it had named was gone.
    #[test]
    fn an_entry_of_a_release_that_cannot_be_read_takes_nothing_of_it_back() {
        let mut releases = next(&[], &[("x86_64", "1")]);
        verify_all(&mut releases);
        let spec = BootImageStreamSpec::default();
        let mut offer = offered(&[("x86_64", "1")]);
        for artifact in offer.releases.values_mut().flatten() {
            artifact.sector_bytes = 4096;
        }
        let gone = merge(&releases, &offer, &spec, at(5));
        assert_eq!(gone[0].artifacts.len(), 1, "its publisher has it no more");
        offer.unreadable = vec![Architecture::X86_64];
        let after = merge(&releases, &offer, &spec, at(5));
        let told: Vec<_> = after[0].artifacts.iter().map(|one| (one.sector_bytes, is_verified(one))).collect();
        assert_eq!(told, [(4096, false), (512, true)]);
        let narrowed = BootImageStreamSpec { formats: vec!["iso".into()], ..spec };
        assert_eq!(merge(&releases, &offer, &narrowed, at(5))[0].artifacts.len(), 1, "nobody asks for it");
    }

    #[test]
    fn what_was_never_whole_goes_when_it_is_superseded_and_the_list_ends() {
        let releases = next(&next(&[], &[("x86_64", "1")]), &[("x86_64", "2")]);
        assert_eq!(names(&releases), [("2", false)]);
        let mut releases = Vec::new();
        for release in 0..2 * RELEASES_MAX {
            releases = next(&releases, &[("x86_64", &release.to_string())]);
            verify_all(&mut releases);
        }
        assert_eq!((releases.len(), releases[0].release.as_str()), (RELEASES_MAX, "63"));
    }

    proptest! {
        /// Whatever a publisher does: golden is what is verified, named now or older than what is named, and nothing
        /// that was taken back.
        #[test]
        fn golden_is_never_what_was_taken_back(steps in prop::collection::vec((0_u32..6, any::<bool>()), 1..20)) {
            let mut releases = Vec::new();
            for (number, verifies) in steps {
                releases = next(&releases, &[("x86_64", &number.to_string())]);
                if verifies {
                    verify_all(&mut releases);
                } else {
                    stamp(&mut releases, false, at(2));
                }
                if let Some(found) = golden(&releases) {
                    prop_assert!(found.release.parse::<u32>().unwrap() <= number);
                    prop_assert!(found.artifacts.iter().all(is_verified) && !found.withdrawn);
                }
                prop_assert!(releases.iter().any(|release| release.release == number.to_string() && !release.withdrawn));
                let used = in_use(&releases).len();
                prop_assert!((1..=2).contains(&used), "{used}");
            }
        }
    }
}
