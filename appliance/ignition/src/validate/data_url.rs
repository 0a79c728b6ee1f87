//! Data URLs (RFC 2397) as Ignition decodes them (github.com/vincent-petithory/dataurl, `lex.go`): stricter than the
//! RFC, where a media type needs a known first part, and base64 is not percent-decoded.
//!
//! ```text
//! data:[type/subtype][;attribute=value | ;attribute="value"]*[;base64],data
//! ```

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Go's `base64.StdEncoding`: padded, and the last bits may be anything.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical)
        .with_decode_allow_trailing_bits(true),
);

/// First parts of media types; what follows them is not looked at.
const MEDIA_TYPES: [&str; 7] = ["text", "image", "audio", "video", "application", "message", "multipart"];

/// Whether Ignition can decode it.
#[must_use]
pub fn is_valid(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("data:") else { return false };
    let Some(parameters) = after_media_type(rest) else { return false };
    match after_parameters(parameters) {
        Some((data, true)) => BASE64.decode(data).is_ok(),
        Some((data, false)) => data.bytes().all(is_url_byte) && is_escaped(data),
        None => false,
    }
}

/// What follows the media type, which may be missing.
fn after_media_type(rest: &str) -> Option<&str> {
    if rest.starts_with([';', ',']) {
        return Some(rest);
    }
    let (kind, rest) = rest.split_once('/')?;
    let is_own = kind.get(..2).is_some_and(|start| start.eq_ignore_ascii_case("x-"));
    if !kind.bytes().all(is_token_byte) || !is_own && !MEDIA_TYPES.iter().any(|known| kind.starts_with(known)) {
        return None;
    }
    let end = rest.bytes().position(|byte| !is_token_byte(byte))?;
    rest[end..].starts_with([';', ',']).then_some(&rest[end..])
}

/// The data, and whether it is base64.
fn after_parameters(mut rest: &str) -> Option<(&str, bool)> {
    // An empty text in quotes leaves the decoder in quotes: the next value is read as one. That is how it is.
    let mut is_quoted = false;
    loop {
        if let Some(data) = rest.strip_prefix(',') {
            return Some((data, false));
        }
        rest = rest.strip_prefix(';')?;
        let end = rest.bytes().position(|byte| !is_token_byte(byte)).filter(|end| *end > 0)?;
        let name = &rest[..end];
        if let Some(data) = rest[end..].strip_prefix(',') {
            return (name == "base64").then_some((data, true));
        }
        rest = rest[end..].strip_prefix('=')?;
        if let Some(inner) = rest.strip_prefix('"') {
            let end = end_of_quoted(inner)?;
            is_quoted = end == 0;
            if !is_go_text(&inner[..end]) {
                return None;
            }
            rest = &inner[end + 1..];
        } else {
            let end = rest.bytes().position(|byte| !is_token_byte(byte)).filter(|end| *end > 0)?;
            if !is_quoted && !is_escaped(&rest[..end]) {
                return None;
            }
            is_quoted = false;
            rest = &rest[end..];
        }
    }
}

/// Where the closing quote stands.
fn end_of_quoted(text: &str) -> Option<usize> {
    let mut bytes = text.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => return Some(at),
            b'\\' => {
                bytes.next().filter(|(_, byte)| byte.is_ascii())?;
            }
            byte if byte.is_ascii() => {}
            _ => return None,
        }
    }
    None
}

/// Whether it is a text of Go's between double quotes (`strconv.Unquote`).
fn is_go_text(text: &str) -> bool {
    let mut rest = text;
    while let Some(at) = rest.find(['\\', '\n']) {
        let Some(escape) = rest[at..].strip_prefix('\\') else { return false };
        let number = |from: usize, digits: usize, base: u32| {
            escape.get(from..from + digits).and_then(|digits| {
                digits
                    .bytes()
                    .try_fold(0, |sum, digit| char::from(digit).to_digit(base).map(|digit| sum * base + digit))
            })
        };
        let length = match escape.as_bytes().first() {
            Some(b'a' | b'b' | b'f' | b'n' | b'r' | b't' | b'v' | b'\\' | b'"') => Some(1),
            Some(b'x') => number(1, 2, 16).map(|_| 3),
            Some(b'u') => number(1, 4, 16).and_then(char::from_u32).map(|_| 5),
            Some(b'U') => number(1, 8, 16).and_then(char::from_u32).map(|_| 9),
            Some(b'0'..=b'7') => number(0, 3, 8).filter(|byte| *byte < 256).map(|_| 3),
            _ => None,
        };
        match length {
            Some(length) => rest = &escape[length..],
            None => return false,
        }
    }
    true
}

/// Whether two hexadecimal digits follow every `%`.
fn is_escaped(text: &str) -> bool {
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let is_hex = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_hexdigit());
        if byte == b'%' && !(is_hex(bytes.next()) && is_hex(bytes.next())) {
            return false;
        }
    }
    true
}

/// RFC 2045's token.
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_graphic() && !br#"()<>@,;:\"/[]?="#.contains(&byte)
}

fn is_url_byte(byte: u8) -> bool {
    byte.is_ascii_graphic() && !br#"<>#"{}|\^[]`"#.contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_urls_are_what_ignition_decodes() {
        for url in [
            "data:,",
            "data:,a%20b",
            "data:;base64,",
            "data:;base64,QQ==",
            "data:;base64,QR==",
            "data:text/plain,x",
            "data:textual/x,x",
            "data:x-own/,x",
            "data:text/plain;charset=utf-8;base64,QUJD",
            r#"data:text/plain;a="b\"\x41\u00e4\101";c=%41,x"#,
            r#"data:;a="";b=%zz,x"#,
            r#"data:;a="\U0001F600",x"#,
        ] {
            assert!(is_valid(url), "{url}");
        }
        for url in [
            "data:",
            "DATA:,x",
            "data:x",
            "data:text,x",
            "data:font/woff,x",
            "data:text/plain;base64",
            "data:;base65,QQ==",
            "data:;base64;a=b,QQ==x",
            "data:;base64,QQ",
            "data:;base64,QQ%3D%3D",
            "data:;a,x",
            "data:;a=,x",
            "data:;a=%zz,x",
            "data:,%2",
            "data:,a b",
            "data:,[x]",
            "data:,ä",
            r#"data:;a="b\q",x"#,
            r#"data:;a="b\400",x"#,
            r#"data:;a="b\ud800",x"#,
            r#"data:;a="\U00110000",x"#,
            r#"data:;a="ä",x"#,
            "data:;=b,x",
            r#"data:;a="b,x"#,
        ] {
            assert!(!is_valid(url), "{url}");
        }
    }
}
