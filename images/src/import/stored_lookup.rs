//! Which of what is stored is the image of a checksum, or the artifact that a stream names.

use firesteel_facts::shown_url;

use super::acquire::{AcquireError, Acquirer, ImageRequest};
use super::artifact::{Acquired, ArtifactRequest, StoredArtifact, state};
use super::checksum::Checksum;
use super::error::ImportError;
use super::format::ImportFormat;
use super::store::{RecordOrigin, SourceRecord, StoreError, StoredImage};

/// Checks that a file with this checksum had the declared format. Of a file that was stored as it is, none is known.
fn check_declared(image: &StoredImage, checksum: &Checksum, declared: ImportFormat) -> Result<(), ImportError> {
    let sources = image.meta.sources.iter().filter(|source| source.has(checksum));
    let formats: Vec<ImportFormat> = sources.filter_map(|source| source.formats.last().copied()).collect();
    match formats.first() {
        Some(&found) if !formats.contains(&declared) => Err(ImportError::Declared { declared, found }),
        Some(_) | None => Ok(()),
    }
}

impl Acquirer {
    /// What is stored of a checksum, on a thread that may wait for a removal. A declared format is compared with what
    /// the file was when it was downloaded.
    pub(super) async fn stored(
        &self,
        checksum: &Checksum,
        request: &ImageRequest,
    ) -> Result<Option<StoredImage>, AcquireError> {
        let (store, wanted) = (self.store().clone(), checksum.clone());
        let looked = tokio::task::spawn_blocking(move || store.used_by_source(&wanted)).await;
        let found = looked.map_err(|_| AcquireError::Ended { url: shown_url(&request.url) })??;
        if let (Some(image), Some(declared)) = (&found, request.declared) {
            check_declared(image, checksum, declared)
                .map_err(|source| AcquireError::Import { url: shown_url(&request.url), source: Box::new(source) })?;
        }
        Ok(found)
    }

    /// What is there of an artifact already. What was seen here comes before what a bundle says, and that counts only
    /// where it does not contradict the stream; where a signature must be good, only if the stream's digests prove it, for
    /// a bundle brings no signature.
    pub(super) fn known_artifact(&self, wanted: &ArtifactRequest) -> Result<Option<Acquired>, StoreError> {
        let is_it = |source: &SourceRecord| source.sha256 == wanted.sha256;
        let keys = wanted.signed().map(|(_, keyring)| keyring.fingerprints());
        // A host's image, or the stream itself before its metadata changed, was compared with another digest or with none.
        let is_expansion = |source: &SourceRecord| match (wanted.uncompressed_sha256, wanted.role) {
            (None, _) => true,
            // What is not compressed is its own expansion.
            (Some(digest), None) => source.uncompressed_sha256.unwrap_or(source.sha256) == digest,
            // A file is expanded only to be compared.
            (Some(digest), Some(_)) => source.uncompressed_sha256 == Some(digest),
        };
        let is_checked = |source: &SourceRecord| {
            source.witness == RecordOrigin::Here
                && is_expansion(source)
                && keys.as_ref().is_none_or(|keys| keys.contains(&source.signed_by))
        };
        let is_claim = |source: &SourceRecord| is_it(source) && source.witness == RecordOrigin::Bundle;
        let (stored, sources, is_contradicted, is_proven) = match wanted.role {
            None => {
                let checked = self.store().find_source(&|source| is_it(source) && is_checked(source))?;
                let stated = || -> Result<Option<StoredImage>, StoreError> {
                    // Of several claims the one that the stream's own digest proves, and not just any.
                    let proven = wanted.uncompressed_sha256.map(|raw| self.store().by_raw(&raw)).transpose()?.flatten();
                    match proven.filter(|image| image.meta.sources.iter().any(is_claim)) {
                        Some(image) => Ok(Some(image)),
                        None => self.store().find_source(&is_claim),
                    }
                };
                let Some(image) = checked.map_or_else(stated, |image| Ok(Some(image)))? else { return Ok(None) };
                // A raw image of whole sectors is what the stream calls uncompressed.
                let is_raw = |source: &SourceRecord| source.formats.last() == Some(&ImportFormat::Raw);
                let of_raw = image.meta.sources.iter().any(|source| is_it(source) && is_raw(source));
                let differs = wanted.uncompressed_sha256.is_some_and(|known| known != image.meta.raw_sha256);
                let is_proven = wanted.uncompressed_sha256 == Some(image.meta.raw_sha256);
                (StoredArtifact::Image(image.clone()), image.meta.sources, of_raw && differs, is_proven)
            }
            Some(_) => {
                let Some(file) = self.store().file(&wanted.sha256)? else { return Ok(None) };
                let differs = !file.meta.sources.iter().any(|source| is_it(source) && is_expansion(source));
                (StoredArtifact::File(file.clone()), file.meta.sources, differs, true)
            }
        };
        let checked = sources.iter().find(|source| is_it(source) && is_checked(source));
        let is_told = sources.iter().any(is_claim);
        Ok(match checked {
            Some(source) => Some(Acquired { stored, signature: state(wanted, &source.signed_by), is_seen_here: true }),
            None if is_told && !is_contradicted && (is_proven || keys.is_none()) => {
                Some(Acquired { stored, signature: state(wanted, ""), is_seen_here: wanted.role.is_some() })
            }
            None => None,
        })
    }
}
