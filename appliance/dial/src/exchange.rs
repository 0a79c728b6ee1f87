//! One connection to an HTTP/1.1 server, for one request at a time.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;

use crate::{error::ExchangeError, meter::ByteAllowance};

/// The bytes from a request to the end of the head of its answer, informational answers included, and what is read of
/// the body together with it. Heads in use have some kilobytes.
pub const HEAD_BYTES_MAX: u64 = 256 << 10;
/// What is parsed at once, and so the longest head of one answer.
const BUFFER_BYTES_MAX: usize = 64 << 10;
/// What a body of so many bytes may take on the wire: chunks and TLS records are framed, and some servers make short
/// ones.
const FRAMING_TIMES: u64 = 4;
const FRAMING_BYTES: u64 = 256 << 10;

/// What may come on the wire for a body of at most so many bytes.
#[must_use]
pub fn raw_bytes_max(body_bytes_max: u64) -> u64 {
    body_bytes_max.saturating_mul(FRAMING_TIMES).saturating_add(FRAMING_BYTES)
}

/// A connection; it ends with the value.
#[derive(Debug)]
pub struct HttpConnection {
    sender: SendRequest<Full<Bytes>>,
    allowance: ByteAllowance,
    task: JoinHandle<()>,
}

impl Drop for HttpConnection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl HttpConnection {
    /// Speaks HTTP over a stream; `allowance` is the one of the socket below it.
    ///
    /// # Errors
    /// When it cannot be begun.
    pub async fn over<S>(stream: S, allowance: ByteAllowance) -> Result<Self, ExchangeError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let made = http1::Builder::new().max_buf_size(BUFFER_BYTES_MAX).handshake(TokioIo::new(stream)).await;
        let (sender, connection) = made.map_err(ExchangeError::of)?;
        let task = tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection that was dialled ended");
            }
        });
        Ok(Self { sender, allowance, task })
    }

    /// Whether another request may be sent.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }

    /// Sends a request, and returns the answer with its body to come, of at most so many bytes. Dropped before it ends,
    /// it takes the connection with it. Time is the caller's to bound.
    ///
    /// # Errors
    /// [`ExchangeError::Unsent`] where nothing went out; else what broke the connection.
    pub async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
        body_bytes_max: u64,
    ) -> Result<Response<Incoming>, ExchangeError> {
        self.sender.ready().await.map_err(|_| ExchangeError::Unsent)?;
        self.allowance.set(HEAD_BYTES_MAX);
        match self.sender.try_send_request(request).await {
            Ok(response) => {
                self.allowance.extend(raw_bytes_max(body_bytes_max));
                Ok(response)
            }
            Err(mut error) => {
                let is_unsent = error.take_message().is_some();
                Err(if is_unsent { ExchangeError::Unsent } else { ExchangeError::of(error.into_error()) })
            }
        }
    }
}
