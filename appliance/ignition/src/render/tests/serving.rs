use serde_json::{Value, json};

use super::{file, files, machine, rendered};
use crate::fixtures::fixture;
use crate::render::{Additions, CertificateFile, RenderableConfig, Rendered, ServeError, serve};
use crate::{NewFile, SpecVersion, data_url, version_negotiation};

fn contents(config: &Value, path: &str) -> Value {
    let files = config["storage"]["files"].as_array().unwrap();
    let found: Vec<&Value> = files.iter().filter(|file| file["path"] == path).collect();
    assert_eq!(found.len(), 1, "{path}");
    assert_eq!((&found[0]["mode"], &found[0]["overwrite"]), (&json!(0o644), &json!(true)));
    serde_json::from_slice(&data_url::decode(found[0]["contents"]["source"].as_str().unwrap()).unwrap()).unwrap()
}

fn served(rendered: &Rendered, version: SpecVersion) -> Value {
    serde_json::from_slice(&serve(rendered, &Additions::default(), version).unwrap().bytes).unwrap()
}

fn arguments(more: Value) -> RenderableConfig {
    RenderableConfig { kernel_arguments: vec!["own=1".to_owned()], ..machine("m", json!({"kernelArguments": more})) }
}

/// S1.30
#[test]
fn kernel_arguments_go_where_the_client_looks_for_them() {
    let one = rendered(&[arguments(json!({"shouldExist": ["a", "b c"]}))]);
    for version in SpecVersion::ALL {
        let answer = serve(&one, &Additions::default(), version).unwrap();
        let config: Value = serde_json::from_slice(&answer.bytes).unwrap();
        let file = contents(&config, "/etc/ignition-machine-config-encapsulated.json");
        assert_eq!(
            config["storage"]["files"].as_array().unwrap().last().unwrap()["path"],
            "/etc/ignition-machine-config-encapsulated.json"
        );
        assert_eq!(file["spec"]["config"], json!({"ignition": {"version": version.text()}}));
        if version < SpecVersion::V3_3 {
            assert_eq!(file["spec"]["kernelArguments"], json!(["own=1", "a", "b c"]), "{version}");
            assert_eq!(config.get("kernelArguments"), None, "{version}");
            assert_eq!(answer.moved_kernel_arguments, ["a", "b c"], "{version}");
        } else {
            assert_eq!(file["spec"]["kernelArguments"], json!(["own=1"]), "{version}");
            assert_eq!(config["kernelArguments"], json!({"shouldExist": ["a", "b c"]}), "{version}");
            assert!(answer.moved_kernel_arguments.is_empty(), "{version}");
        }
    }
}

/// S1.30
#[test]
fn an_argument_to_remove_cannot_be_moved() {
    let one = rendered(&[arguments(json!({"shouldNotExist": ["quiet"]}))]);
    let error = serve(&one, &Additions::default(), SpecVersion::V3_2).unwrap_err();
    assert!(error.to_string().contains("kernelArguments.shouldNotExist: needs a client that reads 3.3.0"), "{error}");
    assert_eq!(served(&one, SpecVersion::V3_3)["kernelArguments"], json!({"shouldNotExist": ["quiet"]}));
}

#[test]
fn what_the_node_needs_is_added() {
    let one = rendered(&[machine("m", files(json!([file("/etc/kubernetes/kubelet-ca.crt", "data:,old")])))]);
    let config = served(&one, SpecVersion::V3_5);
    let prefix = "machineconfiguration.openshift.io";
    assert_eq!(
        contents(&config, "/etc/machine-config-daemon/node-annotations.json"),
        json!({
            format!("{prefix}/currentConfig"): one.name,
            format!("{prefix}/desiredConfig"): one.name,
            format!("{prefix}/firstPivotConfig"): one.name,
            format!("{prefix}/state"): "Done",
        })
    );
    let machine = contents(&config, "/etc/ignition-machine-config-encapsulated.json");
    assert_eq!((&machine["kind"], &machine["metadata"]["name"]), (&json!("MachineConfig"), &json!(one.name)));
    let additions = Additions {
        bundles: vec![
            CertificateFile { path: "/etc/kubernetes/kubelet-ca.crt".into(), pem: b"\"new\"".to_vec() },
            CertificateFile { path: "/etc/ca.crt".into(), pem: b"\"ca\"".to_vec() },
            CertificateFile { path: "/etc/absent.crt".into(), pem: Vec::new() },
        ],
        kubeconfig: Some(b"{}".to_vec()),
        image: "registry/os@sha256:1".into(),
        files: vec![NewFile { path: "/etc/firesteel/nonce".into(), mode: 0o600, contents: b"1".to_vec() }],
    };
    let full = serve(&one, &additions, SpecVersion::V3_5).unwrap();
    assert_eq!(format!("{full:?}"), format!("ServedRendering {} bytes of 3.5.0", full.bytes.len()));
    let full: Value = serde_json::from_slice(&full.bytes).unwrap();
    let paths: Vec<&str> =
        full["storage"]["files"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap()).collect();
    assert_eq!(
        paths,
        [
            "/etc/kubernetes/kubelet-ca.crt",
            "/etc/ca.crt",
            "/etc/machine-config-daemon/node-annotations.json",
            "/etc/kubernetes/kubeconfig",
            "/etc/firesteel/nonce",
            "/etc/ignition-machine-config-encapsulated.json",
        ]
    );
    assert_eq!(full["storage"]["files"][0]["contents"]["source"], data_url::encode(b"\"new\""));
    let notes = contents(&full, "/etc/machine-config-daemon/node-annotations.json");
    assert_eq!(notes[format!("{prefix}/currentImage")], "registry/os@sha256:1");
}

#[test]
fn a_file_of_ours_is_not_the_owners() {
    let path = "/etc/ignition-machine-config-encapsulated.json";
    let one = rendered(&[machine("m", json!({"storage": {"links": [{"path": path, "target": "/x"}]}}))]);
    let taken = ServeError::Taken { path: path.to_owned() };
    assert_eq!(serve(&one, &Additions::default(), SpecVersion::V3_5), Err(taken.clone()));
    assert_eq!(taken.status(), 500);
    let below = rendered(&[machine(
        "m",
        json!({"storage": {"links": [{"path": "/etc/machine-config-daemon", "target": "/x"}]}}),
    )]);
    assert!(matches!(serve(&below, &Additions::default(), SpecVersion::V3_5), Err(ServeError::Invalid(_))));
}

/// S1.20
#[test]
fn a_3_0_client_is_served_or_told_406() {
    let asked = version_negotiation::negotiate("application/vnd.coreos.ignition+json;version=3.0.0").unwrap();
    assert_eq!(served(&rendered(&[machine("m", json!({}))]), asked)["ignition"]["version"], "3.0.0");
    let more = rendered(&[machine(
        "m",
        json!({"storage": {"luks": [{"name": "l", "device": "/dev/a", "keyFile": {"source": "data:,k"}}]}}),
    )]);
    let error = serve(&more, &Additions::default(), asked).unwrap_err();
    assert_eq!(error.status(), 406);
    assert_eq!(
        error.to_string(),
        "the pool's config cannot be served as 3.0.0: storage.luks: needs a client that reads 3.2.0"
    );
}

/// The config of upstream's server tests, which is spec 2.2 in YAML.
#[test]
fn upstreams_test_config_is_rendered_for_every_client() {
    let Some(yaml) = fixture("mco/server-testdata/test-config.yaml") else { return };
    let yaml = String::from_utf8(yaml).unwrap();
    let source =
        yaml.lines().find_map(|line| line.trim().strip_prefix("source: ")).unwrap().trim_matches('"').to_owned();
    let (arguments, _) =
        yaml.split_once("  kernelArguments:\n").map(|(_, rest)| rest.split_once("  config:").unwrap()).unwrap();
    let arguments: Vec<String> =
        arguments.lines().map(|line| line.trim().trim_start_matches("- ").to_owned()).collect();
    let old = json!({"ignition": {"version": "2.2.0"}, "storage": {"files": [
        {"contents": {"source": source, "verification": {}}, "filesystem": "root", "mode": 420, "path": "/etc/coreos/update.conf"},
    ]}});
    let config = RenderableConfig {
        kernel_arguments: arguments.clone(),
        config: Some(old),
        ..machine("test-config", json!({}))
    };
    let one = rendered(&[config]);
    for version in SpecVersion::ALL {
        let config = served(&one, version);
        assert_eq!(config["storage"]["files"][0]["contents"]["source"], source, "{version}");
        let file = contents(&config, "/etc/ignition-machine-config-encapsulated.json");
        assert_eq!(file["spec"]["kernelArguments"], json!(arguments));
    }
}
