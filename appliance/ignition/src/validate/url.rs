//! URLs as Go's `net/url` parses them, and which of them Ignition fetches (`types/url.go`).
//!
//! A URL library would not do: Go takes `http:x`, `//host` and a port without digits, and refuses others that the
//! URL standard takes. The verdict here is Ignition's.

use super::data_url;

/// The parts that a rule looks at.
pub(super) struct Url<'u> {
    /// The scheme in lower case; empty where there is none.
    pub(super) scheme: String,
    pub(super) host: &'u str,
    /// What follows the scheme where that is no `/`, without the query.
    opaque: &'u str,
    query: &'u str,
}

/// Why Ignition would not fetch from it; `None` when it would. An empty source is a matter of its owner.
pub(super) fn fault(source: &str, minor: u8) -> Option<&'static str> {
    let Some(url) = Url::parse(source) else { return Some("is not a URL") };
    match url.scheme.as_str() {
        "http" | "https" | "tftp" => None,
        "gs" if minor >= 2 => None,
        "s3" => url.object_version_fault(),
        "arn" if minor >= 4 => url.arn_fault().or_else(|| url.object_version_fault()),
        "data" if data_url::is_valid(source) => None,
        "data" => Some("is not a valid data URL (RFC 2397)"),
        _ => Some(schemes(minor)),
    }
}

/// `gs` came with 3.2, `arn` with 3.4; `oem` of spec 2 is gone.
fn schemes(minor: u8) -> &'static str {
    match minor {
        0 | 1 => "the scheme is none of http, https, tftp, s3, data",
        2 | 3 => "the scheme is none of http, https, tftp, s3, gs, data",
        _ => "the scheme is none of http, https, tftp, s3, gs, arn, data",
    }
}

impl<'u> Url<'u> {
    /// Parses a URL; `None` where Go's `url.Parse` fails.
    pub(super) fn parse(text: &'u str) -> Option<Self> {
        let (text, fragment) = text.split_once('#').unwrap_or((text, ""));
        if text.bytes().any(|byte| byte.is_ascii_control()) || !is_escaped(fragment, &UrlPart::Other) {
            return None;
        }
        let (scheme, rest) = split_scheme(text)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut url = Url { scheme: scheme.to_ascii_lowercase(), host: "", opaque: "", query };
        if !rest.starts_with('/') {
            // Without a scheme, what stands before a colon would be taken for one.
            let is_ambiguous = scheme.is_empty() && rest.split('/').next().is_some_and(|first| first.contains(':'));
            url.opaque = rest;
            return (!is_ambiguous && (!scheme.is_empty() || is_escaped(rest, &UrlPart::Other))).then_some(url);
        }
        let path = match rest.strip_prefix("//") {
            Some(after) => {
                let (authority, path) = after.split_at(after.find('/').unwrap_or(after.len()));
                url.host = parse_authority(authority)?;
                path
            }
            None => rest,
        };
        is_escaped(path, &UrlPart::Other).then_some(url)
    }

    /// An empty version of an S3 object; the first that is there counts.
    fn object_version_fault(&self) -> Option<&'static str> {
        let pairs = self.query.split('&').filter(|pair| !pair.contains(';'));
        let mut versions = pairs.filter_map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (unescape(name)? == b"versionId").then(|| unescape(value))?
        });
        versions.next().is_some_and(|version| version.is_empty()).then_some("the versionId is empty")
    }

    /// `arn:PARTITION:s3:REGION:ACCOUNT:BUCKET/KEY`, or `accesspoint/NAME/KEY` at its end.
    fn arn_fault(&self) -> Option<&'static str> {
        let mut sections = self.opaque.splitn(5, ':');
        let (service, resource) = (sections.nth(1), sections.nth(2));
        let parts = self.opaque.split('/').count();
        let needed = if resource.is_some_and(|resource| resource.starts_with("accesspoint/")) { 3 } else { 2 };
        (service != Some("s3") || resource.is_none() || parts < needed).then_some("is not the ARN of an S3 object")
    }
}

/// Scheme and rest; `None` where a colon stands first.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return None,
            b':' => return Some((&text[..at], &text[at + 1..])),
            _ => break,
        }
    }
    Some(("", text))
}

/// The host, with its port.
fn parse_authority(authority: &str) -> Option<&str> {
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let is_user_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
    let is_valid = user.bytes().all(is_user_byte) && is_escaped(user, &UrlPart::Other) && is_host(host);
    is_valid.then_some(host)
}

fn is_host(host: &str) -> bool {
    if !host.starts_with('[') {
        let port = host.rfind(':').map_or("", |colon| &host[colon..]);
        return is_port(port) && is_escaped(host, &UrlPart::Host);
    }
    let Some(end) = host.rfind(']') else { return false };
    let (address, after) = host.split_at(end);
    // RFC 6874: the zone of an address follows %25.
    let (address, zone) = address.split_at(address.find("%25").unwrap_or(end));
    is_port(&after[1..])
        && is_escaped(address, &UrlPart::Host)
        && is_escaped(zone, &UrlPart::Zone)
        && is_escaped(after, &UrlPart::Host)
}

fn is_port(text: &str) -> bool {
    text.is_empty() || text.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

enum UrlPart {
    Host,
    Zone,
    Other,
}

/// Whether every `%` is followed by two digits, and no byte of a host needs one.
fn is_escaped(text: &str, part: &UrlPart) -> bool {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] != b'%' {
            let is_plain = match part {
                UrlPart::Host | UrlPart::Zone => !bytes[at].is_ascii() || is_host_byte(bytes[at]),
                UrlPart::Other => true,
            };
            if !is_plain {
                return false;
            }
            at += 1;
            continue;
        }
        let Some(byte) = text.get(at + 1..at + 3).and_then(hex_byte) else { return false };
        let is_allowed = byte == b'%'
            || match part {
                // Only what is not ASCII may be escaped in a host.
                UrlPart::Host => byte >= 0x80,
                UrlPart::Zone => byte == b' ' || is_host_byte(byte),
                UrlPart::Other => true,
            };
        if !is_allowed {
            return false;
        }
        at += 3;
    }
    true
}

fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || br#"!$&'()*+,;=:[]<>"-_.~"#.contains(&byte)
}

fn hex_byte(digits: &str) -> Option<u8> {
    digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u8::from_str_radix(digits, 16).ok())?
}

/// A name or value of a query; `None` for a `%` without two digits.
fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut plain = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(byte) = text.as_bytes().get(at) {
        match byte {
            b'%' => {
                plain.push(hex_byte(text.get(at + 1..at + 3)?)?);
                at += 2;
            }
            b'+' => plain.push(b' '),
            other => plain.push(*other),
        }
        at += 1;
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_by_version() {
        for (source, since) in [
            ("http://a/b", 0),
            ("HTTPS://a", 0),
            ("tftp://a/b", 0),
            ("s3://bucket/key?versionId=1", 0),
            ("data:,x", 0),
            ("gs://bucket/key", 2),
            ("arn:aws:s3:::bucket/key", 4),
            ("arn:aws:s3:eu-west-1:123456789012:accesspoint/name/key", 4),
            ("s3://bucket/key?versionId=%zz", 0),
            ("arn:aws:s3:::bucket/key?versionId=3", 4),
            ("oem:///x", 6),
            ("ftp://a/b", 6),
            ("/etc/x", 6),
            ("arn:aws:s3:::bucket", 6),
            ("arn:aws:s3:us-west-1:1:accesspoint/name", 6),
            ("arn:aws:sqs:::bucket/key", 6),
            ("arn:aws:s3:bucket/key", 6),
            ("arn:aws:s3:::bucket/key?versionId=", 6),
            ("s3://bucket/key?versionId", 6),
            ("s3://bucket/key?%76ersionId=", 6),
            ("s3://bucket/key?version%49d=", 6),
        ] {
            for minor in 0..=5 {
                assert_eq!(fault(source, minor).is_none(), minor >= since, "{source} at 3.{minor}");
            }
        }
    }

    #[test]
    fn urls_are_parsed_as_go_does() {
        for url in [
            "http:x",
            "http:%zz",
            "//host",
            "///path",
            "http://[::1]:/",
            "http://[fe80::1%25eth0]/",
            "http://[fe80::1%25a%20b%41]/",
            "http://a:@b/",
            "http://%C3%A4/",
            "*",
            "http://a/#\n",
            "http://a/#%41",
        ] {
            assert!(Url::parse(url).is_some(), "{url}");
        }
        for url in [
            ":x",
            "a b:c",
            "http://a b",
            "http://a:b",
            "http://[::1",
            "http://%41/",
            "http://a/%4",
            "x://a@b c@d",
            "http://\x7f",
            "http://a/\n",
            "http://a/#%zz",
            "x%zz",
            "x%zz:",
            "1http:x",
            "http://[::1]x/",
            "http://[a b]/",
            "http://[fe80::1%25a%7Bb]/",
            "http://[fe80::1%25a b]/",
        ] {
            assert!(Url::parse(url).is_none(), "{url}");
        }
    }
}
