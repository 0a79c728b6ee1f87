//! Metrics of the sensors of hosts. Upstream's names where it has them (ironic-prometheus-exporter); each sensor of a
//! host is a series of its own, and all are bounded by what the controller of sensors keeps.
//!
//! A sensor without health has no status, and one without a value no value: nothing is made up. A host whose newest
//! reading is stale has neither, only the time of that reading.

use std::fmt;

use firesteel_bmc::sensors::{Sensor, SensorHealth, SensorKind, SensorUnit};
use firesteel_sensors::{HostSample, HostSampleState, SensorSurvey};

use super::scrape::{ScrapeWriter, number, seconds};

/// A metric of one kind of sensor.
struct StatusMetric {
    kind: SensorKind,
    name: &'static str,
    help: &'static str,
}

const STATUS_METRICS: [StatusMetric; 4] = [
    StatusMetric {
        kind: SensorKind::Temperature,
        name: "baremetal_temperature_status",
        help: "What the BMC says of a temperature: 0 OK, 1 warning, 2 critical",
    },
    StatusMetric {
        kind: SensorKind::Fan,
        name: "baremetal_fan_status",
        help: "What the BMC says of a fan: 0 OK, 1 warning, 2 critical",
    },
    StatusMetric {
        kind: SensorKind::Power,
        name: "baremetal_power_status",
        help: "What the BMC says of a power supply: 0 OK, 1 warning, 2 critical",
    },
    StatusMetric {
        kind: SensorKind::Drive,
        name: "baremetal_drive_status",
        help: "What the BMC says of a drive: 0 OK, 1 warning, 2 critical",
    },
];

/// A metric of the values in one unit.
struct ValueMetric {
    unit: SensorUnit,
    name: &'static str,
    help: &'static str,
}

const VALUE_METRICS: [ValueMetric; 4] = [
    ValueMetric {
        unit: SensorUnit::Celsius,
        name: "firesteel_sensor_temperature_celsius",
        help: "A temperature that the BMC measures",
    },
    ValueMetric { unit: SensorUnit::Rpm, name: "firesteel_sensor_fan_rpm", help: "Speed of a fan in turns per minute" },
    ValueMetric {
        unit: SensorUnit::Percent,
        name: "firesteel_sensor_fan_percent",
        help: "Speed of a fan, of its highest one in percent",
    },
    ValueMetric {
        unit: SensorUnit::Watts,
        name: "firesteel_sensor_power_watts",
        help: "What a machine draws, or a power supply gives",
    },
];

/// The labels of a series: the host, and upstream's name for it.
fn host_labels(sample: &HostSample) -> [(&'static str, String); 3] {
    let (namespace, host) = (sample.key.namespace.clone(), sample.key.name.clone());
    let node = format!("{namespace}~{host}");
    [("namespace", namespace), ("host", host), ("node_name", node)]
}

fn sensor_labels(sample: &HostSample, sensor: &Sensor) -> [(&'static str, String); 4] {
    let [namespace, host, node] = host_labels(sample);
    [namespace, host, node, ("sensor_id", sensor.name.clone())]
}

/// Writes what is known of the sensors of all hosts.
pub(super) fn write(survey: &SensorSurvey, to: &mut ScrapeWriter<'_>) -> fmt::Result {
    let sensors = || survey.hosts.iter().flat_map(|sample| sample.sensors.iter().map(move |sensor| (sample, sensor)));
    for StatusMetric { kind, name, help } in STATUS_METRICS {
        let of_kind = sensors().filter(|(_, sensor)| sensor.kind == kind);
        let all = of_kind.filter_map(|(sample, sensor)| Some((sensor_labels(sample, sensor), status(sensor.health?))));
        to.gauges(name, help, all)?;
    }
    for ValueMetric { unit, name, help } in VALUE_METRICS {
        let all = sensors().filter_map(|(sample, sensor)| {
            let value = sensor.value.filter(|value| value.unit == unit)?;
            Some((sensor_labels(sample, sensor), value.number))
        });
        to.gauges(name, help, all)?;
    }
    let times = survey.hosts.iter().filter_map(|sample| Some((host_labels(sample), seconds(sample.at?))));
    to.gauges("baremetal_last_payload_timestamp_seconds", "When a host's sensors were read last, in Unix time", times)?;
    let count = |state| survey.hosts.iter().filter(|sample| sample.state == state).count() as u64;
    let states = HostSampleState::ALL.map(|state| ([("state", state.word())], number(count(state))));
    to.gauges("firesteel_sensor_hosts", "Hosts with a BMC, by the age of their newest reading", states)?;
    let help = "Sensors that are not shown because there are too many, or because their BMC is slow";
    to.gauge("firesteel_sensors_left_out", help, number(survey.left_out as u64))?;
    let help = "The age at which a reading says nothing any more";
    to.gauge("firesteel_sensor_stale_after_seconds", help, survey.fresh_for.as_secs_f64())?;
    let help = "Whether the default alerts on sensors may fire: 0 or 1";
    to.gauge("firesteel_sensor_default_alerts", help, number(u64::from(survey.settings.with_alerts)))
}

/// Upstream's number for a word.
fn status(health: SensorHealth) -> f64 {
    match health {
        SensorHealth::Ok => 0.0,
        SensorHealth::Warning => 1.0,
        SensorHealth::Critical => 2.0,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use firesteel_bmc::sensors::SensorValue;
    use firesteel_runtime::HostKey;
    use firesteel_sensors::SensorSettings;
    use jiff::Timestamp;
    use prometheus_client::collector::Collector;
    use prometheus_client::encoding::{DescriptorEncoder, text::encode};
    use prometheus_client::registry::Registry;

    use super::*;

    #[derive(Debug)]
    struct Surveyed(SensorSurvey);

    impl Collector for Surveyed {
        fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
            write(&self.0, &mut ScrapeWriter::new(encoder))
        }
    }

    fn sample(name: &str, state: HostSampleState, sensors: Vec<Sensor>) -> HostSample {
        let key = HostKey { namespace: "lab".into(), name: name.into() };
        let at = (state != HostSampleState::NotOffered).then_some(Timestamp::UNIX_EPOCH);
        HostSample { key, state, at, sensors: Arc::from(sensors) }
    }

    #[test]
    fn each_sensor_is_a_series_and_what_is_not_known_is_absent() {
        let fan = |name: &str, value, health| Sensor { kind: SensorKind::Fan, name: name.into(), value, health };
        let rpm = SensorValue { number: 5160.0, unit: SensorUnit::Rpm };
        let fans = vec![fan("Fan \"1\"", Some(rpm), Some(SensorHealth::Critical)), fan("Fan 2", None, None)];
        let survey = SensorSurvey {
            settings: SensorSettings { every: Duration::from_secs(60), with_alerts: false },
            fresh_for: Duration::from_secs(300),
            hosts: vec![
                sample("h1", HostSampleState::Fresh, fans),
                sample("h2", HostSampleState::Stale, Vec::new()),
                sample("h3", HostSampleState::NotOffered, Vec::new()),
            ],
            left_out: 7,
        };
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Surveyed(survey)));
        let mut text = String::new();
        assert!(encode(&mut text, &registry).is_ok());
        let labels = r#"{namespace="lab",host="h1",node_name="lab~h1",sensor_id="Fan \"1\""}"#;
        for line in [
            format!("baremetal_fan_status{labels} 2.0"),
            format!("firesteel_sensor_fan_rpm{labels} 5160.0"),
            r#"baremetal_last_payload_timestamp_seconds{namespace="lab",host="h2",node_name="lab~h2"} 0.0"#.to_owned(),
            r#"firesteel_sensor_hosts{state="fresh"} 1.0"#.to_owned(),
            r#"firesteel_sensor_hosts{state="not-offered"} 1.0"#.to_owned(),
            "firesteel_sensors_left_out 7.0".to_owned(),
            "firesteel_sensor_stale_after_seconds 300.0".to_owned(),
            "firesteel_sensor_default_alerts 0.0".to_owned(),
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("Fan 2") && !text.contains(r#"host="h3""#), "{text}");
    }
}
