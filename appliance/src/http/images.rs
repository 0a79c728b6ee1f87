//! Serves the store's images and files by their digests: to agents and firmware over plain HTTP, and over TLS on the
//! agents' port.
//!
//! Integrity does not depend on this listener: clients get the digest from elsewhere.

use std::{path::PathBuf, sync::Arc};

use firesteel_facts::Sha256;
use firesteel_images::import::{ImageStore, StoreError, StoreLease};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};

use super::body::{ResponseBody, text};
use super::file::answer_file;
use crate::image_depot::CachedOsImage;

/// The prefix of image paths.
pub const IMAGES_PATH: &str = "/images/";

/// The suffix behind the digest of an image's stream.
const IMAGE_SUFFIX: &str = ".raw.zst";

/// The suffix behind the name of an OS image: the digest of what is served under the name.
const SUMS_SUFFIX: &str = ".sha256sum";

/// Returns the path of an image's stream or a file, locked until it is opened: the depot sees that it is in use.
fn held(images: &ImageStore, digest: &Sha256, is_image: bool) -> Option<(PathBuf, StoreLease)> {
    let find = || -> Result<_, StoreError> {
        if !is_image {
            let Some(file) = images.file(digest)? else { return Ok(None) };
            return Ok(images.lease_file(digest)?.map(|lease| (file.path, lease)));
        }
        let Some(image) = images.by_stream(digest)? else { return Ok(None) };
        Ok(images.lease_image(&image.meta.raw_sha256)?.map(|lease| (image.path, lease)))
    };
    find().unwrap_or_else(|error| {
        tracing::error!(%error, "could not look for an image; the client gets a 404");
        None
    })
}

/// The store's images for the listeners. Clones share it.
#[derive(Clone, Debug)]
pub struct ImageFiles {
    store: Arc<ImageStore>,
    os_image: CachedOsImage,
}

impl ImageFiles {
    #[must_use]
    pub fn new(store: ImageStore) -> Self {
        Self { store: Arc::new(store), os_image: CachedOsImage::default() }
    }

    /// Serves the OS image of the Provisioning object by its name, too.
    #[must_use]
    pub fn with_os_image(self, os_image: CachedOsImage) -> Self {
        Self { os_image, ..self }
    }

    #[must_use]
    pub fn store(&self) -> &ImageStore {
        &self.store
    }

    /// Answers for one name behind [`IMAGES_PATH`].
    pub async fn answer(&self, method: &Method, headers: &HeaderMap, name: &str) -> Response<ResponseBody> {
        if let Some(response) = self.answer_os_image(name) {
            return response;
        }
        let is_digest = |digest: &&str| digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
        let (digest, is_image) = name.strip_suffix(IMAGE_SUFFIX).map_or((name, false), |digest| (digest, true));
        let Some(digest) = Some(digest).filter(is_digest) else {
            let named = "images are named <sha256 of the stream>.raw.zst, files by their sha256";
            return text(StatusCode::NOT_FOUND, named);
        };
        let (images, wanted) = (Arc::clone(&self.store), digest.parse::<Sha256>());
        let found = tokio::task::spawn_blocking(move || held(&images, &wanted.ok()?, is_image)).await;
        match found.ok().flatten() {
            Some((path, _held)) => {
                let content_type = if is_image { "application/zstd" } else { "application/octet-stream" };
                answer_file(method, headers, digest, content_type, &path).await
            }
            None => text(StatusCode::NOT_FOUND, "no such image; `firesteel image ls` lists them"),
        }
    }

    /// Answers for the path of upstream's image cache: leads to the image's stream, or gives the digest of that.
    fn answer_os_image(&self, name: &str) -> Option<Response<ResponseBody>> {
        let (_, file) = name.split_once('/')?;
        let image = name.strip_suffix(SUMS_SUFFIX).unwrap_or(name);
        let Some(meta) = self.os_image.served(image) else {
            return Some(text(StatusCode::NOT_FOUND, "no such OS image; `kubectl describe provisioning` says why"));
        };
        if name.ends_with(SUMS_SUFFIX) {
            let file = file.trim_end_matches(SUMS_SUFFIX);
            return Some(text(StatusCode::OK, format!("{}  {file}", meta.stream_sha256)));
        }
        let location = format!("{IMAGES_PATH}{}{IMAGE_SUFFIX}", meta.stream_sha256);
        let mut response = text(StatusCode::FOUND, "the stream is at the address in Location");
        if let Ok(location) = HeaderValue::from_str(&location) {
            response.headers_mut().insert(header::LOCATION, location);
        }
        Some(response)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use firesteel_images::import::{ImportSource, Importer};
    use http_body_util::BodyExt as _;

    use super::*;

    #[test]
    fn an_image_is_found_by_its_stream_and_held_while_it_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        let store = ImageStore::open(dir.path()).unwrap();
        let mut bytes = vec![7; 4 << 20];
        (bytes[510], bytes[511]) = (0x55, 0xaa);
        let image = Importer::new(store.clone()).import(&bytes[..], &ImportSource::default(), &|_| {}).unwrap();
        let (path, lease) = held(&store, &image.meta.stream_sha256, true).unwrap();
        assert_eq!(path, image.path);
        let item = firesteel_images::collect::StoreItem::Image(image.meta.raw_sha256);
        assert!(!store.discard(item).unwrap(), "it is held");
        drop(lease);
        assert!(held(&store, &image.meta.stream_sha256, false).is_none(), "it is no file");
        assert!(held(&store, &image.meta.raw_sha256, true).is_none(), "hosts name it by its stream");
        assert!(store.discard(item).unwrap());
        assert!(held(&store, &image.meta.stream_sha256, true).is_none());
    }

    #[tokio::test]
    async fn images_and_files_are_served_by_their_digests() {
        let dir = tempfile::tempdir().unwrap();
        let store = ImageStore::open(dir.path()).unwrap();
        let mut bytes = vec![7; 4 << 20];
        (bytes[510], bytes[511]) = (0x55, 0xaa);
        let image = Importer::new(store.clone()).import(&bytes[..], &ImportSource::default(), &|_| {}).unwrap();
        let (files, stream) = (ImageFiles::new(store), image.meta.stream_sha256);
        let ask = async |method: Method, name: String| {
            let answer = files.answer(&method, &HeaderMap::new(), &name).await;
            let (head, body) = answer.into_parts();
            (head.status.as_u16(), body.collect().await.unwrap().to_bytes())
        };
        let stored = std::fs::read(&image.path).unwrap();
        let name = format!("{stream}{IMAGE_SUFFIX}");
        assert_eq!(ask(Method::GET, name.clone()).await, (200, stored.into()));
        assert_eq!(ask(Method::HEAD, name).await, (200, Default::default()));
        for other in
            [stream.to_string(), format!("{}.raw.zst", "0".repeat(64)), "../../pki/ca.key".into(), String::new()]
        {
            assert_eq!(ask(Method::GET, other.clone()).await.0, 404, "{other}");
        }
    }
}
