//! An image whose address comes with one digest: of the file or of what it holds. Either proves it, another stores
//! nothing.

use std::fs;
use std::sync::Arc;

use firesteel_facts::Sha256;
use firesteel_images::import::{Acquirer, ImageRequest, ImageStore, PinnedImageError, PinnedImageRequest, StoredImage};

use crate::artifacts::{PATH, acquirer, gzip, names};
use crate::disks::gpt_image;
use crate::file_server::{Fault, File, FileServer};

async fn acquire(acquirer: &Acquirer, url: &str, sha256: Sha256) -> Result<StoredImage, PinnedImageError> {
    acquirer.acquire_pinned(&PinnedImageRequest { url: url.to_owned(), sha256 }, Arc::new(|_| {})).await
}

#[tokio::test]
async fn the_digest_of_the_file_and_that_of_what_it_holds_prove_it_and_it_is_fetched_once() {
    let image = gpt_image(12 << 20, 512);
    let bytes = gzip(&image);
    let server = FileServer::start();
    let url = server.put(PATH, File::of(&bytes));
    for (fetches, sha256) in [(1, Sha256::of(&bytes)), (2, Sha256::of(&image))] {
        let dir = tempfile::tempdir().unwrap();
        let acquirer = acquirer(dir.path());
        let stored = acquire(&acquirer, &url, sha256).await.unwrap();
        assert_eq!(stored.meta.raw_sha256, Sha256::of(&image));
        // Neither digest leads to another download, nor does a host that names one of them.
        for known in [Sha256::of(&bytes), Sha256::of(&image)] {
            assert_eq!(acquire(&acquirer, "http://192.0.2.1/gone", known).await.unwrap(), stored);
            let of_host = ImageRequest { checksum: known.to_string(), ..ImageRequest::default() };
            assert_eq!(acquirer.acquire(&of_host, Arc::new(|_| {})).await.unwrap(), stored);
        }
        assert_eq!(server.seen(PATH).len(), fetches);
    }
}

#[tokio::test]
async fn another_digest_stores_nothing_and_names_both() {
    let dir = tempfile::tempdir().unwrap();
    let image = gpt_image(12 << 20, 512);
    let bytes = gzip(&image);
    let server = FileServer::start();
    let url = server.put(PATH, File::of(&bytes));
    let page = server.put("/page", File::of(b"<html>not found</html>"));
    let expected = Sha256::of(b"another");
    let error = acquire(&acquirer(dir.path()), &url, expected).await.unwrap_err();
    assert!(error.is_permanent() && !error.is_busy());
    for digest in [expected, Sha256::of(&bytes), Sha256::of(&image)] {
        assert!(error.explain().contains(&digest.to_string()), "{}", error.explain());
    }
    let error = acquire(&acquirer(dir.path()), &page, expected).await.unwrap_err();
    assert!(matches!(error, PinnedImageError::Digest { uncompressed: None, .. }), "{error:?}");
    assert!(names(dir.path()).is_empty(), "{:?}", names(dir.path()));
    // One that is what it is to be, and no disk, is no question of digests.
    let error = acquire(&acquirer(dir.path()), &page, Sha256::of(b"<html>not found</html>")).await.unwrap_err();
    assert!(error.is_permanent() && matches!(error, PinnedImageError::Acquire(_)), "{error:?}");
}

#[tokio::test]
async fn a_download_that_was_cut_is_gone_on_with_by_the_next_process() {
    let dir = tempfile::tempdir().unwrap();
    let image = gpt_image(12 << 20, 512);
    let bytes = gzip(&image);
    let half = bytes.len() as u64 / 2;
    let server = FileServer::start();
    let cuts = [Fault::Cut(half), Fault::Cut(half), Fault::Cut(half)];
    let url = server.put(PATH, File::of(&bytes).with(&cuts));
    let error = acquire(&acquirer(dir.path()), &url, Sha256::of(&image)).await.unwrap_err();
    assert!(!error.is_permanent(), "{error:?}");
    let asked = server.seen(PATH).len();
    let stored = acquire(&acquirer(dir.path()), &url, Sha256::of(&image)).await.unwrap();
    assert_eq!(stored.meta.raw_sha256, Sha256::of(&image));
    assert_eq!(server.seen(PATH)[asked].headers["range"], format!("bytes={half}-"));
    assert!(names(dir.path()).iter().all(|name| !name.starts_with("partial-")), "{:?}", names(dir.path()));
}

#[tokio::test]
async fn a_stream_that_the_disk_changed_is_found_out() {
    let dir = tempfile::tempdir().unwrap();
    let image = gpt_image(12 << 20, 512);
    let server = FileServer::start();
    let url = server.put(PATH, File::of(&gzip(&image)));
    let stored = acquire(&acquirer(dir.path()), &url, Sha256::of(&image)).await.unwrap();
    let store = ImageStore::open(dir.path()).unwrap();
    let raw = stored.meta.raw_sha256;
    assert_eq!(store.is_intact(&raw).unwrap(), Some(true));
    let mut bytes = fs::read(&stored.path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&stored.path, bytes).unwrap();
    assert_eq!(store.is_intact(&raw).unwrap(), Some(false));
    store.remove(&raw).unwrap();
    assert_eq!(store.is_intact(&raw).unwrap(), None);
}
