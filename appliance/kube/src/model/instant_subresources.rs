//! Requests that are made to one object and answered at once, and that nothing is stored of: a token for a
//! service account, a certificate. What an answer is made of belongs to whoever runs the server.

pub use crate::model::kind_parts::IssueSubresource;

use std::fmt;

use jiff::Timestamp;
use serde_json::Value;

use crate::model::{access::Caller, kind::KindInfo, status::Status};

/// An answer to a request, with what the client is told besides.
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
    fn caller_of(&self, token: &str, now: Timestamp) -> Result<(Caller, Vec<String>), String>;
}
