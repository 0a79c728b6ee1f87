//! A GET with its redirects: each place is dialled and judged as if a user had named it.

use std::{fmt, sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, HOST, USER_AGENT};
use http::{HeaderMap, HeaderValue, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use rustls::ClientConfig;
use url::{Position, Url};

use crate::dialer::Dialer;
use crate::error::{ExchangeError, WebError};
use crate::exchange::HttpConnection;
use crate::proxy::Proxy;
use crate::redirect::{REDIRECTS_MAX, next_place};
use crate::tls;

/// How long to wait for a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(15);

/// Who may fetch something, by Basic authentication (RFC 7617).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct WebLogin {
    pub username: String,
    pub password: String,
}

impl fmt::Debug for WebLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebLogin(…)")
    }
}

impl WebLogin {
    fn header(&self) -> Option<HeaderValue> {
        let pair = STANDARD.encode(format!("{}:{}", self.username, self.password));
        let mut value = HeaderValue::try_from(format!("Basic {pair}")).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

/// Fetches what users name. Clones share everything.
#[derive(Clone, Debug)]
pub struct WebClient {
    dialer: Dialer,
    tls: Arc<ClientConfig>,
    proxy: Option<Arc<Proxy>>,
}

/// An answer whose body is still to come. The connection ends with it.
#[derive(Debug)]
pub struct WebAnswer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    body: Incoming,
    _connection: HttpConnection,
}

impl WebAnswer {
    /// The next bytes of the body; `None` at its proper end.
    ///
    /// # Errors
    /// When the connection breaks, or brings more than it may.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, ExchangeError> {
        loop {
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(ExchangeError::of(error)),
                // Trailers say nothing that counts.
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        return Ok(Some(bytes));
                    }
                }
            }
        }
    }
}

impl WebClient {
    /// Makes a client without a proxy, with the CAs of this system.
    ///
    /// # Errors
    /// When TLS cannot be prepared.
    pub fn new(dialer: Dialer) -> Result<Self, rustls::Error> {
        Ok(Self { dialer, tls: Arc::new(tls::web_config()?), proxy: None })
    }

    /// Connects through a proxy, where one is given.
    #[must_use]
    pub fn through(self, proxy: Option<Proxy>) -> Self {
        Self { proxy: proxy.map(Arc::new), ..self }
    }

    /// Asks for an address, and follows where it leads. The login is shown to the address's own origin alone. The body
    /// may have so many bytes. Time is the caller's to bound, but for connections.
    ///
    /// # Errors
    /// What keeps it from being asked, or answered.
    pub async fn get(
        &self,
        url: &Url,
        headers: &HeaderMap,
        login: Option<&WebLogin>,
        body_bytes_max: u64,
    ) -> Result<WebAnswer, WebError> {
        if !url.username().is_empty() || url.password().is_some() {
            return Err(WebError::UserInformation);
        }
        let (mut place, mut login) = (url.clone(), login);
        for _ in 0..=REDIRECTS_MAX {
            let answer = self.ask(&place, headers, login, body_bytes_max).await?;
            let Some(next) = next_place(&place, answer.status, &answer.headers)? else { return Ok(answer) };
            login = login.filter(|_| next.origin() == place.origin());
            place = next;
        }
        Err(WebError::Circle)
    }

    async fn ask(
        &self,
        url: &Url,
        headers: &HeaderMap,
        login: Option<&WebLogin>,
        body_bytes_max: u64,
    ) -> Result<WebAnswer, WebError> {
        let proxy = self.proxy.as_deref().filter(|proxy| proxy.serves(url));
        let request = request(url, headers, login, proxy.is_some())?;
        let mut connection = self.connect(url, proxy).await?;
        let response = connection.send(request, body_bytes_max).await?;
        let (parts, body) = response.into_parts();
        Ok(WebAnswer { status: parts.status, headers: parts.headers, body, _connection: connection })
    }

    async fn connect(&self, url: &Url, proxy: Option<&Proxy>) -> Result<HttpConnection, WebError> {
        let host = url.host_str().ok_or(WebError::Address)?;
        let port = url.port_or_known_default().ok_or(WebError::Address)?;
        let is_secure = url.scheme() == "https";
        let mut stream = match proxy {
            None => self.dialer.connect(host, port, CONNECT_WITHIN).await?,
            Some(proxy) => {
                self.dialer.judge_for_proxy(host, port)?;
                self.dialer.connect_unjudged(proxy.host(), proxy.port(), CONNECT_WITHIN).await?
            }
        };
        let allowance = stream.allowance();
        if !is_secure {
            return Ok(HttpConnection::over(stream, allowance).await?);
        }
        if let Some(proxy) = proxy {
            proxy.tunnel(&mut stream, host, port).await?;
        }
        let stream = tls::with_tls(stream, host, Arc::clone(&self.tls), CONNECT_WITHIN).await?;
        Ok(HttpConnection::over(stream, allowance).await?)
    }
}

/// A request for an address: in absolute form (RFC 9112, section 3.2.2) where a proxy is to fetch it.
fn request(
    url: &Url,
    headers: &HeaderMap,
    login: Option<&WebLogin>,
    is_proxied: bool,
) -> Result<Request<Full<Bytes>>, WebError> {
    let begin = if is_proxied && url.scheme() == "http" { Position::BeforeScheme } else { Position::BeforePath };
    let mut request = Request::get(&url[begin..Position::AfterQuery])
        .header(HOST, &url[Position::BeforeHost..Position::AfterPort])
        .header(ACCEPT, "*/*")
        .header(USER_AGENT, concat!("firesteel/", env!("CARGO_PKG_VERSION")))
        .body(Full::default())
        .map_err(|_| WebError::Address)?;
    for (name, value) in headers {
        request.headers_mut().insert(name, value.clone());
    }
    if let Some(value) = login.and_then(WebLogin::header) {
        request.headers_mut().insert(AUTHORIZATION, value);
    }
    Ok(request)
}
