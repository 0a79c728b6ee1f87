//! Which image of a group a host's spec or disk names. Pure.

use std::collections::BTreeMap;

use firesteel_facts::shown_url;
use firesteel_plan::group::{GroupHostInputs, GroupHostStage, GroupWait, GroupWaitReason};
use firesteel_plan::policy::{CatalogueImage, for_sectors};
use firesteel_resources::bare_metal_host::{ChecksumType, ImageFormat};
use firesteel_resources::{HostGroup, Image, host_group::ImageReference};

use super::eligibility::{GroupCandidate, InstallationFailure, OsReportState, RolloutEligibility};

/// Sectors of the disks that images of groups are for, where nothing else is said.
const PLAIN_SECTOR_BYTES: u32 = 512;

/// Images that groups give, by what hosts name them by.
#[derive(Clone, Debug, Default)]
pub(super) struct GroupImages {
    by_digest: BTreeMap<String, ImageReference>,
    /// One's own images: by URL and checksum.
    by_place: BTreeMap<(String, String), ImageReference>,
}

impl GroupImages {
    /// What comes first counts.
    fn add(&mut self, name: &ImageReference, image: &ImageReference) {
        if name.stream.is_empty() {
            self.by_place.entry((name.url.clone(), name.digest.clone())).or_insert_with(|| image.clone());
        } else if !name.digest.is_empty() {
            self.by_digest.entry(name.digest.to_ascii_lowercase()).or_insert_with(|| image.clone());
        }
    }

    /// All that one group gave or may give, what counts most first, each in all its forms.
    pub(super) fn of_group(group: &HostGroup) -> Self {
        let (spec, status) = (&group.spec.image, &group.status);
        let mut given = Self::default();
        let canary = status.canary.as_ref().map(|canary| &canary.image);
        let now = [canary, status.current.as_ref(), status.golden.as_ref(), status.previous.as_ref()];
        let past = status.history.iter().rev().map(|entry| &entry.image);
        now.into_iter().flatten().chain(past).for_each(|image| given.add(image, image));
        for (form, digest) in &status.other_forms {
            if let Some(image) = given.by_digest.get(&digest.to_ascii_lowercase()).cloned() {
                given.by_digest.entry(form.clone()).or_insert(image);
            }
        }
        if !spec.url.is_empty() {
            let own =
                ImageReference { url: spec.url.clone(), digest: spec.checksum.clone(), ..ImageReference::default() };
            given.add(&own, &own);
        }
        given
    }

    /// All that any group of the namespace may have given.
    pub(super) fn of_all(groups: &[HostGroup], entries: &[CatalogueImage]) -> Self {
        let mut given = Self::default();
        // The form for another sector size is the same image to a group.
        let plain = |entry: &CatalogueImage| match for_sectors(entries, &entry.image, PLAIN_SECTOR_BYTES) {
            Some(plain) => plain.image.clone(),
            None => entry.image.clone(),
        };
        entries.iter().for_each(|entry| given.add(&entry.image, &plain(entry)));
        for group in groups {
            let own = Self::of_group(group);
            for (digest, image) in own.by_digest {
                given.by_digest.entry(digest).or_insert(image);
            }
            for (place, image) in own.by_place {
                given.by_place.entry(place).or_insert(image);
            }
        }
        given
    }

    pub(super) fn find(&self, image: &Image) -> Option<&ImageReference> {
        // A live system runs from it: no group gives that.
        if image.format == Some(ImageFormat::LiveIso) {
            return None;
        }
        let of_stream = self.by_digest.get(&image.checksum.to_ascii_lowercase());
        of_stream.or_else(|| self.by_place.get(&(image.url.clone(), image.checksum.clone())))
    }
}

/// The host as a group sees it. `is_fought`: something else sets back what the group writes to it.
pub(super) fn seen(
    name: &str,
    place: &GroupCandidate,
    is_fought: bool,
    own: &GroupImages,
    all: &GroupImages,
) -> GroupHostInputs {
    let find = |image: &Image| own.find(image).or_else(|| all.find(image)).cloned();
    let foreign = |image: &Image| {
        let why = format!("it has an image that no group gave it: {}", shown_url(&image.url));
        GroupHostStage::Foreign(GroupWait::new(GroupWaitReason::OwnImage, why))
    };
    let stage = match &place.stand {
        RolloutEligibility::Closed(why) => {
            GroupHostStage::Foreign(GroupWait::new(GroupWaitReason::NotToInstall, why.clone()))
        }
        RolloutEligibility::Open { wanted: None, .. } => GroupHostStage::ToInstall,
        RolloutEligibility::Open { wanted: Some(image), failed } => match (find(image), failed) {
            (None, _) => foreign(image),
            (Some(_), None) => GroupHostStage::ToInstall,
            (Some(image), Some(InstallationFailure { message, at })) => {
                GroupHostStage::Failed { image, message: message.clone(), at: *at, is_on_disk: false }
            }
        },
        RolloutEligibility::Installing(image) => find(image).map_or_else(|| foreign(image), GroupHostStage::Installing),
        RolloutEligibility::Installed { image, os } => match (find(image), os) {
            (None, _) => foreign(image),
            (Some(image), OsReportState::Silent) => GroupHostStage::Provisioned(image),
            (Some(image), OsReportState::Running) => GroupHostStage::Running(image),
            (Some(image), OsReportState::Failed(InstallationFailure { message, at })) => {
                GroupHostStage::Failed { image, message: message.clone(), at: *at, is_on_disk: true }
            }
        },
    };
    GroupHostInputs {
        name: name.to_owned(),
        architecture: place.architecture,
        sector_bytes: place.sector_bytes,
        is_fought: is_fought && stage.is_open(),
        stage,
        not_ready: place.not_ready.clone(),
    }
}

/// What a host's spec is to name for an image: of a stream, the form that fits the sectors of its disk.
pub(super) fn image_for(reference: &ImageReference, place: &GroupCandidate, entries: &[CatalogueImage]) -> Image {
    let sectors = place.sector_bytes.unwrap_or(PLAIN_SECTOR_BYTES);
    let fitting = for_sectors(entries, reference, sectors).map_or(reference, |entry| &entry.image);
    Image {
        url: fitting.url.clone(),
        checksum: fitting.digest.clone(),
        checksum_type: (!reference.stream.is_empty()).then_some(ChecksumType::Sha256),
        ..Image::default()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use firesteel_facts::Architecture;
    use jiff::Timestamp;

    use super::*;

    fn reference(release: &str, digest: &str) -> ImageReference {
        ImageReference {
            stream: "stable".into(),
            release: release.into(),
            digest: digest.into(),
            url: format!("http://a/{digest}"),
        }
    }

    fn entry(release: &str, digest: &str, sector_bytes: u32) -> CatalogueImage {
        CatalogueImage {
            image: reference(release, digest),
            architecture: Architecture::X86_64,
            format: "metal".into(),
            sector_bytes,
            is_verified: true,
            is_stamped: true,
            is_withdrawn: false,
        }
    }

    fn place(stand: RolloutEligibility) -> GroupCandidate {
        GroupCandidate { stand, not_ready: None, ..GroupCandidate::unreadable("u", String::new()) }
    }

    fn image(url: &str, checksum: &str) -> Image {
        Image { url: url.into(), checksum: checksum.into(), ..Image::default() }
    }

    #[test]
    fn a_host_is_of_the_group_whose_image_it_has() {
        let entries = [entry("2", "dd", 512), entry("2", "d4", 4096)];
        let mut group = HostGroup::default();
        group.spec.image.url = "http://own/a".into();
        group.spec.image.checksum = "cc".into();
        let (own, all) = (GroupImages::of_group(&group), GroupImages::of_all(&[], &entries));
        let stage = |stand| seen("a", &place(stand), false, &own, &all).stage;
        let open = |image| RolloutEligibility::Open { wanted: Some(image), failed: None };
        assert_eq!(stage(RolloutEligibility::Open { wanted: None, failed: None }), GroupHostStage::ToInstall);
        assert_eq!(stage(open(image("http://own/a", "cc"))), GroupHostStage::ToInstall);
        let fought = |stand| seen("a", &place(stand), true, &own, &all).is_fought;
        assert!(fought(open(image("http://own/a", "cc"))));
        assert!(!fought(open(image("http://other/a", "dd0"))), "its owner took it");
        // Another file with the same checksum is another person's.
        assert!(matches!(stage(open(image("http://own/b", "cc"))), GroupHostStage::Foreign(_)));
        let live = Image { format: Some(ImageFormat::LiveIso), ..image("http://own/a", "cc") };
        assert!(matches!(stage(open(live)), GroupHostStage::Foreign(_)), "a live system is its owner's");
        // By its digest, wherever it came from.
        assert_eq!(
            stage(RolloutEligibility::Installing(image("http://mirror/x", "DD"))),
            GroupHostStage::Installing(reference("2", "dd"))
        );
        let running = RolloutEligibility::Installed { image: image("http://a/d4", "d4"), os: OsReportState::Running };
        assert_eq!(stage(running), GroupHostStage::Running(reference("2", "dd")), "the form for its sectors");
        let failed = Some(InstallationFailure { message: "no".into(), at: Timestamp::UNIX_EPOCH });
        let stand = RolloutEligibility::Open { wanted: Some(image("http://a/dd", "dd")), failed };
        assert!(matches!(stage(stand), GroupHostStage::Failed { is_on_disk: false, .. }));
        let failed = InstallationFailure { message: "no".into(), at: Timestamp::UNIX_EPOCH };
        let failed =
            RolloutEligibility::Installed { image: image("http://a/dd", "dd"), os: OsReportState::Failed(failed) };
        assert!(matches!(stage(failed), GroupHostStage::Failed { is_on_disk: true, .. }));
        let stranger =
            RolloutEligibility::Installed { image: image("http://theirs/x", "ee"), os: OsReportState::Silent };
        assert!(matches!(stage(stranger), GroupHostStage::Foreign(_)));
    }

    #[test]
    fn what_a_group_had_is_known_when_its_stream_forgot_it() {
        let mut group = HostGroup::default();
        group.status.previous = Some(reference("1", "old"));
        let own = GroupImages::of_group(&group);
        assert_eq!(own.find(&image("x", "old")), Some(&reference("1", "old")));
        assert!(GroupImages::of_all(&[group], &[]).find(&image("x", "old")).is_some(), "to the other groups, too");
    }

    /// Two streams have the same release, and this group follows the second one.
    #[test]
    fn a_form_for_other_sectors_is_the_groups_own_image() {
        let of = |stream: &str, digest: &str, sector_bytes: u32| {
            let entry = entry("2", digest, sector_bytes);
            CatalogueImage { image: ImageReference { stream: stream.into(), ..entry.image.clone() }, ..entry }
        };
        let entries =
            [of("next", "dd", 512), of("next", "d4", 4096), of("stable", "dd", 512), of("stable", "d4", 4096)];
        let mut group = HostGroup::default();
        group.status.current = Some(reference("2", "dd"));
        group.status.other_forms.insert("d4".into(), "dd".into());
        for entries in [&entries[..], &[]] {
            let (own, all) = (GroupImages::of_group(&group), GroupImages::of_all(&[group.clone()], entries));
            let stand = RolloutEligibility::Installed { image: image("x", "D4"), os: OsReportState::Running };
            assert_eq!(
                seen("a", &place(stand), false, &own, &all).stage,
                GroupHostStage::Running(reference("2", "dd"))
            );
        }
    }

    #[test]
    fn the_form_follows_the_sectors_of_the_disk() {
        let entries = [entry("2", "dd", 512), entry("2", "d4", 4096)];
        let wanted = reference("2", "dd");
        let on = |sector_bytes| {
            let place = GroupCandidate { sector_bytes, ..place(RolloutEligibility::Closed(String::new())) };
            image_for(&wanted, &place, &entries).checksum
        };
        assert_eq!([on(None), on(Some(512)), on(Some(4096))], ["dd", "dd", "d4"]);
        assert_eq!(on(Some(520)), "dd", "there is no other");
    }
}
