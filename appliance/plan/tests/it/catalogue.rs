//! What the catalogue says of an image: its stream and form, its like for other disks, and whether hosts can have it.

use firesteel_facts::Architecture::{self, Aarch64, X86_64};
use firesteel_plan::policy::{
    Catalogue, CatalogueImage, CatalogueMatch, CurrentImage, FormerImage, GoldenImageMissing, ImageForm, for_sectors,
};
use firesteel_resources::host_group::ImageReference;

use crate::policy::{entry, image};

/// An image with a digest that no other one has.
fn form(stream: &str, release: &str, architecture: Architecture, format: &str, sector_bytes: u32) -> CatalogueImage {
    let digest = format!("{stream}-{release}-{architecture}-{format}-{sector_bytes}");
    CatalogueImage {
        image: ImageReference { url: format!("store://{digest}"), digest, ..image(stream, release, architecture) },
        format: format.into(),
        sector_bytes,
        ..entry(stream, release, architecture)
    }
}

fn unverified(own: &CatalogueImage, digest: &str) -> CatalogueImage {
    let image = ImageReference { digest: digest.into(), ..own.image.clone() };
    CatalogueImage { image, is_verified: false, is_stamped: false, ..own.clone() }
}

/// Release 2 of `stable`, in several forms, behind what differs from them in one thing alone.
fn many() -> Vec<CatalogueImage> {
    let wanted = form("stable", "2", X86_64, "metal", 4096);
    vec![
        form("stable", "9", Aarch64, "metal", 512),
        form("stable", "2", Aarch64, "metal", 512),
        form("stable", "2", X86_64, "metal", 512),
        form("stable", "2", Aarch64, "metal", 4096),
        form("stable", "2", X86_64, "pxe", 4096),
        form("stable", "1", X86_64, "metal", 4096),
        form("next", "2", X86_64, "metal", 4096),
        unverified(&wanted, "on its way"),
        wanted,
    ]
}

fn catalogue(entries: Vec<CatalogueImage>, former: Vec<FormerImage>) -> Catalogue {
    Catalogue::new(vec!["stable".into(), "next".into()], entries, former)
}

#[test]
fn the_same_image_for_a_disk_with_other_sectors_differs_in_nothing_else() {
    let entries = many();
    let own = form("stable", "2", X86_64, "metal", 512).image;
    let loud = ImageReference { digest: own.digest.to_uppercase(), url: "http://elsewhere".into(), ..own.clone() };
    let on_its_way = ImageReference { digest: "on its way".into(), ..own.clone() };
    let of = |change: fn(&mut ImageReference)| {
        let mut other = own.clone();
        change(&mut other);
        other
    };
    for (image, bytes, digest) in [
        (own.clone(), 4096, Some("stable-2-x86_64-metal-4096")),
        (loud, 4096, Some("stable-2-x86_64-metal-4096")),
        (own.clone(), 512, Some("stable-2-x86_64-metal-512")),
        (own.clone(), 520, None),
        (form("stable", "9", Aarch64, "metal", 512).image, 4096, None),
        (on_its_way, 4096, Some("on its way")),
        (of(|image| image.stream = "next".into()), 4096, None),
        (of(|image| image.release = "1".into()), 4096, None),
        (of(|image| image.digest = "own".into()), 4096, None),
    ] {
        let found = for_sectors(&entries, &image, bytes).map(|entry| entry.image.digest.as_str());
        assert_eq!(found, digest, "{image:?} {bytes}");
    }
}

#[test]
fn other_forms_are_of_the_same_architecture_and_format() {
    let catalogue = catalogue(many(), Vec::new());
    let forms = |image: &ImageReference| catalogue.other_forms(image).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(forms(&form("stable", "2", X86_64, "metal", 512).image), ["on its way", "stable-2-x86_64-metal-4096"]);
    assert_eq!(forms(&form("stable", "2", Aarch64, "metal", 4096).image), ["stable-2-aarch64-metal-512"]);
    assert_eq!(forms(&form("next", "2", X86_64, "metal", 4096).image), [""; 0]);
    assert_eq!(forms(&form("next", "2", X86_64, "metal", 512).image), [""; 0], "it is not there");
}

/// Streams may have releases with the same bytes.
#[test]
fn of_images_with_the_same_bytes_the_one_that_is_meant_is_taken() {
    let same = |stream: &str, release: &str| {
        let own = form(stream, release, X86_64, "metal", 512);
        CatalogueImage { image: ImageReference { digest: "same".into(), ..own.image.clone() }, ..own }
    };
    let away = CatalogueImage { is_verified: false, ..form("stable", "0", X86_64, "metal", 512) };
    let catalogue = catalogue(vec![same("next", "8"), same("stable", "2"), same("stable", "1"), away], Vec::new());
    let stored = |stream: &str, release: &str, digest: &str| {
        let image = ImageReference { digest: digest.into(), ..image(stream, release, X86_64) };
        catalogue.stored(&image).map(|entry| (entry.image.stream.as_str(), entry.image.release.as_str()))
    };
    for (stream, release, found) in [
        ("next", "8", ("next", "8")),
        ("stable", "1", ("stable", "1")),
        ("stable", "2", ("stable", "2")),
        ("gone", "1", ("next", "8")),
    ] {
        assert_eq!(stored(stream, release, "same"), Some(found), "{stream} {release}");
    }
    assert_eq!(stored("stable", "1", "own"), None);
    assert_eq!(stored("stable", "0", "stable-0-x86_64-metal-512"), None, "it is not here");
}

#[test]
fn a_disk_image_is_found_by_its_release_or_its_digest() {
    let entries = vec![
        CatalogueImage { is_stamped: false, ..form("stable", "3", X86_64, "metal", 512) },
        form("stable", "2", X86_64, "pxe", 512),
        form("stable", "2", X86_64, "metal", 4096),
        form("stable", "2", Aarch64, "metal", 512),
        CatalogueImage { is_withdrawn: true, ..form("stable", "2", X86_64, "metal", 512) },
    ];
    let catalogue = catalogue(entries, Vec::new());
    for (stream, release, digest, architecture, found) in [
        ("stable", "2", "", Some(X86_64), Some("stable-2-x86_64-metal-512")),
        ("stable", "", "", Some(X86_64), Some("stable-2-x86_64-metal-512")),
        ("stable", "2", "", Some(Aarch64), Some("stable-2-aarch64-metal-512")),
        ("stable", "3", "", Some(X86_64), None),
        ("next", "2", "", Some(X86_64), None),
        ("stable", "2", "", None, None),
        ("stable", "", "stable-2-x86_64-metal-4096", None, Some("stable-2-x86_64-metal-4096")),
        ("stable", "2", "stable-2-aarch64-metal-512", Some(X86_64), Some("stable-2-aarch64-metal-512")),
        ("stable", "1", "stable-2-aarch64-metal-512", None, None),
        ("stable", "2", "stable-2-x86_64-pxe-512", Some(X86_64), None),
        ("stable", "", "own", Some(X86_64), None),
    ] {
        let entry = catalogue.find(stream, release, digest, architecture);
        let what = format!("{stream} {release} {digest} {architecture:?}");
        assert_eq!(entry.map(|entry| entry.image.digest.as_str()), found, "{what}");
    }
}

#[test]
fn the_image_that_a_set_names_has_its_form_also_when_it_is_gone() {
    let here = form("next", "8", X86_64, "iso", 2048);
    let gone = FormerImage { sector_bytes: 4096, ..FormerImage::disk(image("stable", "1", X86_64)) };
    let catalogue = catalogue(vec![here.clone()], vec![gone.clone()]);
    let shown = FormerImage { image: here.image.clone(), format: "iso".into(), sector_bytes: 2048 };
    for (current, stream, found) in [
        (CurrentImage::from(&here.image), "next", Some(shown)),
        (CurrentImage::from(&here.image), "stable", None),
        (CurrentImage::from(&gone.image), "stable", Some(gone.clone())),
        (CurrentImage::from(&gone.image), "next", None),
        (CurrentImage::Nothing, "next", None),
        (CurrentImage::Elsewhere("Metal3MachineTemplate a".into()), "next", None),
    ] {
        assert_eq!(catalogue.named(&current, stream), found, "{current:?} {stream}");
    }
}

#[test]
fn an_image_is_ours_by_its_digest_or_by_our_url_without_any() {
    let own = form("stable", "2", X86_64, "metal", 512);
    let catalogue = catalogue(vec![own.clone()], Vec::new());
    for (url, digest, is_ours) in [
        ("store://stable-2-x86_64-metal-512", "", true),
        ("http://elsewhere", "STABLE-2-x86_64-metal-512", true),
        ("http://elsewhere", "", false),
        ("store://stable-2-x86_64-metal-512", "own", false),
    ] {
        let known = catalogue.known(&CurrentImage::Image { url: url.into(), digest: digest.into() }, &[]);
        let wanted = if is_ours { CatalogueMatch::Of("stable", ImageForm::DISK) } else { CatalogueMatch::No };
        assert_eq!(known, wanted, "{url} {digest}");
    }
}

#[test]
fn each_reason_why_there_is_no_golden_image_is_its_own() {
    let disk = form("stable", "2", X86_64, "metal", 512);
    let unstamped = CatalogueImage { is_stamped: false, ..disk.clone() };
    let withdrawn = CatalogueImage { is_withdrawn: true, ..disk.clone() };
    let never = CatalogueImage { is_withdrawn: true, ..unstamped.clone() };
    for (stream, entries, missing) in [
        ("gone", vec![disk.clone()], Some(GoldenImageMissing::Stream)),
        ("next", vec![disk.clone()], Some(GoldenImageMissing::Stamp)),
        ("stable", vec![], Some(GoldenImageMissing::Stamp)),
        ("stable", vec![unstamped.clone(), never], Some(GoldenImageMissing::Stamp)),
        ("stable", vec![unstamped, withdrawn.clone()], Some(GoldenImageMissing::Withdrawn)),
        ("stable", vec![form("stable", "2", Aarch64, "metal", 512)], Some(GoldenImageMissing::Form)),
        ("stable", vec![form("stable", "2", X86_64, "pxe", 512)], Some(GoldenImageMissing::Form)),
        ("stable", vec![form("stable", "2", X86_64, "metal", 4096)], Some(GoldenImageMissing::Form)),
        ("stable", vec![withdrawn, disk.clone()], None),
    ] {
        let catalogue = catalogue(entries, Vec::new());
        let golden = catalogue.golden(stream, X86_64, ImageForm::DISK).cloned();
        let wanted = missing.map_or(Ok(disk.image.clone()), Err);
        assert_eq!(golden, wanted, "{stream}");
    }
}
