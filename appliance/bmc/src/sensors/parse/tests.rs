#![allow(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::sensors::SENSORS_MAX;

fn read(with: fn(&Value, &mut SensorList), resource: Value) -> Vec<Sensor> {
    let mut list = SensorList::default();
    with(&resource, &mut list);
    list.finish().0
}

/// A sensor in one line: kind, name, value with unit, health.
fn line(sensor: &Sensor) -> String {
    let value = sensor.value.map_or_else(|| "-".to_owned(), |value| format!("{}{:?}", value.number, value.unit));
    let health = sensor.health.map_or("-", SensorHealth::word);
    format!("{} {} {value} {health}", sensor.kind.word(), sensor.name)
}

fn lines(sensors: &[Sensor]) -> Vec<String> {
    sensors.iter().map(line).collect()
}

#[test]
fn the_older_resources_have_values_units_and_health() {
    let thermal_resource = json!({
        "Temperatures": [
            {"MemberId": "0", "Name": "CPU1 Temp", "ReadingCelsius": 49, "Status": {"State": "Enabled", "Health": "OK"}},
            {"Name": "Inlet", "ReadingCelsius": -3.5, "Status": {"State": "Enabled", "Health": "Warning"}},
        ],
        "Fans": [
            {"Name": "Fan1A", "Reading": 5160, "ReadingUnits": "RPM", "Status": {"Health": "Critical"}},
            {"FanName": "Fan 2", "Reading": 23, "ReadingUnits": "Percent", "Status": {"Health": "OK"}},
            {"FanName": "Fan 3", "CurrentReading": 17},
        ],
    });
    let all = read(thermal, thermal_resource);
    assert_eq!(
        lines(&all),
        [
            "temperature CPU1 Temp 49Celsius OK",
            "temperature Inlet -3.5Celsius Warning",
            "fan Fan1A 5160Rpm Critical",
            "fan Fan 2 23Percent OK",
            "fan Fan 3 17Percent -",
        ]
    );
    let power_resource = json!({
        "PowerControl": [{"Name": "System Power Control", "PowerConsumedWatts": 312}],
        "PowerSupplies": [
            {"Name": "PS1", "LastPowerOutputWatts": 150, "Status": {"State": "Enabled", "Health": "OK"}},
            {"Name": "PS2", "Status": {"State": "UnavailableOffline", "Health": "Critical"}},
            {"Name": "PS3", "Status": {"State": "Absent"}},
        ],
    });
    let all = read(power, power_resource);
    assert_eq!(
        lines(&all),
        ["power System Power Control 312Watts -", "power PS1 150Watts OK", "power PS2 - Critical"],
        "an empty slot is none, and a supply without input is one that failed"
    );
}

#[test]
fn the_newer_resources_have_the_same() {
    let status = json!({"State": "Enabled", "Health": "OK"});
    let of = |read: fn(&Value) -> Option<Sensor>, resource: Value| read(&resource).as_ref().map(line);
    let temperature = json!({"Id": "cpu", "Name": "CPU", "ReadingType": "Temperature", "ReadingUnits": "Cel",
        "Reading": 61.25, "Status": status});
    assert_eq!(of(single_sensor, temperature).as_deref(), Some("temperature CPU 61.25Celsius OK"));
    let speed = json!({"Name": "F", "ReadingType": "Rotational", "ReadingUnits": "{rev}/min", "Reading": 9000});
    assert_eq!(of(single_sensor, speed).as_deref(), Some("fan F 9000Rpm -"));
    let kelvin = json!({"Name": "K", "ReadingType": "Temperature", "ReadingUnits": "K", "Reading": 300});
    assert_eq!(of(single_sensor, kelvin).as_deref(), Some("temperature K - -"), "a number of another unit is none");
    assert_eq!(of(single_sensor, json!({"Name": "V", "ReadingType": "Voltage", "Reading": 12})), None);
    let percent = json!({"Name": "Fan 1", "SpeedPercent": {"Reading": 45}, "Status": status});
    assert_eq!(of(fan, percent).as_deref(), Some("fan Fan 1 45Percent OK"));
    let rpm = json!({"Name": "Fan 1", "SpeedPercent": {"Reading": 45, "SpeedRPM": 2100}});
    assert_eq!(of(fan, rpm).as_deref(), Some("fan Fan 1 2100Rpm -"));
    assert_eq!(of(power_supply, json!({"Name": "PSU 1", "Status": status})).as_deref(), Some("power PSU 1 - OK"));
    assert_eq!(of(environment, json!({"PowerWatts": {"Reading": 374.5}})).as_deref(), Some("power Power 374.5Watts -"));
    assert_eq!(of(environment, json!({"TemperatureCelsius": {"Reading": 21}})), None);
    let failing = json!({"Id": "Disk.0", "Name": "SSD 0", "FailurePredicted": true, "Status": status});
    assert_eq!(of(drive, failing).as_deref(), Some("drive SSD 0 - Warning"));
}

#[test]
fn what_is_no_number_is_absent_and_never_zero() {
    for odd in [
        json!(null),
        json!("N/A"),
        json!("NaN"),
        json!("inf"),
        json!("-infinity"),
        json!(""),
        json!(1e300),
        json!([42]),
        json!({"Reading": 42}),
        json!(true),
        json!("4".repeat(100)),
    ] {
        let all = read(thermal, json!({"Temperatures": [{"Name": "T", "ReadingCelsius": odd}]}));
        assert_eq!(lines(&all), ["temperature T - -"], "{odd}");
    }
    let text = json!({"Temperatures": [{"Name": "T", "ReadingCelsius": " 42.5 "}]});
    assert_eq!(lines(&read(thermal, text)), ["temperature T 42.5Celsius -"], "a number that is written as a text");
    let nothing = json!({"Temperatures": [{}, null, "T", 7, []], "Fans": "none"});
    assert!(read(thermal, nothing).is_empty());
    let unnamed = json!({"Temperatures": [{"ReadingCelsius": 42}]});
    assert_eq!(lines(&read(thermal, unnamed)), ["temperature temperature 42Celsius -"]);
    assert!(read(power, json!({"PowerControl": [{"Name": "P", "PowerConsumedWatts": null}]})).is_empty());
}

#[test]
fn a_word_that_is_none_of_the_three_says_nothing() {
    for (word, health) in [("OK", Some(SensorHealth::Ok)), ("ok", Some(SensorHealth::Ok)), ("Fine", None), ("", None)] {
        let entry = json!({"Temperatures": [{"Name": "T", "Status": {"Health": word}}]});
        assert_eq!(read(thermal, entry)[0].health, health, "{word}");
    }
    assert_eq!(rolled_up(&json!({"Health": "OK", "HealthRollup": "Warning"})), Some(SensorHealth::Warning));
    assert_eq!(rolled_up(&json!({"Health": "Critical", "HealthRollup": "OK"})), Some(SensorHealth::Critical));
    assert_eq!(rolled_up(&json!({"HealthRollUp": "OK"})), Some(SensorHealth::Ok));
    assert_eq!(rolled_up(&json!(null)), None);
}

#[test]
fn a_huge_list_is_cut_and_counted() {
    let entry = |number: usize| json!({"Name": format!("T{number}"), "ReadingCelsius": number});
    let huge = json!({"Temperatures": (0..5000).map(entry).collect::<Vec<_>>()});
    let mut list = SensorList::default();
    thermal(&huge, &mut list);
    let (sensors, left_out) = list.finish();
    assert_eq!((sensors.len(), left_out), (SENSORS_MAX, 5000 - SENSORS_MAX));
    assert_eq!(resource(&vec![b' '; RESOURCE_BYTES_MAX + 1]), None);
    assert_eq!(resource(b"[1]"), None);
}

proptest! {
    #[test]
    fn no_body_panics(body in prop::collection::vec(any::<u8>(), 0..200)) {
        check(&body);
    }

    #[test]
    fn near_resources_do_not_panic(name in ".{0,80}", reading in ".{0,12}", number in any::<f64>(), count in 0_usize..300) {
        let entry = json!({"Name": name, "ReadingCelsius": reading, "Reading": number, "PowerConsumedWatts": number,
            "Status": {"Health": reading, "State": name}});
        let body = json!({"Temperatures": vec![entry.clone(); count], "Fans": [entry.clone()],
            "PowerControl": [entry.clone()], "ReadingType": "Temperature", "Reading": reading, "Name": name});
        check(body.to_string().as_bytes());
    }
}
