//! What is known of the health of a machine: by the word of its BMC, and by its sensors.

use jiff::Timestamp;

/// A BMC's word for its machine and all in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthInputs {
    /// Redfish's (DSP0268, `Status.HealthRollup`): `OK`, `Warning`, `Critical`; another one is as good as none.
    pub word: String,
    /// When it was read.
    pub at: Timestamp,
}

/// What is known of a machine's sensors while they are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SensorInputs {
    /// The first reading is not over yet.
    Awaited,
    /// There is nothing to read; why, in words.
    NotOffered { why: String },
    /// The newest reading is young enough to say how the machine is.
    Fresh(SensorWord),
    /// It is too old for that, or there is none.
    Stale(Option<SensorWord>),
}

/// The worst word of one reading: of the machine as a whole, or of one sensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SensorWord {
    /// Redfish's: `OK`, `Warning`, `Critical`; empty where the BMC says none.
    pub word: String,
    /// The sensor that says it, as its kind and name; empty where it is the machine as a whole.
    pub sensor: String,
    /// When it was read.
    pub at: Timestamp,
}
