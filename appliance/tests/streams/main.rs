//! Streams from the object to the stamp, in the appliance's own registry and a store in memory. Network and disk are a
//! fake ([`fake::Shop`]), and the clock runs a hundred times as fast as the wall clock.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fake;
mod follow;
mod room;
