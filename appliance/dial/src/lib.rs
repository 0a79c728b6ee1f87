//! The one way out: each connection to an address that a user named goes through this crate. Control, the BMC client
//! and the downloads of images call it.
//!
//! ```text
//! host, port ─► resolve (once) ─► targets: judge each address ─► connect to one that was judged
//!                                                                     │ every byte that comes is counted
//!                                                                     ▼
//!                                              meter ─► tls ─► exchange (HTTP/1.1, one request at a time)
//!                                                                     ▼
//!                                                 web: redirects, each dialled as if it were named by a user
//! ```
//!
//! | module | what it does | |
//! |---|---|---|
//! | `targets` | which addresses may be dialled | decides |
//! | `redirect` | where an answer leads, and whether that is followed | decides |
//! | `proxy` | which requests go by the proxy of the settings | decides |
//! | `datagram_pace` | how many datagrams are read in a second | decides |
//! | `resolve`, `dialer` | names to judged addresses, and sockets to these | performs |
//! | `meter` | counts what a socket brings, and ends it where that is too much | performs |
//! | `tls`, `exchange`, `web` | TLS, one HTTP exchange, a GET with its redirects | performs |
//!
//! A name is resolved once for a connection, and the connection goes to an address that was judged: what a name means
//! a moment later does not matter. It reads no environment variables: a proxy is one that the settings name.
//! This crate knows no resource kind, no image and no BMC, and quotes nothing that a server sends but its status.

mod datagram_pace;
mod dialer;
mod error;
mod exchange;
mod meter;
mod proxy;
mod redirect;
mod resolve;
mod targets;
mod tls;
mod web;

pub use datagram_pace::DatagramPace;
pub use dialer::Dialer;
pub use error::{DialError, ExchangeError, WebError};
pub use exchange::{HEAD_BYTES_MAX, HttpConnection, raw_bytes_max};
/// The body of an answer that [`HttpConnection::send`] gives.
pub use hyper::body::Incoming;
pub use meter::{ByteAllowance, ExcessBytes, Metered};
pub use proxy::{Proxy, ProxyError, check as check_proxy_answer};
pub use redirect::REDIRECTS_MAX;
pub use resolve::{Resolve, Resolving, SystemResolver};
pub use targets::{RefusedTarget, TargetClass, Targets};
pub use tls::{HANDSHAKE_BYTES_MAX, with_tls};
pub use url::Url;
pub use web::{WebAnswer, WebClient, WebLogin};
