//! Accepts connections: bounds, time limits and TLS. Knows no route.
//!
//! ```text
//!   accept ─► a place (connection_table.rs) ─► TLS ─► HTTP/1.1, or HTTP/2 if both ends agree on it
//!                └─► a connection without a request yields (connection_use.rs)
//! ```
//!
//! Every wait for a client has a limit: for the handshake, the head of a request, its body, and for the client to take
//! the answer; [`h2_activity`] has those of HTTP/2. If another client needs the place, such a wait ends at once.

use std::{future::Future, net::SocketAddr, sync::Arc, time::Duration};

use firesteel_net::rate_limited_warning::SeldomWarning;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use jiff::Timestamp;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::body::ResponseBody;
use super::client_pace::{DeadlineBody, Paced};
use super::connection_admission::{ConnectionAdmission, OccupiedPlace, Standings};
use super::connection_table::Share;
use super::connection_use::{Occupant, PlaceRequest};
use super::h2_activity::{self, Busy, MeteredStream};
use crate::{access::certificates::PeerCertificate, metrics::RequestMetrics};

/// Connections of one listener at a time. 200 hosts that each fetch kernel, initramfs and image in parallel stay below
/// it. One address has at most 64: firmware, iPXE and an agent have a handful, and a few greedy machines must not take
/// all places. Of the reserved quarter, each known host has four: as many as its boot uses at a time.
pub const CONNECTIONS: Share = Share { total: 1024, per_client: 64, per_known: 4 };
/// Connections of the API at a time: people and their tools, each of which has one or two. A hundred that watch, beside
/// one that writes by 64 connections, stay below it. A quarter is reserved for operators.
pub const API_CONNECTIONS: Share = Share { total: 192, per_client: 96, per_known: 4 };
/// The longest head of a request, and how much of an answer is buffered before more of it is read. Our longest head is
/// a boot script's URL, with 1 KiB of query.
pub const BUFFER_BYTES: usize = 16 << 10;
/// Concurrent requests of one HTTP/2 connection, and how much of each answer is buffered.
pub const STREAMS_MAX: u32 = 16;
pub const STREAM_BUFFER_BYTES: usize = 64 << 10;
/// How much of its bodies an HTTP/2 client may send before they are read.
pub const WINDOW_BYTES: u32 = 256 << 10;
/// How often a silent HTTP/2 connection gets a ping.
const PING_EVERY: Duration = Duration::from_secs(30);

/// A request's body, which arrives in time or fails.
pub type RequestBody = DeadlineBody<Incoming>;

/// Answers the requests of a listener; called once a request. The future of an answer may be large: it is boxed, so that
/// a connection without a request holds no memory for one. It is one type for all listeners, so that HTTP and its
/// connections are compiled once.
type RequestHandler =
    Arc<dyn Fn(Request<RequestBody>, SocketAddr) -> BoxFuture<'static, Response<ResponseBody>> + Send + Sync>;

/// How long we wait for a client.
#[derive(Clone, Copy, Debug)]
pub struct HttpTimeouts {
    /// The limit of a whole TLS handshake.
    pub handshake: Duration,
    /// The limit of a whole request head, from the connection or the last answer on (slow-header attacks).
    pub head: Duration,
    /// The limit of a whole request body, from when it is read. 3 MiB in that time are 100 kB/s.
    pub body: Duration,
    /// The limit for a client that takes nothing, or next to nothing, of an answer.
    pub answer: Duration,
    /// The limit for the next request of an HTTP/2 connection; Kubernetes has the same.
    pub idle: Duration,
}

impl Default for HttpTimeouts {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { handshake: seconds(20), head: seconds(30), body: seconds(30), answer: seconds(60), idle: seconds(90) }
    }
}

/// A listener, its limits and its metrics.
#[derive(Debug)]
pub struct Server {
    pub name: &'static str,
    pub listener: TcpListener,
    pub tls: Option<Arc<rustls::ServerConfig>>,
    pub share: Share,
    pub standings: Standings,
    pub patience: HttpTimeouts,
    /// The metrics that count the connections turned away.
    pub requests: RequestMetrics,
}

impl Server {
    /// Serves until the task is dropped. `handler` is called once a request.
    pub fn run<H, F>(self, handler: H) -> BoxFuture<'static, anyhow::Result<()>>
    where
        H: Fn(Request<RequestBody>, SocketAddr) -> F + Send + Sync + 'static,
        F: Future<Output = Response<ResponseBody>> + Send + 'static,
    {
        self.accept(Arc::new(move |request, remote| Box::pin(handler(request, remote))))
    }

    fn accept(self, handler: RequestHandler) -> BoxFuture<'static, anyhow::Result<()>> {
        Box::pin(self.accept_connections(handler))
    }

    async fn accept_connections(self, handler: RequestHandler) -> anyhow::Result<()> {
        // A connection that yields keeps its memory for a moment longer; the one that replaces it waits for that.
        let rooms = Arc::new(Semaphore::new(self.share.total));
        let acceptor = self.tls.map(TlsAcceptor::from);
        let door = ConnectionAdmission::new(self.share, self.standings);
        let mut turned_away =
            TurnedAway { listener: self.name, requests: self.requests, warning: SeldomWarning::default() };
        let mut connections = JoinSet::new();
        loop {
            let (stream, remote) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    // The process is out of descriptors, or a connection died in the queue: neither ends the service.
                    tracing::warn!(listener = self.name, %error, "could not accept a connection; it goes on in 50 ms");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            // A stranger is turned away at once, so that a known host behind it in the queue has its turn.
            let guest = match door.enter_or_wait(remote.ip()).await {
                Ok(guest) => guest,
                Err(why) => {
                    turned_away.count(remote, why.word());
                    continue;
                }
            };
            if guest.made_room() {
                turned_away.count(remote, "yielded");
            }
            while let Some(ended) = connections.try_join_next() {
                if let Err(error) = ended
                    && error.is_panic()
                {
                    anyhow::bail!("a request handler of the {} listener panicked: {error}", self.name);
                }
            }
            let (acceptor, handler, patience) = (acceptor.clone(), Arc::clone(&handler), self.patience);
            connections.spawn(while_welcome(guest, Arc::clone(&rooms), move |occupant| {
                AcceptedConnection { remote, patience, occupant }.serve(stream, acceptor, handler)
            }));
        }
    }
}

/// Counts and reports clients that got no place, or had to yield.
struct TurnedAway {
    listener: &'static str,
    requests: RequestMetrics,
    warning: SeldomWarning,
}

impl TurnedAway {
    fn count(&mut self, remote: SocketAddr, why: &'static str) {
        let listener = self.listener;
        self.requests.turned_away(listener, why);
        tracing::debug!(listener, %remote, why, "too many connections: one is closed");
        if let Some(connections) = self.warning.count(Timestamp::now()) {
            tracing::warn!(
                listener,
                connections,
                last = %remote,
                why,
                "connections were closed, because there are too many: find out who holds them; known hosts and \
                 operators have a share of their own"
            );
        }
    }
}

/// Serves a connection until it ends, or its place is given to another client.
async fn while_welcome<F: Future<Output = ()>>(
    guest: OccupiedPlace,
    rooms: Arc<Semaphore>,
    serve: impl FnOnce(Arc<Occupant>) -> F,
) {
    let occupant = Arc::clone(guest.occupant());
    let served = async {
        // The semaphore is never closed.
        let Ok(_room) = rooms.acquire_owned().await else { return };
        serve(Arc::clone(&occupant)).await;
    };
    tokio::select! {
        () = served => {}
        () = guest.occupant().yielded() => {}
    }
}

/// A connection that has a place.
struct AcceptedConnection {
    remote: SocketAddr,
    patience: HttpTimeouts,
    occupant: Arc<Occupant>,
}

impl AcceptedConnection {
    async fn serve(self, stream: TcpStream, acceptor: Option<TlsAcceptor>, handler: RequestHandler) {
        let remote = self.remote;
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%remote, %error, "could not set TCP_NODELAY");
        }
        let stream = Paced::new(stream, self.patience.answer);
        let Some(acceptor) = acceptor else {
            return self.serve_requests(stream, false, None, handler).await;
        };
        match tokio::time::timeout(self.patience.handshake, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => {
                let session = stream.get_ref().1;
                let is_http2 = session.alpn_protocol() == Some(b"h2");
                let shown = session.peer_certificates().and_then(<[_]>::first);
                let peer = shown.map(|shown| Arc::new(PeerCertificate::new(shown.clone().into_owned())));
                self.serve_requests(stream, is_http2, peer, handler).await;
            }
            Ok(Err(error)) => tracing::debug!(%remote, %error, "the TLS handshake failed"),
            Err(_) => tracing::debug!(%remote, "the TLS handshake took too long"),
        }
    }

    /// Serves HTTP/2 or HTTP/1.1, as both ends agreed during the handshake: to guess it from the first bytes would mean
    /// to wait for them without a limit. Each request gets the client's certificate.
    async fn serve_requests<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        self,
        stream: S,
        is_http2: bool,
        peer: Option<Arc<PeerCertificate>>,
        handler: RequestHandler,
    ) {
        let Self { remote, patience, occupant } = self;
        let busy = Arc::new(Busy::default());
        let users = Arc::clone(&busy);
        let service = service_fn(move |request: Request<Incoming>| {
            let asked = PlaceRequest::new(&occupant);
            let using = users.begin(Arc::clone(&asked));
            let mut request = request.map(|body| DeadlineBody::new(body, patience.body, asked));
            if let Some(peer) = &peer {
                request.extensions_mut().insert(Arc::clone(peer));
            }
            let answer = handler(request, remote);
            async move { Ok::<_, std::convert::Infallible>(answer.await.map(|body| using.body(body))) }
        });
        let ended = if is_http2 {
            let stream = TokioIo::new(MeteredStream::new(stream, &busy));
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder.timer(TokioTimer::new()).keep_alive_interval(PING_EVERY).keep_alive_timeout(patience.answer);
            builder.max_concurrent_streams(STREAMS_MAX).max_send_buf_size(STREAM_BUFFER_BYTES);
            builder.max_header_list_size(u32::try_from(BUFFER_BYTES).unwrap_or(u32::MAX));
            builder.initial_stream_window_size(WINDOW_BYTES).initial_connection_window_size(WINDOW_BYTES);
            let connection = std::pin::pin!(builder.serve_connection(stream, service));
            h2_activity::while_used(connection, &busy, patience, http2::Connection::graceful_shutdown).await
        } else {
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(patience.head);
            builder.keep_alive(true).max_buf_size(BUFFER_BYTES);
            builder.serve_connection(TokioIo::new(stream), service).await
        };
        if let Err(error) = ended {
            tracing::debug!(%remote, %error, "connection ended early");
        }
    }
}

#[cfg(test)]
mod tests;
