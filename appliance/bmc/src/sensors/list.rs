//! The sensors of one reading while they are collected. Pure.

use std::collections::BTreeMap;

use super::{SENSOR_NAME_CHARS_MAX, SENSORS_MAX, Sensor, SensorKind};
use crate::error::plain_text;

/// The most sensors that are collected before the worst of them are chosen: a chassis' lists at their bounds.
const COLLECTED_MAX: usize = 8 * SENSORS_MAX;

/// Sensors of one reading.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SensorList {
    sensors: Vec<Sensor>,
    left_out: usize,
}

impl SensorList {
    pub(super) fn push(&mut self, sensor: Sensor) {
        if self.sensors.len() < COLLECTED_MAX {
            self.sensors.push(sensor);
        } else {
            self.left_out += 1;
        }
    }

    /// Counts sensors that are there and were not read.
    pub(super) fn leave_out(&mut self, count: usize) {
        self.left_out = self.left_out.saturating_add(count);
    }

    /// Says whether a sensor of this kind is in it.
    pub(super) fn has(&self, kind: SensorKind) -> bool {
        self.sensors.iter().any(|sensor| sensor.kind == kind)
    }

    /// Returns the sensors with names that differ, and how many are left out. Where there are too many, the worst stay.
    pub(super) fn finish(self) -> (Vec<Sensor>, usize) {
        let Self { mut sensors, mut left_out } = self;
        if sensors.len() > SENSORS_MAX {
            left_out += sensors.len() - SENSORS_MAX;
            // Stable: among those that are alike the first stay.
            sensors.sort_by_key(|sensor| std::cmp::Reverse(sensor.health));
            sensors.truncate(SENSORS_MAX);
        }
        sensors.sort_by_key(|sensor| sensor.kind);
        let mut seen: BTreeMap<(SensorKind, String), u32> = BTreeMap::new();
        for sensor in &mut sensors {
            let count = seen.entry((sensor.kind, sensor.name.clone())).or_default();
            *count += 1;
            let mut number = *count;
            // A BMC may itself call one "Fan (2)".
            while number > 1 {
                let name = format!("{} ({number})", sensor.name);
                if let std::collections::btree_map::Entry::Vacant(free) = seen.entry((sensor.kind, name.clone())) {
                    free.insert(1);
                    sensor.name = name;
                    break;
                }
                number += 1;
            }
        }
        (sensors, left_out)
    }
}

/// Makes a name for people and labels of a BMC's text; `None` if nothing is left of it.
pub(super) fn sensor_name(text: &str) -> Option<String> {
    let name: String = plain_text(text.trim()).chars().take(SENSOR_NAME_CHARS_MAX).collect();
    let name = name.trim().to_owned();
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sensors::SensorHealth;

    fn sensor(kind: SensorKind, name: &str, health: Option<SensorHealth>) -> Sensor {
        Sensor { kind, name: name.to_owned(), value: None, health }
    }

    #[test]
    fn names_differ_whatever_a_bmc_calls_its_sensors() {
        let mut list = SensorList::default();
        for name in ["Fan", "Fan", "Fan (2)", "Fan", "Fan (2)"] {
            list.push(sensor(SensorKind::Fan, name, None));
        }
        list.push(sensor(SensorKind::Temperature, "Fan", None));
        let (sensors, left_out) = list.finish();
        let names: Vec<&str> = sensors.iter().map(|sensor| sensor.name.as_str()).collect();
        let distinct: std::collections::BTreeSet<(SensorKind, &str)> =
            sensors.iter().map(|sensor| (sensor.kind, sensor.name.as_str())).collect();
        assert_eq!((distinct.len(), left_out), (6, 0), "{names:?}");
        assert_eq!(names[..3], ["Fan", "Fan", "Fan (2)"], "temperatures come first");
    }

    #[test]
    fn of_too_many_the_worst_stay() {
        let mut list = SensorList::default();
        for number in 0..2 * COLLECTED_MAX {
            let health = if number == COLLECTED_MAX - 1 { SensorHealth::Critical } else { SensorHealth::Ok };
            list.push(sensor(SensorKind::Temperature, &format!("T{number}"), Some(health)));
        }
        let (sensors, left_out) = list.finish();
        assert_eq!((sensors.len(), left_out), (SENSORS_MAX, 2 * COLLECTED_MAX - SENSORS_MAX));
        assert_eq!(sensors[0].health, Some(SensorHealth::Critical));
        assert_eq!(sensors[1].name, "T0");
    }

    #[test]
    fn a_name_is_plain_and_bounded() {
        assert_eq!(sensor_name("  CPU1 Temp \n").as_deref(), Some("CPU1 Temp"));
        assert_eq!(sensor_name("a\u{1b}[31m\"b").as_deref(), Some("a?[31m\"b"));
        assert_eq!(sensor_name(" \t"), None);
        assert_eq!(sensor_name(&"x".repeat(1000)).map(|name| name.len()), Some(SENSOR_NAME_CHARS_MAX));
    }
}
