//! The digests by which hosts name the images of a group where their disks have sectors of another size. A group names an
//! image by one form of it; a host that has another form has the same image, also after the stream forgot the release.

use std::collections::BTreeSet;

use firesteel_resources::host_group::{HostGroupStatus, ImageReference};

use super::GroupInputs;

/// Brings `status.otherForms` up to the images that the status names.
pub(super) fn note(seen: &GroupInputs<'_>, status: &mut HostGroupStatus) {
    let canary = status.canary.as_ref().map(|canary| &canary.image);
    let now = [canary, status.current.as_ref(), status.golden.as_ref(), status.previous.as_ref()];
    let past = status.history.iter().map(|entry| &entry.image);
    let named = now.into_iter().flatten().chain(past).filter(|image| !image.stream.is_empty());
    let named: BTreeSet<ImageReference> = named.cloned().collect();
    let digests: BTreeSet<&str> = named.iter().map(|image| image.digest.as_str()).collect();
    status.other_forms.retain(|_, digest| digests.contains(digest.as_str()));
    for image in &named {
        for form in seen.catalogue.other_forms(image) {
            status.other_forms.insert(form.to_ascii_lowercase(), image.digest.clone());
        }
    }
}
