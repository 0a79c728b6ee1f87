//! The JSON of sensors, as DSP0268 has it and as services write it. Pure, and bounded: a list is read as far as
//! [`LIST_MAX`], a body as far as [`RESOURCE_BYTES_MAX`].
//!
//! | resource | what it has |
//! |---|---|
//! | `Thermal` (older) | temperatures and fans, with health |
//! | `Power` (older) | what is drawn, and power supplies with health |
//! | `ThermalSubsystem`, `Fans`, `Sensors` | the same, each fan and sensor a resource of its own |
//! | `PowerSubsystem`, `PowerSupplies`, `EnvironmentMetrics` | the same of power |
//! | `Drive` | the health of one drive |
//!
//! Services write numbers as texts, leave members out, or put in words such as `N/A`: what is no finite number is
//! absent.

use serde_json::Value;

use super::list::{SensorList, sensor_name};
use super::{Sensor, SensorHealth, SensorKind, SensorUnit, SensorValue};

/// The longest resource that is read. The largest in use, `Thermal` of an eight-socket machine, has some 60 KiB.
pub(super) const RESOURCE_BYTES_MAX: usize = 256 * 1024;
/// The most members of one list that are looked at.
pub(super) const LIST_MAX: usize = 256;
/// The largest number that is a measurement of a server.
const NUMBER_MAX: f64 = 1e7;

/// Parses a resource; `None` if it is none, or too long.
pub(super) fn resource(body: &[u8]) -> Option<Value> {
    if body.len() > RESOURCE_BYTES_MAX {
        return None;
    }
    serde_json::from_slice::<Value>(body).ok().filter(Value::is_object)
}

/// Reads the older resource of temperatures and fans.
pub(super) fn thermal(resource: &Value, to: &mut SensorList) {
    members(&resource["Temperatures"], to, |entry| {
        let value = number(&entry["ReadingCelsius"]).map(|number| SensorValue { number, unit: SensorUnit::Celsius });
        sensor(SensorKind::Temperature, entry, value)
    });
    members(&resource["Fans"], to, |entry| {
        let unit = match entry["ReadingUnits"].as_str() {
            Some(word) if word.eq_ignore_ascii_case("percent") || word == "%" => Some(SensorUnit::Percent),
            Some(word) if word.eq_ignore_ascii_case("rpm") => Some(SensorUnit::Rpm),
            // A number of an unknown unit is no value.
            Some(_) | None => None,
        };
        let named = number(&entry["Reading"]).zip(unit);
        // Services before 2016 have these instead.
        let older = || number(&entry["ReadingRPM"]).map(|number| (number, SensorUnit::Rpm));
        let oldest = || number(&entry["CurrentReading"]).map(|number| (number, SensorUnit::Percent));
        let value = named.or_else(older).or_else(oldest).map(|(number, unit)| SensorValue { number, unit });
        sensor(SensorKind::Fan, entry, value)
    });
}

/// Reads the older resource of power.
pub(super) fn power(resource: &Value, to: &mut SensorList) {
    members(&resource["PowerControl"], to, |entry| {
        let drawn = number(&entry["PowerConsumedWatts"])?;
        let mut drawing = sensor(SensorKind::Power, entry, Some(watts(drawn)))?;
        // Vendors call it "System Power Control", "Server Power Control", or leave the name out.
        if name_of(entry).is_none() {
            "Power Control".clone_into(&mut drawing.name);
        }
        Some(drawing)
    });
    members(&resource["PowerSupplies"], to, |entry| {
        let of = |field: &str| number(&entry[field]);
        let output = of("LastPowerOutputWatts").or_else(|| of("PowerOutputWatts")).or_else(|| of("PowerInputWatts"));
        sensor(SensorKind::Power, entry, output.map(watts))
    });
}

/// Reads a `Sensor` (DSP0268): a temperature, a fan's speed, or power. Others are none of the four kinds.
pub(super) fn single_sensor(resource: &Value) -> Option<Sensor> {
    let unit = resource["ReadingUnits"].as_str().unwrap_or_default();
    let (kind, unit) = match resource["ReadingType"].as_str()? {
        "Temperature" => (SensorKind::Temperature, is_unit(unit, &["Cel"]).then_some(SensorUnit::Celsius)),
        "Rotational" => (SensorKind::Fan, is_unit(unit, &["RPM", "{rev}/min", "rev/min"]).then_some(SensorUnit::Rpm)),
        "Power" => (SensorKind::Power, is_unit(unit, &["W"]).then_some(SensorUnit::Watts)),
        _ => return None,
    };
    let value = number(&resource["Reading"]).zip(unit).map(|(number, unit)| SensorValue { number, unit });
    sensor(kind, resource, value)
}

/// Says whether a unit is one of these, or is left out; DSP0268 names them by UCUM.
fn is_unit(word: &str, units: &[&str]) -> bool {
    word.is_empty() || units.iter().any(|unit| word.trim().eq_ignore_ascii_case(unit))
}

/// Reads a `Fan`.
pub(super) fn fan(resource: &Value) -> Option<Sensor> {
    let speed = &resource["SpeedPercent"];
    let rpm = number(&speed["SpeedRPM"]).map(|number| SensorValue { number, unit: SensorUnit::Rpm });
    let percent = || number(&speed["Reading"]).map(|number| SensorValue { number, unit: SensorUnit::Percent });
    sensor(SensorKind::Fan, resource, rpm.or_else(percent))
}

/// Reads a `PowerSupply`; its watts are in a resource of their own, which is not asked for.
pub(super) fn power_supply(resource: &Value) -> Option<Sensor> {
    sensor(SensorKind::Power, resource, None)
}

/// Reads what a chassis draws from its `EnvironmentMetrics`.
pub(super) fn environment(resource: &Value) -> Option<Sensor> {
    let drawn = number(&resource["PowerWatts"]["Reading"])?;
    Some(Sensor { kind: SensorKind::Power, name: "Power".to_owned(), value: Some(watts(drawn)), health: None })
}

/// Reads a `Drive`. One that says that it is about to fail is not well, whatever else it says.
pub(super) fn drive(resource: &Value) -> Option<Sensor> {
    let mut drive = sensor(SensorKind::Drive, resource, None)?;
    if resource["FailurePredicted"].as_bool() == Some(true) {
        drive.health = drive.health.max(Some(SensorHealth::Warning));
    }
    Some(drive)
}

/// Reads the health of a resource with all below it.
pub(super) fn rolled_up(status: &Value) -> Option<SensorHealth> {
    let of = |field: &str| status[field].as_str().and_then(SensorHealth::parse);
    of("HealthRollup").or_else(|| of("HealthRollUp")).max(of("Health"))
}

/// Takes each member of a list that is one; what is behind the bound is counted.
fn members(list: &Value, to: &mut SensorList, read: impl Fn(&Value) -> Option<Sensor>) {
    let all = list.as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().take(LIST_MAX).filter_map(read).for_each(|sensor| to.push(sensor));
    to.leave_out(all.len().saturating_sub(LIST_MAX));
}

/// Makes a sensor, unless its slot is empty or nothing is said of it.
fn sensor(kind: SensorKind, entry: &Value, value: Option<SensorValue>) -> Option<Sensor> {
    let status = &entry["Status"];
    if !entry.is_object() || status["State"].as_str() == Some("Absent") {
        return None;
    }
    let (name, health) = (name_of(entry), status["Health"].as_str().and_then(SensorHealth::parse));
    if name.is_none() && value.is_none() && health.is_none() {
        return None;
    }
    Some(Sensor { kind, name: name.unwrap_or_else(|| kind.word().to_owned()), value, health })
}

/// The first name that is one; fans of older services have `FanName`.
fn name_of(entry: &Value) -> Option<String> {
    let names = ["Name", "FanName", "MemberId", "Id"];
    names.into_iter().find_map(|field| entry[field].as_str().and_then(sensor_name))
}

fn watts(number: f64) -> SensorValue {
    SensorValue { number, unit: SensorUnit::Watts }
}

/// A finite number of a possible size, also one that is written as a text.
fn number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) if text.len() <= 32 => text.trim().parse().ok(),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    number.filter(|number| number.is_finite() && number.abs() <= NUMBER_MAX)
}

/// Reads `body` as each resource: an entry for fuzzing.
pub(crate) fn check(body: &[u8]) {
    let Some(found) = resource(body) else { return };
    let mut list = SensorList::default();
    thermal(&found, &mut list);
    power(&found, &mut list);
    let single = [single_sensor, fan, power_supply, environment, drive];
    single.iter().filter_map(|read| read(&found)).for_each(|sensor| list.push(sensor));
    let _health = rolled_up(&found["Status"]);
    let (sensors, _) = list.finish();
    assert!(sensors.len() <= super::SENSORS_MAX, "the number of sensors is bounded");
    let mut names = std::collections::BTreeSet::new();
    for sensor in &sensors {
        assert!(sensor.value.is_none_or(|value| value.number.is_finite()), "a value is a number");
        assert!(!sensor.name.is_empty() && sensor.name.is_ascii(), "a name is plain");
        assert!(names.insert((sensor.kind, &sensor.name)), "a name is one sensor's");
    }
}

#[cfg(test)]
mod tests;
