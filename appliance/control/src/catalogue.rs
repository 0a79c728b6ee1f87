//! The images of all BootImageStreams, as groups and the policy see them: followed, and kept as a catalogue of
//! [`firesteel_plan::policy`].
//!
//! An image is named by the place that its stream gives it and by the digest of what is fetched from there. The store
//! knows what it fetched by that digest, so that nothing is fetched again for a host.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use firesteel_kube::Change;
use firesteel_plan::policy::{Architecture, Catalogue, Entry, Former, Trigger};
use firesteel_resources::{
    BootImageStream,
    boot_image_stream::{Artifact, ArtifactState, Release},
    host_group::ImageReference,
};
use tokio::sync::SetOnce;

use crate::Control;

/// Parts of artifacts that are images by themselves; the others are only of use together.
const WHOLE: [&str; 2] = ["disk", "iso"];
const DISK: &str = "disk";
/// Of a disk whose artifact does not say.
const SECTOR_BYTES: u32 = 512;

/// What is known of the streams.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    entries: Mutex<BTreeMap<String, Vec<Entry>>>,
    /// All streams have been read since the start.
    pub(crate) read: SetOnce<()>,
}

impl Streams {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Vec<Entry>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All images of all streams, of each the newest release first.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.lock().values().flatten().cloned().collect()
    }

    /// `former`: images that sets name, or had, which may not be in any stream any more.
    pub(crate) fn catalogue(&self, former: Vec<Former>) -> Catalogue {
        let entries = self.entries();
        let is_gone = |image: &ImageReference| {
            entries.iter().all(|entry| (&entry.image.stream, &entry.image.digest) != (&image.stream, &image.digest))
        };
        let is_former = |former: &Former| !former.image.stream.is_empty() && is_gone(&former.image);
        let former = former.into_iter().filter(is_former).collect();
        Catalogue::new(self.lock().keys().cloned().collect(), entries, former)
    }

    /// Whether that is news.
    fn learn(&self, name: &str, entries: Option<Vec<Entry>>) -> bool {
        let mut known = self.lock();
        match entries {
            Some(entries) => known.insert(name.to_owned(), entries.clone()).is_none_or(|before| before != entries),
            None => known.remove(name).is_some(),
        }
    }
}

impl Control {
    pub(crate) async fn follow_streams(self) -> Result<(), String> {
        let mut changes = self.inner.boot_streams.subscribe().await.map_err(|status| status.message)?;
        loop {
            let is_news = match changes.next().await.map_err(|status| status.message)? {
                Change::Applied(stream) => self.inner.streams.learn(&stream.metadata.name, Some(entries_of(&stream))),
                Change::Deleted(stream) => self.inner.streams.learn(&stream.metadata.name, None),
                Change::Synced => {
                    // Told again by a watch that began anew.
                    let _known_before = self.inner.streams.read.set(());
                    true
                }
                Change::Undecodable { name, error } => {
                    tracing::error!(stream = %name.name, %error, "a stored stream cannot be read: what was known of it stays");
                    false
                }
            };
            if is_news {
                self.inner.policy.ring(Trigger::CatalogueChanged);
                self.inner.groups.wake_all();
            }
        }
    }
}

/// The images of a stream, the newest release first.
fn entries_of(stream: &BootImageStream) -> Vec<Entry> {
    let of_release = |release: &Release| {
        let artifacts = release.artifacts.iter().filter(|artifact| WHOLE.contains(&artifact.part.as_str()));
        artifacts.filter_map(|artifact| entry(&stream.metadata.name, release, artifact)).collect::<Vec<_>>()
    };
    stream.status.releases.iter().flat_map(of_release).collect()
}

fn entry(stream: &str, release: &Release, artifact: &Artifact) -> Option<Entry> {
    let is_verified = match artifact.state {
        ArtifactState::Verified => true,
        ArtifactState::Wanted | ArtifactState::Fetching | ArtifactState::Failed => false,
    };
    let sector_bytes = match artifact.sector_bytes {
        0 if artifact.part == DISK => SECTOR_BYTES,
        bytes => bytes,
    };
    Some(Entry {
        image: ImageReference {
            stream: stream.to_owned(),
            release: release.release.clone(),
            digest: artifact.sha256.clone(),
            url: artifact.location.clone(),
        },
        architecture: Architecture::read(&artifact.architecture)?,
        format: artifact.format.clone(),
        sector_bytes,
        is_verified,
        is_stamped: release.stamped_at.is_some() && is_verified,
        is_withdrawn: release.withdrawn,
    })
}

/// The same image for a disk with sectors of another size. Its stream may have it at another place now.
pub(crate) fn for_sectors<'a>(entries: &'a [Entry], image: &ImageReference, bytes: u32) -> Option<&'a Entry> {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    fn stream() -> BootImageStream {
        let artifact = |part: &str, sector: u32, state: &str, sha: &str| {
            json!({"architecture": "x86_64", "platform": "metal", "format": "metal", "part": part, "sectorBytes": sector,
                   "location": format!("https://a.example/{sha}"), "sha256": sha, "signature": "none", "state": state})
        };
        serde_json::from_value(json!({
            "metadata": {"name": "stable"}, "spec": {"source": {"file": "a"}},
            "status": {"stamped": true, "releases": [
                {"release": "2", "seenAt": "2026-01-02T00:00:00Z", "withdrawn": false, "artifacts": [
                    artifact("disk", 512, "fetching", "22")]},
                {"release": "1", "seenAt": "2026-01-01T00:00:00Z", "stampedAt": "2026-01-01T01:00:00Z", "withdrawn": true,
                 "artifacts": [artifact("disk", 0, "verified", "11"), artifact("disk", 4096, "verified", "14"),
                               artifact("kernel", 0, "verified", "1k"),
                               json!({"architecture": "vax", "platform": "metal", "format": "metal", "part": "disk",
                                      "location": "l", "sha256": "1v", "signature": "none", "state": "verified"})]},
            ]},
        }))
        .unwrap()
    }

    #[test]
    fn an_entry_is_stamped_when_its_release_is_and_it_is_verified() {
        let entries = entries_of(&stream());
        let told: Vec<_> = entries
            .iter()
            .map(|entry| (entry.image.digest.as_str(), entry.sector_bytes, entry.is_stamped, entry.is_withdrawn))
            .collect();
        assert_eq!(told, [("22", 512, false, false), ("11", 512, true, true), ("14", 4096, true, true)]);
        assert_eq!(entries[0].image.url, "https://a.example/22");
        let plain = entries[1].image.clone();
        assert_eq!(for_sectors(&entries, &plain, 4096).unwrap().image.digest, "14");
        assert_eq!(for_sectors(&entries, &entries[2].image, 512).unwrap().image, plain);
        assert!(for_sectors(&entries, &entries[0].image, 4096).is_none(), "that release has none");
        let moved = ImageReference { url: "https://mirror.example/11".into(), ..plain };
        assert_eq!(for_sectors(&entries, &moved, 4096).unwrap().image.digest, "14", "its place is not what it is");
    }

    #[test]
    fn progress_alone_is_no_news() {
        let streams = Streams::default();
        let mut stream = stream();
        assert!(streams.learn("stable", Some(entries_of(&stream))));
        stream.status.releases[0].artifacts[0].done_bytes = 7;
        assert!(!streams.learn("stable", Some(entries_of(&stream))));
        stream.status.releases[1].withdrawn = false;
        assert!(streams.learn("stable", Some(entries_of(&stream))));
        let gone = ImageReference { stream: "stable".into(), digest: "00".into(), ..ImageReference::default() };
        let own = ImageReference { digest: "own".into(), ..ImageReference::default() };
        let former = [gone.clone(), own, entries_of(&stream)[1].image.clone()].map(Former::disk);
        let catalogue = streams.catalogue(former.into());
        assert!(catalogue.has_stream("stable") && catalogue.stored(&gone).is_none());
        assert!(streams.learn("stable", None) && !streams.learn("stable", None));
    }
}
