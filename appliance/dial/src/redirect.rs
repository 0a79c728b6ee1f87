//! Where an answer leads, and whether that is followed. Pure.

use http::{HeaderMap, StatusCode, header::LOCATION};
use url::Url;

use crate::error::WebError;

/// Redirects that are followed: release pages and mirrors use one to three.
pub const REDIRECTS_MAX: usize = 5;

/// The next address; `None` where the answer is not a redirect. It is dialled as if a user had named it.
///
/// # Errors
/// When it leads to what is not fetched: away from TLS, to another scheme, or with a login in it.
pub(crate) fn next_place(from: &Url, status: StatusCode, headers: &HeaderMap) -> Result<Option<Url>, WebError> {
    let is_redirect = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
    let Some(location) = headers.get(LOCATION).filter(|_| is_redirect) else { return Ok(None) };
    let refused = |why| WebError::Redirect { to: shown(location.as_bytes()), why };
    let joined = location.to_str().ok().and_then(|text| from.join(text).ok());
    let mut to = joined.filter(Url::has_host).ok_or_else(|| refused("it is no address"))?;
    match (from.scheme(), to.scheme()) {
        ("http" | "https", "https") | ("http", "http") => {}
        ("https", "http") => return Err(refused("it leads from https to http")),
        _ => return Err(refused("it is neither http nor https")),
    }
    if !to.username().is_empty() || to.password().is_some() {
        return Err(refused("it names a user or a password"));
    }
    to.set_fragment(None);
    Ok(Some(to))
}

fn shown(location: &[u8]) -> String {
    const CHARACTERS_MAX: usize = 200;
    let text = firesteel_facts::shown_url(&String::from_utf8_lossy(location));
    text.chars().take(CHARACTERS_MAX).map(|c| if c.is_ascii_graphic() { c } else { '?' }).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn led(from: &str, status: u16, to: &str) -> Result<Option<String>, String> {
        let mut headers = HeaderMap::new();
        headers.insert(LOCATION, HeaderValue::from_bytes(to.as_bytes()).unwrap());
        let next = next_place(&Url::parse(from).unwrap(), StatusCode::from_u16(status).unwrap(), &headers);
        next.map(|to| to.map(String::from)).map_err(|error| error.to_string())
    }

    #[test]
    fn redirects_stay_on_the_web_and_never_leave_tls() {
        let followed = |to: &str| Ok(Some(to.to_owned()));
        assert_eq!(led("http://a/b/c", 302, "d?e#f"), followed("http://a/b/d?e"));
        assert_eq!(led("http://a/b", 301, "https://c/d"), followed("https://c/d"));
        assert_eq!(led("https://a/b", 308, "//c/d"), followed("https://c/d"));
        assert_eq!(led("http://a/b", 200, "http://c"), Ok(None), "no redirect");
        assert_eq!(led("http://a/b", 304, "http://c"), Ok(None), "no redirect either");
        for (from, to, why) in [
            ("https://a/b", "http://a/b", "from https to http"),
            ("http://a/b", "file:///etc/shadow", "no address"),
            ("http://a/b", "ftp://a/b", "neither http nor https"),
            ("http://a/b", "http://u:secret@c/d?e=secret", "a user or a password"),
            ("http://a/b", "http://[", "no address"),
        ] {
            let error = led(from, 302, to).unwrap_err();
            assert!(error.contains(why) && !error.contains("secret"), "{to}: {error}");
        }
    }
}
