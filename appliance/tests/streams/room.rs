//! Room in the store: what is in use stays, and a full store says so.

use firesteel_images::import::AcquisitionStage;
use firesteel_resources::boot_image_stream::{DEGRADED, STORED};
use serde_json::{Value, json};

use crate::fake::{Fate, Site, digest, metadata, said, url};

#[tokio::test]
async fn a_full_store_is_told_and_what_is_in_use_is_never_offered_for_removal() {
    let site = Site::open().await;
    let wanted = digest("host's own").to_string();
    let host = json!({"metadata": {"namespace": "default", "name": "h"}, "spec": {"online": true,
        "image": {"url": "https://h/disk", "checksum": wanted}}});
    site.objects::<Value>("metal3.io", "BareMetalHost").create(&host).await.unwrap();
    site.offer("https://s/1", metadata("1"));
    site.make("a", json!({"source": {"url": "https://s/1"}, "refreshSeconds": 60})).await;
    site.stamped("a", "1").await;
    // The next release does not fit.
    let told = vec![AcquisitionStage::Downloading { done_bytes: 10, total_bytes: Some(1000) }];
    site.shop.state().fates.insert(digest("2.raw.gz"), Fate::Stages(told));
    site.shop.state().shortfall = Some("9 MiB are missing in the image store's quota of 1 MiB".to_owned());
    site.offer("https://s/1", metadata("2"));
    let stream = site.until("a", "the reason", |stream| said(stream, STORED).0 == "StoreFull").await;
    assert!(said(&stream, STORED).1.contains("9 MiB are missing"));
    assert_eq!(said(&stream, DEGRADED).0, "StoreFull");
    assert_eq!((stream.status.release.as_str(), stream.status.stamped), ("1", false), "the old one stays golden");
    {
        let state = site.shop.state();
        let in_use = state.in_use.last().unwrap();
        let names = ["host's own", "1.raw.gz", "1.4k.raw.gz", "2.raw.gz", "2.4k.raw.gz"];
        for name in names {
            assert!(in_use.digests.contains(&digest(name)), "{name} could have been removed");
        }
        assert!(in_use.digests.contains(&digest(&url("1.raw.gz"))), "the golden image by its raw digest");
    }
    // Room is made, and those who serve hosts learn which images are gone.
    {
        let mut state = site.shop.state();
        state.shortfall = None;
        state.fates.clear();
        state.gone = vec![digest(&url("1.raw.gz"))];
    }
    let fits = vec![AcquisitionStage::Downloading { done_bytes: 20, total_bytes: Some(1000) }];
    site.shop.state().fates.insert(digest("2.raw.gz"), Fate::Stages(fits));
    site.until("a", "the download", |stream| stream.status.progress.contains("2%")).await;
    site.shop.go_on.notify_one();
    let stream = site.stamped("a", "2").await;
    assert_eq!((said(&stream, STORED).0.as_str(), said(&stream, DEGRADED).0.as_str()), ("HasRoom", "AsExpected"));
    assert_eq!(site.shop.state().forgotten, [digest(&url("1.raw.gz"))]);
}

/// A server that does not state the length of a file went on beyond the quota until the disk was full.
#[tokio::test]
async fn what_has_no_end_that_is_known_stops_where_the_room_ends() {
    let site = Site::open().await;
    site.offer("https://s/1", metadata("1"));
    // After two seconds of the wall clock, the rest follows at once.
    let mut told = vec![AcquisitionStage::Downloading { done_bytes: 10, total_bytes: None }; 50];
    told.push(AcquisitionStage::Downloading { done_bytes: 900 << 20, total_bytes: None });
    site.shop.state().fates.insert(digest("1.raw.gz"), Fate::Stages(told));
    site.make("a", json!({"source": {"url": "https://s/1"}})).await;
    site.until("a", "the download", |stream| !stream.status.progress.is_empty()).await;
    site.shop.state().shortfall = Some("9 MiB are missing".to_owned());
    let stream = site.until("a", "the reason", |stream| said(stream, STORED).0 == "StoreFull").await;
    assert!(said(&stream, STORED).1.contains("9 MiB are missing"), "{stream:?}");
    let tried = site.shop.fetched(&url("1.raw.gz"));
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!((tried, site.shop.fetched(&url("1.raw.gz"))), (1, 1), "nothing is begun in a store that is full");
}
