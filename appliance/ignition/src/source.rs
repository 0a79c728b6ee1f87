//! Where a config's contents come from: URLs and data URLs.

use base64::{Engine as _, engine::general_purpose::STANDARD};

/// Schemes that Ignition fetches (`arn` since 3.2, `gs` since 3.1).
const SCHEMES: [&str; 6] = ["http", "https", "tftp", "s3", "gs", "arn"];

/// Why Ignition would not take this source; `None` when it would.
pub(super) fn fault(source: &str) -> Option<String> {
    if source.is_empty() {
        return None;
    }
    let Some((scheme, rest)) = source.split_once(':') else {
        return Some("not a URL".to_owned());
    };
    match scheme {
        "data" if data_url_is_valid(source) => None,
        "data" => Some("not a valid data URL (RFC 2397)".to_owned()),
        "arn" => None,
        scheme if SCHEMES.contains(&scheme) => {
            let host = rest.strip_prefix("//").map(|rest| rest.split('/').next().unwrap_or_default());
            match host {
                Some(host) if !host.is_empty() && source.bytes().all(|byte| byte > b' ' && byte != 0x7f) => None,
                _ => Some("not a URL with a host".to_owned()),
            }
        }
        _ => Some("the scheme is none of http, https, tftp, s3, gs, arn, data".to_owned()),
    }
}

/// Whether `data:[type][;parameters][;base64],DATA` can be decoded (RFC 2397).
#[must_use]
pub fn data_url_is_valid(url: &str) -> bool {
    let Some((head, data)) = url.strip_prefix("data:").and_then(|rest| rest.split_once(',')) else { return false };
    let Some(plain) = unescape(data) else { return false };
    if head.ends_with(";base64") { STANDARD.decode(plain).is_ok() } else { true }
}

/// Percent-decoding; `None` for a `%` without two hexadecimal digits.
fn unescape(text: &str) -> Option<Vec<u8>> {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'%' {
            let digits = text.get(at + 1..at + 3)?;
            plain.push(u8::from_str_radix(digits, 16).ok()?);
            at += 3;
        } else {
            plain.push(bytes[at]);
            at += 1;
        }
    }
    Some(plain)
}
