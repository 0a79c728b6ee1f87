//! The images of all BootImageStreams, as groups and the policy see them: followed, and kept as a catalogue of
//! [`firesteel_plan::policy`].
//!
//! An image is named by the place that its stream gives it and by the digest of what is fetched from there. The store
//! knows what it fetched by that digest, so that nothing is fetched again for a host. By the same digest a host's image
//! is known as one of a stream that says in which form its images are handed their configuration.

use std::sync::{Arc, Mutex, MutexGuard};
use std::{collections::BTreeMap, time::Duration};

use firesteel_facts::Architecture;
use firesteel_kube::{Core, ObjectChange, Objects, Status};
use firesteel_plan::policy::{Catalogue, CatalogueImage, FormerImage};
use firesteel_resources::boot_image_stream::{ArtifactStatus, DeclaredForm, StreamRelease};
use firesteel_resources::{BootImageStream, Image, host_group::ImageReference};
use firesteel_runtime::{
    ControllerError, ImageIndex, IndexVersion, Pending, Runtime, follow, lock, opaque_debug, timeout,
};
use futures_util::future::BoxFuture;
use tokio::sync::{SetOnce, watch};

use crate::releases;

/// Parts of artifacts that are images by themselves; the others are only of use together.
const WHOLE: [&str; 2] = ["disk", "iso"];
const DISK: &str = "disk";
/// The sector size of a disk whose artifact does not say one.
const SECTOR_BYTES: u32 = 512;

/// The longest wait of a step for the streams after a start.
const START_MAX: Duration = Duration::from_secs(5);

/// What is known of the streams. Clones share it.
#[derive(Clone)]
pub struct StreamIndex(Arc<StreamIndexParts>);

struct StreamIndexParts {
    runtime: Arc<dyn Runtime>,
    boot_streams: Objects<BootImageStream>,
    table: Table,
    /// All streams have been read since the start.
    read: SetOnce<()>,
    version: watch::Sender<IndexVersion>,
}

opaque_debug!(StreamIndex);

/// The streams by their names.
#[derive(Debug, Default)]
struct Table(Mutex<BTreeMap<String, StreamImages>>);

/// What is known of one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct StreamImages {
    /// The newest release first.
    entries: Vec<CatalogueImage>,
    /// The form of hand-over that its spec says; mostly empty.
    hand_off: String,
}

/// What is new about a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StreamChange {
    of_images: bool,
    /// Some host's image may be handed its configuration in another form than before.
    of_forms: bool,
}

impl Table {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, StreamImages>> {
        lock(&self.0)
    }

    /// All images of all streams, of each the newest release first.
    fn entries(&self) -> Vec<CatalogueImage> {
        self.lock().values().flat_map(|known| &known.entries).cloned().collect()
    }

    /// What streams say of the form in which this image is handed its configuration, by the names of the streams.
    fn declared(&self, image: &Image) -> Vec<DeclaredForm> {
        let is_this = |entry: &CatalogueImage| {
            !image.checksum.is_empty() && entry.image.digest.eq_ignore_ascii_case(&image.checksum)
        };
        let known = self.lock();
        let say = known.iter().filter(|(_, one)| !one.hand_off.is_empty() && one.entries.iter().any(is_this));
        say.map(|(stream, one)| DeclaredForm { stream: stream.clone(), word: one.hand_off.clone() }).collect()
    }

    /// Returns the images with their streams. `former`: images that sets name, or had, which may be in no stream any
    /// more.
    fn catalogue(&self, former: Vec<FormerImage>) -> Catalogue {
        let entries = self.entries();
        let is_gone = |image: &ImageReference| {
            entries.iter().all(|entry| (&entry.image.stream, &entry.image.digest) != (&image.stream, &image.digest))
        };
        let is_former = |former: &FormerImage| !former.image.stream.is_empty() && is_gone(&former.image);
        let former = former.into_iter().filter(is_former).collect();
        Catalogue::new(self.lock().keys().cloned().collect(), entries, former)
    }

    fn update_stream(&self, name: &str, now: Option<StreamImages>) -> StreamChange {
        let mut known = self.lock();
        let before = match &now {
            Some(now) => known.insert(name.to_owned(), now.clone()),
            None => known.remove(name),
        };
        let says_a_form = [&before, &now].into_iter().flatten().any(|one| !one.hand_off.is_empty());
        let entries = |one: &Option<StreamImages>| one.as_ref().map(|one| one.entries.clone());
        StreamChange { of_images: entries(&before) != entries(&now), of_forms: says_a_form && before != now }
    }
}

impl StreamIndex {
    /// # Errors
    /// When the registry lacks the kind of streams.
    pub fn new(core: &Core, runtime: Arc<dyn Runtime>) -> Result<Self, Status> {
        Ok(Self(Arc::new(StreamIndexParts {
            runtime,
            boot_streams: Objects::new(core, "firesteel.dev", "BootImageStream")?,
            table: Table::default(),
            read: SetOnce::new(),
            version: watch::Sender::new(IndexVersion::default()),
        })))
    }

    /// Follows the streams until the store fails.
    ///
    /// # Errors
    /// What failed.
    pub fn run(&self) -> BoxFuture<'_, Result<(), ControllerError>> {
        Box::pin(async move {
            let take = |change: ObjectChange<BootImageStream>| {
                let StreamChange { of_images, of_forms } = match change {
                    ObjectChange::Applied(stream) => {
                        self.0.table.update_stream(&stream.metadata.name, Some(known_of(&stream)))
                    }
                    ObjectChange::Deleted(stream) => self.0.table.update_stream(&stream.metadata.name, None),
                    ObjectChange::Synced => {
                        // A watch that began again says so again.
                        let _known_before = self.0.read.set(());
                        StreamChange { of_images: true, of_forms: false }
                    }
                    ObjectChange::Undecodable { name, error } => {
                        return tracing::error!(stream = %name.name, %error, "a stored stream cannot be read: what was known of it stays");
                    }
                };
                if of_images || of_forms {
                    self.0.version.send_modify(|version| {
                        version.images += u64::from(of_images);
                        version.forms += u64::from(of_forms);
                    });
                }
            };
            follow(&self.0.boot_streams, take).await
        })
    }
}

impl ImageIndex for StreamIndex {
    fn entries(&self) -> Vec<CatalogueImage> {
        self.0.table.entries()
    }

    fn catalogue(&self, former: Vec<FormerImage>) -> Catalogue {
        self.0.table.catalogue(former)
    }

    fn declared(&self, image: &Image) -> Vec<DeclaredForm> {
        self.0.table.declared(image)
    }

    fn read(&self) -> Pending<'_, ()> {
        Box::pin(async move {
            self.0.read.wait().await;
        })
    }

    fn are_read(&self) -> Pending<'_, bool> {
        Box::pin(async move { timeout(&*self.0.runtime, START_MAX, self.0.read.wait()).await.is_some() })
    }

    fn changes(&self) -> watch::Receiver<IndexVersion> {
        self.0.version.subscribe()
    }
}

fn known_of(stream: &BootImageStream) -> StreamImages {
    StreamImages { entries: entries_of(stream), hand_off: stream.spec.hand_off.clone() }
}

/// The images of a stream, the newest release first.
fn entries_of(stream: &BootImageStream) -> Vec<CatalogueImage> {
    let of_release = |release: &StreamRelease| {
        let artifacts = release.artifacts.iter().filter(|artifact| WHOLE.contains(&artifact.part.as_str()));
        artifacts.filter_map(|artifact| entry(&stream.metadata.name, release, artifact)).collect::<Vec<_>>()
    };
    stream.status.releases.iter().flat_map(of_release).collect()
}

fn entry(stream: &str, release: &StreamRelease, artifact: &ArtifactStatus) -> Option<CatalogueImage> {
    let is_verified = releases::is_verified(artifact);
    let sector_bytes = match artifact.sector_bytes {
        0 if artifact.part == DISK => SECTOR_BYTES,
        bytes => bytes,
    };
    Some(CatalogueImage {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use firesteel_plan::policy::for_sectors;
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
        let streams = Table::default();
        let mut stream = stream();
        let mut learn = |change: &dyn Fn(&mut BootImageStream)| {
            change(&mut stream);
            streams.update_stream("stable", Some(known_of(&stream)))
        };
        assert!(learn(&|_| ()).of_images);
        assert!(!learn(&|stream| stream.status.releases[0].artifacts[0].done_bytes = 7).of_images);
        assert_eq!(
            learn(&|stream| stream.status.releases[1].withdrawn = false),
            StreamChange { of_images: true, of_forms: false }
        );
        let gone = ImageReference { stream: "stable".into(), digest: "00".into(), ..ImageReference::default() };
        let own = ImageReference { digest: "own".into(), ..ImageReference::default() };
        let former = [gone.clone(), own, entries_of(&stream)[1].image.clone()].map(FormerImage::disk);
        let catalogue = streams.catalogue(former.into());
        assert!(catalogue.has_stream("stable") && catalogue.stored(&gone).is_none());
        assert!(streams.update_stream("stable", None).of_images && !streams.update_stream("stable", None).of_images);
    }

    #[test]
    fn the_form_of_a_hosts_image_is_what_its_stream_says() {
        let streams = Table::default();
        let mut stream = stream();
        let image =
            |checksum: &str| Image { url: "https://mirror".into(), checksum: checksum.into(), ..Image::default() };
        let says = |checksum: &str| streams.declared(&image(checksum));
        assert!(!streams.update_stream("stable", Some(known_of(&stream))).of_forms);
        assert!(says("11").is_empty(), "it says nothing");
        stream.spec.hand_off = "config-drive".into();
        assert_eq!(
            streams.update_stream("stable", Some(known_of(&stream))),
            StreamChange { of_images: false, of_forms: true }
        );
        assert!(!streams.update_stream("stable", Some(known_of(&stream))).of_forms);
        let said = DeclaredForm { stream: "stable".into(), word: "config-drive".into() };
        assert_eq!(says("14"), std::slice::from_ref(&said), "in each of its forms");
        stream.status.releases[1].artifacts[0].sha256 = "aB".into();
        assert!(
            streams.update_stream("stable", Some(known_of(&stream))).of_forms,
            "a host may have that image already"
        );
        assert_eq!(says("Ab"), [said]);
        assert!(says("").is_empty() && says("00").is_empty(), "images of nobody");
        assert!(streams.update_stream("stable", None).of_forms);
    }
}
