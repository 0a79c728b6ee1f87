//! Making room in a real store: what is referred to or open stays, in this process and in others.

use std::collections::HashSet;
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use firesteel_facts::Sha256;
use firesteel_images::collect::StoreItem;
use firesteel_images::import::{Checksum, ImageStore, ImportSource, Importer, StoredImage};

/// An image of noise, so that it takes the room that it has.
fn image(store: &ImageStore, name: u8) -> StoredImage {
    let mut state = u64::from(name) + 1;
    let mut noise: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state.to_be_bytes()[0]
    })
    .take(1 << 20)
    .collect();
    noise[510..512].copy_from_slice(&[0x55, 0xaa]);
    let origin = ImportSource { url: format!("https://example.com/{name}"), ..ImportSource::default() };
    Importer::new(store.clone()).import(&noise[..], &origin, &|_| {}).unwrap()
}

fn used_ago(dir: &Path, image: &StoredImage, seconds: u64) {
    let meta = File::options().write(true).open(dir.join(format!("{}.json", image.meta.raw_sha256))).unwrap();
    meta.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
}

#[test]
fn the_quota_takes_what_was_used_longest_ago_and_nothing_that_is_needed() {
    let dir = tempfile::tempdir().unwrap();
    let store = ImageStore::open(dir.path()).unwrap();
    let images: Vec<StoredImage> = (0..4).map(|name| image(&store, name)).collect();
    for (image, seconds) in images.iter().zip([4000, 3000, 2000, 1000]) {
        used_ago(dir.path(), image, seconds);
    }
    let raw = |index: usize| images[index].meta.raw_sha256;
    // Referred to in the three ways that there are.
    let used = HashSet::from([images[0].meta.stream_sha256]);
    let room_for = |count: u64| Some(count * (1 << 20) + 64 * 1024);
    assert_eq!(store.collect(&used, room_for(4)).unwrap(), Default::default());
    let collected = store.collect(&used, room_for(3)).unwrap();
    assert_eq!(collected.removed.iter().map(|removal| removal.item).collect::<Vec<_>>(), [StoreItem::Image(raw(1))]);
    assert_eq!(store.by_raw(&raw(1)).unwrap(), None);
    // A lease makes it young, and keeps it.
    let lease = store.lease_image(&raw(2)).unwrap().unwrap();
    let collected = store.collect(&used, room_for(1)).unwrap();
    assert_eq!(collected.removed.iter().map(|removal| removal.item).collect::<Vec<_>>(), [StoreItem::Image(raw(3))]);
    assert_eq!(collected.in_use, [StoreItem::Image(raw(2))]);
    let reason = collected.shortfall.unwrap().reason;
    assert!(reason.contains("quota") && reason.contains("1 are being read"), "{reason}");
    let used_by_source = HashSet::from([images[0].meta.sources[0].sha256]);
    // The open file alone holds it as well as the lease.
    let file = lease.into_file();
    assert_eq!(store.collect(&used_by_source, room_for(1)).unwrap().removed, []);
    drop(file);
    let collected = store.collect(&used_by_source, room_for(1)).unwrap();
    assert_eq!((collected.removed.len(), collected.shortfall), (1, None));
    assert_eq!(store.list().unwrap().len(), 1);
    assert_eq!(store.lease_image(&raw(3)).unwrap().map(drop), None);
    // A full store with everything in use says so, and keeps it.
    let full = store.collect(&HashSet::from([raw(0)]), Some(1000)).unwrap();
    assert!(full.removed.is_empty() && full.shortfall.is_some());
    assert_eq!(store.list().unwrap().len(), 1);
}

#[test]
fn downloads_under_way_stay_and_those_that_nobody_goes_on_with_go_first() {
    let dir = tempfile::tempdir().unwrap();
    let store = ImageStore::open(dir.path()).unwrap();
    let kept = image(&store, 1);
    used_ago(dir.path(), &kept, 100_000);
    let (running, left) = (Sha256::of(b"running"), Sha256::of(b"left"));
    for digest in [&running, &left] {
        fs::write(dir.path().join(format!("partial-{digest}")), vec![1; 1 << 20]).unwrap();
        fs::write(dir.path().join(format!("partial-{digest}.json")), b"{}").unwrap();
    }
    let writer = File::open(dir.path().join(format!("partial-{running}"))).unwrap();
    writer.lock().unwrap();
    let items: Vec<StoreItem> = store.inventory().unwrap().into_iter().map(|stored| stored.item).collect();
    assert_eq!(items.len(), 3);
    let collected = store.collect(&HashSet::new(), Some((2 << 20) + 64 * 1024)).unwrap();
    assert!(collected.removed.iter().any(|removal| removal.item == StoreItem::Partial(left)), "{collected:?}");
    assert!(!dir.path().join(format!("partial-{left}.json")).exists());
    assert!(dir.path().join(format!("partial-{running}")).exists());
    assert!(store.by_raw(&kept.meta.raw_sha256).unwrap().is_some(), "that was enough");
    // Room for what comes in is made too.
    let coming = store.collect_for(&HashSet::new(), Some(2 << 20), 1 << 20).unwrap();
    assert!(coming.removed.iter().any(|removal| removal.item == StoreItem::Image(kept.meta.raw_sha256)), "{coming:?}");
}

/// A host came to name an image after the objects were read, and before its file was gone.
#[test]
fn what_is_to_go_stays_where_it_is_named_by_now() {
    let dir = tempfile::tempdir().unwrap();
    let store = ImageStore::open(dir.path()).unwrap();
    let (wanted, other) = (image(&store, 1), image(&store, 2));
    let condemned = store.condemn(&HashSet::new(), Some(1), 0).unwrap();
    assert!(!condemned.is_empty());
    let collected = condemned.remove(&HashSet::from([wanted.meta.sources[0].sha256])).unwrap();
    let item = |image: &StoredImage| StoreItem::Image(image.meta.raw_sha256);
    assert_eq!(collected.spared, [item(&wanted)]);
    assert_eq!(collected.removed.iter().map(|removal| removal.item).collect::<Vec<_>>(), [item(&other)]);
    assert_eq!(store.list().unwrap(), [wanted]);
}

/// Who looks for an image that is to go has it, or finds it gone: it is not given out and then removed.
#[test]
fn who_looks_for_what_is_to_go_waits_until_that_is_decided() {
    let dir = tempfile::tempdir().unwrap();
    let store = ImageStore::open(dir.path()).unwrap();
    let wanted = image(&store, 1);
    let checksum: Checksum = wanted.meta.sources[0].sha256.into();
    let look = || {
        let (store, checksum) = (store.clone(), checksum.clone());
        let looking = std::thread::spawn(move || store.used_by_source(&checksum).unwrap());
        std::thread::sleep(Duration::from_millis(30));
        assert!(!looking.is_finished(), "it was given out while it was to go");
        looking
    };
    let condemned = store.condemn(&HashSet::new(), Some(1), 0).unwrap();
    let looking = look();
    drop(condemned);
    assert_eq!(looking.join().unwrap(), Some(wanted), "it stays");
    let condemned = store.condemn(&HashSet::new(), Some(1), 0).unwrap();
    let looking = look();
    assert_eq!(condemned.remove(&HashSet::new()).unwrap().removed.len(), 1);
    assert_eq!(looking.join().unwrap(), None, "it is gone");
}

/// A damaged file stood before every other image, every import and every collection.
#[test]
fn metadata_that_cannot_be_read_hides_its_own_image_alone_and_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let store = ImageStore::open(dir.path()).unwrap();
    let (bad, good) = (image(&store, 1), image(&store, 2));
    let raw = bad.meta.raw_sha256;
    fs::write(dir.path().join(format!("{raw}.json")), b"{\"raw").unwrap();
    fs::write(dir.path().join(format!("{raw}.file.json")), b"[]").unwrap();
    assert_eq!(store.list().unwrap(), [good]);
    assert_eq!((store.files().unwrap(), store.by_raw(&raw).unwrap()), (Vec::new(), None));
    assert_eq!(store.collect(&HashSet::new(), Some(1)).unwrap().removed.len(), 1);
    assert_eq!(image(&store, 1).meta.raw_sha256, raw);
    assert!(store.by_raw(&raw).unwrap().is_some());
}

/// What was downloaded lay beside the image that it had become, for ever.
#[test]
fn a_download_whose_image_is_here_goes_when_the_folder_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let store = ImageStore::open(dir.path()).unwrap();
    let image = image(&store, 1);
    let (done, other) = (image.meta.sources[0].sha256, Sha256::of(b"other"));
    for digest in [&done, &other] {
        fs::write(dir.path().join(format!("partial-{digest}")), b"x").unwrap();
        fs::write(dir.path().join(format!("partial-{digest}.json")), b"{}").unwrap();
    }
    // Of a file that was put in its place just before a kill.
    let lone = dir.path().join(format!("partial-{}.json", Sha256::of(b"lone")));
    fs::write(&lone, b"{}").unwrap();
    let store = ImageStore::open(dir.path()).unwrap();
    assert!(!lone.exists());
    assert_eq!(store.unfinished().unwrap().iter().map(|one| one.sha256).collect::<Vec<_>>(), [other]);
    assert!(!dir.path().join(format!("partial-{done}.json")).exists());
    assert_eq!(store.list().unwrap().len(), 1);
}
