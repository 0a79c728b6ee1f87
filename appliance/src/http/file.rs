//! Answers with files and buffers: `HEAD`, `ETag` with `If-None-Match`, and single byte ranges with `If-Range` (RFC
//! 9110 sections 13 and 14). A request for several ranges gets the whole content, as the RFC allows: no client of ours
//! sends one, and they are a way to waste memory.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use super::body::{ResponseBody, full, shared, text};
use super::read_buffers::{ReadBuffer, ReadBuffers};

/// How much of a file is read at a time: enough that the disk streams, and little enough that a thousand slow clients
/// stay within some hundred MiB.
pub const READ_BYTES: usize = 64 * 1024;
/// How much of a file is read at a time until its client has taken [`TRIAL_BYTES`]: a client that asks for a large file
/// and does not read it holds little memory.
const TRIAL_READ_BYTES: usize = 8 * 1024;
const TRIAL_BYTES: u64 = 1 << 20;

/// The bytes of a content of `length` bytes that an answer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeSelection {
    Whole,
    /// First byte and number of bytes; never empty.
    Part {
        start: u64,
        length: u64,
    },
    /// The range lies outside the content: 416.
    Unsatisfiable,
}

/// Parses digits only: Rust's numbers may begin with a sign, a range's may not (RFC 9110 section 14.1.1).
fn position(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Parses a `Range` header; an unknown form counts as absent (RFC 9110 section 14.2).
#[must_use]
pub fn select(range: Option<&str>, length: u64) -> RangeSelection {
    let Some(spec) = range.and_then(|value| value.strip_prefix("bytes=")) else { return RangeSelection::Whole };
    let Some((first, last)) = spec.trim().split_once('-') else { return RangeSelection::Whole };
    if first.is_empty() {
        return match position(last) {
            Some(0) => RangeSelection::Unsatisfiable,
            Some(_) if length == 0 => RangeSelection::Unsatisfiable,
            Some(suffix) => {
                let suffix = suffix.min(length);
                RangeSelection::Part { start: length - suffix, length: suffix }
            }
            None => RangeSelection::Whole,
        };
    }
    let Some(start) = position(first) else { return RangeSelection::Whole };
    let last = if last.is_empty() {
        u64::MAX
    } else {
        match position(last) {
            Some(last) if last >= start => last,
            _ => return RangeSelection::Whole,
        }
    };
    if start >= length {
        return RangeSelection::Unsatisfiable;
    }
    RangeSelection::Part { start, length: last.min(length - 1) - start + 1 }
}

/// What all answers about one content share.
#[derive(Clone, Debug)]
pub struct ServedContent {
    pub length: u64,
    /// The strong validator, without quotes.
    pub etag: String,
    pub content_type: &'static str,
}

/// The first byte of the content that an answer holds; an extension of answers with content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyOffset(pub u64);

/// Returns status, headers and selection for a request; the caller adds the body.
fn head(content: &ServedContent, headers: &HeaderMap) -> (Response<ResponseBody>, RangeSelection) {
    let quoted = format!("\"{}\"", content.etag);
    let mut response = Response::new(full(Bytes::new()));
    let out = response.headers_mut();
    out.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    out.insert(header::CONTENT_TYPE, HeaderValue::from_static(content.content_type));
    if let Ok(value) = HeaderValue::from_str(&quoted) {
        out.insert(header::ETAG, value);
    }
    let text_of = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    if text_of(header::IF_NONE_MATCH).is_some_and(|value| value == "*" || value.split(',').any(|v| v.trim() == quoted))
    {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return (response, RangeSelection::Whole);
    }
    let range_holds = text_of(header::IF_RANGE).is_none_or(|value| value == quoted);
    let range = if range_holds { text_of(header::RANGE) } else { None };
    let selection = select(range, content.length);
    let (status, length) = match selection {
        RangeSelection::Whole => (StatusCode::OK, content.length),
        RangeSelection::Part { start, length } => {
            let value = format!("bytes {start}-{}/{}", start + length - 1, content.length);
            out.extend(HeaderValue::from_str(&value).ok().map(|value| (header::CONTENT_RANGE, value)));
            (StatusCode::PARTIAL_CONTENT, length)
        }
        RangeSelection::Unsatisfiable => {
            let value = format!("bytes */{}", content.length);
            out.extend(HeaderValue::from_str(&value).ok().map(|value| (header::CONTENT_RANGE, value)));
            (StatusCode::RANGE_NOT_SATISFIABLE, 0)
        }
    };
    out.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    *response.status_mut() = status;
    (response, selection)
}

fn has_body(method: &Method, response: &Response<ResponseBody>) -> bool {
    method != Method::HEAD && matches!(response.status(), StatusCode::OK | StatusCode::PARTIAL_CONTENT)
}

/// Answers from memory with the parts one after the other. The parts are shared, not copied.
#[must_use]
pub fn answer_bytes(
    method: &Method,
    headers: &HeaderMap,
    content: &ServedContent,
    parts: &[Bytes],
) -> Response<ResponseBody> {
    let (mut response, selection) = head(content, headers);
    if has_body(method, &response) {
        let (start, length) = match selection {
            RangeSelection::Part { start, length } => (start, length),
            RangeSelection::Whole => (0, content.length),
            RangeSelection::Unsatisfiable => (0, 0),
        };
        *response.body_mut() = shared(cut(parts, start, length));
        response.extensions_mut().insert(BodyOffset(start));
    }
    response
}

/// Cuts `length` bytes from `start` on out of all parts.
fn cut(parts: &[Bytes], start: u64, length: u64) -> Vec<Bytes> {
    let index = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let (mut skip, mut left) = (index(start), index(length));
    let mut cut = Vec::new();
    for part in parts {
        let from = skip.min(part.len());
        let to = from.saturating_add(left).min(part.len());
        skip -= from;
        left -= to - from;
        if from < to {
            cut.push(part.slice(from..to));
        }
    }
    cut
}

/// Answers from a file, which is read as the client takes it.
pub async fn answer_file(
    method: &Method,
    headers: &HeaderMap,
    etag: &str,
    content_type: &'static str,
    path: &Path,
) -> Response<ResponseBody> {
    let (file, length) = match open(path).await {
        Ok(opened) => opened,
        Err(refusal) => return *refusal,
    };
    let content = ServedContent { length, etag: etag.to_owned(), content_type };
    answer_after(method, headers, &content, &Bytes::new(), file)
}

/// Answers with a seed and then a file, which is read as the client takes it.
pub async fn answer_seed_and_file(
    method: &Method,
    headers: &HeaderMap,
    content: &ServedContent,
    seed: &Bytes,
    path: &Path,
) -> Response<ResponseBody> {
    match open(path).await {
        Ok((file, _)) => answer_after(method, headers, content, seed, file),
        Err(refusal) => *refusal,
    }
}

fn answer_after(
    method: &Method,
    headers: &HeaderMap,
    content: &ServedContent,
    seed: &Bytes,
    file: File,
) -> Response<ResponseBody> {
    let (mut response, selection) = head(content, headers);
    if has_body(method, &response) {
        let (start, length) = match selection {
            RangeSelection::Part { start, length } => (start, length),
            RangeSelection::Whole | RangeSelection::Unsatisfiable => (0, content.length),
        };
        let of_seed = cut(std::slice::from_ref(seed), start, length);
        let in_seed = of_seed.iter().map(|part| part.len() as u64).sum::<u64>();
        let before = stream::iter(of_seed.into_iter().map(|part| Ok(Frame::data(part))));
        let file = file_frames(file, start.saturating_sub(seed.len() as u64), length - in_seed);
        *response.body_mut() = StreamBody::new(before.chain(file)).boxed_unsync();
        response.extensions_mut().insert(BodyOffset(start));
    }
    response
}

async fn open(path: &Path) -> Result<(File, u64), Box<Response<ResponseBody>>> {
    let path = path.to_owned();
    let opened = tokio::task::spawn_blocking(move || -> io::Result<(File, u64)> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        Ok((file, length))
    })
    .await;
    match opened {
        Ok(Ok(opened)) => Ok(opened),
        Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => {
            Err(Box::new(text(StatusCode::NOT_FOUND, "no such file")))
        }
        Ok(Err(error)) => {
            tracing::error!(%error, "could not open a file to serve; the client gets an error");
            let refusal = "could not read the file; see the appliance's log";
            Err(Box::new(text(StatusCode::INTERNAL_SERVER_ERROR, refusal)))
        }
        Err(error) => {
            tracing::error!(%error, "could not open a file to serve, since the appliance is shutting down");
            Err(Box::new(text(StatusCode::INTERNAL_SERVER_ERROR, "the appliance is shutting down")))
        }
    }
}

fn file_frames(file: File, start: u64, length: u64) -> impl Stream<Item = io::Result<Frame<Bytes>>> + Send {
    let first = (file, ReadBuffers::default(), start, length);
    stream::try_unfold(first, move |(file, buffers, position, left)| async move {
        if left == 0 {
            return Ok(None);
        }
        let most = piece_bytes(length - left);
        let want = usize::try_from(left).unwrap_or(most).min(most);
        let mut piece = buffers.take(most);
        let (file, piece, count) = match read_cached(&file, piece.first(want), position) {
            Some(count) => (file, piece, count?),
            None => tokio::task::spawn_blocking(move || -> io::Result<(File, ReadBuffer, usize)> {
                let count = file.read_at(piece.first(want), position)?;
                Ok((file, piece, count))
            })
            .await
            .map_err(io::Error::other)??,
        };
        if count == 0 {
            // A file that shrank under us must not look like a complete answer.
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        let next = (file, buffers, position + count as u64, left - count as u64);
        Ok(Some((Frame::data(piece.cut(count)), next)))
    })
}

/// Returns how much of a file is read at a time for a client that has taken `taken` bytes of it.
fn piece_bytes(taken: u64) -> usize {
    if taken < TRIAL_BYTES { TRIAL_READ_BYTES } else { READ_BYTES }
}

/// Reads a part of a file that is in memory, without waiting for a disk; `None` if it is not in memory, or the
/// filesystem cannot tell. To use another thread for each piece would take longer than to read it.
fn read_cached(file: &File, buffer: &mut [u8], position: u64) -> Option<io::Result<usize>> {
    match preadv2(file, &mut [io::IoSliceMut::new(buffer)], position, ReadWriteFlags::NOWAIT) {
        Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INTR) => None,
        other => Some(other.map_err(io::Error::from)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pieces_are_small_until_the_client_has_taken_some() {
        assert_eq!([0, TRIAL_BYTES - 1].map(piece_bytes), [TRIAL_READ_BYTES; 2]);
        assert_eq!([TRIAL_BYTES, u64::MAX].map(piece_bytes), [READ_BYTES; 2]);
    }

    proptest! {
        /// Parts that are cut out one by one are what a copy of the whole would give.
        #[test]
        fn a_cut_through_parts_is_a_cut_through_the_whole(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9), 0..5),
                                                          start in 0..30_usize, length in 0..30_usize) {
            let shared: Vec<Bytes> = parts.iter().cloned().map(Bytes::from).collect();
            let whole: Vec<u8> = parts.concat().into_iter().skip(start).take(length).collect();
            let cut = cut(&shared, start as u64, length as u64);
            prop_assert!(cut.iter().all(|part| !part.is_empty()));
            prop_assert_eq!(cut.concat(), whole);
        }
    }

    #[test]
    fn ranges_follow_rfc_9110() {
        assert_eq!(select(None, 10), RangeSelection::Whole);
        assert_eq!(select(Some("bytes=0-4"), 10), RangeSelection::Part { start: 0, length: 5 });
        assert_eq!(select(Some("bytes=4-"), 10), RangeSelection::Part { start: 4, length: 6 });
        assert_eq!(select(Some("bytes=4-400"), 10), RangeSelection::Part { start: 4, length: 6 });
        assert_eq!(select(Some("bytes=-3"), 10), RangeSelection::Part { start: 7, length: 3 });
        assert_eq!(select(Some("bytes=10-"), 10), RangeSelection::Unsatisfiable);
        assert_eq!(select(Some("bytes=-0"), 10), RangeSelection::Unsatisfiable);
        for ignored in ["bytes=5-4", "bytes=a-b", "bytes=+0-4", "bytes=-+3", "lines=0-1", "bytes=0-1,3-4", ""] {
            assert_eq!(select(Some(ignored), 10), RangeSelection::Whole, "{ignored}");
        }
    }

    proptest! {
        #[test]
        fn a_part_never_leaves_the_content(range in "bytes=[0-9]{0,20}-[0-9]{0,20}", length in 0_u64..1 << 40) {
            if let RangeSelection::Part { start, length: part } = select(Some(&range), length) {
                prop_assert!(part > 0 && start + part <= length);
            }
        }
    }

    async fn body(response: Response<ResponseBody>) -> Bytes {
        response.into_body().collect().await.unwrap().to_bytes()
    }

    #[tokio::test]
    async fn a_file_is_served_whole_in_parts_and_not_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        let bytes: Vec<u8> = (0..700_000_u32).map(|n| (n % 251) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        let ask = async |headers: HeaderMap, method: Method| answer_file(&method, &headers, "tag", "x/y", &path).await;

        let whole = ask(HeaderMap::new(), Method::GET).await;
        assert_eq!(
            (whole.status(), whole.headers()[header::CONTENT_LENGTH].to_str().unwrap()),
            (StatusCode::OK, "700000")
        );
        assert_eq!(body(whole).await, bytes);

        let mut headers = HeaderMap::new();
        headers.insert(header::RANGE, "bytes=262143-524289".parse().unwrap());
        headers.insert(header::IF_RANGE, "\"tag\"".parse().unwrap());
        let part = ask(headers.clone(), Method::GET).await;
        assert_eq!(part.status(), StatusCode::PARTIAL_CONTENT);
        assert_eq!(part.headers()[header::CONTENT_RANGE], "bytes 262143-524289/700000");
        assert_eq!(body(part).await, bytes[262_143..=524_289]);

        headers.insert(header::IF_RANGE, "\"other\"".parse().unwrap());
        assert_eq!(ask(headers.clone(), Method::GET).await.status(), StatusCode::OK);
        headers.insert(header::IF_NONE_MATCH, "\"tag\"".parse().unwrap());
        assert_eq!(ask(headers, Method::GET).await.status(), StatusCode::NOT_MODIFIED);
        assert!(body(ask(HeaderMap::new(), Method::HEAD).await).await.is_empty());
    }

    #[tokio::test]
    async fn a_file_that_shrinks_while_it_is_sent_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        std::fs::write(&path, vec![1; 600_000]).unwrap();
        let answer = answer_file(&Method::GET, &HeaderMap::new(), "tag", "x/y", &path).await;
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(300_000).unwrap();
        assert!(answer.into_body().collect().await.is_err());
    }
}
