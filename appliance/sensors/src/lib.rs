//! Reads the sensors of all hosts in rounds, while the Provisioning object asks for it.
//!
//! ```text
//!   HostEvents ──► SensorHosts ─┐
//!   SensorSettings ─────────────┼─► SensorRounds: schedule ─► readings, so many at a time ─► SensorReader (control, BMC)
//!                               │        ▲                                    │
//!                               │        └──────────── outcome ◄──────────────┤
//!                               └─► SensorTable (metrics), SensorBoard (condition Healthy)
//! ```
//!
//! | module | what it does | |
//! |---|---|---|
//! | `schedule` | when which host is read: pace, places, backoff, one host of a BMC at a time | decides |
//! | `samples` | what is known of each host, what is too old, what metrics show | decides |
//! | `verdict` | the worst word of a reading | decides |
//! | `hosts` | the hosts that have a BMC | data |
//! | `controller` | follows hosts, starts readings, takes their outcomes | performs |
//!
//! This crate opens no connection and knows no other controller: [`SensorReader`] reads one host.

mod controller;
mod hosts;
mod samples;
mod schedule;
mod verdict;

pub use controller::{SensorController, SensorControllerConfig, SensorFault, SensorReader, SensorReadingResult};
pub use samples::{HostSample, HostSampleState, SENSORS_BYTES_MAX, SensorSurvey};
pub use schedule::{IN_FLIGHT_MAX, ReadingOutcome, SensorSchedule};

/// How sensors are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SensorSettings {
    /// The time from one reading of a host to the next.
    pub every: std::time::Duration,
    /// The default alerts may fire.
    pub with_alerts: bool,
}
