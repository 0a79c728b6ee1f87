//! As much of URLs as rules of several kinds need.

use firesteel_facts::has_user_information;

/// What upstream takes for images of any kind. The appliance itself fetches by fewer.
const UPSTREAM_SCHEMES: [&str; 5] = ["http", "https", "ftp", "gopher", "oci"];

/// Scheme, host with port, and path with query of an absolute URL.
pub(crate) fn parts(text: &str) -> Result<(&str, &str, &str), String> {
    let not_one = || "invalid URI for request".to_owned();
    if text.contains(|letter: char| letter.is_control() || letter == ' ') {
        return Err(not_one());
    }
    let (scheme, rest) = text.split_once("://").ok_or_else(not_one)?;
    let mut letters = scheme.bytes();
    let legal = letters.next().is_some_and(|first| first.is_ascii_alphabetic())
        && letters.all(|letter| letter.is_ascii_alphanumeric() || b"+-.".contains(&letter));
    let (host, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if !legal || host.is_empty() { Err(not_one()) } else { Ok((scheme, host, path)) }
}

/// Whether upstream takes it as the URL of an image. A user or a password in it is refused, which upstream takes: what
/// stands in a spec is shown to everybody who may read it. One that is stored already (`old`) stays until it is changed,
/// so that its object can be labelled and deleted.
pub(crate) fn upstream(text: &str, old: Option<&str>) -> Result<(), String> {
    let (scheme, ..) = parts(text)?;
    if has_user_information(text) && old != Some(text) {
        return Err("may not have a user name or password".to_owned());
    }
    if UPSTREAM_SCHEMES.iter().any(|known| known.eq_ignore_ascii_case(scheme)) {
        Ok(())
    } else {
        Err(format!("invalid scheme in URL, {scheme:?} not allowed"))
    }
}

#[cfg(test)]
mod tests {
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
        let refused = Err("may not have a user name or password".to_owned());
        assert_eq!((upstream(login, None), upstream(login, Some("http://a/b"))), (refused.clone(), refused));
        assert_eq!(upstream(login, Some(login)), Ok(()), "it is stored already");
        assert_eq!(upstream("file://a/b", None), Err("invalid scheme in URL, \"file\" not allowed".to_owned()));
    }
}
