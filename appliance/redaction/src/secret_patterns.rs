//! The patterns of secrets, as tables. `WORDS` and `VALUE` in them are put in by [`crate::secret_forms`].

use crate::redactor::SecretTrace;
use crate::secret_forms::FormCheck;

/// A value behind the name of a field, in the ways that programs write it: over several lines of YAML, escaped in one line,
/// as a list, as an object that has the value in it, quoted, or as one word.
pub(crate) const VALUE: &str = concat!(
    r#"(?:[|>][+-]?[0-9]?[ \t]*(?:(?:\r?\n)+[ \t]+[^\r\n]*)+"#,
    r#"|[|>][+-]?[0-9]?(?:\\+n[ ]+[^\\"\r\n]*)+"#,
    r#"|-[ \t]+[^\r\n]*(?:\r?\n[ \t]*-[ \t]+[^\r\n]*)*"#,
    r#"|\[[^\]\[{}]*\]"#,
    r#"|\{\s*\\*["']?(?:value|values|content|contents|data|hash|text|plaintext)\\*["']?\s*:[^{}]*\}"#,
    r#"|(?:value|values|content|contents|data|hash|text|plaintext):[ \t]*[^\r\n]*"#,
    r#"|\\+"[^"]*?\\+"|"(?:[^"\\]|\\.)*"|'[^']*'|[^\s"',;&}\]]+)"#,
);

/// A value behind an option and a space.
pub(crate) const ARGUMENT: &str = r#"(?:\\+"[^"]*?\\+"|"(?:[^"\\]|\\.)*"|'[^']*'|[^\s"']+)"#;

/// A form that shows a secret.
pub(crate) type PatternRow = (SecretTrace, FormCheck, &'static str);

/// The forms that have several lines.
pub(crate) const KEY_PATTERNS: [PatternRow; 2] = [
    (
        SecretTrace::PrivateKey,
        FormCheck::Always,
        r#"-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----[^"{}<>]*?-----END [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----"#,
    ),
    // Its beginning was cut off.
    (
        SecretTrace::PrivateKey,
        FormCheck::Always,
        r"(?:[A-Za-z0-9+/=]+(?:\\+[nr]|[ \t]*\r?\n[ \t]*)+)+-----END [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----",
    ),
];

/// A private key whose end was cut off.
pub(crate) const CUT_KEY_PATTERN: PatternRow = (
    SecretTrace::PrivateKey,
    FormCheck::Always,
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----[A-Za-z0-9+/=\s\\:,._-]*",
);

/// The forms that stand on one line, as a rule.
pub(crate) const PATTERNS: [PatternRow; 13] = [
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
        r#"(?i)(?P<keep>\b(?:(?:proxy-)?authorization|x-auth-token|x-api-key|set-cookie|cookie)\\*["']?\s*[:=]\s*)(?:\[[^\]\[{}]*\]|(?P<quote>\\*["'])[^"'\r\n\\]+|(?:=\\*"[^"\r\n]*"|[^"'\r\n\\])+)"#,
    ),
    (SecretTrace::RequestHeader, FormCheck::Always, r"(?i)(?P<keep>\bbearer\s+)[A-Za-z0-9._~+/=-]{8,}"),
    (SecretTrace::RequestHeader, FormCheck::NoWord, r"(?i)(?P<keep>\bbasic\s+)[A-Za-z0-9._~+/=-]{8,}"),
    (
        SecretTrace::NamedField,
        FormCheck::ByName,
        r#"(?i)(?P<keep>(?P<name>[a-z0-9_.-]*(?:WORDS)[a-z0-9_.-]*|\b(?:pwd|signature)\b)\\*["']?\s*[:=]\s*)VALUE"#,
    ),
    (
        SecretTrace::NamedField,
        FormCheck::ByName,
        r"(?i)(?P<keep>(?:^|[\s'\x22\[(])--?(?P<name>[a-z0-9_.-]*(?:WORDS)[a-z0-9_.-]*)[ \t]+)ARGUMENT",
    ),
    // Options of programs that are called with a password.
    (
        SecretTrace::NamedField,
        FormCheck::Always,
        r"(?P<keep>\b(?:ipmitool\b[^\r\n|;]*?\s-P|(?:curl|wget)\b[^\r\n|;]*?\s(?:-u|--user|--proxy-user))[ \t=]+)ARGUMENT",
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
