//! Counts what a socket brings, below everything that makes sense of it.
//!
//! A server can send without end what never reaches the caller: informational answers (RFC 9110, section 15.2),
//! heads, chunk extensions, empty TLS records. Each costs a parser its time. So the bytes are counted at the socket,
//! and a connection that brings more than it may ends with an error.

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The bytes that a connection may still bring; clones share it.
#[derive(Clone, Debug)]
pub struct ByteAllowance(Arc<AtomicU64>);

impl ByteAllowance {
    #[must_use]
    pub fn of(bytes: u64) -> Self {
        Self(Arc::new(AtomicU64::new(bytes)))
    }

    /// Allows this many bytes from now on, whatever was left.
    pub fn set(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Release);
    }

    /// Allows this many bytes more.
    pub fn extend(&self, bytes: u64) {
        let more = |left: u64| Some(left.saturating_add(bytes));
        let _before = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
    }

    /// What is left.
    #[must_use]
    pub fn remaining_bytes(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// One reader spends it; others only add to it, or set it while nothing is read.
    fn spend(&self, bytes: u64) {
        let less = |left: u64| Some(left.saturating_sub(bytes));
        let _before = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
    }
}

/// A connection brought more than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it sends more than an answer like this may have, heads and all that comes before it included")]
pub struct ExcessBytes;

impl ExcessBytes {
    /// Finds it among the causes of an error.
    #[must_use]
    pub fn find(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if error.is::<Self>() {
                return Some(Self);
            }
            // An io::Error shows what it carries by get_ref only; source() skips it.
            let carried = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
            if carried.is_some_and(|carried| carried.is::<Self>()) {
                return Some(Self);
            }
            cause = error.source();
        }
        None
    }
}

/// A stream whose bytes are counted as they come.
#[derive(Debug)]
pub struct Metered<S> {
    inner: S,
    allowance: ByteAllowance,
}

impl<S> Metered<S> {
    #[must_use]
    pub fn new(inner: S, allowance: ByteAllowance) -> Self {
        Self { inner, allowance }
    }

    /// What this stream spends.
    #[must_use]
    pub fn allowance(&self) -> ByteAllowance {
        self.allowance.clone()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let left = self.allowance.remaining_bytes();
        let room = buffer.remaining();
        if u64::try_from(room).is_ok_and(|room| room <= left) {
            let before = buffer.filled().len();
            ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
            let brought = buffer.filled().len() - before;
            self.allowance.spend(brought as u64);
            return Poll::Ready(Ok(()));
        }
        // Less than there is room for. Where nothing is left one byte is asked for: an end is none too many.
        let most = usize::try_from(left).unwrap_or(usize::MAX).clamp(1, room.max(1));
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(most.min(room)));
        ready!(Pin::new(&mut self.inner).poll_read(context, &mut part))?;
        let brought = part.filled().len();
        if brought as u64 > left {
            return Poll::Ready(Err(io::Error::other(ExcessBytes)));
        }
        buffer.advance(brought);
        self.allowance.spend(brought as u64);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[tokio::test]
    async fn what_may_come_comes_and_one_byte_more_ends_it() {
        let sent = vec![7; 100];
        let mut stream = Metered::new(sent.as_slice(), ByteAllowance::of(100));
        let mut read = Vec::new();
        stream.read_to_end(&mut read).await.unwrap();
        assert_eq!((read.len(), stream.allowance().remaining_bytes()), (100, 0), "the end is none too many");

        let mut stream = Metered::new(sent.as_slice(), ByteAllowance::of(99));
        let mut read = Vec::new();
        let error = stream.read_to_end(&mut read).await.unwrap_err();
        assert_eq!(ExcessBytes::find(&error), Some(ExcessBytes));
        assert_eq!(read.len(), 99);
    }

    #[tokio::test]
    async fn an_allowance_is_extended_and_set_while_a_stream_lives() {
        let sent = vec![7; 100];
        let mut stream = Metered::new(sent.as_slice(), ByteAllowance::of(10));
        let allowance = stream.allowance();
        let mut ten = [0; 10];
        stream.read_exact(&mut ten).await.unwrap();
        allowance.extend(5);
        assert!(stream.read_exact(&mut ten).await.is_err(), "five of ten may come");
        allowance.extend(u64::MAX);
        allowance.extend(u64::MAX);
        allowance.set(20);
        stream.read_exact(&mut ten).await.unwrap();
        assert_eq!(allowance.remaining_bytes(), 10);
    }

    #[test]
    fn excess_is_found_among_causes() {
        #[derive(Debug, thiserror::Error)]
        #[error("outer")]
        struct Outer(#[source] io::Error);
        assert!(ExcessBytes::find(&Outer(io::Error::other(ExcessBytes))).is_some());
        assert!(ExcessBytes::find(&Outer(io::Error::other("else"))).is_none());
    }
}
