//! Management controllers with a memory, for tests of any client that drives one. No product links them.
//!
//! | module | speaks | with faults |
//! |---|---|---|
//! | [`redfish`] | Redfish over HTTP | of services as vendors make them |
//! | [`ipmi`] | IPMI 2.0 over LAN | of BMCs, and of the way to them |
//!
//! Each answers from a state that a test reads and changes while it runs. The logic is pure; a listener or a socket
//! stands before it only where a test asks for one. The crate knows neither hosts nor the appliance.

pub mod ipmi;
pub mod redfish;
