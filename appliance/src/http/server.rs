//! Accepting connections: bounds, time limits and TLS. Knows no route.
//!
//! ```text
//!   accept ─► a place (places.rs) ─► TLS ─► HTTP/1.1, or HTTP/2 where both ends agreed on it
//!                └─► a connection that is waited for has to go (occupant.rs)
//! ```
//!
//! Every wait for a client has an end: for the handshake, the head of a request, its body, and for the
//! client to take the answer; [`h2_activity`] is about those of HTTP/2. Where another client needs the place, such a
//! wait ends at once.

use std::{future::Future, net::SocketAddr, sync::Arc, time::Duration};

use http::{Request, Response};
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use jiff::Timestamp;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

use super::{
    body::ResponseBody,
    client_pace::{DeadlineBody, Paced},
    connection_admission::{ConnectionAdmission, OccupiedPlace, Standings},
    connection_table::Share,
    connection_use::{Occupant, PlaceRequest},
    h2_activity::{self, Busy, MeteredStream},
};
use crate::{access::certificates::PeerCertificate, metrics::RequestMetrics, net::rate_limited_warning::SeldomWarning};

/// Connections of one listener at a time. 200 hosts that each fetch kernel, initramfs and image in
/// parallel stay below it. For one client address 64:
/// firmware, iPXE and an agent have a handful, and a few machines that hold what they can get must
/// not take all places. Of the quarter that is kept, four for each known host: as many as its boot uses at a time.
pub const CONNECTIONS: Share = Share { total: 1024, per_client: 64, per_known: 4 };
/// The same for the API: people and their tools, each of which has one connection or two. A hundred that
/// watch, beside one that writes by 64 connections, stay below it. A quarter is kept for operators.
pub const API_CONNECTIONS: Share = Share { total: 192, per_client: 96, per_known: 4 };
/// The longest head of a request, and what is kept of an answer before more of it is read. The longest
/// head of ours is a boot script's URL, with 1 KiB of query.
pub const BUFFER_BYTES: usize = 16 << 10;
/// Requests at a time of one HTTP/2 connection, and how much of an answer is kept for each.
pub const STREAMS_MAX: u32 = 16;
pub const STREAM_BUFFER_BYTES: usize = 64 << 10;
/// How much of its bodies an HTTP/2 client may send before they are read.
pub const WINDOW_BYTES: u32 = 256 << 10;
/// A silent HTTP/2 connection is asked whether it is still there.
const PING_EVERY: Duration = Duration::from_secs(30);

/// A request's body, which is there in time or fails.
pub type RequestBody = DeadlineBody<Incoming>;

/// How long we wait for a client.
#[derive(Clone, Copy, Debug)]
pub struct HttpTimeouts {
    /// For a whole TLS handshake.
    pub handshake: Duration,
    /// For a whole request head, from the connection or the last answer on (slow-header attacks).
    pub head: Duration,
    /// For a whole request body, from when it is read. 3 MiB in that time are 100 kB/s.
    pub body: Duration,
    /// For a client that takes nothing, or next to nothing, of an answer.
    pub answer: Duration,
    /// For the next request of an HTTP/2 connection; as Kubernetes has it.
    pub idle: Duration,
}

impl Default for HttpTimeouts {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { handshake: seconds(20), head: seconds(30), body: seconds(30), answer: seconds(60), idle: seconds(90) }
    }
}

/// A listener with its handler.
#[derive(Debug)]
pub struct Server {
    pub name: &'static str,
    pub listener: TcpListener,
    pub tls: Option<Arc<rustls::ServerConfig>>,
    pub share: Share,
    pub standings: Standings,
    pub patience: HttpTimeouts,
    /// Where it is counted who was turned away.
    pub requests: RequestMetrics,
}

impl Server {
    /// Serves until the task is dropped. `handler` is called once a request.
    pub async fn run<H, F>(self, handler: H) -> anyhow::Result<()>
    where
        H: Fn(Request<RequestBody>, SocketAddr) -> F + Clone + Send + 'static,
        F: Future<Output = Response<ResponseBody>> + Send + 'static,
    {
        // Who had to go holds what it has for a moment longer; who came for it waits for that.
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
                    // Out of descriptors or a connection that died in the queue: neither ends the service.
                    tracing::warn!(listener = self.name, %error, "accepting a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            // A stranger is sent away at once, so that a known host behind it in the queue has its turn.
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
            let (acceptor, handler, patience) = (acceptor.clone(), handler.clone(), self.patience);
            connections.spawn(while_welcome(guest, Arc::clone(&rooms), move |occupant| {
                connection(stream, remote, acceptor, handler, (patience, occupant))
            }));
        }
    }
}

/// Who got no place, or had to go.
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
                "connections were closed, for there are too many: find who holds them; known hosts and operators have \
                 a share of their own"
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
        // The rooms are never closed.
        let Ok(_room) = rooms.acquire_owned().await else { return };
        serve(Arc::clone(&occupant)).await;
    };
    tokio::select! {
        () = served => {}
        () = guest.occupant().yielded() => {}
    }
}

async fn connection<H, F>(
    stream: TcpStream,
    remote: SocketAddr,
    acceptor: Option<TlsAcceptor>,
    handler: H,
    (patience, occupant): (HttpTimeouts, Arc<Occupant>),
) where
    H: Fn(Request<RequestBody>, SocketAddr) -> F + Clone + Send + 'static,
    F: Future<Output = Response<ResponseBody>> + Send + 'static,
{
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%remote, %error, "setting TCP_NODELAY");
    }
    let stream = Paced::new(stream, patience.answer);
    let Some(acceptor) = acceptor else {
        return requests(stream, remote, (false, None), handler, (patience, occupant)).await;
    };
    match tokio::time::timeout(patience.handshake, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => {
            let session = stream.get_ref().1;
            let is_http2 = session.alpn_protocol() == Some(b"h2");
            let shown = session.peer_certificates().and_then(<[_]>::first);
            let peer = shown.map(|shown| Arc::new(PeerCertificate::new(shown.clone().into_owned())));
            requests(stream, remote, (is_http2, peer), handler, (patience, occupant)).await;
        }
        Ok(Err(error)) => tracing::debug!(%remote, %error, "TLS handshake"),
        Err(_) => tracing::debug!(%remote, "TLS handshake took too long"),
    }
}

/// Which HTTP it is was agreed on before: guessing it from the first bytes would wait for them for ever.
/// What the client showed of itself goes along with each request.
async fn requests<S, H, F>(
    stream: S,
    remote: SocketAddr,
    (is_http2, peer): (bool, Option<Arc<PeerCertificate>>),
    handler: H,
    (patience, occupant): (HttpTimeouts, Arc<Occupant>),
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Fn(Request<RequestBody>, SocketAddr) -> F + Clone + Send + 'static,
    F: Future<Output = Response<ResponseBody>> + Send + 'static,
{
    let busy = Arc::new(Busy::default());
    let users = Arc::clone(&busy);
    let service = service_fn(move |request: Request<Incoming>| {
        let asked = PlaceRequest::new(&occupant);
        let using = users.begin(Arc::clone(&asked));
        let mut request = request.map(|body| DeadlineBody::new(body, patience.body, asked));
        if let Some(peer) = &peer {
            request.extensions_mut().insert(Arc::clone(peer));
        }
        // A connection without a request has no room for one: what answers may be large.
        let answer = Box::pin(handler(request, remote));
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

#[cfg(test)]
mod tests;
