//! Sensors of a host that is driven by a BMC: metrics and a condition while the Provisioning object asks for them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use firesteel_bmc::BmcCredentials;
use firesteel_bmc_fakes::redfish::Fake;
use firesteel_tests::field::{Field, mac, with_field};
use firesteel_tests::network::Dhcp;
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use serde_json::{Value, json};
use tokio::net::TcpListener;

const PROGRAM: &str = env!("CARGO_BIN_EXE_firesteel-tested");
/// Only what hangs takes so long: the first reading begins at once.
const PATIENCE: Duration = Duration::from_secs(120);

/// Adds a host with a BMC that is registered, and worked on no further.
fn add_host(field: &Field, runtime: &tokio::runtime::Runtime) -> Fake {
    let login = BmcCredentials { username: "admin".into(), password: "correct horse".into() };
    let fake = Fake::new(login.clone(), mac(1).0);
    "OK".clone_into(&mut fake.state().sensors.system);
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = format!("redfish+http://{}/redfish/v1/Systems/1", listener.local_addr().unwrap());
    runtime.spawn(fake.clone().serve(listener));
    field.apply(&json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bmc"},
        "stringData": {"username": login.username, "password": login.password},
    }));
    field.apply(&json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"name": "c01", "annotations": {"inspect.metal3.io": "disabled"}},
        "spec": {
            "online": false, "bootMACAddress": mac(1).to_string(),
            "bmc": {"address": address, "credentialsName": "bmc"},
        },
    }));
    field.until(&["get", "hosts", "c01"], |table| table.contains("available"));
    fake
}

/// Reads the metrics as Prometheus does, from this thread's namespace.
fn metrics(field: &Field) -> String {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&field.appliance.ca_pem()).unwrap()).unwrap();
    let tls = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let tls = tls.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots).with_no_client_auth();
    let client = reqwest::Client::builder().tls_backend_preconfigured(tls).no_proxy().build().unwrap();
    let url = format!("{}/metrics", field.appliance.url());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        client.get(url).bearer_auth(field.appliance.token()).send().await.unwrap().text().await.unwrap()
    })
}

fn until_metrics(field: &Field, what: &str, are_they: impl Fn(&str) -> bool) -> String {
    let ends_at = Instant::now() + PATIENCE;
    loop {
        let text = metrics(field);
        if are_they(&text) {
            return text;
        }
        assert!(Instant::now() < ends_at, "{what}:\n{text}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn healthy(field: &Field) -> Value {
    let host: Value = serde_json::from_str(&field.firesteel(&["get", "hosts", "c01", "-o", "json"])).unwrap();
    let conditions = host["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == "Healthy").unwrap_or_default()
}

#[test]
fn sensors_are_metrics_and_a_condition_until_they_are_switched_off() {
    with_field(PROGRAM, Dhcp::Managed, |field| {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let fake = add_host(field, &runtime);
        assert!(!metrics(field).contains("baremetal_"), "nothing is read before it is asked for");
        fake.state().sensors.set_fan_health(1, "Critical");

        field.edit_network(&json!({"prometheusExporter": {"enabled": true}}));
        let labels = |sensor: &str| {
            format!(r#"{{namespace="default",host="c01",node_name="default~c01",sensor_id="{sensor}"}}"#)
        };
        let critical = format!("baremetal_fan_status{} 2", labels("Fan 2"));
        let text = until_metrics(field, "the fan is critical", |text| text.contains(&critical));
        for line in [
            format!("baremetal_temperature_status{} 0", labels("CPU1 Temp")),
            format!("firesteel_sensor_temperature_celsius{} 49", labels("CPU1 Temp")),
            format!("firesteel_sensor_power_watts{} 312", labels("System Power Control")),
            format!("baremetal_drive_status{} 0", labels("SSD 0")),
            r#"baremetal_last_payload_timestamp_seconds{namespace="default",host="c01",node_name="default~c01"}"#
                .to_owned(),
            r#"firesteel_sensor_hosts{state="fresh"} 1"#.to_owned(),
            "firesteel_sensor_default_alerts 1".to_owned(),
        ] {
            assert!(text.lines().any(|found| found.starts_with(&line)), "{line} is not in\n{text}");
        }
        field.until(&["get", "hosts", "c01", "-o", "json"], |host| host.contains("Critical of the fan Fan 2"));
        let shown = healthy(field);
        assert_eq!((&shown["status"], &shown["reason"]), (&json!("False"), &json!("Critical")), "{shown}");
        assert_eq!(fake.state().logins_refused, 0);

        field.edit_network(&json!({"prometheusExporter": {"enabled": true, "disableDefaultPrometheusRules": true}}));
        until_metrics(field, "the default alerts are silent", |text| {
            text.contains("firesteel_sensor_default_alerts 0")
        });

        field.edit_network(&json!({"prometheusExporter": {"enabled": false}}));
        until_metrics(field, "the sensors are gone", |text| {
            !text.contains("baremetal_") && !text.contains("firesteel_sensor")
        });
        field.until(&["get", "hosts", "c01", "-o", "json"], |host| !host.contains("of the fan Fan 2"));
        let made = fake.state().requests.iter().filter(|made| made.contains("/Thermal")).count();
        assert!(made >= 1, "the sensors came from the BMC");
        assert!(!field.appliance.log().contains("correct horse"), "no password is in the log");
    });
}
