//! Who sends a download's requests: the agent by a client that knows its appliance alone, the appliance by one that
//! judges where it is led.

use bytes::Bytes;
#[cfg(feature = "import")]
use firesteel_dial::{ExchangeError, WebAnswer, WebClient, WebError, WebLogin};
use reqwest::{StatusCode, header::HeaderMap};

use super::HttpError;

/// The HTTP client for downloads. Clones share its connections.
#[derive(Clone, Debug)]
pub enum DownloadClient {
    /// The agent's, for the one server that it knows by its key.
    Pinned(reqwest::Client),
    /// The appliance's, for addresses that users name.
    #[cfg(feature = "import")]
    Dialing { web: WebClient, login: Option<WebLogin> },
}

impl From<reqwest::Client> for DownloadClient {
    fn from(client: reqwest::Client) -> Self {
        Self::Pinned(client)
    }
}

#[cfg(feature = "import")]
impl From<WebClient> for DownloadClient {
    fn from(web: WebClient) -> Self {
        Self::Dialing { web, login: None }
    }
}

/// An answer whose body is still to come.
#[derive(Debug)]
pub(super) enum DownloadResponse {
    Pinned(reqwest::Response),
    #[cfg(feature = "import")]
    Dialed(WebAnswer),
}

impl DownloadClient {
    /// Sends a login to the origin of each address. The agent's client has one of its own.
    #[cfg(feature = "import")]
    #[must_use]
    pub fn with_login(self, login: Option<WebLogin>) -> Self {
        match self {
            Self::Pinned(client) => Self::Pinned(client),
            Self::Dialing { web, .. } => Self::Dialing { web, login },
        }
    }

    /// Asks for an address whose body may have so many bytes. `shown` is the address without its secrets.
    #[cfg_attr(not(feature = "import"), allow(unused_variables, reason = "only what is dialled is bounded below HTTP"))]
    pub(super) async fn get(
        &self,
        url: &str,
        headers: HeaderMap,
        bytes_max: u64,
        shown: &str,
    ) -> Result<DownloadResponse, HttpError> {
        match self {
            Self::Pinned(client) => {
                let sent = client.get(url).headers(headers).send().await;
                let failed = |source: reqwest::Error| HttpError::Request {
                    url: shown.to_owned(),
                    source: source.without_url().into(),
                };
                sent.map(DownloadResponse::Pinned).map_err(failed)
            }
            #[cfg(feature = "import")]
            Self::Dialing { web, login } => {
                let parsed = reqwest::Url::parse(url).map_err(|_| HttpError::Address { url: shown.to_owned() })?;
                let answer = web.get(&parsed, &headers, login.as_ref(), bytes_max).await;
                answer.map(DownloadResponse::Dialed).map_err(|error| of_web(error, shown))
            }
        }
    }
}

impl DownloadResponse {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Pinned(response) => response.status(),
            #[cfg(feature = "import")]
            Self::Dialed(answer) => answer.status,
        }
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        match self {
            Self::Pinned(response) => response.headers(),
            #[cfg(feature = "import")]
            Self::Dialed(answer) => &answer.headers,
        }
    }

    /// The next bytes of the body; the download stood `at` a byte before them.
    pub(super) async fn chunk(&mut self, shown: &str, at: u64) -> Result<Option<Bytes>, HttpError> {
        let url = || shown.to_owned();
        match self {
            Self::Pinned(response) => {
                let chunk = response.chunk().await;
                chunk.map_err(|source| HttpError::Broken { url: url(), at, source: source.without_url().into() })
            }
            #[cfg(feature = "import")]
            Self::Dialed(answer) => answer.chunk().await.map_err(|error| match error {
                ExchangeError::Excess(excess) => HttpError::Excess { url: url(), source: excess.into() },
                error @ (ExchangeError::Dial(_) | ExchangeError::Unsent | ExchangeError::Broken { .. }) => {
                    HttpError::Broken { url: url(), at, source: error.into() }
                }
            }),
        }
    }
}

#[cfg(feature = "import")]
fn of_web(error: WebError, shown: &str) -> HttpError {
    let url = shown.to_owned();
    if error.refused().is_some() {
        return HttpError::Refused { url, source: error.into() };
    }
    match error {
        WebError::UserInformation => HttpError::UserInformation { url },
        WebError::Address => HttpError::Address { url },
        WebError::Circle | WebError::Redirect { .. } => HttpError::Redirect { url, source: error.into() },
        WebError::Exchange(ExchangeError::Excess(excess)) => HttpError::Excess { url, source: excess.into() },
        WebError::Exchange(_) => HttpError::Request { url, source: error.into() },
    }
}
