//! Large answers, packed while they are sent, for clients that can unpack them. As Kubernetes does it:
//! above 128 KiB and at the lowest level, which costs a fraction of what it saves on a slow link. The
//! lines of a watch are not packed.

use std::convert::Infallible;
use std::io::Write as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, VARY};
use http::{HeaderMap, HeaderValue, Response};
use http_body_util::BodyExt as _;
use hyper::body::{Body as HttpBody, Frame};

use crate::codec::body::Body;

/// Answers of fewer bytes are sent as they are.
const BYTES_MIN: u64 = 128 << 10;
/// What is packed at a time: more would keep other answers waiting.
const STEP_BYTES: usize = 128 << 10;

/// Marks an answer whose length is not known: it is long, and it ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnknownLength;

/// Whether a client says that it can unpack it.
pub(crate) fn is_wanted(headers: &HeaderMap) -> bool {
    let names = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    names.flat_map(|value| value.split(',')).any(|coding| {
        let (name, parameters) = coding.split_once(';').unwrap_or((coding, ""));
        // Quality zero says that it cannot.
        let quality = parameters.trim().strip_prefix("q=").and_then(|quality| quality.parse::<f32>().ok());
        matches!(name.trim(), "gzip" | "*") && quality.is_none_or(|quality| quality > 0.0)
    })
}

/// Packs an answer if that is worth it.
pub(crate) fn pack(response: Response<Body>) -> Response<Body> {
    let is_large = match response.body().size_hint().exact() {
        Some(bytes) => bytes >= BYTES_MIN,
        None => response.extensions().get::<UnknownLength>().is_some(),
    };
    if !is_large || response.headers().contains_key(CONTENT_ENCODING) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    parts.headers.remove(CONTENT_LENGTH);
    parts.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    parts.headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    let encoder = Some(GzEncoder::new(Vec::new(), Compression::fast()));
    Response::from_parts(parts, GzipBody { inner: body, unpacked: Bytes::new(), encoder }.boxed_unsync())
}

struct GzipBody {
    inner: Body,
    unpacked: Bytes,
    /// The encoder, until the end was packed.
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl HttpBody for GzipBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        loop {
            let Some(encoder) = &mut this.encoder else { return Poll::Ready(None) };
            let step = this.unpacked.split_to(this.unpacked.len().min(STEP_BYTES));
            let packed = if !step.is_empty() {
                encoder.write_all(&step).map(|()| std::mem::take(encoder.get_mut()))
            } else if let Some(frame) = ready!(Pin::new(&mut this.inner).poll_frame(context)) {
                this.unpacked =
                    frame.map_or_else(|never| match never {}, |frame| frame.into_data().unwrap_or_default());
                continue;
            } else {
                this.encoder.take().map_or_else(|| Ok(Vec::new()), GzEncoder::finish)
            };
            match packed {
                Ok(packed) if packed.is_empty() => {}
                Ok(packed) => return Poll::Ready(Some(Ok(Frame::data(packed.into())))),
                // Memory does not fail; if it did, an answer without its end is taken for none.
                Err(_) => this.encoder = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::io::Read as _;

    use http_body_util::{Full, StreamBody};

    use super::*;

    fn wanted(value: &'static str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(value));
        is_wanted(&headers)
    }

    #[test]
    fn who_can_unpack_says_so() {
        assert!(wanted("gzip") && wanted("deflate, gzip;q=0.5") && wanted("*") && wanted("br, gzip ;q=1"));
        assert!(!wanted("identity") && !wanted("gzip;q=0") && !wanted("deflate, br") && !wanted(""));
        assert!(!is_wanted(&HeaderMap::new()));
    }

    fn read(response: Response<Body>) -> (bool, Vec<u8>) {
        let is_packed = response.headers().get(CONTENT_ENCODING).is_some_and(|coding| coding == "gzip");
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        (is_packed, runtime.block_on(response.into_body().collect()).unwrap().to_bytes().to_vec())
    }

    #[test]
    fn what_is_unpacked_is_what_was_packed() {
        // As lists of objects are.
        let object = |number: u32| format!(r#"{{"metadata":{{"name":"host-{number}","namespace":"default"}}}},"#);
        let bytes: Bytes = (0..30_000).map(object).collect::<String>().into();
        let (is_packed, packed) = read(pack(Response::new(Full::new(bytes.clone()).boxed_unsync())));
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut unpacked).unwrap();
        assert!(is_packed && unpacked == bytes && packed.len() * 2 < bytes.len(), "{} bytes", packed.len());

        let stream = || {
            let pieces: Vec<Bytes> = bytes.chunks(70_000).map(Bytes::copy_from_slice).collect();
            let frames = pieces.into_iter().map(|piece| Ok::<_, Infallible>(Frame::data(piece)));
            StreamBody::new(futures_util::stream::iter(frames)).boxed_unsync()
        };
        let mut long = Response::new(stream());
        long.extensions_mut().insert(UnknownLength);
        let (is_packed, packed) = read(pack(long));
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut unpacked).unwrap();
        assert!(is_packed && unpacked == bytes);

        // Neither a watch nor what is small.
        assert_eq!(read(pack(Response::new(stream()))), (false, bytes.to_vec()));
        let small = bytes.slice(..1000);
        assert_eq!(read(pack(Response::new(Full::new(small.clone()).boxed_unsync()))), (false, small.to_vec()));
    }
}
