//! The body of an answer: decoded within a bound, and named where it is not what was asked for. Pure.

use std::io::Read as _;

use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use serde_json::error::Category;

use crate::error::plain_text;

/// The largest answers in use (a full system) are some tens of kilobytes.
pub(crate) const BODY_BYTES_MAX: usize = 1024 * 1024;

/// What a body is sent as. We ask for none of it, and some services encode all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coding {
    Plain,
    Gzip,
    Deflate,
}

/// Why a body cannot be read. It goes after "is not usable".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("it is encoded as {0}, which was not asked for; of encodings gzip and deflate are read")]
    Encoding(String),
    #[error("it is longer than {} bytes", BODY_BYTES_MAX)]
    TooLong,
    #[error("it is said to be {name}, and is not: {detail}")]
    NotAsNamed { name: &'static str, detail: String },
}

fn coding_of(header: &str) -> Option<Coding> {
    match header.trim().to_ascii_lowercase().as_str() {
        "" | "identity" => Some(Coding::Plain),
        "gzip" | "x-gzip" => Some(Coding::Gzip),
        "deflate" => Some(Coding::Deflate),
        _ => None,
    }
}

/// Takes the `Content-Encoding` off a body.
pub(crate) fn decoded(encoding: Option<&str>, body: Vec<u8>) -> Result<Vec<u8>, BodyError> {
    let encoding = encoding.unwrap_or_default();
    let coding = coding_of(encoding).ok_or_else(|| BodyError::Encoding(plain_text(encoding.trim())))?;
    if body.is_empty() {
        return Ok(body);
    }
    match coding {
        Coding::Plain => Ok(body),
        Coding::Gzip => bounded(MultiGzDecoder::new(&*body), "gzip"),
        // RFC 9110 says zlib; some send the bare stream. The first byte of zlib names its method, which is 8.
        Coding::Deflate if body.first().is_some_and(|first| first & 0x0f == 8) => {
            bounded(ZlibDecoder::new(&*body), "deflate")
        }
        Coding::Deflate => bounded(DeflateDecoder::new(&*body), "deflate"),
    }
}

fn bounded(decoder: impl std::io::Read, name: &'static str) -> Result<Vec<u8>, BodyError> {
    let mut body = Vec::new();
    let most = u64::try_from(BODY_BYTES_MAX).unwrap_or(u64::MAX);
    match decoder.take(most + 1).read_to_end(&mut body) {
        Ok(_) if body.len() > BODY_BYTES_MAX => Err(BodyError::TooLong),
        Ok(_) => Ok(body),
        Err(error) => Err(BodyError::NotAsNamed { name, detail: plain_text(&error.to_string()) }),
    }
}

/// Says where the reading of JSON ended. JSON of another form is not quoted, although serde would quote it.
pub(crate) fn place_of(error: &serde_json::Error) -> String {
    match error.classify() {
        Category::Data => {
            format!("it is JSON, and not of Redfish's form at line {} column {}", error.line(), error.column())
        }
        Category::Io | Category::Syntax | Category::Eof => error.to_string(),
    }
}

/// Describes an answer that cannot be read as JSON; `error` says where reading ended. Nothing of it is quoted: an
/// address may lead to anything that the appliance reaches, and more people read the message than may read the answer.
pub(crate) fn not_json(content_type: Option<&str>, body: &[u8], error: &str) -> String {
    let text = String::from_utf8_lossy(body);
    let text = text.trim_start_matches('\u{feff}').trim();
    let content_type = content_type.map(|kind| kind.trim().to_ascii_lowercase()).unwrap_or_default();
    let said =
        if content_type.is_empty() { "no content type".to_owned() } else { format!("content type {content_type}") };
    if text.is_empty() {
        return format!("it is empty, not JSON ({said})");
    }
    if text.starts_with('<') {
        let lower = text.to_ascii_lowercase();
        let is_page = content_type.contains("html") || lower.contains("<html") || lower.starts_with("<!doctype html");
        let kind = if is_page { "HTML" } else { "XML" };
        return format!("it is {kind}, not JSON ({said}): bmc.address may lead to pages for people");
    }
    if content_type.is_empty() || content_type.contains("json") {
        error.to_owned()
    } else {
        format!("{error} ({said})")
    }
}

/// Reads `body` in each encoding, and names it: an entry for fuzzing.
pub(crate) fn check(body: &[u8]) {
    for encoding in ["gzip", "deflate", "br"] {
        if let Ok(decoded) = decoded(Some(encoding), body.to_vec()) {
            assert!(decoded.len() <= BODY_BYTES_MAX, "{encoding} is bounded");
        }
    }
    drop(not_json(Some("text/html"), body, "no value"));
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    use super::*;

    fn gzip(body: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(body).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn encodings_that_were_not_asked_for_are_read() {
        let body = br#"{"PowerState":"On"}"#;
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
        zlib.write_all(body).unwrap();
        let mut bare = DeflateEncoder::new(Vec::new(), Compression::fast());
        bare.write_all(body).unwrap();
        for (encoding, sent) in [
            (None, body.to_vec()),
            (Some("identity"), body.to_vec()),
            (Some("GZIP"), gzip(body)),
            (Some(" x-gzip "), gzip(body)),
            (Some("deflate"), zlib.finish().unwrap()),
            (Some("deflate"), bare.finish().unwrap()),
        ] {
            assert_eq!(decoded(encoding, sent).as_deref(), Ok(body.as_slice()), "{encoding:?}");
        }
        assert_eq!(decoded(Some("gzip"), Vec::new()), Ok(Vec::new()), "a 204 has nothing to decode");
    }

    #[test]
    fn what_is_read_is_bounded_and_what_is_not_read_is_named() {
        let bomb = gzip(&vec![b' '; BODY_BYTES_MAX + 1]);
        assert!(bomb.len() < 8192);
        assert_eq!(decoded(Some("gzip"), bomb), Err(BodyError::TooLong));
        assert_eq!(decoded(Some("gzip"), gzip(&vec![b' '; BODY_BYTES_MAX])).unwrap().len(), BODY_BYTES_MAX);
        let named = |encoding, body: &[u8]| decoded(Some(encoding), body.to_vec()).unwrap_err().to_string();
        assert!(named("br", b"x").starts_with("it is encoded as br, which was not asked for"));
        assert!(named("gzip, br", b"x").contains("encoded as gzip, br,"));
        assert!(named("gzip", b"{}").starts_with("it is said to be gzip, and is not"));
        let cut = gzip(b"a text of some length that is cut");
        assert!(named("gzip", &cut[..cut.len() - 9]).starts_with("it is said to be gzip"));
    }

    #[test]
    fn a_page_for_people_is_named_and_nothing_is_quoted() {
        let page = b"<!DOCTYPE html><html><head><title>\n Log  in </title></head></html>";
        let said = not_json(Some("text/html"), page, "expected value");
        assert_eq!(said, "it is HTML, not JSON (content type text/html): bmc.address may lead to pages for people");
        let said = not_json(None, b" <html><body>Please wait</body></html>", "expected value");
        assert!(said.starts_with("it is HTML, not JSON (no content type)") && !said.contains("wait"), "{said}");
        assert!(not_json(Some("text/xml"), b"<?xml version=\"1.0\"?><a/>", "x").starts_with("it is XML, not JSON"));
        assert_eq!(not_json(None, b" \r\n", "x"), "it is empty, not JSON (no content type)");
        assert_eq!(not_json(Some("application/json"), b"{", "EOF at line 1"), "EOF at line 1");
        assert_eq!(not_json(Some("text/plain"), b"busy", "no value"), "no value (content type text/plain)");
        let error = serde_json::from_str::<u32>("\"a secret\"").unwrap_err();
        assert_eq!(place_of(&error), "it is JSON, and not of Redfish's form at line 1 column 10");
        let error = serde_json::from_str::<u32>("a secret").unwrap_err();
        assert_eq!(place_of(&error), "expected value at line 1 column 1");
    }
}
