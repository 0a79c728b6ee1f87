//! Headers of requests for boot files and images, and of the answers of image servers.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use firesteel_appliance::http::bearer;
use firesteel_appliance::http::file::{RangeSelection, ServedContent, answer_bytes, select};
use firesteel_kube::tokens::{TOKEN_BYTES_MAX, TokenKey};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use http_body_util::BodyExt as _;

/// Of the content that is asked for; in three parts.
const LENGTH: usize = 1000;
const HEADERS_MAX: usize = 16;

/// The input is a head as it comes by the wire: a method, then `Name: value` lines.
pub(super) fn check(input: &[u8]) {
    firesteel_images::http::check(input);
    firesteel_dial::check_proxy_answer(input);
    addresses(input);
    let mut lines = input.split(|byte| *byte == b'\n');
    let method = Method::from_bytes(lines.next().unwrap_or_default()).unwrap_or(Method::GET);
    let mut headers = HeaderMap::new();
    for line in lines.take(HEADERS_MAX) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = (HeaderName::from_bytes(&line[..colon]), HeaderValue::from_bytes(&line[colon + 1..]));
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.insert(name, value);
        }
    }
    if let Some(range) = headers.get(header::RANGE).and_then(|value| value.to_str().ok()) {
        for length in [0, 1, LENGTH as u64, u64::MAX] {
            match select(Some(range), length) {
                RangeSelection::Whole | RangeSelection::Unsatisfiable => {}
                RangeSelection::Part { start, length: part } => {
                    assert!(part > 0 && start.checked_add(part).is_some_and(|end| end <= length), "{range}");
                    assert!(range.bytes().skip(6).all(|b| b.is_ascii_digit() || b"- \t".contains(&b)), "{range:?}");
                }
            }
        }
    }
    if let Some(token) = bearer::token(&headers) {
        assert!(!token.is_empty() && token.len() <= TOKEN_BYTES_MAX && token.trim() == token);
        let key = TokenKey::new(&[0; 32]);
        assert!(key.read(token, jiff::Timestamp::UNIX_EPOCH).is_err(), "nobody signs by chance");
        super::assert_plain(token);
    }
    ask(&method, &headers);
}

/// The first line as an address: what is shown of it has no login and no query, and no two readers differ on whether
/// there is a login.
fn addresses(input: &[u8]) {
    let Some(text) = input.split(|byte| *byte == b'\n').next().and_then(|line| std::str::from_utf8(line).ok()) else {
        return;
    };
    let shown = firesteel_facts::shown_url(text);
    assert!(!shown.contains('?') || shown.ends_with("?(hidden)"), "{text:?} is shown as {shown:?}");
    let parsed = firesteel_dial::Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    if let Some(url) = parsed
        && (!url.username().is_empty() || url.password().is_some())
    {
        assert!(firesteel_facts::has_user_information(text), "{text:?} holds a login");
        assert!(shown.contains("(hidden)@"), "{text:?} is shown as {shown:?}");
    }
}

fn ask(method: &Method, headers: &HeaderMap) {
    let whole: Vec<u8> = (0..LENGTH).map(|n| u8::try_from(n % 251).unwrap()).collect();
    let parts: Vec<Bytes> =
        [&whole[..10], &whole[10..10], &whole[10..999], &whole[999..]].map(Bytes::copy_from_slice).to_vec();
    let content = ServedContent { length: LENGTH as u64, etag: "tag".into(), content_type: "application/octet-stream" };
    let response = answer_bytes(method, headers, &content, &parts);
    let (head, body) = response.into_parts();
    let text = |name: HeaderName| head.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    // Everything is in memory, so the body is there at once.
    let Poll::Ready(Ok(body)) = pin!(body.collect()).poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("a body in memory needs no waiting")
    };
    let body = body.to_bytes();
    let stated = text(header::CONTENT_LENGTH).map(|length| length.parse::<usize>().unwrap());
    let sends = *method != Method::HEAD;
    match head.status {
        StatusCode::OK => {
            assert_eq!(stated, Some(LENGTH));
            assert!(!sends || body == whole);
        }
        StatusCode::PARTIAL_CONTENT => {
            let range = text(header::CONTENT_RANGE).unwrap();
            let (start, end) =
                range.strip_prefix("bytes ").unwrap().strip_suffix("/1000").unwrap().split_once('-').unwrap();
            let (start, end): (usize, usize) = (start.parse().unwrap(), end.parse().unwrap());
            assert_eq!(stated, Some(end + 1 - start), "length and range agree");
            assert!(!sends || body == whole[start..=end]);
        }
        StatusCode::NOT_MODIFIED => assert!(body.is_empty() && headers.contains_key(header::IF_NONE_MATCH)),
        StatusCode::RANGE_NOT_SATISFIABLE => {
            assert!(body.is_empty() && text(header::CONTENT_RANGE).as_deref() == Some("bytes */1000"));
        }
        other => panic!("{other} for a file that is there"),
    }
    assert!(sends || body.is_empty(), "an answer to HEAD has no body");
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    [
        "GET",
        "HEAD\nRange:bytes=0-4",
        "GET\nRange:bytes=0-4\nIf-Range:\"tag\"",
        "GET\nRange:bytes=4-\nIf-Range:\"other\"",
        "GET\nRange:bytes=-3",
        "GET\nRange:bytes=990-2000",
        "GET\nRange:bytes=1000-",
        "GET\nRange:bytes=0-1,5-6",
        "GET\nRange:bytes=+5-+7",
        "GET\nRange:bytes= 2-3\t ",
        "GET\nRange:bytes=18446744073709551615-18446744073709551615",
        "GET\nIf-None-Match:\"x\", \"tag\"\nRange:bytes=0-0",
        "GET\nIf-None-Match:*",
        "bytes 5-9/10",
        "GET\nAuthorization:Bearer abc.def-_",
        "bytes 0-18446744073709551615/18446744073709551615",
        "HTTP/1.1 200 Connection established\r\n\r\n",
        "https://me:secret@example.com/a@b?X-Signature=secret#c",
        "http:me:secret@[fd00::1]:8080",
        "http:\\\\me@example.com\\a",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}
