//! `firesteel serve --api-only`, as a person starts it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

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

/// A person who follows the audit log sees what others do, and who was turned away.
#[test]
fn the_audit_log_says_who_did_what_and_is_followed() {
    let appliance = Appliance::start(PROGRAM);
    let mut following = appliance.command().args(["audit", "--follow"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
    let secret = appliance.folder().join("s.yaml");
    fs::write(&secret, "apiVersion: v1\nkind: Secret\nmetadata: {name: s1}\nstringData: {password: hunter2}\n")
        .unwrap();
    output(appliance.command().args(["apply", "--filename"]).arg(&secret));
    let config = fs::read_to_string(appliance.kubeconfig()).unwrap();
    let stranger = appliance.folder().join("stranger.kubeconfig");
    let token: serde_json::Value = serde_json::from_str(&config).unwrap();
    let token = token.pointer("/users/0/user/token").unwrap().as_str().unwrap();
    fs::write(&stranger, config.replace(token, &"00".repeat(32))).unwrap();
    let refused = appliance.command().args(["get", "hosts", "--kubeconfig"]).arg(&stranger).output().unwrap();
    assert!(!refused.status.success());

    let mut next = |what: &str, wanted: &dyn Fn(&serde_json::Value) -> bool| loop {
        let line = lines.next().unwrap_or_else(|| panic!("the log ended before {what}")).unwrap();
        assert!(!line.contains("hunter2"), "{line}");
        let record: serde_json::Value = serde_json::from_str(&line).unwrap();
        if wanted(&record) {
            break record;
        }
    };
    let made = next("the secret is made", &|record| record["resource"] == "secrets" && record["verb"] != "get");
    assert_eq!((&made["user"], &made["name"]), (&"admin".into(), &"s1".into()), "{made}");
    assert_eq!((&made["namespace"], &made["source"]), (&"default".into(), &"127.0.0.1".into()), "{made}");
    assert!(made["agent"].as_str().unwrap().starts_with("firesteel-cli/"), "{made}");
    let refused = next("the stranger is refused", &|record| record["code"] == 401);
    assert_eq!((&refused["user"], &refused["resource"]), (&"".into(), &"baremetalhosts".into()), "{refused}");
    following.kill().unwrap();
    following.wait().unwrap();

    let last = output(appliance.command().args(["audit", "--tail", "1"]));
    assert_eq!(serde_json::from_str::<serde_json::Value>(&last).unwrap()["code"], 401, "{last}");
}

#[test]
fn the_key_of_the_secrets_is_changed_while_it_serves() {
    let mut appliance = Appliance::start(PROGRAM);
    let key_file = appliance.data().join("secrets/at-rest.key");
    let key = fs::read(&key_file).unwrap();
    let secret = appliance.folder().join("s.yaml");
    fs::write(&secret, "apiVersion: v1\nkind: Secret\nmetadata: {name: s1}\nstringData: {password: hunter2}\n")
        .unwrap();
    output(appliance.command().args(["apply", "--filename"]).arg(&secret));
    let said = output(appliance.command().arg("rekey"));
    assert!(said.starts_with("1 values of secrets are sealed by the new key"), "{said}");
    assert_ne!(fs::read(&key_file).unwrap(), key);
    let shown = |appliance: &Appliance| output(appliance.command().args(["get", "secrets", "s1", "--output", "json"]));
    assert!(shown(&appliance).contains("aHVudGVyMg=="), "{}", shown(&appliance));
    appliance.kill_and_start_again();
    assert!(shown(&appliance).contains("aHVudGVyMg=="));
}
