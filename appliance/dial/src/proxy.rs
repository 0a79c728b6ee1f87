//! The proxy that the settings name, and which requests go by it.
//!
//! Where there is one, it is the proxy that resolves names and connects: the appliance judges only what is an address by
//! its text. Environment variables are not looked at: what they say is meant for other programs.

use std::{fmt, io};

use firesteel_facts::AddressBlock;
use http::StatusCode;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use url::{Host, Url};

use crate::error::DialError;

/// The longest head of a proxy's answer.
const ANSWER_BYTES_MAX: usize = 8 << 10;

/// A proxy for HTTP (RFC 9110, section 3.7), which also makes tunnels (section 9.3.6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    host: String,
    port: u16,
    /// What is asked directly.
    except: Vec<Exception>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Exception {
    Block(AddressBlock),
    /// A name, and all names below it.
    Name(String),
}

/// Why a text is no proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    #[error("give it as http://HOST:PORT, without a path, a user or a password")]
    Form,
}

impl Proxy {
    /// Reads `http://HOST:PORT`; `except` are names and blocks of addresses that are asked directly.
    ///
    /// # Errors
    /// When it is not of that form.
    pub fn parse(text: &str, except: &[String]) -> Result<Self, ProxyError> {
        let url = Url::parse(text).ok().filter(|url| url.scheme() == "http").ok_or(ProxyError::Form)?;
        let is_bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
        if !is_bare || !url.username().is_empty() || url.password().is_some() {
            return Err(ProxyError::Form);
        }
        let host = url.host_str().ok_or(ProxyError::Form)?.to_owned();
        let port = url.port_or_known_default().ok_or(ProxyError::Form)?;
        let exception = |text: &String| match text.parse() {
            Ok(block) => Exception::Block(block),
            Err(_) => Exception::Name(text.trim_start_matches('.').trim_end_matches('.').to_ascii_lowercase()),
        };
        Ok(Self { host, port, except: except.iter().map(exception).collect() })
    }

    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Whether this address is asked through it.
    pub(crate) fn serves(&self, url: &Url) -> bool {
        let is_in = |exception: &Exception| match (exception, url.host()) {
            (Exception::Block(block), Some(Host::Ipv4(ip))) => block.contains(ip.into()),
            (Exception::Block(block), Some(Host::Ipv6(ip))) => block.contains(ip.into()),
            (Exception::Name(name), Some(Host::Domain(host))) => {
                let host = host.trim_end_matches('.');
                let above = host.strip_suffix(name.as_str());
                above.is_some_and(|above| above.is_empty() || above.ends_with('.'))
            }
            (Exception::Block(_), Some(Host::Domain(_)) | None)
            | (Exception::Name(_), Some(Host::Ipv4(_) | Host::Ipv6(_)) | None) => false,
        };
        !self.except.iter().any(is_in)
    }

    /// Has it make a tunnel to a place, over a stream to it.
    pub(crate) async fn tunnel<S>(&self, stream: &mut S, host: &str, port: u16) -> Result<(), DialError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let to = format!("{host}:{port}");
        let talk = |source| DialError::ProxyTalk { proxy: self.to_string(), to: to.clone(), source };
        let request = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.map_err(talk)?;
        stream.flush().await.map_err(talk)?;
        let mut head = Vec::new();
        // Byte by byte: what follows the head is the tunnel's.
        while !head.ends_with(b"\r\n\r\n") {
            if head.len() == ANSWER_BYTES_MAX {
                return Err(talk(io::Error::other("its answer has no end")));
            }
            head.push(stream.read_u8().await.map_err(talk)?);
        }
        match status_of(&head) {
            Some(status) if status.is_success() => Ok(()),
            Some(status) => Err(DialError::Proxy { proxy: self.to_string(), to: to.clone(), status }),
            None => Err(talk(io::Error::other("its answer is not one of HTTP"))),
        }
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}:{}", self.host, self.port)
    }
}

/// The status in the head of an answer.
fn status_of(head: &[u8]) -> Option<StatusCode> {
    let line = head.split(|byte| *byte == b'\r').next()?;
    let rest = line.strip_prefix(b"HTTP/1.")?;
    let (digits, after) = rest.get(1..)?.strip_prefix(b" ")?.split_at_checked(3)?;
    StatusCode::from_bytes(digits).ok().filter(|_| after.is_empty() || after.starts_with(b" "))
}

/// Reads the head of a proxy's answer, for fuzzing.
pub fn check(head: &[u8]) {
    if let Some(status) = status_of(head) {
        assert!((100..1000).contains(&status.as_u16()), "a status has three digits");
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_a_host_and_a_port() {
        for (text, shown) in [
            ("http://proxy.example:3128", "http://proxy.example:3128"),
            ("http://10.0.0.1", "http://10.0.0.1:80"),
            ("http://[fd00::1]:8080/", "http://[fd00::1]:8080"),
        ] {
            assert_eq!(Proxy::parse(text, &[]).unwrap().to_string(), shown);
        }
        for wrong in ["proxy:3128", "https://proxy", "socks5://proxy", "http://u:p@proxy", "http://proxy/x", ""] {
            assert_eq!(Proxy::parse(wrong, &[]), Err(ProxyError::Form), "{wrong}");
        }
    }

    #[test]
    fn what_is_excepted_is_asked_directly() {
        let except = [".Site.example", "10.0.0.0/8", "mirror", "fd00::/8"].map(str::to_owned);
        let proxy = Proxy::parse("http://proxy:3128", &except).unwrap();
        for (url, is_served) in [
            ("https://example.com/x", true),
            ("https://a.site.example/x", false),
            ("https://site.example./x", false),
            ("https://website.example/x", true),
            ("http://10.1.2.3/x", false),
            ("http://11.1.2.3/x", true),
            ("http://mirror/x", false),
            ("http://[fd12::1]/x", false),
        ] {
            assert_eq!(proxy.serves(&Url::parse(url).unwrap()), is_served, "{url}");
        }
    }

    #[test]
    fn a_status_is_read_and_nothing_else_is() {
        assert_eq!(status_of(b"HTTP/1.1 200 Connection established\r\n\r\n"), Some(StatusCode::OK));
        assert_eq!(status_of(b"HTTP/1.0 407\r\n\r\n"), Some(StatusCode::PROXY_AUTHENTICATION_REQUIRED));
        for wrong in ["", "HTTP/1.1", "HTTP/1.1 20\r\n", "HTTP/1.1 2000\r\n", "HTTP/1.1  200\r\n", "SSH-2.0-x\r\n"] {
            assert_eq!(status_of(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
