//! What is written down of stored images and files: digests, sources, and whose word each source is (S1.5, S1-11).

use std::{io, path::PathBuf};

use firesteel_facts::Sha256;
use serde::{Deserialize, Serialize};

use crate::import::checksum::Checksum;
use crate::import::format::ImportFormat;

/// Places that one image is remembered to come from.
pub(super) const SOURCES_MAX: usize = 32;

/// What is known of a stored image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageMeta {
    /// The digest of the raw image; the image's name.
    pub raw_sha256: Sha256,
    /// A multiple of 512.
    pub raw_bytes: u64,
    /// The digest of the compressed stream that hosts fetch.
    pub stream_sha256: Sha256,
    pub stream_bytes: u64,
    /// Where it came from, latest last.
    pub sources: Vec<SourceRecord>,
}

impl ImageMeta {
    /// Whether this appliance itself saw the published bytes become this image. Without that only a bundle says what it
    /// is, and it never stands before one that was seen.
    #[must_use]
    pub fn is_seen_here(&self) -> bool {
        self.sources.iter().any(|source| source.witness == RecordOrigin::Here)
    }

    /// The record of the file that was asked for: by its checksum, else by its address, else the latest one. Several files
    /// can give one image, and only some of them have something odd.
    #[must_use]
    pub fn source_of(&self, url: &str, checksum: &str) -> Option<&SourceRecord> {
        let (url, checksum) = (without_secrets(url), checksum.trim());
        let is_asked = |digits: &str| !digits.is_empty() && digits.eq_ignore_ascii_case(checksum);
        let has_digest = |source: &&SourceRecord| {
            let given = source.checksum.split_once(':').map_or("", |(_, digits)| digits);
            is_asked(given) || is_asked(&source.sha256.to_string())
        };
        let newest = || self.sources.iter().rev();
        let by_address = || newest().find(|source| source.url == url);
        newest().find(has_digest).or_else(by_address).or_else(|| self.sources.last())
    }
}

/// A file that is served as it is: a part of a network boot, an ISO image, a stream's metadata.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileMeta {
    /// The digest of the file; its name.
    pub sha256: Sha256,
    pub bytes: u64,
    pub role: StoredFileRole,
    /// The stream's name for a stream's metadata, else empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Where it came from, latest last.
    pub sources: Vec<SourceRecord>,
}

impl FileMeta {
    /// Whether this appliance saw it, as [`ImageMeta::is_seen_here`].
    #[must_use]
    pub fn is_seen_here(&self) -> bool {
        self.sources.iter().any(|source| source.witness == RecordOrigin::Here)
    }
}

/// What a stored file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StoredFileRole {
    Kernel,
    Initramfs,
    Rootfs,
    Iso,
    /// Stream metadata, as an offline bundle brings it.
    Stream,
}

/// Whose word a record is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RecordOrigin {
    /// This appliance read the source's bytes, and they gave this image.
    #[default]
    Here,
    /// An offline bundle says so. That its image has the digests that it states was checked here; that it came from this
    /// source was not.
    Bundle,
}

impl RecordOrigin {
    fn is_here(&self) -> bool {
        *self == Self::Here
    }
}

/// One file that gave this image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceRecord {
    /// Address without user, password, query and fragment.
    pub url: String,
    /// Outermost first: `[gzip, raw]`, `[qcow2]`. Empty for a file that is served as it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub formats: Vec<ImportFormat>,
    /// The number of bytes as downloaded.
    pub bytes: u64,
    pub sha256: Sha256,
    /// The checksum that the owner gave and that was found, `sha512:…`; empty where none was given.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub checksum: String,
    /// The digest of the bytes once the outer compression was taken off, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncompressed_sha256: Option<Sha256>,
    /// The stream's name for it; empty where it came from no stream.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub release: String,
    /// Fingerprint of the OpenPGP key whose signature of the bytes as downloaded was checked.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub signed_by: String,
    #[serde(default, skip_serializing_if = "RecordOrigin::is_here")]
    pub witness: RecordOrigin,
    #[serde(default, skip_serializing_if = "ImportNotes::is_empty")]
    pub notes: ImportNotes,
}

impl SourceRecord {
    /// Returns whether the file had this checksum, or what it held once its compression was taken off.
    pub(crate) fn has(&self, checksum: &Checksum) -> bool {
        let text = checksum.to_string();
        let digests = [Some(self.sha256), self.uncompressed_sha256];
        self.checksum == text || digests.into_iter().flatten().any(|digest| format!("sha256:{digest}") == text)
    }
}

/// What was odd about a file that was imported all the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportNotes {
    /// Bytes behind the end of the gzip stream, which are not part of the image. Zeros alone do not count.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub trailing_bytes: u64,
    /// The image has a GPT without a second one at its end. Each host gets both.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_backup_table_missing: bool,
}

fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

impl ImportNotes {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// A sentence for each, for people.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        if self.trailing_bytes > 0 {
            sentences.push(format!(
                "the file has {} bytes behind the end of its gzip stream, which are not part of the image: if it was \
                 downloaded without a checksum, compare it with its publisher's",
                self.trailing_bytes
            ));
        }
        if self.is_backup_table_missing {
            sentences.push(
                "the image has no backup of its partition table (GPT) at its end, so it may have been shortened; all its \
                 partitions are there, and each host gets a new backup"
                    .to_owned(),
            );
        }
        sentences
    }
}

/// Notes a source. One that was seen here replaces one that a bundle states of the same file, never the other way
/// round, and makes room for itself among the stated ones first.
pub(super) fn note(sources: &mut Vec<SourceRecord>, source: SourceRecord) {
    let same = |known: &SourceRecord| (&known.url, known.sha256) == (&source.url, source.sha256);
    if source.witness == RecordOrigin::Bundle
        && sources.iter().any(|known| same(known) && known.witness == RecordOrigin::Here)
    {
        return;
    }
    sources.retain(|known| *known != source && !(same(known) && known.witness == RecordOrigin::Bundle));
    sources.push(source);
    while sources.len() > SOURCES_MAX {
        let stated = sources.iter().position(|known| known.witness == RecordOrigin::Bundle);
        sources.remove(stated.unwrap_or(0));
    }
}

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("opening the image folder {path}")]
    Open { path: PathBuf, source: io::Error },
    #[error("reading {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("{path} is no metadata of an image")]
    Meta { path: PathBuf, source: serde_json::Error },
    #[error("making a file in {path}")]
    Create { path: PathBuf, source: io::Error },
    #[error("no space is left for the image in {path}")]
    Full { path: PathBuf },
    #[error("writing {path}")]
    Write { path: PathBuf, source: io::Error },
    #[error("putting {path} in its place")]
    Publish { path: PathBuf, source: io::Error },
    #[error("removing {path}")]
    Remove { path: PathBuf, source: io::Error },
}

impl StoreError {
    /// What a person can do about it.
    #[must_use]
    pub fn help(&self) -> &'static str {
        match self {
            Self::Full { .. } => "remove what is not needed from this filesystem, or use a larger one",
            Self::Open { .. }
            | Self::Read { .. }
            | Self::Meta { .. }
            | Self::Create { .. }
            | Self::Write { .. }
            | Self::Publish { .. }
            | Self::Remove { .. } => "see that the folder's disk works, and that the appliance may write there",
        }
    }
}

/// Addresses of private mirrors carry passwords and signatures.
#[must_use]
pub fn without_secrets(url: &str) -> String {
    match reqwest::Url::parse(url) {
        Ok(mut parsed) => {
            parsed.set_query(None);
            parsed.set_fragment(None);
            // Fails only where an address cannot have them.
            parsed.set_username("").and_then(|()| parsed.set_password(None)).unwrap_or(());
            parsed.to_string()
        }
        Err(_) => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(url: &str, witness: RecordOrigin) -> SourceRecord {
        SourceRecord {
            url: url.to_owned(),
            formats: vec![ImportFormat::Raw],
            bytes: 1,
            sha256: Sha256::of(url.as_bytes()),
            checksum: String::new(),
            uncompressed_sha256: None,
            release: String::new(),
            signed_by: String::new(),
            witness,
            notes: ImportNotes::default(),
        }
    }

    #[test]
    fn what_is_said_of_an_image_is_said_of_the_file_that_was_asked_for() {
        let digest = Sha256::of(b"image");
        let mut odd = record("https://a.example/odd.gz", RecordOrigin::Here);
        (odd.checksum, odd.notes.trailing_bytes) = ("sha512:ab12".to_owned(), 7);
        let plain = record("https://a.example/plain.gz", RecordOrigin::Here);
        let sources = vec![odd.clone(), plain.clone()];
        let meta = ImageMeta { raw_sha256: digest, raw_bytes: 512, stream_sha256: digest, stream_bytes: 9, sources };
        for (url, checksum, wanted) in [
            ("x", odd.sha256.to_string().as_str(), &odd),
            ("x", " AB12", &odd),
            ("x", plain.sha256.to_string().as_str(), &plain),
            ("https://me:secret@a.example/odd.gz?token=1", "", &odd),
            ("https://a.example/odd.gz", "https://a.example/SHA256SUMS", &odd),
            ("https://a.example/other.gz", "", &plain),
        ] {
            assert_eq!(meta.source_of(url, checksum), Some(wanted), "{url} {checksum}");
        }
    }

    /// A bundle with many sources for one image would have made the appliance forget what it saw itself.
    #[test]
    fn what_was_seen_outlives_any_number_of_claims() {
        let mut sources = vec![record("seen", RecordOrigin::Here)];
        for index in 0..100 {
            note(&mut sources, record(&format!("stated-{index}"), RecordOrigin::Bundle));
        }
        assert_eq!(sources.len(), SOURCES_MAX);
        assert_eq!(sources[0], record("seen", RecordOrigin::Here));
        note(&mut sources, record("seen", RecordOrigin::Bundle));
        assert_eq!(sources.iter().filter(|known| known.url == "seen").count(), 1);
        note(&mut sources, record("stated-99", RecordOrigin::Here));
        let known: Vec<RecordOrigin> =
            sources.iter().filter(|known| known.url == "stated-99").map(|known| known.witness).collect();
        assert_eq!(known, [RecordOrigin::Here]);
    }
}
