//! Reads as much of URLs as rules of several kinds need.

use firesteel_facts::has_user_information;

/// What upstream takes for images of any kind. The appliance itself fetches by fewer.
const UPSTREAM_SCHEMES: [&str; 5] = ["http", "https", "ftp", "gopher", "oci"];

/// Why a text is not taken as a URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UrlError {
    #[error("invalid URI for request")]
    Form,
    #[error("may not have a user name or password")]
    Login,
    #[error("invalid scheme in URL, {0:?} not allowed")]
    Scheme(String),
}

/// Scheme, host with port, and path with query of an absolute URL.
pub(crate) fn parts(text: &str) -> Result<(&str, &str, &str), UrlError> {
    if text.contains(|letter: char| letter.is_control() || letter == ' ') {
        return Err(UrlError::Form);
    }
    let (scheme, rest) = text.split_once("://").ok_or(UrlError::Form)?;
    let mut letters = scheme.bytes();
    let legal = letters.next().is_some_and(|first| first.is_ascii_alphabetic())
        && letters.all(|letter| letter.is_ascii_alphanumeric() || b"+-.".contains(&letter));
    let (host, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if !legal || host.is_empty() { Err(UrlError::Form) } else { Ok((scheme, host, path)) }
}

/// Checks that upstream takes the text as the URL of an image. A user or a password in it is refused, which upstream
/// takes: every reader of the object sees its spec. One that is stored already (`old`) stays until it is changed, so
/// that its object can be labelled and deleted.
pub(crate) fn upstream(text: &str, old: Option<&str>) -> Result<(), UrlError> {
    let (scheme, ..) = parts(text)?;
    if has_user_information(text) && old != Some(text) {
        return Err(UrlError::Login);
    }
    if UPSTREAM_SCHEMES.iter().any(|known| known.eq_ignore_ascii_case(scheme)) {
        Ok(())
    } else {
        Err(UrlError::Scheme(scheme.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]
    use super::*;

    #[test]
    fn a_url_has_a_scheme_and_a_host() {
        assert_eq!(parts("https://a:1/b?c"), Ok(("https", "a:1", "/b?c")));
        assert_eq!(parts("x+y://a"), Ok(("x+y", "a", "")));
        for bad in ["", "a", "/a", "http:", "http://", "http:///a", "ht tp://a", "1http://a", "://a", "http://a b"] {
            assert!(parts(bad).is_err(), "{bad}");
        }
        assert_eq!(upstream("oci://a/b", None), Ok(()));
        let login = "http://me:secret@a/b";
        let refused = Err(UrlError::Login);
        assert_eq!((upstream(login, None), upstream(login, Some("http://a/b"))), (refused.clone(), refused));
        assert_eq!(upstream(login, Some(login)), Ok(()), "it is stored already");
        let texts = [UrlError::Login, upstream("file://a/b", None).unwrap_err()].map(|error| error.to_string());
        assert_eq!(texts, ["may not have a user name or password", "invalid scheme in URL, \"file\" not allowed"]);
    }
}
