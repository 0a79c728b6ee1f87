//! Limits for clients that do not read their answers, and for requests that never end.
//!
//! [`ClientPace`] decides, without a clock; [`Paced`] is a connection that ends by its decision, and [`DeadlineBody`] a
//! body that must arrive in time.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep, sleep_until};

use super::connection_use::PlaceRequest;

/// How much a client must take within one period while we wait for it: a kilobyte a second, which a modem exceeds. A
/// machine at that rate would need days to fetch its ramdisk.
pub const PERIOD_BYTES_MIN: u64 = 64 << 10;

/// Measures how fast a client takes what is sent. Time in which we have nothing to send does not count.
#[derive(Debug)]
pub struct ClientPace {
    period: Duration,
    /// How long we waited for it before `since`.
    waited: Duration,
    /// The time since which we wait.
    since: Option<Instant>,
    /// How much it took in that time.
    bytes: u64,
}

/// The client takes too little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooSlow;

impl ClientPace {
    #[must_use]
    pub fn new(period: Duration) -> Self {
        Self { period, waited: Duration::ZERO, since: None, bytes: 0 }
    }

    /// Records that the client took some bytes.
    pub fn took(&mut self, bytes: usize, now: Instant) {
        self.bytes += bytes as u64;
        if let Some(since) = self.since.take() {
            self.waited += now.saturating_duration_since(since);
        }
    }

    /// Records that the client takes nothing more at the moment; returns how long to wait for it.
    ///
    /// # Errors
    /// When we waited a whole period, and it took less than [`PERIOD_BYTES_MIN`].
    pub fn blocked(&mut self, now: Instant) -> Result<Duration, TooSlow> {
        let since = *self.since.get_or_insert(now);
        let waited = self.waited + now.saturating_duration_since(since);
        if waited < self.period {
            return Ok(self.period - waited);
        }
        if self.bytes < PERIOD_BYTES_MIN {
            return Err(TooSlow);
        }
        *self = Self { since: Some(now), ..Self::new(self.period) };
        Ok(self.period)
    }
}

/// A connection that ends when its client takes too little.
#[derive(Debug)]
pub struct Paced<S> {
    inner: S,
    pace: ClientPace,
    look_again: Option<Pin<Box<Sleep>>>,
}

impl<S> Paced<S> {
    pub fn new(inner: S, period: Duration) -> Self {
        Self { inner, pace: ClientPace::new(period), look_again: None }
    }

    fn watch(&mut self, context: &mut Context<'_>, sent: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(result) = sent {
            if let Ok(bytes) = result {
                self.pace.took(bytes, now());
            }
            return Poll::Ready(result);
        }
        loop {
            let now = now();
            let Ok(left) = self.pace.blocked(now) else {
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client reads too slowly")));
            };
            let at = tokio::time::Instant::from_std(now + left);
            let timer = self.look_again.get_or_insert_with(|| Box::pin(sleep_until(at)));
            if timer.deadline() != at {
                timer.as_mut().reset(at);
            }
            ready!(timer.as_mut().poll(context));
        }
    }
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let sent = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.watch(cx, sent)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let sent = Pin::new(&mut self.inner).poll_write_vectored(cx, parts);
        self.watch(cx, sent)
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

/// A request's body that fails if it does not arrive in time, and tells when it has arrived.
#[derive(Debug)]
pub struct DeadlineBody<B> {
    inner: B,
    time: Duration,
    end: Option<Pin<Box<Sleep>>>,
    request: Arc<PlaceRequest>,
}

impl<B: Body> DeadlineBody<B> {
    pub fn new(inner: B, time: Duration, request: Arc<PlaceRequest>) -> Self {
        if inner.is_end_stream() {
            request.is_whole();
        }
        Self { inner, time, end: None, request }
    }
}

impl<B> Body for DeadlineBody<B>
where
    B: Body<Data = Bytes, Error = hyper::Error> + Unpin,
{
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = &mut *self;
        // The time runs from the first poll, when the handler begins to read.
        let end = this.end.get_or_insert_with(|| Box::pin(sleep(this.time)));
        if end.as_mut().poll(context).is_ready() {
            let text = format!("it took longer than {} s", this.time.as_secs_f32());
            return Poll::Ready(Some(Err(io::Error::new(io::ErrorKind::TimedOut, text))));
        }
        let frame = ready!(Pin::new(&mut this.inner).poll_frame(context));
        if frame.is_none() || this.inner.is_end_stream() {
            this.request.is_whole();
        }
        Poll::Ready(frame.map(|frame| frame.map_err(io::Error::other)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_secs(60);

    /// A client that takes some bytes every three seconds. Returns when it was cut off, if it was.
    fn drip(bytes: usize, seconds: u64) -> Option<u64> {
        let start = Instant::now();
        let mut pace = ClientPace::new(PERIOD);
        for second in 0..seconds {
            let now = start + Duration::from_secs(second);
            if second % 3 == 0 {
                pace.took(bytes, now);
            }
            if pace.blocked(now).is_err() {
                return Some(second);
            }
        }
        None
    }

    #[test]
    fn who_takes_too_little_is_cut_off_after_one_period() {
        let start = Instant::now();
        let mut pace = ClientPace::new(PERIOD);
        assert_eq!(pace.blocked(start), Ok(PERIOD));
        assert_eq!(pace.blocked(start + Duration::from_secs(59)), Ok(Duration::from_secs(1)));
        assert_eq!(pace.blocked(start + PERIOD), Err(TooSlow));
        assert_eq!(drip(1, 600), Some(60), "a byte now and then is no progress");
        assert_eq!(drip(4096, 600), None, "slow, and fast enough");
    }

    #[test]
    fn time_with_nothing_to_send_does_not_count() {
        let start = Instant::now();
        let mut pace = ClientPace::new(PERIOD);
        pace.took(10, start);
        let later = start + Duration::from_secs(3600);
        assert_eq!(pace.blocked(later), Ok(PERIOD), "the connection was idle for an hour");
        pace.took(10, later + Duration::from_secs(20));
        let again = later + Duration::from_secs(7200);
        assert_eq!(pace.blocked(again), Ok(Duration::from_secs(40)), "what was waited before still counts");
        assert_eq!(pace.blocked(again + Duration::from_secs(40)), Err(TooSlow));
    }
}
