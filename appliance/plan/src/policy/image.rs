//! Rules 5 and 6: whether the image that a set names is one of ours, and which it is to have.

use firesteel_facts::Architecture;
use firesteel_resources::host_group::ImageReference;

use super::{
    Catalogue, Current, Decision, Set, Skip, SkipReason, Wants,
    catalogue::{ImageForm, Known, Missing},
};

fn skip<T>(reason: SkipReason, message: impl Into<String>) -> Result<T, Decision> {
    Err(Decision::Skip(Skip { reason, message: message.into() }))
}

/// The stream that a set follows, and the form of image that it names.
pub(super) fn ours<'a>(
    set: &'a Set,
    followed: Option<&str>,
    catalogue: &'a Catalogue,
) -> Result<(String, ImageForm<'a>), Decision> {
    match &set.wants {
        Wants::Own => skip(SkipReason::CustomImage, "its spec names an image of its own"),
        Wants::Pinned => skip(SkipReason::Pinned, "its spec pins it to a release"),
        Wants::Restored(entry) => {
            let message = format!("it was restored to entry {entry} of its history, until spec.restore is taken away");
            skip(SkipReason::Restored, message)
        }
        Wants::Stream(stream) => Ok((stream.clone(), ImageForm::DISK)),
        Wants::SameStream => match (&set.current, followed) {
            (Current::Elsewhere(template), _) => skip(
                SkipReason::TemplateNotHere,
                format!("its image is named by {template}, and this appliance does not serve that kind"),
            ),
            (Current::Nothing, _) => skip(SkipReason::NoImage, "its template names no image"),
            (Current::Image { .. }, Some(stream)) => match catalogue.known(&set.current, &[stream]) {
                Known::Of(_, form) => Ok((stream.to_owned(), form)),
                Known::No | Known::OfSeveral(_) => skip(SkipReason::CustomImage, CUSTOM),
            },
            (Current::Image { .. }, None) => skip(SkipReason::CustomImage, CUSTOM),
        },
    }
}

const CUSTOM: &str = "its image is of no stream that is known here; name one of a stream to have it kept current";

pub(super) fn golden<'a>(
    catalogue: &'a Catalogue,
    stream: &str,
    architecture: Architecture,
    form: ImageForm<'_>,
) -> Result<&'a ImageReference, Decision> {
    catalogue.golden(stream, architecture, form).map_err(|missing| match missing {
        Missing::Stream => {
            Decision::Degraded(format!("there is no BootImageStream {stream}: make it, or name another"))
        }
        Missing::Stamp => Decision::Wait(format!("no release of the stream {stream} is verified yet")),
        Missing::Withdrawn => Decision::Wait(format!("each release of the stream {stream} that is here was withdrawn")),
        Missing::Form => Decision::Degraded(format!(
            "the stream {stream} has no verified {} image for {architecture}{}; add the architecture to the stream",
            form.format,
            if form.sector_bytes == 4096 { " with sectors of 4096 bytes" } else { "" },
        )),
    })
}

/// Whether a set names this image already.
pub(super) fn is(current: &Current, golden: &ImageReference) -> bool {
    match current {
        Current::Image { url, digest } => *url == golden.url && digest.eq_ignore_ascii_case(&golden.digest),
        Current::Nothing | Current::Elsewhere(_) => false,
    }
}
