//! What can go wrong between an address and its answer. No text quotes what a server sent but its status.

use std::{io, net::SocketAddr, time::Duration};

use http::StatusCode;

use crate::{meter::ExcessBytes, targets::RefusedTarget};

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    #[error(transparent)]
    Refused(RefusedTarget),
    #[error("the name {host} cannot be resolved")]
    Resolve { host: String, source: io::Error },
    #[error("the name {host} has no address")]
    NoAddress { host: String },
    #[error("{to} cannot be connected to")]
    Connect { to: SocketAddr, source: io::Error },
    #[error("{to} did not answer within {} s", .within.as_secs_f32())]
    Late { to: String, within: Duration },
    #[error("{host} is no name that a certificate could have")]
    TlsName { host: String },
    #[error("TLS with {to} could not be made")]
    Tls { to: String, source: io::Error },
    #[error("the proxy {proxy} does not lead to {to}: it answered {status}; see its settings, and --proxy")]
    Proxy { proxy: String, to: String, status: StatusCode },
    #[error("the proxy {proxy} does not lead to {to}; see that it is one for HTTP, and --proxy")]
    ProxyTalk { proxy: String, to: String, source: io::Error },
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    #[error(transparent)]
    Dial(#[from] DialError),
    /// The connection was over before: nothing of the request went out.
    #[error("the connection was closed before it was used")]
    Unsent,
    #[error(transparent)]
    Excess(ExcessBytes),
    #[error("the connection broke off")]
    Broken { source: hyper::Error },
}

impl ExchangeError {
    /// What ended a connection or a body.
    #[must_use]
    pub fn of(error: hyper::Error) -> Self {
        match ExcessBytes::find(&error) {
            Some(excess) => Self::Excess(excess),
            None => Self::Broken { source: error },
        }
    }
}

/// Why a GET has no answer that counts.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    #[error("it is not an address that can be asked for")]
    Address,
    #[error(
        "it names a user or a password, which are shown to everybody who may read it: put them into a Secret with the \
         keys username and password, and name that in the annotation firesteel.dev/image-login of the host"
    )]
    UserInformation,
    #[error("it redirects more than {} times, perhaps in a circle", crate::redirect::REDIRECTS_MAX)]
    Circle,
    /// `to` is shown without its secrets.
    #[error("it redirects to {to}, which is not followed: {why}")]
    Redirect { to: String, why: &'static str },
}

impl From<DialError> for WebError {
    fn from(error: DialError) -> Self {
        Self::Exchange(error.into())
    }
}

impl WebError {
    /// The target that was not dialled, where that is why.
    #[must_use]
    pub fn refused(&self) -> Option<&RefusedTarget> {
        match self {
            Self::Exchange(ExchangeError::Dial(DialError::Refused(refused))) => Some(refused),
            Self::Exchange(_) | Self::Address | Self::UserInformation | Self::Circle | Self::Redirect { .. } => None,
        }
    }

    /// Whether the same request may well be answered another time.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Exchange(error) => match error {
                ExchangeError::Dial(DialError::Refused(_) | DialError::TlsName { .. }) | ExchangeError::Excess(_) => {
                    false
                }
                ExchangeError::Dial(_) | ExchangeError::Unsent | ExchangeError::Broken { .. } => true,
            },
            Self::Address | Self::UserInformation | Self::Circle | Self::Redirect { .. } => false,
        }
    }
}
