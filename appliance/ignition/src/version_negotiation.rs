//! What a client of the config server reads, by its header `Accept` (S1-6, as upstream's `pkg/server/api.go`).
//!
//! Ignition 2 sends `application/vnd.coreos.ignition+json;version=3.4.0, */*;q=0.1`; Ignition 0.x sends a version of
//! spec 2, and 1 with a lower `q`. Who sends no version, such as curl, gets 2.2.0, as ever.

use crate::{SpecVersion, version::Semver};

/// Most bytes of a header; longer ones are as malformed ones. Ignition's has below 150 bytes.
const HEADER_BYTES_MAX: usize = 4096;
const SUBTYPE: &str = "vnd.coreos.ignition+json";

/// The client asks for a version that is not served: HTTP 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the client asks for a version of Ignition's config that is not served: 2.2 to 3.5 are")]
pub struct UnsupportedSpecVersion;

struct AcceptEntry<'a> {
    subtype: &'a str,
    version: Option<Semver>,
    quality: f32,
}

/// The version to serve.
///
/// # Errors
/// When the client names a version that is older than 2.2 or of an unknown major.
pub fn negotiate(header: &str) -> Result<SpecVersion, UnsupportedSpecVersion> {
    if header.len() > HEADER_BYTES_MAX {
        return Ok(SpecVersion::V2_2);
    }
    let mut entries: Vec<AcceptEntry<'_>> = header.split(',').filter_map(entry).collect();
    entries.sort_by(|one, other| other.quality.total_cmp(&one.quality));
    let asked = entries.into_iter().filter(|entry| entry.subtype == SUBTYPE).find_map(|entry| entry.version);
    match asked {
        None => Ok(SpecVersion::V2_2),
        Some(version) => served(version).ok_or(UnsupportedSpecVersion),
    }
}

fn served(version: Semver) -> Option<SpecVersion> {
    match version {
        Semver { major: 2, minor: 2.., .. } => Some(SpecVersion::V2_2),
        Semver { major: 3, minor, .. } => {
            let version = |known: &SpecVersion| known.text() == format!("3.{minor}.0");
            Some(SpecVersion::ALL.into_iter().find(version).unwrap_or(SpecVersion::NEWEST))
        }
        Semver { .. } => None,
    }
}

/// `type/subtype; name=value …`; `None` for what is no media type.
fn entry(text: &str) -> Option<AcceptEntry<'_>> {
    let mut parts = text.split(';').map(str::trim);
    let (_, subtype) = parts.next()?.split_once('/')?;
    let (mut version, mut quality) = (None, None);
    for (name, value) in parts.filter_map(|part| part.split_once('=')) {
        match name {
            "version" if version.is_none() => version = Semver::parse(value),
            "q" if quality.is_none() => quality = value.parse().ok().filter(|quality: &f32| quality.is_finite()),
            _ => {}
        }
    }
    Some(AcceptEntry { subtype, version, quality: quality.unwrap_or(1.0) })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use proptest::prelude::*;

    use super::*;
    use crate::fixtures::{fixture, json};

    /// S1.20
    #[test]
    fn upstreams_vectors_hold() {
        let Some(vectors) = fixture("vectors/mcs-accept-header.json") else { return };
        let vectors = json(&vectors);
        for vector in vectors.as_array().unwrap() {
            let served = negotiate(vector["accept"].as_str().unwrap());
            assert_eq!(served.ok().map(SpecVersion::text), vector["served"].as_str(), "{vector}");
            assert_eq!(if served.is_ok() { 200 } else { 400 }, vector["http"], "{vector}");
        }
        assert!(vectors.as_array().unwrap().len() >= 12, "{vectors}");
    }

    #[test]
    fn the_first_of_the_best_that_names_a_version_counts() {
        let kind = "application/vnd.coreos.ignition+json";
        let filled = |bytes: usize| format!("{:bytes$}", kind.to_owned() + ";version=3.3.0");
        let cases = [
            // What Ignition 0.x and 2.x send.
            (format!("{kind}; version=2.4.0, {kind}; version=1; q=0.5, */*; q=0.1"), Some("2.2.0")),
            (format!("{kind};version=3.5.0, */*;q=0.1"), Some("3.5.0")),
            (format!("{kind};version=3.0.0"), Some("3.0.0")),
            (format!("{kind};version=3.1.0;q=0.5, {kind};version=3.4.0"), Some("3.4.0")),
            (format!("{kind};version=3.1.0, {kind};version=3.4.0"), Some("3.1.0")),
            (format!("{kind};version=3.1.0;version=3.4.0"), Some("3.1.0")),
            (format!("{kind};version=3.1.0;q=0.9;q=0.1, {kind};version=3.4.0;q=0.5"), Some("3.1.0")),
            (format!("{kind}, {kind};version=3.3.0"), Some("3.3.0")),
            (format!("{kind};version=3.3, {kind};version=3.2.0;q=0.2"), Some("3.2.0")),
            (format!("{kind};version=3.6.0-experimental"), Some("3.5.0")),
            (format!("{kind};version=3.3.0;q=nan"), Some("3.3.0")),
            (format!("{kind};version=1.0.0"), None),
            (format!("{kind};version=2.2.0-dev"), Some("2.2.0")),
            (format!("{kind};version=3.99999999999999999999.0"), Some("2.2.0")),
            (",;,=/;;q=".to_owned(), Some("2.2.0")),
            (format!("{kind};version=3.999999999.0"), Some("3.5.0")),
            (format!("{kind};version=3.1000000000.0"), Some("2.2.0")),
            (filled(HEADER_BYTES_MAX), Some("3.3.0")),
            (filled(HEADER_BYTES_MAX + 1), Some("2.2.0")),
        ];
        for (header, served) in cases {
            assert_eq!(negotiate(&header).ok().map(SpecVersion::text), served, "{header}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_asked_for_there_is_an_answer(header in "\\PC{0,80}", version in "[0-9.+-]{0,12}") {
            let _ = negotiate(&header);
            let _ = negotiate(&format!("a/vnd.coreos.ignition+json;version={version};q={header}"));
        }
    }
}
