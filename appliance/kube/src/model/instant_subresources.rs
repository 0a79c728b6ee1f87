//! Requests to one object that are answered at once, and of which nothing is stored: a token for a service account, a
//! certificate. The program that runs the server makes the answers.

pub use crate::model::kind_parts::IssueSubresource;

use std::fmt;

use jiff::Timestamp;
use serde_json::Value;

use crate::model::{access::Caller, kind::KindInfo, status::Status};

/// An answer to a request, with the warnings for the client.
pub type Issued = (Value, Vec<String>);

/// Makes what callers prove themselves with, and knows it again.
pub trait Issuer: fmt::Debug + Send + Sync {
    /// Answers a request to an object.
    fn answer(
        &self,
        kind: &KindInfo,
        request: &IssueSubresource,
        object: &Value,
        asked: &Value,
        now: Timestamp,
    ) -> Result<Issued, Status>;

    /// Whose a bearer token is, and for whom it is good; or why it is not, in words that show none of it.
    fn caller_of(&self, token: &str, now: Timestamp) -> Result<(Caller, Vec<String>), ServiceAccountTokenError>;
}

/// Why a token is not good. Never shows any of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServiceAccountTokenError {
    #[error("the token is none of this server")]
    Foreign,
    #[error("the token has expired")]
    Expired,
    #[error("the token is not valid yet")]
    Early,
}
