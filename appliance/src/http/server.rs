//! Accepting connections: bounds, time limits and TLS. Knows no route.

use std::{
    collections::HashMap,
    future::Future,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use http::{Request, Response};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

use super::body::ResponseBody;

/// Most connections of one listener at a time. 200 hosts that each fetch kernel, initramfs and
/// image in parallel stay below it; beyond it new connections wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 1024;
/// Most connections of one client address at a time: firmware, iPXE and an agent have a handful, and
/// a few machines that hold what they can get must not take all places. Clients on this machine are
/// people and programs of its owner, who may have more.
const CONNECTIONS_PER_CLIENT_MAX: usize = 64;
/// A client that has not sent a whole request head by then is cut off (slow-header attacks).
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// A client that has not finished its TLS handshake by then is cut off.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(20);

/// A listener with its handler.
#[derive(Debug)]
pub struct Server {
    pub name: &'static str,
    pub listener: TcpListener,
    pub tls: Option<Arc<rustls::ServerConfig>>,
}

impl Server {
    /// Serves until the task is dropped. `handler` is called once a request.
    pub async fn run<H, F>(self, handler: H) -> anyhow::Result<()>
    where
        H: Fn(Request<Incoming>, SocketAddr) -> F + Clone + Send + 'static,
        F: Future<Output = Response<ResponseBody>> + Send + 'static,
    {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let acceptor = self.tls.map(TlsAcceptor::from);
        let clients = Clients::default();
        let mut connections = JoinSet::new();
        loop {
            let place = Arc::clone(&places).acquire_owned().await?;
            let (stream, remote) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of descriptors or a connection that died in the queue: neither ends the service.
                    tracing::warn!(listener = self.name, %error, "accepting a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let Some(guest) = clients.admit(remote.ip()) else {
                tracing::debug!(listener = self.name, %remote, "too many connections of this client: closed");
                continue;
            };
            while let Some(ended) = connections.try_join_next() {
                if let Err(error) = ended
                    && error.is_panic()
                {
                    anyhow::bail!("a request handler of the {} listener panicked: {error}", self.name);
                }
            }
            let (acceptor, handler) = (acceptor.clone(), handler.clone());
            connections.spawn(async move {
                let (_place, _guest) = (place, guest);
                connection(stream, remote, acceptor, handler).await;
            });
        }
    }
}

/// How many connections each client has.
#[derive(Clone, Debug, Default)]
struct Clients(Arc<Mutex<HashMap<IpAddr, usize>>>);

impl Clients {
    /// A place for one more connection of this client, while it has not too many.
    fn admit(&self, client: IpAddr) -> Option<Guest> {
        let mut counts = self.lock();
        let count = counts.entry(client).or_default();
        if *count >= CONNECTIONS_PER_CLIENT_MAX && !client.is_loopback() {
            return None;
        }
        *count += 1;
        Some(Guest { clients: self.clone(), client })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection of a client; its end makes room for another.
#[derive(Debug)]
struct Guest {
    clients: Clients,
    client: IpAddr,
}

impl Drop for Guest {
    fn drop(&mut self) {
        let mut counts = self.clients.lock();
        if let Some(count) = counts.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.client);
            }
        }
    }
}

async fn connection<H, F>(stream: TcpStream, remote: SocketAddr, acceptor: Option<TlsAcceptor>, handler: H)
where
    H: Fn(Request<Incoming>, SocketAddr) -> F + Clone + Send + 'static,
    F: Future<Output = Response<ResponseBody>> + Send + 'static,
{
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%remote, %error, "setting TCP_NODELAY");
    }
    match acceptor {
        None => requests(stream, remote, handler).await,
        Some(acceptor) => match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => requests(stream, remote, handler).await,
            Ok(Err(error)) => tracing::debug!(%remote, %error, "TLS handshake"),
            Err(_) => tracing::debug!(%remote, "TLS handshake took too long"),
        },
    }
}

async fn requests<S, H, F>(stream: S, remote: SocketAddr, handler: H)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Fn(Request<Incoming>, SocketAddr) -> F + Clone + Send + 'static,
    F: Future<Output = Response<ResponseBody>> + Send + 'static,
{
    let service = service_fn(move |request| {
        let answer = handler(request, remote);
        async move { Ok::<_, std::convert::Infallible>(answer.await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).keep_alive(true);
    builder.http2().timer(TokioTimer::new());
    if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%remote, %error, "connection ended early");
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// Four machines with 1500 slow connections took every place, and a host could not fetch its kernel.
    #[test]
    fn one_client_has_so_many_places_and_no_more() {
        let clients = Clients::default();
        let (greedy, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let mut held: Vec<_> = (0..CONNECTIONS_PER_CLIENT_MAX).map(|_| clients.admit(greedy).unwrap()).collect();
        assert!(clients.admit(greedy).is_none());
        let guest = clients.admit(other).unwrap();
        held.pop();
        held.push(clients.admit(greedy).unwrap());
        assert!(clients.admit(greedy).is_none());
        drop((held, guest));
        assert!(clients.lock().is_empty(), "clients that left are remembered");
        let local: Vec<_> = (0..2 * CONNECTIONS_PER_CLIENT_MAX).map(|_| clients.admit([127, 0, 0, 1].into())).collect();
        assert!(local.iter().all(Option::is_some));
    }
}
