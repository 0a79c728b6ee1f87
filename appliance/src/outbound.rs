//! Outward connections of this process: the dialer for addresses that users name, the web client on top of it, and
//! threads of their own for this traffic.
//!
//! A BMC or an origin of images decides what it sends, and what it sends takes time. These threads spend that time, and
//! never those that serve DHCP and agents.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Context as _;
use firesteel_dial::{Dialer, Proxy, Targets, WebClient};
use firesteel_facts::AddressBlock;
use firesteel_runtime::Tokio;
use tokio::runtime::{Builder, Runtime};

/// Threads for outward connections: with two, a peer that takes all the time of one does not stop the others; more
/// would not help, since the work is mostly waiting.
const THREADS: usize = 2;
/// UDP ports of this process: DHCP and TFTP.
const DATAGRAM_PORTS: [u16; 2] = [67, 69];

/// The rules for dialling: allowed targets and the proxy, from flags and settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutwardRules {
    pub allowed: Vec<AddressBlock>,
    pub proxy: Option<Proxy>,
}

impl OutwardRules {
    /// Reads the values of `--allow-target`, `--proxy` and `--no-proxy-for`.
    ///
    /// # Errors
    /// When a value is malformed; the text names its flag.
    pub fn read(allowed: &[String], proxy: Option<&str>, no_proxy_for: &[String]) -> anyhow::Result<Self> {
        let block = |text: &String| {
            let read: Result<AddressBlock, _> = text.parse();
            read.map_err(|error| anyhow::anyhow!("--allow-target {text} {error}; give one such as 192.0.2.0/24"))
        };
        let proxy = proxy.map(|text| Proxy::parse(text, no_proxy_for)).transpose().context("--proxy")?;
        anyhow::ensure!(
            proxy.is_some() || no_proxy_for.is_empty(),
            "--no-proxy-for needs --proxy: no other setting names a proxy"
        );
        Ok(Self { allowed: allowed.iter().map(block).collect::<anyhow::Result<_>>()?, proxy })
    }

    /// Makes a dialer for allowed addresses, except these listeners.
    #[must_use]
    pub fn dialer(&self, listeners: impl IntoIterator<Item = SocketAddr>) -> Dialer {
        Dialer::new(Targets::allowing(self.allowed.iter().copied()).without_listeners(listeners))
    }

    /// Makes a web client that uses this dialer.
    ///
    /// # Errors
    /// When TLS cannot be prepared.
    pub fn web(&self, dialer: &Dialer) -> anyhow::Result<WebClient> {
        let web = WebClient::new(dialer.clone()).context("could not prepare TLS for downloads")?;
        Ok(web.through(self.proxy.clone()))
    }
}

/// The outward connections of a process that serves. Its threads end with it.
#[derive(Debug)]
pub struct OutboundRuntime {
    threads: Option<Runtime>,
    dialer: Dialer,
    web: WebClient,
}

impl Drop for OutboundRuntime {
    fn drop(&mut self) {
        // A runtime that is dropped waits for its threads, which asynchronous code must not do.
        if let Some(threads) = self.threads.take() {
            threads.shutdown_background();
        }
    }
}

impl OutboundRuntime {
    /// # Errors
    /// When the system gives no threads, or TLS cannot be prepared.
    pub fn open(rules: &OutwardRules, listeners: Vec<SocketAddr>) -> anyhow::Result<Self> {
        let mut builder = Builder::new_multi_thread();
        let threads = builder.worker_threads(THREADS).thread_name("outward").enable_all().build();
        let threads = threads.context("could not start threads for BMCs and downloads")?;
        let dialer = rules.dialer(listeners);
        let web = rules.web(&dialer)?;
        Ok(Self { threads: Some(threads), dialer, web })
    }

    #[must_use]
    pub fn dialer(&self) -> &Dialer {
        &self.dialer
    }

    #[must_use]
    pub fn web(&self) -> &WebClient {
        &self.web
    }

    /// The process's clock and tasks, with these threads for outward connections.
    #[must_use]
    pub fn runtime(&self) -> Tokio {
        match &self.threads {
            Some(threads) => Tokio::new().with_outward(threads.handle().clone()),
            None => Tokio::new(),
        }
    }
}

/// Returns the datagram listeners of a process that serves machines, on all of its addresses.
pub fn datagram_listeners() -> impl Iterator<Item = SocketAddr> {
    DATAGRAM_PORTS.into_iter().map(|port| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn flags_are_read_and_each_fault_names_its_flag() {
        let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let rules = OutwardRules::read(
            &texts(&["127.0.1.0/24", "fd00::/8"]),
            Some("http://proxy:3128"),
            &texts(&["site.example"]),
        );
        let rules = rules.unwrap();
        assert_eq!(rules.allowed.len(), 2);
        assert_eq!(rules.proxy.unwrap().to_string(), "http://proxy:3128");
        for (allowed, proxy, no_proxy_for, flag) in [
            (texts(&["127.0.0.1/8"]), None, texts(&[]), "--allow-target 127.0.0.1/8"),
            (texts(&["localhost"]), None, texts(&[]), "--allow-target localhost"),
            (texts(&[]), Some("proxy:3128"), texts(&[]), "--proxy"),
            (texts(&[]), None, texts(&["a"]), "--no-proxy-for"),
        ] {
            let error = format!("{:#}", OutwardRules::read(&allowed, proxy, &no_proxy_for).unwrap_err());
            assert!(error.contains(flag), "{error}");
        }
    }

    #[test]
    fn it_ends_inside_of_asynchronous_code() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let way_out = OutboundRuntime::open(&OutwardRules::default(), Vec::new()).unwrap();
            drop(way_out);
        });
    }
}
