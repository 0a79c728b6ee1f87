//! The planner against a simulated host: flows, properties of random histories, and the graph of
//! states. No time passes: the clock is a number.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod faults;
mod flows;
mod graph;
mod properties;
mod requests;
mod world;
