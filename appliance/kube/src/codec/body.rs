//! Bodies of requests and answers.

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;

/// An answer's body: whole, or the endless lines of a watch.
pub type Body = UnsyncBoxBody<Bytes, Infallible>;

/// The largest request body, as Kubernetes has it.
pub const BODY_BYTES_MAX: usize = 3 << 20;
