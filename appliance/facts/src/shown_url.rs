//! A URL as people and programs are shown it: without what may be a secret in it.
//!
//! Addresses of private mirrors carry passwords (RFC 3986, section 3.2.1) and signatures, which stand in the query or
//! the fragment. What was fetched is told by the rest.

/// What stands for a part that is not shown.
const HIDDEN: &str = "(hidden)";

/// The text without user information, query and fragment; that they are there is shown.
///
/// It is cut by the text and not by a URL parser, so that it also holds for what is no URL.
#[must_use]
pub fn shown_url(text: &str) -> String {
    let cut = text.find(['?', '#']).unwrap_or(text.len());
    let (before, rest) = text.split_at(cut);
    let mark = rest.get(..1).map(|mark| format!("{mark}{HIDDEN}")).unwrap_or_default();
    // A URL parser takes backslashes for slashes where it knows the scheme (WHATWG URL, section 4.4).
    let begin = before.find(':').map_or(0, |colon| {
        let slashes = before.bytes().skip(colon + 1).take_while(|byte| b"/\\\t\r\n".contains(byte)).count();
        if slashes == 0 { 0 } else { colon + 1 + slashes }
    });
    let (scheme, after) = before.split_at(begin);
    let end = after.find(['/', '\\']).unwrap_or(after.len());
    let (authority, path) = after.split_at(end);
    match authority.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}{HIDDEN}@{host}{path}{mark}"),
        None => format!("{before}{mark}"),
    }
}

/// Whether a URL names a user or a password before its host. A URL parser needs no slashes for a host where it knows the
/// scheme, so none are needed here.
#[must_use]
pub fn has_user_information(text: &str) -> bool {
    let Some((_, rest)) = text.split_once(':') else { return false };
    let authority = rest.trim_start_matches(['/', '\\', '\t', '\r', '\n']);
    authority.split(['/', '\\', '?', '#']).next().unwrap_or_default().contains('@')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_information_query_and_fragment_are_not_shown() {
        for (text, shown) in [
            ("https://example.com/a/b.raw", "https://example.com/a/b.raw"),
            ("https://me:secret@example.com/a", "https://(hidden)@example.com/a"),
            ("https://me:sec@ret@example.com/a@b", "https://(hidden)@example.com/a@b"),
            ("https://example.com/a?X-Amz-Signature=secret#x", "https://example.com/a?(hidden)"),
            ("https://example.com/a#secret", "https://example.com/a#(hidden)"),
            ("http:\\\\me:secret@example.com\\a", "http:\\\\(hidden)@example.com\\a"),
            ("https:/me:secret@example.com/a", "https:/(hidden)@example.com/a"),
            ("https:/\t/me:secret@example.com/a", "https:/\t/(hidden)@example.com/a"),
            ("https://me:secret@[fd00::1]:8080", "https://(hidden)@[fd00::1]:8080"),
            ("me:secret@example.com/a?b", "(hidden)@example.com/a?(hidden)"),
            ("10.0.0.5", "10.0.0.5"),
            ("0123abcd", "0123abcd"),
            ("", ""),
            ("?secret", "?(hidden)"),
        ] {
            assert_eq!(shown_url(text), shown, "{text}");
        }
    }

    #[test]
    fn a_user_is_one_before_the_host() {
        for with in [
            "http://a@b/c",
            "http:a@b",
            "http://a:b@c",
            "https://:@c/d",
            "http:\\\\a@b",
            "http:/\t/a@b",
            "redfish+http://u:p@h",
        ] {
            assert!(has_user_information(with), "{with}");
        }
        for without in ["http://b/c@d", "http://b?a@c", "http://b#a@c", "b@c", "0123", "store://sha256:00"] {
            assert!(!has_user_information(without), "{without}");
        }
    }
}
