//! What the object of a stream causes, and what its status says.

use std::time::{Duration, Instant};

use firesteel_images::import::AcquisitionStage;
use firesteel_resources::boot_image_stream::{ArtifactState, DEGRADED, STAMPED, SignatureStatus};
use serde_json::{Value, json};

use crate::fake::{Fate, Site, digest, fault, metadata, said, url};

const PLAIN: &str = "1.raw.gz";
const FOUR_K: &str = "1.4k.raw.gz";

fn source(name: &str) -> Value {
    json!({"source": {"url": name}})
}

#[tokio::test]
async fn a_release_is_golden_when_all_of_it_is_verified() {
    let site = Site::open().await;
    site.offer("https://s/1", metadata("1"));
    let half = AcquisitionStage::Downloading { done_bytes: 500, total_bytes: Some(1000) };
    site.shop.state().fates.insert(digest(FOUR_K), Fate::Stages(vec![half]));
    site.make("a", source("https://s/1")).await;
    let is_half = |stream: &firesteel_resources::BootImageStream| stream.status.progress.contains("50%");
    let stream = site.until("a", "progress", is_half).await;
    assert!(!stream.status.stamped && stream.status.release.is_empty(), "{:?}", stream.status);
    assert_eq!(said(&stream, STAMPED).0, "Fetching");
    let artifacts = &stream.status.releases[0].artifacts;
    let states: Vec<_> = artifacts.iter().map(|artifact| (artifact.sector_bytes, artifact.state)).collect();
    assert_eq!(states, [(512, ArtifactState::Verified), (4096, ArtifactState::Fetching)]);
    assert_eq!((artifacts[1].done_bytes, artifacts[1].total_bytes), (500, Some(1000)));
    site.shop.go_on.notify_one();
    let stream = site.stamped("a", "1").await;
    assert_eq!((stream.status.stream.as_str(), stream.status.last_modified.as_str()), ("stable", "2026-01-01"));
    assert!(stream.status.progress.is_empty() && stream.status.releases[0].stamped_at.is_some());
    for artifact in &stream.status.releases[0].artifacts {
        assert_eq!((artifact.state, artifact.signature), (ArtifactState::Verified, SignatureStatus::Unverified));
        assert_eq!(artifact.served, format!("/images/{}", artifact.sha256));
        assert_eq!(artifact.raw_sha256.len(), 64);
    }
    assert_eq!((said(&stream, STAMPED).0.as_str(), said(&stream, DEGRADED).0.as_str()), ("Verified", "AsExpected"));
    assert_eq!((site.shop.fetched(&url(PLAIN)), site.shop.fetched(&url(FOUR_K))), (1, 1), "once each");
    assert_eq!(site.shop.state().kept["a"], metadata("1"));
}

#[tokio::test]
async fn a_wrong_digest_is_never_golden_and_says_why_and_holds_nobody_up() {
    let site = Site::open().await;
    site.offer("https://s/1", metadata("1"));
    site.offer("https://s/2", metadata("2"));
    let mut wrong = fault("the sha256 is 00, not 11");
    wrong.is_permanent = true;
    site.shop.state().fates.insert(digest(PLAIN), Fate::Bad(wrong));
    site.make("bad", source("https://s/1")).await;
    site.make("gone", source("https://s/nowhere")).await;
    site.make("good", source("https://s/2")).await;
    site.stamped("good", "2").await;
    let stream = site.until("bad", "the fault", |stream| said(stream, DEGRADED).0 == "ArtifactFailed").await;
    assert!(said(&stream, DEGRADED).1.contains("1 x86_64 disk: the sha256 is 00, not 11"), "{stream:?}");
    let stream = site.until("bad", "the other one", |stream| {
        stream.status.releases[0].artifacts[1].state == ArtifactState::Verified
    });
    let stream = stream.await;
    assert!(stream.status.release.is_empty() && stream.status.releases[0].stamped_at.is_none());
    let gone = site.until("gone", "the reason", |stream| said(stream, DEGRADED).0 == "SourceUnusable").await;
    assert!(said(&gone, DEGRADED).1.contains("no source has https://s/nowhere"));
    // In eight minutes of its clock it is not fetched over and over.
    let until = Instant::now() + Duration::from_secs(5);
    while Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(site.shop.fetched(&url(PLAIN)), 1);
    assert!(site.get("bad").await.status.release.is_empty());
    // A change of the object asks for another try.
    site.shop.state().fates.clear();
    site.edit("bad", |stream| stream["spec"]["refreshSeconds"] = json!(60)).await;
    site.stamped("bad", "1").await;
    site.offer("https://s/nowhere", metadata("1"));
    site.stamped("gone", "1").await;
    assert_eq!(site.shop.fetched(&url(FOUR_K)), 1, "one store for all streams");
}

#[tokio::test]
async fn a_withdrawn_release_is_golden_no_more() {
    let site = Site::open().await;
    site.offer("https://s/1", metadata("1"));
    site.make("a", json!({"source": {"url": "https://s/1"}, "refreshSeconds": 60})).await;
    site.stamped("a", "1").await;
    site.offer("https://s/1", metadata("2"));
    site.stamped("a", "2").await;
    site.offer("https://s/1", metadata("1"));
    let stream = site.stamped("a", "1").await;
    let told: Vec<_> = stream.status.releases.iter().map(|one| (one.release.as_str(), one.withdrawn)).collect();
    assert_eq!(told, [("2", true), ("1", false)]);
    assert_eq!(site.shop.fetched(&url(PLAIN)), 1);
    // An invalid document does not remove the earlier one.
    site.offer("https://s/1", b"<html>maintenance</html>".to_vec());
    let stream = site.until("a", "the reason", |stream| said(stream, DEGRADED).0 == "SourceUnusable").await;
    assert_eq!(stream.status.release, "1");
    let events = site.objects::<Value>("", "Event");
    let mut reasons = Vec::new();
    for _ in 0..1000 {
        let (all, _) = events.list(None).await.unwrap();
        reasons = all.iter().map(|event| event["reason"].as_str().unwrap().to_owned()).collect();
        if reasons.iter().any(|reason| reason == "ReleaseWithdrawn") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    panic!("nobody was told: {reasons:?}");
}

/// A status said "fetching, 800 of 1000" after a restart, while nothing was fetched and 400 were there.
#[tokio::test]
async fn after_a_restart_the_progress_is_what_is_there() {
    let mut site = Site::open().await;
    site.offer("https://s/1", metadata("1"));
    let stages = vec![AcquisitionStage::Downloading { done_bytes: 800, total_bytes: Some(1000) }];
    site.shop.state().fates.insert(digest(PLAIN), Fate::Stages(stages));
    site.make("a", source("https://s/1")).await;
    site.until("a", "progress", |stream| stream.status.progress.contains("80%")).await;
    let again = vec![AcquisitionStage::Rereading { done_bytes: 100, total_bytes: 400 }];
    site.shop.state().fates.insert(digest(PLAIN), Fate::Stages(again));
    site.restart().await;
    let stream = site.until("a", "what is done", |stream| stream.status.progress.contains("reading again")).await;
    let artifact = &stream.status.releases[0].artifacts[0];
    assert_eq!((artifact.done_bytes, artifact.total_bytes, artifact.state), (400, Some(1000), ArtifactState::Fetching));
    assert_eq!(artifact.bytes_per_second, None);
    site.shop.go_on.notify_one();
    site.stamped("a", "1").await;
    // A verified file is not fetched again, though its source is gone.
    site.shop.state().documents.clear();
    site.restart().await;
    let stream = site.until("a", "the source's fault", |stream| said(stream, DEGRADED).0 == "SourceUnusable").await;
    assert!(stream.status.stamped && stream.status.release == "1");
    assert_eq!((site.shop.fetched(&url(PLAIN)), site.shop.fetched(&url(FOUR_K))), (2, 1));
    // A file that was removed from the store is fetched again, and the release is not golden meanwhile.
    site.shop.state().fates.insert(digest(PLAIN), Fate::Bad(fault("the server is gone")));
    site.shop.state().stored.remove(&digest(PLAIN));
    site.restart().await;
    let stream = site.until("a", "the loss", |stream| stream.status.release.is_empty()).await;
    assert!(!stream.status.stamped);
}

#[tokio::test]
async fn progress_is_written_every_few_seconds_and_no_more() {
    let site = Site::open().await;
    site.offer("https://s/1", metadata("1"));
    let stage = |done| AcquisitionStage::Downloading { done_bytes: done, total_bytes: Some(100) };
    // Four seconds of its clock each: more than two minutes.
    site.shop.state().fates.insert(digest(PLAIN), Fate::Stages((0..32).map(stage).collect()));
    site.make("a", source("https://s/1")).await;
    let first = site.until("a", "the start", |stream| !stream.status.progress.is_empty()).await;
    let before = site.core.store().current().0;
    // After a pause of the machine the speed is known a tick later.
    let is_told = |stream: &firesteel_resources::BootImageStream| {
        stream.status.progress.contains("31%") && stream.status.releases[0].artifacts[0].bytes_per_second.is_some()
    };
    let stream = site.until("a", "the end with its speed", is_told).await;
    let writes = site.core.store().current().0 - before;
    assert!((5..=45).contains(&writes), "{writes} writes in two minutes");
    assert_ne!(first.status, stream.status);
}

#[tokio::test]
async fn a_config_map_is_a_source_and_its_list_waits_for_the_stamp() {
    let site = Site::open().await;
    let maps = site.objects::<Value>("", "ConfigMap");
    let mut list = json!({
        "metadata": {"namespace": "default", "name": "coreos-bootimages"},
        "data": {"stream": String::from_utf8(metadata("1")).unwrap(), "releaseVersion": "4.21.0"},
    });
    maps.create(&list).await.unwrap();
    let spec = json!({"source": {"configMap": {"namespace": "default", "name": "coreos-bootimages"}}});
    site.make("a", spec).await;
    let stream = site.until("a", "what it waits for", |stream| said(stream, STAMPED).0 == "WaitingForStamp").await;
    assert!(stream.status.release.is_empty() && said(&stream, STAMPED).1.contains("not stamped"));
    list["data"]["MCOReleaseImageVersion"] = json!("4.21.0");
    list["data"]["MCOVersionHash"] = json!("abc");
    maps.modify("default", "coreos-bootimages", firesteel_kube::ObjectPart::Main, |map| {
        map["data"] = list["data"].clone()
    })
    .await
    .unwrap();
    site.stamped("a", "1").await;
    let spec = json!({"source": {"configMap": {"namespace": "default", "name": "none", "key": "k"}}});
    site.make("b", spec).await;
    let stream = site.until("b", "the reason", |stream| said(stream, DEGRADED).0 == "SourceUnusable").await;
    assert!(said(&stream, DEGRADED).1.contains("there is no ConfigMap default/none"));
    let plain = json!({"metadata": {"namespace": "default", "name": "none"},
                       "data": {"k": String::from_utf8(metadata("2")).unwrap()}});
    maps.create(&plain).await.unwrap();
    site.stamped("b", "2").await;
}

#[tokio::test]
async fn without_the_keys_that_it_names_nothing_signed_is_fetched() {
    let site = Site::open().await;
    site.offer("https://s/1", metadata("1"));
    let keyring = json!({"kind": "ConfigMap", "namespace": "default", "name": "keys"});
    site.make("a", json!({"source": {"url": "https://s/1"}, "keyring": keyring})).await;
    let stream = site.until("a", "the reason", |stream| said(stream, DEGRADED).0 == "KeyringUnusable").await;
    assert!(said(&stream, DEGRADED).1.contains("ConfigMap default/keys"), "{stream:?}");
    let maps = site.objects::<Value>("", "ConfigMap");
    let broken = json!({"metadata": {"namespace": "default", "name": "keys"}, "data": {"k": "no key"}});
    maps.create(&broken).await.unwrap();
    site.until("a", "the other reason", |stream| said(stream, DEGRADED).1.contains("cannot be used")).await;
    assert!(site.shop.state().fetched.is_empty(), "it was fetched without a look at its signature");
    site.edit("a", |stream| drop(stream["spec"].as_object_mut().unwrap().remove("keyring"))).await;
    site.stamped("a", "1").await;
}

/// A download that began before the keys were named was golden until the store was read again.
#[tokio::test]
async fn keys_that_come_during_a_download_judge_it() {
    let site = Site::open().await;
    site.offer("https://s/1", metadata("1"));
    let half = AcquisitionStage::Downloading { done_bytes: 500, total_bytes: Some(1000) };
    site.shop.state().fates.insert(digest(PLAIN), Fate::Stages(vec![half]));
    site.make("a", source("https://s/1")).await;
    site.until("a", "progress", |stream| stream.status.progress.contains("50%")).await;
    let keyring = json!({"kind": "ConfigMap", "namespace": "default", "name": "keys"});
    site.edit("a", |stream| stream["spec"]["keyring"] = keyring.clone()).await;
    site.until("a", "the reason", |stream| said(stream, DEGRADED).0 == "KeyringUnusable").await;
    site.shop.go_on.notify_one();
    let state = |stream: &firesteel_resources::BootImageStream| stream.status.releases[0].artifacts[0].state;
    let stream = site.until("a", "the end of it", |stream| state(stream) != ArtifactState::Fetching).await;
    assert_eq!((state(&stream), stream.status.stamped), (ArtifactState::Wanted, false));
    site.edit("a", |stream| drop(stream["spec"].as_object_mut().unwrap().remove("keyring"))).await;
    site.stamped("a", "1").await;
}

#[tokio::test]
async fn a_paused_stream_is_left_alone_and_all_formats_may_be_asked_for() {
    let site = Site::open().await;
    site.offer("https://s/1", metadata("1"));
    let spec = json!({"source": {"url": "https://s/1"}, "formats": ["pxe", "iso"], "paused": true});
    site.make("a", spec).await;
    let stream = site.until("a", "the look at it", |stream| stream.status.observed_generation == 1).await;
    assert!(site.shop.state().asked.is_empty() && stream.status.releases.is_empty());
    site.edit("a", |stream| stream["spec"]["paused"] = json!(false)).await;
    let stream = site.stamped("a", "1").await;
    let parts: Vec<&str> = stream.status.releases[0].artifacts.iter().map(|artifact| artifact.part.as_str()).collect();
    assert_eq!(parts, ["kernel", "initramfs", "rootfs", "iso"]);
    // A download under way ends with the pause.
    site.shop.state().fates.insert(
        digest("2.kernel"),
        Fate::Stages(vec![AcquisitionStage::Downloading { done_bytes: 1, total_bytes: None }]),
    );
    site.offer("https://s/1", metadata("2"));
    site.edit("a", |stream| stream["spec"]["refreshSeconds"] = json!(60)).await;
    site.until("a", "the download", |stream| !stream.status.progress.is_empty()).await;
    site.edit("a", |stream| stream["spec"]["paused"] = json!(true)).await;
    let stream = site.until("a", "the end of it", |stream| stream.status.progress.is_empty()).await;
    assert_eq!((stream.status.release.as_str(), said(&stream, STAMPED).0.as_str()), ("1", "Paused"));
    // It also ends with the stream.
    site.edit("a", |stream| stream["spec"]["paused"] = json!(false)).await;
    site.until("a", "the download again", |stream| !stream.status.progress.is_empty()).await;
    site.streams().delete("", "a").await.unwrap();
    let asked = site.shop.state().asked.len();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(site.shop.state().asked.len() <= asked + 1, "it is followed though it is gone");
}

#[tokio::test]
async fn the_architectures_are_those_of_the_hosts() {
    let site = Site::open().await;
    let both = String::from_utf8(metadata("1")).unwrap();
    let mut document: Value = serde_json::from_str(&both).unwrap();
    let mut arm: Value = serde_json::from_slice(&metadata("1-arm")).unwrap();
    document["architectures"]["aarch64"] = arm["architectures"]["x86_64"].take();
    document["architectures"]["aarch64"]["artifacts"]["metal"]["release"] = json!("1");
    site.offer("https://s/1", document.to_string().into_bytes());
    // A new host does not wait until the source is fetched again, in a week.
    site.make("a", json!({"source": {"url": "https://s/1"}, "refreshSeconds": 7 * 24 * 3600})).await;
    let stream = site.stamped("a", "1").await;
    assert_eq!(stream.status.releases[0].artifacts.len(), 2, "those of the appliance's own machine");
    let hardware = json!({"metadata": {"namespace": "default", "name": "h"},
                          "spec": {"hardware": {"cpu": {"arch": "aarch64"}}}});
    site.objects::<Value>("metal3.io", "HardwareData").create(&hardware).await.unwrap();
    let stream =
        site.until("a", "the other architecture", |stream| stream.status.releases[0].artifacts.len() == 4).await;
    let stream = if stream.status.stamped { stream } else { site.stamped("a", "1").await };
    assert!(stream.status.releases[0].artifacts.iter().any(|artifact| artifact.architecture == "aarch64"));
}
