//! Sensors of a machine as its BMC shows them by Redfish: temperatures, fans, power and drives.
//!
//! ```text
//! read    a chassis' resources, found once and asked each time: bounded in requests and time   (performs)
//! layout  where the sensors were found, and the drives that take turns                         (data)
//! parse   the JSON of each resource to sensors; every list is bounded                            (pure)
//! list    sensors of one reading: names that differ, and the worst ones where there are too many (pure)
//! ```
//!
//! A value or health that the BMC does not give is absent, never zero or OK. Health is what the BMC says
//! (`Status.Health`, DSP0268): no threshold is judged here.

mod layout;
mod list;
mod parse;
mod read;

pub use layout::SensorLayout;
pub(crate) use parse::check;

/// The most sensors of one reading. Large servers show about a hundred.
pub const SENSORS_MAX: usize = 128;
/// The longest name of a sensor, in characters.
pub const SENSOR_NAME_CHARS_MAX: usize = 64;

/// What a sensor watches: upstream's four words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SensorKind {
    Temperature,
    Fan,
    /// A power supply, or what the machine draws.
    Power,
    Drive,
}

impl SensorKind {
    pub const ALL: [Self; 4] = [Self::Temperature, Self::Fan, Self::Power, Self::Drive];

    /// Returns the word for people and metrics.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Temperature => "temperature",
            Self::Fan => "fan",
            Self::Power => "power",
            Self::Drive => "drive",
        }
    }
}

/// The unit of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SensorUnit {
    Celsius,
    /// Revolutions per minute.
    Rpm,
    Percent,
    Watts,
}

/// A value with its unit; always a finite number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SensorValue {
    pub number: f64,
    pub unit: SensorUnit,
}

/// A BMC's word for a part of its machine; a worse one is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SensorHealth {
    Ok,
    Warning,
    Critical,
}

impl SensorHealth {
    /// Reads Redfish's word (DSP0268, `Health`); another one says nothing.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        let all = [Self::Ok, Self::Warning, Self::Critical];
        all.into_iter().find(|health| word.trim().eq_ignore_ascii_case(health.word()))
    }

    /// Returns Redfish's word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Warning => "Warning",
            Self::Critical => "Critical",
        }
    }
}

/// One sensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Sensor {
    pub kind: SensorKind,
    /// Plain and bounded; differs from the other names of its kind.
    pub name: String,
    /// Is absent where the BMC gives no number.
    pub value: Option<SensorValue>,
    /// Is absent where the BMC says nothing of it.
    pub health: Option<SensorHealth>,
}

/// All sensors of a machine at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SensorReading {
    /// The sensors by kind, and within a kind as the BMC lists them.
    pub sensors: Vec<Sensor>,
    /// What the BMC says of the whole machine.
    pub system: Option<SensorHealth>,
    /// The number of sensors that are not in here because there are too many, or because time was short.
    pub left_out: usize,
}
