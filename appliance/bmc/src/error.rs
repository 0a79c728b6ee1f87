//! What can go wrong with a BMC. Each text says what to do.

use firesteel_dial::DialError;

/// What is refused, where a session is and the service does not say why.
pub(crate) const SESSION: &str = "a session";

/// Longest part of a text of the BMC that an error quotes.
pub(crate) const BMC_TEXT_CHARS_MAX: usize = 200;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("the BMC cannot be reached ({detail}): check bmc.address, the BMC's network and that it is powered")]
    Unreachable { detail: String },
    #[error("bmc.address does not name a BMC that may be asked: {detail}")]
    TargetRefused { detail: String },
    #[error(
        "the BMC's certificate or TLS was refused ({detail}): give its CA by `firesteel serve --bmc-ca`, or set bmc.disableCertificateVerification"
    )]
    Tls { detail: String },
    #[error(
        "the BMC offers only {offer}, and these are no longer supported: update its firmware, or have it offer others"
    )]
    TlsTooOld { offer: String },
    #[error(
        "a TLS connection with the BMC could not be made, whatever its certificate ({detail}): check that bmc.address \
         names a port with HTTPS, and update the BMC's firmware or give it another key"
    )]
    TlsFailed { detail: String },
    #[error("the BMC did not answer {what}: it may be restarting or overloaded")]
    Timeout { what: String },
    #[error("the BMC refuses the login: check username and password in the Secret of bmc.credentialsName")]
    Unauthorized,
    #[error("the BMC knows no such user: check username in the Secret of bmc.credentialsName")]
    UnknownUser,
    #[error(
        "the BMC has another password for this user, or hides that it does not know the user: check username and password \
         in the Secret of bmc.credentialsName"
    )]
    WrongPassword,
    #[error("the login is not one for IPMI ({detail}): change it in the BMC and in the Secret of bmc.credentialsName")]
    UnfitLogin { detail: String },
    #[error("the BMC has no session free: end those of others, or wait until they end by themselves")]
    NoSessionFree,
    #[error(
        "the BMC has no session free, and refused this login by Basic authentication: end sessions of others, or wait \
         until they end by themselves"
    )]
    NoSessionNorBasic,
    #[error("the BMC's user may not do this ({message}): give it the role Operator or Administrator")]
    Forbidden { message: String },
    #[error("the BMC has no {path}: check the path in bmc.address")]
    NotFound { path: String },
    #[error("the BMC has {count} systems: name one of them in bmc.address, like {example}")]
    SeveralSystems { count: usize, example: String },
    #[error("the BMC is busy (status {status}): it is asked again later")]
    Busy { status: u16 },
    #[error("{waiting} requests wait for this BMC already: it is slow, or shared by too many hosts")]
    Crowded { waiting: usize },
    #[error("the BMC cannot {what}")]
    Unsupported { what: String },
    #[error("the BMC refused {what} with status {status}: {message}")]
    Refused { what: String, status: u16, message: String },
    #[error("the BMC sends {what} elsewhere ({to}): not followed, because the login would go with it")]
    Redirected { what: String, to: String },
    #[error("the BMC's answer to {what} is not usable: {detail}")]
    BadAnswer { what: String, detail: String },
}

impl Error {
    /// The BMC refused the login, or may have: it may count this one, and lock the account for some more.
    #[must_use]
    pub fn may_count_as_login(&self) -> bool {
        match self {
            Self::Unauthorized
            | Self::UnknownUser
            | Self::WrongPassword
            | Self::UnfitLogin { .. }
            | Self::Forbidden { .. } => true,
            Self::Refused { what, .. } => what == SESSION,
            Self::Unreachable { .. }
            | Self::TargetRefused { .. }
            | Self::Tls { .. }
            | Self::TlsTooOld { .. }
            | Self::TlsFailed { .. }
            | Self::Timeout { .. }
            | Self::NoSessionFree
            | Self::NoSessionNorBasic
            | Self::NotFound { .. }
            | Self::SeveralSystems { .. }
            | Self::Busy { .. }
            | Self::Crowded { .. }
            | Self::Unsupported { .. }
            | Self::Redirected { .. }
            | Self::BadAnswer { .. } => false,
        }
    }

    /// Asking again with nothing changed may help.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::Timeout { .. }
            | Self::Busy { .. }
            | Self::NoSessionFree
            | Self::NoSessionNorBasic
            | Self::Crowded { .. }
            | Self::BadAnswer { .. } => true,
            Self::Refused { status, .. } => *status >= 500,
            Self::TargetRefused { .. }
            | Self::Tls { .. }
            | Self::TlsTooOld { .. }
            | Self::TlsFailed { .. }
            | Self::Unauthorized
            | Self::UnknownUser
            | Self::WrongPassword
            | Self::UnfitLogin { .. }
            | Self::Forbidden { .. }
            | Self::NotFound { .. }
            | Self::SeveralSystems { .. }
            | Self::Unsupported { .. }
            | Self::Redirected { .. } => false,
        }
    }
}

/// What a BMC is, to which there is no connection.
impl From<DialError> for Error {
    fn from(error: DialError) -> Self {
        match &error {
            DialError::Refused(refused) => Self::TargetRefused { detail: refused.to_string() },
            DialError::Resolve { .. }
            | DialError::NoAddress { .. }
            | DialError::Connect { .. }
            | DialError::Late { .. }
            | DialError::TlsName { .. }
            | DialError::Tls { .. }
            | DialError::Proxy { .. }
            | DialError::ProxyTalk { .. } => Self::Unreachable { detail: innermost(&error) },
        }
    }
}

/// The innermost cause says what happened; the outer ones repeat the address.
pub(crate) fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    plain_text(&cause.to_string())
}

/// Foreign text for people: printable ASCII, bounded.
pub(crate) fn plain_text(text: &str) -> String {
    text.chars()
        .take(BMC_TEXT_CHARS_MAX)
        .map(|character| if character.is_ascii_graphic() || character == ' ' { character } else { '?' })
        .collect()
}
