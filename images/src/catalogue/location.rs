//! Addresses in stream metadata (the field `location`, S1-2.2): only those that are plainly a file on a web server.

use std::fmt;

use super::text::shown;

/// The longest published address has 160 bytes; proxies cut what is longer than this.
pub const LOCATION_BYTES_MAX: usize = 2048;

/// An `http` or `https` address without credentials, tricks in the path, or a fragment.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArtifactUrl(String);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocationError {
    #[error("it has {bytes} bytes, more than {LOCATION_BYTES_MAX}")]
    TooLong { bytes: usize },
    #[error("{character} at byte {at} does not belong into an address: encode it")]
    Character { character: String, at: usize },
    #[error("{text} is no address")]
    Unreadable { text: String },
    #[error("{text} is neither http nor https")]
    Scheme { text: String },
    #[error("it holds a user or a password")]
    Credentials,
    #[error("its path holds {segment}, which leads elsewhere: give the path as it is")]
    Path { segment: String },
    #[error("its path names no file")]
    NoFile,
    #[error("it has a fragment, which no server sees")]
    Fragment,
}

impl ArtifactUrl {
    /// The text itself is judged, not what an URL parser makes of it: that takes tabs out, turns backslashes and
    /// resolves `..`, and then one thing is shown and another fetched.
    pub fn parse(text: &str) -> Result<Self, LocationError> {
        if text.len() > LOCATION_BYTES_MAX {
            return Err(LocationError::TooLong { bytes: text.len() });
        }
        if let Some((at, character)) = text.char_indices().find(|(_, c)| !c.is_ascii_graphic() || *c == '\\') {
            return Err(LocationError::Character { character: character.escape_unicode().to_string(), at });
        }
        let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        let rest = rest.ok_or_else(|| LocationError::Scheme { text: shown(text) })?;
        if rest.contains('#') {
            return Err(LocationError::Fragment);
        }
        let before_query = rest.split('?').next().unwrap_or_default();
        let (authority, path) = before_query.split_once('/').ok_or(LocationError::NoFile)?;
        if authority.contains('@') {
            return Err(LocationError::Credentials);
        }
        for segment in path.split('/') {
            let decoded = decode(segment).filter(|decoded| {
                let hidden = |byte: &u8| byte.is_ascii_control() || matches!(byte, b'/' | b'\\');
                !matches!(decoded.as_slice(), b"." | b"..") && !decoded.iter().any(hidden)
            });
            if decoded.is_none() {
                return Err(LocationError::Path { segment: shown(segment) });
            }
        }
        if path.rsplit('/').next().is_none_or(str::is_empty) {
            return Err(LocationError::NoFile);
        }
        let readable = reqwest::Url::parse(text).ok().filter(|url| url.has_host() && url.username().is_empty());
        if authority.is_empty() || readable.is_none() {
            return Err(LocationError::Unreadable { text: shown(text) });
        }
        Ok(Self(text.to_owned()))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Decodes a segment; gives `None` where a `%` is not followed by two digits.
fn decode(segment: &str) -> Option<Vec<u8>> {
    let mut bytes = segment.bytes();
    let mut decoded = Vec::with_capacity(segment.len());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let digits = [bytes.next()?, bytes.next()?];
        let mut value = [0];
        hex::decode_to_slice(digits, &mut value).ok()?;
        decoded.push(value[0]);
    }
    Some(decoded)
}

impl fmt::Display for ArtifactUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ArtifactUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ArtifactUrl({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_addresses_of_files_pass() {
        for good in [
            "https://example.com/a/b.raw.xz",
            "http://192.0.2.1:8080/x%20y.iso?token=a/../b",
            "https://[2001:db8::1]/prod/44.2026+1/disk.raw",
        ] {
            assert!(ArtifactUrl::parse(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "file:///etc/shadow",
            "ftp://example.com/x",
            "data:,x",
            "HTTPS://example.com/x",
            "https:/example.com/x",
            "https:///x",
            "https://user@example.com/x",
            "https://user:secret@example.com/x",
            "https://example.com",
            "https://example.com/",
            "https://example.com/a/../b",
            "https://example.com/a/./b",
            "https://example.com/a/%2e%2E/b",
            "https://example.com/a%2fb",
            "https://example.com/a%5cb",
            "https://example.com/a%00b",
            "https://example.com/a%",
            "https://example.com/a%zz",
            "https://example.com\\x",
            "https://example.com/a\tb",
            "https://example.com/a\r\nHost:%20x",
            "https://example.com/ä",
            "https://example.com/x#y",
            "https://exa mple.com/x",
            "https://[::1/x",
        ] {
            assert!(ArtifactUrl::parse(bad).is_err(), "{bad:?}");
        }
        assert!(ArtifactUrl::parse(&format!("https://example.com/{}", "a".repeat(LOCATION_BYTES_MAX))).is_err());
    }
}
