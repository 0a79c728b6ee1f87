//! What URLs carry that is secret: passwords, tokens in place of a login, queries, and whole documents. Pure.

use crate::encodings::from_base64;
use crate::known_secrets::VALUE_BYTES_MIN;
use crate::unescaped_text::{EscapeKind, UnescapedText};

/// Lists the secrets of all URLs in a text, each as it is and without its escapes.
pub(crate) fn secrets_in(text: &str) -> Vec<Vec<u8>> {
    let words = text.split(|letter: char| letter.is_whitespace() || matches!(letter, '"' | '\'' | '<' | '>'));
    words.flat_map(secrets_of_url).flat_map(|part| [part.as_bytes().to_vec(), unescaped(part)]).collect()
}

/// Lists the secret parts of one URL.
fn secrets_of_url(url: &str) -> Vec<&str> {
    let Some((_, rest)) = url.split_once("://") else { return Vec::new() };
    let mut secrets = Vec::new();
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match login_of(rest, end) {
        Some((user, Some(password))) => {
            secrets.push(password);
            secrets.extend(Some(user).filter(|user| is_mixed(user)));
        }
        Some((user, None)) => secrets.extend(Some(user).filter(|user| is_made(user))),
        None => {}
    }
    let query = rest.split_once(['?', '#']).map_or("", |(_, query)| query);
    let values = query.split(['&', '#', ';']).map(|pair| pair.split_once('=').map_or(pair, |(_, value)| value));
    secrets.extend(values.filter(|value| is_made(value)));
    secrets
}

/// Returns the user and the password of a URL without its scheme. A password may have signs in it that end the host.
fn login_of(rest: &str, host_end: usize) -> Option<(&str, Option<&str>)> {
    let host = &rest[..host_end];
    let login = match host.rsplit_once('@') {
        Some((login, _)) => login,
        None => {
            let (_, port) = host.split_once(':').filter(|_| !host.starts_with('['))?;
            let is_password = !port.bytes().all(|byte| byte.is_ascii_digit());
            rest.rsplit_once('@').filter(|_| is_password)?.0
        }
    };
    Some(login.split_once(':').map_or((login, None), |(user, password)| (user, Some(password))))
}

/// Says whether a value of a query or a login is no word, such as `latest`.
fn is_made(value: &str) -> bool {
    value.len() >= 2 * VALUE_BYTES_MIN || is_mixed(value)
}

fn is_mixed(value: &str) -> bool {
    value.len() > VALUE_BYTES_MIN && value.bytes().any(|byte| byte.is_ascii_digit())
}

/// Returns the content of a data URL (RFC 2397).
pub(crate) fn content_of_data_url(text: &str) -> Option<Vec<u8>> {
    let (kind, content) = text.strip_prefix("data:")?.split_once(',')?;
    let content = unescaped(content);
    Some(if kind.ends_with(";base64") { from_base64(&content, 0) } else { content })
}

/// Replaces the escapes of a URL (RFC 3986, section 2.1).
fn unescaped(text: &str) -> Vec<u8> {
    UnescapedText::of(text.as_bytes(), EscapeKind::Percent).map_or_else(|| text.as_bytes().to_vec(), |text| text.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_and_queries_are_secret_and_words_are_not() {
        for (text, expected) in [
            ("https://u:p%40ssword@h/i?sig=AbC1234567&format=raw", &["p%40ssword", "p@ssword", "AbC1234567"][..]),
            ("see https://s3cr3tTok3n@mirror, please", &["s3cr3tTok3n"]),
            ("\"redfish://root:pa?Secret@h\"", &["pa?Secret"]),
            ("https://mirror.example:8443/a@b", &[]),
            ("https://admin@mirror.example/a", &[]),
            ("a text", &[]),
        ] {
            let found: Vec<String> =
                secrets_in(text).iter().map(|value| String::from_utf8_lossy(value).into_owned()).collect();
            for secret in expected {
                assert!(found.iter().any(|value| value == secret), "{text}: {found:?}");
            }
            assert!(
                !found.iter().any(|value| value == "raw") && (expected.is_empty() == found.is_empty()),
                "{found:?}"
            );
        }
    }
}
