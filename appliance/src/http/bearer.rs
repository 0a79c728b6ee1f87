//! The token in an `Authorization` header. Pure.

use http::{HeaderMap, header};

/// The longest token of ours is a service account's; a longer one is never compared.
const TOKEN_BYTES_MAX: usize = firesteel_kube::tokens::TOKEN_BYTES_MAX;
const SCHEME: &str = "Bearer ";

/// Returns the token if there is exactly one.
#[must_use]
pub fn token(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next()?.to_str().ok()?;
    if values.next().is_some() || value.len() > SCHEME.len() + TOKEN_BYTES_MAX {
        return None;
    }
    let (scheme, token) = value.split_at_checked(SCHEME.len())?;
    let token = token.trim();
    // RFC 9110: the name of the scheme is case-insensitive.
    let is_one = scheme.eq_ignore_ascii_case(SCHEME) && !token.is_empty();
    (is_one && token.bytes().all(|byte| byte.is_ascii_graphic())).then_some(token)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use http::HeaderValue;

    fn headers(values: &[&str]) -> HeaderMap {
        values.iter().map(|value| (header::AUTHORIZATION, HeaderValue::from_str(value).unwrap())).collect()
    }

    #[test]
    fn one_token_of_sane_length_is_read() {
        assert_eq!(token(&headers(&["Bearer abc"])), Some("abc"));
        assert_eq!(token(&headers(&["bearer  abc "])), Some("abc"));
        let longest = "x".repeat(TOKEN_BYTES_MAX);
        assert_eq!(token(&headers(&[&format!("Bearer {longest}")])), Some(longest.as_str()));
        assert_eq!(token(&headers(&[&format!("Bearer {longest}x")])), None, "longer than any token");
        for none in [
            &[][..],
            &["Bearer"],
            &["Bearer "],
            &["Basic abc"],
            &["Bearer a\tb"],
            &["Bearer a b"],
            &["Bearer a", "Bearer b"],
        ] {
            assert_eq!(token(&headers(none)), None, "{none:?}");
        }
        let mut foreign = HeaderMap::new();
        foreign.insert(header::AUTHORIZATION, HeaderValue::from_bytes(b"Bearer \xff").unwrap());
        assert_eq!(token(&foreign), None);
    }

    #[test]
    fn the_longest_sealed_token_fits() {
        const { assert!(firesteel_boot::token::TOKEN_CHARS_MAX <= TOKEN_BYTES_MAX) };
    }
}
