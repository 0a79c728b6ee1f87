//! The forms that show a secret wherever they stand: a login in a URL, a private key, a header of a request. Pure.
//!
//! Each form is a pattern over bytes. What its group `keep` matches stays, before the secret, so that a reader sees what
//! was there.

use anyhow::Context as _;
use regex::bytes::{Captures, Regex};

use super::redaction::SecretTrace;

/// What stands for a secret.
pub(super) const REMOVED: &str = "(removed)";
/// What the appliance itself puts in the place of a secret in a URL.
const HIDDEN: &str = "(hidden)";

/// The ends of names that name something about a secret, and not the secret.
const REFERENCE_ENDS: [&str; 20] = [
    "name",
    "names",
    "ref",
    "refs",
    "sha256",
    "at",
    "count",
    "file",
    "path",
    "days",
    "type",
    "version",
    "namespace",
    "kind",
    "seconds",
    "bytes",
    "missing",
    "error",
    "until",
    "reason",
];
/// The parts of names by which a field or option is a secret.
const SECRET_WORDS: [&str; 17] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "api_key",
    "api-key",
    "privatekey",
    "private_key",
    "private-key",
    "accesskey",
    "access-key",
    "certificatekey",
    "certificate-key",
    "credential",
    "key-data",
];

/// A form that shows a secret.
struct SecretForm {
    trace: SecretTrace,
    pattern: Regex,
    check: FormCheck,
}

/// What decides whether a match is a secret.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FormCheck {
    Always,
    /// The name before it is that of a secret, and not of a reference to one.
    ByName,
    /// It does not look like a word of a sentence.
    NoWord,
}

/// The patterns, in the order in which they are looked for. `WORDS` are [`SECRET_WORDS`].
const PATTERNS: [(SecretTrace, FormCheck, &str); 13] = [
    (
        SecretTrace::PrivateKey,
        FormCheck::Always,
        r#"-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----[^"{}<>]*?-----END [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----"#,
    ),
    // Its end was cut off.
    (
        SecretTrace::PrivateKey,
        FormCheck::Always,
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----[A-Za-z0-9+/=\s\\:,._-]*",
    ),
    (SecretTrace::DataUrl, FormCheck::Always, r#"(?i)(?P<keep>\bdata:[a-z0-9/+.;=-]*,)[^\s"'<>\\]+"#),
    (SecretTrace::UrlLogin, FormCheck::Always, r#"(?P<keep>[A-Za-z][A-Za-z0-9+.-]*:[/\\]{2,6})[^\s"'<>/\\?#]+@"#),
    (
        SecretTrace::UrlQuery,
        FormCheck::Always,
        r#"(?P<keep>[A-Za-z][A-Za-z0-9+.-]*:[/\\]{2,6}[^\s"'<>?#]+[?#])[^\s"'<>]+"#,
    ),
    (SecretTrace::UrlQuery, FormCheck::Always, r#"(?P<keep>[A-Za-z0-9/._~-]\?)[A-Za-z0-9_.~%+-]{1,64}=[^\s"'<>]*"#),
    (
        SecretTrace::RequestHeader,
        FormCheck::Always,
        r#"(?i)(?P<keep>\b(?:(?:proxy-)?authorization|x-auth-token|x-api-key|set-cookie|cookie)\\*["']?\s*[:=]\s*\\*["']?)[^"'\r\n\\]+"#,
    ),
    (SecretTrace::RequestHeader, FormCheck::Always, r"(?i)(?P<keep>\bbearer\s+)[A-Za-z0-9._~+/=-]{8,}"),
    (SecretTrace::RequestHeader, FormCheck::NoWord, r"(?i)(?P<keep>\bbasic\s+)[A-Za-z0-9._~+/=-]{8,}"),
    (
        SecretTrace::NamedField,
        FormCheck::ByName,
        r#"(?i)(?P<keep>(?P<name>[a-z0-9_.-]*(?:WORDS)[a-z0-9_.-]*)\\*["']?\s*[:=]\s*)(?:\\+"[^"]*?\\+"|"(?:[^"\\]|\\.)*"|'[^']*'|[^\s"',;&}\]]+)"#,
    ),
    (SecretTrace::WebToken, FormCheck::Always, r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?"),
    (
        SecretTrace::PasswordHash,
        FormCheck::Always,
        r"\$(?:1|2[abxy]?|5|6|7|y|gy|md5|apr1|sha1|scrypt|bcrypt|argon2(?:id|i|d)|pbkdf2[a-z0-9-]*)\$[A-Za-z0-9./$,=+_-]{12,}",
    ),
    (
        SecretTrace::WebToken,
        FormCheck::Always,
        r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|glpat-[A-Za-z0-9_-]{20,}|AKIA[0-9A-Z]{16}|sha256~[A-Za-z0-9_-]{30,}|AGE-SECRET-KEY-1[0-9A-Z]{20,}|[a-z0-9]{6}\.[a-z0-9]{16}\b)",
    ),
];

/// All forms, ready to be looked for.
pub(super) struct SecretForms(Vec<SecretForm>);

impl SecretForms {
    /// # Errors
    /// When a pattern cannot be read.
    pub(super) fn new() -> anyhow::Result<Self> {
        let form = |(trace, check, pattern): (SecretTrace, FormCheck, &str)| {
            let pattern = pattern.replace("WORDS", &SECRET_WORDS.join("|"));
            // The tables of Unicode are not built in.
            let pattern = Regex::new(&format!("(?-u){pattern}")).context("could not read a form of secrets")?;
            Ok(SecretForm { trace, pattern, check })
        };
        Ok(Self(PATTERNS.into_iter().map(form).collect::<anyhow::Result<_>>()?))
    }

    /// Removes what has one of the forms, and calls `note` for each. `of_several_lines` are the forms that do not stand on
    /// one line.
    pub(super) fn clean(&self, text: Vec<u8>, mut note: impl FnMut(SecretTrace), of_several_lines: bool) -> Vec<u8> {
        let mut clean = text;
        for form in self.0.iter().filter(|form| !of_several_lines || form.trace == SecretTrace::PrivateKey) {
            let replaced = form.pattern.replace_all(&clean, |captures: &Captures<'_>| {
                let whole = captures.get(0).map_or(&[][..], |whole| whole.as_bytes());
                let kept = captures.name("keep").map_or(&[][..], |kept| kept.as_bytes());
                let secret = &whole[kept.len()..];
                if is_removed(secret) || !form.is_secret(captures, secret) {
                    return whole.to_vec();
                }
                note(form.trace);
                [kept, replacement(form.trace, secret).as_bytes()].concat()
            });
            clean = replaced.into_owned();
        }
        clean
    }

    /// Says whether a text that was encoded has one of the forms that no text has by chance.
    pub(super) fn are_in_decoded(&self, text: &[u8]) -> bool {
        let is_sure = |form: &&SecretForm| {
            matches!(form.trace, SecretTrace::PrivateKey | SecretTrace::WebToken | SecretTrace::PasswordHash)
        };
        text.is_ascii() && self.0.iter().filter(is_sure).any(|form| form.pattern.is_match(text))
    }
}

impl SecretForm {
    fn is_secret(&self, captures: &Captures<'_>, secret: &[u8]) -> bool {
        match self.check {
            FormCheck::Always => true,
            FormCheck::ByName => {
                let name = captures.name("name").map_or(&[][..], |name| name.as_bytes());
                is_secret_name(&String::from_utf8_lossy(name))
            }
            FormCheck::NoWord => !is_word(secret),
        }
    }
}

/// Says whether a field or option of this name holds a secret, and not only the name of one.
pub(super) fn is_secret_name(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let lower = lower.trim_matches(['-', '_', '.']);
    SECRET_WORDS.iter().any(|word| lower.contains(word))
        && !REFERENCE_ENDS.iter().any(|end| ends_with_word(name.trim_matches(['-', '_', '.']), end))
}

/// Says whether a name ends with a word, which begins in upper case or behind a sign: `tokenName` and `token_name`, and
/// not `chatoken` with the word `token`.
fn ends_with_word(name: &str, word: &str) -> bool {
    let Some(start) = name.len().checked_sub(word.len()).filter(|start| name.is_char_boundary(*start)) else {
        return false;
    };
    let (before, end) = name.split_at(start);
    if !end.eq_ignore_ascii_case(word) || before.is_empty() {
        return false;
    }
    let starts_in_upper_case = end.starts_with(|letter: char| letter.is_ascii_uppercase());
    starts_in_upper_case || before.ends_with(['-', '_', '.'])
}

/// Says whether a text is what stands for a secret already.
fn is_removed(secret: &[u8]) -> bool {
    let text = String::from_utf8_lossy(secret);
    [REMOVED, HIDDEN].contains(&text.trim_matches(['"', '\'', '\\', '@', ' ']))
}

/// What is put in the place of a secret. Quotation marks stay.
fn replacement(trace: SecretTrace, secret: &[u8]) -> String {
    let quote = match secret {
        [b'\\', b'"', ..] => "\\\"",
        [b'"', ..] => "\"",
        [b'\'', ..] => "'",
        _ => "",
    };
    let behind = if trace == SecretTrace::UrlLogin { "@" } else { "" };
    format!("{quote}{REMOVED}{behind}{quote}")
}

/// Says whether these are letters of a word, as in "basic authentication".
fn is_word(text: &[u8]) -> bool {
    text.iter().all(u8::is_ascii_lowercase)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn clean(text: &str) -> String {
        let cleaned = SecretForms::new().unwrap().clean(text.as_bytes().to_vec(), |_| (), false);
        String::from_utf8(cleaned).unwrap()
    }

    #[test]
    fn each_form_of_a_secret_is_removed_and_what_is_around_it_stays() {
        for (text, expected) in [
            ("redfish://admin:pa55@10.0.0.1/x", "redfish://(removed)@10.0.0.1/x"),
            ("redfish://admin:p@55@10.0.0.1/x", "redfish://(removed)@10.0.0.1/x"),
            ("https://m.example/a.qcow2?sig=AbC&x=1 ok", "https://m.example/a.qcow2?(removed) ok"),
            ("https://m.example/a#frag", "https://m.example/a#(removed)"),
            ("GET /config/worker?token=abc 200", "GET /config/worker?(removed) 200"),
            ("Authorization: Bearer abcdefghijkl", "Authorization: (removed)"),
            ("authorization=\"Basic YWRtaW46cGFzcw==\" x", "authorization=\"(removed)\" x"),
            ("Set-Cookie: a=b; Path=/", "Set-Cookie: (removed)"),
            ("sent bearer abcdefghijkl to it", "sent bearer (removed) to it"),
            ("sent Basic YWRtaW46cGFzcw== to it", "sent Basic (removed) to it"),
            (r#"bmcPassword: "two words" and"#, r#"bmcPassword: "(removed)" and"#),
            (r#"{\"password\":\"two words\",\"a\":1}"#, r#"{\"password\":\"(removed)\",\"a\":1}"#),
            ("--metrics-token=abcd1234 --log info", "--metrics-token=(removed) --log info"),
            ("error: token=abc", "error: token=(removed)"),
            ("FIRESTEEL_REPORT_TOKEN=abcdef\n", "FIRESTEEL_REPORT_TOKEN=(removed)\n"),
            ("client-key-data: LS0tLS1CRUdJ\n", "client-key-data: (removed)\n"),
            ("got eyJhbGciOiJI.eyJzdWIiOiIx.c2ln today", "got (removed) today"),
            ("root:$6$rounds=5000$abcdefgh$ijklmnop:1", "root:(removed):1"),
            ("$2y$10$abcdefghijklmnopqrstuv", "(removed)"),
            ("source: data:text/plain;base64,aGFsbG8=\n", "source: data:text/plain;base64,(removed)\n"),
            ("join abcdef.0123456789abcdef now", "join (removed) now"),
        ] {
            assert_eq!(clean(text), expected, "{text}");
            assert_eq!(clean(expected), expected, "a clean text stays");
        }
        let key = "a\n-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEI\n-----END EC PRIVATE KEY-----\nb";
        assert_eq!(clean(key), "a\n(removed)\nb");
        let cut = "\"-----BEGIN PRIVATE KEY-----\\nMHcCAQEEI\\nAAAA\" b";
        assert_eq!(clean(cut), "\"(removed)\" b");
    }

    #[test]
    fn what_is_no_secret_stays() {
        for text in [
            "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "https://mirror.example/rhcos.raw.zst",
            "52:54:00:12:34:56 10.77.0.1:8443",
            "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
            "credentialsName: bmc-7, secretName: x, token_sha256=abc, tokenCount: 5",
            "it is driven by Basic authentication",
            "what is it? nothing",
            "firesteel_credentials_missing_total{host=\"a\"} 1",
        ] {
            assert_eq!(clean(text), text);
        }
    }

    #[test]
    fn names_of_references_are_no_secrets() {
        for secret in ["password", "bmcPassword", "passwordHash", "token", "api_key", "client-key-data", "pull-secret"]
        {
            assert!(is_secret_name(secret), "{secret}");
        }
        for other in ["credentialsName", "secretRef", "token_name", "tokenCount", "name", "key", "secret-namespace"] {
            assert!(!is_secret_name(other), "{other}");
        }
    }
}
