//! Makes room in the store of images: removes what no object names, but keeps what one comes to name meanwhile.

use std::collections::HashSet;

use firesteel_facts::Sha256;
use firesteel_images::collect::StoreItem;
use firesteel_images::import::{Collected, ImageMeta, ImageStore, PendingRemovals, StoreError, without_secrets};
use firesteel_streams::{DepotError, FreedRoom, ImageName, InUse, Referrers};

use super::blocking;

/// How often a choice is made again because objects have come to name what was chosen.
const ROUNDS_MAX: usize = 4;

/// Removes what no object names, as far as room is short. References are read before the choice, and again once what
/// was chosen is locked ([`PendingRemovals`]).
pub(super) async fn make(
    store: &ImageStore,
    referrers: &dyn Referrers,
    quota_bytes: Option<u64>,
    coming_bytes: u64,
) -> Result<FreedRoom, DepotError> {
    let mut made = FreedRoom::default();
    let mut in_use = referrers.in_use().await?;
    for _ in 0..ROUNDS_MAX {
        let collected = match round(store, referrers, in_use, quota_bytes, coming_bytes).await {
            Ok((collected, now)) => {
                in_use = now;
                collected
            }
            // What is gone already must be reported.
            Err(why) if made.bytes > 0 => return Ok(FreedRoom { shortfall: Some(why.to_string()), ..made }),
            Err(why) => return Err(why),
        };
        made.images.extend(collected.removed.iter().filter_map(|removal| match removal.item {
            StoreItem::Image(raw) => Some(raw),
            StoreItem::File(_) | StoreItem::Partial(_) => None,
        }));
        made.bytes += collected.removed.iter().map(|removal| removal.bytes).sum::<u64>();
        made.shortfall = collected.shortfall.map(|shortfall| shortfall.reason);
        if collected.spared.is_empty() {
            return Ok(made);
        }
        tracing::debug!(spared = ?collected.spared, "objects came to use images that were to be removed");
    }
    let text = "objects came to use each image that was to be removed: it is tried again later";
    made.shortfall = made.shortfall.or_else(|| Some(text.to_owned()));
    Ok(made)
}

/// Removes one image that no object names; says whether it went.
pub(super) async fn remove_one(
    store: &ImageStore,
    referrers: &dyn Referrers,
    raw_sha256: &Sha256,
) -> Result<bool, DepotError> {
    let (own, raw) = (store.clone(), *raw_sha256);
    let condemned = blocking(move || own.condemn_image(&raw)).await?.map_err(failed)?;
    let in_use = referrers.in_use().await?;
    let own = store.clone();
    let collected = blocking(move || remove(&own, condemned, &in_use)).await??;
    Ok(!collected.removed.is_empty())
}

/// Chooses, reads the references again, and removes; what is in use by now is restored.
async fn round(
    store: &ImageStore,
    referrers: &dyn Referrers,
    in_use: InUse,
    quota_bytes: Option<u64>,
    coming_bytes: u64,
) -> Result<(Collected, InUse), DepotError> {
    let own = store.clone();
    let condemned = blocking(move || condemn(&own, &in_use, quota_bytes, coming_bytes)).await??;
    let now = referrers.in_use().await?;
    let (own, named) = (store.clone(), now.clone());
    let collected = blocking(move || remove(&own, condemned, &named)).await??;
    Ok((collected, now))
}

fn condemn(
    store: &ImageStore,
    in_use: &InUse,
    quota_bytes: Option<u64>,
    coming_bytes: u64,
) -> Result<PendingRemovals, DepotError> {
    let condemned = digests(store, in_use).and_then(|digests| store.condemn(&digests, quota_bytes, coming_bytes));
    condemned.map_err(failed)
}

fn remove(store: &ImageStore, condemned: PendingRemovals, in_use: &InUse) -> Result<Collected, DepotError> {
    if condemned.is_empty() {
        return condemned.remove(&HashSet::new()).map_err(failed);
    }
    digests(store, in_use).and_then(|digests| condemned.remove(&digests)).map_err(failed)
}

fn failed(error: StoreError) -> DepotError {
    DepotError::Store(format!("{:#}", anyhow::Error::new(error).context("could not read the image store")))
}

/// Returns the digests of what is stored and in use.
fn digests(store: &ImageStore, in_use: &InUse) -> Result<HashSet<Sha256>, StoreError> {
    let images = store.list()?;
    let named = images.iter().filter(|image| in_use.images.iter().any(|name| is_named(&image.meta, name)));
    let mut digests = in_use.digests.clone();
    digests.extend(named.map(|image| image.meta.raw_sha256));
    Ok(digests)
}

/// Tells whether an object means this image: by a digest of any kind, or, if it gives none, by the image's origin.
#[must_use]
pub fn is_named(image: &ImageMeta, name: &ImageName) -> bool {
    let checksum = name.checksum.trim();
    if checksum.is_empty() || checksum.contains("://") {
        let url = without_secrets(&name.url);
        return image.sources.iter().any(|source| source.url == url);
    }
    let is_digest = |text: &str| text.eq_ignore_ascii_case(checksum);
    let of_source = image.sources.iter().any(|source| {
        let given = source.checksum.split_once(':').map_or("", |(_, digits)| digits);
        let content = source.uncompressed_sha256.map(|digest| digest.to_string()).unwrap_or_default();
        is_digest(given) || is_digest(&source.sha256.to_string()) || is_digest(&content)
    });
    of_source || is_digest(&image.raw_sha256.to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::sync::Mutex;

    use firesteel_images::import::{Checksum, ImportSource, Importer, StoredImage};
    use firesteel_streams::Doing;

    use super::*;

    /// Returns one answer after the other, and then the last one again and again; `None` is an answer that cannot be
    /// read.
    struct Says(Mutex<Vec<Option<InUse>>>);

    impl Says {
        fn of(all: impl IntoIterator<Item = Option<InUse>>) -> Self {
            let mut all: Vec<Option<InUse>> = all.into_iter().collect();
            all.reverse();
            Self(Mutex::new(all))
        }
    }

    impl Referrers for Says {
        fn in_use(&self) -> Doing<'_, Result<InUse, DepotError>> {
            let mut left = self.0.lock().unwrap();
            let said = if left.len() > 1 { left.pop() } else { left.last().cloned() };
            Box::pin(async move { said.flatten().ok_or_else(|| DepotError::Objects("the store fails".to_owned())) })
        }
    }

    fn named(name: ImageName) -> InUse {
        InUse { images: [name].into(), ..InUse::default() }
    }

    fn name(url: &str, checksum: &str) -> ImageName {
        ImageName { url: url.to_owned(), checksum: checksum.to_owned() }
    }

    fn image(store: &ImageStore, fill: u8) -> StoredImage {
        let mut bytes = vec![fill; 4 << 20];
        (bytes[510], bytes[511]) = (0x55, 0xaa);
        let sha512 = hex::encode(ring::digest::digest(&ring::digest::SHA512, &bytes));
        let origin = ImportSource {
            url: "https://me:secret@a.example/disk.raw?token=1".to_owned(),
            expected: Some(Checksum::parse(&sha512, "sha512").unwrap()),
            ..ImportSource::default()
        };
        Importer::new(store.clone()).import(&bytes[..], &origin, &|_| {}).unwrap()
    }

    #[tokio::test]
    async fn an_image_is_in_use_by_any_digest_and_by_its_address() {
        let dir = tempfile::tempdir().unwrap();
        let store = ImageStore::open(dir.path()).unwrap();
        let image = image(&store, 7);
        let sha512 = image.meta.sources[0].checksum.split_once(':').unwrap().1.to_owned();
        let raw = image.meta.raw_sha256;
        for wanted in [
            name("x", &sha512),
            name("x", &raw.to_string().to_uppercase()),
            name("https://a.example/disk.raw", ""),
            name("https://a.example/disk.raw?token=2", "https://a.example/SHA512SUMS"),
        ] {
            assert!(is_named(&image.meta, &wanted), "{wanted:?}");
            let made = make(&store, &Says::of([Some(named(wanted))]), Some(0), 0).await.unwrap();
            assert!(made.images.is_empty() && made.shortfall.unwrap().contains("in use"));
        }
        assert!(!is_named(&image.meta, &name("https://a.example/disk.raw", &"0".repeat(64))));
        let made = make(&store, &Says::of([Some(InUse::default())]), Some(0), 0).await.unwrap();
        assert_eq!((made.images, made.shortfall), (vec![raw], None));
    }

    #[tokio::test]
    async fn one_image_goes_unless_an_object_names_it_or_a_host_fetches_it() {
        let dir = tempfile::tempdir().unwrap();
        let store = ImageStore::open(dir.path()).unwrap();
        let (image, other) = (image(&store, 7), image(&store, 8).meta.raw_sha256);
        let raw = image.meta.raw_sha256;
        let by_stream = InUse { digests: [image.meta.stream_sha256].into(), ..InUse::default() };
        for named in [by_stream, named(name("x", &raw.to_string()))] {
            assert_eq!(remove_one(&store, &Says::of([Some(named)]), &raw).await, Ok(false));
        }
        assert!(remove_one(&store, &Says::of([None]), &raw).await.is_err(), "references that cannot be read");
        let lease = store.lease_image(&raw).unwrap();
        assert_eq!(remove_one(&store, &Says::of([Some(InUse::default())]), &raw).await, Ok(false));
        drop(lease);
        assert_eq!(remove_one(&store, &Says::of([Some(InUse::default())]), &raw).await, Ok(true));
        assert_eq!(remove_one(&store, &Says::of([Some(InUse::default())]), &raw).await, Ok(false), "it is gone");
        assert!(store.by_raw(&other).unwrap().is_some());
    }

    /// A host came to name it after the objects were read and before the file was removed.
    #[tokio::test]
    async fn an_image_that_an_object_comes_to_name_while_it_is_chosen_stays() {
        let dir = tempfile::tempdir().unwrap();
        let store = ImageStore::open(dir.path()).unwrap();
        let (wanted, other) = (image(&store, 7).meta.raw_sha256, image(&store, 8).meta.raw_sha256);
        let comes = named(name("x", &wanted.to_string()));
        let says = Says::of([Some(InUse::default()), Some(comes)]);
        let made = make(&store, &says, Some(0), 0).await.unwrap();
        assert_eq!(made.images, [other]);
        assert!(made.shortfall.unwrap().contains("in use"));
        assert!(store.lease_image(&wanted).unwrap().is_some(), "it is given out as before");
        // References that cannot be read remove nothing, at either time.
        for says in [Says::of([None]), Says::of([Some(InUse::default()), None])] {
            assert!(make(&store, &says, Some(0), 0).await.is_err());
        }
        assert!(store.lease_image(&wanted).unwrap().is_some());
    }
}
