//! Names of fields, headers and options that hold a secret. Pure.

/// The ends of names that name something about a secret, and not the secret. A digest is none of them: a short secret can
/// be guessed by it.
const REFERENCE_ENDS: [&str; 19] = [
    "name",
    "names",
    "ref",
    "refs",
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
pub(crate) const SECRET_WORDS: [&str; 17] = [
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
/// Names that are those of secrets as a whole, and parts of harmless ones.
const SECRET_NAMES: [&str; 8] =
    ["auth", "authorization", "cookie", "proxy-authorization", "pwd", "set-cookie", "setcookie", "signature"];
/// Fields in which an object that is named as a secret has its value.
const CONTENT_NAMES: [&str; 8] = ["content", "contents", "data", "hash", "plaintext", "text", "value", "values"];
/// Fields that name what another field of the same object holds.
const LABEL_NAMES: [&str; 4] = ["field", "header", "key", "name"];

/// Says whether a field or option of this name holds a secret, and not only the name of one.
pub(crate) fn is_secret_name(name: &str) -> bool {
    let name = name.trim_matches(['-', '_', '.']);
    let lower = name.to_ascii_lowercase();
    SECRET_NAMES.contains(&lower.replace('_', "-").as_str())
        || (SECRET_WORDS.iter().any(|word| lower.contains(word))
            && !REFERENCE_ENDS.iter().any(|end| ends_with_word(name, end)))
}

/// Says whether a field holds the content of the object around it, as in `password: {value: x}`.
pub(crate) fn is_content_name(name: &str) -> bool {
    CONTENT_NAMES.contains(&name.to_ascii_lowercase().as_str())
}

/// Says whether a field names what another field of its object holds.
pub(crate) fn is_label_name(name: &str) -> bool {
    LABEL_NAMES.contains(&name.to_ascii_lowercase().as_str())
}

/// Says whether a field holds what another field of its object names, as in `{name: X-Auth-Token, value: x}`.
pub(crate) fn is_value_name(name: &str) -> bool {
    ["value", "values"].contains(&name.to_ascii_lowercase().as_str())
}

/// Says whether an item of a list is an option whose value is the next item, as `--password`.
pub(crate) fn is_secret_option(item: &str) -> bool {
    item.starts_with('-') && !item.contains(['=', ' ']) && is_secret_name(item)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_references_are_no_secrets() {
        for secret in [
            "password",
            "bmcPassword",
            "passwordHash",
            "token",
            "api_key",
            "client-key-data",
            "pull-secret",
            "Cookie",
            "Set-Cookie",
            "Authorization",
            "proxy_authorization",
            "auth",
            "PWD",
            "signature",
            "passwordSha256",
            "token_sha256",
        ] {
            assert!(is_secret_name(secret), "{secret}");
        }
        for other in [
            "credentialsName",
            "secretRef",
            "token_name",
            "tokenCount",
            "name",
            "key",
            "secret-namespace",
            "author",
            "cookiePath",
            "rawSha256",
        ] {
            assert!(!is_secret_name(other), "{other}");
        }
        assert!(
            is_secret_option("--bmc-password") && !is_secret_option("--password=x") && !is_secret_option("password")
        );
    }
}
