//! Sockets to addresses that were judged.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::net::{TcpStream, UdpSocket};
use tokio::time::{Instant, timeout, timeout_at};

use crate::error::DialError;
use crate::meter::{ByteAllowance, Metered};
use crate::resolve::{Resolve, SystemResolver};
use crate::targets::{RefusedTarget, TargetClass, Targets};
use crate::tls::HANDSHAKE_BYTES_MAX;

/// The number of addresses of one name that are tried. Any further ones are like them.
const ADDRESSES_MAX: usize = 8;

/// Dials what users name. Clones share the rules and the resolver.
#[derive(Clone, Debug)]
pub struct Dialer {
    targets: Arc<RwLock<Targets>>,
    resolver: Arc<dyn Resolve>,
}

impl Dialer {
    /// Makes a dialer with the system's resolver.
    #[must_use]
    pub fn new(targets: Targets) -> Self {
        Self::with_resolver(targets, Arc::new(SystemResolver::default()))
    }

    /// Makes a dialer with another resolver.
    #[must_use]
    pub fn with_resolver(targets: Targets, resolver: Arc<dyn Resolve>) -> Self {
        Self { targets: Arc::new(RwLock::new(targets)), resolver }
    }

    /// Excludes other places where this process listens from now on, for all clones.
    pub fn set_listeners(&self, listeners: impl IntoIterator<Item = SocketAddr>) {
        self.targets.write().unwrap_or_else(PoisonError::into_inner).set_listeners(listeners);
    }

    fn judge(&self, address: SocketAddr) -> Result<(), TargetClass> {
        self.targets.read().unwrap_or_else(PoisonError::into_inner).judge(address, is_here)
    }

    /// The addresses of a host that may be dialled: it is resolved once, and each address is judged. Where some of them
    /// may not be dialled, the others are left.
    ///
    /// # Errors
    /// When the host has no address, or none that may be dialled.
    pub async fn resolve_allowed(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, DialError> {
        let found = match literal(host) {
            Some(ip) => vec![SocketAddr::new(ip, port)],
            None => {
                let resolved = self.resolver.resolve(host, port).await;
                resolved.map_err(|source| DialError::Resolve { host: host.to_owned(), source })?
            }
        };
        let (mut allowed, mut refused) = (Vec::new(), None);
        for address in found.into_iter().map(|address| canonical(address, port)) {
            match self.judge(address) {
                Ok(()) if allowed.len() < ADDRESSES_MAX && !allowed.contains(&address) => allowed.push(address),
                Ok(()) => {}
                Err(class) => {
                    refused.get_or_insert(RefusedTarget { host: host.to_owned(), address, class });
                }
            }
        }
        match refused {
            _ if !allowed.is_empty() => Ok(allowed),
            Some(refused) => Err(DialError::Refused(refused)),
            None => Err(DialError::NoAddress { host: host.to_owned() }),
        }
    }

    /// A connection to the first of these addresses that answers, all of them within this time. What it brings is
    /// counted: the allowance is one for a TLS handshake, and the user of the connection sets it from then on.
    ///
    /// # Errors
    /// When no address may be dialled, or none answers.
    pub async fn connect(&self, host: &str, port: u16, within: Duration) -> Result<Metered<TcpStream>, DialError> {
        let until = Instant::now() + within;
        let judged = timeout_at(until, self.resolve_allowed(host, port)).await;
        let addresses = judged.map_err(|_| timeout_error(host, port, within))??;
        connect_to(&addresses, until, || timeout_error(host, port, within)).await
    }

    /// Connects to a host that the process's own settings name, without judging it.
    pub(crate) async fn connect_unjudged(
        &self,
        host: &str,
        port: u16,
        within: Duration,
    ) -> Result<Metered<TcpStream>, DialError> {
        let until = Instant::now() + within;
        let addresses = match literal(host) {
            Some(ip) => vec![SocketAddr::new(ip, port)],
            None => {
                let resolved = timeout_at(until, self.resolver.resolve(host, port)).await;
                let resolved = resolved.map_err(|_| timeout_error(host, port, within))?;
                resolved.map_err(|source| DialError::Resolve { host: host.to_owned(), source })?
            }
        };
        connect_to(&addresses, until, || timeout_error(host, port, within)).await
    }

    /// A socket that hears the first of these addresses alone: the kernel drops what others send.
    ///
    /// # Errors
    /// When no address may be dialled, or the system gives no socket.
    pub async fn connect_datagrams(&self, host: &str, port: u16, within: Duration) -> Result<UdpSocket, DialError> {
        let judged = timeout(within, self.resolve_allowed(host, port)).await;
        let addresses = judged.map_err(|_| timeout_error(host, port, within))??;
        let to = *addresses.first().ok_or_else(|| DialError::NoAddress { host: host.to_owned() })?;
        let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let failed = |source| DialError::Connect { to, source };
        let socket = UdpSocket::bind((any, 0)).await.map_err(failed)?;
        socket.connect(to).await.map_err(failed)?;
        Ok(socket)
    }

    /// Judges a host that another machine is asked to connect to: what is an address by its text is judged, and a name
    /// of this very machine is refused; what other names mean there is not known here.
    ///
    /// # Errors
    /// When it may not be dialled.
    pub(crate) fn judge_for_proxy(&self, host: &str, port: u16) -> Result<(), DialError> {
        let name = host.trim_end_matches('.').to_ascii_lowercase();
        let is_local = name == "localhost" || name.ends_with(".localhost");
        let ip = if is_local { Some(Ipv4Addr::LOCALHOST.into()) } else { literal(host) };
        let Some(ip) = ip else { return Ok(()) };
        let address = canonical(SocketAddr::new(ip, port), port);
        let judged = self.judge(address);
        judged.map_err(|class| DialError::Refused(RefusedTarget { host: host.to_owned(), address, class }))
    }
}

async fn connect_to(
    addresses: &[SocketAddr],
    until: Instant,
    late: impl Fn() -> DialError,
) -> Result<Metered<TcpStream>, DialError> {
    let mut failed = None;
    for (index, to) in addresses.iter().enumerate() {
        // One that does not answer leaves time for the others.
        let left = u32::try_from(addresses.len() - index).unwrap_or(u32::MAX);
        let share = until.saturating_duration_since(Instant::now()) / left;
        match timeout(share, TcpStream::connect(to)).await {
            Ok(Ok(stream)) => {
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%to, %error, "small writes to it may wait");
                }
                return Ok(Metered::new(stream, ByteAllowance::of(HANDSHAKE_BYTES_MAX)));
            }
            Ok(Err(source)) => failed = Some(DialError::Connect { to: *to, source }),
            Err(_) => failed = Some(late()),
        }
    }
    Err(failed.unwrap_or_else(late))
}

fn timeout_error(host: &str, port: u16, within: Duration) -> DialError {
    DialError::Late { to: format!("{host}:{port}"), within }
}

/// An address by its text, with the brackets that IPv6 has in URLs or without.
fn literal(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// IPv4 in its own form, and the port that was asked for.
fn canonical(address: SocketAddr, port: u16) -> SocketAddr {
    let mut address = match address {
        SocketAddr::V6(v6) if v6.ip().to_ipv4_mapped().is_some() => SocketAddr::new(address.ip().to_canonical(), port),
        SocketAddr::V4(_) | SocketAddr::V6(_) => address,
    };
    address.set_port(port);
    address
}

/// Whether an interface of this machine has the address. Where the system does not say, it may.
fn is_here(ip: IpAddr) -> bool {
    if ip.is_loopback() || ip.is_unspecified() {
        return true;
    }
    let Ok(mut addresses) = nix::ifaddrs::getifaddrs() else { return true };
    addresses.any(|interface| {
        interface.address.is_some_and(|address| {
            let v4 = address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
            v4.or_else(|| address.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip()))) == Some(ip)
        })
    })
}
