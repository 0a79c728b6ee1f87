//! The OS image of `spec.provisioningOSDownloadURL`: an address that brings its digest along, as upstream has it.

use firesteel_facts::Sha256;

/// Packed forms that upstream accepts.
const SUFFIXES: [&str; 2] = [".qcow2.gz", ".qcow2.xz"];

/// An OS image with its digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OsImageSource {
    /// The whole address, as it is fetched.
    pub url: String,
    /// The digest of the file, or of the qcow2 image in it: upstream's installer states the latter.
    pub sha256: Sha256,
    /// The name of the qcow2 image in the file.
    pub name: String,
}

/// What is wrong with an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OsImageUrlFault {
    #[error("must be an http or https URL")]
    Scheme,
    #[error("needs a query ?sha256= with 64 hexadecimal digits")]
    Digest,
    #[error("must end in .qcow2.gz or .qcow2.xz")]
    Suffix,
}

impl OsImageSource {
    /// Parses an address.
    ///
    /// # Errors
    /// All that is wrong with it; of another scheme nothing else is looked at.
    pub fn parse(url: &str) -> Result<Self, Vec<OsImageUrlFault>> {
        let Some(rest) = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://")) else {
            return Err(vec![OsImageUrlFault::Scheme]);
        };
        let (location, _) = rest.split_once('?').unwrap_or((rest, ""));
        let name = SUFFIXES.iter().any(|suffix| location.ends_with(suffix)).then(|| name_of(location));
        match (digest_in_url(url), name) {
            (Some(sha256), Some(name)) => Ok(Self { url: url.to_owned(), sha256, name }),
            (sha256, name) => Err([
                sha256.is_none().then_some(OsImageUrlFault::Digest),
                name.is_none().then_some(OsImageUrlFault::Suffix),
            ]
            .into_iter()
            .flatten()
            .collect()),
        }
    }

    /// Returns the path at which the appliance serves it, as upstream's image cache has it.
    #[must_use]
    pub fn served_path(&self) -> String {
        let name = &self.name;
        format!("/images/{name}/cached-{name}")
    }
}

/// Returns the name of the qcow2 image in a file with one of [`SUFFIXES`].
fn name_of(location: &str) -> String {
    let file = location.rsplit('/').next().unwrap_or_default();
    file.rsplit_once('.').map_or(file, |(name, _)| name).to_owned()
}

/// Returns the digest that an address has in its query `sha256`.
#[must_use]
pub fn digest_in_url(url: &str) -> Option<Sha256> {
    let (_, query) = url.split_once('?')?;
    let digits = query.split('&').find_map(|pair| pair.strip_prefix("sha256="))?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGITS: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn an_address_has_its_digest_and_the_name_of_the_image_in_it() {
        let url = format!("https://a.example/4.2/rhcos-42-openstack.qcow2.gz?token=x&sha256={DIGITS}");
        let source = OsImageSource::parse(&url);
        let served = source.as_ref().map(OsImageSource::served_path);
        assert_eq!(served.as_deref(), Ok("/images/rhcos-42-openstack.qcow2/cached-rhcos-42-openstack.qcow2"));
        assert_eq!(source.map(|source| (source.sha256.to_string(), source.url)), Ok((DIGITS.to_owned(), url)));
        assert_eq!(digest_in_url("http://a/b"), None);
        assert_eq!(digest_in_url("http://a/b?sha256=12"), None);
    }

    #[test]
    fn all_that_is_wrong_is_found() {
        use OsImageUrlFault::{Digest, Scheme, Suffix};
        for (url, faults) in [
            (format!("ftp://a/x.qcow2.gz?sha256={DIGITS}"), vec![Scheme]),
            ("http://a/x.qcow2.gz".to_owned(), vec![Digest]),
            (format!("http://a/x.raw?sha256={DIGITS}"), vec![Suffix]),
            (format!("http://a/x.qcow2?sha256={}z", &DIGITS[1..]), vec![Digest, Suffix]),
        ] {
            assert_eq!(OsImageSource::parse(&url), Err(faults), "{url}");
        }
    }
}
