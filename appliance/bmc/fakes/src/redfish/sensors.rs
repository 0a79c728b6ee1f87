//! The sensors of the fake service's machine: a chassis with temperatures, fans, power and drives.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::resources::{collection, error, reply};
use super::state::FakeBmcState;
use super::{FakeRequest, FakeResponse};

/// Names the resources in which a service shows its sensors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SensorForm {
    /// `Thermal` and `Power`.
    #[default]
    Older,
    /// `ThermalSubsystem`, `PowerSubsystem` and `Sensors`.
    Newer,
    /// There is no chassis.
    None,
}

/// The sensors of the machine.
#[derive(Clone, Debug)]
pub struct FakeSensors {
    pub form: SensorForm,
    /// Collections are given with their members where a request asks for it.
    pub expands: bool,
    /// The health of the whole system.
    pub system: String,
    /// Members of `Temperatures`, and as `Sensor` resources.
    pub temperatures: Vec<Value>,
    pub fans: Vec<Value>,
    pub supplies: Vec<Value>,
    /// What is drawn, in watts, as it is written.
    pub drawn: Value,
    pub drives: Vec<Value>,
    /// Resources below the chassis, such as `Drives/0`, that answer this status; [`NO_ANSWER`] never comes.
    pub statuses: BTreeMap<String, u16>,
}

/// The status of an answer that never comes.
pub const NO_ANSWER: u16 = 0;

impl Default for FakeSensors {
    fn default() -> Self {
        let status = json!({"State": "Enabled", "Health": "OK"});
        let temperature = |name: &str, celsius: u32| json!({"Name": name, "ReadingCelsius": celsius, "Status": status});
        let fan = |name: &str| json!({"Name": name, "Reading": 5160, "ReadingUnits": "RPM", "Status": status});
        let supply = |name: &str| json!({"Name": name, "LastPowerOutputWatts": 150, "Status": status});
        Self {
            form: SensorForm::default(),
            expands: false,
            system: "Warning".to_owned(),
            temperatures: vec![temperature("CPU1 Temp", 49), temperature("Inlet Temp", 22)],
            fans: vec![fan("Fan 1"), fan("Fan 2")],
            supplies: vec![supply("PSU 1"), supply("PSU 2")],
            drawn: json!(312),
            drives: (0..2).map(|slot| json!({"Name": format!("SSD {slot}"), "Status": status})).collect(),
            statuses: BTreeMap::new(),
        }
    }
}

impl FakeSensors {
    /// Has one fan say this of itself.
    pub fn set_fan_health(&mut self, place: usize, health: &str) {
        if let Some(fan) = self.fans.get_mut(place) {
            fan["Status"]["Health"] = health.into();
        }
    }
}

const CHASSIS: &str = "/redfish/v1/Chassis/1";

impl FakeBmcState {
    /// Links from the system to what has sensors.
    pub(super) fn link_sensors(&self, system: &mut Value) {
        system["Status"] = json!({"State": "Enabled", "Health": "OK", "HealthRollup": self.sensors.system});
        if self.sensors.form != SensorForm::None {
            system["Links"]["Chassis"] = json!([{"@odata.id": CHASSIS}]);
        }
    }

    /// What the service says of its queries.
    pub(super) fn features(&self) -> Value {
        json!({"ExpandQuery": {"Levels": self.sensors.expands, "NoLinks": self.sensors.expands}})
    }

    pub(super) fn chassis(&self, rest: &[&str], request: &FakeRequest) -> FakeResponse {
        let sensors = &self.sensors;
        let number = |text: &str| text.parse::<usize>().ok();
        let member = |all: &[Value], place: &str| {
            number(place).and_then(|place| all.get(place)).map_or_else(|| error(404, "no such member"), reply)
        };
        let list = |name: &str, all: &[Value]| {
            let path = format!("{CHASSIS}/{name}");
            if sensors.expands && request.query.contains("$expand=") {
                return reply(&json!({"@odata.id": path, "Members": all}));
            }
            reply(&collection(&path, &(0..all.len()).map(|place| place.to_string()).collect::<Vec<_>>()))
        };
        if let Some(status) = sensors.statuses.get(&rest.join("/")) {
            return error(*status, "as the test wants it");
        }
        match (sensors.form, rest) {
            (SensorForm::None, _) => error(404, "no chassis"),
            (form, []) => reply(&self.chassis_itself(form)),
            (_, ["Drives", place]) => member(&sensors.drives, place),
            (SensorForm::Older, ["Thermal"]) => {
                reply(&json!({"Temperatures": sensors.temperatures, "Fans": sensors.fans}))
            }
            (SensorForm::Older, ["Power"]) => reply(&json!({
                "PowerControl": [{"Name": "System Power Control", "PowerConsumedWatts": sensors.drawn}],
                "PowerSupplies": sensors.supplies,
            })),
            (SensorForm::Newer, ["ThermalSubsystem"]) => reply(&json!({"Fans": link("ThermalSubsystem/Fans")})),
            (SensorForm::Newer, ["ThermalSubsystem", "Fans"]) => list("ThermalSubsystem/Fans", &sensors.newer_fans()),
            (SensorForm::Newer, ["ThermalSubsystem", "Fans", place]) => member(&sensors.newer_fans(), place),
            (SensorForm::Newer, ["PowerSubsystem"]) => {
                reply(&json!({"PowerSupplies": link("PowerSubsystem/PowerSupplies")}))
            }
            (SensorForm::Newer, ["PowerSubsystem", "PowerSupplies"]) => {
                list("PowerSubsystem/PowerSupplies", &sensors.supplies)
            }
            (SensorForm::Newer, ["PowerSubsystem", "PowerSupplies", place]) => member(&sensors.supplies, place),
            (SensorForm::Newer, ["EnvironmentMetrics"]) => reply(&json!({"PowerWatts": {"Reading": sensors.drawn}})),
            (SensorForm::Newer, ["Sensors"]) => list("Sensors", &sensors.newer_temperatures()),
            (SensorForm::Newer, ["Sensors", place]) => member(&sensors.newer_temperatures(), place),
            _ => error(404, "no such resource"),
        }
    }

    fn chassis_itself(&self, form: SensorForm) -> Value {
        let drives = 0..self.sensors.drives.len();
        let drives: Vec<Value> = drives.map(|place| link(&format!("Drives/{place}"))).collect();
        let mut chassis = json!({"@odata.id": CHASSIS, "Links": {"Drives": drives}});
        let resources: &[&str] = match form {
            SensorForm::Older => &["Thermal", "Power"],
            SensorForm::Newer => &["ThermalSubsystem", "PowerSubsystem", "EnvironmentMetrics", "Sensors"],
            SensorForm::None => &[],
        };
        for name in resources {
            chassis[*name] = link(name);
        }
        chassis
    }
}

impl FakeSensors {
    fn newer_temperatures(&self) -> Vec<Value> {
        let newer = |older: &Value| {
            json!({"Id": older["Name"], "Name": older["Name"], "ReadingType": "Temperature", "ReadingUnits": "Cel",
                "Reading": older["ReadingCelsius"], "Status": older["Status"]})
        };
        self.temperatures.iter().map(newer).collect()
    }

    fn newer_fans(&self) -> Vec<Value> {
        let newer = |older: &Value| {
            json!({"Id": older["Name"], "Name": older["Name"], "Status": older["Status"],
                "SpeedPercent": {"Reading": 45, "SpeedRPM": older["Reading"]}})
        };
        self.fans.iter().map(newer).collect()
    }
}

fn link(name: &str) -> Value {
    json!({"@odata.id": format!("{CHASSIS}/{name}")})
}
