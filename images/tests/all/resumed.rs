//! Downloads that go on where an earlier attempt ended, and never mix two files (S1.5; issue 6, line 6).

use std::{fs, path::Path, sync::Arc, time::Duration};

use firesteel_facts::Sha256;
use firesteel_images::http::{DownloadLimits, HttpError};
use firesteel_images::import::{AcquisitionStage, ArtifactError, FLUSH_BYTES, ImageRequest};

use crate::artifacts::{MIB, PATH, acquire, acquire_with, acquirer, image_of, names, wanted};
use crate::disks::gpt_image;
use crate::file_server::{Content, Fault, File, FileServer};

/// A server that breaks off for good after so many bytes.
fn stops_at(file: File, at: u64) -> File {
    let faults: Vec<Fault> = std::iter::repeat_n(Fault::Cut(at), 3).collect();
    file.with(&faults)
}

/// Waits until a download has come as far as its server lets it.
async fn held_at(partial: &Path, bytes: u64) {
    for _ in 0..12_000 {
        if bytes_of(partial) == bytes {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the download is at {} bytes, not at {bytes}", bytes_of(partial));
}

fn bytes_of(file: &Path) -> u64 {
    fs::metadata(file).map_or(0, |found| found.len())
}

#[tokio::test]
async fn a_later_attempt_goes_on_where_an_earlier_one_ended_and_says_so() {
    let content = Content::Generated { bytes: 80 * MIB };
    let sha256 = content.sha256();
    let dated = File {
        etag: None,
        last_modified: Some("Tue, 21 Jul 2026 14:07:12 GMT".to_owned()),
        ..File::new(content.clone())
    };
    let unnamed = File { etag: None, ..File::new(content.clone()) };
    for (file, if_range) in
        [(File::new(content.clone()), Some("\"one\"")), (dated, Some("Tue, 21 Jul 2026 14:07:12 GMT")), (unnamed, None)]
    {
        let dir = tempfile::tempdir().unwrap();
        let server = FileServer::start();
        let url = server.put(PATH, stops_at(file, 70 * MIB));
        let wanted = wanted(&url, sha256);
        let (result, stages) = acquire(dir.path(), &wanted).await;
        assert!(matches!(result, Err(ArtifactError::Http { .. })), "{result:?}");
        assert_eq!(stages[0], AcquisitionStage::Downloading { done_bytes: 0, total_bytes: None });
        let left = names(dir.path());
        assert_eq!(left, [format!("partial-{sha256}"), format!("partial-{sha256}.json")]);
        assert_eq!(fs::metadata(dir.path().join(&left[0])).unwrap().len(), 70 * MIB);
        let record = fs::read_to_string(dir.path().join(&left[1])).unwrap();
        assert!(!record.contains("127.0.0.1"), "an address may hold a password: {record}");
        let before = server.seen(PATH).len();
        let (result, stages) = acquire(dir.path(), &wanted).await;
        assert_eq!(image_of(&result.unwrap()), sha256);
        let request = &server.seen(PATH)[before];
        assert_eq!(request.headers["range"], format!("bytes={}-", 70 * MIB));
        assert_eq!(request.headers.get("if-range").map(String::as_str), if_range);
        assert_eq!(server.seen(PATH).len(), before + 1);
        // First what is there is read again, then the download goes on from there: never from nothing.
        assert_eq!(stages[0], AcquisitionStage::Rereading { done_bytes: 0, total_bytes: 70 * MIB });
        assert!(stages.contains(&AcquisitionStage::Rereading { done_bytes: 70 * MIB, total_bytes: 70 * MIB }));
        for stage in &stages {
            if let AcquisitionStage::Downloading { done_bytes, total_bytes } = stage {
                assert!(*done_bytes >= 70 * MIB && *total_bytes == Some(80 * MIB), "{stage:?}");
            }
        }
        assert!(matches!(stages.last(), Some(AcquisitionStage::Importing { .. })));
        assert_eq!(names(dir.path()).len(), 2, "the partial file is gone");
    }
}

#[tokio::test]
async fn what_a_crash_left_unsure_is_downloaded_again() {
    let content = Content::Generated { bytes: 80 * MIB };
    let sha256 = content.sha256();
    type Damage = fn(&Path, &str);
    let damages: [(Damage, u64); 4] = [
        // After a loss of power the file may be longer than what was flushed, and hold zeros there.
        (
            |dir, name| {
                let file = fs::OpenOptions::new().append(true).open(dir.join(name)).unwrap();
                file.set_len(75 * MIB).unwrap();
            },
            70 * MIB,
        ),
        // The record is cut, or is not there: nothing can be trusted.
        (|dir, name| fs::write(dir.join(format!("{name}.json")), b"{\"address").unwrap(), 0),
        (|dir, name| fs::remove_file(dir.join(format!("{name}.json"))).unwrap(), 0),
        // The file is shorter than its record says.
        (
            |dir, name| {
                let file = fs::OpenOptions::new().write(true).open(dir.join(name)).unwrap();
                file.set_len(10 * MIB).unwrap();
            },
            0,
        ),
    ];
    for (damage, start) in damages {
        let dir = tempfile::tempdir().unwrap();
        let server = FileServer::start();
        let url = server.put(PATH, stops_at(File::new(content.clone()), 70 * MIB));
        let wanted = wanted(&url, sha256);
        assert!(acquire(dir.path(), &wanted).await.0.is_err());
        damage(dir.path(), &format!("partial-{sha256}"));
        let before = server.seen(PATH).len();
        assert_eq!(image_of(&acquire(dir.path(), &wanted).await.0.unwrap()), sha256);
        let range = server.seen(PATH)[before].headers.get("range").cloned();
        assert_eq!(range, (start > 0).then(|| format!("bytes={start}-")));
    }
}

#[tokio::test]
async fn a_file_that_changed_meanwhile_is_begun_anew_and_never_mixed() {
    let old = Content::Generated { bytes: 60 * MIB };
    let new = gpt_image(16 << 20, 512);
    let longer = Content::Generated { bytes: 64 * MIB };
    let sha256 = Sha256::of(&new);
    let named =
        |content: &Content, etag: Option<&str>| File { etag: etag.map(str::to_owned), ..File::new(content.clone()) };
    let new_content = Content::Bytes(Arc::new(new.clone()));
    let no_ranges = File { ranges: false, ..named(&new_content, Some("\"two\"")) };
    for (name, second) in [
        ("another ETag", named(&new_content, Some("\"two\""))),
        ("shorter, without names", named(&new_content, None)),
        ("no ranges", no_ranges),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let server = FileServer::start();
        let first = named(&old, second.etag.as_ref().map(|_| "\"one\""));
        let url = server.put(PATH, stops_at(first, 40 * MIB));
        let wanted = wanted(&url, sha256);
        assert!(acquire(dir.path(), &wanted).await.0.is_err(), "{name}");
        server.put(PATH, second);
        assert_eq!(image_of(&acquire(dir.path(), &wanted).await.0.unwrap()), sha256, "{name}");
        assert_eq!(names(dir.path()).len(), 2, "{name}");
    }
    // It grew, and the server has no name for it: the total tells.
    let dir = tempfile::tempdir().unwrap();
    let server = FileServer::start();
    let url = server.put(PATH, stops_at(named(&old, None), 40 * MIB));
    let wanted = wanted(&url, longer.sha256());
    assert!(acquire(dir.path(), &wanted).await.0.is_err());
    server.put(PATH, named(&longer, None));
    assert_eq!(image_of(&acquire(dir.path(), &wanted).await.0.unwrap()), longer.sha256());
    // The same length without a name: only the digest can tell, and then all comes again.
    let dir = tempfile::tempdir().unwrap();
    let mut other = vec![9; 60 << 20];
    other[..new.len()].copy_from_slice(&new);
    let other = Content::Bytes(Arc::new(other));
    let url = server.put("/same", stops_at(named(&old, None), 40 * MIB));
    let wanted = self::wanted(&url, other.sha256());
    assert!(acquire(dir.path(), &wanted).await.0.is_err());
    let before = server.seen("/same").len();
    server.put("/same", named(&other, None));
    assert_eq!(image_of(&acquire(dir.path(), &wanted).await.0.unwrap()), other.sha256());
    assert_eq!(server.seen("/same").len(), before + 2, "once resumed, once from the start");
}

#[tokio::test]
async fn another_address_begins_anew() {
    let dir = tempfile::tempdir().unwrap();
    let content = Content::Generated { bytes: 60 * MIB };
    let server = FileServer::start();
    let url = server.put("/a", stops_at(File::new(content.clone()), 40 * MIB));
    assert!(acquire(dir.path(), &wanted(&url, content.sha256())).await.0.is_err());
    let mirror = server.put("/b", File::new(content.clone()));
    acquire(dir.path(), &wanted(&mirror, content.sha256())).await.0.unwrap();
    assert!(!server.seen("/b")[0].headers.contains_key("range"), "that server may have another file under way");
}

#[tokio::test]
async fn what_has_no_end_changes_for_ever_or_is_wrong_each_time_ends() {
    let sha256 = Sha256::of(b"what nobody serves");
    let endless = File { states_length: false, ..File::new(Content::Generated { bytes: 1 << 40 }) };
    let dir = tempfile::tempdir().unwrap();
    let server = FileServer::start();
    let url = server.put("/endless", endless);
    let limits = DownloadLimits { bytes_max: 40 * MIB, ..DownloadLimits::default() };
    let bounded = acquirer(dir.path()).with_limits(limits);
    let error = acquire_with(&bounded, &wanted(&url, sha256)).await.0.unwrap_err();
    assert!(matches!(error, ArtifactError::Http { source: HttpError::TooLarge { .. }, .. }), "{error:?}");
    assert_eq!(names(dir.path()), Vec::<String>::new(), "it gives its room back");
    // Cut each time, and never with ranges.
    let stubborn = File { ranges: false, ..File::new(Content::Generated { bytes: 2 * MIB }) };
    let url = server.put("/stubborn", stubborn.with(&[Fault::Cut(MIB); 40]));
    let error = acquire(dir.path(), &wanted(&url, sha256)).await.0.unwrap_err();
    assert!(matches!(error, ArtifactError::Http { source: HttpError::Changed { .. }, .. }), "{error:?}");
    assert!(server.seen("/stubborn").len() < 12, "{}", server.seen("/stubborn").len());
    // Wrong although in one part: once is enough.
    let url = server.put("/wrong", File::new(Content::Generated { bytes: 2 * MIB }));
    let error = acquire(dir.path(), &wanted(&url, sha256)).await.0.unwrap_err();
    assert!(matches!(error, ArtifactError::Digest { .. }), "{error:?}");
    assert_eq!(server.seen("/wrong").len(), 1);
    // Wrong in two parts: once more from the start, and no more.
    let url = server.put("/wrong2", File::new(Content::Generated { bytes: 2 * MIB }).with(&[Fault::Cut(MIB)]));
    assert!(matches!(acquire(dir.path(), &wanted(&url, sha256)).await.0, Err(ArtifactError::Digest { .. })));
    assert_eq!(server.seen("/wrong2").len(), 3);
    assert_eq!(names(dir.path()), Vec::<String>::new());
}

#[tokio::test]
async fn one_download_of_one_file_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let content = Content::Generated { bytes: 8 * MIB };
    let sha256 = content.sha256();
    let server = FileServer::start();
    let held = File::new(content.clone()).with(&[Fault::Hold(4 * MIB)]);
    let url = server.put(PATH, held);
    let first = {
        let (acquirer, wanted) = (acquirer(dir.path()), wanted(&url, sha256));
        tokio::spawn(async move { acquire_with(&acquirer, &wanted).await.0 })
    };
    let partial = dir.path().join(format!("partial-{sha256}"));
    held_at(&partial, 4 * MIB).await;
    let error = acquire(dir.path(), &wanted(&url, sha256)).await.0.unwrap_err();
    assert!(matches!(error, ArtifactError::Busy { .. }), "{error:?}");
    // A host that wants the same image by its checksum does not wait for it.
    let request = ImageRequest { url: url.clone(), checksum: sha256.to_string(), ..ImageRequest::default() };
    let stored = acquirer(dir.path()).acquire(&request, Arc::new(|_| {})).await.unwrap();
    assert_eq!(stored.meta.raw_sha256, sha256);
    assert_eq!(bytes_of(&partial), 4 * MIB, "and leaves the other alone");
    first.abort();
    drop(first.await);
    assert!(acquire(dir.path(), &wanted(&url, sha256)).await.0.is_ok(), "it is there already");
}

/// A host's image with a SHA-256 outlives the process too; after an error nothing of it stays, as before.
#[tokio::test]
async fn a_hosts_image_with_a_sha256_goes_on_after_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let content = Content::Generated { bytes: 48 * MIB };
    let sha256 = content.sha256();
    let server = FileServer::start();
    let url = server.put(PATH, File::new(content.clone()).with(&[Fault::Hold(40 * MIB)]));
    let request = ImageRequest { url: url.clone(), checksum: sha256.to_string(), ..ImageRequest::default() };
    let first = {
        let (acquirer, request) = (acquirer(dir.path()), request.clone());
        tokio::spawn(async move { acquirer.acquire(&request, Arc::new(|_| {})).await })
    };
    // Its first bytes are flushed by then, and no thread has the file any more.
    held_at(&dir.path().join(format!("partial-{sha256}")), 40 * MIB).await;
    // Dropped in the middle, as a process that ends drops it: nothing of it runs any more.
    first.abort();
    drop(first.await);
    let stored = acquirer(dir.path()).acquire(&request, Arc::new(|_| {})).await.unwrap();
    assert_eq!(stored.meta.raw_sha256, sha256);
    let range = &server.seen(PATH)[1].headers["range"];
    let start: u64 = range.strip_prefix("bytes=").unwrap().strip_suffix('-').unwrap().parse().unwrap();
    assert!((FLUSH_BYTES..=40 * MIB).contains(&start), "{start}");
    assert_eq!(names(dir.path()).len(), 2);
    let dir = tempfile::tempdir().unwrap();
    server.put(PATH, stops_at(File::new(content), 40 * MIB));
    assert!(acquirer(dir.path()).acquire(&request, Arc::new(|_| {})).await.is_err());
    assert_eq!(names(dir.path()), Vec::<String>::new());
}

/// A host that wanted the same image threw away what a stream had downloaded for hours.
#[tokio::test]
async fn a_host_whose_download_fails_leaves_what_a_stream_began() {
    let dir = tempfile::tempdir().unwrap();
    let content = Content::Generated { bytes: 80 * MIB };
    let sha256 = content.sha256();
    let server = FileServer::start();
    let url = server.put(PATH, stops_at(File::new(content.clone()), 40 * MIB));
    assert!(acquire(dir.path(), &wanted(&url, sha256)).await.0.is_err());
    server.put(PATH, stops_at(File::new(content.clone()), 70 * MIB));
    let request = ImageRequest { url: url.clone(), checksum: sha256.to_string(), ..ImageRequest::default() };
    assert!(acquirer(dir.path()).acquire(&request, Arc::new(|_| {})).await.is_err());
    assert_eq!(names(dir.path()), [format!("partial-{sha256}"), format!("partial-{sha256}.json")]);
    let before = server.seen(PATH).len();
    server.put(PATH, File::new(content));
    assert_eq!(image_of(&acquire(dir.path(), &wanted(&url, sha256)).await.0.unwrap()), sha256);
    assert_eq!(server.seen(PATH)[before].headers["range"], format!("bytes={}-", 70 * MIB));
}
