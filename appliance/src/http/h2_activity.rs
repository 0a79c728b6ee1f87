//! Detects HTTP/2 connections that are kept for nothing.
//!
//! An HTTP/2 client answers pings as long as it likes, and takes as much of an answer as its own windows allow. So the
//! connection itself never looks dead, and this module looks at what it is used for:
//!
//! - *idle*: no request for a whole [`HttpTimeouts::idle`]; it gets GOAWAY, which every client of HTTP/2 understands;
//! - *stalled*: an answer could go on, but its client allows nothing of it for a whole [`HttpTimeouts::answer`]; the
//! connection is cut.
//!
//! A connection on which bytes of answers flow is neither. Bytes of pings and settings do not count
//! ([`super::frames`]): a client that pings all the time would keep its place forever. A watch without events waits for
//! us, not we for it.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::body::ResponseBody;
use super::client_pace::PERIOD_BYTES_MIN;
use super::connection_use::PlaceRequest;
use super::frames::FrameMeter;
use super::server::HttpTimeouts;

/// How a connection is used.
#[derive(Debug, Default)]
pub struct Busy {
    requests: Mutex<OpenRequests>,
    /// The bytes of answers' bodies that the connection took.
    written: AtomicU64,
    changed: Notify,
}

#[derive(Debug, Default)]
struct OpenRequests {
    next: u64,
    /// When each request began to wait for its client; `None` while we have nothing to send.
    waiting: HashMap<u64, Option<Instant>>,
}

/// Why a connection must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionEnd {
    Idle,
    Stalled,
}

/// One request, until its answer is sent or dropped.
#[derive(Debug)]
pub struct ActiveRequest {
    busy: Arc<Busy>,
    id: u64,
    request: Arc<PlaceRequest>,
}

impl Busy {
    pub fn begin(self: &Arc<Self>, request: Arc<PlaceRequest>) -> ActiveRequest {
        let mut requests = self.lock();
        let id = requests.next;
        requests.next += 1;
        requests.waiting.insert(id, None);
        let is_first = requests.waiting.len() == 1;
        drop(requests);
        if is_first {
            self.changed.notify_waiters();
        }
        ActiveRequest { busy: Arc::clone(self), id, request }
    }

    /// Waits until the connection must end.
    pub async fn over(&self, patience: HttpTimeouts) -> ConnectionEnd {
        loop {
            // This comes first, so that later changes wake it.
            let changed = self.changed.notified();
            let is_idle = self.lock().waiting.is_empty();
            let period = if is_idle { patience.idle } else { patience.answer };
            let before = self.written.load(Ordering::Relaxed);
            if timeout(period, changed).await.is_ok() {
                continue;
            }
            if self.written.load(Ordering::Relaxed) - before >= PERIOD_BYTES_MIN {
                continue;
            }
            if is_idle {
                return ConnectionEnd::Idle;
            }
            if self.lock().waiting.values().flatten().any(|since| since.elapsed() >= period) {
                return ConnectionEnd::Stalled;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, OpenRequests> {
        // Nothing panics while the lock is held.
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ActiveRequest {
    /// Wraps the answer's body, which then reports whether it waits for its client.
    pub fn body(self, inner: ResponseBody) -> ResponseBody {
        // If a request is answered without being read, we wait for its client no longer.
        self.request.is_whole();
        TrackedBody { inner, using: self }.boxed_unsync()
    }

    fn waits(&self, since: Option<Instant>) {
        if let Some(waiting) = self.busy.lock().waiting.get_mut(&self.id) {
            *waiting = since;
        }
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let mut requests = self.busy.lock();
        requests.waiting.remove(&self.id);
        let is_last = requests.waiting.is_empty();
        drop(requests);
        if is_last {
            self.busy.changed.notify_waiters();
        }
    }
}

struct TrackedBody {
    inner: ResponseBody,
    using: ActiveRequest,
}

impl Body for TrackedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        // It is polled again when the client allows more.
        self.using.waits(polled.is_ready().then(Instant::now));
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// An HTTP/2 connection that counts the bytes of answers written to it.
#[derive(Debug)]
pub struct MeteredStream<S> {
    inner: S,
    frames: FrameMeter,
    busy: Arc<Busy>,
}

impl<S> MeteredStream<S> {
    pub fn new(inner: S, busy: &Arc<Busy>) -> Self {
        Self { inner, frames: FrameMeter::default(), busy: Arc::clone(busy) }
    }

    /// Counts the written bytes of these parts.
    fn count<'a>(&mut self, parts: impl IntoIterator<Item = &'a [u8]>, written: &Poll<io::Result<usize>>) {
        let Poll::Ready(Ok(mut left)) = *written else { return };
        for part in parts {
            let taken = part.get(..left).unwrap_or(part);
            let of_bodies = self.frames.take(taken);
            self.busy.written.fetch_add(of_bodies, Ordering::Relaxed);
            left -= taken.len();
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for MeteredStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for MeteredStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.count([bytes], &written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(cx, parts);
        self.count(parts.iter().map(|part| &**part), &written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// Runs a connection until it ends, or must end.
///
/// # Errors
/// The error that the connection ended with.
pub async fn while_used<C, E>(
    mut connection: Pin<&mut C>,
    busy: &Busy,
    patience: HttpTimeouts,
    ask_to_go: impl FnOnce(Pin<&mut C>),
) -> Result<(), E>
where
    C: Future<Output = Result<(), E>>,
{
    let over = tokio::select! {
        ended = connection.as_mut() => return ended,
        over = busy.over(patience) => over,
    };
    if over == ConnectionEnd::Idle {
        ask_to_go(connection.as_mut());
        // A request that came at the same time is answered.
        return finish(connection, patience.answer).await;
    }
    tracing::debug!("a client reads nothing of its answer: the connection is cut");
    Ok(())
}

async fn finish<C, E>(connection: Pin<&mut C>, time: Duration) -> Result<(), E>
where
    C: Future<Output = Result<(), E>>,
{
    timeout(time, connection).await.unwrap_or(Ok(()))
}
