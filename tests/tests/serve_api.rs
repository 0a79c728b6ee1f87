//! `firesteel serve --api-only`, as a person starts it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use firesteel_tests::appliance::Appliance;

const PROGRAM: &str = env!("CARGO_BIN_EXE_firesteel-tested");
const HOST: &str = "apiVersion: metal3.io/v1alpha1\nkind: BareMetalHost\nmetadata: {name: h1}\nspec: {online: true}\n";

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The file is all that a client needs, and all that anybody gets.
#[test]
fn it_leaves_a_kubeconfig_with_the_port_that_it_has() {
    let mut appliance = Appliance::start(PROGRAM);
    let mode = fs::metadata(appliance.kubeconfig()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let url = appliance.url();
    let port: u16 = url.strip_prefix("https://127.0.0.1:").unwrap().parse().unwrap();
    assert_ne!(port, 0, "{url}");
    let host = appliance.folder().join("h1.yaml");
    fs::write(&host, HOST).unwrap();
    output(appliance.command().args(["apply", "--filename"]).arg(&host));
    appliance.kill_and_start_again();
    assert!(output(appliance.command().args(["get", "hosts"])).contains("h1"), "what was applied is there again");
}

#[test]
fn a_host_says_why_nothing_happens_to_it() {
    let appliance = Appliance::start(PROGRAM);
    let host = appliance.folder().join("h1.yaml");
    fs::write(&host, HOST).unwrap();
    output(appliance.command().args(["apply", "--filename"]).arg(&host));
    let reason = loop {
        let text = output(appliance.command().args(["get", "hosts", "h1", "--output", "json"]));
        let host: serde_json::Value = serde_json::from_str(&text).unwrap();
        if let Some(condition) = host.pointer("/status/conditions/0") {
            break condition.clone();
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    assert_eq!((&reason["type"], &reason["status"]), (&"Ready".into(), &"False".into()));
    assert!(reason["message"].as_str().unwrap().contains("--api-only"), "{reason}");
}
