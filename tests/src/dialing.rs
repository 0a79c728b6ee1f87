//! The way to BMCs and origins that tests have on this machine.

#![allow(clippy::unwrap_used, reason = "a test that cannot have it fails by panicking")]

use firesteel_dial::{Dialer, Targets, WebClient};

/// Dials loopback too, as a lab lets it.
#[must_use]
pub fn dialer() -> Dialer {
    Dialer::new(Targets::allowing(["127.0.0.0/8".parse().unwrap()]))
}

/// Fetches by that dialer.
#[must_use]
pub fn web() -> WebClient {
    WebClient::new(dialer()).unwrap()
}
