//! What can go wrong with a download, worded so that the reader knows what to do.

use std::error::Error;

use reqwest::StatusCode;

/// The cause of a failed request or body; it never names the address again.
pub type Cause = Box<dyn Error + Send + Sync>;

/// Each `url` is shown without its secrets.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    #[error("{url} is not an http or https address")]
    Address { url: String },
    #[error("{url} names a user or a password")]
    UserInformation { url: String },
    #[error("making an HTTP client")]
    Client { source: Cause },
    #[error("{url} is not fetched")]
    Refused { url: String, source: Cause },
    #[error("{url} leads elsewhere")]
    Redirect { url: String, source: Cause },
    #[error("requesting {url}")]
    // Sources do not name the address again.
    Request { url: String, source: Cause },
    #[error("reading the answer of {url}")]
    Excess { url: String, source: Cause },
    #[error("{url} answered {status}")]
    Status { url: String, status: StatusCode },
    #[error("{url} is {bytes} bytes long; at most {max} are accepted")]
    TooLarge { url: String, bytes: u64, max: u64 },
    #[error("{url} is {found} bytes long, but {expected} were expected")]
    Length { url: String, expected: u64, found: u64 },
    #[error("{url} stalled at byte {at}: nothing came for {seconds} s")]
    Stalled { url: String, at: u64, seconds: u64 },
    #[error("{url} did not come to its end within {seconds} s")]
    Slow { url: String, seconds: u64 },
    #[error("{url} trickles: next to nothing came in {seconds} s up to byte {at}")]
    Trickles { url: String, at: u64, seconds: u64 },
    #[error("{url} broke off at byte {at}")]
    Broken { url: String, at: u64, source: Cause },
    #[error("{url} ended at byte {at} of {expected}")]
    Truncated { url: String, at: u64, expected: u64 },
    #[error("{url} changed during the download: {why}")]
    Changed { url: String, why: &'static str },
    #[error("{url} broke off at byte {at} and cannot be resumed safely, because the server gives no strong ETag")]
    CannotResume { url: String, at: u64 },
}

impl HttpError {
    /// What a person can do about it.
    #[must_use]
    pub fn help(&self) -> &'static str {
        match self {
            Self::Address { .. } => "give an http or https address",
            Self::UserInformation { .. } => {
                "put them into a Secret with the keys username and password in the host's namespace, and name it in the \
                 host's annotation firesteel.dev/image-login"
            }
            Self::Client { .. } => "this is a fault of this program or its system's certificates",
            Self::Refused { .. } => "nothing was asked there",
            Self::Redirect { .. } => "give the address that it leads to in the end",
            Self::Excess { .. } => "see what the server sends before and around the file",
            Self::Request { .. }
            | Self::Stalled { .. }
            | Self::Slow { .. }
            | Self::Trickles { .. }
            | Self::Broken { .. }
            | Self::Truncated { .. } => {
                "see that the server and the network to it work, and that it sends the whole file"
            }
            Self::Status { status: StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, .. } => {
                "correct the address, or have the server give the file to the appliance: a login for a host's image is \
                 in the Secret that the host's annotation firesteel.dev/image-login names"
            }
            Self::Status { status, .. } if status.is_client_error() => {
                "correct the address, or have the server give the file to the appliance"
            }
            Self::Status { .. } => "see the log of the server",
            Self::TooLarge { .. } => "see that the address names a disk image, and one that ends",
            Self::Length { .. } => "see what the server, or a proxy before it, does to the file",
            Self::Changed { .. } => "try again when the file on the server does not change any more",
            Self::CannotResume { .. } => "give the image's checksum, or use a server that gives strong ETags",
        }
    }
}
