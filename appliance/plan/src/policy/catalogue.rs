//! The images of all streams: which is golden, and which are ours at all.
//!
//! Golden is the newest release that is stamped, which is to say verified to the last byte, and that its stream has not
//! withdrawn.

use std::collections::BTreeSet;

use firesteel_facts::Architecture;
use firesteel_resources::host_group::ImageReference;
use serde::{Deserialize, Serialize};

use super::CurrentImage;

/// An image of a release of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogueImage {
    /// Names its stream by the BootImageStream, and says where the appliance has the image.
    pub image: ImageReference,
    pub architecture: Architecture,
    /// `metal`, `pxe` or `iso`.
    pub format: String,
    /// Sector size of a disk.
    pub sector_bytes: u32,
    /// It is here, and its bytes are what its stream says.
    pub is_verified: bool,
    /// The rest of its release is verified, too. A release that gets something new loses its stamp until that is here.
    pub is_stamped: bool,
    pub is_withdrawn: bool,
}

/// Finds the same image for a disk with sectors of another size. Its stream may have it at another place now.
#[must_use]
pub fn for_sectors<'a>(
    entries: &'a [CatalogueImage],
    image: &ImageReference,
    bytes: u32,
) -> Option<&'a CatalogueImage> {
    let own = entries.iter().find(|entry| {
        entry.image.stream == image.stream
            && entry.image.release == image.release
            && entry.image.digest.eq_ignore_ascii_case(&image.digest)
    })?;
    entries.iter().find(|entry| {
        entry.sector_bytes == bytes
            && entry.image.stream == own.image.stream
            && entry.image.release == own.image.release
            && entry.architecture == own.architecture
            && entry.format == own.format
            && entry.is_verified == own.is_verified
    })
}

/// Why there is no golden image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GoldenImageMissing {
    Stream,
    /// Nothing of it is verified yet.
    Stamp,
    /// All that was verified was taken back.
    Withdrawn,
    /// There are golden images, and none for this architecture in this form.
    Form,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalogue {
    streams: Vec<String>,
    entries: Vec<CatalogueImage>,
    former: Vec<FormerImage>,
}

/// An image of a stream that is known and not in the catalogue any more; a set that names it still follows its stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FormerImage {
    #[serde(flatten)]
    pub image: ImageReference,
    /// The format, like [`CatalogueImage::format`].
    pub format: String,
    pub sector_bytes: u32,
}

impl Default for FormerImage {
    fn default() -> Self {
        Self::disk(ImageReference::default())
    }
}

impl FormerImage {
    #[must_use]
    pub fn disk(image: ImageReference) -> Self {
        let ImageForm { format, sector_bytes } = ImageForm::DISK;
        Self { image, format: format.to_owned(), sector_bytes }
    }
}

impl From<&CatalogueImage> for FormerImage {
    fn from(entry: &CatalogueImage) -> Self {
        Self { image: entry.image.clone(), format: entry.format.clone(), sector_bytes: entry.sector_bytes }
    }
}

/// What the image of a set is to the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CatalogueMatch<'a> {
    No,
    /// An image of this stream, in this form.
    Of(&'a str, ImageForm<'a>),
    /// An image of these streams, and it is not clear which is meant.
    OfSeveral(Vec<&'a str>),
}

/// A kind of image: `metal` for disks with sectors of 512 bytes is what most sets name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageForm<'a> {
    pub format: &'a str,
    pub sector_bytes: u32,
}

impl ImageForm<'static> {
    pub const DISK: Self = Self { format: "metal", sector_bytes: 512 };
}

impl Catalogue {
    /// `streams`: the names of all BootImageStreams. `entries`: of each stream the newest release first.
    #[must_use]
    pub fn new(streams: Vec<String>, entries: Vec<CatalogueImage>, former: Vec<FormerImage>) -> Self {
        Self { streams, entries, former }
    }

    #[must_use]
    pub fn has_stream(&self, name: &str) -> bool {
        self.streams.iter().any(|stream| stream == name)
    }

    /// # Errors
    /// Why there is none.
    pub fn golden(
        &self,
        stream: &str,
        architecture: Architecture,
        form: ImageForm<'_>,
    ) -> Result<&ImageReference, GoldenImageMissing> {
        let of_stream = || self.entries.iter().filter(|entry| entry.image.stream == stream);
        let stamped = || of_stream().filter(|entry| entry.is_stamped);
        let golden = || stamped().filter(|entry| !entry.is_withdrawn);
        let fits = |entry: &&CatalogueImage| {
            entry.architecture == architecture && entry.format == form.format && entry.sector_bytes == form.sector_bytes
        };
        match golden().find(fits) {
            Some(entry) => Ok(&entry.image),
            None if !self.has_stream(stream) => Err(GoldenImageMissing::Stream),
            None if stamped().next().is_none() => Err(GoldenImageMissing::Stamp),
            None if golden().next().is_none() => Err(GoldenImageMissing::Withdrawn),
            None => Err(GoldenImageMissing::Form),
        }
    }

    /// The stream of an image and its form, if it is ours. Of several streams that have it, the first one of
    /// `preferred` that is among them.
    #[must_use]
    pub fn known(&self, current: &CurrentImage, preferred: &[&str]) -> CatalogueMatch<'_> {
        let here = || self.entries.iter().filter_map(|own| named(current, &own.image, &own.format, own.sector_bytes));
        let gone = || self.former.iter().filter_map(|own| named(current, &own.image, &own.format, own.sector_bytes));
        let of = |wanted: &&str| here().chain(gone()).find(|(stream, _)| stream == wanted);
        // A stream that is gone is followed where no other has the image.
        if let Some((stream, form)) = preferred.iter().filter(|stream| self.has_stream(stream)).find_map(of) {
            return CatalogueMatch::Of(stream, form);
        }
        let streams: BTreeSet<&str> = here().map(|(stream, _)| stream).collect();
        if streams.len() > 1 {
            return CatalogueMatch::OfSeveral(streams.into_iter().collect());
        }
        here().chain(gone()).next().map_or(CatalogueMatch::No, |(stream, form)| CatalogueMatch::Of(stream, form))
    }

    /// The image of a stream that a set names.
    #[must_use]
    pub fn named(&self, current: &CurrentImage, stream: &str) -> Option<FormerImage> {
        let is_it = |image: &ImageReference| image.stream == stream && is_named(current, image);
        let here = self.entries.iter().find(|entry| is_it(&entry.image)).map(FormerImage::from);
        here.or_else(|| self.former.iter().find(|former| is_it(&former.image)).cloned())
    }

    /// The digests of the same image in its forms for disks with other sectors.
    pub fn other_forms<'a>(&'a self, image: &ImageReference) -> impl Iterator<Item = &'a str> {
        let is_it = |entry: &&CatalogueImage| {
            (&entry.image.stream, &entry.image.release) == (&image.stream, &image.release)
                && entry.image.digest.eq_ignore_ascii_case(&image.digest)
        };
        let own = self.entries.iter().find(is_it);
        own.into_iter().flat_map(|own| {
            let is_other = move |entry: &&CatalogueImage| {
                (&entry.image.stream, &entry.image.release) == (&own.image.stream, &own.image.release)
                    && (entry.architecture, &entry.format) == (own.architecture, &own.format)
                    && entry.image.digest != own.image.digest
            };
            self.entries.iter().filter(is_other).map(|entry| entry.image.digest.as_str())
        })
    }

    /// Whether what a set names now is newer than the golden image of its kind, and as good: only its release is not
    /// whole, because something was added to it. Nobody goes back for that.
    #[must_use]
    pub fn is_ahead(&self, current: &CurrentImage, golden: &ImageReference) -> bool {
        let Some(at) = self.entries.iter().position(|entry| entry.image == *golden) else { return false };
        let (newer, golden) = (&self.entries[..at], &self.entries[at]);
        newer.iter().any(|entry| {
            entry.is_verified
                && !entry.is_withdrawn
                && entry.image.stream == golden.image.stream
                && (entry.architecture, &entry.format, entry.sector_bytes)
                    == (golden.architecture, &golden.format, golden.sector_bytes)
                && super::image::is(current, &entry.image)
        })
    }

    /// The entry of an image that was golden and can still be given to hosts.
    #[must_use]
    pub fn stored(&self, image: &ImageReference) -> Option<&CatalogueImage> {
        let has_it = |entry: &&CatalogueImage| entry.is_verified && entry.image.digest == image.digest;
        // Of streams and releases with the same bytes, the one that is meant.
        let is_it =
            |entry: &&CatalogueImage| (&entry.image.stream, &entry.image.release) == (&image.stream, &image.release);
        let all = || self.entries.iter().filter(has_it);
        all().find(is_it).or_else(|| all().next())
    }

    /// Whether an image of a stream suits disks with sectors of this size, by itself or by its form for them.
    #[must_use]
    pub fn suits_sectors(&self, image: &ImageReference, bytes: u32) -> bool {
        let Some(own) = self.stored(image) else { return true };
        self.entries.iter().any(|entry| {
            entry.is_verified
                && entry.sector_bytes == bytes
                && entry.image.stream == own.image.stream
                && entry.image.release == own.image.release
                && (entry.architecture, &entry.format) == (own.architecture, &own.format)
        })
    }

    /// A disk image that can be given to hosts, withdrawn or not, by its release and digest; either may be empty.
    #[must_use]
    pub fn find(
        &self,
        stream: &str,
        release: &str,
        digest: &str,
        architecture: Option<Architecture>,
    ) -> Option<&CatalogueImage> {
        self.entries.iter().find(|entry| {
            let ImageForm { format, sector_bytes } = ImageForm::DISK;
            // A digest says all, but that it is a disk.
            let fits = if digest.is_empty() {
                Some(entry.architecture) == architecture && entry.format == format && entry.sector_bytes == sector_bytes
            } else {
                entry.image.digest == digest && entry.format == format
            };
            entry.is_stamped
                && fits
                && entry.image.stream == stream
                && (release.is_empty() || entry.image.release == release)
        })
    }
}

/// The stream and the form of an image, where that is what a set names.
fn named<'a>(
    current: &CurrentImage,
    image: &'a ImageReference,
    format: &'a str,
    sector_bytes: u32,
) -> Option<(&'a str, ImageForm<'a>)> {
    is_named(current, image).then_some((&image.stream, ImageForm { format, sector_bytes }))
}

/// Whether what a set names is this image. A URL of ours with another digest is an image of the set's owner.
fn is_named(current: &CurrentImage, image: &ImageReference) -> bool {
    match current {
        CurrentImage::Image { url, digest } => {
            image.digest.eq_ignore_ascii_case(digest) || (image.url == *url && digest.is_empty())
        }
        CurrentImage::Nothing | CurrentImage::Elsewhere(_) => false,
    }
}
