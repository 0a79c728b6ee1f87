//! What may stand in labels.

const KEY_NAME_MAX: usize = 63;
const SUBDOMAIN_MAX: usize = 253;
const VALUE_MAX: usize = 63;

/// What is wrong with the key of a label: `name`, or `example.com/name`.
pub(crate) fn key_fault(key: &str) -> Option<&'static str> {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    if prefix.is_some_and(|prefix| !is_subdomain(prefix)) {
        return Some("what is before the slash must be a lowercase RFC 1123 subdomain");
    }
    (!is_word(name, KEY_NAME_MAX)).then_some(
        "name part must be 1 to 63 alphanumeric characters, '-', '_' or '.', and must start and end with an \
         alphanumeric character",
    )
}

/// What is wrong with the value of a label.
pub(crate) fn value_fault(value: &str) -> Option<&'static str> {
    (!value.is_empty() && !is_word(value, VALUE_MAX)).then_some(
        "a valid label must be an empty string or at most 63 alphanumeric characters, '-', '_' or '.', and must \
         start and end with an alphanumeric character",
    )
}

fn is_word(text: &str, max: usize) -> bool {
    let bytes = text.as_bytes();
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    let ends = [bytes.first(), bytes.last()];
    bytes.len() <= max && bytes.iter().all(inner) && ends.iter().all(|end| end.is_some_and(u8::is_ascii_alphanumeric))
}

/// Whether a text is an RFC 1123 subdomain, as the names of most objects are.
pub(crate) fn is_subdomain(text: &str) -> bool {
    let label = |label: &str| {
        let bytes = label.as_bytes();
        let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        bytes.iter().all(|byte| alphanumeric(byte) || *byte == b'-')
            && [bytes.first(), bytes.last()].iter().all(|end| end.is_some_and(alphanumeric))
    };
    text.len() <= SUBDOMAIN_MAX && text.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_have_a_grammar() {
        for good in ["a", "a.b/c", "A_b-1", "example.com/A"] {
            assert_eq!(key_fault(good), None, "{good}");
        }
        for bad in ["", "/a", "a/", "a/b/c", "-a", "Ex.com/a", "a b", &"a".repeat(64)] {
            assert!(key_fault(bad).is_some(), "{bad}");
        }
        assert_eq!((value_fault(""), value_fault("x.1")), (None, None));
        assert!(value_fault("x y").is_some() && value_fault("x-").is_some());
    }
}
