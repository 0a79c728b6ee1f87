//! The condition Healthy: what the BMC says of its machine, joined with the worst of its sensors.
//!
//! | sensors | Healthy |
//! |---|---|
//! | are not read, or none are offered | by the BMC's last word for the machine, which is read every six hours |
//! | the first reading is awaited | the same |
//! | a fresh reading | by its worst word, of the machine or of one sensor, which is named |
//! | a stale reading, or none | Unknown; a bad word stays until a newer one is read |
//!
//! Nothing that is stale says OK.

use firesteel_resources::{Condition, ConditionStatus};

use crate::host::model::{HealthInputs, HostInputs, SensorInputs, SensorWord};

const TYPE: &str = "Healthy";
const OK: &str = "OK";

/// Upstream's words for what the BMC says, by the BMC's own.
pub(super) fn healthy(seen: &HostInputs) -> Condition {
    let machine = seen.health.as_ref();
    match &seen.sensors {
        None | Some(SensorInputs::Awaited) => of_machine(machine, ""),
        Some(SensorInputs::NotOffered { why }) => of_machine(machine, why),
        Some(SensorInputs::Fresh(reading)) => of_reading(reading),
        Some(SensorInputs::Stale(reading)) => of_stale(machine, reading.as_ref()),
    }
}

/// `otherwise` is the message where the BMC said nothing.
fn of_machine(health: Option<&HealthInputs>, otherwise: &str) -> Condition {
    let said = |health: &HealthInputs| format!("the BMC said {} at {:.0}", health.word, health.at);
    let known = health.and_then(|health| judged(&health.word, said(health)));
    known.unwrap_or_else(|| unknown(otherwise.to_owned()))
}

fn of_reading(SensorWord { word, sensor, .. }: &SensorWord) -> Condition {
    let text = match (word.as_str(), sensor.as_str()) {
        (OK, _) => "the BMC says OK, and so do its sensors".to_owned(),
        (word, "") => format!("the BMC says {word}, and none of its sensors says worse"),
        (word, sensor) => format!("the BMC says {word} of the {sensor}"),
    };
    judged(word, text).unwrap_or_else(|| unknown("neither the BMC nor a sensor says how the machine is".to_owned()))
}

fn of_stale(machine: Option<&HealthInputs>, reading: Option<&SensorWord>) -> Condition {
    let since = "and its sensors have not been read since";
    let last = match reading {
        Some(SensorWord { word, sensor, at }) => {
            let of = if sensor.is_empty() { String::new() } else { format!(" of the {sensor}") };
            judged(word, format!("the BMC said {word}{of} at {at:.0}, {since}"))
        }
        None => machine.and_then(|HealthInputs { word, at }| {
            judged(word, format!("the BMC said {word} at {at:.0}, and its sensors cannot be read"))
        }),
    };
    let bad = last.filter(|condition| condition.status != ConditionStatus::True);
    bad.unwrap_or_else(|| {
        unknown(match reading {
            Some(reading) => format!("the BMC said {} at {:.0}, {since}", shown(&reading.word), reading.at),
            None => "the sensors cannot be read: the log says why".to_owned(),
        })
    })
}

/// A condition by one of Redfish's three words; `None` by any other.
fn judged(word: &str, text: String) -> Option<Condition> {
    match word {
        OK => Some(Condition::new(TYPE, true, OK, text)),
        "Warning" | "Critical" => Some(Condition::new(TYPE, false, word, text)),
        _ => None,
    }
}

fn shown(word: &str) -> &str {
    if word.is_empty() { "nothing" } else { word }
}

fn unknown(text: String) -> Condition {
    let mut condition = Condition::new(TYPE, false, "Unknown", text);
    condition.status = ConditionStatus::Unknown;
    condition
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use firesteel_resources::BareMetalHost;

    use super::*;
    use crate::host::model::HostMemory;

    const AT: &str = "2026-01-01T02:03:04Z";

    fn condition(machine: Option<&str>, sensors: Option<SensorInputs>) -> String {
        let mut seen = HostInputs::new(BareMetalHost::default(), HostMemory::default(), AT.parse().unwrap(), 0);
        seen.health = machine.map(|word| HealthInputs { word: word.to_owned(), at: AT.parse().unwrap() });
        seen.sensors = sensors;
        let Condition { status, reason, message, .. } = healthy(&seen);
        format!("{status:?} {reason}: {message}")
    }

    fn word(word: &str, sensor: &str) -> SensorWord {
        SensorWord { word: word.to_owned(), sensor: sensor.to_owned(), at: AT.parse().unwrap() }
    }

    #[test]
    fn the_worst_word_of_a_fresh_reading_counts_and_names_its_sensor() {
        let of = |reading| condition(Some("OK"), Some(SensorInputs::Fresh(reading)));
        assert_eq!(of(word("OK", "")), "True OK: the BMC says OK, and so do its sensors");
        assert_eq!(of(word("Warning", "fan Fan 3")), "False Warning: the BMC says Warning of the fan Fan 3");
        let whole = of(word("Critical", ""));
        assert_eq!(whole, "False Critical: the BMC says Critical, and none of its sensors says worse");
        assert!(of(word("", "")).starts_with("Unknown Unknown: neither"), "a word that is missing is not OK");
    }

    #[test]
    fn nothing_that_is_stale_says_ok() {
        for machine in [None, Some("OK"), Some("Warning"), Some("Critical"), Some("Fine")] {
            for reading in [None, Some(word("OK", "")), Some(word("", "")), Some(word("Critical", "drive SSD 1"))] {
                let said = condition(machine, Some(SensorInputs::Stale(reading.clone())));
                assert!(!said.starts_with("True"), "{machine:?} {reading:?}: {said}");
            }
        }
        let ok = condition(Some("OK"), Some(SensorInputs::Stale(Some(word("OK", "")))));
        assert_eq!(ok, format!("Unknown Unknown: the BMC said OK at {AT}, and its sensors have not been read since"));
        let bad = condition(Some("OK"), Some(SensorInputs::Stale(Some(word("Critical", "drive SSD 1")))));
        let expected = "False Critical: the BMC said Critical of the drive SSD 1 at";
        assert!(bad.starts_with(expected) && bad.ends_with("have not been read since"), "{bad}");
        let unread = condition(Some("OK"), Some(SensorInputs::Stale(None)));
        assert_eq!(unread, "Unknown Unknown: the sensors cannot be read: the log says why");
    }

    #[test]
    fn without_sensors_it_is_the_machine_as_a_whole() {
        for sensors in [None, Some(SensorInputs::Awaited), Some(SensorInputs::NotOffered { why: "no".to_owned() })] {
            assert_eq!(condition(Some("OK"), sensors), format!("True OK: the BMC said OK at {AT}"));
        }
        assert_eq!(condition(None, None), "Unknown Unknown: ");
        let why = Some(SensorInputs::NotOffered { why: "the BMC speaks IPMI".to_owned() });
        assert_eq!(condition(None, why), "Unknown Unknown: the BMC speaks IPMI");
    }
}
