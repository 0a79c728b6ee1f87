//! The clients: one request at a time, each noted with what the trace is searched for.

use std::fmt::Debug;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::judge::Exchange;

/// Only a server that hangs takes so long.
const PATIENCE: Duration = Duration::from_secs(120);

trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}

/// One connection that stays open.
pub(crate) struct Connection {
    stream: Box<dyn Stream>,
    port: u16,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    pub(crate) exchange: Exchange,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A request.
#[derive(Debug, Default)]
pub(crate) struct Request<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) headers: &'a [(&'a str, &'a str)],
    pub(crate) body: &'a [u8],
    /// What it asks to be kept, for the record.
    pub(crate) what: &'a str,
    pub(crate) mark: &'a [u8],
}

impl Connection {
    pub(crate) fn plain(to: SocketAddr) -> std::io::Result<Self> {
        let stream = TcpStream::connect_timeout(&to, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let port = stream.local_addr()?.port();
        Ok(Self { stream: Box::new(stream), port })
    }

    /// HTTP/1.1 over TLS; the handshake is over when the first answer has come.
    pub(crate) fn tls(to: SocketAddr, ca_pem: &[u8]) -> std::io::Result<Self> {
        let stream = TcpStream::connect_timeout(&to, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let port = stream.local_addr()?.port();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(ca_pem).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connection = ClientConnection::new(Arc::new(config), ServerName::IpAddress(to.ip().into())).unwrap();
        Ok(Self { stream: Box::new(StreamOwned::new(connection, stream)), port })
    }

    pub(crate) fn ask(&mut self, request: &Request<'_>) -> std::io::Result<Answer> {
        let Request { method, path, headers, body, what, mark } = request;
        let mut bytes = format!("{method} {path} HTTP/1.1\r\nhost: appliance\r\ncontent-length: {}\r\n", body.len());
        for (name, value) in *headers {
            bytes.push_str(&format!("{name}: {value}\r\n"));
        }
        bytes.push_str("\r\n");
        let mut bytes = bytes.into_bytes();
        bytes.extend_from_slice(body);
        let begun_at = now();
        self.stream.write_all(&bytes)?;
        self.stream.flush()?;
        let (status, body) = self.answer()?;
        let ended_at = now();
        let (what, mark) = ((*what).to_owned(), mark.to_vec());
        Ok(Answer { status, body, exchange: Exchange { what, mark, port: self.port, begun_at, ended_at } })
    }

    fn answer(&mut self) -> std::io::Result<(u16, Vec<u8>)> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            self.stream.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
        let mut body = vec![0; length.unwrap_or_else(|| panic!("an answer without a length: {head}"))];
        self.stream.read_exact(&mut body)?;
        Ok((status, body))
    }
}

/// The wall clock in microseconds, which the trace has as well.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_micros()).unwrap()
}
