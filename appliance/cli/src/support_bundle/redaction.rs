//! Removes secrets from what goes into a support bundle, and keeps a list of what was removed.
//!
//! A secret is found in three ways: by the type of its object (the content of a Secret), by its value (what a Secret
//! holds is removed wherever it stands), and by its form (a password in a URL, a private key, a token of a request).
//! What has none of these is not known to be a secret.

use std::collections::BTreeMap;

use aho_corasick::{AhoCorasick, MatchKind};
use anyhow::Context as _;
use regex::{Captures, Regex};

/// What stands for a secret.
const REMOVED: &str = "(removed)";
/// Shorter values are words that stand everywhere, such as `admin`.
const VALUE_BYTES_MIN: usize = 6;
/// The most values that are looked for.
const VALUES_MAX: usize = 100_000;

/// How a secret was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SecretTrace {
    /// The object's type says that this content is secret.
    OfType,
    /// A Secret of the appliance has this value.
    KnownValue,
    UrlLogin,
    UrlQuery,
    PrivateKey,
    RequestHeader,
    NamedField,
    WebToken,
}

impl SecretTrace {
    /// Says what it was, for the list.
    pub(super) fn what(self) -> &'static str {
        match self {
            Self::OfType => "content of a Secret or of another sealed object",
            Self::KnownValue => "value of a Secret",
            Self::UrlLogin => "login in a URL",
            Self::UrlQuery => "query or fragment of a URL",
            Self::PrivateKey => "private key",
            Self::RequestHeader => "header of a request",
            Self::NamedField => "value of a field or option named as a secret",
            Self::WebToken => "JSON web token",
        }
    }
}

/// What was removed from each file, and how often.
pub(super) type RemovalList = BTreeMap<(String, SecretTrace), u64>;

/// Removes secrets.
pub(super) struct Redactor {
    values: AhoCorasick,
    forms: Vec<SecretForm>,
    removals: RemovalList,
}

/// A form that shows a secret. What its group `keep` matches stays, before the secret.
struct SecretForm {
    trace: SecretTrace,
    pattern: Regex,
}

/// The forms, in the order in which they are looked for.
const FORMS: [(SecretTrace, &str); 6] = [
    (
        SecretTrace::PrivateKey,
        r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.{0,20000}?-----END [A-Z0-9 ]*PRIVATE KEY-----",
    ),
    (SecretTrace::UrlLogin, r#"(?P<keep>[A-Za-z][A-Za-z0-9+.-]*:[/\\]{1,3})[^\s"'<>/\\?#@]+@"#),
    (SecretTrace::UrlQuery, r#"(?P<keep>[A-Za-z][A-Za-z0-9+.-]*:/{2}[^\s"'<>?#]+)[?#][^\s"'<>]+"#),
    (SecretTrace::RequestHeader, r#"(?i)(?P<keep>\b(?:bearer|basic|x-auth-token:?)\s+)[A-Za-z0-9._~+/=-]{8,}"#),
    (
        SecretTrace::NamedField,
        r#"(?i)(?P<keep>\b[a-z0-9_.-]*(?:password|passwd|passphrase|secret|token|api[_-]?key|credential)[a-z0-9_.-]*\\?"?\s*[:=]\s*\\?"?)[^\s"\\,;&}]{4,}"#,
    ),
    (SecretTrace::WebToken, r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?"),
];

impl Redactor {
    /// Makes one that knows these values of Secrets.
    ///
    /// # Errors
    /// When there are too many values to look for.
    pub(super) fn new<'a>(values: impl IntoIterator<Item = &'a str>) -> anyhow::Result<Self> {
        let mut known: Vec<&str> = values.into_iter().flat_map(parts_of).collect();
        known.sort_unstable();
        known.dedup();
        anyhow::ensure!(
            known.len() <= VALUES_MAX,
            "could not make a bundle: the Secrets hold {} values, and at most {VALUES_MAX} are looked for",
            known.len()
        );
        let values = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(known);
        let form = |(trace, pattern): (SecretTrace, &str)| {
            Ok(SecretForm { trace, pattern: Regex::new(pattern).context("could not read a form of secrets")? })
        };
        Ok(Self {
            values: values.context("could not prepare the search for the values of Secrets")?,
            forms: FORMS.into_iter().map(form).collect::<anyhow::Result<_>>()?,
            removals: RemovalList::new(),
        })
    }

    /// Returns the text of a file without secrets.
    pub(super) fn clean(&mut self, file: &str, text: &str) -> String {
        let mut clean = String::with_capacity(text.len());
        let mut found = 0;
        self.values.replace_all_with(text, &mut clean, |_, _, out| {
            out.push_str(REMOVED);
            found += 1;
            true
        });
        note(&mut self.removals, file, SecretTrace::KnownValue, found);
        for SecretForm { trace, pattern } in &self.forms {
            let mut found = 0;
            let replaced = pattern.replace_all(&clean, |captures: &Captures<'_>| {
                let whole = captures.get(0).map_or("", |whole| whole.as_str());
                let kept = captures.name("keep").map_or("", |kept| kept.as_str());
                if whole[kept.len()..].trim_end_matches('@') == REMOVED {
                    return whole.to_owned();
                }
                found += 1;
                let behind = if *trace == SecretTrace::UrlLogin { "@" } else { "" };
                format!("{kept}{REMOVED}{behind}")
            });
            let replaced = replaced.into_owned();
            clean = replaced;
            note(&mut self.removals, file, *trace, found);
        }
        clean
    }

    /// Notes that content was left out since its object is a secret.
    pub(super) fn left_out(&mut self, file: &str, count: u64) {
        note(&mut self.removals, file, SecretTrace::OfType, count);
    }

    /// Returns the list of what was removed.
    pub(super) fn removals(&self) -> &RemovalList {
        &self.removals
    }
}

fn note(removals: &mut RemovalList, file: &str, trace: SecretTrace, count: u64) {
    if count > 0 {
        *removals.entry((file.to_owned(), trace)).or_default() += count;
    }
}

/// Returns what of a value is looked for: the whole, and each long line of it, since a log may show one line alone.
fn parts_of(value: &str) -> impl Iterator<Item = &str> {
    let lines = value.lines().map(str::trim).filter(move |line| line.len() < value.len());
    let is_long = |part: &&str| part.len() >= VALUE_BYTES_MIN;
    std::iter::once(value.trim()).chain(lines.filter(|line| line.len() >= 2 * VALUE_BYTES_MIN)).filter(is_long)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    fn clean(text: &str) -> String {
        Redactor::new([]).unwrap().clean("f", text)
    }

    #[test]
    fn the_value_of_a_secret_is_removed_wherever_it_stands() {
        let mut redactor = Redactor::new(["hunter22", "short", "hunter22-longer"]).unwrap();
        let text = "log: hunter22 and \"hunter22-longer\", but short words stay";
        assert_eq!(redactor.clean("log", text), "log: (removed) and \"(removed)\", but short words stay");
        assert_eq!(redactor.removals()[&("log".to_owned(), SecretTrace::KnownValue)], 2);
    }

    #[test]
    fn each_form_of_a_secret_is_removed_and_what_is_around_it_stays() {
        for (text, wanted) in [
            ("redfish://admin:pa55@10.0.0.1/x", "redfish://(removed)@10.0.0.1/x"),
            ("https://m.example/a.qcow2?sig=AbC&x=1 ok", "https://m.example/a.qcow2(removed) ok"),
            ("Authorization: Bearer abcdefghijkl", "Authorization: Bearer (removed)"),
            ("authorization: Basic YWRtaW46cGFzcw==", "authorization: Basic (removed)"),
            (r#"{"bmcPassword": "s3cret!", "name": "a"}"#, r#"{"bmcPassword": "(removed)", "name": "a"}"#),
            ("--metrics-token=abcd1234 --log info", "--metrics-token=(removed) --log info"),
            ("FIRESTEEL_REPORT_TOKEN=abcdef\n", "FIRESTEEL_REPORT_TOKEN=(removed)\n"),
            ("got eyJhbGciOiJI.eyJzdWIiOiIx.c2ln today", "got (removed) today"),
        ] {
            assert_eq!(clean(text), wanted, "{text}");
        }
        let key = "a\n-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEI\n-----END EC PRIVATE KEY-----\nb";
        assert_eq!(clean(key), "a\n(removed)\nb");
    }

    #[test]
    fn what_is_no_secret_stays() {
        let digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
        for text in [
            digest,
            "https://mirror.example/rhcos.raw.zst",
            "52:54:00:12:34:56 10.77.0.1:8443",
            "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        ] {
            assert_eq!(clean(text), text);
        }
    }

    #[test]
    fn a_text_that_is_clean_stays_as_it_is() {
        let once = clean("redfish://admin:pa55@10.0.0.1/x?y=1 token: abcdef");
        assert_eq!(clean(&once), once);
    }
}
