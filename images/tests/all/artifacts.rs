//! Artifacts of a stream: verified before they count (S1.5).

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use firesteel_dial::{Dialer, Targets};
use firesteel_facts::Sha256;
use firesteel_images::http::{DownloadLimits, HttpError};
use firesteel_images::import::{
    Acquired, Acquirer, AcquisitionStage, ArtifactError, ArtifactRequest, ImageStore, SignatureState, StoredArtifact,
    StoredFileRole, WebClient,
};
use firesteel_images::openpgp::{Keyring, SignatureError};

use crate::disks::gpt_image;
use crate::file_server::{Content, Fault, File, FileServer};
use crate::signatures::{armored, key, sign};

pub(crate) const PATH: &str = "/disk.raw.gz";
pub(crate) const MIB: u64 = 1 << 20;

pub(crate) fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

/// Fetches from this machine too, as a lab lets it.
pub(crate) fn web() -> WebClient {
    let targets = Targets::allowing(["127.0.0.0/8".parse().unwrap()]);
    WebClient::new(Dialer::new(targets)).unwrap()
}

pub(crate) fn acquirer(dir: &Path) -> Acquirer {
    // No test waits for a stall here, and some hold a download for long.
    let (pause, stall) = (Duration::from_millis(1), Duration::from_secs(300));
    let limits = DownloadLimits { attempts_max: 3, pause, stall, ..DownloadLimits::default() };
    Acquirer::new(ImageStore::open(dir).unwrap(), None, web()).with_limits(limits)
}

pub(crate) fn wanted(url: &str, sha256: Sha256) -> ArtifactRequest {
    ArtifactRequest {
        url: url.to_owned(),
        sha256,
        uncompressed_sha256: None,
        signature_url: None,
        keyring: None,
        role: None,
        release: "44.1".to_owned(),
    }
}

pub(crate) fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// What an acquisition gave, and what it told on its way.
pub(crate) async fn acquire(
    dir: &Path,
    wanted: &ArtifactRequest,
) -> (Result<Acquired, ArtifactError>, Vec<AcquisitionStage>) {
    acquire_with(&acquirer(dir), wanted).await
}

pub(crate) async fn acquire_with(
    acquirer: &Acquirer,
    wanted: &ArtifactRequest,
) -> (Result<Acquired, ArtifactError>, Vec<AcquisitionStage>) {
    let stages = Arc::new(Mutex::new(Vec::new()));
    let told = stages.clone();
    let result = acquirer.acquire_artifact(wanted, Arc::new(move |stage| told.lock().unwrap().push(stage))).await;
    let stages = stages.lock().unwrap().clone();
    (result, stages)
}

pub(crate) fn image_of(acquired: &Acquired) -> Sha256 {
    match &acquired.stored {
        StoredArtifact::Image(image) => image.meta.raw_sha256,
        StoredArtifact::File(file) => file.meta.sha256,
    }
}

#[tokio::test]
async fn an_artifact_is_verified_in_every_way_and_fetched_once() {
    let dir = tempfile::tempdir().unwrap();
    let image = gpt_image(12 << 20, 512);
    let bytes = gzip(&image);
    let secret = key(false, 1_600_000_000);
    let keyring = Arc::new(Keyring::parse(&armored(&secret.to_public_key())).unwrap());
    let server = FileServer::start();
    let half = bytes.len() as u64 / 2;
    let url = server.put(PATH, File::of(&bytes).with(&[Fault::Cut(half)]));
    let signature_url = server.put("/sig", File::of(&sign(&secret, &bytes)));
    let wanted = ArtifactRequest {
        uncompressed_sha256: Some(Sha256::of(&image)),
        signature_url: Some(signature_url),
        keyring: Some(keyring.clone()),
        ..wanted(&url, Sha256::of(&bytes))
    };
    let first = acquire(dir.path(), &wanted).await.0.unwrap();
    assert_eq!(image_of(&first), Sha256::of(&image));
    assert_eq!(first.signature, SignatureState::Good { fingerprint: keyring.fingerprints()[0].clone() });
    assert!(first.is_seen_here);
    let StoredArtifact::Image(stored) = &first.stored else { panic!("{first:?}") };
    let source = &stored.meta.sources[0];
    assert_eq!((source.uncompressed_sha256, source.release.as_str()), (wanted.uncompressed_sha256, "44.1"));
    assert_eq!(source.signed_by, keyring.fingerprints()[0]);
    assert_eq!(server.seen(PATH).len(), 2, "the cut was resumed");
    assert_eq!(server.seen(PATH)[1].headers["range"], format!("bytes={half}-"));
    let raw = Sha256::of(&image);
    assert_eq!(names(dir.path()), [format!("{raw}.json"), format!("{raw}.raw.zst")]);
    assert_eq!(acquire(dir.path(), &wanted).await.0.unwrap(), first);
    assert_eq!((server.seen(PATH).len(), server.seen("/sig").len()), (2, 1), "nothing is fetched again");
    // By a key that was taken away since, it counts as little as before.
    let other = Arc::new(Keyring::parse(&armored(&key(true, 1_600_000_000).to_public_key())).unwrap());
    let distrusted = ArtifactRequest { keyring: Some(other), ..wanted };
    let error = acquire(dir.path(), &distrusted).await.0.unwrap_err();
    assert!(matches!(error, ArtifactError::Signature { source: SignatureError::UnknownKey { .. }, .. }), "{error:?}");
    assert_eq!(server.seen(PATH).len(), 2, "nobody downloads what cannot become good");
}

#[tokio::test]
async fn whatever_does_not_fit_is_never_published_and_leaves_nothing() {
    let image = gpt_image(4 << 20, 512);
    let bytes = gzip(&image);
    let secret = key(true, 1_600_000_000);
    let keyring = Some(Arc::new(Keyring::parse(&armored(&secret.to_public_key())).unwrap()));
    let server = FileServer::start();
    let url = server.put(PATH, File::of(&bytes));
    let good = wanted(&url, Sha256::of(&bytes));
    let signed_other = Some(server.put("/other.sig", File::of(&sign(&secret, b"other"))));
    let not_there = Some(server.url("/missing.sig"));
    let endless = Some(server.put("/endless.sig", File::new(Content::Generated { bytes: 10 * MIB })));
    let page = b"<html><body>not an image at all</body></html>".repeat(10);
    let page_url = server.put("/page", File::of(&page));
    // A window of 256 MiB.
    let window = [0x28, 0xb5, 0x2f, 0xfd, 0x00, (28 - 10) << 3, 1, 0, 0];
    let window_url = server.put("/window", File::of(&window));
    type Expected = fn(&ArtifactError) -> bool;
    let cases: Vec<(&str, ArtifactRequest, Expected, bool)> = vec![
        (
            "digest",
            ArtifactRequest { sha256: Sha256::of(b"x"), ..good.clone() },
            |e| matches!(e, ArtifactError::Digest { .. }),
            true,
        ),
        (
            "uncompressed digest",
            ArtifactRequest { uncompressed_sha256: Some(Sha256::of(b"x")), ..good.clone() },
            |e| matches!(e, ArtifactError::Uncompressed { .. }),
            true,
        ),
        (
            "uncompressed digest of a file",
            ArtifactRequest {
                uncompressed_sha256: Some(Sha256::of(b"x")),
                role: Some(StoredFileRole::Kernel),
                ..good.clone()
            },
            |e| matches!(e, ArtifactError::Uncompressed { .. }),
            true,
        ),
        (
            "signature",
            ArtifactRequest { signature_url: signed_other, keyring: keyring.clone(), ..good.clone() },
            |e| matches!(e, ArtifactError::Signature { source: SignatureError::Wrong { .. }, .. }),
            true,
        ),
        (
            "no signature there",
            ArtifactRequest { signature_url: not_there, keyring: keyring.clone(), ..good.clone() },
            |e| matches!(e, ArtifactError::SignatureHttp { .. }),
            false,
        ),
        (
            "a signature without end",
            ArtifactRequest { signature_url: endless, keyring, ..good.clone() },
            |e| matches!(e, ArtifactError::SignatureHttp { source: HttpError::TooLarge { .. }, .. }),
            false,
        ),
        (
            "a file that takes too much to expand",
            ArtifactRequest {
                uncompressed_sha256: Some(Sha256::of(b"x")),
                role: Some(StoredFileRole::Kernel),
                ..wanted(&window_url, Sha256::of(&window))
            },
            |e| matches!(e, ArtifactError::Import(_)) && e.explain().contains("zstd window"),
            true,
        ),
        ("no image", wanted(&page_url, Sha256::of(&page)), |e| matches!(e, ArtifactError::Import(_)), true),
    ];
    for (name, wanted, expected, is_permanent) in cases {
        let dir = tempfile::tempdir().unwrap();
        let error = acquire(dir.path(), &wanted).await.0.expect_err(name);
        assert!(expected(&error), "{name}: {error:?}");
        assert_eq!(error.is_permanent(), is_permanent, "{name}");
        assert_eq!(names(dir.path()), Vec::<String>::new(), "{name}");
        assert!(error.explain().contains("; "), "{name}: {}", error.explain());
    }
}

#[tokio::test]
async fn parts_of_a_network_boot_are_kept_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let server = FileServer::start();
    let kernel = b"MZ a kernel".repeat(1000);
    let url = server.put("/kernel", File::of(&kernel));
    let role = |role| ArtifactRequest { role: Some(role), ..wanted(&url, Sha256::of(&kernel)) };
    let acquired = acquire(dir.path(), &role(StoredFileRole::Kernel)).await.0.unwrap();
    let StoredArtifact::File(stored) = &acquired.stored else { panic!("{acquired:?}") };
    assert_eq!(fs::read(&stored.path).unwrap(), kernel);
    let digest = Sha256::of(&kernel);
    assert_eq!(names(dir.path()), [format!("{digest}.file"), format!("{digest}.file.json")]);
    let store = ImageStore::open(dir.path()).unwrap();
    assert_eq!(store.file(&digest).unwrap().unwrap().meta.role, StoredFileRole::Kernel);
    assert_eq!((store.files().unwrap().len(), store.list().unwrap().len()), (1, 0));
    acquire(dir.path(), &role(StoredFileRole::Kernel)).await.0.unwrap();
    assert_eq!(server.seen("/kernel").len(), 1);
    // A file that was cut since is not offered, and comes anew.
    fs::OpenOptions::new().write(true).open(&stored.path).unwrap().set_len(5).unwrap();
    assert_eq!(store.file(&digest).unwrap(), None);
    acquire(dir.path(), &role(StoredFileRole::Kernel)).await.0.unwrap();
    assert_eq!(store.file(&digest).unwrap().unwrap().meta.bytes, kernel.len() as u64);
}

/// An image that a host brought in by the same digest was the stream's, whatever the stream said that it expands to.
#[tokio::test]
async fn what_is_here_already_is_compared_with_the_expanded_digest_too() {
    let dir = tempfile::tempdir().unwrap();
    let image = gpt_image(4 << 20, 512);
    let bytes = gzip(&image);
    let server = FileServer::start();
    let url = server.put(PATH, File::of(&bytes));
    for role in [None, Some(StoredFileRole::Kernel)] {
        let plain = ArtifactRequest { role, ..wanted(&url, Sha256::of(&bytes)) };
        acquire(dir.path(), &plain).await.0.unwrap();
        let lying = ArtifactRequest { uncompressed_sha256: Some(Sha256::of(b"x")), ..plain.clone() };
        assert_eq!(acquirer(dir.path()).stored_artifact(&lying).unwrap(), None, "{role:?}");
        let error = acquire(dir.path(), &lying).await.0.unwrap_err();
        assert!(matches!(error, ArtifactError::Uncompressed { .. }), "{role:?}: {error:?}");
        let honest = ArtifactRequest { uncompressed_sha256: Some(Sha256::of(&image)), ..plain };
        acquire(dir.path(), &honest).await.0.unwrap();
        assert!(acquirer(dir.path()).stored_artifact(&honest).unwrap().is_some(), "{role:?}");
    }
}
