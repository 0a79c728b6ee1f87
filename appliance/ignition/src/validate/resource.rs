//! What is fetched: source, compression, headers and digest (`types/resource.go`, `headers.go`, `verification.go`;
//! in 3.0 `file.go`, `ignition.go` and `ca.go`).

use std::collections::HashSet;

use super::url::{self, Url};
use super::{ConfigLocation, Rules};

/// Where it stands, for the rules differ.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ResourceUse {
    /// The content of a file, or a key: need not be there.
    Contents,
    /// `ignition.config.replace`.
    Replace,
    /// An entry of `ignition.config.merge`.
    Merge,
    Authority,
}

pub(super) fn check(rules: &mut Rules<'_>, at: &ConfigLocation<'_>, used: ResourceUse) {
    if at.text("compression").is_some_and(|word| !matches!(word, "" | "gzip")) {
        rules.error(at, "compression", "must be empty or gzip");
    }
    source(rules, at, used);
    headers(rules, at);
    hash(rules, at, used);
}

fn source(rules: &mut Rules<'_>, at: &ConfigLocation<'_>, used: ResourceUse) {
    let is_needed = match used {
        ResourceUse::Contents | ResourceUse::Replace => false,
        ResourceUse::Merge => rules.minor >= 1,
        ResourceUse::Authority => true,
    };
    match at.filled("source") {
        None if is_needed => rules.error(at, "source", "is needed"),
        None => {}
        Some(source) => match url::fault(source, rules.minor) {
            Some(fault) => rules.error(at, "source", fault),
            None if lacks_host(source) => rules.warning(at, "source", "names no host: nothing can be fetched from it"),
            None => {}
        },
    }
}

/// Ignition finds this out when it fetches.
fn lacks_host(source: &str) -> bool {
    Url::parse(source).is_some_and(|url| {
        matches!(url.scheme.as_str(), "http" | "https" | "tftp" | "s3" | "gs") && url.host.is_empty()
    })
}

fn headers(rules: &mut Rules<'_>, at: &ConfigLocation<'_>) {
    let headers = at.list("httpHeaders");
    for header in &headers {
        if header.filled("name").is_none() {
            rules.error(header, "name", "is needed");
        }
        if header.text("value") == Some("") {
            rules.error(header, "value", "is empty; null leaves the header out");
        }
    }
    rules.unique(&headers, "name", &mut HashSet::new());
    let scheme = at.filled("source").and_then(Url::parse).map(|url| url.scheme);
    if !headers.is_empty() && !matches!(scheme.as_deref(), Some("http" | "https")) {
        rules.error(at, "httpHeaders", "go with a source of http or https only");
    }
}

fn hash(rules: &mut Rules<'_>, at: &ConfigLocation<'_>, used: ResourceUse) {
    let verification = at.object("verification");
    let Some(hash) = verification.text("hash") else { return };
    // 3.0 forgot it for configs.
    if !at.has("source") && (used == ResourceUse::Contents || rules.minor >= 1) {
        rules.error(&verification, "hash", "is of nothing: there is no source");
    }
    let (word, digits) = hash.split_once('-').unwrap_or_default();
    let wanted = match word {
        "sha512" => Some(128),
        // Since 3.1.
        "sha256" if rules.minor >= 1 => Some(64),
        _ => None,
    };
    if wanted.is_none_or(|wanted| digits.len() != wanted) {
        rules.error(
            &verification,
            "hash",
            match rules.minor {
                0 => "must be sha512- and 128 hexadecimal digits",
                _ => "must be sha256- and 64 hexadecimal digits, or sha512- and 128",
            },
        );
    } else if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        rules.warning(&verification, "hash", "the digest is not hexadecimal: nothing will match it");
    }
}
