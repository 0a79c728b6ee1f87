//! Rules 5 and 6: whether the image that a set names is one of ours, and which it is to have.

use firesteel_facts::Architecture;
use firesteel_resources::host_group::ImageReference;

use super::catalogue::{CatalogueMatch, GoldenImageMissing, ImageForm};
use super::{Catalogue, CurrentImage, PolicySet, SetDecision, SetIntent, SkipReason, SkippedSet};

fn skip<T>(reason: SkipReason, message: impl Into<String>) -> Result<T, SetDecision> {
    Err(SetDecision::Skip(SkippedSet { reason, message: message.into() }))
}

/// The stream that a set follows, and the form of image that it names.
pub(super) fn stream_of_image<'a>(
    set: &'a PolicySet,
    followed: Option<&str>,
    catalogue: &'a Catalogue,
) -> Result<(String, ImageForm<'a>), SetDecision> {
    match &set.wants {
        SetIntent::Own => skip(SkipReason::CustomImage, "its spec names an image of its own"),
        SetIntent::Pinned => skip(SkipReason::Pinned, "its spec pins it to a release"),
        SetIntent::Restored(entry) => {
            let message = format!("it was restored to entry {entry} of its history, until spec.restore is taken away");
            skip(SkipReason::Restored, message)
        }
        SetIntent::Stream(stream) => Ok((stream.clone(), ImageForm::DISK)),
        SetIntent::SameStream => match (&set.current, followed) {
            (CurrentImage::Elsewhere(template), _) => skip(
                SkipReason::TemplateNotHere,
                format!("its image is named by {template}, and this appliance does not serve that kind"),
            ),
            (CurrentImage::Nothing, _) => skip(SkipReason::NoImage, "its template names no image"),
            (CurrentImage::Image { .. }, Some(stream)) => match catalogue.known(&set.current, &[stream]) {
                CatalogueMatch::Of(_, form) => Ok((stream.to_owned(), form)),
                CatalogueMatch::No | CatalogueMatch::OfSeveral(_) => skip(SkipReason::CustomImage, CUSTOM),
            },
            (CurrentImage::Image { .. }, None) => skip(SkipReason::CustomImage, CUSTOM),
        },
    }
}

const CUSTOM: &str = "its image is of no stream that is known here; name one of a stream to have it kept current";

pub(super) fn golden<'a>(
    catalogue: &'a Catalogue,
    stream: &str,
    architecture: Architecture,
    form: ImageForm<'_>,
) -> Result<&'a ImageReference, SetDecision> {
    catalogue.golden(stream, architecture, form).map_err(|missing| match missing {
        GoldenImageMissing::Stream => {
            SetDecision::Degraded(format!("there is no BootImageStream {stream}: make it, or name another"))
        }
        GoldenImageMissing::Stamp => SetDecision::Wait(format!("no release of the stream {stream} is verified yet")),
        GoldenImageMissing::Withdrawn => {
            SetDecision::Wait(format!("each release of the stream {stream} that is here was withdrawn"))
        }
        GoldenImageMissing::Form => SetDecision::Degraded(format!(
            "the stream {stream} has no verified {} image for {architecture}{}; add the architecture to the stream",
            form.format,
            if form.sector_bytes == 4096 { " with sectors of 4096 bytes" } else { "" },
        )),
    })
}

/// Whether a set names this image already.
pub(super) fn is(current: &CurrentImage, golden: &ImageReference) -> bool {
    match current {
        CurrentImage::Image { url, digest } => *url == golden.url && digest.eq_ignore_ascii_case(&golden.digest),
        CurrentImage::Nothing | CurrentImage::Elsewhere(_) => false,
    }
}
