//! Which image the group's spec asks for.

use firesteel_facts::shown_url;
use firesteel_resources::host_group::{HostGroupStatus, ImageReference, ReleaseTrack};

use super::{GroupInputs, history::POLICY};

/// What is wanted of the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum GroupTarget {
    Image {
        image: ImageReference,
        /// Who wants it.
        by: String,
        /// It comes from `spec.restore`, and is not tried again.
        is_restored: bool,
    },
    /// It is not known yet; why.
    Unknown(String),
    /// The spec asks for what there is not; what to do.
    Wrong(String),
}

pub(super) fn of(seen: &GroupInputs<'_>) -> GroupTarget {
    let spec = &seen.group.spec;
    if let Some(restore) = &spec.restore {
        return restored(seen, restore.entry);
    }
    let image = &spec.image;
    if !image.url.is_empty() {
        let own =
            ImageReference { url: image.url.clone(), digest: image.checksum.clone(), ..ImageReference::default() };
        return GroupTarget::Image { image: own, by: seen.by.to_owned(), is_restored: false };
    }
    match image.track {
        ReleaseTrack::Pinned => pinned(seen),
        ReleaseTrack::Latest => latest(seen),
    }
}

fn restored(seen: &GroupInputs<'_>, entry: u32) -> GroupTarget {
    let Some(found) = seen.group.status.history.iter().find(|known| known.entry == entry) else {
        return GroupTarget::Wrong(format!("status.history has no entry {entry} to restore: name one that is there"));
    };
    if is_stored(seen, &found.image) {
        return GroupTarget::Image { image: found.image.clone(), by: seen.by.to_owned(), is_restored: true };
    }
    GroupTarget::Wrong(format!(
        "the image of entry {entry}, {}, is not in the store any more: name another",
        name(&found.image)
    ))
}

fn pinned(seen: &GroupInputs<'_>) -> GroupTarget {
    let wanted = &seen.group.spec.image;
    if wanted.digest.is_empty() && seen.architecture.is_none() {
        return GroupTarget::Unknown(
            "the architecture of the group is not known: write it into spec.architecture".to_owned(),
        );
    }
    match seen.catalogue.find(&wanted.stream, &wanted.release, &wanted.digest, seen.architecture) {
        Some(entry) => GroupTarget::Image { image: entry.image.clone(), by: seen.by.to_owned(), is_restored: false },
        None => {
            let named = [wanted.release.as_str(), wanted.digest.as_str()].into_iter().filter(|word| !word.is_empty());
            GroupTarget::Wrong(format!(
                "the stream {} has no verified disk image {}{} here",
                wanted.stream,
                named.collect::<Vec<_>>().join(" "),
                seen.architecture.map(|architecture| format!(" for {architecture}")).unwrap_or_default(),
            ))
        }
    }
}

fn latest(seen: &GroupInputs<'_>) -> GroupTarget {
    let stream = &seen.group.spec.image.stream;
    let golden = seen.group.status.golden.as_ref().filter(|golden| golden.stream == *stream);
    match golden {
        None => GroupTarget::Unknown(format!(
            "no image of the stream {stream} was chosen yet; see machineconfiguration/cluster"
        )),
        Some(golden) if is_withdrawn(seen, golden) => {
            GroupTarget::Unknown(format!("{} was withdrawn, and no other release was chosen yet", name(golden)))
        }
        Some(golden) if !is_stored(seen, golden) => {
            GroupTarget::Unknown(format!("{} is not in the store any more, and no other was chosen yet", name(golden)))
        }
        Some(golden) => GroupTarget::Image { image: golden.clone(), by: POLICY.to_owned(), is_restored: false },
    }
}

/// Why the image that the group is to come to is not given out, if so: only the stream wants it.
pub(super) fn held<'a>(seen: &GroupInputs<'a>, target: &GroupTarget, status: &HostGroupStatus) -> Option<&'a str> {
    let GroupTarget::Image { image, by, .. } = target else { return None };
    seen.held.filter(|_| by == POLICY && status.current.as_ref() != Some(image))
}

/// An image of one's own is fetched for each host as its own would be.
pub(super) fn is_stored(seen: &GroupInputs<'_>, image: &ImageReference) -> bool {
    image.stream.is_empty() || seen.catalogue.stored(image).is_some()
}

pub(super) fn is_withdrawn(seen: &GroupInputs<'_>, image: &ImageReference) -> bool {
    seen.catalogue.stored(image).is_some_and(|entry| entry.is_withdrawn)
}

/// The name of the image for people.
pub(super) fn name(image: &ImageReference) -> String {
    if image.stream.is_empty() { shown_url(&image.url) } else { format!("{} of {}", image.release, image.stream) }
}
