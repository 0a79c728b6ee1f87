//! Bodies of answers: buffers in memory, and files that are read while they are sent.

use std::{collections::VecDeque, convert::Infallible, io, ops::Range, pin::Pin, task};

use bytes::Bytes;
use firesteel_kube::{ResponseAuditNote, Status};
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use hyper::body::{Body, Frame, SizeHint};

/// The body type of all listeners.
pub type ResponseBody = UnsyncBoxBody<Bytes, io::Error>;

/// Makes a body of bytes in memory.
#[must_use]
pub fn full(bytes: impl Into<Bytes>) -> ResponseBody {
    Full::new(bytes.into()).map_err(|never: Infallible| match never {}).boxed_unsync()
}

/// Makes a refusal in the form of the API's.
#[must_use]
pub fn refuse(status: &Status) -> Response<ResponseBody> {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json(code, &status.to_value());
    if let Some(seconds) = status.retry_after_seconds() {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response.extensions_mut().insert(ResponseAuditNote { reason: status.reason, ..ResponseAuditNote::default() });
    response
}

/// How many bytes a connection gets at once: bytes that a client does not read must not count as sent.
const PIECE_BYTES: usize = 64 * 1024;

/// Makes a body of several shared buffers.
#[must_use]
pub fn shared(parts: Vec<Bytes>) -> ResponseBody {
    ObservedChunks(parts.into()).map_err(|never: Infallible| match never {}).boxed_unsync()
}

/// Reports its end with the last part, which [`Observed`] needs.
struct ObservedChunks(VecDeque<Bytes>);

impl Body for ObservedChunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut task::Context<'_>,
    ) -> task::Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let parts = &mut self.get_mut().0;
        let piece = parts.pop_front().map(|mut part| {
            if part.len() > PIECE_BYTES {
                let piece = part.split_to(PIECE_BYTES);
                parts.push_front(part);
                return piece;
            }
            part
        });
        task::Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.iter().map(|part| part.len() as u64).sum())
    }
}

/// A body that holds a value until it is sent or dropped.
#[derive(Debug)]
pub struct PermitBody<G> {
    pub body: ResponseBody,
    pub _place: G,
}

impl<G: Unpin> Body for PermitBody<G> {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
    ) -> task::Poll<Option<io::Result<Frame<Bytes>>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Makes a short text answer, for people and firmware.
#[must_use]
pub fn text(status: StatusCode, message: impl Into<String>) -> Response<ResponseBody> {
    with_type(status, "text/plain; charset=utf-8", message.into() + "\n")
}

/// Makes an answer with a content type.
#[must_use]
pub fn with_type(status: StatusCode, content_type: &'static str, bytes: impl Into<Bytes>) -> Response<ResponseBody> {
    let mut response = Response::new(full(bytes));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// Makes an answer in JSON.
#[must_use]
pub fn json<T: serde::Serialize>(status: StatusCode, value: &T) -> Response<ResponseBody> {
    match serde_json::to_vec(value) {
        Ok(bytes) => with_type(status, "application/json", bytes),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("could not encode the answer: {error}")),
    }
}

/// Calls back with each range of a content before the connection, and so the client, gets it.
pub struct SentRangeBody<F: FnMut(Range<u64>)> {
    inner: ResponseBody,
    at: u64,
    on_sent: F,
}

impl<F: FnMut(Range<u64>)> std::fmt::Debug for SentRangeBody<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SentRangeBody").field("at", &self.at).finish_non_exhaustive()
    }
}

impl<F: FnMut(Range<u64>) + Send + Unpin + 'static> SentRangeBody<F> {
    /// Wraps a body that begins at this byte of its content.
    pub fn boxed(inner: ResponseBody, start: u64, on_sent: F) -> ResponseBody {
        Self { inner, at: start, on_sent }.boxed_unsync()
    }
}

impl<F: FnMut(Range<u64>) + Unpin> Body for SentRangeBody<F> {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
    ) -> task::Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.inner).poll_frame(context);
        if let task::Poll::Ready(Some(Ok(frame))) = &polled {
            let start = this.at;
            this.at += frame.data_ref().map_or(0, |data| data.len() as u64);
            (this.on_sent)(start..this.at);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// Calls back once, with the bytes sent and whether the body was sent whole.
///
/// "Sent" means handed to the connection; a client that vanishes in the middle shows as not whole.
pub struct Observed<F: FnOnce(u64, bool)> {
    inner: ResponseBody,
    sent_bytes: u64,
    whole: bool,
    on_end: Option<F>,
}

impl<F: FnOnce(u64, bool)> std::fmt::Debug for Observed<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observed").field("sent_bytes", &self.sent_bytes).finish_non_exhaustive()
    }
}

impl<F: FnOnce(u64, bool) + Send + Unpin + 'static> Observed<F> {
    /// Wraps `inner`.
    pub fn boxed(inner: ResponseBody, on_end: F) -> ResponseBody {
        Self { inner, sent_bytes: 0, whole: false, on_end: Some(on_end) }.boxed_unsync()
    }
}

impl<F: FnOnce(u64, bool) + Unpin> Body for Observed<F> {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
    ) -> task::Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.inner).poll_frame(context);
        match &polled {
            task::Poll::Ready(Some(Ok(frame))) => {
                this.sent_bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
                this.whole = this.inner.is_end_stream();
            }
            task::Poll::Ready(None) => this.whole = true,
            task::Poll::Ready(Some(Err(_))) | task::Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl<F: FnOnce(u64, bool)> Drop for Observed<F> {
    fn drop(&mut self) {
        if let Some(on_end) = self.on_end.take() {
            on_end(self.sent_bytes, self.whole);
        }
    }
}
