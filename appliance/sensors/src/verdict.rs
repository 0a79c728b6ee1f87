//! The worst word of a reading.

use firesteel_bmc::sensors::{Sensor, SensorHealth, SensorReading};
use firesteel_plan::host::SensorWord;
use jiff::Timestamp;

/// Judges a reading that was taken at this time. A sensor is named where it says worse than the machine as a whole, or
/// as bad: it says what to look at.
pub(crate) fn judge(reading: &SensorReading, at: Timestamp) -> SensorWord {
    let worst = reading.sensors.iter().filter(|sensor| sensor.health.is_some()).max_by(|one, other| {
        // Of those that are as bad the first counts, which `max_by` has as the last.
        one.health.cmp(&other.health).then(std::cmp::Ordering::Greater)
    });
    let sensor = worst.filter(|sensor| sensor.health > Some(SensorHealth::Ok) && sensor.health >= reading.system);
    let health = sensor.and_then(|sensor| sensor.health).or(reading.system).or(worst.and_then(|worst| worst.health));
    SensorWord {
        word: health.map(SensorHealth::word).unwrap_or_default().to_owned(),
        sensor: sensor.map(shown).unwrap_or_default(),
        at,
    }
}

fn shown(sensor: &Sensor) -> String {
    format!("{} {}", sensor.kind.word(), sensor.name)
}

#[cfg(test)]
mod tests {
    use firesteel_bmc::sensors::SensorKind;

    use super::*;

    fn word(system: Option<SensorHealth>, sensors: &[(&str, Option<SensorHealth>)]) -> String {
        let sensor = |(name, health): &(&str, Option<SensorHealth>)| Sensor {
            kind: SensorKind::Fan,
            name: (*name).to_owned(),
            value: None,
            health: *health,
        };
        let reading = SensorReading { sensors: sensors.iter().map(sensor).collect(), system, left_out: 0 };
        let SensorWord { word, sensor, .. } = judge(&reading, Timestamp::UNIX_EPOCH);
        format!("{word}/{sensor}")
    }

    #[test]
    fn the_worst_counts_and_the_first_of_the_worst_is_named() {
        use SensorHealth::{Critical, Ok, Warning};
        for (system, sensors, expected) in [
            (Some(Ok), vec![("a", Some(Ok)), ("b", None)], "OK/"),
            (Some(Ok), vec![("a", Some(Warning)), ("b", Some(Critical)), ("c", Some(Critical))], "Critical/fan b"),
            (Some(Warning), vec![("a", Some(Ok)), ("b", Some(Warning))], "Warning/fan b"),
            (Some(Critical), vec![("a", Some(Warning))], "Critical/"),
            (Some(Warning), vec![("a", Some(Ok))], "Warning/"),
            (None, vec![("a", Some(Ok))], "OK/"),
            (None, vec![("a", None)], "/"),
            (None, vec![], "/"),
        ] {
            assert_eq!(word(system, &sensors), expected, "{system:?} {sensors:?}");
        }
    }
}
