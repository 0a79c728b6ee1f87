//! Finds the addresses of a name.

use std::future::Future;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::pin::Pin;
use std::sync::Arc;
use std::{fmt, io};

use tokio::sync::Semaphore;

/// The number of names that are looked up at a time. A look-up holds a thread until the system's resolver gives up,
/// longer than the caller waits: names that lead nowhere must not take all threads.
const LOOKUPS_MAX: usize = 16;

/// A look-up under way.
pub type Resolving<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'a>>;

/// Who knows the addresses of names.
pub trait Resolve: fmt::Debug + Send + Sync {
    /// The addresses of `host`, in the order in which they are to be tried.
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a>;
}

/// The system's resolver: its files and its name servers.
#[derive(Debug)]
pub struct SystemResolver {
    places: Arc<Semaphore>,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self { places: Arc::new(Semaphore::new(LOOKUPS_MAX)) }
    }
}

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a> {
        let (places, host) = (Arc::clone(&self.places), host.to_owned());
        Box::pin(async move {
            let place = places.acquire_owned().await.map_err(io::Error::other)?;
            let lookup = move || {
                let found: io::Result<Vec<SocketAddr>> = (host.as_str(), port).to_socket_addrs().map(Iterator::collect);
                // Only now: the caller may have given up before.
                drop(place);
                found
            };
            tokio::task::spawn_blocking(lookup).await.map_err(io::Error::other)?
        })
    }
}
