//! A URL as people and programs are shown it: without what may be a secret in it.
//!
//! Addresses of private mirrors carry passwords (RFC 3986, section 3.2.1) and signatures, which stand in the query or
//! the fragment. The rest says what was fetched.

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
        // A password with a slash, a question mark or a hash sign that is not escaped: it ends what a parser takes for
        // the host. Such a text is no URL, and is refused with this text.
        None if !has_port_or_none(authority) && text.contains('@') => {
            let rest = text.rsplit('@').next().unwrap_or_default();
            let end = rest.find(['?', '#']).unwrap_or(rest.len());
            let mark = rest.get(end..=end).map(|mark| format!("{mark}{HIDDEN}")).unwrap_or_default();
            format!("{scheme}{HIDDEN}@{}{mark}", &rest[..end])
        }
        None => format!("{before}{mark}"),
    }
}

/// Whether what stands behind the colon of a host is a port, if there is one at all.
fn has_port_or_none(authority: &str) -> bool {
    let behind = authority.rsplit(']').next().unwrap_or_default();
    behind.split_once(':').is_none_or(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether a URL names a user or a password before its host. A URL parser needs no slashes for a host where it knows the
/// scheme, so none are needed here.
#[must_use]
pub fn has_user_information(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    // A file has no host; a parser refuses one that names a user.
    if scheme.eq_ignore_ascii_case("file") && rest.starts_with("///") {
        return false;
    }
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
            ("https://me:sec/ret@example.com/a", "https://(hidden)@example.com/a"),
            ("https://me:sec?ret@example.com/a?b", "https://(hidden)@example.com/a?(hidden)"),
            ("https://me:1#ret@example.com/a", "https://me:1#(hidden)"),
            ("https://example.com:8080/a@b", "https://example.com:8080/a@b"),
            ("https://[fd00::1]/a@b", "https://[fd00::1]/a@b"),
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
        for without in
            ["file:///a@b.raw", "http://b/c@d", "http://b?a@c", "http://b#a@c", "b@c", "0123", "store://sha256:00"]
        {
            assert!(!has_user_information(without), "{without}");
        }
    }
}
