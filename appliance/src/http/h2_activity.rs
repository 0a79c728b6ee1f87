//! When an HTTP/2 connection has been kept for nothing.
//!
//! A client of HTTP/2 answers pings for as long as it likes, and takes of an answer what it allows by its own
//! windows. So the connection itself never looks dead, and this looks at what it is used for:
//!
//! - *idle*: no request for a whole [`HttpTimeouts::idle`]; it is told to go, which every client of HTTP/2
//!   knows how to take;
//! - *stalled*: an answer that could go on, and whose client allows none of it for a whole
//!   [`HttpTimeouts::answer`]; it is cut off.
//!
//! A connection on which bytes of answers flow is neither; those of pings and settings do not count
//! ([`super::frames`]): a client that pings all the time kept its place for ever. A watch that has nothing to say waits
//! for us, not we for it.

use std::{
    collections::HashMap,
    io,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, SizeHint};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::Notify,
    time::{Instant, timeout},
};

use super::{
    body::ResponseBody, client_pace::PERIOD_BYTES_MIN, connection_use::PlaceRequest, frames::FrameMeter,
    server::HttpTimeouts,
};

/// What a connection is used for.
#[derive(Debug, Default)]
pub struct Busy {
    requests: Mutex<OpenRequests>,
    /// Bytes of answers' bodies that the connection took.
    written: AtomicU64,
    changed: Notify,
}

#[derive(Debug, Default)]
struct OpenRequests {
    next: u64,
    /// Since when each one waits for its client; `None` while it is we who have nothing to send.
    waiting: HashMap<u64, Option<Instant>>,
}

/// Why a connection is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionEnd {
    Idle,
    Stalled,
}

/// One request, until its answer is sent or nobody wants it any more.
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

    /// Ends when the connection is to.
    pub async fn over(&self, patience: HttpTimeouts) -> ConnectionEnd {
        loop {
            // Made first: what changes from here on wakes it.
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
        // Nothing panics under it.
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ActiveRequest {
    /// The answer's body, which tells whether it waits for its client.
    pub fn body(self, inner: ResponseBody) -> ResponseBody {
        // What is answered without having been read is no matter of its client any more.
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
        // It is asked again when the client allows more.
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

/// A connection of HTTP/2 that counts what is written to it of answers.
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

    /// So many bytes of these parts were written.
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

/// Runs a connection until it ends, or is over.
///
/// # Errors
/// What the connection ended with.
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
    tracing::debug!("a client takes nothing of its answer: cut off");
    Ok(())
}

async fn finish<C, E>(connection: Pin<&mut C>, time: Duration) -> Result<(), E>
where
    C: Future<Output = Result<(), E>>,
{
    timeout(time, connection).await.unwrap_or(Ok(()))
}
